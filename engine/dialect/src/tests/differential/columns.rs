//! Random batches with columns of every kind of type, in every layout.

use super::super::batch;
use super::random::{Random, WORDS};
use crate::types::{list_of, object_of};
use crate::value::{Value, build};
use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, TimeUnit};
use std::sync::Arc;

/// A value of a type, null one time in six.
fn value(random: &mut Random<'_>, ty: &DataType) -> Value {
    random
        .maybe(|random| match ty {
            DataType::Boolean => Value::Bool(random.below(2) == 0),
            DataType::Int8 => Value::Int((random.next() as i8).into()),
            DataType::Int16 => Value::Int((random.next() as i16).into()),
            DataType::Int32 => Value::Int((random.next() as i32).into()),
            DataType::UInt8 => Value::Int((random.next() as u8).into()),
            DataType::UInt32 => Value::Int((random.next() as u32).into()),
            DataType::UInt64 => Value::Int((random.integer() as u64).into()),
            DataType::Int64 => Value::Int(random.integer().into()),
            DataType::Float32 => Value::Float(f64::from(random.float() as f32)),
            DataType::Float64 => Value::Float(random.float()),
            DataType::Decimal128(digits, _) => Value::Decimal(random.decimal(u32::from(*digits))),
            DataType::Utf8View => Value::Text(random.pick(&WORDS).to_string()),
            DataType::Binary => Value::Bytes(random.pick(&WORDS).as_bytes().to_vec()),
            DataType::Date32 => {
                let shift = random.below(2) * 16;
                Value::Time(((random.next() as i32) >> shift).into())
            }
            DataType::Time64(_) => Value::Time((random.next() % 86_400_000_000) as i64),
            DataType::Timestamp(TimeUnit::Second, _) => Value::Time(random.ticks() / 1_000),
            DataType::Timestamp(TimeUnit::Millisecond, _) => Value::Time(random.ticks()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Value::Time(random.ticks().wrapping_mul(1_000)),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Value::Time(random.ticks().wrapping_mul(1_000_003)),
            DataType::List(item) => Value::List((0..random.below(4)).map(|_| value(random, item.data_type())).collect()),
            DataType::Struct(fields) => Value::Object(fields.iter().map(|field| value(random, field.data_type())).collect()),
            _ => Value::Null,
        })
        .unwrap_or(Value::Null)
}

pub(super) fn random_batch(random: &mut Random<'_>, rows: usize) -> RecordBatch {
    use DataType::*;
    let text = Utf8View;
    let pair = object_of(vec![("a".into(), Int64), ("s".into(), text.clone())]);
    let turned = object_of(vec![("s".into(), text.clone()), ("a".into(), Float64)]);
    let deep = object_of(vec![("o".into(), pair.clone()), ("l".into(), list_of(text.clone())), ("d".into(), Decimal128(10, 2))]);
    let three = object_of(["a", "b", "c"].map(|name| (name.to_string(), Int64)).to_vec());
    let millis = Timestamp(TimeUnit::Millisecond, None);
    let types = [
        ("b", Boolean),
        ("i", Int64),
        ("i8", Int8),
        ("i16", Int16),
        ("i32", Int32),
        ("u8", UInt8),
        ("u32", UInt32),
        ("u64", UInt64),
        ("f", Float64),
        ("f32", Float32),
        ("d", Decimal128(10, 2)),
        ("e", Decimal128(38, 10)),
        ("s", text.clone()),
        ("s2", text.clone()),
        ("bin", Binary),
        ("time", Time64(TimeUnit::Microsecond)),
        ("day", Date32),
        ("t", millis.clone()),
        ("t2", millis.clone()),
        ("ts", Timestamp(TimeUnit::Second, None)),
        ("tu", Timestamp(TimeUnit::Microsecond, None)),
        ("tn", Timestamp(TimeUnit::Nanosecond, None)),
        ("tz", Timestamp(TimeUnit::Millisecond, Some("Europe/Berlin".into()))),
        ("l", list_of(Int64)),
        ("lf", list_of(Float64)),
        ("ld", list_of(Decimal128(10, 2))),
        ("lb", list_of(Boolean)),
        ("lt", list_of(millis)),
        ("lv", list_of(text.clone())),
        ("ll", list_of(list_of(Int64))),
        ("lls", list_of(list_of(text.clone()))),
        ("lo", list_of(pair.clone())),
        ("st", pair),
        ("st2", turned),
        ("deep", deep),
        ("abc", three),
        ("z", Null),
    ];
    // A few rows more, cut off at the front, so that no array begins with its buffers.
    let made = rows + 3;
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    for (name, ty) in types {
        let values: Vec<Value> = (0..made).map(|_| value(random, &ty)).collect();
        columns.push((name, build(&ty, &values)));
    }
    let mut others = |name: &'static str, ty: DataType, layout: DataType| {
        let values: Vec<Value> = (0..made).map(|_| value(random, &ty)).collect();
        columns.push((name, cast(&build(&ty, &values), &layout).unwrap()));
    };
    others("s3", text.clone(), Utf8);
    others("dict", text.clone(), Dictionary(Box::new(Int32), Box::new(Utf8)));
    others("large", list_of(Int32), LargeList(Arc::new(Field::new_list_field(Int32, true))));
    others("ls", list_of(text.clone()), List(Arc::new(Field::new_list_field(Utf8, true))));
    let whole = |random: &mut Random<'_>| Value::Int(random.below(20) as i128);
    columns.push(("i2", build(&Int64, &(0..made).map(|_| whole(random)).collect::<Vec<_>>())));
    columns.push(("f2", build(&Float64, &(0..made).map(|_| Value::Float(random.below(20) as f64)).collect::<Vec<_>>())));
    columns.push(("b2", build(&Boolean, &(0..made).map(|_| Value::Bool(random.below(10) > 0)).collect::<Vec<_>>())));
    batch(columns).slice(3, rows)
}

//! One column, its type looked up once per batch.

use super::{openings, time, write_object, write_text};
use std::io::Write;
use tidegate_sdk::arrow::array::types::{
    Date32Type, Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use tidegate_sdk::arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Decimal256Array, LargeBinaryArray, LargeStringArray, StringArray,
    cast::AsArray,
};
use tidegate_sdk::arrow::buffer::NullBuffer;
use tidegate_sdk::arrow::schema::{DataType, TimeUnit};
use tidegate_sdk::{Error, Result};

/// A column and how its values are written.
pub(super) struct Column<'a> {
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Null,
    Bool(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    UInt8(&'a [u8]),
    UInt16(&'a [u16]),
    UInt32(&'a [u32]),
    UInt64(&'a [u64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Decimal128(&'a Decimal128Array),
    Decimal256(&'a Decimal256Array),
    Text(&'a StringArray),
    LargeText(&'a LargeStringArray),
    Bytes(&'a BinaryArray),
    LargeBytes(&'a LargeBinaryArray),
    Date(&'a [i32]),
    Time32(&'a [i32], TimeUnit),
    Time64(&'a [i64], TimeUnit),
    Timestamp { values: &'a [i64], unit: TimeUnit, zoned: bool },
    List { offsets: &'a [i32], items: Box<Column<'a>> },
    LargeList { offsets: &'a [i64], items: Box<Column<'a>> },
    Struct { before: Vec<Vec<u8>>, columns: Vec<Column<'a>> },
}

impl<'a> Column<'a> {
    pub(super) fn of(array: &'a ArrayRef) -> Result<Self> {
        Ok(Column { nulls: array.nulls(), values: values(array)? })
    }

    /// Writes the value at `row`.
    pub(super) fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            return out.extend_from_slice(b"null");
        }
        match &self.values {
            Values::Null => out.extend_from_slice(b"null"),
            Values::Bool(values) => out.extend_from_slice(if values.value(row) { b"true" } else { b"false" }),
            Values::Int8(values) => number(values[row], out),
            Values::Int16(values) => number(values[row], out),
            Values::Int32(values) => number(values[row], out),
            Values::Int64(values) => number(values[row], out),
            Values::UInt8(values) => number(values[row], out),
            Values::UInt16(values) => number(values[row], out),
            Values::UInt32(values) => number(values[row], out),
            Values::UInt64(values) => number(values[row], out),
            // What is no number is written as null by the library.
            Values::Float32(values) => number(values[row], out),
            Values::Float64(values) => number(values[row], out),
            Values::Decimal128(values) => decimal::<Decimal128Type>(values.value(row), values.precision(), values.scale(), out),
            Values::Decimal256(values) => decimal::<Decimal256Type>(values.value(row), values.precision(), values.scale(), out),
            Values::Text(values) => write_text(values.value(row), out),
            Values::LargeText(values) => write_text(values.value(row), out),
            Values::Bytes(values) => hexadecimal(values.value(row), out),
            Values::LargeBytes(values) => hexadecimal(values.value(row), out),
            Values::Date(values) => time::write_date(i64::from(values[row]), out),
            Values::Time32(values, unit) => time::write_time(i64::from(values[row]), *unit, out),
            Values::Time64(values, unit) => time::write_time(values[row], *unit, out),
            Values::Timestamp { values, unit, zoned } => time::write_timestamp(values[row], *unit, *zoned, out),
            Values::List { offsets, items } => list(items, offsets[row] as usize, offsets[row + 1] as usize, out),
            Values::LargeList { offsets, items } => list(items, offsets[row] as usize, offsets[row + 1] as usize, out),
            Values::Struct { before, columns } => write_object(before, columns, row, out),
        }
    }
}

fn values(array: &ArrayRef) -> Result<Values<'_>> {
    Ok(match array.data_type() {
        DataType::Null => Values::Null,
        DataType::Boolean => Values::Bool(array.as_boolean()),
        DataType::Int8 => Values::Int8(array.as_primitive::<Int8Type>().values()),
        DataType::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values()),
        DataType::Int32 => Values::Int32(array.as_primitive::<Int32Type>().values()),
        DataType::Int64 => Values::Int64(array.as_primitive::<Int64Type>().values()),
        DataType::UInt8 => Values::UInt8(array.as_primitive::<UInt8Type>().values()),
        DataType::UInt16 => Values::UInt16(array.as_primitive::<UInt16Type>().values()),
        DataType::UInt32 => Values::UInt32(array.as_primitive::<UInt32Type>().values()),
        DataType::UInt64 => Values::UInt64(array.as_primitive::<UInt64Type>().values()),
        DataType::Float32 => Values::Float32(array.as_primitive::<Float32Type>().values()),
        DataType::Float64 => Values::Float64(array.as_primitive::<Float64Type>().values()),
        DataType::Decimal128(_, _) => Values::Decimal128(array.as_primitive::<Decimal128Type>()),
        DataType::Decimal256(_, _) => Values::Decimal256(array.as_primitive::<Decimal256Type>()),
        DataType::Utf8 => Values::Text(array.as_string()),
        DataType::LargeUtf8 => Values::LargeText(array.as_string()),
        DataType::Binary => Values::Bytes(array.as_binary()),
        DataType::LargeBinary => Values::LargeBytes(array.as_binary()),
        DataType::Date32 => Values::Date(array.as_primitive::<Date32Type>().values()),
        DataType::Time32(TimeUnit::Second) => Values::Time32(array.as_primitive::<Time32SecondType>().values(), TimeUnit::Second),
        DataType::Time32(_) => Values::Time32(array.as_primitive::<Time32MillisecondType>().values(), TimeUnit::Millisecond),
        DataType::Time64(TimeUnit::Nanosecond) => {
            Values::Time64(array.as_primitive::<Time64NanosecondType>().values(), TimeUnit::Nanosecond)
        }
        DataType::Time64(_) => Values::Time64(array.as_primitive::<Time64MicrosecondType>().values(), TimeUnit::Microsecond),
        DataType::Timestamp(unit, zone) => {
            let values: &[i64] = match unit {
                TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
                TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
                TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
                TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
            };
            Values::Timestamp { values, unit: *unit, zoned: zone.is_some() }
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            Values::List { offsets: lists.value_offsets(), items: Box::new(Column::of(lists.values())?) }
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            Values::LargeList { offsets: lists.value_offsets(), items: Box::new(Column::of(lists.values())?) }
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter().map(Column::of).collect::<Result<_>>()?;
            Values::Struct { before: openings(fields.iter().map(|field| field.name().as_str())), columns }
        }
        other => return Err(Error::fatal(format!("a column of type {other} came, which was not agreed"))),
    })
}

fn number(value: impl serde::Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, &value).expect("a number has a JSON form, and memory takes it");
}

fn decimal<T: DecimalType>(value: T::Native, precision: u8, scale: i8, out: &mut Vec<u8>) {
    write!(out, "\"{}\"", T::format_decimal(value, precision, scale)).expect("memory takes it");
}

fn hexadecimal(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in bytes {
        write!(out, "{byte:02x}").expect("memory takes it");
    }
    out.push(b'"');
}

fn list(items: &Column<'_>, start: usize, end: usize, out: &mut Vec<u8>) {
    out.push(b'[');
    for index in start..end {
        if index > start {
            out.push(b',');
        }
        items.write(index, out);
    }
    out.push(b']');
}

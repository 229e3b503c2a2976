//! Keys and times of other types than the random tests have.

use crate::step::StreamType;
use crate::testing::{self, Act};
use arrow::array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int32Array, Int64Array, ListArray,
    RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int16Type, Int32Type};
use serde_json::{Value, json};
use std::sync::Arc;

fn keyed(key: ArrayRef) -> RecordBatch {
    let rows = key.len() as i64;
    let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0; rows as usize]));
    let number: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows));
    RecordBatch::try_from_iter_with_nullable([("key", key, true), ("t", times, true), ("n", number, true)]).unwrap()
}

fn run(step: &Value, left: &RecordBatch, right: &RecordBatch, tasks: usize) -> Vec<String> {
    let inputs = [StreamType::append(left.schema()), StreamType::append(right.schema())];
    let mut job = testing::Job::new(testing::bind(step, &inputs, false), tasks, 3);
    job.run(&[Act::Rows(0, left.clone()), Act::Snapshot, Act::Rows(1, right.clone()), Act::Crash(2)], true);
    job.made.rows()
}

/// Which rows of two key columns meet, by number.
fn meet(left: ArrayRef, right: ArrayRef) -> Vec<(usize, usize)> {
    let step = json!({ "op": "streamJoin", "joinKey": "key", "timeColumn": "t", "windowMs": 0 });
    let (left, right) = (keyed(left), keyed(right));
    let pairs = |tasks: usize| {
        let made = run(&step, &left, &right, tasks);
        let pairs = made.iter().map(|row| {
            let cells: Vec<&str> = row.split(' ').collect();
            (cells[cells.len() - 3].parse().unwrap(), cells[cells.len() - 1].parse().unwrap())
        });
        let mut pairs: Vec<(usize, usize)> = pairs.collect();
        pairs.sort_unstable();
        pairs
    };
    let whole = pairs(1);
    assert_eq!(pairs(5), whole, "rows of one key are in different tasks");
    whole
}

#[test]
fn integers_of_every_width_floats_and_decimals_meet_by_value() {
    let int: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(-2), Some(i64::MAX), None]));
    assert_eq!(meet(Arc::clone(&int), Arc::new(Int32Array::from(vec![Some(-2), None, Some(1)]))), [(0, 2), (1, 0)]);
    assert_eq!(meet(Arc::clone(&int), Arc::new(UInt64Array::from(vec![u64::MAX - 1, i64::MAX as u64, 1]))), [(0, 2), (2, 1)]);
    assert_eq!(meet(Arc::clone(&int), Arc::new(Float64Array::from(vec![1.0, -2.5, -2.0, f64::NAN]))), [(0, 0), (1, 2)]);
    let decimal: ArrayRef = Arc::new(Decimal128Array::from(vec![100, -200, 150]).with_precision_and_scale(20, 2).unwrap());
    assert_eq!(meet(int, Arc::clone(&decimal)), [(0, 0), (1, 1)]);
    let finer: ArrayRef = Arc::new(Decimal128Array::from(vec![15_000, 10_001]).with_precision_and_scale(38, 4).unwrap());
    assert_eq!(meet(decimal, finer), [(2, 0)]);
    let floats: ArrayRef = Arc::new(Float32Array::from(vec![0.0, f32::NAN, 1.5]));
    let wide: ArrayRef = Arc::new(Float64Array::from(vec![-f64::NAN, 1.5, -0.0]));
    let half = cast(&floats, &DataType::Float16).unwrap();
    assert_eq!(meet(floats, Arc::clone(&wide)), [(0, 2), (1, 0), (2, 1)]);
    assert_eq!(meet(half, wide), [(0, 2), (1, 0), (2, 1)]);
}

#[test]
fn texts_times_and_bools_meet_in_every_form() {
    let long = "a text that no view holds inside";
    let view: ArrayRef = Arc::new(StringViewArray::from(vec![Some("x"), None, Some(long)]));
    let plain: ArrayRef = Arc::new(StringArray::from(vec![Some(long), Some("x"), None]));
    let dictionary: DictionaryArray<Int16Type> = vec![Some("x"), None, Some(long)].into_iter().collect();
    assert_eq!(meet(Arc::clone(&view), plain), [(0, 1), (2, 0)]);
    assert_eq!(meet(view, Arc::new(dictionary)), [(0, 0), (2, 2)]);
    let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![-1, 5]).with_timezone("UTC"));
    assert_eq!(meet(seconds, Arc::new(TimestampMicrosecondArray::from(vec![5_000_000, -1_000_000, 5_000_001]))), [(0, 1), (1, 0)]);
    let bools = || -> ArrayRef { Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])) };
    assert_eq!(meet(bools(), bools()), [(0, 0), (2, 2)]);
}

#[test]
fn columns_of_any_type_are_carried() {
    let list: ArrayRef =
        Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![]), Some(vec![Some(7)])]));
    let with = |key: Vec<i64>| {
        let plain = keyed(Arc::new(Int64Array::from(key)));
        let fields = [("key", 0), ("t", 1)].map(|(name, index)| (name, Arc::clone(plain.column(index)), true));
        RecordBatch::try_from_iter_with_nullable(fields.into_iter().chain([("list", Arc::clone(&list), true)])).unwrap()
    };
    let step = json!({ "op": "streamJoin", "joinKey": "key", "timeColumn": "t", "windowMs": 0, "kind": "full", "rightPrefix": "r_" });
    let made = run(&step, &with(vec![1, 2, 3, 4]), &with(vec![4, 3, 2, 9]), 1);
    assert_eq!(made.len(), 5);
    assert!(made.iter().any(|row| row.starts_with('4') && row.contains("[7]") && row.contains("[1, ]")), "{made:?}");
}

#[test]
fn times_of_different_units_are_compared_in_milliseconds() {
    let at = |times: ArrayRef| {
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![1; times.len()]));
        RecordBatch::try_from_iter([("key", keys), ("t", times)]).unwrap()
    };
    let left = at(Arc::new(TimestampSecondArray::from(vec![-1])));
    let right = at(Arc::new(TimestampMicrosecondArray::from(vec![-1_500_001, -1_500_000, -499_001, -499_000])));
    let step = json!({ "op": "streamJoin", "joinKey": "key", "timeColumn": "t", "window": "500ms" });
    assert_eq!(run(&step, &left, &right, 1).len(), 2, "half a second on either side, before 1970");
}

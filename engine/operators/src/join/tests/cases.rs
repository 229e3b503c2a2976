//! Reported situations of joins, each under its number in `docs/cases.md`.

use super::harness::{Row, left, results, right, row, step};
use crate::parse_step;
use crate::step::{BindCtx, StreamType};
use crate::testing::{self, Act};
use arrow::array::{
    ArrayRef, BinaryArray, Decimal128Array, Int64Array, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray,
};
use arrow::datatypes::DataType;
use serde_json::json;
use std::sync::Arc;
use tidegate_api::EventTime;

fn pair(a: Option<i64>, b: Option<&str>) -> Row {
    Row { t: Some(0), k: a, s: b.map(str::to_string), ..Row::default() }
}

#[test]
fn p054_a_pair_is_found_whichever_input_comes_first() {
    let (a, b) = (row(10_000, 1, 1), row(11_000, 1, 2));
    let step = step("inner", &["k"], -60_000, 60_000);
    let one = results(&step, &[left(std::slice::from_ref(&a)), right(std::slice::from_ref(&b))]);
    assert_eq!(one, ["10000 1 - - 1 11000 - - 2"]);
    assert_eq!(results(&step, &[right(&[b]), left(&[a])]), one);
}

#[test]
fn p066_times_are_compared_in_milliseconds_as_event_time_is() {
    let schema = |rows: &[(i64, i64, i64)]| {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("k", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)))),
            ("v", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)))),
            ("rt", Arc::new(TimestampNanosecondArray::from_iter_values(rows.iter().map(|row| row.2)))),
        ];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let (a, b) = (schema(&[(1, 1, 2_000_999_999)]), schema(&[(1, 10, 1_000_000_001)]));
    let inputs = [StreamType::append(a.schema()), StreamType::append(b.schema())];
    let step = json!({ "op": "streamJoin", "joinKey": "k", "timeColumn": "rt", "windowMs": 1000 });
    let mut job = testing::Job::new(testing::bind(&step, &inputs, false), 1, 10);
    job.run(&[Act::Rows(0, a), Act::Rows(1, b)], true);
    assert_eq!(job.made.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
}

#[test]
fn p104_a_null_key_equals_nothing_in_any_column() {
    let rows = [
        pair(Some(1), Some("1")),
        pair(Some(2), Some("2")),
        pair(Some(1), None),
        pair(None, Some("2")),
        pair(Some(2), None),
        pair(None, Some("1")),
        pair(None, None),
    ];
    let acts = [left(&rows), right(&rows)];
    assert_eq!(results(&step("inner", &["k", "s"], 0, 0), &acts), ["0 1 \"1\" - - 0 - -", "0 2 \"2\" - - 0 - -"]);
    assert_eq!(results(&step("full", &["k", "s"], 0, 0), &acts).len(), 2 + 5 + 5);
    assert_eq!(results(&step("semi", &["k", "s"], 0, 0), &acts).len(), 2);
    assert_eq!(results(&step("anti", &["k", "s"], 0, 0), &acts).len(), 5);
}

#[test]
fn p106_p107_nan_zeros_and_null_keys_do_not_depend_on_batches() {
    let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
    let floats = [Some(0.0), Some(-0.0), Some(f64::NAN), Some(other_nan), Some(f64::INFINITY), Some(-f64::NAN), None, Some(1.5), None];
    let rows: Vec<Row> = floats.iter().map(|f| Row { t: Some(0), f: *f, ..Row::default() }).collect();
    let step = step("inner", &["f"], 0, 0);
    let whole = results(&step, &[left(&rows), right(&rows)]);
    // Two zeros, three NaN, an infinity, a number.
    assert_eq!(whole.len(), 4 + 9 + 1 + 1);
    for size in [1, 2] {
        let cut = |side: fn(&[Row]) -> Act| rows.chunks(size).map(side).collect::<Vec<_>>();
        let acts: Vec<Act> = cut(left).into_iter().zip(cut(right)).flat_map(|(left, right)| [left, right]).collect();
        assert_eq!(results(&step, &acts), whole);
    }
}

#[test]
fn p117_a_key_meets_its_equal_of_another_type_with_any_number_of_tasks() {
    let times = || -> ArrayRef { Arc::new(Int64Array::from(vec![0; 40])) };
    let texts: Vec<String> = (0..40).map(|row| format!("a text that no view holds, {row}")).collect();
    let plain = RecordBatch::try_from_iter([("k", Arc::new(StringArray::from(texts.clone())) as ArrayRef), ("t", times())]).unwrap();
    let views =
        RecordBatch::try_from_iter([("k", Arc::new(StringViewArray::from_iter_values(&texts)) as ArrayRef), ("t", times())]).unwrap();
    assert_ne!(plain.column(0).data_type(), &DataType::Utf8View);
    let inputs = [StreamType::append(plain.schema()), StreamType::append(views.schema())];
    let step = json!({ "op": "streamJoin", "joinKey": "k", "timeColumn": "t", "windowMs": 0 });
    for tasks in [1, 2, 7] {
        let mut job = testing::Job::new(testing::bind(&step, &inputs, false), tasks, 10);
        job.run(&[Act::Rows(0, plain.clone()), Act::Rows(1, views.clone())], false);
        assert_eq!(job.made.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 40);
    }
}

#[test]
fn p120_a_row_that_had_a_partner_is_no_outer_row_when_the_partner_is_gone() {
    // The right row leaves at 5, the left one waits until 105.
    let acts = [left(&[row(5, 1, 1)]), right(&[row(5, 1, 2)]), Act::Watermark(50), Act::Snapshot, Act::Crash(2), Act::Watermark(200)];
    assert_eq!(results(&step("left", &["k"], 0, 100), &acts), ["5 1 - - 1 5 - - 2"]);
}

#[test]
fn p138_p143_state_returns_to_nothing_when_keys_are_seen_once() {
    let mut job = super::harness::job(&step("full", &["k"], -10, 10), 1, 8192);
    for part in 0..50 {
        let rows: Vec<Row> = (0..500).map(|row_number| row(part * 10, part * 1000 + row_number, 0)).collect();
        job.batch(0, &super::harness::batch(&rows));
        job.watermark(EventTime::from_millis(part * 10 - 20));
    }
    job.watermark(EventTime::from_millis(10_000));
    let snapshot = job.snapshot();
    // Nothing but how far time has come.
    assert_eq!(snapshot.len(), 1);
    assert_eq!(job.made.rows().len(), 25_000);
    // A key comes again after all of it was forgotten.
    job.batch(1, &super::harness::batch(&[row(10_001, 3, 0)]));
    job.batch(0, &super::harness::batch(&[row(10_002, 3, 7)]));
    assert_eq!(job.made.rows().iter().filter(|row| row.starts_with("10002 3")).count(), 1);
}

#[test]
fn p123_a_key_is_one_value_whatever_its_zone_unit_or_scale() {
    let of = |key: ArrayRef| {
        let times: ArrayRef = Arc::new(Int64Array::from(vec![0; key.len()]));
        RecordBatch::try_from_iter([("k", key), ("t", times)]).unwrap()
    };
    let decimals =
        |values: Vec<i128>, scale: i8| -> ArrayRef { Arc::new(Decimal128Array::from(values).with_precision_and_scale(20, scale).unwrap()) };
    let here: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![-1, 1_700_000_000_000]).with_timezone("UTC"));
    let there: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![-1000, 1_700_000_000_000_000]).with_timezone("Asia/Tokyo"));
    let step = json!({ "op": "streamJoin", "joinKey": "k", "timeColumn": "t", "windowMs": 0 });
    for (left, right) in [(here, there), (decimals(vec![150, -5], 2), decimals(vec![1500, -50], 3))] {
        let (left, right) = (of(left), of(right));
        let inputs = [StreamType::append(left.schema()), StreamType::append(right.schema())];
        for tasks in [1, 3] {
            let mut job = testing::Job::new(testing::bind(&step, &inputs, false), tasks, 10);
            job.run(&[Act::Rows(0, left.clone()), Act::Rows(1, right.clone())], true);
            assert_eq!(job.made.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
        }
    }
    // Bytes are no text: nothing would ever match, and that is said.
    let (text, bytes) = (of(Arc::new(StringArray::from(vec!["a"]))), of(Arc::new(BinaryArray::from(vec![b"a".as_slice()]))));
    let inputs = [StreamType::append(text.schema()), StreamType::append(bytes.schema())];
    let found = parse_step(&step).unwrap().bind(&inputs, &BindCtx::new()).map(|_| ()).unwrap_err();
    assert!(found.iter().any(|problem| problem.to_string().contains("never equal")), "{found:?}");
}

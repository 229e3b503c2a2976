//! Single behaviours, each named after what a user would see.

use crate::lean::testing::*;
use crate::step::StreamType;
use crate::testing::{Job, bind, shown};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, TimestampMillisecondArray, UInt8Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::{BadReason, ChangeMode, EventTime, hidden};

pub(super) fn job(step: &Value) -> Job {
    Job::new(bind(step, &[StreamType::append(schema())], false), 2, 100)
}

fn first_two() -> Value {
    json!({ "op": "topN", "orderBy": "v", "n": 2, "groupBy": ["k"] })
}

/// What was emitted since the last call, in order: `op` and the cells.
pub(super) fn emitted(job: &mut Job) -> Vec<String> {
    let mut made = Vec::new();
    for batch in job.made.batches.drain(..) {
        let op = batch.schema_ref().index_of(hidden::OP).unwrap();
        for row in 0..batch.num_rows() {
            let cells: Vec<String> =
                (0..batch.num_columns()).filter(|index| *index != op).map(|index| shown(batch.column(index), row)).collect();
            let sign = if shown(batch.column(op), row) == "1" { "-" } else { "+" };
            made.push(format!("{sign} {}", cells.join(" ")));
        }
    }
    made
}

#[test]
fn only_the_ranks_that_have_another_row_are_told() {
    let mut job = job(&first_two());
    job.batch(0, &batch(&[row(1, 7, 10), row(2, 7, 20), row(3, 7, 5)]));
    assert_eq!(emitted(&mut job), ["+ 7 1 2 - 20 -", "+ 7 2 1 - 10 -"]);
    job.batch(0, &batch(&[row(4, 7, 15)]));
    assert_eq!(emitted(&mut job), ["+ 7 2 4 - 15 -"]);
    job.batch(0, &batch(&[row(5, 7, 3)]));
    assert!(emitted(&mut job).is_empty());
    job.batch(0, &batch(&[row(6, 7, 30)]));
    assert_eq!(emitted(&mut job), ["+ 7 1 6 - 30 -", "+ 7 2 2 - 20 -"]);
}

#[test]
fn a_batch_tells_only_its_outcome() {
    let mut job = job(&json!({ "op": "topN", "orderBy": "t", "n": 1, "groupBy": ["k"] }));
    job.batch(0, &batch(&[row(1, 7, 1), row(3, 7, 2), row(2, 7, 3), row(1, 8, 4)]));
    assert_eq!(emitted(&mut job).len(), 2);
    job.batch(0, &batch(&[row(3, 7, 2)]));
    assert!(emitted(&mut job).is_empty(), "an equal row changes nothing");
}

#[test]
fn rows_without_a_value_to_order_by_are_left_out() {
    let mut job = job(&first_two());
    job.batch(0, &batch(&[Row { v: None, ..row(1, 7, 0) }, row(2, 7, 1)]));
    assert_eq!((job.made.filtered, emitted(&mut job).len()), (1, 1));
}

#[test]
fn ties_beyond_the_columns_named_are_broken_alike_in_every_order() {
    for ties in [json!([]), json!("t"), json!(["t", "k"])] {
        let step = json!({ "op": "topN", "orderBy": "v", "tieBy": ties, "n": 1 });
        let rows: Vec<Row> = ["a", "b", "c", "d"].iter().map(|s| Row { s: Some((*s).into()), ..row(1, 1, 5) }).collect();
        let winner = |rows: Vec<Row>, cut: usize| {
            let mut job = Job::new(bind(&step, &[StreamType::append(schema())], false), 1, 100);
            rows.chunks(cut).for_each(|rows| job.batch(0, &batch(rows)));
            table(&job.made, &["rank"]).into_values().collect::<Vec<_>>()
        };
        let first = winner(rows.clone(), 4);
        for start in 0..4 {
            let mut turned = rows.clone();
            turned.rotate_left(start);
            for cut in 1..4 {
                assert_eq!(winner(turned.clone(), cut), first);
            }
        }
    }
}

#[test]
fn more_changes_than_fit_are_told_in_portions_before_the_barrier() {
    let step = json!({ "op": "topN", "orderBy": "v", "n": 1000 });
    let mut job = Job::new(bind(&step, &[StreamType::append(schema())], false), 1, 10);
    job.batch(0, &batch(&(0..500).map(|v| row(0, 1, v)).collect::<Vec<_>>()));
    let rows = |job: &Job| job.made.batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    assert_eq!(rows(&job), 40);
    job.batch(0, &batch(&[row(0, 1, 1000)]));
    assert_eq!(rows(&job), 80);
    job.snapshot();
    let table = table(&job.made, &["rank"]);
    assert_eq!(table.len(), 501);
    assert_eq!(table["1"], "1 0 1 - 1000 -");
    assert_eq!(table["501"], "501 0 1 - 0 -");
}

#[test]
fn a_row_that_is_replaced_or_removed_gives_way_to_the_next() {
    let mode = ChangeMode::Upsert { keys: vec!["s".into()] };
    let mut job = Job::new(bind(&first_two(), &[StreamType { schema: updating(), mode }], false), 3, 100);
    let named = |s: &str, k: i64, v: i64| Row { s: Some(s.into()), ..row(0, k, v) };
    job.batch(0, &updates(&[named("a", 7, 30), named("b", 7, 20), named("c", 7, 10)]));
    assert_eq!(emitted(&mut job), ["+ 7 1 0 \"a\" 30 -", "+ 7 2 0 \"b\" 20 -"]);
    job.batch(0, &updates(&[named("a", 7, 5)]));
    assert_eq!(emitted(&mut job), ["+ 7 1 0 \"b\" 20 -", "+ 7 2 0 \"c\" 10 -"]);
    // It moves to another group.
    job.batch(0, &updates(&[named("b", 8, 1)]));
    let mut moved = emitted(&mut job);
    moved.sort();
    assert_eq!(moved, ["+ 7 1 0 \"c\" 10 -", "+ 7 2 0 \"a\" 5 -", "+ 8 1 0 \"b\" 1 -"]);
    job.batch(0, &updates(&[Row { gone: true, ..named("b", 8, 1) }, Row { gone: true, ..named("c", 7, 10) }]));
    let mut gone = emitted(&mut job);
    gone.sort();
    assert_eq!(gone, ["+ 7 1 0 \"a\" 5 -", "- 7 2 0 \"a\" 5 -", "- 8 1 0 \"b\" 1 -"]);
}

#[test]
fn windows_that_rows_name_close_when_the_watermark_is_behind_their_start() {
    let bound = DataType::Timestamp(TimeUnit::Millisecond, None);
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("windowStart", bound.clone(), false),
        Field::new("windowEnd", bound, false),
        Field::new("k", DataType::Int64, true),
        Field::new("n", DataType::Int64, true),
        hidden::op_field(),
    ]));
    let rows = |rows: &[(i64, i64, i64, u8)]| {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.0))),
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|row| row.0 + 10))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
            Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2))),
            Arc::new(UInt8Array::from_iter_values(rows.iter().map(|row| row.3))),
        ];
        RecordBatch::try_new(Arc::clone(&schema), columns).unwrap()
    };
    let step = json!({ "op": "topN", "orderBy": "n", "n": 1, "windowed": true });
    let mode = ChangeMode::Upsert { keys: ["windowStart", "windowEnd", "k"].map(str::to_string).to_vec() };
    let mut job = Job::new(bind(&step, &[StreamType { schema: Arc::clone(&schema), mode }], false), 2, 100);
    job.batch(0, &rows(&[(0, 1, 5, 0), (0, 2, 4, 0), (10, 1, 1, 0)]));
    job.batch(0, &rows(&[(0, 1, 3, 0), (0, 3, 9, 0), (0, 3, 9, 1)]));
    job.watermark(EventTime::from_millis(0));
    assert!(job.made.batches.is_empty());
    assert_eq!(job.output_watermark(EventTime::from_millis(7)), EventTime::from_millis(7));
    job.watermark(EventTime::from_millis(10));
    assert_eq!(job.made.rows(), ["0 10 1 2 4"]);
    job.batch(0, &rows(&[(0, 1, 50, 0)]));
    job.watermark(EventTime::MAX);
    assert_eq!((job.made.late, job.made.rows()), (1, vec!["0 10 1 2 4".to_string(), "10 20 1 1 1".to_string()]));
}

#[test]
fn a_time_that_has_no_window_is_a_bad_row() {
    let step = json!({ "op": "topN", "orderBy": "v", "n": 1, "windowed": true, "timeColumn": "t", "windowMs": 10 });
    let mut job = job(&step);
    job.batch(0, &batch(&[row(i64::MAX, 1, 1), row(i64::MIN, 1, 1), Row { t: None, ..row(0, 1, 1) }, row(-1, 1, 1)]));
    job.watermark(EventTime::MAX);
    let reasons: Vec<BadReason> = job.made.bad.iter().map(|bad| bad.reason).collect();
    assert_eq!(reasons, [BadReason::TypeMismatch, BadReason::TypeMismatch, BadReason::MissingValue]);
    assert_eq!(job.made.rows(), ["-10 0 1 -1 1 - 1 -"]);
    assert_eq!(job.output_watermark(EventTime::from_millis(-1)), EventTime::from_millis(-10));
}

#[test]
fn keys_are_those_of_group_and_rank() {
    let keys = |step: Value| -> Vec<Vec<u8>> {
        let mut job = Job::new(bind(&step, &[StreamType::append(schema())], true), 1, 100);
        job.batch(0, &batch(&[row(0, 7, 1)]));
        job.watermark(EventTime::MAX);
        let batch = &job.made.batches[0];
        let keys = batch.column_by_name(hidden::KEY).unwrap().as_binary::<i32>();
        (0..keys.len()).map(|row| keys.value(row).to_vec()).collect()
    };
    let integer = |value: u8| [2, 8, 0, 0, 0, value, 0, 0, 0, 0, 0, 0, 0];
    let time = |value: u8| [8, 9, 0, 0, 0, value, 0, 0, 0, 0, 0, 0, 0, 3];
    let group_and_rank = [integer(7), integer(1)].concat();
    assert_eq!(keys(first_two()), std::slice::from_ref(&group_and_rank));
    assert_eq!(keys(json!({ "op": "topN", "orderBy": "v", "n": 1, "groupBy": "k" })), std::slice::from_ref(&group_and_rank));
    let windowed = json!({ "op": "topN", "orderBy": "v", "n": 1, "groupBy": "k", "windowed": true, "timeColumn": "t", "windowMs": 10 });
    assert_eq!(keys(windowed), [[time(0).to_vec(), time(10).to_vec(), group_and_rank].concat()]);
}

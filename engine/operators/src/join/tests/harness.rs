//! The join tests' rows, and a job over them.

use crate::step::StreamType;
use crate::testing::{self, Act};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde_json::Value;
use std::sync::Arc;

/// One row of either input.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Row {
    pub(super) t: Option<i64>,
    pub(super) k: Option<i64>,
    pub(super) s: Option<String>,
    pub(super) f: Option<f64>,
    pub(super) v: Option<i64>,
}

/// A row with a time, a key and a value.
pub(super) fn row(t: i64, k: i64, v: i64) -> Row {
    Row { t: Some(t), k: Some(k), v: Some(v), ..Row::default() }
}

pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("k", DataType::Int64, true),
        Field::new("s", DataType::Utf8View, true),
        Field::new("f", DataType::Float64, true),
        Field::new("v", DataType::Int64, true),
    ]))
}

pub(super) fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.t).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.k).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.s.as_deref()).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|row| row.f).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|row| row.v).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Rows of the left input.
pub(super) fn left(rows: &[Row]) -> Act {
    Act::Rows(0, batch(rows))
}

/// Rows of the right input.
pub(super) fn right(rows: &[Row]) -> Act {
    Act::Rows(1, batch(rows))
}

/// Both inputs, as they are.
pub(super) fn inputs() -> [StreamType; 2] {
    [StreamType::append(schema()), StreamType::append(schema())]
}

/// A job of a join over the tests' rows.
pub(super) fn job(step: &Value, tasks: usize, batch_rows: usize) -> testing::Job {
    testing::Job::new(testing::bind(step, &inputs(), false), tasks, batch_rows)
}

/// A join on these keys.
pub(super) fn step(kind: &str, keys: &[&str], lower: i64, upper: i64) -> Value {
    serde_json::json!({
        "op": "streamJoin", "joinKey": keys, "timeColumn": "t", "lowerMs": lower, "upperMs": upper, "kind": kind,
    })
}

/// The output of a script as rows, whole and with a crash after every act; both must agree.
pub(super) fn results(step: &Value, acts: &[Act]) -> Vec<String> {
    let run = |paranoid: bool, tasks: usize, batch_rows: usize| {
        let mut job = job(step, tasks, batch_rows);
        job.run(acts, paranoid);
        assert!(job.made.bad.is_empty(), "{:?}", job.made.bad);
        job.made.rows()
    };
    let whole = run(false, 1, 100);
    assert_eq!(run(true, 1, 100), whole, "a crash after every act changes the result");
    assert_eq!(run(false, 3, 2), whole, "other tasks and batches change the result");
    whole
}

//! The window tests' rows, and a job over them.

use crate::step::StreamType;
use crate::testing;
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde_json::Value;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

pub(crate) use crate::testing::shown;

/// One row of the tests' schema.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Row {
    pub(crate) t: Option<i64>,
    pub(crate) k: Option<i64>,
    pub(crate) s: Option<String>,
    pub(crate) v: Option<i64>,
    pub(crate) f: Option<f64>,
}

/// A row with a time, a key and a value.
pub(crate) fn row(t: i64, k: i64, v: i64) -> Row {
    Row { t: Some(t), k: Some(k), v: Some(v), ..Row::default() }
}

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("k", DataType::Int64, true),
        Field::new("s", DataType::Utf8View, true),
        Field::new("v", DataType::Int64, true),
        Field::new("f", DataType::Float64, true),
    ]))
}

pub(crate) fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.t).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.k).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.s.as_deref()).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|row| row.v).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.f).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// What happens to a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Act {
    Rows(Vec<Row>),
    Watermark(i64),
    /// A barrier.
    Snapshot,
    /// Everything since the last snapshot is lost and comes again, with so many tasks.
    Crash(usize),
}

/// A job of a window step over the tests' rows.
pub(crate) struct Job(testing::Job);

impl Deref for Job {
    type Target = testing::Job;

    fn deref(&self) -> &testing::Job {
        &self.0
    }
}

impl DerefMut for Job {
    fn deref_mut(&mut self) -> &mut testing::Job {
        &mut self.0
    }
}

impl Job {
    pub(crate) fn new(step: &Value, tasks: usize, batch_rows: usize) -> Self {
        Job::with_keys(step, tasks, batch_rows, false)
    }

    pub(crate) fn with_keys(step: &Value, tasks: usize, batch_rows: usize, keyed: bool) -> Self {
        Job(testing::Job::new(testing::bind(step, &[StreamType::append(schema())], keyed), tasks, batch_rows))
    }

    pub(crate) fn rows(&mut self, rows: &[Row]) {
        self.0.batch(0, &batch(rows));
    }

    pub(crate) fn vnodes(&self, batch: &RecordBatch) -> Vec<u16> {
        self.0.vnodes(0, batch)
    }

    pub(crate) fn run(&mut self, acts: &[Act], paranoid: bool) {
        let acts: Vec<testing::Act> = acts.iter().map(Act::general).collect();
        self.0.run(&acts, paranoid);
    }
}

impl Act {
    fn general(&self) -> testing::Act {
        match self {
            Act::Rows(rows) => testing::Act::Rows(0, batch(rows)),
            Act::Watermark(millis) => testing::Act::Watermark(*millis),
            Act::Snapshot => testing::Act::Snapshot,
            Act::Crash(tasks) => testing::Act::Crash(*tasks),
        }
    }
}

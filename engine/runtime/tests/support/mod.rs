//! What the tests of whole jobs share: rows, a queue that forgets, a window operator, and the pipeline of two stages.
#![allow(dead_code, unreachable_pub, reason = "every test file uses its own part")]

pub mod doubles;
pub mod pipeline;
pub mod queue;
pub mod steps;
pub mod tumbling;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use std::sync::Arc;

/// A schema of int64 columns.
pub fn schema(names: &[&str]) -> SchemaRef {
    Arc::new(Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect::<Vec<_>>()))
}

/// A batch of int64 rows.
pub fn batch(schema: &SchemaRef, rows: &[Vec<i64>]) -> RecordBatch {
    let columns =
        (0..schema.fields().len()).map(|column| Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row[column]))) as ArrayRef);
    RecordBatch::try_new(Arc::clone(schema), columns.collect()).unwrap()
}

/// The rows of batches, sorted: a multiset.
pub fn sorted(batches: &[RecordBatch]) -> Vec<Vec<i64>> {
    let mut rows: Vec<Vec<i64>> = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            rows.push(batch.columns().iter().map(|column| column.as_primitive::<Int64Type>().value(row)).collect());
        }
    }
    rows.sort();
    rows
}

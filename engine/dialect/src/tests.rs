//! The dialect as a whole: its answers to awkward values, its mistakes, its manual, and the two evaluators held against each
//! other.

mod answers;
mod differential;
mod functions;
mod host;
mod lists;
mod manual;
mod mistakes;
mod names;
mod plan;
mod syntax;

use crate::value::Value;
use crate::{Compiled, Evaluated, bind};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use std::sync::Arc;
use tidegate_api::EventTime;

/// The epoch's time in these tests: 2026-01-31T12:00:00Z.
const NOW: EventTime = EventTime(1_769_860_800_000_000);

/// A batch of named columns.
fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let rows = columns.first().map_or(1, |(_, column)| column.len());
    let fields = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect::<Vec<_>>();
    let arrays = columns.into_iter().map(|(_, column)| column).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options).unwrap()
}

fn compile(text: &str, schema: &SchemaRef) -> Compiled {
    bind(text, schema).unwrap_or_else(|mistake| panic!("{}", mistake.render(text))).compile()
}

/// Evaluates a text over a batch, by both evaluators, which must agree.
fn evaluate(text: &str, batch: &RecordBatch) -> Evaluated {
    let compiled = compile(text, &batch.schema());
    let found = compiled.evaluate(batch, NOW);
    let (values, bad) = compiled.by_row(batch, NOW);
    assert_same(&found.values, &values, text);
    assert_eq!(found.bad, bad, "{text}");
    found
}

/// Each row's value in a short form; `bad` for a bad row.
fn rows(text: &str, batch: &RecordBatch) -> Vec<String> {
    let found = evaluate(text, batch);
    let mut shown: Vec<String> = (0..batch.num_rows()).map(|row| show(&Value::read(&found.values, row))).collect();
    for (row, _) in found.bad {
        shown[row] = "bad".to_string();
    }
    shown
}

fn show(value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) | Value::Decimal(value) => value.to_string(),
        Value::Float(value) if value.is_nan() => "NaN".to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Text(value) => format!("'{value}'"),
        Value::Time(value) => format!("@{value}"),
        Value::Bytes(value) => format!("{value:?}"),
        Value::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::Object(members) => format!("{{{}}}", members.iter().map(show).collect::<Vec<_>>().join(", ")),
        Value::Nested(value) => format!("{value:?}"),
    }
}

/// Equal types and equal values, bit for bit, but for the many bit patterns of NaN, which are one value.
#[track_caller]
fn assert_same(found: &ArrayRef, expected: &ArrayRef, what: &str) {
    assert_eq!(found.data_type(), expected.data_type(), "{what}");
    assert_eq!(found.len(), expected.len(), "{what}");
    for row in 0..found.len() {
        let (found, expected) = (show(&Value::read(found, row)), show(&Value::read(expected, row)));
        assert_eq!(found, expected, "row {row} of {what}");
    }
}

//! Columns that the plan carries beside the user's: deterministic row keys, the change kind of upsert rows, and where rows come
//! from.
//!
//! A hidden column's name starts with an underscore, is reserved, and stands behind the visible columns. Steps carry
//! hidden columns untouched; a sink task strips them before the sink sees the rows.

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

/// The deterministic key of a row (`Binary`); see [`crate::key`].
pub const KEY: &str = "_key";
/// The kind of an upsert row (`UInt8`): [`UPSERT`] or [`DELETE`].
pub const OP: &str = "_op";
/// The split that a row comes from (`Utf8View`): dataset and split, `orders/part-1`.
pub const SPLIT: &str = "_split";
/// What that split had promised before the row was handed over (`Int64`, microseconds): no more rows before this.
pub const PROMISED: &str = "_promised";
/// What it promises once the row is taken.
pub const PROMISES: &str = "_promises";
/// The value of [`OP`] for a row that replaces the one of equal keys.
pub const UPSERT: u8 = 0;
/// The value of [`OP`] for a row that removes the one of equal keys.
pub const DELETE: u8 = 1;

/// Whether `name` is a hidden column's.
pub fn is_hidden(name: &str) -> bool {
    matches!(name, KEY | OP | SPLIT | PROMISED | PROMISES)
}

/// The field of a hidden key column.
pub fn key_field() -> Field {
    Field::new(KEY, DataType::Binary, false)
}

/// The field of a hidden change-kind column.
pub fn op_field() -> Field {
    Field::new(OP, DataType::UInt8, false)
}

/// The fields of the hidden columns that say where a row comes from.
pub fn split_fields() -> [Field; 3] {
    [
        Field::new(SPLIT, DataType::Utf8View, false),
        Field::new(PROMISED, DataType::Int64, false),
        Field::new(PROMISES, DataType::Int64, false),
    ]
}

/// The schema without hidden columns.
pub fn visible_schema(schema: &SchemaRef) -> SchemaRef {
    if schema.fields().iter().all(|field| !is_hidden(field.name())) {
        return Arc::clone(schema);
    }
    let fields: Vec<_> = schema.fields().iter().filter(|field| !is_hidden(field.name())).cloned().collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// The batch without hidden columns; no copy.
pub fn visible(batch: &RecordBatch) -> RecordBatch {
    let kept: Vec<usize> = (0..batch.num_columns()).filter(|index| !is_hidden(batch.schema_ref().field(*index).name())).collect();
    if kept.len() == batch.num_columns() {
        return batch.clone();
    }
    batch.project(&kept).expect("the indices are the batch's own")
}

//! Rows: as the sources hold them, and as the sinks show them.

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// Unique in the world.
    pub id: i64,
    /// In milliseconds.
    pub time: i64,
    pub key: i64,
    pub value: i64,
}

/// A row of an output, by the columns asked for; `None` is null.
pub type Shown = Vec<Option<i64>>;

/// The schema of every source.
pub fn schema() -> SchemaRef {
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    Arc::new(Schema::new(["id", "time", "key", "value"].map(field).to_vec()))
}

pub fn batch(rows: &[Row]) -> RecordBatch {
    let column = |value: fn(&Row) -> i64| -> ArrayRef { Arc::new(Int64Array::from_iter_values(rows.iter().map(value))) };
    let columns = vec![column(|row| row.id), column(|row| row.time), column(|row| row.key), column(|row| row.value)];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The rows of an output, in order of their appearance.
pub fn shown(batches: &[RecordBatch], columns: &[&str]) -> Vec<Shown> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayRef> = columns
            .iter()
            .map(|name| batch.column_by_name(name).unwrap_or_else(|| panic!("no column `{name}` in {:?}", batch.schema())))
            .map(|column| cast(column, &DataType::Int64).unwrap())
            .collect();
        for row in 0..batch.num_rows() {
            let value = |column: &ArrayRef| column.is_valid(row).then(|| column.as_primitive::<Int64Type>().value(row));
            rows.push(columns.iter().map(value).collect());
        }
    }
    rows
}

/// The table that an output of updates amounts to: the last row of each key, unless it deletes. `keys` of the columns come first.
pub fn table(batches: &[RecordBatch], columns: &[&str], keys: usize) -> Vec<Shown> {
    let with_kind: Vec<&str> = columns.iter().copied().chain(["_op"]).collect();
    let mut table: BTreeMap<Shown, Shown> = BTreeMap::new();
    for mut row in shown(batches, &with_kind) {
        let kind = row.pop().flatten();
        let key = row[..keys].to_vec();
        if kind == Some(0) {
            table.insert(key, row)
        } else {
            table.remove(&key)
        };
    }
    table.into_values().collect()
}

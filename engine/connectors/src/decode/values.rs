//! Rows that come value by value, from connectors whose rows are not bytes of a format: exact, or told with their reason.

use super::cells::{CellError, Faults};
use super::column::{BytesAs, Column, Kind};
use super::typed::Value;
use super::{Wanted, column};
use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, SchemaRef};
use std::sync::Arc;
use tidegate_api::Result;

/// A batch being made of values.
pub(crate) struct ValueRows {
    wanted: Wanted,
    kind: Kind,
    columns: Vec<Column>,
    faults: Faults,
    rows: usize,
}

/// Whether a value of a database can be of this type.
pub(crate) fn is_value(data_type: &DataType) -> bool {
    column::is_scalar(data_type)
}

impl ValueRows {
    /// No rows yet. `source` is named where it cannot hold a type.
    ///
    /// # Errors
    /// `Config` for a type that no column can be made of.
    pub(crate) fn new(schema: SchemaRef, source: &'static str) -> Result<Self> {
        let (wanted, kind) = (Wanted::all(schema), Kind { format: source, bytes_as: BytesAs::Raw });
        let columns = kind.columns(&wanted, 0)?;
        Ok(ValueRows { wanted, kind, columns, faults: Faults::default(), rows: 0 })
    }

    /// Appends the value of a column to the row that is under way.
    pub(crate) fn append(&mut self, column: usize, value: Value<'_>) {
        self.columns[column].append_value(value, self.rows, &mut self.faults);
    }

    /// Ends the row: every column has its value.
    pub(crate) fn end_row(&mut self) {
        self.rows += 1;
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The rows so far, with null for what does not fit, and the first of these with its row.
    ///
    /// # Errors
    /// `Internal` when the columns make no batch.
    pub(crate) fn take(&mut self) -> Result<(RecordBatch, Option<(usize, CellError)>)> {
        let fresh = self.kind.columns(&self.wanted, self.rows)?;
        let (faults, rows) = (std::mem::take(&mut self.faults), std::mem::take(&mut self.rows));
        let columns = std::mem::replace(&mut self.columns, fresh);
        let arrays = columns.into_iter().map(Column::finish).collect::<Result<Vec<_>>>()?;
        // A value that is missing where none may be is a fault, so the batch is not under a schema that forbids it.
        let nullable = self.wanted.schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
        let schema = Arc::new(arrow::datatypes::Schema::new(nullable.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options)?;
        let first = faults.into_iter().next();
        Ok((batch, first))
    }
}

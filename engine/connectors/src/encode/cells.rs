//! Values one by one as plain text: what CSV has between its delimiters, without quotes.

use super::csv::push_bare;
use super::values::{Value, Values};
use super::{TextOptions, refused};
use arrow::array::RecordBatch;
use tidegate_api::Result;
use tidegate_api::sink::RowError;

/// The rows of a batch that have a text in every column. None of them may be nested.
pub(crate) struct Cells {
    columns: Vec<(String, Values)>,
    options: TextOptions,
}

impl Cells {
    /// Those rows, and the others in order. Rows that are left out do not count in [`Cells::push`].
    pub(crate) fn of(rows: &RecordBatch, options: TextOptions) -> Result<(Self, Vec<RowError>)> {
        let (kept, refused) = refused(rows, options.form())?;
        let columns = Values::of_rows(kept.as_ref().unwrap_or(rows))?;
        Ok((Cells { columns, options }, refused))
    }

    /// Appends a text; answers `false` for null, which has none.
    pub(crate) fn push(&self, row: usize, column: usize, out: &mut String) -> Result<bool> {
        let value = self.columns[column].1.get(row);
        push_bare(&value, self.options, out)?;
        Ok(!matches!(value, Value::Null))
    }
}

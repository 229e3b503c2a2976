//! CSV with a header. Null is nothing at all, an empty text is a pair of quotes, so reading it back gives the same rows.

use super::{Encoder, TextOptions, Written};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use std::fmt::Write;
use tidegate_api::sink::RowError;
use tidegate_api::{Error, Result, types};

/// Writes CSV.
pub struct CsvEncoder {
    rows: CsvRows,
    text: String,
}

/// Writes records.
pub(super) struct CsvRows {
    written: Written,
}

impl CsvEncoder {
    /// An encoder of rows of this schema; `header` says whether the first line names the columns.
    ///
    /// # Errors
    /// `Config` for a column that CSV cannot hold.
    pub fn new(schema: SchemaRef, options: TextOptions, header: bool) -> Result<Self> {
        check(&schema)?;
        let mut text = String::new();
        if header {
            for (index, field) in schema.fields().iter().enumerate() {
                push_separator(&mut text, index);
                push_text(&mut text, field.name());
            }
            text.push('\n');
        }
        Ok(CsvEncoder { rows: CsvRows::new(schema, options)?, text })
    }
}

/// Whether CSV can hold rows of this schema.
pub(crate) fn check(schema: &SchemaRef) -> Result<()> {
    match schema.fields().iter().find(|field| field.data_type().is_nested()) {
        None => Ok(()),
        Some(field) => Err(Error::config(format!(
            "column `{}`: CSV cannot hold the type `{}`, use another format or `drop` the column",
            field.name(),
            types::name(field.data_type())
        ))),
    }
}

fn push_separator(text: &mut String, index: usize) {
    if index > 0 {
        text.push(',');
    }
}

/// A text, quoted if it must be.
fn push_text(out: &mut String, text: &str) {
    let plain = !text.is_empty() && !text.bytes().any(|byte| matches!(byte, b',' | b'"' | b'\n' | b'\r'));
    if plain {
        out.push_str(text);
        return;
    }
    out.push('"');
    for (index, part) in text.split('"').enumerate() {
        if index > 0 {
            out.push_str("\"\"");
        }
        out.push_str(part);
    }
    out.push('"');
}

impl CsvRows {
    /// # Errors
    /// `Config` for a column that CSV cannot hold.
    pub(super) fn new(schema: SchemaRef, options: TextOptions) -> Result<Self> {
        check(&schema)?;
        Ok(CsvRows { written: Written::new(schema, options) })
    }

    /// Appends records; `ended` is called behind each.
    pub(super) fn write(&self, rows: &RecordBatch, text: &mut String, mut ended: impl FnMut(&mut String)) -> Result<Vec<RowError>> {
        let (rows, refused) = self.written.cast(rows)?;
        // A value without a text is a failure, never a text about the failure.
        let options = FormatOptions::new().with_display_error(false);
        let formatters = rows.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect::<Result<Vec<_>, _>>()?;
        for row in 0..rows.num_rows() {
            for (index, (column, formatter)) in rows.columns().iter().zip(&formatters).enumerate() {
                push_separator(text, index);
                if column.is_null(row) {
                    // A line with nothing on it would be skipped by readers.
                    if rows.num_columns() == 1 && !matches!(column.data_type(), DataType::Utf8View) {
                        text.push_str("\"\"");
                    }
                    continue;
                }
                match column.data_type() {
                    DataType::Utf8View => push_text(text, column.as_string_view().value(row)),
                    DataType::Utf8 => push_text(text, column.as_string::<i32>().value(row)),
                    _ => write!(text, "{}", formatter.value(row)).map_err(|_| Error::internal("a value cannot be written as text"))?,
                }
            }
            ended(text);
        }
        Ok(refused)
    }
}

impl Encoder for CsvEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<Vec<RowError>> {
        self.rows.write(rows, &mut self.text, |text| text.push('\n'))
    }

    fn take(&mut self) -> Result<Vec<u8>> {
        Ok(std::mem::take(&mut self.text).into_bytes())
    }

    fn finish(&mut self) -> Result<Vec<u8>> {
        self.take()
    }
}

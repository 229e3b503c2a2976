//! CSV with a header. Null is nothing at all, an empty text is a pair of quotes, so reading it back gives the same rows.

use super::values::{Value, Values, date, decimal, millis, moment, split, time};
use super::{Encoder, TextOptions, refused};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
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
    columns: usize,
    options: TextOptions,
    /// Whether records are lines, of which readers skip blank ones.
    lines: bool,
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
        Ok(CsvEncoder { rows: CsvRows::new(&schema, options, true)?, text })
    }
}

/// Whether a pair of quotes is a value of a column, and not null.
fn is_textual(values: &Values) -> bool {
    matches!(values, Values::Text(_) | Values::Binary(_))
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
    pub(super) fn new(schema: &SchemaRef, options: TextOptions, lines: bool) -> Result<Self> {
        check(schema)?;
        Ok(CsvRows { columns: schema.fields().len(), options, lines })
    }

    /// Appends records; `ended` is called behind each.
    pub(super) fn write(&self, rows: &RecordBatch, text: &mut String, mut ended: impl FnMut(&mut String)) -> Result<Vec<RowError>> {
        if rows.num_columns() != self.columns {
            return Err(Error::internal("the rows to encode have other columns than the encoder"));
        }
        let (kept, mut bad) = refused(rows, self.options.form())?;
        let rows = kept.as_ref().unwrap_or(rows);
        let columns = Values::of_rows(rows)?;
        for row in 0..rows.num_rows() {
            if let (true, [(name, values)]) = (self.lines, &columns[..]) {
                // Such a column has no times, so no row was left out above and this is the row's own number.
                if is_textual(values) && matches!(values.get(row), Value::Null) {
                    let message = "null alone on a line cannot be told from no line at all".to_string();
                    bad.push(RowError { row, column: Some(name.clone()), message });
                    continue;
                }
            }
            for (index, (_, values)) in columns.iter().enumerate() {
                push_separator(text, index);
                self.push_value(values, row, text)?;
            }
            ended(text);
        }
        Ok(bad)
    }

    fn push_value(&self, values: &Values, row: usize, text: &mut String) -> Result<()> {
        match values.get(row) {
            // A line with nothing on it would be skipped by readers.
            Value::Null if self.columns == 1 && !is_textual(values) => text.push_str("\"\""),
            Value::Null => {}
            Value::Text(value) => push_text(text, value),
            Value::Bytes([]) => text.push_str("\"\""),
            value => push_bare(&value, self.options, text)?,
        }
        Ok(())
    }
}

/// The text of a value, never quoted; nothing for null.
#[inline]
pub(super) fn push_bare(value: &Value<'_>, options: TextOptions, text: &mut String) -> Result<()> {
    let failed = |_| Error::internal("a value cannot be written as text");
    match *value {
        Value::Null => {}
        Value::Bool(value) => write!(text, "{value}").map_err(failed)?,
        Value::Int(value) => write!(text, "{value}").map_err(failed)?,
        Value::Float(value) => write!(text, "{value:?}").map_err(failed)?,
        Value::ShortFloat(value) => write!(text, "{value:?}").map_err(failed)?,
        Value::Decimal(unscaled, scale) => decimal(unscaled, scale, text),
        Value::Text(value) => text.push_str(value),
        Value::Bytes(bytes) => bytes.iter().try_for_each(|byte| write!(text, "{byte:02x}")).map_err(failed)?,
        Value::Date(days) => date(i64::from(days), text),
        Value::Time(value, unit) => {
            let (seconds, nanos) = split(value, unit);
            time(seconds, nanos, text);
        }
        Value::Moment(value, unit, _) if options.epoch_ms => write!(text, "{}", millis(value, unit)).map_err(failed)?,
        Value::Moment(value, unit, zone) => moment(value, unit, zone, text),
        Value::List(..) | Value::Struct(_) => return Err(Error::internal("a list or struct as plain text")),
    }
    Ok(())
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

//! JSON lines: an object per row, every column in it, null included, each row with its line end.
//!
//! Numbers that JSON does not have leave as the texts `"NaN"`, `"Infinity"` and `"-Infinity"`, which a float column reads back.
//! Decimals are texts with all digits of their scale, bytes are Base64.

use super::values::{Value, Values, date, decimal, millis, moment, split, time};
use super::{Encoder, TextOptions, refused};
use crate::base64;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::io::Write;
use tidegate_api::sink::RowError;
use tidegate_api::{Error, Result};

/// Writes JSON lines.
pub struct JsonEncoder {
    schema: SchemaRef,
    options: TextOptions,
    bytes: Vec<u8>,
}

impl JsonEncoder {
    /// An encoder of rows of this schema.
    pub fn new(schema: SchemaRef, options: TextOptions) -> Self {
        JsonEncoder { schema, options, bytes: Vec::new() }
    }
}

impl Encoder for JsonEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<Vec<RowError>> {
        if rows.num_columns() != self.schema.fields().len() {
            return Err(Error::internal("the rows to encode have other columns than the encoder"));
        }
        let (kept, bad) = refused(rows, self.options.form())?;
        let rows = kept.as_ref().unwrap_or(rows);
        let writer = RowWriter::new(rows, self.options)?;
        for row in 0..rows.num_rows() {
            writer.write(row, &mut self.bytes);
            self.bytes.push(b'\n');
        }
        Ok(bad)
    }

    fn take(&mut self) -> Result<Vec<u8>> {
        Ok(std::mem::take(&mut self.bytes))
    }

    fn finish(&mut self) -> Result<Vec<u8>> {
        self.take()
    }
}

/// Writes rows of a batch as objects.
pub(crate) struct RowWriter {
    columns: Vec<(String, Values)>,
    /// For every column what stands before its value.
    keys: Vec<Vec<u8>>,
    options: TextOptions,
}

impl RowWriter {
    /// # Errors
    /// `Config` for a type that JSON cannot hold.
    pub(crate) fn new(rows: &RecordBatch, options: TextOptions) -> Result<Self> {
        let columns = Values::of_rows(rows)?;
        let key = |(index, (name, _)): (usize, &(String, Values))| {
            let mut key = vec![if index == 0 { b'{' } else { b',' }];
            push_text(name, &mut key);
            key.push(b':');
            key
        };
        let keys = columns.iter().enumerate().map(key).collect();
        Ok(RowWriter { columns, keys, options })
    }

    /// Appends a row, without a line end.
    pub(crate) fn write(&self, row: usize, out: &mut Vec<u8>) {
        if self.columns.is_empty() {
            out.push(b'{');
        }
        let mut scratch = String::new();
        for ((_, values), key) in self.columns.iter().zip(&self.keys) {
            out.extend_from_slice(key);
            self.value(values, row, out, &mut scratch);
        }
        out.push(b'}');
    }

    fn value(&self, values: &Values, row: usize, out: &mut Vec<u8>, scratch: &mut String) {
        // Writing to memory cannot fail.
        macro_rules! put {
            ($($part:tt)*) => {{ let _ = write!(out, $($part)*); }};
        }
        macro_rules! text {
            ($write:expr) => {{
                scratch.clear();
                $write;
                put!("\"{scratch}\"");
            }};
        }
        match values.get(row) {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(value) => put!("{value}"),
            Value::Int(value) if self.options.int64_as_text && is_wide(values) => put!("\"{value}\""),
            Value::Int(value) => put!("{value}"),
            Value::Float(value) if value.is_finite() => put!("{value:?}"),
            Value::ShortFloat(value) if value.is_finite() => put!("{value:?}"),
            Value::Float(value) => put!("\"{}\"", infinite(value)),
            Value::ShortFloat(value) => put!("\"{}\"", infinite(f64::from(value))),
            Value::Decimal(unscaled, scale) => text!(decimal(unscaled, scale, scratch)),
            Value::Text(text) => push_text(text, out),
            Value::Bytes(bytes) => {
                out.push(b'"');
                base64::encode(bytes, out);
                out.push(b'"');
            }
            Value::Date(days) => text!(date(i64::from(days), scratch)),
            Value::Time(value, unit) => {
                let (seconds, nanos) = split(value, unit);
                text!(time(seconds, nanos, scratch));
            }
            Value::Moment(value, unit, _) if self.options.epoch_ms => {
                put!("{}", millis(value, unit));
            }
            Value::Moment(value, unit, zone) => text!(moment(value, unit, zone, scratch)),
            Value::List(items, values) => {
                out.push(b'[');
                for (index, item) in items.enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    self.value(values, item, out, scratch);
                }
                out.push(b']');
            }
            Value::Struct(fields) => {
                out.push(b'{');
                for (index, (name, values)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    push_text(name, out);
                    out.push(b':');
                    self.value(values, row, out, scratch);
                }
                out.push(b'}');
            }
        }
    }
}

fn is_wide(values: &Values) -> bool {
    matches!(values, Values::Int(_, true) | Values::Unsigned(_))
}

/// The word for a float that is no number of JSON.
fn infinite(value: f64) -> &'static str {
    if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}

/// A text in quotes.
fn push_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    while let Some(at) = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) {
        out.extend_from_slice(&rest[..at]);
        match rest[at] {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x8 => out.extend_from_slice(b"\\b"),
            0xC => out.extend_from_slice(b"\\f"),
            other => {
                let _ = write!(out, "\\u{other:04x}");
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

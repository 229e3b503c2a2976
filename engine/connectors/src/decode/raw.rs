//! Payloads as they are: one column, `binary`, or `string` if they are text.

use super::cells::{Cell, Faults};
use super::column::{BytesAs, Column, Kind};
use super::rows::{Framed, Rows, RowsDecoder};
use super::{Decoded, Decoder, Wanted, byte_order_mark};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::ops::Range;
use std::sync::Arc;
use tidegate_api::{Error, Result, types};

/// The schema of lines of text that nobody declared.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("value", DataType::Utf8View, true)]))
}

/// Reads payloads.
pub(super) struct RawRows {
    wanted: Wanted,
}

impl RawRows {
    pub(super) fn new(wanted: Wanted) -> Result<Self> {
        match wanted.declared.fields().as_ref() {
            [field] if matches!(field.data_type(), DataType::Utf8View | DataType::Binary) => Ok(RawRows { wanted }),
            [field] => Err(Error::config(format!(
                "column `{}`: the format `raw` has one column of type `binary` or `string`, not `{}`",
                field.name(),
                types::name(field.data_type())
            ))),
            fields => {
                Err(Error::config(format!("the format `raw` has one column of type `binary` or `string`, the schema has {}", fields.len())))
            }
        }
    }
}

impl RowsDecoder for RawRows {
    fn decode(&mut self, rows: &[&[u8]], columns: &mut [Column], faults: &mut Faults) -> Result<()> {
        for column in columns {
            column.append_cells(rows.len(), |row| Cell::Text(rows[row]), |row| row, faults);
        }
        Ok(())
    }

    fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    fn kind(&self) -> Kind {
        Kind { format: "raw", bytes_as: BytesAs::Raw }
    }
}

/// Reads lines as they are, without their ends, LF or CRLF; an empty line is an empty value.
pub struct RawDecoder {
    rows: RawRows,
    lines: Vec<Range<usize>>,
}

impl RawDecoder {
    /// A decoder of lines.
    ///
    /// # Errors
    /// `Config` unless the schema is one column of type `string` or `binary`.
    pub fn new(wanted: Wanted) -> Result<Self> {
        Ok(RawDecoder { rows: RawRows::new(wanted)?, lines: Vec::new() })
    }
}

impl Decoder for RawDecoder {
    fn begin(&mut self, input: &[u8], last: bool) -> Result<Option<usize>> {
        Ok(byte_order_mark(input, last))
    }

    fn ends_in_lines(&self) -> bool {
        true
    }

    fn decode(&mut self, input: &[u8], last: bool, max_rows: usize) -> Result<Decoded> {
        self.lines.clear();
        let mut at = 0;
        while at < input.len() && self.lines.len() < max_rows {
            let end = match memchr::memchr(b'\n', &input[at..]) {
                Some(length) => at + length,
                None if last => input.len(),
                None => break,
            };
            let returned = usize::from(end > at && input[end - 1] == b'\r');
            self.lines.push(at..end - returned);
            at = (end + 1).min(input.len());
        }
        let rows: Vec<&[u8]> = self.lines.iter().map(|line| &input[line.clone()]).collect();
        Ok(Rows::decode(&mut self.rows, &rows)?.into_decoded(at, Framed::At(&self.lines)))
    }
}

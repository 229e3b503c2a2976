//! Rows as newline JSON: one object per row with every column in it, null included, in the order of the schema.
//!
//! 64-bit integers are numbers, decimals are text, bytes are hexadecimal text, a float that is no number is null. Times are ISO-8601 text: a timestamp
//! with a zone is given in UTC with a `Z`, one without a zone as it is; fractions have 3, 6 or 9 digits, or none if they are zero.

mod column;
mod time;

#[cfg(test)]
mod tests;

use column::Column;
use tidegate_sdk::arrow::array::RecordBatch;
use tidegate_sdk::arrow::schema::{DataType, Schema, SchemaRef};
use tidegate_sdk::{Error, Result};

/// Lines are handed over in pieces of about this size.
const PIECE: usize = 256 << 10;

/// Whether every column has a JSON form.
///
/// # Errors
/// `Config`, naming the column that has none.
pub fn check(schema: &Schema) -> Result<()> {
    for field in schema.fields() {
        if !writable(field.data_type()) {
            return Err(Error::config(format!(
                "column `{}` is {}, which has no JSON form; `cast` or `drop` it before",
                field.name(),
                field.data_type()
            )));
        }
    }
    Ok(())
}

fn writable(data_type: &DataType) -> bool {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => writable(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| writable(field.data_type())),
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::Date32
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, _) => true,
        _ => false,
    }
}

/// Writes the rows of one schema.
pub struct Encoder {
    /// What stands before each column's value: brace or comma, name, colon.
    before: Vec<Vec<u8>>,
    buffer: Vec<u8>,
}

impl Encoder {
    /// A writer of rows of this schema.
    ///
    /// # Errors
    /// As [`check`].
    pub fn new(schema: &SchemaRef) -> Result<Self> {
        check(schema)?;
        let names = schema.fields().iter().map(|field| field.name().as_str());
        Ok(Encoder { before: openings(names), buffer: Vec::with_capacity(PIECE + (16 << 10)) })
    }

    /// Writes all rows, as whole lines in one or several pieces. A line has no line break but the one at its end.
    ///
    /// # Errors
    /// What `piece` answered.
    pub fn encode(&mut self, rows: &RecordBatch, mut piece: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let columns: Vec<Column<'_>> = rows.columns().iter().map(Column::of).collect::<Result<_>>()?;
        for row in 0..rows.num_rows() {
            write_object(&self.before, &columns, row, &mut self.buffer);
            self.buffer.push(b'\n');
            if self.buffer.len() >= PIECE {
                piece(&self.buffer)?;
                self.buffer.clear();
            }
        }
        if !self.buffer.is_empty() {
            piece(&self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

fn openings<'a>(names: impl Iterator<Item = &'a str>) -> Vec<Vec<u8>> {
    let opening = |(index, name): (usize, &str)| {
        let mut bytes = vec![if index == 0 { b'{' } else { b',' }];
        write_text(name, &mut bytes);
        bytes.push(b':');
        bytes
    };
    names.enumerate().map(opening).collect()
}

fn write_object(before: &[Vec<u8>], columns: &[Column<'_>], row: usize, out: &mut Vec<u8>) {
    if columns.is_empty() {
        out.push(b'{');
    }
    for (opening, column) in before.iter().zip(columns) {
        out.extend_from_slice(opening);
        column.write(row, out);
    }
    out.push(b'}');
}

/// Quoted, with escapes.
fn write_text(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("text has a JSON form, and memory takes it");
}

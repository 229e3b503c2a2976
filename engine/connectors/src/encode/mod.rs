//! From batches to bytes: encoders that other connectors share.
//!
//! Timestamps leave as ISO-8601 text in JSON and CSV, 64-bit integers as numbers, decimals as text; [`TextOptions`] says otherwise.

mod arrow;
mod avro;
mod csv;
pub(crate) mod json;
mod messages;
mod parquet;
mod protobuf;
mod range;
mod values;

#[cfg(test)]
mod tests;

pub use arrow::ArrowEncoder;
pub use avro::{AvroEncoder, AvroHeader, AvroMessages};
pub use csv::CsvEncoder;
pub use json::JsonEncoder;
pub use messages::{ArrowMessages, CsvMessages, Encoded, JsonMessages, MessageEncoder, RawMessages};
pub use parquet::{Codec, ParquetEncoder};
pub use protobuf::ProtobufMessages;

use ::arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use ::arrow::compute::cast;
use ::arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use std::sync::Arc;
use tidegate_api::sink::RowError;
use tidegate_api::{Error, Result};

/// Turns batches of one schema into the bytes of one file or stream.
pub trait Encoder: Send {
    /// Takes rows; answers those that the format cannot hold, in order, which are left out.
    ///
    /// # Errors
    /// `Internal` if the rows do not have the schema that the encoder was made for.
    fn write(&mut self, rows: &RecordBatch) -> Result<Vec<RowError>>;

    /// The bytes that are ready, whole rows only for formats of lines.
    ///
    /// # Errors
    /// `Internal` if they cannot be made.
    fn take(&mut self) -> Result<Vec<u8>>;

    /// The last bytes; nothing may be written afterwards.
    ///
    /// # Errors
    /// `Internal` if they cannot be made.
    fn finish(&mut self) -> Result<Vec<u8>>;
}

/// How values become text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextOptions {
    /// Timestamps as integers of milliseconds since 1970 instead of ISO-8601.
    pub epoch_ms: bool,
    /// 64-bit integers as text, for readers whose numbers are floats.
    pub int64_as_text: bool,
}

impl TextOptions {
    fn form(self) -> range::Form {
        if self.epoch_ms { range::Form::Millis } else { range::Form::Iso }
    }
}

/// The rows that can be written, if not all can, and those that cannot.
fn refused(rows: &RecordBatch, form: range::Form) -> Result<(Option<RecordBatch>, Vec<RowError>)> {
    Ok(match range::refuse(rows, form)? {
        None => (None, Vec::new()),
        Some((rows, refused)) => (Some(rows), refused),
    })
}

/// The type that a column is cast to before it is written as text.
fn written_type(data_type: &DataType, options: TextOptions) -> DataType {
    let field = |field: &FieldRef| -> FieldRef {
        Arc::new(Field::new(field.name(), written_type(field.data_type(), options), field.is_nullable()))
    };
    match data_type {
        DataType::Decimal32(_, _) | DataType::Decimal64(_, _) | DataType::Decimal128(_, _) | DataType::Decimal256(_, _) => {
            DataType::Utf8View
        }
        DataType::Int64 | DataType::UInt64 if options.int64_as_text => DataType::Utf8View,
        DataType::Timestamp(_, _) if options.epoch_ms => DataType::Int64,
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect::<Fields>()),
        other => other.clone(),
    }
}

/// Casts batches to what is written.
struct Written {
    from: SchemaRef,
    schema: SchemaRef,
    options: TextOptions,
}

impl Written {
    fn new(from: SchemaRef, options: TextOptions) -> Self {
        let field = |field: &FieldRef| Field::new(field.name(), written_type(field.data_type(), options), true);
        let schema = Arc::new(Schema::new(from.fields().iter().map(field).collect::<Vec<_>>()));
        Written { from, schema, options }
    }

    /// The rows as they are written, and those that cannot be.
    fn cast(&self, rows: &RecordBatch) -> Result<(RecordBatch, Vec<RowError>)> {
        let (kept, bad) = refused(rows, self.options.form())?;
        Ok((self.cast_all(kept.as_ref().unwrap_or(rows))?, bad))
    }

    fn cast_all(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        if rows.num_columns() != self.from.fields().len() {
            return Err(Error::internal("the rows to encode have other columns than the encoder"));
        }
        let column = |(column, field): (&ArrayRef, &FieldRef)| -> Result<ArrayRef> {
            Ok(if column.data_type() == field.data_type() {
                Arc::clone(column)
            } else {
                cast_for_text(column, field.data_type(), self.options)?
            })
        };
        let columns = rows.columns().iter().zip(self.schema.fields()).map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

fn cast_for_text(column: &ArrayRef, to: &DataType, options: TextOptions) -> Result<ArrayRef> {
    use ::arrow::datatypes::TimeUnit;
    match column.data_type() {
        DataType::Timestamp(_, zone) if options.epoch_ms => {
            let millis = cast(column, &DataType::Timestamp(TimeUnit::Millisecond, zone.clone()))?;
            Ok(cast(&millis, to)?)
        }
        _ => Ok(cast(column, to)?),
    }
}

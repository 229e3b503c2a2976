//! From batches to bytes: encoders that other connectors share.
//!
//! Timestamps leave as ISO-8601 text in JSON and CSV, 64-bit integers as numbers, decimals as text; [`TextOptions`] says otherwise.

mod arrow;
mod avro;
mod cells;
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
pub(crate) use cells::Cells;
pub use csv::CsvEncoder;
pub use json::JsonEncoder;
pub use messages::{ArrowMessages, CsvMessages, Encoded, JsonMessages, MessageEncoder, RawMessages};
pub use parquet::{Codec, ParquetEncoder};
pub use protobuf::ProtobufMessages;

use ::arrow::array::RecordBatch;
use tidegate_api::Result;
use tidegate_api::sink::RowError;

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

    /// Bytes kept in memory until the format can write them, about.
    fn held(&self) -> usize {
        0
    }

    /// Gets what is held ready to be taken, as far as the format can.
    ///
    /// # Errors
    /// `Internal` if it cannot be made.
    fn relieve(&mut self) -> Result<()> {
        Ok(())
    }

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

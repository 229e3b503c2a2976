//! JSON lines: an object per row, every column in it, null included, each row with its line end.

use super::{Encoder, TextOptions, Written};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::json::writer::{LineDelimited, WriterBuilder};
use tidegate_api::Result;
use tidegate_api::sink::RowError;

/// Writes JSON lines.
pub struct JsonEncoder {
    written: Written,
    bytes: Vec<u8>,
}

impl JsonEncoder {
    /// An encoder of rows of this schema.
    pub fn new(schema: SchemaRef, options: TextOptions) -> Self {
        JsonEncoder { written: Written::new(schema, options), bytes: Vec::new() }
    }
}

impl Encoder for JsonEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<Vec<RowError>> {
        let (rows, refused) = self.written.cast(rows)?;
        if rows.num_rows() > 0 {
            let mut writer = WriterBuilder::new().with_explicit_nulls(true).build::<_, LineDelimited>(&mut self.bytes);
            writer.write(&rows)?;
            writer.finish()?;
        }
        Ok(refused)
    }

    fn take(&mut self) -> Result<Vec<u8>> {
        Ok(std::mem::take(&mut self.bytes))
    }

    fn finish(&mut self) -> Result<Vec<u8>> {
        self.take()
    }
}

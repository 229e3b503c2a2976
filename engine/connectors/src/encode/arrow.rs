//! Arrow IPC: a stream, which can be written through a compression and read from its beginning alone.

use super::Encoder;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::writer::StreamWriter;
use tidegate_api::sink::RowError;
use tidegate_api::{Error, Result};

/// Writes one stream. It holds every value, so no row is ever refused.
pub struct ArrowEncoder {
    writer: Option<StreamWriter<Vec<u8>>>,
}

impl ArrowEncoder {
    /// An encoder of rows of this schema.
    ///
    /// # Errors
    /// `Internal` if the beginning cannot be made.
    pub fn new(schema: &SchemaRef) -> Result<Self> {
        Ok(ArrowEncoder { writer: Some(StreamWriter::try_new(Vec::new(), schema)?) })
    }

    fn writer(&mut self) -> Result<&mut StreamWriter<Vec<u8>>> {
        self.writer.as_mut().ok_or_else(|| Error::internal("an Arrow stream was written to after its end"))
    }
}

impl Encoder for ArrowEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<Vec<RowError>> {
        self.writer()?.write(rows)?;
        Ok(Vec::new())
    }

    fn take(&mut self) -> Result<Vec<u8>> {
        Ok(std::mem::take(self.writer()?.get_mut()))
    }

    fn finish(&mut self) -> Result<Vec<u8>> {
        let mut writer = self.writer.take().ok_or_else(|| Error::internal("an Arrow stream was ended twice"))?;
        writer.finish()?;
        Ok(writer.into_inner()?)
    }
}

//! Parquet. Timestamps without a zone stay without one; whole seconds, which Parquet lacks, become milliseconds.

use super::{Encoder, range};
use arrow::array::{Array, ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::sync::Arc;
use tidegate_api::sink::RowError;
use tidegate_api::{Error, Result};

/// How pages are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codec {
    /// Not at all.
    None,
    /// Fast and small enough for most.
    #[default]
    Zstd,
    /// What every reader knows.
    Snappy,
    /// For old readers.
    Gzip,
}

/// Writes one Parquet file.
pub struct ParquetEncoder {
    schema: SchemaRef,
    writer: Option<ArrowWriter<Vec<u8>>>,
}

/// Rows held back until they are written as a group.
const GROUP_ROWS: usize = 1 << 20;

fn fault(error: &parquet::errors::ParquetError) -> Error {
    Error::internal(format!("parquet: {error}"))
}

impl ParquetEncoder {
    /// An encoder of rows of this schema.
    ///
    /// # Errors
    /// `Config` if Parquet cannot hold a type.
    pub fn new(schema: &SchemaRef, codec: Codec) -> Result<Self> {
        let compression = match codec {
            Codec::None => Compression::UNCOMPRESSED,
            Codec::Zstd => Compression::ZSTD(ZstdLevel::default()),
            Codec::Snappy => Compression::SNAPPY,
            Codec::Gzip => Compression::GZIP(GzipLevel::default()),
        };
        let field = |field: &FieldRef| match field.data_type() {
            DataType::Timestamp(TimeUnit::Second, zone) => {
                Field::new(field.name(), DataType::Timestamp(TimeUnit::Millisecond, zone.clone()), field.is_nullable())
            }
            _ => field.as_ref().clone(),
        };
        let schema = Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()));
        let properties = WriterProperties::builder().set_compression(compression).set_max_row_group_row_count(Some(GROUP_ROWS)).build();
        let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties))
            .map_err(|error| Error::config(format!("Parquet cannot hold these columns: {error}")))?;
        Ok(ParquetEncoder { schema, writer: Some(writer) })
    }

    fn writer(&mut self) -> Result<&mut ArrowWriter<Vec<u8>>> {
        self.writer.as_mut().ok_or_else(|| Error::internal("a Parquet file was written to after its end"))
    }
}

impl Encoder for ParquetEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<Vec<RowError>> {
        let (good, refused) = range::refuse(rows, range::Form::Binary)?.unzip();
        let rows = good.as_ref().unwrap_or(rows);
        let column = |(column, field): (&ArrayRef, &FieldRef)| -> Result<ArrayRef> {
            Ok(if column.data_type() == field.data_type() { Arc::clone(column) } else { cast(column, field.data_type())? })
        };
        let columns = rows.columns().iter().zip(self.schema.fields()).map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        self.writer()?.write(&rows).map_err(|error| fault(&error))?;
        Ok(refused.unwrap_or_default())
    }

    fn take(&mut self) -> Result<Vec<u8>> {
        let writer = self.writer()?;
        writer.sync().map_err(|error| Error::internal("parquet: a buffer in memory cannot be flushed").caused_by(error))?;
        Ok(std::mem::take(writer.inner_mut()))
    }

    fn held(&self) -> usize {
        self.writer.as_ref().map_or(0, ArrowWriter::memory_size)
    }

    /// Ends the row group, which is then smaller than others.
    fn relieve(&mut self) -> Result<()> {
        self.writer()?.flush().map_err(|error| fault(&error))
    }

    fn finish(&mut self) -> Result<Vec<u8>> {
        let writer = self.writer.take().ok_or_else(|| Error::internal("a Parquet file was ended twice"))?;
        writer.into_inner().map_err(|error| fault(&error))
    }
}

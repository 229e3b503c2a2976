//! Rows on their way to a guest.

use super::plain;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow_ipc::MetadataVersion;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use std::sync::Arc;
use tidegate_api::{Error, Result, types};

/// Encodes chosen columns of batches of one schema. Keeps its buffer from call to call.
pub(crate) struct Encoder {
    columns: Vec<usize>,
    crossing: SchemaRef,
    schema_message: Vec<u8>,
    writer: StreamWriter<Vec<u8>>,
}

impl Encoder {
    /// An encoder of the given columns, in that order.
    ///
    /// # Errors
    /// `Config` if a column has a type that does not cross.
    pub(crate) fn new(schema: &Schema, columns: Vec<usize>) -> Result<Self> {
        let mut fields = Vec::with_capacity(columns.len());
        for column in &columns {
            let field = schema.field(*column);
            let crossing = plain(field.data_type()).ok_or_else(|| {
                Error::config(format!(
                    "column `{}` of type `{}` cannot be handed to a plugin; leave it out or cast it before",
                    field.name(),
                    types::name(field.data_type())
                ))
            })?;
            fields.push(Field::new(field.name(), crossing, field.is_nullable()).with_metadata(field.metadata().clone()));
        }
        let crossing = Arc::new(Schema::new(fields));
        let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), &crossing, options)?;
        let schema_message = std::mem::take(writer.get_mut());
        Ok(Encoder { columns, crossing, schema_message, writer })
    }

    /// The schema message to open the guest's side with.
    pub(crate) fn schema_message(&self) -> &Vec<u8> {
        &self.schema_message
    }

    /// The chosen columns in the layout in which they cross; costs a copy for views and dictionaries only.
    pub(crate) fn project(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for (position, column) in self.columns.iter().enumerate() {
            let array = batch.column(*column);
            let crossing = self.crossing.field(position).data_type();
            columns.push(if array.data_type() == crossing { Arc::clone(array) } else { cast(array, crossing)? });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.crossing), columns, &options)?)
    }

    /// One record-batch message of what [`Encoder::project`] gave, valid until the next call.
    pub(crate) fn encode(&mut self, projected: &RecordBatch) -> Result<&Vec<u8>> {
        self.writer.get_mut().clear();
        self.writer.write(projected)?;
        Ok(self.writer.get_ref())
    }
}

/// The bytes a projected batch takes in its message, roughly; never less than one per row.
pub(crate) fn size_of(projected: &RecordBatch) -> usize {
    let bytes: usize = projected.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum();
    bytes.max(projected.num_rows())
}

//! Rows on their way to a guest, as buffers that begin at row 0.

use super::{flat, offered, wit};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;
use tidegate_api::{Error, Result, types};

/// Takes chosen columns of batches of one schema apart.
pub(crate) struct ColumnsEncoder {
    columns: Vec<usize>,
    crossing: SchemaRef,
    fields: Vec<wit::Field>,
}

impl ColumnsEncoder {
    /// An encoder of the given columns, in that order.
    ///
    /// # Errors
    /// `Config` if a column has a type that does not cross.
    pub(crate) fn new(schema: &Schema, columns: Vec<usize>) -> Result<Self> {
        let mut crossing = Vec::with_capacity(columns.len());
        for column in &columns {
            let field = schema.field(*column);
            let flat = flat(field.data_type()).ok_or_else(|| {
                let (name, data_type) = (field.name(), types::name(field.data_type()));
                Error::config(format!("column `{name}` of type `{data_type}` cannot be handed to a plugin as a raw column"))
            })?;
            crossing.push(Field::new(field.name(), flat, field.is_nullable()));
        }
        let crossing = Arc::new(Schema::new(crossing));
        let fields = offered(&crossing);
        Ok(ColumnsEncoder { columns, crossing, fields })
    }

    /// The schema to open the guest's side with.
    pub(crate) fn fields(&self) -> &[wit::Field] {
        &self.fields
    }

    /// The chosen columns in the layout in which they cross.
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

    /// The buffers of what [`ColumnsEncoder::project`] gave.
    pub(crate) fn encode(&self, projected: &RecordBatch) -> Result<wit::Columns> {
        let rows = u32::try_from(projected.num_rows()).map_err(|_| Error::internal("a batch of more rows than cross"))?;
        Ok(wit::Columns { rows, columns: projected.columns().iter().map(|column| buffers(column)).collect::<Result<_>>()? })
    }
}

fn buffers(array: &ArrayRef) -> Result<wit::Column> {
    let validity = array.nulls().filter(|nulls| nulls.null_count() > 0).map(|nulls| bits(nulls.inner()));
    let (data, offsets) = match array.data_type() {
        DataType::Boolean => (bits(array.as_boolean().values()), None),
        DataType::Utf8 => {
            let array = array.as_string::<i32>();
            texts(array.value_offsets(), array.value_data())
        }
        DataType::Binary => {
            let array = array.as_binary::<i32>();
            texts(array.value_offsets(), array.value_data())
        }
        fixed => {
            let width = fixed.primitive_width().ok_or_else(|| Error::internal(format!("`{fixed}` has no width")))?;
            let data = array.to_data();
            let from = data.offset() * width;
            (data.buffers()[0].as_slice()[from..from + data.len() * width].to_vec(), None)
        }
    };
    Ok(wit::Column { data, offsets, validity })
}

/// Bits from the first one on; those behind the last are zero.
fn bits(buffer: &arrow::buffer::BooleanBuffer) -> Vec<u8> {
    let mut bytes = buffer.sliced().as_slice()[..buffer.len().div_ceil(8)].to_vec();
    if let (Some(last), used @ 1..) = (bytes.last_mut(), buffer.len() % 8) {
        *last &= (1 << used) - 1;
    }
    bytes
}

/// Values and offsets, both from zero.
fn texts(offsets: &[i32], values: &[u8]) -> (Vec<u8>, Option<Vec<u8>>) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let rebased = offsets.iter().flat_map(|offset| (offset - first).to_le_bytes()).collect();
    (values[first as usize..last as usize].to_vec(), Some(rebased))
}

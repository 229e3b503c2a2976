//! Columns as the bytes of a state piece, and back.

use crate::fired::vnodes;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;
use tidegate_api::{Error, RestoredPiece, Result, VnodeRange};

/// Encodes columns of `rows` rows as one Arrow IPC stream.
///
/// # Errors
/// `Internal` when they cannot be written.
pub(crate) fn encode(columns: Vec<ArrayRef>, rows: usize) -> Result<Vec<u8>> {
    let fields: Vec<Field> =
        columns.iter().enumerate().map(|(index, column)| Field::new(index.to_string(), column.data_type().clone(), true)).collect();
    let schema = Arc::new(Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    writer.write(&batch)?;
    let mut bytes = writer.into_inner()?;
    // It may wait for its turn to be written beside many others.
    bytes.shrink_to_fit();
    Ok(bytes)
}

/// Decodes what [`encode`] made of columns of these types.
///
/// # Errors
/// `External` when the piece cannot be decoded, or holds other columns.
pub(crate) fn decode(piece: &RestoredPiece, types: &[DataType]) -> Result<Vec<RecordBatch>> {
    let damaged = |what: String| Error::external(format!("state piece `{}` cannot be read: {what}", piece.name));
    let reader = StreamReader::try_new(piece.data.as_slice(), None).map_err(|error| damaged(error.to_string()))?;
    let mut batches = Vec::new();
    for batch in reader {
        let batch = batch.map_err(|error| damaged(error.to_string()))?;
        if !batch.columns().iter().map(|column| column.data_type()).eq(types) {
            return Err(damaged("it has other columns than this stage".into()));
        }
        batches.push(batch);
    }
    Ok(batches)
}

/// The rows of a restored batch that belong to `own`; `keys` are the columns that decide it.
///
/// # Errors
/// `Config` for columns that cannot be hashed.
pub(crate) fn own_rows(batch: RecordBatch, keys: &[usize], piece: &RestoredPiece, own: VnodeRange, count: u16) -> Result<RecordBatch> {
    if own.covers(piece.vnodes) {
        return Ok(batch);
    }
    let keys: Vec<ArrayRef> = keys.iter().map(|index| Arc::clone(batch.column(*index))).collect();
    let vnodes = vnodes(&keys, batch.num_rows(), count, &mut Vec::new())?;
    let ours: BooleanArray = vnodes.iter().map(|vnode| Some(own.contains(*vnode))).collect();
    Ok(filter_record_batch(&batch, &ours)?)
}

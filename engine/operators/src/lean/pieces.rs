//! Columns as the bytes of a state piece, and back.

use crate::fired::vnodes;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;
use tidegate_api::{DeferredBytes, Error, MakeBytes, RestoredPiece, Result, VnodeRange};

/// Columns of `rows` rows, to be encoded as one Arrow IPC stream when they are written: rows that are kept in columns are not
/// held twice, and the task goes on meanwhile.
///
/// # Errors
/// `Internal` when they are no batch.
pub(crate) fn deferred(columns: Vec<ArrayRef>, rows: usize) -> Result<DeferredBytes> {
    Ok(DeferredBytes(Arc::new(Batch(batch(columns, rows)?))))
}

fn batch(columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let fields: Vec<Field> =
        columns.iter().enumerate().map(|(index, column)| Field::new(index.to_string(), column.data_type().clone(), true)).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}

fn stream(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    let mut bytes = writer.into_inner()?;
    // It may wait for its turn to be written beside many others.
    bytes.shrink_to_fit();
    Ok(bytes)
}

#[derive(Debug)]
struct Batch(RecordBatch);

impl MakeBytes for Batch {
    fn estimate(&self) -> u64 {
        self.0.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0) as u64).sum()
    }

    fn make(&self) -> Result<Vec<u8>> {
        stream(&self.0)
    }
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

//! The state of a window stage in snapshots.
//!
//! A piece holds one pane as an Arrow IPC stream: a column of vnodes, the group columns, the state columns of every
//! aggregate. A restore takes the rows of its own vnodes, so that any task count reads what any other wrote. One more piece
//! says up to when each vnode has fired (`crate::fired`).

use super::panes::{Pane, Panes, Shape};
use crate::fired::vnodes;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt16Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, UInt16Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;
use tidegate_api::{Error, RestoredPiece, Result, VnodeRange};

/// The version of this format; part of the signature.
pub(crate) const VERSION: u32 = 1;
const PANE: &str = "pane/";

/// The name of a pane's piece.
pub(crate) fn pane_name(start: i64) -> String {
    format!("{PANE}{start}")
}

/// The start of the pane that a piece holds.
pub(crate) fn pane_start(name: &str) -> Option<i64> {
    name.strip_prefix(PANE)?.parse().ok()
}

/// Encodes a pane.
///
/// # Errors
/// `Internal` when an array cannot be made or written.
pub(crate) fn encode_pane(pane: &mut Pane, shape: &Shape, vnode_count: u16) -> Result<Vec<u8>> {
    let (groups, states, rows) = pane.state(shape)?;
    let vnodes = vnodes(&groups, rows, vnode_count, &mut Vec::new())?;
    let mut fields = vec![Field::new("vnode", DataType::UInt16, false)];
    let mut columns: Vec<ArrayRef> = vec![Arc::new(UInt16Array::from(vnodes))];
    for (index, column) in groups.into_iter().enumerate() {
        fields.push(Field::new(format!("group{index}"), column.data_type().clone(), true));
        columns.push(column);
    }
    for (index, state) in states.into_iter().enumerate() {
        for (part, column) in state.into_iter().enumerate() {
            fields.push(Field::new(format!("aggregate{index}.{part}"), column.data_type().clone(), true));
            columns.push(column);
        }
    }
    let schema = Arc::new(Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    writer.write(&batch)?;
    Ok(writer.into_inner()?)
}

/// Takes a pane's piece back, as far as it is ours.
///
/// # Errors
/// `External` when the piece cannot be decoded.
pub(crate) fn restore_pane(panes: &mut Panes, start: i64, piece: &RestoredPiece, group_count: usize, own: VnodeRange) -> Result<()> {
    let damaged = |what: String| Error::external(format!("state piece `{}` cannot be read: {what}", piece.name));
    let reader = StreamReader::try_new(piece.data.as_slice(), None).map_err(|error| damaged(error.to_string()))?;
    let whole = own.covers(piece.vnodes);
    let widths = panes.shape().state_widths()?;
    for batch in reader {
        let mut batch = batch.map_err(|error| damaged(error.to_string()))?;
        if batch.num_columns() != 1 + group_count + widths.iter().sum::<usize>() {
            return Err(damaged("it has other columns than this stage".into()));
        }
        if !whole {
            let vnodes = batch.column(0).as_primitive_opt::<UInt16Type>().ok_or_else(|| damaged("it has no vnodes".into()))?;
            let ours: BooleanArray = vnodes.values().iter().map(|vnode| Some(own.contains(*vnode))).collect();
            batch = filter_record_batch(&batch, &ours)?;
        }
        if batch.num_rows() == 0 {
            continue;
        }
        let groups = batch.columns()[1..=group_count].to_vec();
        let mut rest = &batch.columns()[1 + group_count..];
        let mut states = Vec::with_capacity(widths.len());
        for width in &widths {
            let (state, others) = rest.split_at(*width);
            states.push(state);
            rest = others;
        }
        let keys = panes.shape().keys(&groups)?;
        panes.at(start)?.merge_state(&keys, batch.num_rows(), &states)?;
    }
    Ok(())
}

//! The state of a window stage in snapshots.
//!
//! A piece holds one pane as an Arrow IPC stream: a column of vnodes, the group columns, the state columns of every
//! aggregate. A restore takes the rows of its own vnodes, so that any task count reads what any other wrote. One more piece
//! says up to when each vnode has fired.

use super::panes::{Pane, Panes, Shape};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt16Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, UInt16Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;
use tidegate_api::{Error, RestoredPiece, Result, VnodeRange, hash};

/// The version of this format; part of the signature.
pub(crate) const VERSION: u32 = 1;
/// The name of the piece that says up to when vnodes have fired.
pub(crate) const FIRED: &str = "fired";
const PANE: &str = "pane/";

/// The name of a pane's piece.
pub(crate) fn pane_name(start: i64) -> String {
    format!("{PANE}{start}")
}

/// The start of the pane that a piece holds.
pub(crate) fn pane_start(name: &str) -> Option<i64> {
    name.strip_prefix(PANE)?.parse().ok()
}

/// The vnode of each row of some group columns.
///
/// # Errors
/// `Config` for columns that cannot be hashed.
pub(crate) fn vnodes(groups: &[ArrayRef], rows: usize, count: u16, hashes: &mut Vec<u64>) -> Result<Vec<u16>> {
    hash::hash_rows(groups, rows, hashes)?;
    Ok(hashes.iter().map(|hash| hash::vnode(*hash, count)).collect())
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

/// Encodes up to when the vnodes of a range have fired: runs of equal times.
pub(crate) fn encode_fired(own: VnodeRange, fired: &[i64]) -> Vec<u8> {
    let mut data = own.start.to_le_bytes().to_vec();
    for run in fired.chunk_by(|a, b| a == b) {
        data.extend_from_slice(&(run.len() as u16).to_le_bytes());
        data.extend_from_slice(&run[0].to_le_bytes());
    }
    data
}

/// Takes such a piece back: `fired[i]` is that of vnode `own.start + i`.
///
/// # Errors
/// `External` when the piece cannot be decoded.
pub(crate) fn restore_fired(piece: &RestoredPiece, own: VnodeRange, fired: &mut [i64]) -> Result<()> {
    let damaged = || Error::external(format!("state piece `{}` cannot be read", piece.name));
    let (start, mut rest) = piece.data.split_first_chunk::<2>().ok_or_else(damaged)?;
    let mut vnode = u32::from(u16::from_le_bytes(*start));
    while !rest.is_empty() {
        let (length, tail) = rest.split_first_chunk::<2>().ok_or_else(damaged)?;
        let (time, tail) = tail.split_first_chunk::<8>().ok_or_else(damaged)?;
        rest = tail;
        for _ in 0..u16::from_le_bytes(*length) {
            if vnode >= u32::from(own.start) && vnode < u32::from(own.end) {
                fired[(vnode - u32::from(own.start)) as usize] = i64::from_le_bytes(*time);
            }
            vnode += 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_api::PieceId;

    #[test]
    fn fired_times_go_to_the_vnodes_they_belong_to() {
        let all = VnodeRange { start: 10, end: 16 };
        let data = encode_fired(all, &[5, 5, -7, i64::MIN, 9, 9]);
        let piece = RestoredPiece { id: PieceId("p".into()), name: FIRED.into(), vnodes: all, data };
        let own = VnodeRange { start: 8, end: 14 };
        let mut fired = [1; 6];
        restore_fired(&piece, own, &mut fired).unwrap();
        assert_eq!(fired, [1, 1, 5, 5, -7, i64::MIN]);
        let torn = RestoredPiece { data: piece.data[..5].to_vec(), ..piece };
        assert!(restore_fired(&torn, own, &mut fired).is_err());
    }
}

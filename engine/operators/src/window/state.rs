//! The state of a window stage in snapshots: a piece per pane (`crate::aggregates`), and one more that says up to when each
//! vnode has fired (`crate::fired`).

use super::panes::{Pane, Panes, Shape};
use crate::aggregates;
use crate::fired::vnodes;
use arrow::array::ArrayRef;
use std::sync::Arc;
use tidegate_api::{RestoredPiece, Result, VnodeRange};

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

/// Encodes a pane; `dealt_by` are the groups that decide a vnode.
///
/// # Errors
/// `Internal` when an array cannot be made or written.
pub(crate) fn encode_pane(pane: &mut Pane, shape: &Shape, dealt_by: &[usize], vnode_count: u16) -> Result<Vec<u8>> {
    let (groups, states, rows) = pane.state(shape)?;
    let dealt: Vec<ArrayRef> = dealt_by.iter().map(|index| Arc::clone(&groups[*index])).collect();
    let vnodes = vnodes(&dealt, rows, vnode_count, &mut Vec::new())?;
    aggregates::encode(vnodes, Vec::new(), groups, states)
}

/// Takes a pane's piece back, as far as it is ours.
///
/// # Errors
/// `External` when the piece cannot be decoded.
pub(crate) fn restore_pane(panes: &mut Panes, start: i64, piece: &RestoredPiece, group_count: usize, own: VnodeRange) -> Result<()> {
    let widths = panes.shape().state_widths()?;
    aggregates::restore(piece, 0, group_count, &widths, own, |part| {
        let keys = panes.shape().keys(part.groups)?;
        panes.at(start)?.merge_state(&keys, part.rows, &part.states)
    })
}

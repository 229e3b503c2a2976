//! The state of a window stage in snapshots: panes (`crate::aggregates`), and one piece more that says up to when each vnode has
//! fired (`crate::fired`).
//!
//! A pane of a few groups is one piece, `pane/START`, that is written whole when it has changed. A large one is written by group
//! (`crate::lean::Runs`), in pieces `pane/START/RUN/PART`: a group may stand in several, and the piece of the greatest run counts.
//! A restore therefore begins with the newest and leaves out groups that it has seen.

use super::panes::{Pane, Panes, Shape};
use crate::aggregates::{self, Dealing};
use crate::lean::{Runs, Saved, run_number};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tidegate_api::{Error, PieceId, RestoredPiece, Result, StatePiece, VnodeRange};

/// The version of this format; part of the signature.
pub(crate) const VERSION: u32 = 1;
const PANE: &str = "pane/";
/// A pane of more groups is written by group: which of them have changed is noted from the first snapshot on that finds it so large.
const LARGE: usize = if cfg!(test) { 3 } else { 1 << 14 };

/// Adds a pane's pieces to a snapshot.
///
/// # Errors
/// `Internal` when an array cannot be made or written.
pub(crate) fn save_pane(
    start: i64,
    pane: &mut Pane,
    shape: &Shape,
    dealing: &Dealing,
    vnodes: VnodeRange,
    pieces: &mut Vec<StatePiece>,
) -> Result<usize> {
    match std::mem::replace(&mut pane.saved, Saved::No) {
        Saved::Whole(ids) => {
            pieces.extend(ids.iter().cloned().map(StatePiece::Kept));
            pane.saved = Saved::Whole(ids);
            Ok(0)
        }
        Saved::No if pane.len() <= LARGE => {
            let data = pane.content(shape)?.encode(dealing)?;
            pieces.push(StatePiece::New { name: format!("{PANE}{start}"), vnodes, data });
            Ok(1)
        }
        saved => {
            let mut runs = if let Saved::Runs(runs) = saved { runs } else { Box::default() };
            let made = |groups: &[u32]| Ok(pane.content_of(shape, groups)?.deferred(dealing));
            runs.snapshot_as(&format!("{PANE}{start}/"), pane.len(), vnodes, pieces, made)?;
            let new = runs.new_pieces();
            pane.saved = Saved::Runs(runs);
            Ok(new)
        }
    }
}

/// Takes the identities of a pane's new pieces.
pub(crate) fn name_pane(pane: &mut Pane, ids: &mut impl Iterator<Item = PieceId>) {
    match &mut pane.saved {
        Saved::Runs(runs) => runs.named(ids),
        saved => *saved = Saved::Whole(ids.collect()),
    }
}

/// The pieces of panes by start, the newest run first; those of one piece have no run.
type Found<'a> = BTreeMap<i64, Vec<(Option<i64>, &'a RestoredPiece)>>;

/// Takes the pieces of panes back, as far as they are ours.
///
/// # Errors
/// `External` when a piece cannot be decoded, or is none of a pane.
pub(crate) fn restore_panes<'a>(
    panes: &mut Panes,
    pieces: impl Iterator<Item = &'a RestoredPiece>,
    group_count: usize,
    own: VnodeRange,
) -> Result<()> {
    let widths = panes.shape().state_widths()?;
    let mut found = Found::new();
    for piece in pieces {
        let (start, run) =
            place(&piece.name).ok_or_else(|| Error::external(format!("state piece `{}` is none of this operator's", piece.name)))?;
        found.entry(start).or_default().push((run, piece));
    }
    for (start, mut pieces) in found {
        pieces.sort_by_key(|(run, _)| Reverse(*run));
        let mut saved = Vec::with_capacity(pieces.len());
        for (_, piece) in &pieces {
            let mut groups = 0;
            aggregates::restore(piece, 0, group_count, &widths, own, |part| {
                groups += part.rows;
                let keys = panes.shape().keys(part.groups)?;
                panes.at(start)?.merge_state(&keys, part.rows, &part.states)
            })?;
            saved.push((piece.id.clone(), groups));
        }
        let Some(pane) = panes.get(start) else { continue };
        // It is unchanged only if all of its pieces are ours whole.
        pane.saved = match pieces.first() {
            _ if pieces.iter().any(|(_, piece)| !own.covers(piece.vnodes)) => Saved::No,
            Some((Some(greatest), _)) => Saved::Runs(Box::new(Runs::resumed(saved.into_iter().rev(), *greatest))),
            _ => Saved::Whole(saved.into_iter().map(|(id, _)| id).collect()),
        };
    }
    Ok(())
}

/// The start of the pane that a piece holds, and the run, if it is one of several.
fn place(name: &str) -> Option<(i64, Option<i64>)> {
    let rest = name.strip_prefix(PANE)?;
    match rest.split_once('/') {
        None => Some((rest.parse().ok()?, None)),
        Some((start, run)) => Some((start.parse().ok()?, Some(run_number(run)?))),
    }
}

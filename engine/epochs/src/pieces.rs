//! Pieces of operator state: how they are named, laid into objects, and read back with their checksums verified.

use crate::manifest::PieceRef;
use crate::store::EpochStore;
use std::collections::BTreeMap;
use tidegate_api::{DeferredBytes, Epoch, Error, Generation, PieceId, RestoredPiece, Result, ResultExt, StatePiece, VnodeRange};
use xxhash_rust::xxh3::xxh3_64;

/// What one task hands over of one operator's state.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorSnapshot {
    /// The operator (stage).
    pub operator: String,
    /// Which of its tasks, from 0.
    pub task: u32,
    /// The whole state of that task.
    pub pieces: Vec<SnapshotPiece>,
}

/// A [`StatePiece`] with its name.
#[derive(Debug, Clone, PartialEq)]
pub enum SnapshotPiece {
    /// To be written.
    New {
        /// Its name within the run.
        id: PieceId,
        /// The operator's name for it.
        name: String,
        /// The vnodes it holds.
        vnodes: VnodeRange,
        /// Its bytes.
        data: Vec<u8>,
    },
    /// To be written, from bytes that are made when it is.
    Deferred {
        /// Its name within the run.
        id: PieceId,
        /// The operator's name for it.
        name: String,
        /// The vnodes it holds.
        vnodes: VnodeRange,
        /// What gives its bytes.
        data: DeferredBytes,
    },
    /// Where it was.
    Kept(PieceId),
}

/// Names the new pieces of a task's snapshot, and answers their ids in order, for [`tidegate_api::Operator::pieces_named`].
/// A generation writes an epoch once, so the names are unique within the run.
pub fn name_pieces(
    generation: Generation,
    epoch: Epoch,
    operator: &str,
    task: u32,
    pieces: Vec<StatePiece>,
) -> (OperatorSnapshot, Vec<PieceId>) {
    let mut ids = Vec::new();
    let mut named = || {
        let id = PieceId(format!("{generation}.{epoch}.{task}.{}.{operator}", ids.len()));
        ids.push(id.clone());
        id
    };
    let pieces = pieces.into_iter().map(|piece| match piece {
        StatePiece::New { name, vnodes, data } => SnapshotPiece::New { id: named(), name, vnodes, data },
        StatePiece::Deferred { name, vnodes, data } => SnapshotPiece::Deferred { id: named(), name, vnodes, data },
        StatePiece::Kept(id) => SnapshotPiece::Kept(id),
    });
    let pieces: Vec<SnapshotPiece> = pieces.collect();
    (OperatorSnapshot { operator: operator.to_string(), task, pieces }, ids)
}

/// What an object consists of.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ObjectBody {
    /// These bytes.
    Bytes(Vec<u8>),
    /// The bytes of several pieces, one behind the other, which are made when the object is written.
    Deferred(Vec<DeferredPart>),
}

/// A piece within an object that is not written yet.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DeferredPart {
    /// Its bytes.
    pub(crate) data: DeferredBytes,
    /// Whose it is: operator, task, and its place among that task's pieces.
    pub(crate) operator: String,
    pub(crate) task: u32,
    pub(crate) place: usize,
}

/// A reference to `data`, which lies at `offset` of `object`.
pub(crate) fn refer(id: PieceId, name: String, vnodes: VnodeRange, object: &str, offset: usize, data: &[u8]) -> PieceRef {
    PieceRef { id, name, vnodes, object: object.to_string(), offset: offset as u64, length: data.len() as u64, checksum: xxh3_64(data) }
}

/// Reads the pieces that overlap `vnodes`, each object once.
///
/// # Errors
/// `External` if the store does not answer, or if an object is missing or damaged; the message names it.
pub fn read_pieces(store: &dyn EpochStore, pieces: &[PieceRef], vnodes: VnodeRange) -> Result<Vec<RestoredPiece>> {
    let wanted: Vec<&PieceRef> = pieces.iter().filter(|piece| piece.vnodes.overlaps(vnodes)).collect();
    let mut restored: Vec<Option<RestoredPiece>> = vec![None; wanted.len()];
    let mut by_object: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, piece) in wanted.iter().enumerate() {
        by_object.entry(&piece.object).or_default().push(index);
    }
    for (object, indices) in by_object {
        let bytes = store.get(object).context(|| format!("state object `{object}`"))?;
        for index in indices {
            let piece = wanted[index];
            let data = match bytes.as_deref() {
                Some(bytes) => cut(piece, bytes).map_err(|damage| Error::external(format!("state object `{object}`: {damage}")))?,
                None => return Err(Error::external(format!("state object `{object}` is missing"))),
            };
            restored[index] =
                Some(RestoredPiece { id: piece.id.clone(), name: piece.name.clone(), vnodes: piece.vnodes, data: data.to_vec() });
        }
    }
    Ok(restored.into_iter().flatten().collect())
}

/// The bytes of one piece, or what is wrong with them.
pub(crate) fn cut<'a>(piece: &PieceRef, object: &'a [u8]) -> std::result::Result<&'a [u8], String> {
    let range = usize::try_from(piece.offset).ok().zip(usize::try_from(piece.length).ok());
    let range = range.and_then(|(offset, length)| Some(offset..offset.checked_add(length)?));
    let Some(data) = range.and_then(|range| object.get(range)) else {
        return Err(format!("piece `{}` ends beyond the object's {} bytes", piece.id, object.len()));
    };
    let found = xxh3_64(data);
    if found != piece.checksum {
        return Err(format!("piece `{}` has checksum `{found:016x}` instead of `{:016x}`", piece.id, piece.checksum));
    }
    Ok(data)
}

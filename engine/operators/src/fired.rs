//! Up to when each vnode of a task has fired, and its piece in a snapshot.
//!
//! A restore at another task count brings vnodes of different progress together; what has fired for a vnode must neither fire
//! again nor take rows again. Shared by every operator that fires by the watermark.

use arrow::array::ArrayRef;
use tidegate_api::{Error, PieceId, RestoredPiece, Result, VnodeRange, hash};

/// The name of the piece.
pub(crate) const FIRED: &str = "fired";

/// Up to when each vnode of a task has fired, in milliseconds: everything that ends there or before is done with.
#[derive(Debug)]
pub(crate) struct Fired {
    own: VnodeRange,
    through: Vec<i64>,
    /// The least of all vnodes.
    pub(crate) low: i64,
    /// The greatest of all vnodes; differs from `low` only between a restore and the next watermark.
    pub(crate) high: i64,
    /// The piece that holds it, unless it has changed since the last snapshot.
    pub(crate) saved: Option<PieceId>,
}

impl Fired {
    /// Nothing has fired.
    pub(crate) fn new(own: VnodeRange) -> Self {
        let vnodes = usize::from(own.end.saturating_sub(own.start));
        Fired { own, through: vec![i64::MIN; vnodes], low: i64::MIN, high: i64::MIN, saved: None }
    }

    /// Everything up to `millis` has fired for every vnode.
    pub(crate) fn raise(&mut self, millis: i64) {
        if self.low < millis {
            self.through.iter_mut().for_each(|through| *through = millis.max(*through));
            self.measure();
            self.saved = None;
        }
    }

    /// Up to when a vnode has fired.
    ///
    /// # Errors
    /// `Internal` for a vnode of another task.
    pub(crate) fn of(&self, vnode: u16) -> Result<i64> {
        vnode
            .checked_sub(self.own.start)
            .and_then(|index| self.through.get(usize::from(index)).copied())
            .ok_or_else(|| Error::internal(format!("a row of vnode {vnode} reached a task that does not own it")))
    }

    fn measure(&mut self) {
        self.low = self.through.iter().copied().min().unwrap_or(i64::MIN);
        self.high = self.through.iter().copied().max().unwrap_or(i64::MIN);
    }

    /// The piece's content: runs of equal times.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut data = self.own.start.to_le_bytes().to_vec();
        for run in self.through.chunk_by(|a, b| a == b) {
            data.extend_from_slice(&(run.len() as u16).to_le_bytes());
            data.extend_from_slice(&run[0].to_le_bytes());
        }
        data
    }

    /// Takes a piece back, as far as it is ours.
    ///
    /// # Errors
    /// `External` when the piece cannot be decoded.
    pub(crate) fn restore(&mut self, piece: &RestoredPiece) -> Result<()> {
        let damaged = || Error::external(format!("state piece `{}` cannot be read", piece.name));
        let (start, mut rest) = piece.data.split_first_chunk::<2>().ok_or_else(damaged)?;
        let mut vnode = u32::from(u16::from_le_bytes(*start));
        while !rest.is_empty() {
            let (length, tail) = rest.split_first_chunk::<2>().ok_or_else(damaged)?;
            let (time, tail) = tail.split_first_chunk::<8>().ok_or_else(damaged)?;
            rest = tail;
            for _ in 0..u16::from_le_bytes(*length) {
                if vnode >= u32::from(self.own.start) && vnode < u32::from(self.own.end) {
                    self.through[(vnode - u32::from(self.own.start)) as usize] = i64::from_le_bytes(*time);
                }
                vnode += 1;
            }
        }
        self.measure();
        Ok(())
    }
}

/// The vnode of each row of some key columns.
///
/// # Errors
/// `Config` for columns that cannot be hashed.
pub(crate) fn vnodes(keys: &[ArrayRef], rows: usize, count: u16, hashes: &mut Vec<u64>) -> Result<Vec<u16>> {
    hash::hash_rows(keys, rows, hashes)?;
    Ok(hashes.iter().map(|hash| hash::vnode(*hash, count)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fired_times_go_to_the_vnodes_they_belong_to() {
        let written = Fired { through: vec![5, 5, -7, i64::MIN, 9, 9], ..Fired::new(VnodeRange { start: 10, end: 16 }) };
        let piece = RestoredPiece { id: PieceId("p".into()), name: FIRED.into(), vnodes: written.own, data: written.encode() };
        let mut fired = Fired::new(VnodeRange { start: 8, end: 14 });
        fired.through = vec![1; 6];
        fired.restore(&piece).unwrap();
        assert_eq!(fired.through, [1, 1, 5, 5, -7, i64::MIN]);
        assert_eq!((fired.low, fired.high), (i64::MIN, 5));
        let torn = RestoredPiece { data: piece.data[..5].to_vec(), ..piece };
        assert!(fired.restore(&torn).is_err());
    }
}

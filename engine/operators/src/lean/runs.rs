//! Which records of a task each piece of a snapshot holds, and which have changed since.
//!
//! Records are numbered densely. A snapshot refers to the pieces of earlier ones and adds the records that have changed, so
//! that a record may stand in several; the newest counts. Once the pieces hold twice as many records as there are, or are
//! many, all records are written anew.

use tidegate_api::{Error, PieceId, RestoredPiece, Result, StatePiece, VnodeRange};

const PREFIX: &str = "run/";
/// Records per piece.
const PIECE: usize = 1 << 17;
/// Pieces that a snapshot refers to at most.
const MANY: usize = 128;
/// Superseded records that are not worth writing all others again.
const SLACK: usize = 4096;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// The pieces of the last snapshot, oldest first, and how many records each holds.
    saved: Vec<(PieceId, usize)>,
    /// The number of the next run.
    next: u64,
    /// One bit per record.
    changed: Vec<u64>,
    /// How many records each new piece of the last snapshot holds.
    writing: Vec<usize>,
}

impl Runs {
    /// Notes that a record is new or has changed.
    #[inline(always)]
    pub(crate) fn mark(&mut self, number: u32) {
        let (word, bit) = ((number >> 6) as usize, number & 63);
        if word >= self.changed.len() {
            self.changed.resize((word + 1).next_power_of_two().max(64), 0);
        }
        self.changed[word] |= 1 << bit;
    }

    /// Notes that all records have other numbers than before.
    pub(crate) fn renumbered(&mut self) {
        self.saved.clear();
        self.changed = Vec::new();
    }

    /// The pieces of a snapshot of `live` records; `encode` makes the bytes of some of them.
    ///
    /// # Errors
    /// Those of `encode`.
    pub(crate) fn snapshot(
        &mut self,
        live: usize,
        vnodes: VnodeRange,
        pieces: &mut Vec<StatePiece>,
        mut encode: impl FnMut(&[u32]) -> Result<Vec<u8>>,
    ) -> Result<()> {
        let mut numbers = self.take_changed(live);
        let saved: usize = self.saved.iter().map(|(_, records)| records).sum();
        if self.saved.is_empty() || saved + numbers.len() > 2 * live + SLACK || self.saved.len() >= MANY {
            self.saved.clear();
            numbers = (0..live as u32).collect();
        }
        pieces.extend(self.saved.iter().map(|(id, _)| StatePiece::Kept(id.clone())));
        self.writing.clear();
        for (part, numbers) in numbers.chunks(PIECE).enumerate() {
            pieces.push(StatePiece::New { name: format!("{PREFIX}{}/{part}", self.next), vnodes, data: encode(numbers)? });
            self.writing.push(numbers.len());
        }
        self.next += 1;
        Ok(())
    }

    /// Takes the identities of the new pieces, in their order, out of those of the whole snapshot.
    pub(crate) fn named(&mut self, ids: &mut impl Iterator<Item = PieceId>) {
        for records in self.writing.drain(..) {
            self.saved.extend(ids.next().map(|id| (id, records)));
        }
    }

    /// Hands the pieces of a snapshot back, oldest first. `each` takes one in, as far as it is the task's own, and answers how many
    /// records it holds. Other pieces than those of [`Runs::snapshot`] are left out.
    ///
    /// # Errors
    /// Those of `each`; `External` for a name that cannot be read.
    pub(crate) fn restore(
        &mut self,
        pieces: &[RestoredPiece],
        own: VnodeRange,
        mut each: impl FnMut(&RestoredPiece) -> Result<usize>,
    ) -> Result<()> {
        let mut runs = Vec::new();
        for piece in pieces {
            let Some(rest) = piece.name.strip_prefix(PREFIX) else { continue };
            let number = rest.split('/').next().and_then(|number| number.parse::<u64>().ok());
            runs.push((number.ok_or_else(|| Error::external(format!("state piece `{}` is none of this operator's", piece.name)))?, piece));
        }
        runs.sort_by_key(|(number, _)| *number);
        self.changed = Vec::new();
        self.saved.clear();
        for (number, piece) in &runs {
            let records = each(piece)?;
            self.saved.push((piece.id.clone(), records));
            self.next = self.next.max(number + 1);
        }
        // What another task holds too must not be referred to: its records would come back after it has dropped them.
        if runs.iter().any(|(_, piece)| !own.covers(piece.vnodes)) {
            self.saved.clear();
        }
        self.changed = Vec::new();
        Ok(())
    }

    fn take_changed(&mut self, live: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        for (index, word) in self.changed.iter_mut().enumerate() {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                let number = index as u32 * 64 + bits.trailing_zeros();
                bits &= bits - 1;
                if (number as usize) < live {
                    numbers.push(number);
                }
            }
        }
        numbers
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.changed.capacity() * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(runs: &mut Runs, live: usize, epoch: usize) -> (usize, Vec<u32>) {
        let (mut pieces, mut written) = (Vec::new(), Vec::new());
        runs.snapshot(live, VnodeRange::all(256), &mut pieces, |numbers| {
            written.extend_from_slice(numbers);
            Ok(Vec::new())
        })
        .unwrap();
        let new = pieces.iter().filter(|piece| !matches!(piece, StatePiece::Kept(_))).count();
        runs.named(&mut (0..new).map(|index| PieceId(format!("{epoch}/{index}"))));
        (pieces.len() - new, written)
    }

    #[test]
    fn a_snapshot_writes_what_has_changed_and_all_when_most_is_superseded() {
        let mut runs = Runs::default();
        (0..5000).for_each(|number| runs.mark(number));
        assert_eq!(round(&mut runs, 5000, 0).1.len(), 5000);
        assert_eq!(round(&mut runs, 5000, 1), (1, Vec::new()));
        runs.mark(77);
        runs.mark(4999);
        assert_eq!(round(&mut runs, 5000, 2), (1, vec![77, 4999]));
        let mut kept = Vec::new();
        for epoch in 3..8 {
            (0..4000).for_each(|number| runs.mark(number));
            kept.push(round(&mut runs, 5000, epoch).0);
        }
        assert_eq!(kept, [2, 3, 0, 1, 2]);
        runs.renumbered();
        assert_eq!(round(&mut runs, 3, 9), (0, vec![0, 1, 2]));
    }

    #[test]
    fn small_changes_do_not_pile_pieces_up() {
        let mut runs = Runs::default();
        for epoch in 0..1000 {
            runs.mark(5);
            assert!(round(&mut runs, 100_000, epoch).0 <= MANY);
        }
    }
}

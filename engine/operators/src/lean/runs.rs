//! Which records of a task each piece of a snapshot holds, and which have changed since.
//!
//! Records are numbered densely. A snapshot refers to the pieces of earlier ones and adds a *run*: the records that have changed.
//! A record may stand in several pieces; the newest counts. So that what is superseded does not pile up, and no snapshot has to
//! write everything again, the records are divided into *ranges* of equal length, each with a piece of its own, and a snapshot
//! writes a few ranges anew besides, the more of them the more is superseded. Once every range is newer than a run, the run is let go.

use std::collections::BTreeSet;
use tidegate_api::{DeferredBytes, Error, PieceId, RestoredPiece, Result, StatePiece, VnodeRange};

const PREFIX: &str = "run/";
/// Records per piece of a run.
const PIECE: usize = 1 << 17;
/// So many ranges are made of all records: the finer they are, the more even are snapshots, and the longer are manifests.
const RANGES: usize = 128;
/// Fewer records than this are one range.
const SMALL: usize = if cfg!(test) { 8 } else { 1 << 14 };
/// Runs that a snapshot refers to at most. From half of them on ranges are written anew however little is superseded.
const MANY: usize = 128;
/// Pieces of no more records are encoded at once: deferred ones lie in objects of their own, and each costs the store a round.
const AT_ONCE: usize = if cfg!(test) { 2 } else { 1 << 14 };
/// Superseded records that are not worth writing all others again.
const SLACK: usize = if cfg!(test) { 64 } else { 4096 };

/// How the last snapshot holds some records.
#[derive(Debug, Default)]
pub(crate) enum Saved {
    /// Not, or not as they are now.
    #[default]
    No,
    /// In these pieces, as they are now.
    Whole(Vec<PieceId>),
    /// In pieces by record: which of them have changed since is noted.
    Runs(Box<Runs>),
}

impl Saved {
    /// Notes that some of `total` records have changed.
    #[inline]
    pub(crate) fn note(&mut self, numbers: &[u32], total: usize) {
        match self {
            Saved::Runs(runs) => runs.mark_all(numbers, total),
            Saved::Whole(_) | Saved::No => *self = Saved::No,
        }
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        if let Saved::Runs(runs) = self { runs.bytes() } else { 0 }
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    ranges: Vec<Range>,
    /// Records per range.
    length: usize,
    /// The range to be written anew next.
    cursor: usize,
    /// Records that may be written anew, less than a range.
    credit: usize,
    /// The pieces of runs, oldest first.
    runs: Vec<Run>,
    /// The number of the next run.
    next: i64,
    /// One bit per record.
    changed: Vec<u64>,
    /// What each new piece of the last snapshot holds.
    writing: Vec<(Place, usize)>,
}

/// Some records with consecutive numbers.
#[derive(Debug)]
struct Range {
    /// The piece that holds them as of `run`, and how many; none if they are in runs only.
    piece: Option<(PieceId, usize)>,
    /// Its records stand in no run of this number or an earlier one, or stand in newer pieces too.
    run: i64,
}

#[derive(Debug)]
struct Run {
    id: PieceId,
    records: usize,
    number: i64,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Range(usize),
    Run,
}

impl Runs {
    /// Those of a restored snapshot: its pieces with how many records each holds, oldest first, and the greatest number of a run.
    pub(crate) fn resumed(pieces: impl IntoIterator<Item = (PieceId, usize)>, greatest: i64) -> Self {
        // Which records they hold is not known by number: they count as one run, older than any range will be.
        let number = greatest + 1;
        let runs = pieces.into_iter().map(|(id, records)| Run { id, records, number }).collect();
        Runs { runs, next: number + 1, ..Runs::default() }
    }

    /// Notes that a record is new or has changed.
    #[inline(always)]
    pub(crate) fn mark(&mut self, number: u32) {
        let (word, bit) = ((number >> 6) as usize, number & 63);
        if word >= self.changed.len() {
            self.changed.resize((word + 1).next_power_of_two().max(64), 0);
        }
        self.changed[word] |= 1 << bit;
    }

    /// As [`Runs::mark`] for many of `total` records.
    pub(crate) fn mark_all(&mut self, numbers: &[u32], total: usize) {
        let words = total.div_ceil(64);
        if words > self.changed.len() {
            self.changed.resize(words.next_power_of_two(), 0);
        }
        let changed = self.changed.as_mut_slice();
        numbers.iter().for_each(|number| changed[(number >> 6) as usize] |= 1 << (number & 63));
    }

    /// The next snapshot refers to no earlier one: records have other numbers than before, or earlier pieces are not to be had.
    pub(crate) fn renumbered(&mut self) {
        *self = Runs { next: self.next, ..Runs::default() };
    }

    /// The pieces of a snapshot of `live` records, with names that begin with `prefix`; `made` gives the content of some of them.
    ///
    /// # Errors
    /// Those of `made`.
    pub(crate) fn snapshot_as(
        &mut self,
        prefix: &str,
        live: usize,
        vnodes: VnodeRange,
        pieces: &mut Vec<StatePiece>,
        mut made: impl FnMut(&[u32]) -> Result<DeferredBytes>,
    ) -> Result<()> {
        let mut changed = self.take_changed(live);
        let anew = self.ranges_to_write(live, changed.len());
        if !anew.is_empty() {
            changed.retain(|number| !anew.contains(&(*number as usize / self.length)));
        }
        let number = self.next;
        self.next += 1;
        for range in &anew {
            self.ranges[*range] = Range { piece: None, run: number };
        }
        if !anew.is_empty() {
            let oldest = self.ranges.iter().map(|range| range.run).min().unwrap_or(number);
            self.runs.retain(|run| run.number > oldest);
        }
        let kept = self.ranges.iter().filter_map(|range| range.piece.as_ref().map(|(id, _)| id));
        pieces.extend(kept.chain(self.runs.iter().map(|run| &run.id)).cloned().map(StatePiece::Kept));
        self.writing.clear();
        let mut write = |place: Place, numbers: &[u32]| {
            let name = format!("{prefix}{number}/{}", self.writing.len());
            let data = made(numbers)?;
            pieces.push(if numbers.len() <= AT_ONCE {
                StatePiece::New { name, vnodes, data: data.0.make()? }
            } else {
                StatePiece::Deferred { name, vnodes, data }
            });
            self.writing.push((place, numbers.len()));
            Ok::<(), Error>(())
        };
        let mut numbers = Vec::new();
        for range in anew {
            numbers.clear();
            numbers.extend((range * self.length) as u32..((range + 1) * self.length).min(live) as u32);
            write(Place::Range(range), &numbers)?;
        }
        changed.chunks(PIECE).try_for_each(|numbers| write(Place::Run, numbers))
    }

    /// As [`Runs::snapshot_as`] where the pieces need no other names.
    ///
    /// # Errors
    /// Those of `made`.
    pub(crate) fn snapshot(
        &mut self,
        live: usize,
        vnodes: VnodeRange,
        pieces: &mut Vec<StatePiece>,
        made: impl FnMut(&[u32]) -> Result<DeferredBytes>,
    ) -> Result<()> {
        self.snapshot_as(PREFIX, live, vnodes, pieces, made)
    }

    /// The ranges that a snapshot of `live` records writes anew, of which so many have changed.
    fn ranges_to_write(&mut self, live: usize, changed: usize) -> BTreeSet<usize> {
        let records: usize = self.runs.iter().map(|run| run.records).sum();
        let ranges: usize = self.ranges.iter().filter_map(|range| range.piece.as_ref()).map(|(_, records)| records).sum();
        let superseded = (records + ranges + changed).saturating_sub(live);
        let runs = self.runs.chunk_by(|a, b| a.number == b.number).count();
        let small = live <= SMALL;
        let bearable = if small { live + SLACK } else { 2 * live + SLACK };
        // Pieces that were restored count as one run, and there may be many small ones of them.
        let pieces = if small { MANY } else { 8 * (RANGES + live / PIECE) };
        let too_many = runs >= MANY || self.runs.len() >= pieces || self.ranges.len() > 4 * RANGES;
        if (self.runs.is_empty() && self.ranges.is_empty()) || superseded > bearable || too_many {
            self.runs.clear();
            self.ranges.clear();
            self.divide(live);
            return (0..self.ranges.len()).collect();
        }
        self.divide(live);
        if small || changed == 0 {
            return BTreeSet::new();
        }
        // In proportion to what is superseded, which settles near half of what is there, by writing not quite twice what has changed.
        let wanted = (changed as f64 * 3.0 * superseded as f64 / live as f64) as usize;
        let least = if runs >= MANY / 2 { live / (MANY / 8 * 3) } else { 0 };
        self.credit += wanted.max(least);
        let count = (self.credit / self.length).min(self.ranges.len());
        self.credit %= self.length;
        let first = self.cursor;
        self.cursor = (first + count) % self.ranges.len();
        (first..first + count).map(|range| range % self.ranges.len()).collect()
    }

    /// Makes ranges for records that have none.
    fn divide(&mut self, live: usize) {
        // None of their records was in a run before this one.
        let mut run = self.next - 1;
        if self.ranges.is_empty() {
            // All of them may have been in the last one.
            run -= 1;
            (self.cursor, self.credit) = (0, 0);
            self.length = if live <= SMALL { SMALL } else { live.div_ceil(RANGES).max(SMALL.div_ceil(16)) };
        }
        self.ranges.resize_with(live.div_ceil(self.length).max(self.ranges.len()), || Range { piece: None, run });
    }

    /// Takes the identities of the new pieces, in their order, out of those of the whole snapshot.
    pub(crate) fn named(&mut self, ids: &mut impl Iterator<Item = PieceId>) {
        let number = self.next - 1;
        for (place, records) in self.writing.drain(..) {
            let Some(id) = ids.next() else { return };
            match place {
                Place::Range(range) => self.ranges[range].piece = Some((id, records)),
                Place::Run => self.runs.push(Run { id, records, number }),
            }
        }
    }

    /// How many pieces of the last snapshot are new.
    pub(crate) fn new_pieces(&self) -> usize {
        self.writing.len()
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
            let number = run_number(rest);
            runs.push((number.ok_or_else(|| Error::external(format!("state piece `{}` is none of this operator's", piece.name)))?, piece));
        }
        runs.sort_by_key(|(number, _)| *number);
        let mut saved = Vec::with_capacity(runs.len());
        for (_, piece) in &runs {
            saved.push((piece.id.clone(), each(piece)?));
        }
        // What another task holds too must not be referred to: its records would come back after it has dropped them.
        if runs.iter().any(|(_, piece)| !own.covers(piece.vnodes)) {
            saved.clear();
        }
        *self = Runs::resumed(saved, runs.last().map_or(-1, |(number, _)| *number));
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
        self.changed.capacity() * 8 + self.ranges.capacity() * size_of::<Range>() + self.runs.capacity() * size_of::<Run>()
    }
}

/// The number of the run that a piece belongs to; `rest` is its name behind the prefix.
pub(crate) fn run_number(rest: &str) -> Option<i64> {
    rest.split('/').next().and_then(|number| number.parse().ok()).filter(|number| (0..i64::MAX - 4).contains(number))
}

#[cfg(test)]
mod tests;

//! The table: for every key its versions, newest first.
//!
//! Rows stay in the columns they came in (a chunk); a version is a time and a row's place. Without `asOf` a key has one version,
//! which the next one overwrites. With `asOf` the versions that no row can ask for any more leave when a newer one comes.

use super::bind::Plan;
use crate::keys::{GroupBy, Groups, Keys};
use arrow::array::{Array, ArrayRef, RecordBatch, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::interleave;
use tidegate_api::Result;

const NONE: u32 = u32::MAX;

/// Chunk and row.
type Place = (u32, u32);

/// A version of a key.
#[derive(Debug, Clone, Copy)]
struct Version {
    /// Since when, in microseconds; without `asOf` always the same.
    since: i64,
    /// Chunk and row; of a delete, the row that says its key.
    place: Place,
    delete: bool,
    /// The next older one.
    older: u32,
}

/// Rows that came together.
#[derive(Debug)]
struct Chunk {
    rows: RecordBatch,
    live: usize,
}

/// What the table has for the rows of a batch.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Per row, chunk and row.
    rows: Vec<Option<Place>>,
}

impl Found {
    /// The rows that have a match.
    pub(super) fn matched(&self) -> impl Iterator<Item = bool> + '_ {
        self.rows.iter().map(Option::is_some)
    }

    /// Leaves only the rows that have a match.
    pub(super) fn retain_matched(&mut self) {
        self.rows.retain(Option::is_some);
    }
}

/// A change of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) since: i64,
    pub(super) delete: bool,
}

#[derive(Debug)]
pub(super) struct Table {
    by: GroupBy,
    groups: Groups,
    /// Per key, its newest version.
    heads: Vec<u32>,
    versions: Vec<Version>,
    free: Vec<u32>,
    chunks: Vec<Option<Chunk>>,
    /// Rows in chunks, and those of them that are versions.
    stored: usize,
    live: usize,
    /// Keys with a version.
    known: usize,
    numbers: Vec<u32>,
}

/// The keys of some rows in their common types, and which rows have no null among them.
pub(super) struct KeyColumns {
    columns: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
}

impl KeyColumns {
    /// Those of a batch of one input.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn of(plan: &Plan, input: usize, batch: &RecordBatch) -> Result<Self> {
        let columns = plan.keys[input].iter().zip(&plan.forms).map(|(index, form)| form.of(batch.column(*index)));
        let columns = columns.collect::<Result<Vec<ArrayRef>>>()?;
        let nulls = columns.iter().fold(None, |nulls: Option<NullBuffer>, column| NullBuffer::union(nulls.as_ref(), column.nulls()));
        Ok(KeyColumns { columns, nulls })
    }

    fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }
}

impl Table {
    pub(super) fn new(plan: &Plan) -> Result<Self> {
        let by = GroupBy::new(plan.key_types())?;
        Ok(Table {
            groups: by.table(),
            by,
            heads: Vec::new(),
            versions: Vec::new(),
            free: Vec::new(),
            chunks: Vec::new(),
            stored: 0,
            live: 0,
            known: 0,
            numbers: Vec::new(),
        })
    }

    /// The key's number of every row. Keys of the stream are numbered too; those without a version leave with the next tidying.
    fn number(&mut self, keys: &KeyColumns, rows: usize) -> Result<()> {
        let interned: Keys = self.by.keys(&keys.columns)?;
        self.numbers.clear();
        let numbers = &mut self.numbers;
        self.groups.intern(&interned, 0..rows, |number| numbers.push(number))?;
        self.heads.resize(self.groups.len(), NONE);
        Ok(())
    }

    /// Takes changes in their order. Versions of before `needless` that a later one of before then covers are dropped.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn absorb(&mut self, rows: &RecordBatch, keys: &KeyColumns, changes: &[Change], needless: i64) -> Result<()> {
        self.number(keys, rows.num_rows())?;
        let chunk = self.chunks.len() as u32;
        self.chunks.push(Some(Chunk { rows: rows.clone(), live: 0 }));
        self.stored += rows.num_rows();
        for (row, change) in changes.iter().enumerate() {
            if keys.is_null(row) {
                continue;
            }
            self.insert(self.numbers[row] as usize, *change, (chunk, row as u32), needless);
        }
        self.drop_dead();
        Ok(())
    }

    fn insert(&mut self, key: usize, change: Change, place: Place, needless: i64) {
        let Change { since, delete } = change;
        self.known += usize::from(self.heads[key] == NONE);
        self.count(place, 1);
        // Mostly the newest one, so that the walk is short.
        let (mut newer, mut at) = (NONE, self.heads[key]);
        while at != NONE && self.versions[at as usize].since > since {
            (newer, at) = (at, self.versions[at as usize].older);
        }
        if at != NONE && self.versions[at as usize].since == since {
            let version = &mut self.versions[at as usize];
            version.delete = delete;
            let replaced = std::mem::replace(&mut version.place, place);
            self.count(replaced, -1);
        } else {
            let version = Version { since, place, delete, older: at };
            let made = match self.free.pop() {
                Some(free) => {
                    self.versions[free as usize] = version;
                    free
                }
                None => {
                    self.versions.push(version);
                    (self.versions.len() - 1) as u32
                }
            };
            match newer {
                NONE => self.heads[key] = made,
                newer => self.versions[newer as usize].older = made,
            }
        }
        self.forget(key, needless);
    }

    /// Drops the versions of a key that no row from `needless` on can ask for.
    fn forget(&mut self, key: usize, needless: i64) {
        let mut newer = NONE;
        let mut at = self.heads[key];
        while at != NONE && self.versions[at as usize].since > needless {
            (newer, at) = (at, self.versions[at as usize].older);
        }
        if at == NONE {
            return;
        }
        // This one is valid at `needless`. A delete says what is said by nothing; the older ones are covered.
        let covering = self.versions[at as usize];
        let mut gone = covering.older;
        if covering.delete {
            gone = at;
            match newer {
                NONE => {
                    self.heads[key] = NONE;
                    self.known -= 1;
                }
                newer => self.versions[newer as usize].older = NONE,
            }
        } else {
            self.versions[at as usize].older = NONE;
        }
        while gone != NONE {
            let version = self.versions[gone as usize];
            self.count(version.place, -1);
            self.free.push(gone);
            gone = version.older;
        }
    }

    fn count(&mut self, (chunk, _): Place, by: isize) {
        if let Some(chunk) = self.chunks[chunk as usize].as_mut() {
            chunk.live = chunk.live.saturating_add_signed(by);
            self.live = self.live.saturating_add_signed(by);
        }
    }

    fn drop_dead(&mut self) {
        for chunk in &mut self.chunks {
            if let Some(dead) = chunk.take_if(|chunk| chunk.live == 0) {
                self.stored -= dead.rows.num_rows();
            }
        }
    }

    /// What the table says of the keys, for each row at its time; without times the latest.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn find(&mut self, keys: &KeyColumns, rows: usize, time: impl Fn(usize) -> i64, found: &mut Found) -> Result<()> {
        self.number(keys, rows)?;
        found.rows.clear();
        for row in 0..rows {
            let mut at = if keys.is_null(row) { NONE } else { self.heads[self.numbers[row] as usize] };
            let time = time(row);
            while at != NONE && self.versions[at as usize].since > time {
                at = self.versions[at as usize].older;
            }
            let version = self.versions.get(at as usize).filter(|version| !version.delete);
            found.rows.push(version.map(|version| version.place));
        }
        Ok(())
    }

    /// A column of the found rows; null where nothing was found.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn column(&self, plan: &Plan, index: usize, found: &Found) -> Result<ArrayRef> {
        let nothing = new_null_array(plan.right.field(index).data_type(), 1);
        // Only chunks that are met, since every one may bring its buffers along.
        let mut places = vec![NONE; self.chunks.len()];
        let mut arrays: Vec<&dyn Array> = vec![nothing.as_ref()];
        let mut from = Vec::with_capacity(found.rows.len());
        for row in &found.rows {
            from.push(match row.and_then(|(chunk, row)| self.chunks[chunk as usize].as_ref().map(|rows| (chunk, row, rows))) {
                None => (0, 0),
                Some((chunk, row, rows)) => {
                    let place = &mut places[chunk as usize];
                    if *place == NONE {
                        *place = arrays.len() as u32;
                        arrays.push(rows.rows.column(index).as_ref());
                    }
                    (*place as usize, row as usize)
                }
            });
        }
        Ok(interleave(&arrays, &from)?)
    }

    /// Whether the table holds more than it needs: [`Table::rewritten`] and a fresh table would be smaller.
    pub(super) fn is_wasteful(&self) -> bool {
        let small = self.chunks.len() > 256 && self.stored < self.chunks.len() * 512;
        small || self.stored > 2 * self.live + 8192 || self.groups.len() > 2 * self.known + 8192
    }

    /// How many rows are versions.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// All versions as changes, for each key in the order of time.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn rewritten(&self) -> Result<Vec<(RecordBatch, Vec<Change>)>> {
        let mut changes: Vec<(Place, Change)> = Vec::with_capacity(self.live);
        for head in self.heads.iter().filter(|head| **head != NONE) {
            let (first, mut at) = (changes.len(), *head);
            while at != NONE {
                let Version { since, place, delete, older } = self.versions[at as usize];
                changes.push((place, Change { since, delete }));
                at = older;
            }
            changes[first..].reverse();
        }
        let mut parts = Vec::new();
        for part in changes.chunks(8192) {
            // Rows of one chunk are taken together, then put back in order.
            let mut chunks: Vec<u32> = part.iter().map(|((chunk, _), _)| *chunk).collect();
            chunks.sort_unstable();
            chunks.dedup();
            let place = |chunk: u32| chunks.partition_point(|known| *known < chunk);
            let from: Vec<(usize, usize)> = part.iter().map(|((chunk, row), _)| (place(*chunk), *row as usize)).collect();
            let rows: Vec<&RecordBatch> =
                chunks.iter().filter_map(|chunk| self.chunks[*chunk as usize].as_ref()).map(|chunk| &chunk.rows).collect();
            parts.push((arrow::compute::interleave_record_batch(&rows, &from)?, part.iter().map(|(_, change)| *change).collect()));
        }
        Ok(parts)
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().flatten().map(|chunk| chunk.rows.get_array_memory_size()).sum();
        chunks + self.groups.bytes() + self.heads.capacity() * 4 + self.versions.capacity() * size_of::<Version>()
    }
}

//! The first rows of every group in an order, kept as rows come, change and go.
//!
//! Of rows that are final only the first `n` of a group are kept, since no other can ever be among them. Rows that update
//! each other are all kept: any of them may move up when another goes.

use super::list::{Entry, List};
use super::moves::Moves;
use super::order::{Order, RowHash};
use super::pieces::{decode, own_rows};
use super::store::{Across, CHUNK, Store, piece_place};
use crate::keys::{GroupBy, Groups, Keys};
use arrow::array::{ArrayRef, AsArray, BinaryArray, BooleanArray, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter, filter_record_batch, take_arrays};
use arrow::datatypes::DataType;
use std::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use tidegate_api::{Error, OperatorCtx, PieceId, RestoredPiece, Result, StatePiece, hidden};

/// What a ranking is made of; a task's rankings share it.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The rows' columns.
    pub(crate) types: Vec<DataType>,
    pub(crate) by: GroupBy,
    pub(crate) groups: Vec<usize>,
    pub(crate) order: Order,
    /// `None` when the order has no ties.
    pub(crate) hash: Option<RowHash>,
    pub(crate) n: usize,
    /// The columns by which rows update each other.
    pub(crate) keys: Option<Vec<usize>>,
    /// The columns that decide a row's task.
    pub(crate) exchange: Vec<usize>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Ranking {
    shape: Arc<Shape>,
    groups: Groups,
    lists: Vec<List>,
    store: Store,
    held: Option<Held>,
    /// How many rows of the store are alive.
    live: usize,
    changes: Option<Changes>,
    /// Whether the last snapshot has a piece that tells living rows from dead ones.
    marked: bool,
    scratch: Scratch,
}

/// The rows that may be updated, by their keys.
#[derive(Debug)]
struct Held {
    by: GroupBy,
    keys: Groups,
    at: Vec<Option<(u32, Entry)>>,
    /// The row of the running batch that is the key's newest. What other batches left there means nothing.
    newest: Vec<u32>,
    gone: usize,
}

/// What has to be told of groups that changed.
#[derive(Debug, Default)]
struct Changes {
    /// Groups whose first rows are not what was told, with what was: a part of `told`.
    waiting: VecDeque<(u32, usize, usize)>,
    is_waiting: Vec<bool>,
    told: Vec<u32>,
    /// Changes on their way.
    ready: VecDeque<Change>,
}

/// A rank whose row has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) group: u32,
    /// From 1.
    pub(crate) rank: u32,
    /// The row that has the rank now, or had it before it went.
    pub(crate) id: u32,
    /// [`hidden::UPSERT`] or [`hidden::DELETE`].
    pub(crate) op: u8,
}

/// Rows with what places them, prepared once for many rankings of one shape.
#[derive(Debug)]
pub(crate) struct Prepared {
    /// As they are stored.
    columns: Vec<ArrayRef>,
    heads: Vec<u64>,
    hashes: Vec<u64>,
}

/// Rows prepared together are stored without a copy as long as they are few, or a good part of them goes to one ranking: what
/// stays must not keep much alive that is gone.
const FEW: usize = 64;
const GOOD_PART: usize = 16;

impl Shape {
    /// Prepares rows for [`Ranking::absorb_prepared`].
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn prepared(&self, mut columns: Vec<ArrayRef>, rows: usize) -> Result<Prepared> {
        let (mut heads, mut hashes) = (Vec::new(), vec![0; rows]);
        self.order.heads(&columns, &mut heads)?;
        if let Some(hash) = &self.hash {
            hash.of(&columns, rows, &mut hashes)?;
        }
        if let Some(tails) = self.order.tails(&columns)? {
            columns.push(Arc::new(tails));
        }
        Ok(Prepared { columns, heads, hashes })
    }
}

#[derive(Debug, Default)]
struct Scratch {
    numbers: Vec<u32>,
    heads: Vec<u64>,
    hashes: Vec<u64>,
}

/// Set in the number of a row that is ranked and not stored yet.
const COMING: u32 = 1 << 31;

/// Keys and groups that are gone and not worth numbering the others anew.
const SLACK: usize = 1024;

impl Ranking {
    /// A ranking without rows. It notes changes when `told`.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(crate) fn new(shape: &Arc<Shape>, told: bool) -> Result<Self> {
        let held = match &shape.keys {
            None => None,
            Some(keys) => {
                let by = GroupBy::new(keys.iter().map(|index| shape.types[*index].clone()).collect())?;
                Some(Held { keys: by.table(), by, at: Vec::new(), newest: Vec::new(), gone: 0 })
            }
        };
        let mut stored = shape.types.clone();
        stored.extend(shape.order.has_tails().then_some(DataType::Binary));
        Ok(Ranking {
            groups: shape.by.table(),
            lists: Vec::new(),
            store: Store::new(stored),
            held,
            live: 0,
            changes: told.then(Changes::default),
            marked: false,
            scratch: Scratch::default(),
            shape: Arc::clone(shape),
        })
    }

    /// Takes rows, all with a value to be ordered by.
    ///
    /// # Errors
    /// `Internal` when a kernel fails; `Limit` when there are too many rows.
    pub(crate) fn absorb(&mut self, columns: &[ArrayRef], rows: usize) -> Result<()> {
        let numbers = self.number(columns, rows)?;
        let mut heads = std::mem::take(&mut self.scratch.heads);
        self.shape.order.heads(columns, &mut heads)?;
        let n = self.shape.n;
        // Most rows of a long stream are behind the last that counts, and need not be looked at closer.
        let mut candidates: Vec<u32> = Vec::new();
        for (row, number) in numbers.iter().enumerate() {
            let list = &self.lists[*number as usize];
            if list.len() < n || list.last().is_some_and(|last| heads[row] <= last.head) {
                candidates.push(row as u32);
            }
        }
        self.scratch.heads = heads;
        self.add(columns, rows, candidates, &numbers, None)?;
        self.scratch.numbers = numbers;
        self.tidy()
    }

    /// Takes some of the prepared rows, all with a value to be ordered by, where rows are final and have no groups.
    ///
    /// # Errors
    /// As [`Ranking::absorb`].
    pub(crate) fn absorb_prepared(&mut self, prepared: &Prepared, rows: Range<usize>) -> Result<()> {
        self.groups.intern(&Keys::None, rows.clone(), |_| {})?;
        self.lists.resize_with(self.groups.len(), List::new);
        let columns: Vec<ArrayRef> = if prepared.heads.len() <= FEW || rows.len() * GOOD_PART >= prepared.heads.len() {
            prepared.columns.iter().map(|column| column.slice(rows.start, rows.len())).collect()
        } else {
            take_arrays(&prepared.columns, &UInt32Array::from_iter_values(rows.start as u32..rows.end as u32), None)?
        };
        let mut ids = Vec::with_capacity(rows.len());
        self.store.append(&columns, rows.len(), &mut ids)?;
        for (row, id) in rows.zip(ids) {
            self.insert_final(0, Entry { head: prepared.heads[row], hash: prepared.hashes[row], id }, None);
        }
        self.tidy()
    }

    /// Puts a final row into its group's list, unless it is behind all that count, and says whether it did, and which row went for
    /// it. `coming` are the tails of rows that are not stored yet.
    fn insert_final(&mut self, group: u32, entry: Entry, coming: Option<&BinaryArray>) -> (bool, Option<u32>) {
        let (n, tail) = (self.shape.n, self.tail_column());
        let list = &self.lists[group as usize];
        let is_full = list.len() >= n;
        if is_full && list.last().is_some_and(|last| compared(&self.store, coming, tail, last, &entry).is_le()) {
            return (false, None);
        }
        self.touch(group);
        let (list, store) = (&mut self.lists[group as usize], &self.store);
        let gone = if is_full { list.pop().map(|last| last.id) } else { None };
        list.insert(entry, n, |a, b| compared(store, coming, tail, a, b));
        self.live += usize::from(gone.is_none());
        (true, gone)
    }

    /// Takes rows that update each other; `ranked` are those that shall be ranked, the others are only to go.
    ///
    /// # Errors
    /// As [`Ranking::absorb`].
    pub(crate) fn update(&mut self, columns: &[ArrayRef], rows: usize, ranked: &BooleanBuffer) -> Result<()> {
        let Some(keys) = &self.shape.keys else { return Err(Error::internal("rows without keys cannot update each other")) };
        let Some(held) = &mut self.held else { return Err(Error::internal("rows that are final cannot be updated")) };
        let key_columns: Vec<ArrayRef> = keys.iter().map(|index| Arc::clone(&columns[*index])).collect();
        let mut kids: Vec<u32> = Vec::with_capacity(rows);
        held.keys.intern(&held.by.keys(&key_columns)?, 0..rows, |kid| kids.push(kid))?;
        held.at.resize(held.keys.len(), None);
        held.newest.resize(held.keys.len(), 0);
        kids.iter().enumerate().for_each(|(row, kid)| held.newest[*kid as usize] = row as u32);
        let mut candidates: Vec<u32> = Vec::new();
        let mut goes: Vec<(u32, Entry)> = Vec::new();
        for (row, kid) in kids.iter().enumerate().filter(|(row, kid)| held.newest[**kid as usize] == *row as u32) {
            if let Some(old) = held.at[*kid as usize].take() {
                goes.push(old);
            }
            if ranked.value(row) {
                candidates.push(row as u32);
            }
        }
        for (group, entry) in goes {
            self.touch(group);
            let (store, tail) = (&self.store, self.tail_column());
            if self.lists[group as usize].remove(&entry, |a, b| compared(store, None, tail, a, b)) {
                self.live -= 1;
            }
        }
        let numbers = self.number(columns, rows)?;
        self.add(columns, rows, candidates, &numbers, Some(&kids))?;
        self.scratch.numbers = numbers;
        if let Some(held) = &mut self.held {
            held.gone = held.keys.len() - self.live.min(held.keys.len());
        }
        self.tidy()
    }

    fn number(&mut self, columns: &[ArrayRef], rows: usize) -> Result<Vec<u32>> {
        let keys: Vec<ArrayRef> = self.shape.groups.iter().map(|index| Arc::clone(&columns[*index])).collect();
        let mut numbers = std::mem::take(&mut self.scratch.numbers);
        numbers.clear();
        self.groups.intern(&self.shape.by.keys(&keys)?, 0..rows, |number| numbers.push(number))?;
        self.lists.resize_with(self.groups.len(), List::new);
        Ok(numbers)
    }

    fn tail_column(&self) -> Option<usize> {
        self.shape.order.has_tails().then_some(self.shape.types.len())
    }

    /// Stores candidates and puts them in their lists. `kids` are the rows' keys, where rows update each other.
    fn add(&mut self, columns: &[ArrayRef], rows: usize, candidates: Vec<u32>, numbers: &[u32], kids: Option<&[u32]>) -> Result<()> {
        let count = candidates.len();
        if count == 0 {
            return Ok(());
        }
        let numbers: Vec<(u32, u32)> =
            candidates.iter().map(|row| (numbers[*row as usize], kids.map_or(0, |kids| kids[*row as usize]))).collect();
        // A copy even of all rows: a batch may be a slice of one that is much greater.
        debug_assert!(count <= rows);
        let mut taken = take_arrays(columns, &UInt32Array::from(candidates), None)?;
        let mut scratch = std::mem::take(&mut self.scratch);
        self.shape.order.heads(&taken, &mut scratch.heads)?;
        match &self.shape.hash {
            Some(hash) => hash.of(&taken, count, &mut scratch.hashes)?,
            None => {
                scratch.hashes.clear();
                scratch.hashes.resize(count, 0);
            }
        }
        if let Some(tails) = self.shape.order.tails(&taken)? {
            taken.push(Arc::new(tails));
        }
        // They are ranked before they are stored: of a batch of one group no more than the first are copied.
        let tail = self.tail_column();
        let tails = tail.map(|column| taken[column].as_binary::<i32>());
        let mut ranked = vec![false; count];
        for (index, (group, _)) in numbers.iter().enumerate() {
            let entry = Entry { head: scratch.heads[index], hash: scratch.hashes[index], id: COMING | index as u32 };
            if self.held.is_none() {
                let (is_ranked, gone) = self.insert_final(*group, entry, tails);
                ranked[index] = is_ranked;
                if let Some(gone) = gone.filter(|gone| gone & COMING != 0) {
                    ranked[(gone & !COMING) as usize] = false;
                }
                continue;
            }
            self.touch(*group);
            let store = &self.store;
            self.lists[*group as usize].insert(entry, usize::MAX, |a, b| compared(store, tails, tail, a, b));
            self.live += 1;
            ranked[index] = true;
        }
        let stays = BooleanArray::from(ranked);
        let stored = match stays.true_count() {
            all if all == count => taken,
            _ => taken.iter().map(|column| filter(column, &stays)).collect::<std::result::Result<Vec<_>, _>>()?,
        };
        let mut ids = Vec::with_capacity(stays.true_count());
        self.store.append(&stored, stays.true_count(), &mut ids)?;
        let mut number_of = vec![0; count];
        let mut groups = Vec::with_capacity(ids.len());
        for (index, id) in stays.values().set_indices().zip(ids) {
            number_of[index] = id;
            groups.push(numbers[index].0);
            if let Some(held) = &mut self.held {
                let entry = Entry { head: scratch.heads[index], hash: scratch.hashes[index], id };
                held.at[numbers[index].1 as usize] = Some((numbers[index].0, entry));
            }
        }
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            for entry in self.lists[group as usize].iter_mut().filter(|entry| entry.id & COMING != 0) {
                entry.id = number_of[(entry.id & !COMING) as usize];
            }
        }
        self.scratch = scratch;
        Ok(())
    }

    /// Notes what was told of a group before it changes.
    fn touch(&mut self, group: u32) {
        let Some(changes) = &mut self.changes else { return };
        let index = group as usize;
        if changes.is_waiting.len() < self.lists.len() {
            changes.is_waiting.resize(self.lists.len(), false);
        }
        if !std::mem::replace(&mut changes.is_waiting[index], true) {
            let from = changes.told.len();
            changes.told.extend(self.lists[index].iter().take(self.shape.n).map(|entry| entry.id));
            changes.waiting.push_back((group, from, changes.told.len()));
        }
    }

    /// Groups that have changed, at least one and no more than make `rows` rows together, each with whether it had rows when it was
    /// told last; `None` once there are none.
    pub(crate) fn changed_groups(&mut self, rows: usize) -> Option<Vec<(u32, bool)>> {
        let (lists, n) = (&self.lists, self.shape.n);
        let changes = self.changes.as_mut()?;
        let (mut groups, mut held) = (Vec::new(), 0);
        while let Some((group, from, to)) = changes.waiting.front().copied() {
            let size = lists[group as usize].len().min(n).max(1);
            if !groups.is_empty() && held + size > rows {
                break;
            }
            held += size;
            changes.waiting.pop_front();
            changes.is_waiting[group as usize] = false;
            groups.push((group, to > from));
        }
        if changes.waiting.is_empty() {
            changes.told.clear();
        }
        (!groups.is_empty()).then_some(groups)
    }

    /// The next ranks that have changed, at most `limit`; `None` once there are none.
    pub(crate) fn next_changes(&mut self, limit: usize) -> Option<Vec<Change>> {
        let (lists, n) = (&self.lists, self.shape.n);
        let changes = self.changes.as_mut()?;
        while changes.ready.len() < limit {
            let Some((group, from, to)) = changes.waiting.pop_front() else { break };
            changes.is_waiting[group as usize] = false;
            let told = &changes.told[from..to];
            let mut now = lists[group as usize].iter().take(n);
            for rank in 1.. {
                let (before, after) = (told.get(rank as usize - 1), now.next());
                let change = |id: u32, op: u8| Change { group, rank, id, op };
                match (before, after) {
                    (None, None) => break,
                    (Some(before), Some(after)) if *before == after.id => {}
                    (_, Some(after)) => changes.ready.push_back(change(after.id, hidden::UPSERT)),
                    (Some(before), None) => changes.ready.push_back(change(*before, hidden::DELETE)),
                }
            }
        }
        if changes.waiting.is_empty() {
            changes.told.clear();
        }
        let count = changes.ready.len().min(limit);
        (count > 0).then(|| changes.ready.drain(..count).collect())
    }

    /// Whether every change was told.
    pub(crate) fn is_told(&self) -> bool {
        self.changes.as_ref().is_none_or(|changes| changes.waiting.is_empty() && changes.ready.is_empty())
    }

    /// How many groups were ever met; some may be empty.
    pub(crate) fn group_count(&self) -> usize {
        self.lists.len()
    }

    /// The rows of a group that count, first to last.
    pub(crate) fn ranked(&self, group: u32) -> impl Iterator<Item = u32> + '_ {
        self.lists[group as usize].iter().take(self.shape.n).map(|entry| entry.id)
    }

    /// The group columns of some groups.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn group_columns(&self, groups: &[u32]) -> Result<Vec<ArrayRef>> {
        self.shape.by.columns_of(&self.groups, groups)
    }

    /// Where rows begin to be behind the last that counts of the only group: the greatest head among as many rows as count.
    pub(crate) fn last_head(&self) -> Option<u64> {
        let list = self.lists.first().filter(|list| list.len() >= self.shape.n)?;
        list.last().map(|last| last.head)
    }

    /// Adds some rows to those of other rankings.
    pub(crate) fn rows_among<'a>(&'a self, ids: &[u32], across: &mut Across<'a>) {
        across.add(&self.store, ids);
    }

    /// The columns of some rows.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn rows(&self, ids: &[u32]) -> Result<Vec<ArrayRef>> {
        self.store.gather(ids, 0..self.shape.types.len())
    }

    /// Gives back what is dead, once that is much and nothing that is to be told refers to it.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn tidy(&mut self) -> Result<()> {
        if !self.is_told() {
            return Ok(());
        }
        if self.store.len() > self.live + self.live / 2 + CHUNK {
            self.evacuate()?;
        }
        let Some(held) = &mut self.held else { return Ok(()) };
        if held.gone > SLACK + self.live {
            let stay: Vec<u32> = (0..held.at.len() as u32).filter(|kid| held.at[*kid as usize].is_some()).collect();
            held.keys = renumbered(&held.by, &held.keys, &stay)?;
            held.at = stay.iter().map(|kid| held.at[*kid as usize]).collect();
            held.newest = vec![0; stay.len()];
            held.gone = 0;
            let used: Vec<u32> = (0..self.lists.len() as u32).filter(|group| !self.lists[*group as usize].is_empty()).collect();
            let mut new = vec![0; self.lists.len()];
            used.iter().enumerate().for_each(|(number, group)| new[*group as usize] = number as u32);
            self.groups = renumbered(&self.shape.by, &self.groups, &used)?;
            self.lists.retain(|list| !list.is_empty());
            self.lists.shrink_to_fit();
            held.at.iter_mut().flatten().for_each(|(group, _)| *group = new[*group as usize]);
            if let Some(changes) = &mut self.changes {
                changes.is_waiting = Vec::new();
            }
        }
        Ok(())
    }

    /// Moves the living rows of chunks that are dead in part.
    fn evacuate(&mut self) -> Result<()> {
        let living = self.lists.iter().flat_map(List::iter).map(|entry| entry.id);
        let moves = Moves::make(&mut self.store, living)?;
        let held = self.held.iter_mut().flat_map(|held| held.at.iter_mut().flatten()).map(|(_, entry)| entry);
        for entry in self.lists.iter_mut().flat_map(List::iter_mut).chain(held) {
            entry.id = moves.number(entry.id);
        }
        Ok(())
    }

    /// The pieces of a snapshot, under names that begin with `prefix`.
    ///
    /// # Errors
    /// `Internal` when rows cannot be written, or changes wait to be told.
    pub(crate) fn snapshot(&mut self, prefix: &str, ctx: &OperatorCtx, pieces: &mut Vec<StatePiece>) -> Result<()> {
        if !self.is_told() {
            return Err(Error::internal("a snapshot was asked for while changes are being told"));
        }
        self.tidy()?;
        self.store.snapshot(prefix, self.shape.types.len(), ctx.vnodes, pieces)?;
        // Of final rows the dead ones may come back: they are behind the living, as they were.
        self.marked = self.held.is_some() && self.store.len() > 0;
        if let Some(held) = self.held.as_ref().filter(|_| self.marked) {
            let mut alive = vec![0u8; self.store.end().div_ceil(8)];
            held.at.iter().flatten().for_each(|(_, entry)| alive[(entry.id >> 3) as usize] |= 1 << (entry.id & 7));
            pieces.push(StatePiece::New { name: format!("{prefix}{ALIVE}{}", ctx.vnodes.start), vnodes: ctx.vnodes, data: alive });
        }
        Ok(())
    }

    /// The next snapshot refers to no earlier one.
    pub(crate) fn forget_pieces(&mut self) {
        self.store.forget_pieces();
    }

    /// Takes the identities of the new pieces, in their order.
    pub(crate) fn named(&mut self, ids: &mut impl Iterator<Item = PieceId>) {
        self.store.named(ids);
        if self.marked {
            ids.next();
        }
    }

    /// Takes a snapshot back, as far as it is ours: pieces with their names behind the prefix. `each` gets the columns of every
    /// batch before it is taken.
    ///
    /// # Errors
    /// `External` when a piece cannot be decoded.
    pub(crate) fn restore(
        &mut self,
        pieces: &[(&str, &RestoredPiece)],
        ctx: &OperatorCtx,
        mut each: impl FnMut(&[ArrayRef]),
    ) -> Result<()> {
        let changes = self.changes.take();
        let mut alive: BTreeMap<u16, &[u8]> = BTreeMap::new();
        for (name, piece) in pieces {
            if let Some(start) = name.strip_prefix(ALIVE).and_then(|start| start.parse().ok()) {
                alive.insert(start, &piece.data);
            }
        }
        for (name, piece) in pieces.iter().filter(|(name, _)| !name.starts_with(ALIVE)) {
            let place = piece_place(name);
            let (start, mut first) =
                place.ok_or_else(|| Error::external(format!("state piece `{}` is none of this operator's", piece.name)))?;
            let alive = alive.get(&start);
            for mut batch in decode(piece, &self.shape.types)? {
                let rows = batch.num_rows();
                if self.held.is_some() {
                    let lives = |id: usize| alive.is_some_and(|bits| bits.get(id >> 3).is_some_and(|byte| byte & (1 << (id & 7)) != 0));
                    let living: BooleanArray = (first..first + rows).map(|id| Some(lives(id))).collect();
                    batch = filter_record_batch(&batch, &living)?;
                }
                first += rows;
                let batch = own_rows(batch, &self.shape.exchange, piece, ctx.vnodes, ctx.vnode_count)?;
                each(batch.columns());
                match batch.num_rows() {
                    0 => {}
                    rows if self.held.is_some() => self.update(batch.columns(), rows, &BooleanBuffer::new_set(rows))?,
                    rows => self.absorb(batch.columns(), rows)?,
                }
            }
        }
        self.changes = changes;
        Ok(())
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        let lists: usize = self.lists.iter().map(|list| list.bytes() + size_of::<List>()).sum();
        let held = self
            .held
            .as_ref()
            .map_or(0, |held| held.keys.bytes() + held.at.capacity() * size_of::<Option<(u32, Entry)>>() + held.newest.capacity() * 4);
        self.groups.bytes() + lists + self.store.bytes() + held
    }
}

const ALIVE: &str = "alive/";

#[inline]
fn compared(store: &Store, coming: Option<&BinaryArray>, tail: Option<usize>, a: &Entry, b: &Entry) -> Ordering {
    let tail_of = |entry: &Entry, column: usize| match coming.filter(|_| entry.id & COMING != 0) {
        Some(tails) => tails.value((entry.id & !COMING) as usize),
        None => store.bytes_at(entry.id, column),
    };
    let tails = || tail.map_or(Ordering::Equal, |column| tail_of(a, column).cmp(tail_of(b, column)));
    a.head.cmp(&b.head).then_with(tails).then(a.hash.cmp(&b.hash))
}

/// A table of some of the groups, numbered in this order.
fn renumbered(by: &GroupBy, groups: &Groups, stay: &[u32]) -> Result<Groups> {
    let mut table = by.table();
    if !stay.is_empty() {
        table.intern(&by.keys(&by.columns_of(groups, stay)?)?, 0..stay.len(), |_| {})?;
    }
    Ok(table)
}

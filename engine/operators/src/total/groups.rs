//! The groups of a task: their aggregates, their latest rows' times, and what waits to be told.
//!
//! A group's aggregates are in a *slot*. A group that begins anew takes a new slot, so that a batch is still added in one go;
//! slots that nobody uses go when they are many.

use crate::aggregates::{Accumulator, BoundAggregate};
use crate::keys::{GroupBy, Groups as Table, Keys};
use crate::lean::{Runs, decode, deferred, own_rows};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, Int64Type};
use std::collections::VecDeque;
use std::sync::Arc;
use tidegate_api::{OperatorCtx, PieceId, RestoredPiece, Result, StatePiece, TimeScale};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Groups {
    by: GroupBy,
    types: Vec<DataType>,
    table: Table,
    slots: Vec<u32>,
    used: usize,
    accumulators: Vec<Box<dyn Accumulator>>,
    /// The latest time of each group's rows in the column's own unit; empty where groups last for ever.
    times: Vec<i64>,
    timed: bool,
    waiting: VecDeque<u32>,
    is_waiting: Vec<bool>,
    runs: Runs,
    numbers: Vec<u32>,
}

/// How groups end: after so many microseconds, on this scale.
pub(super) type Ttl = (i64, TimeScale);

/// The group columns and the aggregates of some groups.
pub(super) type Selected = (Vec<ArrayRef>, Vec<Box<dyn Accumulator>>);

impl Groups {
    /// No group yet.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(super) fn new(types: Vec<DataType>, aggregates: &[BoundAggregate], timed: bool) -> Result<Self> {
        let by = GroupBy::new(types.clone())?;
        Ok(Groups {
            table: by.table(),
            by,
            types,
            slots: Vec::new(),
            used: 0,
            accumulators: aggregates.iter().map(|bound| bound.aggregate.accumulator()).collect::<Result<_>>()?,
            times: Vec::new(),
            timed,
            waiting: VecDeque::new(),
            is_waiting: Vec::new(),
            runs: Runs::default(),
            numbers: Vec::new(),
        })
    }

    /// The keys of a batch.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn keys(&self, columns: &[ArrayRef]) -> Result<Keys> {
        self.by.keys(columns)
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Takes rows; `values` are prepared, one per aggregate. `times` are theirs where groups end.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn absorb(
        &mut self,
        keys: &Keys,
        rows: usize,
        values: &[Option<ArrayRef>],
        times: Option<(&Int64Array, Ttl)>,
    ) -> Result<()> {
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.clear();
        self.table.intern(keys, 0..rows, |number| numbers.push(number))?;
        for (row, number) in numbers.iter_mut().enumerate() {
            let group = *number as usize;
            let time = times.map(|(times, ttl)| (times.value(row), ttl));
            if group == self.slots.len() {
                self.slots.push(self.used as u32);
                self.used += 1;
                self.is_waiting.push(false);
                self.times.extend(time.map(|(time, _)| time));
            } else if let Some((time, (ttl, scale))) = time {
                let latest = &mut self.times[group];
                if scale.to_micros(time) >= scale.to_micros(*latest).saturating_add(ttl) {
                    self.slots[group] = self.used as u32;
                    self.used += 1;
                }
                *latest = time.max(*latest);
            }
            if !std::mem::replace(&mut self.is_waiting[group], true) {
                self.waiting.push_back(*number);
            }
            self.runs.mark(*number);
            *number = self.slots[group];
        }
        for (accumulator, values) in self.accumulators.iter_mut().zip(values) {
            accumulator.update(&numbers, self.used, values.as_ref())?;
        }
        self.numbers = numbers;
        if self.used > 2 * self.slots.len() + 1024 {
            self.keep(&(0..self.slots.len() as u32).collect::<Vec<u32>>())?;
        }
        Ok(())
    }

    /// Gives the slots of these groups numbers in their order, and drops all others.
    fn keep(&mut self, groups: &[u32]) -> Result<()> {
        let slots: Vec<u32> = groups.iter().map(|group| self.slots[*group as usize]).collect();
        for accumulator in &mut self.accumulators {
            *accumulator = accumulator.select(&slots)?;
        }
        self.slots = (0..slots.len() as u32).collect();
        self.used = slots.len();
        Ok(())
    }

    /// Forgets the groups that are `over`, unless they are too few to be worth it. Nothing may wait to be told.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn sweep(&mut self, over: impl Fn(i64) -> bool) -> Result<()> {
        let ends = |group: usize| !self.is_waiting[group] && over(self.times[group]);
        let gone = (0..self.times.len()).filter(|group| ends(*group)).count();
        if gone == 0 || gone * 4 < self.times.len() {
            return Ok(());
        }
        let stay: Vec<u32> = (0..self.times.len() as u32).filter(|group| !ends(*group as usize)).collect();
        let mut table = self.by.table();
        if !stay.is_empty() {
            table.intern(&self.by.keys(&self.by.columns_of(&self.table, &stay)?)?, 0..stay.len(), |_| {})?;
        }
        self.keep(&stay)?;
        self.table = table;
        self.times = stay.iter().map(|group| self.times[*group as usize]).collect();
        self.is_waiting = stay.iter().map(|group| self.is_waiting[*group as usize]).collect();
        self.waiting = (0..stay.len() as u32).filter(|group| self.is_waiting[*group as usize]).collect();
        self.runs.renumbered();
        Ok(())
    }

    /// The next groups to be told, at most `limit`. They wait no longer.
    pub(super) fn next_changed(&mut self, limit: usize) -> Vec<u32> {
        let count = self.waiting.len().min(limit);
        let groups: Vec<u32> = self.waiting.drain(..count).collect();
        for group in &groups {
            self.is_waiting[*group as usize] = false;
            self.runs.mark(*group);
        }
        groups
    }

    /// Whether any group waits to be told.
    pub(super) fn any_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The group columns and the aggregates of some groups.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn of(&self, groups: &[u32]) -> Result<Selected> {
        Ok((self.by.columns_of(&self.table, groups)?, selected(&self.accumulators, &self.slots, groups)?))
    }

    /// The pieces of a snapshot.
    ///
    /// # Errors
    /// `Internal` when an array cannot be made or written.
    pub(super) fn snapshot(&mut self, ctx: &OperatorCtx, pieces: &mut Vec<StatePiece>) -> Result<()> {
        let Groups { by, table, slots, accumulators, times, timed, is_waiting, runs, .. } = self;
        runs.snapshot(slots.len(), ctx.vnodes, pieces, |groups| {
            let mut columns = by.columns_of(table, groups)?;
            columns.push(Arc::new(groups.iter().map(|group| Some(is_waiting[*group as usize])).collect::<BooleanArray>()));
            if *timed {
                columns.push(Arc::new(Int64Array::from_iter_values(groups.iter().map(|group| times[*group as usize]))));
            }
            for accumulator in selected(accumulators, slots, groups)? {
                columns.extend(accumulator.state()?);
            }
            deferred(columns, groups.len())
        })
    }

    /// The next snapshot refers to no earlier one.
    pub(super) fn forget_pieces(&mut self) {
        self.runs.renumbered();
    }

    /// Takes the identities of the new pieces.
    pub(super) fn named(&mut self, ids: Vec<PieceId>, before: usize) {
        self.runs.named(&mut ids.into_iter().skip(before));
    }

    /// Takes a snapshot back, as far as it is ours.
    ///
    /// # Errors
    /// `External` when a piece cannot be decoded.
    pub(super) fn restore(&mut self, pieces: &[RestoredPiece], ctx: &OperatorCtx) -> Result<()> {
        let empty: Vec<Vec<ArrayRef>> = self.accumulators.iter().map(|accumulator| accumulator.state()).collect::<Result<_>>()?;
        let widths: Vec<usize> = empty.iter().map(Vec::len).collect();
        let mut types = self.types.clone();
        types.push(DataType::Boolean);
        types.extend(self.timed.then_some(DataType::Int64));
        types.extend(empty.iter().flatten().map(|column| column.data_type().clone()));
        let keys: Vec<usize> = (0..self.types.len()).collect();
        let Groups { by, table, slots, used, accumulators, times, timed, is_waiting, runs, .. } = self;
        runs.restore(pieces, ctx.vnodes, |piece| {
            let mut records = 0;
            for batch in decode(piece, &types)? {
                records += batch.num_rows();
                let batch = own_rows(batch, &keys, piece, ctx.vnodes, ctx.vnode_count)?;
                let rows = batch.num_rows();
                if rows == 0 {
                    continue;
                }
                let mut numbers = Vec::with_capacity(rows);
                table.intern(&by.keys(&batch.columns()[..keys.len()])?, 0..rows, |number| numbers.push(number))?;
                let (waits, mut rest) = (batch.column(keys.len()).as_boolean(), &batch.columns()[keys.len() + 1..]);
                slots.resize(table.len(), 0);
                is_waiting.resize(table.len(), false);
                // A newer record takes a new slot: its aggregates replace those of the older one.
                let mut fresh = Vec::with_capacity(rows);
                for (row, group) in numbers.iter().enumerate() {
                    slots[*group as usize] = *used as u32;
                    fresh.push(*used as u32);
                    *used += 1;
                    is_waiting[*group as usize] = waits.value(row);
                }
                if *timed {
                    times.resize(table.len(), 0);
                    let theirs = rest[0].as_primitive::<Int64Type>();
                    numbers.iter().enumerate().for_each(|(row, group)| times[*group as usize] = theirs.value(row));
                    rest = &rest[1..];
                }
                for (accumulator, width) in accumulators.iter_mut().zip(&widths) {
                    let (state, others) = rest.split_at(*width);
                    accumulator.merge(&fresh, *used, state)?;
                    rest = others;
                }
            }
            Ok(records)
        })?;
        self.waiting = (0..self.slots.len() as u32).filter(|group| self.is_waiting[*group as usize]).collect();
        self.keep(&(0..self.slots.len() as u32).collect::<Vec<u32>>())
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        let aggregates: usize = self.accumulators.iter().map(|accumulator| accumulator.bytes()).sum();
        self.table.bytes()
            + aggregates
            + self.slots.capacity() * 5
            + self.times.capacity() * 8
            + self.runs.bytes()
            + self.waiting.capacity() * 4
    }
}

fn selected(accumulators: &[Box<dyn Accumulator>], slots: &[u32], groups: &[u32]) -> Result<Vec<Box<dyn Accumulator>>> {
    let slots: Vec<u32> = groups.iter().map(|group| slots[*group as usize]).collect();
    accumulators.iter().map(|accumulator| accumulator.select(&slots)).collect()
}

//! The open sessions of a task: which row belongs to which, and their aggregates.
//!
//! A group usually has one open session, found by its number without a search. Others are in an ordered map, so that no order
//! of rows makes a search long. A row that bridges two sessions makes them one; their aggregates are merged once per batch.

use super::slots::Slots;
use super::timers::Timers;
use crate::aggregates::{Accumulator, Aggregate, Finished};
use crate::keys::{GroupBy, Groups, Keys};
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use std::collections::BTreeMap;
use tidegate_api::Result;

/// No session.
const NONE: u32 = u32::MAX;
/// So many sessions must be gone, and more than are there, before what is left moves to new tables.
const SWEEP: usize = 1024;

/// How sessions are told apart, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limits {
    /// Rows at most so far apart belong together.
    pub(super) gap: i64,
    /// The first and the last row of a session are at most so far apart.
    pub(super) longest: Option<i64>,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Sessions {
    pub(super) limits: Limits,
    by: GroupBy,
    aggregates: Vec<Aggregate>,
    keys: Groups,
    /// The newest session of each key.
    pub(super) newest: Vec<u32>,
    /// All others, by key and start.
    pub(super) others: BTreeMap<(u32, i64), u32>,
    pub(super) slots: Slots,
    pub(super) timers: Timers,
    accumulators: Vec<Box<dyn Accumulator>>,
    /// Sessions that became part of others since the accumulators were last merged.
    pub(super) joined: Vec<u32>,
    numbers: Vec<u32>,
}

/// Sessions as arrays.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) starts: Vec<i64>,
    pub(super) lasts: Vec<i64>,
    pub(super) groups: Vec<ArrayRef>,
    pub(super) results: Vec<Finished>,
}

/// Sessions as they are kept in a snapshot.
#[derive(Debug)]
pub(super) struct State {
    pub(super) starts: Vec<i64>,
    pub(super) lasts: Vec<i64>,
    pub(super) waiting: Vec<bool>,
    pub(super) groups: Vec<ArrayRef>,
    pub(super) states: Vec<Vec<ArrayRef>>,
}

impl Sessions {
    /// None open.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(super) fn new(limits: Limits, group_types: Vec<DataType>, aggregates: Vec<Aggregate>) -> Result<Self> {
        let by = GroupBy::new(group_types)?;
        let accumulators = aggregates.iter().map(Aggregate::accumulator).collect::<Result<_>>()?;
        Ok(Sessions {
            limits,
            keys: by.table(),
            by,
            aggregates,
            newest: Vec::new(),
            others: BTreeMap::new(),
            slots: Slots::default(),
            timers: Timers::new(limits.gap),
            accumulators,
            joined: Vec::new(),
            numbers: Vec::new(),
        })
    }

    /// Takes rows: their group columns, their times, and their values per aggregate.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn absorb(&mut self, groups: &[ArrayRef], times: &[i64], values: &[Option<ArrayRef>]) -> Result<()> {
        let keys = self.by.keys(groups)?;
        let mut numbers = self.number(&keys, times.len())?;
        let before = self.slots.len();
        match self.limits.longest {
            None => numbers.iter_mut().zip(times).for_each(|(number, time)| *number = self.place(*number, *time)),
            Some(_) => numbers.iter_mut().zip(times).for_each(|(number, time)| *number = self.wait(*number, *time)),
        }
        if !self.joined.is_empty() {
            // What had been there comes before these rows. A session that began with them holds nothing yet.
            self.joined.retain(|slot| (*slot as usize) < before);
            self.merge_joined(before)?;
            numbers.iter_mut().for_each(|number| *number = self.slots.root(*number));
        }
        let total = self.slots.len();
        for (accumulator, values) in self.accumulators.iter_mut().zip(values) {
            accumulator.update(&numbers, total, values.as_ref())?;
        }
        self.numbers = numbers;
        Ok(())
    }

    /// The number of each row's key.
    fn number(&mut self, keys: &Keys, rows: usize) -> Result<Vec<u32>> {
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.clear();
        numbers.reserve(rows);
        self.keys.intern(keys, 0..rows, |key| numbers.push(key))?;
        self.newest.resize(self.keys.len(), NONE);
        Ok(numbers)
    }

    /// The session of a row.
    #[inline]
    fn place(&mut self, key: u32, time: i64) -> u32 {
        let (newest, gap) = (self.newest[key as usize], self.limits.gap);
        if newest == NONE {
            return self.begin(key, time);
        }
        if time > self.slots.last(newest) {
            if time > self.slots.last(newest) + gap {
                self.others.insert((key, self.slots.start(newest)), newest);
                return self.begin(key, time);
            }
            self.slots.extend(newest, time);
            return newest;
        }
        if time >= self.slots.start(newest) {
            return newest;
        }
        self.place_earlier(key, time, newest)
    }

    fn begin(&mut self, key: u32, time: i64) -> u32 {
        let slot = self.slots.add(key, time, time, false);
        self.newest[key as usize] = slot;
        self.timers.enter(slot, time + self.limits.gap);
        slot
    }

    /// The session of a row before the newest one.
    fn place_earlier(&mut self, key: u32, time: i64, newest: u32) -> u32 {
        let gap = self.limits.gap;
        let before = self.others.range(..=(key, time)).next_back().filter(|((of, _), _)| *of == key).map(|(_, slot)| *slot);
        let before = before.filter(|slot| time <= self.slots.last(*slot) + gap);
        let after = self.others.range((key, time)..).find(|((_, start), _)| *start > time).filter(|((of, _), _)| *of == key);
        let after = after.map_or(newest, |(_, slot)| *slot);
        let reaches = self.slots.start(after) - gap <= time;
        match (before, reaches) {
            (None, false) => {
                let slot = self.slots.add(key, time, time, false);
                self.others.insert((key, time), slot);
                self.timers.enter(slot, time + gap);
                slot
            }
            (Some(before), false) => {
                self.slots.extend(before, self.slots.last(before).max(time));
                before
            }
            (None, true) => {
                self.restart(key, after, newest, time);
                after
            }
            (Some(before), true) => self.bridge(key, before, after, newest),
        }
    }

    /// Two sessions become one. The one with the smaller number stays: it may hold rows of earlier batches.
    fn bridge(&mut self, key: u32, before: u32, after: u32, newest: u32) -> u32 {
        let start = self.slots.start(before);
        let (stays, goes) = (before.min(after), before.max(after));
        if after == newest {
            self.others.remove(&(key, start));
            self.newest[key as usize] = stays;
        } else {
            self.others.remove(&(key, self.slots.start(after)));
            self.others.insert((key, start), stays);
        }
        self.slots.join(goes, stays);
        self.joined.push(goes);
        stays
    }

    /// A session begins earlier than it did.
    fn restart(&mut self, key: u32, slot: u32, newest: u32, start: i64) {
        if slot != newest {
            self.others.remove(&(key, self.slots.start(slot)));
            self.others.insert((key, start), slot);
        }
        self.slots.lower(slot, start);
    }

    /// Merges the aggregates of sessions that became part of others; `total` sessions have aggregates.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn merge_joined(&mut self, total: usize) -> Result<()> {
        if self.joined.is_empty() {
            return Ok(());
        }
        let joined = std::mem::take(&mut self.joined);
        let into: Vec<u32> = joined.iter().map(|slot| self.slots.root(*slot)).collect();
        for accumulator in &mut self.accumulators {
            let state = accumulator.select(&joined)?.state()?;
            accumulator.merge(&into, total, &state)?;
        }
        Ok(())
    }

    /// When a session is due: rows wait for their own time, sessions for a gap more. `None` once it is gone.
    pub(super) fn due_at(slots: &Slots, gap: i64, slot: u32) -> Option<i64> {
        slots.is_open(slot).then(|| if slots.waits(slot) { slots.last(slot) } else { slots.last(slot) + gap })
    }

    /// The sessions that fire at a watermark, in the order of their ends. They stay until they are removed.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn due(&mut self, watermark: i64) -> Result<Vec<u32>> {
        let (slots, gap) = (&self.slots, self.limits.gap);
        let taken = self.timers.take(watermark, |slot| Self::due_at(slots, gap, slot));
        let mut due = match self.limits.longest {
            None => taken,
            Some(longest) => self.settle(taken, watermark, longest)?,
        };
        due.sort_unstable_by_key(|slot| (self.slots.last(*slot), self.slots.start(*slot), *slot));
        Ok(due)
    }

    /// Some sessions with their results.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn columns(&self, slots: &[u32]) -> Result<Columns> {
        let results = self.accumulators.iter().map(|accumulator| accumulator.select(slots)?.finish()).collect::<Result<_>>()?;
        Ok(Columns { starts: self.starts_of(slots), lasts: self.lasts_of(slots), groups: self.groups_of(slots)?, results })
    }

    fn starts_of(&self, slots: &[u32]) -> Vec<i64> {
        slots.iter().map(|slot| self.slots.start(*slot)).collect()
    }

    fn lasts_of(&self, slots: &[u32]) -> Vec<i64> {
        slots.iter().map(|slot| self.slots.last(*slot)).collect()
    }

    fn groups_of(&self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        let keys: Vec<u32> = slots.iter().map(|slot| self.slots.key(*slot)).collect();
        self.by.columns_of(&self.keys, &keys)
    }

    /// Sessions have been emitted.
    pub(super) fn remove(&mut self, slots: &[u32]) {
        for slot in slots {
            let key = self.slots.key(*slot);
            if self.newest[key as usize] == *slot {
                self.newest[key as usize] = NONE;
            } else if self.others.get(&(key, self.slots.start(*slot))) == Some(slot) {
                self.others.remove(&(key, self.slots.start(*slot)));
            }
            self.slots.remove(*slot);
        }
    }

    /// Moves what is left to new tables once most is gone: keys leave with their sessions.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn sweep(&mut self) -> Result<()> {
        self.slots.refresh();
        let gone = self.slots.gone();
        if gone < SWEEP || gone * 2 < self.slots.len() {
            return Ok(());
        }
        let open = self.slots.open();
        let keys = self.by.keys(&self.groups_of(&open)?)?;
        self.keys = self.by.table();
        let old = std::mem::take(&mut self.slots);
        let before = std::mem::take(&mut self.newest);
        self.others.clear();
        self.timers.clear();
        let numbers = self.number(&keys, open.len())?;
        for (slot, key) in open.iter().zip(&numbers) {
            self.enter(*key, (old.start(*slot), old.last(*slot)), old.waits(*slot), before[old.key(*slot) as usize] == *slot);
        }
        self.numbers = numbers;
        self.accumulators = self.accumulators.iter().map(|accumulator| accumulator.select(&open)).collect::<Result<_>>()?;
        Ok(())
    }

    fn enter(&mut self, key: u32, (start, last): (i64, i64), waiting: bool, newest: bool) {
        let slot = self.slots.add(key, start, last, waiting);
        if newest {
            self.newest[key as usize] = slot;
        } else {
            self.others.insert((key, start), slot);
        }
        self.timers.enter(slot, if waiting { last } else { last + self.limits.gap });
    }

    /// Every open session, for a snapshot.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn state(&self) -> Result<State> {
        let open = self.slots.open();
        let states = self.accumulators.iter().map(|accumulator| accumulator.select(&open)?.state()).collect::<Result<_>>()?;
        let waiting = open.iter().map(|slot| self.slots.waits(*slot)).collect();
        Ok(State { starts: self.starts_of(&open), lasts: self.lasts_of(&open), waiting, groups: self.groups_of(&open)?, states })
    }

    /// How many state columns each aggregate has, in order.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(super) fn state_widths(&self) -> Result<Vec<usize>> {
        self.aggregates.iter().map(|aggregate| Ok(aggregate.accumulator()?.state()?.len())).collect()
    }

    /// Takes sessions of a snapshot back. Each is its own: what belongs together had been joined.
    ///
    /// # Errors
    /// `External` when the columns are not the state of this stage.
    pub(super) fn restore(&mut self, groups: &[ArrayRef], spans: &[(i64, i64, bool)], states: &[&[ArrayRef]]) -> Result<()> {
        let keys = self.by.keys(groups)?;
        let numbers = self.number(&keys, spans.len())?;
        let first = self.slots.len() as u32;
        for ((start, last, waiting), key) in spans.iter().zip(&numbers) {
            let newest = self.newest[*key as usize];
            let later = !waiting && (newest == NONE || self.slots.start(newest) < *start);
            if later && newest != NONE {
                self.others.insert((*key, self.slots.start(newest)), newest);
            }
            self.enter(*key, (*start, *last), *waiting, later);
        }
        self.numbers = numbers;
        let slots: Vec<u32> = (first..self.slots.len() as u32).collect();
        for (accumulator, state) in self.accumulators.iter_mut().zip(states) {
            accumulator.merge(&slots, self.slots.len(), state)?;
        }
        Ok(())
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        let accumulators: usize = self.accumulators.iter().map(|accumulator| accumulator.bytes()).sum();
        let others = self.others.len() * 24;
        self.keys.bytes() + self.newest.capacity() * 4 + others + self.slots.bytes() + self.timers.bytes() + accumulators
    }
}

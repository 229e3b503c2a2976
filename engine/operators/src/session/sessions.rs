//! The open sessions of a task: which row belongs to which, and their aggregates.
//!
//! A group's newest session is found by its number, and each session names the one before it: few are open at once, and rows
//! come about in order. A group that has more than a few open has them in an ordered map, so that no order of rows makes a
//! search long. A row that bridges two sessions makes them one; their aggregates are merged once per batch.

use super::shown::Shown;
use super::slots::{MANY, NONE, Slots};
use super::timers::Timers;
use crate::aggregates::{Accumulator, Aggregate, Finished};
use crate::keys::{GroupBy, Groups, Keys};
use crate::lean::Saved;
use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use std::collections::BTreeMap;
use tidegate_api::Result;

/// So many sessions of a key are looked at one after the other; with more of them they are put in order.
const FEW: usize = if cfg!(test) { 3 } else { 16 };
/// One in so many sessions must be over for all of those without a timer to be looked at again.
const WORTH: usize = 4;
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
    pub(super) by: GroupBy,
    pub(super) aggregates: Vec<Aggregate>,
    keys: Groups,
    /// The newest session of each key.
    pub(super) newest: Vec<u32>,
    /// The others of keys with many, and the rows that wait, by key and start.
    pub(super) others: BTreeMap<(u32, i64), u32>,
    pub(super) slots: Slots,
    pub(super) timers: Timers,
    /// Sessions from this number on have no timer yet: most sessions of a batch are over at its end.
    pub(super) young: usize,
    pub(super) accumulators: Vec<Box<dyn Accumulator>>,
    /// What is known downstream; only where sessions are told of more than once.
    pub(super) shown: Option<Shown>,
    /// Sessions that became part of others since the accumulators were last merged.
    pub(super) joined: Vec<u32>,
    /// How the last snapshot holds them, by key.
    pub(super) saved: Saved,
    pub(super) numbers: Vec<u32>,
}

/// The sessions around a row that is before the newest one.
#[derive(Debug, Clone, Copy)]
struct Around {
    /// The last that does not begin after the row, or [`NONE`].
    before: u32,
    /// The first that does.
    after: u32,
    /// The one behind that, if sessions were looked at one after the other and there is one.
    beyond: u32,
}

/// Sessions as arrays.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) starts: Vec<i64>,
    pub(super) lasts: Vec<i64>,
    pub(super) groups: Vec<ArrayRef>,
    pub(super) results: Vec<Finished>,
}

impl Sessions {
    /// None open. With `updates`, what is told of sessions is kept, so that it can be taken back.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(super) fn new(limits: Limits, group_types: Vec<DataType>, aggregates: Vec<Aggregate>, updates: bool) -> Result<Self> {
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
            young: 0,
            accumulators,
            shown: updates.then(|| Shown::new(limits.gap)),
            joined: Vec::new(),
            saved: Saved::No,
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
        self.saved.note(&numbers, self.newest.len());
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
        if let Some(shown) = &mut self.shown {
            shown.took(&numbers, before as u32, &mut self.slots);
        }
        self.numbers = numbers;
        Ok(())
    }

    /// The number of each row's key.
    pub(super) fn number(&mut self, keys: &Keys, rows: usize) -> Result<Vec<u32>> {
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
            return self.begin(key, time, NONE);
        }
        let session = self.slots.at(newest);
        if time < session.start {
            return self.place_earlier(key, time, newest);
        }
        if time <= session.last + gap {
            session.last = session.last.max(time);
            return newest;
        }
        if session.before == MANY {
            self.others.insert((key, session.start), newest);
            return self.begin(key, time, MANY);
        }
        self.begin(key, time, newest)
    }

    fn begin(&mut self, key: u32, time: i64, before: u32) -> u32 {
        let slot = self.slots.add(key, time, time, false);
        self.slots.at(slot).before = before;
        self.newest[key as usize] = slot;
        slot
    }

    /// The session of a row before the newest one.
    fn place_earlier(&mut self, key: u32, time: i64, newest: u32) -> u32 {
        let gap = self.limits.gap;
        let Around { before, after, beyond } = self.around(key, time, newest);
        let many = self.slots.before(newest) == MANY;
        let reached = before != NONE && time <= self.slots.last(before) + gap;
        let reaches = self.slots.start(after) - gap <= time;
        match (reached, reaches) {
            (false, false) => {
                let slot = self.slots.add(key, time, time, false);
                if many {
                    self.others.insert((key, time), slot);
                } else {
                    self.slots.at(slot).before = before;
                    self.slots.at(after).before = slot;
                }
                slot
            }
            (true, false) => {
                self.slots.extend(before, self.slots.last(before).max(time));
                before
            }
            (false, true) => {
                if many && after != newest {
                    self.others.remove(&(key, self.slots.start(after)));
                    self.others.insert((key, time), after);
                }
                self.slots.lower(after, time);
                after
            }
            (true, true) => self.bridge(key, before, after, beyond, newest),
        }
    }

    /// The sessions around a row before the newest one.
    fn around(&mut self, key: u32, time: i64, newest: u32) -> Around {
        if self.slots.before(newest) != MANY {
            let (mut before, mut after, mut beyond) = (self.slots.before(newest), newest, NONE);
            for _ in 0..FEW {
                if before == NONE || self.slots.is_open(before) && self.slots.start(before) <= time {
                    return Around { before, after, beyond };
                }
                if !self.slots.is_open(before) {
                    // It has fired, and so have those before it.
                    self.slots.at(after).before = NONE;
                    return Around { before: NONE, after, beyond };
                }
                (beyond, after, before) = (after, before, self.slots.before(before));
            }
            self.put_in_order(key, newest);
        }
        let before = self.others.range(..=(key, time)).next_back().filter(|((of, _), _)| *of == key);
        let after = self.others.range((key, time)..).find(|((_, start), _)| *start > time).filter(|((of, _), _)| *of == key);
        Around { before: before.map_or(NONE, |(_, slot)| *slot), after: after.map_or(newest, |(_, slot)| *slot), beyond: NONE }
    }

    /// The sessions of a key go to the ordered map, all but the newest.
    fn put_in_order(&mut self, key: u32, newest: u32) {
        let mut next = std::mem::replace(&mut self.slots.at(newest).before, MANY);
        while next != NONE && self.slots.is_open(next) {
            self.others.insert((key, self.slots.start(next)), next);
            next = std::mem::replace(&mut self.slots.at(next).before, NONE);
        }
    }

    /// Two sessions become one. The one with the smaller number stays: it may hold rows of earlier batches.
    fn bridge(&mut self, key: u32, before: u32, after: u32, beyond: u32, newest: u32) -> u32 {
        let start = self.slots.start(before);
        let (stays, goes) = (before.min(after), before.max(after));
        if self.slots.before(newest) == MANY {
            if after == newest {
                self.others.remove(&(key, start));
                self.newest[key as usize] = stays;
                self.slots.at(stays).before = MANY;
            } else {
                self.others.remove(&(key, self.slots.start(after)));
                self.others.insert((key, start), stays);
            }
        } else {
            self.slots.at(stays).before = self.slots.before(before);
            match beyond {
                NONE => self.newest[key as usize] = stays,
                beyond => self.slots.at(beyond).before = stays,
            }
        }
        self.slots.join(goes, stays);
        self.joined.push(goes);
        stays
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
        let mut taken = self.timers.take(watermark, |slot| Self::due_at(slots, gap, slot));
        let (before, looked_at) = (taken.len(), slots.len() - self.young);
        let mut later: Vec<(u32, i64)> = Vec::new();
        for slot in self.young as u32..slots.len() as u32 {
            match Self::due_at(slots, gap, slot) {
                None => {}
                Some(at) if at < watermark => taken.push(slot),
                Some(at) => later.push((slot, at)),
            }
        }
        // As long as a good part is over each time, looking at all of them is cheaper than timers.
        if (taken.len() - before) * WORTH < looked_at {
            later.into_iter().for_each(|(slot, at)| self.timers.enter(slot, at));
            self.young = self.slots.len();
        }
        let due = match self.limits.longest {
            None => taken,
            Some(longest) => self.settle(taken, watermark, longest)?,
        };
        Ok(self.by_end(due))
    }

    /// Sessions in the order of their ends.
    fn by_end(&self, mut due: Vec<u32>) -> Vec<u32> {
        let last = |slot: &u32| self.slots.last(*slot);
        let (Some(low), Some(high)) = (due.iter().map(last).min(), due.iter().map(last).max()) else { return due };
        if high - low > i64::from(u32::MAX) {
            due.sort_unstable_by_key(|slot| (self.slots.last(*slot), *slot));
            return due;
        }
        let mut words: Vec<u64> = due.iter().map(|slot| ((self.slots.last(*slot) - low) as u64) << 32 | u64::from(*slot)).collect();
        words.sort_unstable();
        words.into_iter().map(|word| word as u32).collect()
    }

    /// Some sessions with their results.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn columns(&self, slots: &[u32]) -> Result<Columns> {
        let results = self.accumulators.iter().map(|accumulator| accumulator.select(slots)?.finish()).collect::<Result<_>>()?;
        Ok(Columns { starts: self.starts_of(slots), lasts: self.lasts_of(slots), groups: self.groups_of(slots)?, results })
    }

    pub(super) fn starts_of(&self, slots: &[u32]) -> Vec<i64> {
        slots.iter().map(|slot| self.slots.start(*slot)).collect()
    }

    pub(super) fn lasts_of(&self, slots: &[u32]) -> Vec<i64> {
        slots.iter().map(|slot| self.slots.last(*slot)).collect()
    }

    pub(super) fn groups_of(&self, slots: &[u32]) -> Result<Vec<ArrayRef>> {
        let keys: Vec<u32> = slots.iter().map(|slot| self.slots.key(*slot)).collect();
        self.groups_by(&keys)
    }

    /// The group columns of some keys.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn groups_by(&self, keys: &[u32]) -> Result<Vec<ArrayRef>> {
        self.by.columns_of(&self.keys, keys)
    }

    /// Sessions have been emitted.
    pub(super) fn remove(&mut self, slots: &[u32]) {
        if !slots.is_empty() {
            let keys: Vec<u32> = slots.iter().map(|slot| self.slots.key(*slot)).collect();
            self.saved.note(&keys, self.newest.len());
        }
        for slot in slots {
            let key = self.slots.key(*slot);
            if self.newest[key as usize] == *slot {
                self.newest[key as usize] = NONE;
            } else if !self.others.is_empty() && self.others.get(&(key, self.slots.start(*slot))) == Some(slot) {
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
        if let Saved::Runs(runs) = &mut self.saved {
            runs.renumbered();
        }
        let open = self.slots.open();
        let keys = self.by.keys(&self.groups_of(&open)?)?;
        self.keys = self.by.table();
        let old = std::mem::take(&mut self.slots);
        let newest = std::mem::take(&mut self.newest);
        let others = std::mem::take(&mut self.others);
        self.timers.clear();
        self.young = 0;
        let mut moved = vec![NONE; old.len()];
        open.iter().zip(0..).for_each(|(slot, number)| moved[*slot as usize] = number);
        let numbers = self.number(&keys, open.len())?;
        for (slot, key) in open.iter().zip(&numbers) {
            let session = old.get(*slot);
            let new = self.slots.add(*key, session.start, session.last, old.waits(*slot));
            self.slots.at(new).before = match session.before {
                NONE | MANY => session.before,
                // One that has fired is none any more.
                before => moved[before as usize],
            };
            if newest[session.key as usize] == *slot {
                self.newest[*key as usize] = new;
            }
        }
        if let Some(shown) = &mut self.shown {
            shown.renumber(&old, &moved, &open, &numbers, &mut self.slots);
        }
        for slot in others.into_values().filter(|slot| old.is_open(*slot)) {
            let new = moved[slot as usize];
            self.others.insert((self.slots.key(new), self.slots.start(new)), new);
        }
        self.numbers = numbers;
        self.accumulators = self.accumulators.iter().map(|accumulator| accumulator.select(&open)).collect::<Result<_>>()?;
        Ok(())
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        let accumulators: usize = self.accumulators.iter().map(|accumulator| accumulator.bytes()).sum();
        let others = self.others.len() * 24;
        let shown = self.shown.as_ref().map_or(0, Shown::bytes);
        self.keys.bytes()
            + self.newest.capacity() * 4
            + others
            + self.slots.bytes()
            + self.timers.bytes()
            + accumulators
            + shown
            + self.saved.bytes()
    }
}

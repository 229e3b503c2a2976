//! Sessions on their way into snapshots and back.

use super::sessions::Sessions;
use super::shown::Told;
use super::slots::{MANY, NONE};
use crate::aggregates::Content;
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, new_null_array};
use arrow::compute::concat;
use std::sync::Arc;
use tidegate_api::Result;

/// A session of a snapshot, less its aggregates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: i64,
    pub(super) last: i64,
    pub(super) waiting: bool,
    pub(super) changed: bool,
}

impl Sessions {
    /// Some sessions, for a snapshot, and behind them keys that have none.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn content(&self, slots: &[u32], gone: &[u32]) -> Result<Content> {
        let none = gone.len();
        let padded = |column: ArrayRef| {
            if none == 0 {
                return Ok(column);
            }
            Ok(concat(&[column.as_ref(), new_null_array(column.data_type(), none).as_ref()])?)
        };
        let ints = |values: Vec<i64>| padded(Arc::new(Int64Array::from(values)));
        let flags = |is: &dyn Fn(u32) -> bool| padded(Arc::new(slots.iter().map(|slot| Some(is(*slot))).collect::<BooleanArray>()));
        let mut own = vec![ints(self.starts_of(slots))?, ints(self.lasts_of(slots))?, flags(&|slot| self.slots.waits(slot))?];
        if self.shown.is_some() {
            own.push(flags(&|slot| self.slots.has_changed(slot))?);
        }
        let mut states = Vec::with_capacity(self.accumulators.len());
        for accumulator in &self.accumulators {
            states.push(accumulator.select(slots)?.state()?.into_iter().map(padded).collect::<Result<Vec<_>>>()?);
        }
        let keys: Vec<u32> = slots.iter().map(|slot| self.slots.key(*slot)).chain(gone.iter().copied()).collect();
        Ok(Content { own, groups: self.groups_by(&keys)?, states, rows: keys.len() })
    }

    /// All that is open of some keys, for a snapshot. A key without sessions says so: an older piece may hold some.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn content_of(&self, keys: &[u32]) -> Result<Content> {
        let (mut slots, mut gone) = (Vec::with_capacity(keys.len()), Vec::new());
        for key in keys {
            let before = slots.len();
            let newest = self.newest[*key as usize];
            let mut next = newest;
            while next != NONE && next != MANY && self.slots.is_open(next) {
                slots.push(next);
                next = self.slots.before(next);
            }
            if !self.others.is_empty() {
                slots.extend(self.others.range((*key, i64::MIN)..=(*key, i64::MAX)).map(|(_, slot)| *slot));
            }
            if slots.len() == before {
                gone.push(*key);
            }
        }
        self.content(&slots, &gone)
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
    pub(super) fn restore(&mut self, groups: &[ArrayRef], spans: &[Span], states: &[&[ArrayRef]]) -> Result<()> {
        let keys = self.by.keys(groups)?;
        let numbers = self.number(&keys, spans.len())?;
        let first = self.slots.len() as u32;
        for (Span { start, last, waiting, changed }, key) in spans.iter().zip(&numbers) {
            let slot = self.slots.add(*key, *start, *last, *waiting);
            if let Some(shown) = &mut self.shown {
                shown.restore(slot, *changed, &mut self.slots);
            }
            let newest = self.newest[*key as usize];
            if *waiting {
                self.others.insert((*key, *start), slot);
            } else if newest == NONE {
                self.newest[*key as usize] = slot;
            } else {
                let (first, last) = if self.slots.start(newest) < *start { (newest, slot) } else { (slot, newest) };
                self.others.insert((*key, self.slots.start(first)), first);
                self.newest[*key as usize] = last;
                self.slots.at(last).before = MANY;
            }
        }
        self.numbers = numbers;
        let slots: Vec<u32> = (first..self.slots.len() as u32).collect();
        for (accumulator, state) in self.accumulators.iter_mut().zip(states) {
            accumulator.merge(&slots, self.slots.len(), state)?;
        }
        Ok(())
    }

    /// Takes back what had been told of the sessions of a snapshot: when each had begun, and what of it.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn restore_told(&mut self, groups: &[ArrayRef], told: &[(i64, Told)]) -> Result<()> {
        let keys = self.by.keys(groups)?;
        let numbers = self.number(&keys, told.len())?;
        if let Some(shown) = &mut self.shown {
            numbers.iter().zip(told).for_each(|(key, (start, told))| shown.restore_told(*key, *start, *told));
        }
        self.numbers = numbers;
        Ok(())
    }
}

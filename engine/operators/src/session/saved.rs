//! Sessions on their way into snapshots and back.

use super::sessions::Sessions;
use super::shown::Told;
use super::slots::{MANY, NONE};
use crate::aggregates::Content;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, new_null_array};
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
    /// Some sessions, for a snapshot; behind them what was told, and keys that have neither. Sessions alone say whether they wait, and
    /// a key alone has no start.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn content(&self, slots: &[u32], told: &[(u32, i64, Told)], gone: &[u32]) -> Result<Content> {
        let behind = told.len() + gone.len();
        let padded = |column: ArrayRef| {
            if behind == 0 {
                return Ok(column);
            }
            Ok(concat(&[column.as_ref(), new_null_array(column.data_type(), behind).as_ref()])?)
        };
        let none = || std::iter::repeat_n(None, gone.len());
        let starts = slots.iter().map(|slot| Some(self.slots.start(*slot))).chain(told.iter().map(|(_, start, _)| Some(*start)));
        let lasts = slots.iter().map(|slot| Some(self.slots.last(*slot))).chain(told.iter().map(|(.., told)| Some(told.last)));
        let waiting: BooleanArray = slots.iter().map(|slot| Some(self.slots.waits(*slot))).collect();
        let mut own: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(starts.chain(none()).collect::<Vec<Option<i64>>>())),
            Arc::new(Int64Array::from(lasts.chain(none()).collect::<Vec<Option<i64>>>())),
            padded(Arc::new(waiting))?,
        ];
        if self.shown.is_some() {
            let changed = slots.iter().map(|slot| Some(self.slots.has_changed(*slot)));
            let stands = told.iter().map(|(.., told)| Some(told.stands));
            own.push(Arc::new(changed.chain(stands).chain(gone.iter().map(|_| None)).collect::<BooleanArray>()));
        }
        let mut states = Vec::with_capacity(self.accumulators.len());
        for accumulator in &self.accumulators {
            states.push(accumulator.select(slots)?.state()?.into_iter().map(padded).collect::<Result<Vec<_>>>()?);
        }
        let keys = slots.iter().map(|slot| self.slots.key(*slot)).chain(told.iter().map(|(key, ..)| *key)).chain(gone.iter().copied());
        let keys: Vec<u32> = keys.collect();
        Ok(Content { own, groups: self.groups_by(&keys)?, states, rows: keys.len() })
    }

    /// All there is of some keys, for a snapshot. A key with nothing says so: an older piece may hold something.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn content_of(&self, keys: &[u32]) -> Result<Content> {
        let (mut slots, mut told, mut gone) = (Vec::with_capacity(keys.len()), Vec::new(), Vec::new());
        for key in keys {
            let before = slots.len() + told.len();
            let mut next = self.newest[*key as usize];
            while next != NONE && next != MANY && self.slots.is_open(next) {
                slots.push(next);
                next = self.slots.before(next);
            }
            if !self.others.is_empty() {
                slots.extend(self.others.range((*key, i64::MIN)..=(*key, i64::MAX)).map(|(_, slot)| *slot));
            }
            told.extend(self.shown.iter().flat_map(|shown| shown.of(*key)).map(|(start, told)| (*key, start, told)));
            if slots.len() + told.len() == before {
                gone.push(*key);
            }
        }
        self.content(&slots, &told, &gone)
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

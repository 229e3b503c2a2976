//! Sessions on their way into snapshots and back.

use super::sessions::Sessions;
use super::shown::Told;
use super::slots::{MANY, NONE};
use arrow::array::ArrayRef;
use tidegate_api::Result;

/// A session of a snapshot, less its aggregates.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: i64,
    pub(super) last: i64,
    pub(super) waiting: bool,
    pub(super) changed: bool,
}

/// Sessions as they are kept in a snapshot.
#[derive(Debug)]
pub(super) struct State {
    pub(super) starts: Vec<i64>,
    pub(super) lasts: Vec<i64>,
    pub(super) waiting: Vec<bool>,
    pub(super) changed: Vec<bool>,
    pub(super) groups: Vec<ArrayRef>,
    pub(super) states: Vec<Vec<ArrayRef>>,
}

impl Sessions {
    /// Every open session, for a snapshot.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn state(&self) -> Result<State> {
        let open = self.slots.open();
        let states = self.accumulators.iter().map(|accumulator| accumulator.select(&open)?.state()).collect::<Result<_>>()?;
        let waiting = open.iter().map(|slot| self.slots.waits(*slot)).collect();
        let changed = open.iter().map(|slot| self.slots.has_changed(*slot)).collect();
        Ok(State { starts: self.starts_of(&open), lasts: self.lasts_of(&open), waiting, changed, groups: self.groups_of(&open)?, states })
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

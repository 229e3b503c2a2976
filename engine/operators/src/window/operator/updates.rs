//! Results that come out more than once: early ones, and windows that have fired and took late rows since.
//!
//! Panes remember which groups changed. What is emitted is the whole result of those groups, per window over the pane.

use super::{Time, WindowedAggregate};
use crate::when::Pace;
use crate::window::operator::emission::Firing;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tidegate_api::Result;

/// What is to be emitted again.
#[derive(Debug, Default)]
pub(super) struct Updates {
    /// The ends of the windows that are being emitted, if any are.
    queue: Option<VecDeque<i64>>,
    /// Whether rows came in between.
    missed: bool,
    /// What came since the last early results.
    pace: Pace,
}

impl WindowedAggregate {
    /// Which panes must remember what changes: those with a window that ends at this mark or before.
    pub(super) fn watched(&self) -> Option<i64> {
        if self.plan.when.early.is_some() {
            return Some(i64::MAX);
        }
        (self.plan.when.lateness > 0).then(|| self.plan.grid.reached(self.fired.high))
    }

    /// So many rows were taken.
    pub(super) fn changed(&mut self, rows: usize) {
        self.updates.missed |= self.updates.queue.is_some();
        if self.plan.when.early.is_some() {
            let clock = &self.ctx.clock;
            self.updates.pace.took(rows, || clock.monotonic());
        }
    }

    /// The end of the next window to emit again.
    pub(super) fn next_update(&mut self) -> Option<i64> {
        if !self.plan.when.updates() {
            return None;
        }
        if self.updates.queue.is_none() {
            let ends = self.windows_to_update();
            if ends.is_empty() {
                return None;
            }
            self.updates.queue = Some(ends);
        }
        let next = self.updates.queue.as_mut().and_then(VecDeque::pop_front);
        if next.is_none() {
            if self.updates.missed {
                // They may have changed what is out already: once more, with everything.
                self.updates.queue = None;
                self.updates.missed = false;
                return self.next_update();
            }
            self.panes.all().0.for_each(|(_, pane)| pane.forget_changes());
            self.updates = Updates::default();
        }
        next
    }

    /// The ends of the windows with changes that are to be emitted now.
    fn windows_to_update(&mut self) -> VecDeque<i64> {
        let early = self.updates.pace.is_due(self.plan.when.early, || self.ctx.clock.monotonic());
        let (fired, closed) = (self.plan.grid.reached(self.fired.high), self.closed(self.fired.low));
        let windows = self.plan.grid.windows;
        let changed: Vec<i64> = self.panes.all().0.filter(|(_, pane)| pane.has_changes()).map(|(start, _)| start).collect();
        // A window that has fired must be put right before it is done with.
        let again = changed.iter().any(|pane| windows.first_end(*pane).max(windows.end_after(closed)) <= fired);
        if !early && !again {
            return VecDeque::new();
        }
        let all = self.plan.when.early.is_some();
        let mut ends = BTreeSet::new();
        for pane in changed {
            let last = if all { windows.last_end(pane) } else { windows.last_end(pane).min(fired) };
            let mut end = windows.first_end(pane).max(windows.end_after(closed));
            while end <= last {
                ends.insert(end);
                end = windows.end_after(end);
            }
        }
        ends.into_iter().collect()
    }

    /// The groups of a window that have changed.
    pub(super) fn update(&mut self, end: i64) -> Result<Firing> {
        let start = self.plan.grid.windows.start_of(end);
        let columns = self.panes.combined(start, end, &mut self.scratch.numbers, true)?;
        Ok(Firing { start, end, columns, next: 0, again: true })
    }

    /// The moment through which everything fires because no rows have come for long; `None` if they have, or if nothing is open.
    pub(super) fn idle_through(&mut self) -> Option<i64> {
        let timeout = Duration::from_millis(self.plan.when.idle?);
        debug_assert!(matches!(self.plan.time, Time::Column { .. }));
        let quiet = self.quiet.look(self.ctx.clock.monotonic());
        let last = self.panes.last().map(|pane| self.plan.grid.windows.last_end(pane))?;
        let through = self.plan.grid.moment(last);
        (quiet >= timeout && through > self.fired.low).then_some(through)
    }
}

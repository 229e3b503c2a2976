//! Sessions as they would be if nothing more came: one by one, or put together from rows that still wait.

use super::sessions::Sessions;
use super::shown::Shown;
use super::slots::NONE;
use crate::aggregates::Finished;
use tidegate_api::Result;

/// Where to look for sessions that may have to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// One session.
    At(u32),
    /// A key's, between two times of rows that are new or whose time has come.
    Between { key: u32, low: i64, high: i64 },
}

/// A session as it would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) key: u32,
    pub(super) start: i64,
    pub(super) last: i64,
    /// What it consists of, earliest first.
    pub(super) slots: Vec<u32>,
}

impl Sessions {
    /// Where to look because of some sessions, or because of rows that wait.
    pub(super) fn looks(&self, mut slots: Vec<u32>) -> Vec<Look> {
        slots.sort_unstable();
        slots.dedup();
        if self.limits.longest.is_none() {
            return slots.into_iter().map(Look::At).collect();
        }
        slots.sort_by_key(|slot| self.slots.key(*slot));
        let same_key = |a: &u32, b: &u32| self.slots.key(*a) == self.slots.key(*b);
        let between = |slots: &[u32]| {
            let low = slots.iter().map(|slot| self.slots.start(*slot)).min()?;
            let high = slots.iter().map(|slot| self.slots.last(*slot)).max()?;
            Some(Look::Between { key: self.slots.key(*slots.first()?), low, high })
        };
        slots.chunk_by(same_key).filter_map(between).collect()
    }

    /// The sessions that are found there.
    pub(super) fn views(&self, look: Look, shown: &Shown) -> Vec<View> {
        match look {
            Look::At(slot) if self.slots.is_open(slot) => vec![self.view(slot)],
            Look::At(_) => Vec::new(),
            Look::Between { key, low, high } => self.formed(key, low, high, shown),
        }
    }

    /// A session alone.
    pub(super) fn view(&self, slot: u32) -> View {
        View { key: self.slots.key(slot), start: self.slots.start(slot), last: self.slots.last(slot), slots: vec![slot] }
    }

    /// Whether any part of a session took rows since it was told of.
    pub(super) fn has_changed(&self, view: &View) -> bool {
        view.slots.iter().any(|slot| self.slots.has_changed(*slot))
    }

    /// It was told of.
    pub(super) fn is_told(&mut self, view: &View) {
        view.slots.iter().for_each(|slot| self.slots.set_changed(*slot, false));
    }

    /// Sessions of at most a length, as [`Sessions::settle`] would form them of everything there is. Begins with a session that was
    /// told of and does not begin after `low`, since no later row moves its start, and ends where the sessions after `high` are as
    /// they were told.
    fn formed(&self, key: u32, low: i64, high: i64, shown: &Shown) -> Vec<View> {
        let formed = Some(self.newest[key as usize]).filter(|slot| *slot != NONE);
        let known = shown.start_before(key, low).filter(|start| self.others.contains_key(&(key, *start)));
        let known = known.filter(|start| formed.is_none_or(|formed| self.slots.last(formed) < *start));
        let mut formed = formed.filter(|_| known.is_none());
        let mut waiting = self.others.range((key, known.unwrap_or(i64::MIN))..=(key, i64::MAX)).map(|(_, slot)| *slot).peekable();
        let mut views: Vec<View> = Vec::new();
        let longest = self.limits.longest.unwrap_or(i64::MAX);
        loop {
            let next = waiting.peek().map(|slot| self.slots.start(*slot));
            // Of one time, what was formed comes first, as it does when it is settled.
            let before = formed.take_if(|slot| next.is_none_or(|next| self.slots.start(*slot) <= next));
            let Some(slot) = before.or_else(|| waiting.next()) else { break };
            let (start, last) = (self.slots.start(slot), self.slots.last(slot));
            if let Some(view) = views.last_mut() {
                let end = last.max(view.last);
                if start.saturating_sub(view.last) <= self.limits.gap && end - view.start <= longest {
                    view.last = end;
                    view.slots.push(slot);
                    continue;
                }
            }
            if start > high && formed.is_none() && shown.begins(key, start) {
                break;
            }
            views.push(self.view(slot));
        }
        views
    }

    /// The results of some sessions.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn results(&self, views: &[View]) -> Result<Vec<Finished>> {
        let slots: Vec<u32> = views.iter().flat_map(|view| view.slots.iter().copied()).collect();
        if slots.len() == views.len() {
            return self.accumulators.iter().map(|accumulator| accumulator.select(&slots)?.finish()).collect();
        }
        let numbers: Vec<u32> = (0u32..).zip(views).flat_map(|(number, view)| std::iter::repeat_n(number, view.slots.len())).collect();
        let mut results = Vec::with_capacity(self.aggregates.len());
        for (accumulator, aggregate) in self.accumulators.iter().zip(&self.aggregates) {
            let mut merged = aggregate.accumulator()?;
            merged.merge(&numbers, views.len(), &accumulator.select(&slots)?.state()?)?;
            results.push(merged.finish()?);
        }
        Ok(results)
    }
}

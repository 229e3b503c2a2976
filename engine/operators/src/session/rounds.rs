//! What a watermark, the clock or a barrier makes due, worked off in portions.

use super::operator::SessionAggregate;
use super::shown::Shown;
use super::views::{Look, View};
use std::collections::VecDeque;
use std::time::Duration;
use tidegate_api::{Flow, Output, Result};

/// One time around: first what is told of sessions that may still change, then those that are done with.
#[derive(Debug)]
pub(super) struct Round {
    /// Through when sessions fire; `None`: only changes are told.
    through: Option<i64>,
    /// Whether early results are due.
    early: bool,
    looks: VecDeque<Look>,
    /// The sessions that are done with, once they are known.
    closing: Option<VecDeque<u32>>,
}

impl SessionAggregate {
    /// Works off what is due, a batch at a time.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn advance(&mut self, through: Option<i64>, out: &mut Output) -> Result<Flow> {
        loop {
            if let Some(batch) = self.queue.pop_front() {
                out.emit(batch);
                return Ok(Flow::More);
            }
            if self.round.is_none() {
                self.round = self.begin(through);
            }
            if self.round.is_none() {
                break;
            }
            self.proceed(out)?;
        }
        self.ctx.state_bytes.set(self.sessions.bytes() as u64);
        Ok(Flow::Done)
    }

    /// Works off a round that the clock began, before rows come that it is not about. What it makes waits in the queue.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn finish_round(&mut self, out: &mut Output) -> Result<()> {
        while self.round.is_some() {
            self.proceed(out)?;
        }
        Ok(())
    }

    fn begin(&mut self, through: Option<i64>) -> Option<Round> {
        let through = through.filter(|through| *through > self.fired.low);
        let sessions = &mut self.sessions;
        let Some(shown) = &mut sessions.shown else {
            return through.map(|_| Round { through, early: false, looks: VecDeque::new(), closing: None });
        };
        let early = self.pace.is_due(self.plan.when.early, || self.ctx.clock.monotonic());
        if early {
            self.pace = Default::default();
        }
        let (gap, whole) = (sessions.limits.gap, sessions.limits.longest.is_none());
        let mut slots = through.map(|through| shown.due(through, &sessions.slots, whole)).unwrap_or_default();
        let reached = through.unwrap_or(self.fired.high);
        let changed = shown.changes(early, &sessions.slots);
        slots.extend(changed.into_iter().filter(|slot| {
            let (key, start, last) = (sessions.slots.key(*slot), sessions.slots.start(*slot), sessions.slots.last(*slot));
            // One that came late may be over at once.
            let over = early || last + gap < reached;
            over || match self.plan.when.early {
                // What was told of it is wrong by now. A row that waits may belong to any session near.
                None if whole => shown.within(key, start, last).next().is_some(),
                None => shown.knows(key),
                // What has not fired may be wrong until early results are due.
                Some(_) if whole => shown.within(key, start, last).any(|(_, told)| told.last + gap < reached),
                Some(_) => shown.has_fired(key, start, reached),
            }
        }));
        if slots.is_empty() && through.is_none() {
            self.tidy();
            return None;
        }
        Some(Round { through, early, looks: self.sessions.looks(slots).into(), closing: None })
    }

    /// One portion of the round.
    fn proceed(&mut self, out: &mut Output) -> Result<()> {
        let Some(mut round) = self.round.take() else { return Ok(()) };
        let portion = self.ctx.batch_rows.max(1);
        if !round.looks.is_empty() {
            let mut views = Vec::new();
            while let Some(look) = round.looks.pop_front_if(|_| views.len() < portion) {
                let Some(shown) = &self.sessions.shown else { break };
                views.extend(self.sessions.views(look, shown).into_iter().filter(|view| self.is_to_be_told(view, &round, shown)));
            }
            self.tell(&views, out)?;
            self.round = Some(round);
            return Ok(());
        }
        match (&mut round.closing, round.through) {
            (None, Some(through)) => {
                let done = self.sessions.due(self.plan.closed(through))?;
                round.closing = Some(done.into());
                self.round = Some(round);
            }
            (Some(closing), Some(_)) if !closing.is_empty() => {
                let slots: Vec<u32> = closing.drain(..portion.min(closing.len())).collect();
                self.close(&slots, out)?;
                self.round = Some(round);
            }
            (_, through) => {
                self.tidy();
                self.sessions.sweep()?;
                if let Some(through) = through {
                    self.fired.raise(through);
                }
            }
        }
        Ok(())
    }

    /// A session is told when it has ended, when early results are due, or when something else was told of its rows.
    fn is_to_be_told(&self, view: &View, round: &Round, shown: &Shown) -> bool {
        let ended = view.last + self.plan.limits.gap < round.through.unwrap_or(self.fired.high);
        let was_told = || shown.within(view.key, view.start, view.last).next().is_some();
        (ended || round.early || was_told()) && self.is_news(view, shown)
    }

    /// Whether a session is not just as it was told.
    fn is_news(&self, view: &View, shown: &Shown) -> bool {
        self.sessions.has_changed(view) || !shown.is_exact(view.key, view.start, view.last)
    }

    /// Sessions that are done with.
    fn close(&mut self, slots: &[u32], out: &mut Output) -> Result<()> {
        if self.sessions.shown.is_none() {
            self.emit(slots, out)?;
        } else {
            let mut views: Vec<View> = slots.iter().map(|slot| self.sessions.view(*slot)).collect();
            views.retain(|view| self.sessions.shown.as_ref().is_some_and(|shown| self.is_news(view, shown)));
            self.tell(&views, out)?;
            for slot in slots {
                let (key, start, last) =
                    (self.sessions.slots.key(*slot), self.sessions.slots.start(*slot), self.sessions.slots.last(*slot));
                if let Some(shown) = &mut self.sessions.shown {
                    shown.forget(key, start, last);
                }
            }
        }
        self.sessions.remove(slots);
        Ok(())
    }

    fn tidy(&mut self) {
        let none = self.plan.when.early.is_none();
        let sessions = &mut self.sessions;
        if let Some(shown) = sessions.shown.as_mut().filter(|shown| shown.has_changes()) {
            sessions.saved.note(&shown.changed_keys(&sessions.slots), sessions.newest.len());
            shown.tidy(none, &mut sessions.slots);
        }
    }

    /// The moment through which everything fires because no rows have come for long; `None` if they have, or if nothing is open.
    pub(super) fn idle_through(&mut self) -> Option<i64> {
        let timeout = Duration::from_millis(self.plan.when.idle?);
        if self.quiet.look(self.ctx.clock.monotonic()) < timeout || self.idled {
            return None;
        }
        self.idled = true;
        // At its end itself a row could still belong.
        let through = self.sessions.slots.latest()? + self.plan.limits.gap + 1;
        (through > self.fired.low).then_some(through)
    }
}

//! Ends instances in the middle of their work, for chaos runs: what a run must survive when a guest traps at any moment.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Calls that begin a run's work; planning before them is left alone, since its failures refuse a start instead of costing an attempt.
const WORK: [&str; 3] = ["reader.poll", "writer.write", "processor.process"];

/// Calls that end their instance in turn. Left to chance it would nearly always be a poll.
const TURNS: [&str; 8] =
    ["reader.poll", "writer.write", "writer.flush", "writer.prepare", "commit", "reader.committed", "processor.process", "recover"];

/// On which side of a call the instance ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// The guest never sees the call.
    Before,
    /// The guest has done it, and nobody hears its answer.
    After,
}

/// When instances end: one call of any plugin of the host in every interval or two.
#[derive(Debug)]
pub(crate) struct Chaos {
    every: Duration,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// When the next one ends; none before the run's work has begun.
    next: Option<Duration>,
    turn: usize,
    ended: u64,
}

impl Chaos {
    pub(crate) fn new(every: Duration) -> Self {
        Chaos { every, state: Mutex::default() }
    }

    /// Whether this call, which begins now, costs its instance.
    pub(crate) fn due(&self, call: &str, now: Duration) -> Option<Side> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let next = match state.next {
            Some(next) => next,
            None if WORK.contains(&call) => now + self.every,
            None => return None,
        };
        let turn = TURNS[state.turn % TURNS.len()];
        // Another interval later it is whichever comes.
        if now < next || call != turn && now < next + self.every {
            state.next = Some(next);
            return None;
        }
        state.turn += 1;
        state.next = Some(now + self.every);
        state.ended += 1;
        // Every turn meets both sides.
        let round = state.ended / TURNS.len() as u64;
        Some(if (state.ended + round).is_multiple_of(2) { Side::Before } else { Side::After })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_an_interval_ends_its_instance_once_work_has_begun() {
        let chaos = Chaos::new(Duration::from_millis(10));
        let due = |call, millis| chaos.due(call, Duration::from_millis(millis));
        assert_eq!([due("bind", 0), due("bind", 50), due("reader.poll", 60), due("writer.flush", 69)], [None; 4]);
        assert_eq!([due("writer.flush", 70), due("reader.poll", 71), due("writer.flush", 81)], [None, Some(Side::After), None]);
        assert_eq!([due("commit", 90), due("commit", 91), due("writer.flush", 101)], [None, Some(Side::Before), Some(Side::After)]);
    }
}

//! How often a container may be started or called again.

use std::collections::VecDeque;
use std::time::Duration;

/// The time that is looked back on.
const WINDOW: Duration = Duration::from_secs(600);
/// The first pause; it doubles.
const FIRST: Duration = Duration::from_millis(100);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(10);

/// Restarts within the last ten minutes.
pub(super) struct Budget {
    most: u32,
    spent: VecDeque<Duration>,
}

impl Budget {
    pub(super) fn new(most: u32) -> Self {
        Budget { most, spent: VecDeque::new() }
    }

    /// Spends one at this time, and gives the pause before it. `None` if the budget is exhausted.
    pub(super) fn spend(&mut self, now: Duration) -> Option<Duration> {
        while self.spent.front().is_some_and(|at| now.saturating_sub(*at) > WINDOW) {
            self.spent.pop_front();
        }
        let before = u32::try_from(self.spent.len()).unwrap_or(u32::MAX);
        if before >= self.most {
            return None;
        }
        self.spent.push_back(now);
        Some(FIRST.saturating_mul(2_u32.saturating_pow(before)).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_old_restarts_are_forgotten() {
        let mut budget = Budget::new(9);
        let at = Duration::from_secs;
        let pauses: Vec<u128> = (0..9).map(|_| budget.spend(at(1)).unwrap().as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]);
        assert_eq!(budget.spend(at(601)), None);
        assert_eq!(budget.spend(at(602)), Some(FIRST));
        assert_eq!(Budget::new(0).spend(at(1)), None);
    }
}

//! Which failures are followed by another attempt, how many, and after what wait.

use std::collections::VecDeque;
use std::time::Duration;
use tidegate_api::{Error, ErrorKind, Result};

/// How often a job may be restarted within its process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartPolicy {
    /// At most this many restarts ...
    pub max: u32,
    /// ... within this time.
    pub within: Duration,
    /// The wait before the first of a series; doubled for each further one.
    pub first_wait: Duration,
    /// The longest wait.
    pub longest_wait: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        RestartPolicy {
            max: 5,
            within: Duration::from_secs(600),
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_secs(60),
        }
    }
}

/// Keeps account of restarts.
#[derive(Debug)]
pub(crate) struct Restarts {
    policy: RestartPolicy,
    past: VecDeque<Duration>,
}

impl Restarts {
    pub(crate) fn new(policy: RestartPolicy) -> Self {
        Restarts { policy, past: VecDeque::new() }
    }

    /// An attempt failed at `now`: how long to wait before the next.
    ///
    /// # Errors
    /// The error itself if its kind is not restarted or the budget is spent.
    pub(crate) fn after(&mut self, error: Error, now: Duration) -> Result<Duration> {
        match error.kind() {
            ErrorKind::External { .. } => {}
            ErrorKind::Config | ErrorKind::Data | ErrorKind::Fenced | ErrorKind::Limit | ErrorKind::Internal => return Err(error),
        }
        while self.past.front().is_some_and(|at| now.saturating_sub(*at) >= self.policy.within) {
            self.past.pop_front();
        }
        if self.past.len() >= self.policy.max as usize {
            if self.policy.max == 0 {
                return Err(error);
            }
            return Err(error.context(format!("gave up after {} restarts within {:?}", self.policy.max, self.policy.within)));
        }
        let wait = self.policy.first_wait.saturating_mul(1 << self.past.len().min(20)).min(self.policy.longest_wait);
        tracing::warn!(%error, "the attempt failed");
        self.past.push_back(now);
        Ok(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn external_failures_restart_with_growing_waits_until_the_budget_is_spent() {
        let mut restarts = Restarts::new(RestartPolicy { max: 3, within: seconds(100), first_wait: seconds(1), longest_wait: seconds(3) });
        let failed = || Error::external("broker gone");
        assert_eq!(restarts.after(failed(), seconds(0)).unwrap(), seconds(1));
        assert_eq!(restarts.after(failed(), seconds(1)).unwrap(), seconds(2));
        assert_eq!(restarts.after(failed(), seconds(2)).unwrap(), seconds(3));
        let error = restarts.after(failed(), seconds(3)).unwrap_err();
        assert!(error.to_string().contains("gave up after 3 restarts"), "{error}");
        assert_eq!(restarts.after(failed(), seconds(101)).unwrap(), seconds(2), "old restarts are forgotten");
    }

    #[test]
    fn other_failures_are_not_restarted() {
        let mut restarts = Restarts::new(RestartPolicy::default());
        for error in [Error::config("c"), Error::data("d"), Error::fenced("f"), Error::limit("l"), Error::internal("i")] {
            let kind = error.kind();
            assert_eq!(restarts.after(error, Duration::ZERO).unwrap_err().kind(), kind);
        }
    }
}

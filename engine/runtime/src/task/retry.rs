use crate::metrics::ErrorCounts;
use std::time::Duration;
use tidegate_api::{Error, ErrorKind, Result, Retry};

/// Calls that may be repeated, until they have failed so often that a restart is the better answer.
#[derive(Debug)]
pub(super) struct Retries {
    failed: u32,
    at: Option<Duration>,
    errors: ErrorCounts,
}

impl Retries {
    const MOST: u32 = 60;

    /// Nothing has failed; what does is counted there.
    pub(super) fn new(errors: ErrorCounts) -> Self {
        Retries { failed: 0, at: None, errors }
    }

    /// When to call again, if that has not come yet.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        self.at.filter(|at| *at > now)
    }

    /// The call succeeded.
    pub(super) fn succeeded(&mut self) {
        (self.failed, self.at) = (0, None);
    }

    /// The call failed: remembers when to call again, or hands the error back if that would not help.
    pub(super) fn failed(&mut self, error: Error, now: Duration, task: &str) -> Result<()> {
        self.errors.add(error.kind());
        let ErrorKind::External { retry: Retry::After(after) } = error.kind() else { return Err(error) };
        self.failed += 1;
        if self.failed >= Self::MOST {
            return Err(error.context(format!("after {} attempts", self.failed)));
        }
        tracing::warn!(%error, task, attempt = self.failed, "will be repeated");
        self.at = Some(now.saturating_add(after));
        Ok(())
    }
}

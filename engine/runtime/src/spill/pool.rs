//! Memory for state, shared by all operator tasks of a job.
//!
//! A task may take what the others leave. Only when all together have come to the limit must those shrink that take more than
//! their share, so that one stage with much state does not pay for many with little.

use std::sync::Arc;
use tidegate_api::Counter;

/// A task never has less than this to work with, however small the limit.
const LEAST: u64 = 256;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Pool {
    limit: u64,
    used: Vec<Counter>,
}

impl Pool {
    /// Memory for so many tasks.
    pub(crate) fn new(limit: u64, tasks: usize) -> Arc<Self> {
        Arc::new(Pool { limit, used: (0..tasks).map(|_| Counter::new()).collect() })
    }

    /// What one of the tasks takes of it.
    pub(crate) fn member(self: &Arc<Self>, task: usize) -> Member {
        Member { pool: Arc::clone(self), own: self.used.get(task).cloned().unwrap_or_default() }
    }

    fn used(&self) -> u64 {
        self.used.iter().map(Counter::get).sum()
    }
}

/// One task's part in the [`Pool`].
#[derive(Debug)]
pub(crate) struct Member {
    pool: Arc<Pool>,
    own: Counter,
}

impl Member {
    /// Notes how much the task takes.
    pub(crate) fn set(&self, bytes: u64) {
        self.own.set(bytes);
    }

    /// How much the task takes.
    pub(crate) fn own(&self) -> u64 {
        self.own.get()
    }

    /// What the task may keep in memory for good: half its share, because writing state and reading it back take as much again.
    pub(crate) fn budget(&self) -> u64 {
        (self.share() / 2).max(LEAST)
    }

    /// Whether the task must put state aside.
    pub(crate) fn must_shrink(&self) -> bool {
        self.own() > self.budget() && self.pool.used() > self.pool.limit / 2
    }

    /// Whether the job is past its limit and this task past its share.
    pub(crate) fn is_beyond(&self) -> bool {
        self.own() > self.share().max(LEAST) && self.pool.used() > self.pool.limit
    }

    /// The limit of the whole job.
    pub(crate) fn limit(&self) -> u64 {
        self.pool.limit
    }

    fn share(&self) -> u64 {
        self.pool.limit / self.pool.used.len().max(1) as u64
    }
}

/// A size as a pipeline file says it.
pub(super) fn shown(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{}KiB", bytes >> 10),
        _ => format!("{}MiB", bytes >> 20),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_may_take_what_the_others_leave() {
        let pool = Pool::new(8 << 20, 2);
        let (one, other) = (pool.member(0), pool.member(1));
        one.set(3 << 20);
        assert_eq!(one.budget(), 2 << 20);
        assert!(!one.must_shrink(), "half of the limit is free");
        other.set((1 << 20) + 1);
        assert!(one.must_shrink());
        assert!(!other.must_shrink(), "it takes less than its share");
        one.set(9 << 20);
        assert!(one.is_beyond() && !other.is_beyond());
    }

    #[test]
    fn a_small_limit_leaves_a_task_something() {
        let pool = Pool::new(1, 5);
        let member = pool.member(3);
        member.set(LEAST);
        assert!(!member.must_shrink());
        member.set(LEAST + 1);
        assert!(member.must_shrink());
    }
}

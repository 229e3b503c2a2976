//! Identities. What a manifest or an outside system remembers is a type of its own here.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// The number of a checkpoint; 0 is published before the first row is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch after this one.
    #[must_use]
    pub fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The number of a start of a pipeline; every start takes a higher one, and the highest owns the epochs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Generation(pub u64);

impl Generation {
    /// The generation after this one.
    #[must_use]
    pub fn next(self) -> Generation {
        Generation(self.0 + 1)
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Names one history of epochs of a pipeline; `--fresh` makes a new one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(pub Arc<str>);

impl RunId {
    /// Wraps an existing name.
    pub fn new(name: impl AsRef<str>) -> Self {
        RunId(Arc::from(name.as_ref()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names a split within its source. Chosen by the source, stable for ever.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SplitId(pub Arc<str>);

impl SplitId {
    /// Wraps an existing name.
    pub fn new(name: impl AsRef<str>) -> Self {
        SplitId(Arc::from(name.as_ref()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SplitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A half-open range of vnodes, the unit in which keyed state is dealt out to tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VnodeRange {
    /// First vnode.
    pub start: u16,
    /// One past the last vnode.
    pub end: u16,
}

impl VnodeRange {
    /// All `count` vnodes.
    pub fn all(count: u16) -> Self {
        VnodeRange { start: 0, end: count }
    }

    /// The contiguous share of task `task` of `tasks`; the shares of all tasks cover every vnode once.
    pub fn of_task(task: usize, tasks: usize, count: u16) -> Self {
        let share = |index: usize| (index * usize::from(count) / tasks) as u16;
        VnodeRange { start: share(task), end: share(task + 1) }
    }

    /// Whether `vnode` is in the range.
    pub fn contains(self, vnode: u16) -> bool {
        (self.start..self.end).contains(&vnode)
    }

    /// Whether the two ranges share a vnode.
    pub fn overlaps(self, other: VnodeRange) -> bool {
        self.start < other.end && other.start < self.end
    }

    /// Whether `other` lies wholly in this range.
    pub fn covers(self, other: VnodeRange) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// As a standard range.
    pub fn range(self) -> Range<u16> {
        self.start..self.end
    }
}

/// Who is running: what external names and tokens are made of.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunIdentity {
    /// The pipeline's name.
    pub pipeline: String,
    /// The run whose epochs these are.
    pub run_id: RunId,
    /// This start's generation.
    pub generation: Generation,
    /// The operator within the pipeline: a dataset's name for a source or sink, a stage's for the rest.
    pub operator: String,
    /// The host's name of this build; empty from the command line.
    pub build: String,
}

impl RunIdentity {
    /// The identity of one operator of a run.
    pub fn new(pipeline: impl Into<String>, run_id: RunId, generation: Generation, operator: impl Into<String>) -> Self {
        RunIdentity { pipeline: pipeline.into(), run_id, generation, operator: operator.into(), build: String::new() }
    }

    /// Sets the host's name of this build.
    #[must_use]
    pub fn with_build(mut self, build: impl Into<String>) -> Self {
        self.build = build.into();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_tasks_cover_every_vnode_once() {
        for tasks in 1..=257 {
            let mut next = 0;
            for task in 0..tasks {
                let share = VnodeRange::of_task(task, tasks, 256);
                assert_eq!(share.start, next);
                next = share.end;
            }
            assert_eq!(next, 256);
        }
    }
}

//! State past the memory limit, put aside on disk part by part.
//!
//! Every operator task runs behind a [`Spilling`]. While state is small it hands each call on. When the task's state passes what
//! it may take, the task's vnodes are divided into parts, each an operator of its own, because an operator's state belongs to
//! vnodes and can be restored at any division of them. Parts stand in memory as far as there is room; the others lie in files,
//! as the pieces of a snapshot, and their rows and watermarks wait in a log, in the order in which they came. Now and then, and
//! before every barrier, the parts come into memory one after the other and catch up. Their answers are those of the whole
//! operator, only later; the watermark they hold back says so downstream. `docs/design/memory.md` has the whole story.

mod divided;
mod file;
mod log;
mod part;
mod pool;
#[cfg(test)]
mod tests;
mod whole;

pub(crate) use pool::{Member, Pool};
pub(crate) use whole::{Place, Spilling};

use std::path::PathBuf;

/// How much memory state may take, and where it goes past that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryLimit {
    /// Bytes, over all stateful operators of the job.
    pub bytes: u64,
    /// A directory for files without names, which are gone with the process. `None`: nothing is put aside, and a job that needs
    /// more memory fails with `Limit`.
    pub spill: Option<PathBuf>,
}

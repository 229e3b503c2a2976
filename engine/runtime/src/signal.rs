//! How a task is told that there may be something to do.
//!
//! A [`Signal`] is a flag and, once a thread drives the task, that thread. Raising it is an atomic swap, and a system call only
//! when the thread is parked. The driver parks only after it took a lowered flag, so no wake-up is lost; the simulator has no
//! threads and steps only tasks whose flag is up, so that a forgotten wake-up shows as a deadlock.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use tidegate_api::Wake;

/// Wakes one task; clones wake the same one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Signal(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    raised: AtomicBool,
    thread: OnceLock<Thread>,
}

impl Signal {
    /// A signal that is up, so that a new task is stepped once.
    pub(crate) fn new() -> Self {
        let signal = Signal::default();
        signal.raise();
        signal
    }

    /// Says which thread to unpark from now on.
    pub(crate) fn bind(&self, thread: Thread) {
        // A signal belongs to one task and a task to one thread, so the first binding is the only one.
        let _ = self.0.thread.set(thread);
    }

    /// Makes the task step soon.
    pub(crate) fn raise(&self) {
        if !self.0.raised.swap(true, Ordering::AcqRel)
            && let Some(thread) = self.0.thread.get()
        {
            thread.unpark();
        }
    }

    /// Lowers the flag and says whether it was up.
    pub(crate) fn take(&self) -> bool {
        self.0.raised.swap(false, Ordering::AcqRel)
    }

    /// Whether the flag is up.
    #[cfg(any(test, feature = "testkit"))]
    pub(crate) fn is_raised(&self) -> bool {
        self.0.raised.load(Ordering::Acquire)
    }

    /// The same as a [`Wake`], for contexts handed to sources and sinks.
    pub(crate) fn wake(&self) -> Wake {
        let signal = self.clone();
        Wake::new(move || signal.raise())
    }
}

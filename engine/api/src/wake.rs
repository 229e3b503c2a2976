//! How anything outside a task makes it step again.

use std::fmt;
use std::sync::Arc;

/// Wakes one task. Cheap to clone, callable from any thread, never blocks; waking a running task is harmless.
#[derive(Clone)]
pub struct Wake(Arc<dyn Fn() + Send + Sync>);

impl Wake {
    /// Wraps the driver's way to unpark a task.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Wake(Arc::new(wake))
    }

    /// Wakes nobody, for callers that poll.
    pub fn noop() -> Self {
        Wake::new(|| {})
    }

    /// Makes the task step soon.
    pub fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake")
    }
}

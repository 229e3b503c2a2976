//! Counters and gauges that a task raises and the control task reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A shared count; clones count together. Raised once per batch, never per row.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// A counter at zero.
    pub fn new() -> Self {
        Counter::default()
    }

    /// Adds `n`.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Replaces the value, for gauges.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// The value now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A shared measure that is not known until somebody sets it; clones are one measure.
#[derive(Debug, Clone)]
pub struct Gauge(Arc<AtomicU64>);

/// Stands for what is not known.
const UNKNOWN: u64 = u64::MAX;

impl Gauge {
    /// Replaces the value. `None`: it is not known any more.
    pub fn set(&self, value: Option<u64>) {
        self.0.store(value.map_or(UNKNOWN, |value| value.min(UNKNOWN - 1)), Ordering::Relaxed);
    }

    /// The value now, if it is known.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|value| *value != UNKNOWN)
    }
}

impl Default for Gauge {
    fn default() -> Self {
        Gauge(Arc::new(AtomicU64::new(UNKNOWN)))
    }
}

/// What a connector knows of its outside and the engine does not; the engine counts rows and errors itself. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct OutsideMeters {
    /// Bytes read from or written to the outside, as they travel or lie there: compressed ones count as such. Raised once per batch or
    /// request.
    pub bytes: Counter,
    /// Attempts that failed and were repeated by the connector itself, so that nobody else saw an error.
    pub retries: Counter,
    /// How many rows or messages lie ready outside that were not handed over, over the splits of this task, if that is known.
    pub behind_rows: Gauge,
    /// The same in bytes.
    pub behind_bytes: Gauge,
}

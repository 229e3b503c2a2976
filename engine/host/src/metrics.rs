//! What a plugin used and what it counted itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Names one plugin may invent, at most; more are dropped, so that a guest cannot fill the host's memory with names.
const MAX_NAMES: usize = 100;

/// The numbers of all instances of one plugin. Raised per call, never per row; read from any thread.
#[derive(Debug, Default)]
pub struct PluginMetrics {
    calls: AtomicU64,
    traps: AtomicU64,
    peak_memory: AtomicU64,
    slowest_call_us: AtomicU64,
    bytes_in: AtomicU64,
    bytes_out: AtomicU64,
    log_lines_dropped: AtomicU64,
    convicted_rows: AtomicU64,
    guest: Mutex<BTreeMap<String, GuestMetric>>,
}

/// A number that a guest keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GuestMetric {
    /// A sum.
    Count(u64),
    /// The last value.
    Gauge(f64),
    /// A distribution, as its size, sum and extremes.
    Distribution {
        /// How many values.
        count: u64,
        /// Their sum.
        sum: f64,
        /// The smallest.
        min: f64,
        /// The largest.
        max: f64,
    },
}

impl PluginMetrics {
    /// Calls made.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Calls that trapped.
    pub fn traps(&self) -> u64 {
        self.traps.load(Ordering::Relaxed)
    }

    /// The most linear memory one instance had, in bytes.
    pub fn peak_memory(&self) -> u64 {
        self.peak_memory.load(Ordering::Relaxed)
    }

    /// The longest call.
    pub fn slowest_call(&self) -> Duration {
        Duration::from_micros(self.slowest_call_us.load(Ordering::Relaxed))
    }

    /// Bytes of rows handed to guests.
    pub fn bytes_in(&self) -> u64 {
        self.bytes_in.load(Ordering::Relaxed)
    }

    /// Bytes of rows taken from guests.
    pub fn bytes_out(&self) -> u64 {
        self.bytes_out.load(Ordering::Relaxed)
    }

    /// Log lines over the rate limit.
    pub fn log_lines_dropped(&self) -> u64 {
        self.log_lines_dropped.load(Ordering::Relaxed)
    }

    /// Rows that became bad because the plugin trapped on them alone.
    pub fn convicted_rows(&self) -> u64 {
        self.convicted_rows.load(Ordering::Relaxed)
    }

    /// The guest's own numbers, by name.
    pub fn guest(&self) -> BTreeMap<String, GuestMetric> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn called(&self, took: Duration) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.slowest_call_us.fetch_max(micros, Ordering::Relaxed);
    }

    pub(crate) fn trapped(&self) {
        self.traps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn saw_memory(&self, bytes: u64) {
        self.peak_memory.fetch_max(bytes, Ordering::Relaxed);
    }

    pub(crate) fn sent(&self, bytes: usize) {
        self.bytes_in.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn received(&self, bytes: usize) {
        self.bytes_out.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn dropped_line(&self) {
        self.log_lines_dropped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn convicted(&self) {
        self.convicted_rows.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, name: &str, by: u64) {
        self.update(name, GuestMetric::Count(0), |metric| {
            if let GuestMetric::Count(sum) = metric {
                *sum = sum.saturating_add(by);
            }
        });
    }

    pub(crate) fn gauge(&self, name: &str, value: f64) {
        self.update(name, GuestMetric::Gauge(value), |metric| {
            if let GuestMetric::Gauge(last) = metric {
                *last = value;
            }
        });
    }

    pub(crate) fn observe(&self, name: &str, value: f64) {
        let first = GuestMetric::Distribution { count: 0, sum: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY };
        self.update(name, first, |metric| {
            if let GuestMetric::Distribution { count, sum, min, max } = metric {
                *count += 1;
                *sum += value;
                *min = min.min(value);
                *max = max.max(value);
            }
        });
    }

    /// A name is made of `a-z`, `0-9` and `_`; others, and those over the limit, are dropped. The first use fixes its kind.
    fn update(&self, name: &str, first: GuestMetric, change: impl FnOnce(&mut GuestMetric)) {
        let valid = (1..=64).contains(&name.len()) && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
        if !valid {
            return;
        }
        let mut guest = self.guest.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(metric) = guest.get_mut(name) {
            change(metric);
        } else if guest.len() < MAX_NAMES {
            let mut metric = first;
            change(&mut metric);
            guest.insert(name.to_string(), metric);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_over_the_limit_and_odd_names_are_dropped() {
        let metrics = PluginMetrics::default();
        for number in 0..2 * MAX_NAMES {
            metrics.count(&format!("n{number}"), 1);
        }
        metrics.count("Not A Name", 1);
        assert_eq!(metrics.guest().len(), MAX_NAMES);
    }

    #[test]
    fn the_first_use_fixes_the_kind() {
        let metrics = PluginMetrics::default();
        metrics.count("rows", 2);
        metrics.gauge("rows", 7.0);
        metrics.count("rows", 3);
        assert_eq!(metrics.guest()["rows"], GuestMetric::Count(5));
    }
}

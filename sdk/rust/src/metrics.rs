//! Numbers for the run's metrics. The host prefixes the plugin's name and labels operator and task.
//!
//! A name is made of `a-z`, `0-9` and `_`. Natively, in tests, the values are kept for [`testing::metric`](crate::testing::metric).

/// Adds to a counter.
pub fn count(name: &str, by: u64) {
    imp::count(name, by);
}

/// Sets a gauge.
pub fn gauge(name: &str, value: f64) {
    imp::gauge(name, value);
}

/// Records one value of a distribution.
pub fn observe(name: &str, value: f64) {
    imp::observe(name, value);
}

#[cfg(target_family = "wasm")]
use crate::bindings::metrics as imp;

#[cfg(not(target_family = "wasm"))]
mod imp {
    use crate::testing::double;

    pub(super) fn count(name: &str, by: u64) {
        double::with(|double| *double.metrics.entry(name.to_owned()).or_default() += by as f64);
    }

    pub(super) fn gauge(name: &str, value: f64) {
        double::with(|double| double.metrics.insert(name.to_owned(), value));
    }

    pub(super) fn observe(name: &str, value: f64) {
        double::with(|double| double.metrics.insert(name.to_owned(), value));
    }
}

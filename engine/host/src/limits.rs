//! What one instance of a plugin may use, and the accountant that holds it to that.

use crate::metrics::PluginMetrics;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::config::{Options, Problem};

/// Elements of one table, at most; a table entry costs the host 8 to 16 bytes.
const TABLE_ELEMENTS: usize = 1_000_000;
/// Core instances in one component: the guest's own, adapters, and the shims of packing.
const INSTANCES: usize = 64;

/// The limits of one plugin, per instance; the table `limits` of the pipeline file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Linear memory, over all memories of an instance.
    pub memory: u64,
    /// Computing time of the guest in one call.
    pub deadline: Duration,
    /// What one call may return.
    pub output: u64,
    /// How long a call may wait for the outside, beyond its computing time.
    pub io_timeout: Duration,
    /// Tables of one instance.
    pub tables: usize,
    /// Live handles of one instance.
    pub handles: usize,
    /// Log lines; more are counted and dropped.
    pub log_lines_per_second: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            memory: 256 << 20,
            deadline: Duration::from_secs(10),
            output: 64 << 20,
            io_timeout: Duration::from_secs(30),
            tables: 16,
            handles: 1000,
            log_lines_per_second: 100,
        }
    }
}

impl Limits {
    /// Reads the table `limits`; what is not named keeps its default.
    ///
    /// # Errors
    /// Every mistake, with its key.
    pub fn parse(table: &Map<String, Value>) -> Result<Limits, Vec<Problem>> {
        let mut options = Options::new(table);
        let mut limits = Limits::default();
        if let Some(memory) = options.size("memory") {
            limits.memory = memory;
            if memory < 64 << 10 {
                options.problem("memory", "less than one page of 64KiB");
            }
        }
        if let Some(deadline) = options.duration("deadline") {
            limits.deadline = deadline;
            if deadline.is_zero() {
                options.problem("deadline", "a call needs some time; the least is `1ms`");
            }
        }
        if let Some(output) = options.size("output") {
            limits.output = output;
            if output < 64 << 10 {
                options.problem("output", "less than 64KiB is too little for an answer");
            }
        }
        if let Some(timeout) = options.duration("ioTimeout") {
            limits.io_timeout = timeout;
        }
        if let Some(tables) = options.unsigned("tables") {
            limits.tables = usize::try_from(tables).unwrap_or(usize::MAX);
        }
        if let Some(handles) = options.unsigned("handles") {
            limits.handles = usize::try_from(handles).unwrap_or(usize::MAX);
        }
        if let Some(lines) = options.unsigned("logLinesPerSecond") {
            limits.log_lines_per_second = u32::try_from(lines).unwrap_or(u32::MAX);
        }
        let problems = options.finish();
        if problems.is_empty() { Ok(limits) } else { Err(problems) }
    }
}

/// A size as it is written in the pipeline file.
pub(crate) fn size_text(bytes: u64) -> String {
    for (unit, shift) in [("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        if bytes >= 1 << shift && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    if bytes >= 1 << 20 { format!("{}MiB", bytes >> 20) } else { format!("{bytes} bytes") }
}

/// What was refused since the current call began; it explains the trap that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Refused {
    #[default]
    Nothing,
    /// Memory, to this size in all.
    Memory(u64),
    /// A table.
    Table,
}

/// Grants or refuses growth to one store.
#[derive(Debug)]
pub(crate) struct Limiter {
    limits: Limits,
    memory: u64,
    last_growth: u64,
    pub(crate) refused: Refused,
    metrics: Arc<PluginMetrics>,
}

impl Limiter {
    pub(crate) fn new(limits: Limits, metrics: Arc<PluginMetrics>) -> Self {
        Limiter { limits, memory: 0, last_growth: 0, refused: Refused::Nothing, metrics }
    }
}

impl wasmtime::ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let growth = desired.saturating_sub(current) as u64;
        let total = self.memory.saturating_add(growth);
        if total > self.limits.memory {
            self.refused = Refused::Memory(total);
            return Ok(false);
        }
        self.memory = total;
        self.last_growth = growth;
        self.metrics.saw_memory(total);
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _: wasmtime::Error) -> wasmtime::Result<()> {
        // Also called after a refusal, when nothing was booked.
        if self.refused == Refused::Nothing {
            self.memory = self.memory.saturating_sub(self.last_growth);
        }
        self.last_growth = 0;
        Ok(())
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let granted = desired <= TABLE_ELEMENTS;
        if !granted {
            self.refused = Refused::Table;
        }
        Ok(granted)
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        self.limits.tables
    }

    fn memories(&self) -> usize {
        16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(value: Value) -> Result<Limits, Vec<String>> {
        Limits::parse(value.as_object().unwrap()).map_err(|problems| problems.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn what_is_named_is_set_and_the_rest_keeps_its_default() {
        let limits = parse(json!({ "memory": "64MiB", "deadline": "1s", "logLinesPerSecond": 5 })).unwrap();
        let expected = Limits { memory: 64 << 20, deadline: Duration::from_secs(1), log_lines_per_second: 5, ..Limits::default() };
        assert_eq!(limits, expected);
    }

    #[test]
    fn every_mistake_is_reported_with_its_key() {
        let problems = parse(json!({ "memory": 1, "deadlin": "1s", "tables": -1 })).unwrap_err();
        assert_eq!(problems.len(), 3, "{problems:?}");
        assert!(problems.iter().any(|problem| problem.contains("deadlin") && problem.contains("deadline")), "{problems:?}");
    }

    #[test]
    fn memory_is_counted_over_all_memories() {
        use wasmtime::ResourceLimiter;
        let metrics = Arc::new(PluginMetrics::default());
        let mut limiter = Limiter::new(Limits { memory: 100, ..Limits::default() }, Arc::clone(&metrics));
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(!limiter.memory_growing(0, 50, None).unwrap());
        assert_eq!(limiter.refused, Refused::Memory(110));
        assert_eq!(metrics.peak_memory(), 60);
    }
}

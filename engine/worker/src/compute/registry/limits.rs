//! What a container may use: the table `limits` of its manifest.

use serde_json::{Map, Value};
use std::time::Duration;
use tidegate_api::config::{Options, Problem};

/// The limits of one container process.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerLimits {
    /// From the start of the process to its greeting; for an image, fetching it is included.
    pub start_timeout: Duration,
    /// One batch, from the first byte written to the last byte read.
    pub deadline: Duration,
    /// From closing its input to its end.
    pub stop_timeout: Duration,
    /// Bytes of one frame that it sends.
    pub output: u64,
    /// Lines of its stderr in the log; more are counted and dropped.
    pub log_lines_per_second: u32,
    /// Restarts in ten minutes.
    pub restarts: u32,
}

impl Default for ContainerLimits {
    fn default() -> Self {
        ContainerLimits {
            start_timeout: Duration::from_secs(30),
            deadline: Duration::from_secs(10),
            stop_timeout: Duration::from_secs(5),
            output: 64 << 20,
            log_lines_per_second: 100,
            restarts: 3,
        }
    }
}

impl ContainerLimits {
    /// Reads the table; what is not named keeps its default.
    pub(super) fn parse(table: &Map<String, Value>) -> Result<ContainerLimits, Vec<Problem>> {
        let mut options = Options::new(table);
        let mut limits = ContainerLimits::default();
        for (key, slot) in
            [("startTimeout", &mut limits.start_timeout), ("deadline", &mut limits.deadline), ("stopTimeout", &mut limits.stop_timeout)]
        {
            match options.duration(key) {
                Some(duration) if duration.is_zero() && key != "stopTimeout" => options.problem(key, "must be longer than 0"),
                Some(duration) => *slot = duration,
                None => {}
            }
        }
        if let Some(output) = options.size("output") {
            // The header of a frame has 32 bits for it.
            if (64 << 10..=u64::from(u32::MAX)).contains(&output) {
                limits.output = output;
            } else {
                options.problem("output", format!("`{output}` bytes is not between 64KiB and 4GiB"));
            }
        }
        for (key, slot) in [("logLinesPerSecond", &mut limits.log_lines_per_second), ("restarts", &mut limits.restarts)] {
            if let Some(count) = options.unsigned(key) {
                *slot = u32::try_from(count).unwrap_or(u32::MAX);
            }
        }
        let problems = options.finish();
        if problems.is_empty() { Ok(limits) } else { Err(problems) }
    }
}

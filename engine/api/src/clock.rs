//! The one home of time.
//!
//! Nothing in the engine reads the machine's clocks but through [`Clock`], so that a simulation or a test decides what time it is.

use crate::EventTime;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Wall time for `now()` and records, monotonic time for intervals.
pub trait Clock: Send + Sync {
    /// Wall time, microseconds since 1970. May jump.
    fn wall(&self) -> EventTime;

    /// Time since an arbitrary fixed origin. Never goes back.
    fn monotonic(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one place that reads the wall clock")]
    fn wall(&self) -> EventTime {
        match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(since) => EventTime(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)),
            Err(before) => EventTime(i64::try_from(before.duration().as_micros()).map_or(i64::MIN, |micros| -micros)),
        }
    }

    #[allow(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    fn monotonic(&self) -> Duration {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        ORIGIN.get_or_init(Instant::now).elapsed()
    }
}

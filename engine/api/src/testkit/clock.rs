use crate::{Clock, EventTime};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct ManualClock {
    wall: AtomicI64,
    monotonic: AtomicU64,
}

impl ManualClock {
    /// A clock that shows `wall`.
    pub fn at(wall: EventTime) -> Self {
        ManualClock { wall: AtomicI64::new(wall.0), monotonic: AtomicU64::new(0) }
    }

    /// Moves both clocks on.
    pub fn advance(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).unwrap_or(u64::MAX);
        self.monotonic.fetch_add(micros, Ordering::SeqCst);
        self.wall.fetch_add(i64::try_from(micros).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Makes the wall clock jump; the monotonic one does not notice.
    pub fn jump_to(&self, wall: EventTime) {
        self.wall.store(wall.0, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn wall(&self) -> EventTime {
        EventTime(self.wall.load(Ordering::SeqCst))
    }

    fn monotonic(&self) -> Duration {
        Duration::from_micros(self.monotonic.load(Ordering::SeqCst))
    }
}

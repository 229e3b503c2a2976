use super::random::SimRandom;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::Result;
use tidegate_api::testkit::ManualClock;
use tidegate_epochs::{Created, EpochStore};

/// A store whose calls take time, now and then a lot.
#[derive(Debug)]
pub(super) struct SlowStore {
    inner: Arc<dyn EpochStore>,
    clock: Arc<ManualClock>,
    random: Mutex<SimRandom>,
}

impl SlowStore {
    pub(super) fn new(inner: Arc<dyn EpochStore>, clock: Arc<ManualClock>, seed: u64) -> Self {
        SlowStore { inner, clock, random: Mutex::new(SimRandom::new(seed)) }
    }

    fn wait(&self) {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let longest = if random.one_in(20) { 200_000 } else { 500 };
        self.clock.advance(Duration::from_micros(random.below(longest)));
    }
}

impl EpochStore for SlowStore {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        self.wait();
        self.inner.put(key, bytes)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.wait();
        self.inner.get(key)
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Created> {
        self.wait();
        self.inner.create(key, bytes)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.wait();
        self.inner.list(prefix)
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.wait();
        self.inner.delete(key)
    }
}

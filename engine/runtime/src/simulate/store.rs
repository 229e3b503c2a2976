use super::random::SimRandom;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::testkit::ManualClock;
use tidegate_api::{Error, Result};
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

/// Calls that were given up by their caller and are carried out all the same, some time later.
#[derive(Debug, Clone, Default)]
pub(super) struct Stragglers(Arc<Mutex<Vec<Straggler>>>);

#[derive(Debug)]
enum Straggler {
    Put(String, Vec<u8>),
    Create(String, Vec<u8>),
    Delete(String),
}

impl Stragglers {
    fn add(&self, call: Straggler) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Carries one of them out.
    pub(super) fn land(&self, store: &dyn EpochStore, random: &mut SimRandom) -> Result<()> {
        let call = {
            let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if calls.is_empty() {
                return Ok(());
            }
            let at = random.below(calls.len() as u64) as usize;
            calls.swap_remove(at)
        };
        match call {
            Straggler::Put(key, bytes) => store.put(&key, &bytes),
            Straggler::Create(key, bytes) => store.create(&key, &bytes).map(|_| ()),
            Straggler::Delete(key) => store.delete(&key),
        }
    }
}

/// A store that now and then lets a call time out, which is carried out later: when the caller has repeated it, has gone on, or is dead
/// and another has taken its place.
#[derive(Debug)]
pub(super) struct LateStore {
    inner: Arc<dyn EpochStore>,
    stragglers: Stragglers,
    random: Mutex<SimRandom>,
}

impl LateStore {
    /// One call in this many is late.
    const RARITY: u64 = 80;

    pub(super) fn new(inner: Arc<dyn EpochStore>, stragglers: Stragglers, seed: u64) -> Self {
        LateStore { inner, stragglers, random: Mutex::new(SimRandom::new(seed)) }
    }

    fn is_late(&self) -> bool {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).one_in(LateStore::RARITY)
    }

    fn time_out<T>(&self, key: &str, call: Straggler) -> Result<T> {
        self.stragglers.add(call);
        Err(Error::external(format!("injected: `{key}` timed out")))
    }
}

impl EpochStore for LateStore {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        if self.is_late() {
            return self.time_out(key, Straggler::Put(key.to_string(), bytes.to_vec()));
        }
        self.inner.put(key, bytes)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.inner.get(key)
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Created> {
        if self.is_late() {
            return self.time_out(key, Straggler::Create(key.to_string(), bytes.to_vec()));
        }
        self.inner.create(key, bytes)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.inner.list(prefix)
    }

    fn delete(&self, key: &str) -> Result<()> {
        if self.is_late() {
            return self.time_out(key, Straggler::Delete(key.to_string()));
        }
        self.inner.delete(key)
    }
}

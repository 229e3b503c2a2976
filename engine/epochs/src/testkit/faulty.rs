use crate::store::{Created, EpochStore};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_api::{Error, Result};

/// When a call fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Before the effect: nothing happened.
    Before,
    /// After the effect: it happened, and the caller is told that it failed.
    After,
}

/// Calls by method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Calls {
    /// Calls of `put`.
    pub put: u64,
    /// Calls of `get`.
    pub get: u64,
    /// Calls of `create`.
    pub create: u64,
    /// Calls of `list`.
    pub list: u64,
    /// Calls of `delete`.
    pub delete: u64,
}

impl Calls {
    /// All of them.
    pub fn total(self) -> u64 {
        self.put + self.get + self.create + self.list + self.delete
    }
}

/// Decides which calls fail. Clones are the same plan, so a test or the simulator flips it while the store is in use. Equal seeds and
/// equal calls give equal faults.
#[derive(Debug, Clone)]
pub struct FaultPlan(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    random: u64,
    before: f64,
    after: f64,
    calls: Calls,
    planned: BTreeMap<u64, Fault>,
    crash: Option<(u64, Fault)>,
    dead: bool,
}

impl FaultPlan {
    /// A plan in which nothing fails yet.
    pub fn new(seed: u64) -> Self {
        FaultPlan(Arc::new(Mutex::new(State {
            random: seed,
            before: 0.0,
            after: 0.0,
            calls: Calls::default(),
            planned: BTreeMap::new(),
            crash: None,
            dead: false,
        })))
    }

    /// Sets the share of calls that fail before and after their effect, from now on.
    pub fn set_rates(&self, before: f64, after: f64) {
        let mut state = self.state();
        state.before = before;
        state.after = after;
    }

    /// Makes call number `call` (from 0, over all methods) fail.
    pub fn fail_call(&self, call: u64, fault: Fault) {
        self.state().planned.insert(call, fault);
    }

    /// Makes call number `call` fail, and every later one without effect until [`FaultPlan::revive`]: the process died there.
    pub fn crash_at(&self, call: u64, fault: Fault) {
        self.state().crash = Some((call, fault));
    }

    /// Makes every call fail without effect from now on.
    pub fn kill(&self) {
        self.state().dead = true;
    }

    /// Ends a crash; rates stay.
    pub fn revive(&self) {
        let mut state = self.state();
        state.dead = false;
        state.crash = None;
    }

    /// Whether a crash has happened.
    pub fn is_dead(&self) -> bool {
        self.state().dead
    }

    /// Calls so far, failed ones included.
    pub fn calls(&self) -> Calls {
        self.state().calls
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, count: impl FnOnce(&mut Calls)) -> Option<Fault> {
        let mut state = self.state();
        let call = state.calls.total();
        count(&mut state.calls);
        if state.dead {
            return Some(Fault::Before);
        }
        if let Some((_, fault)) = state.crash.filter(|(at, _)| *at == call) {
            state.dead = true;
            return Some(fault);
        }
        if let Some(fault) = state.planned.remove(&call) {
            return Some(fault);
        }
        // SplitMix64: one multiplication chain per call, the same everywhere.
        state.random = state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = state.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let drawn = ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64;
        if drawn < state.before {
            Some(Fault::Before)
        } else if drawn < state.before + state.after {
            Some(Fault::After)
        } else {
            None
        }
    }
}

/// A store whose calls fail when its plan says so, with `External` errors, before or after their effect.
#[derive(Debug, Clone)]
pub struct FaultyStore {
    inner: Arc<dyn EpochStore>,
    plan: FaultPlan,
}

impl FaultyStore {
    /// Puts `plan` in front of `inner`.
    pub fn new(inner: Arc<dyn EpochStore>, plan: FaultPlan) -> Self {
        FaultyStore { inner, plan }
    }

    /// The plan.
    pub fn plan(&self) -> &FaultPlan {
        &self.plan
    }

    fn call<T>(&self, count: impl FnOnce(&mut Calls), what: &str, key: &str, effect: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.plan.next(count) {
            None => effect(),
            Some(Fault::Before) => Err(Error::external(format!("injected: {what} `{key}` was not tried"))),
            Some(Fault::After) => {
                effect()?;
                Err(Error::external(format!("injected: the answer to {what} `{key}` was lost")))
            }
        }
    }
}

impl EpochStore for FaultyStore {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        self.call(|calls| calls.put += 1, "put", key, || self.inner.put(key, bytes))
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.call(|calls| calls.get += 1, "get", key, || self.inner.get(key))
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Created> {
        self.call(|calls| calls.create += 1, "create", key, || self.inner.create(key, bytes))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.call(|calls| calls.list += 1, "list", prefix, || self.inner.list(prefix))
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.call(|calls| calls.delete += 1, "delete", key, || self.inner.delete(key))
    }
}

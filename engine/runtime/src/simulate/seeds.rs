//! Runs many seeds on all cores, and says which one failed and how to repeat it.

use super::SimReport;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tidegate_api::{Clock, Error, Result, SystemClock};

/// A range of seeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seeds {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

impl Seeds {
    /// `TIDEGATE_SIM_SEEDS` seeds from `TIDEGATE_SIM_FIRST` on; without them so many, from one that the clock decides.
    pub fn from_env(usual: u64) -> Self {
        let read = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
        let fresh = || (SystemClock.wall().0.unsigned_abs() / 1000) << 20;
        Seeds { first: read("TIDEGATE_SIM_FIRST").unwrap_or_else(fresh), count: read("TIDEGATE_SIM_SEEDS").unwrap_or(usual) }
    }

    /// Simulates every seed, on as many threads as there are cores, and adds up what happened.
    ///
    /// # Errors
    /// The failure of the lowest seed that failed, once every seed below it has passed; a panic is a failure too.
    pub fn run(self, simulate: &(dyn Fn(u64) -> Result<SimReport> + Sync)) -> Result<SimReport, Failed> {
        let next = AtomicU64::new(0);
        let found: Mutex<(SimReport, Option<Failed>)> = Mutex::default();
        let work = || {
            let mut total = SimReport::default();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                if at >= self.count {
                    break;
                }
                let seed = self.first.wrapping_add(at);
                let outcome = catch_unwind(AssertUnwindSafe(|| simulate(seed)));
                match outcome.unwrap_or_else(|panic| Err(Error::internal(format!("panicked: {}", told(panic.as_ref()))))) {
                    Ok(report) => total.add(report),
                    Err(error) => {
                        // Seeds above this one need not be looked at any more; those below are under way.
                        next.store(self.count, Ordering::Relaxed);
                        let failed = &mut found.lock().unwrap_or_else(PoisonError::into_inner).1;
                        if failed.as_ref().is_none_or(|known| known.seed > seed) {
                            *failed = Some(Failed { seed, error });
                        }
                    }
                }
            }
            found.lock().unwrap_or_else(PoisonError::into_inner).0.add(total);
        };
        let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(work);
            }
        });
        match found.into_inner().unwrap_or_else(PoisonError::into_inner) {
            (report, None) => Ok(report),
            (_, Some(failed)) => Err(failed),
        }
    }
}

/// What a panic said.
fn told(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a word")
}

/// A seed that failed.
#[derive(Debug)]
pub struct Failed {
    /// The seed.
    pub seed: u64,
    /// Why.
    pub error: Error,
}

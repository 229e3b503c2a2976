//! The wasmtime engine of a host, and the thread that makes deadlines pass.
//!
//! One engine serves transforms, which are called synchronously, and sources and sinks, which are called with a future: since the
//! component model's own concurrency is switched off, the two kinds of calls need no different code.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tidegate_api::{Error, Result};
use wasmtime::{Config, Engine};

/// How often deadlines are looked at; a call may exceed its deadline by about this much.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// The engine and its ticker; alive as long as any plugin loaded by it.
#[derive(Debug)]
pub(crate) struct Engines {
    engine: Engine,
    _ticker: Ticker,
}

impl Engines {
    pub(crate) fn new() -> Result<Self> {
        let mut config = Config::new();
        config.wasm_component_model(true).concurrency_support(false).epoch_interruption(true).relaxed_simd_deterministic(true);
        let engine = Engine::new(&config)
            .map_err(|error| Error::internal(format!("cannot set up the WebAssembly engine on this machine: {error:#}")))?;
        let ticker = Ticker::start(&engine)?;
        Ok(Engines { engine, _ticker: ticker })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

/// A deadline in ticks, rounded up, so that a call gets at least what was promised.
pub(crate) fn ticks(deadline: Duration) -> u64 {
    let ticks = deadline.as_micros().div_ceil(TICK.as_micros());
    u64::try_from(ticks).unwrap_or(u64::MAX / 2).saturating_add(1)
}

/// The one thread of this crate: guest code only notices a deadline that somebody else moves on.
#[derive(Debug)]
struct Ticker {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    fn start(engine: &Engine) -> Result<Self> {
        let (stop, stopped) = channel::<()>();
        let engine = engine.weak();
        let thread = std::thread::Builder::new().name("tidegate-deadlines".into()).spawn(move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                match engine.upgrade() {
                    Some(engine) => engine.increment_epoch(),
                    None => return,
                }
            }
        });
        let thread = thread.map_err(|error| Error::internal("cannot start the thread that watches deadlines").caused_by(error))?;
        Ok(Ticker { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that watches deadlines has panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_never_shorter_than_promised() {
        assert_eq!(ticks(Duration::from_millis(1)), 2);
        assert_eq!(ticks(Duration::from_secs(1)), 101);
        assert!(ticks(Duration::MAX) > 1 << 60);
    }
}

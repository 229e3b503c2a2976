//! One instance and the way into it: every call is measured, limited, and explained when it fails.

use crate::bindings::types;
use crate::chaos::Side;
use crate::engine::ticks;
use crate::fault::{Failure, fault, placed, trapped};
use crate::plugin::{Plugin, Shared};
use crate::state::{EpochClock, State};
use crate::wasi;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Error, EventTime, Result, RunIdentity};
use tokio::runtime::{Builder, Handle, Runtime};
use wasmtime::{Store, UpdateDeadline};

/// Who calls, before a run is known: planning and discovery.
pub(crate) fn planning_scope(plugin: &Plugin, config: &str) -> types::Scope {
    types::Scope {
        config: config.to_string(),
        pipeline: String::new(),
        run_id: String::new(),
        operator: file_name(plugin.name()),
        generation: 0,
        index: 0,
        parallelism: 1,
        extra: String::new(),
    }
}

/// Who calls, as one task of a run.
pub(crate) fn task_scope(config: &str, run: &RunIdentity, task: usize, tasks: usize) -> types::Scope {
    types::Scope {
        config: config.to_string(),
        pipeline: run.pipeline.clone(),
        run_id: file_name(run.run_id.as_str()),
        operator: file_name(&run.operator),
        generation: run.generation.0,
        index: u32::try_from(task).unwrap_or(u32::MAX),
        parallelism: u32::try_from(tasks).unwrap_or(u32::MAX),
        extra: String::new(),
    }
}

/// A name that is fit for a file name, and different for different names.
pub(crate) fn file_name(name: &str) -> String {
    use std::fmt::Write as _;
    let mut safe = String::with_capacity(name.len());
    for (at, character) in name.char_indices() {
        let plain = character.is_ascii_alphanumeric() || matches!(character, '-' | '_') || (character == '.' && at > 0);
        if plain {
            safe.push(character);
        } else {
            for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                // Writing to a string cannot fail.
                let _ = write!(safe, "%{byte:02x}");
            }
        }
    }
    safe
}

fn new_store(shared: &Arc<Shared>, state: State) -> Store<State> {
    let mut store = Store::new(shared.engines.engine(), state);
    store.limiter(|state| &mut state.limiter);
    let limits = &shared.spec.limits;
    store.set_hostcall_fuel(usize::try_from(limits.output).unwrap_or(usize::MAX));
    store.set_max_component_handles(limits.handles);
    store
}

/// Turns what a call gave into an answer or its explanation.
fn finish<T>(state: &State, call: &str, answer: wasmtime::Result<Result<T, types::Error>>) -> Result<T, Failure> {
    let shared = &state.shared;
    shared.metrics.called(state.elapsed());
    match answer {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            let error = fault(&shared.spec.name, call, error);
            // To the guest all of these were some error of input and output.
            let error = match &state.failed {
                Some(words) => error.context(format!("the system said: {words}")),
                None => error,
            };
            // A missing grant will still be missing when the call is made again.
            let error = match state.words.refusals() {
                Some(refusals) if refusals.ungranted => Error::config(format!("{error}; {}", refusals.text)),
                Some(refusals) => Error::new(error.kind(), format!("{error}; {}", refusals.text)),
                None => error,
            };
            Err(Failure::Fault(match shared.spec.allow.read_only() {
                Some(host) => error.context(format!("`{}` is on a read-only file system", host.display())),
                None => error,
            }))
        }
        Err(error) => {
            shared.metrics.trapped();
            Err(Failure::Trap(trapped(state, call, &error)))
        }
    }
}

/// Whether a chaos run takes the instance of this call away.
fn due(state: &State, call: &str) -> Option<Side> {
    let shared = &state.shared;
    shared.chaos.as_ref()?.due(call, shared.clock.monotonic())
}

/// What becomes of a call whose instance a chaos run has taken away.
fn ended(state: &State, call: &str) -> Failure {
    let shared = &state.shared;
    shared.metrics.trapped();
    tracing::warn!(target: "tidegate::plugin", plugin = shared.spec.name.as_str(), call, "a chaos run ended an instance");
    Failure::Trap(placed(Error::external("a chaos run ended the instance"), &shared.spec.name, call))
}

/// A transform's instance, called on the caller's thread.
pub(crate) struct TransformInstance<B> {
    store: Store<State>,
    bindings: B,
}

impl<B: Send> TransformInstance<B> {
    /// A new instance; `bind` finds its exports.
    pub(crate) fn new(
        plugin: &Plugin,
        operator: &str,
        task: usize,
        bind: impl FnOnce(&mut Store<State>, &wasmtime::component::Instance) -> wasmtime::Result<B> + Send,
    ) -> Result<Self> {
        let linked = plugin.linked_transform()?;
        let shared = plugin.shared();
        let now = EpochClock::default();
        let wasi = wasi::deterministic(&now);
        let mut store = new_store(shared, State::new(Arc::clone(shared), operator, task, now, wasi));
        store.epoch_deadline_trap();
        store.data_mut().begin();
        store.set_epoch_deadline(ticks(shared.spec.limits.deadline));
        let bindings = outside_runtime(|| linked.instantiate(&mut store).and_then(|instance| bind(&mut store, &instance)));
        let bindings = bindings.map_err(|error| trapped(store.data(), "instantiate", &error))?;
        Ok(TransformInstance { store, bindings })
    }

    /// Sets the epoch's clock.
    pub(crate) fn set_now(&self, now: EventTime) {
        self.store.data().now.set(now);
    }

    /// Makes one call.
    pub(crate) fn call<T: Send>(
        &mut self,
        call: &str,
        guest: impl FnOnce(&mut Store<State>, &mut B) -> wasmtime::Result<Result<T, types::Error>> + Send,
    ) -> Result<T, Failure> {
        let TransformInstance { store, bindings } = self;
        store.data_mut().begin();
        store.set_epoch_deadline(ticks(store.data().shared.spec.limits.deadline));
        let side = due(store.data(), call);
        if side != Some(Side::Before) {
            let answer = outside_runtime(|| guest(store, bindings));
            let answer = finish(store.data(), call, answer);
            if side.is_none() {
                return answer;
            }
        }
        Err(ended(store.data(), call))
    }
}

/// A source's or sink's instance, with a runtime of its own, so that a guest which waits in the host can be ended too.
pub(crate) struct Instance<B> {
    pub(crate) store: Store<State>,
    pub(crate) bindings: B,
    runtime: OwnRuntime,
}

impl<B: Send + Sync> Instance<B> {
    /// A new instance; `bind` finds its exports.
    pub(crate) fn new(
        plugin: &Plugin,
        operator: &str,
        task: usize,
        bind: impl FnOnce(&mut Store<State>, &wasmtime::component::Instance) -> wasmtime::Result<B>,
    ) -> Result<Self> {
        let linked = plugin.linked_outside()?;
        let shared = plugin.shared();
        let wasi = wasi::granted(shared)?;
        let mut store = new_store(shared, State::new(Arc::clone(shared), operator, task, EpochClock::default(), wasi));
        store.epoch_deadline_callback(|mut store| {
            // Yields at every tick, so that the timeout around the call is looked at while the guest computes.
            Ok(if store.data_mut().ticked() { UpdateDeadline::Yield(1) } else { UpdateDeadline::Interrupt })
        });
        let runtime = OwnRuntime::new()?;
        store.data_mut().begin();
        store.data_mut().ticks_left = ticks(shared.spec.limits.deadline);
        store.set_epoch_deadline(1);
        let instance = runtime
            .block_on(shared.spec.limits.deadline + shared.spec.limits.io_timeout, async || linked.instantiate_async(&mut store).await);
        let bound = match instance {
            Some(instance) => instance.and_then(|instance| bind(&mut store, &instance)),
            None => Err(wasmtime::format_err!("it did not start in time")),
        };
        let bindings = bound.map_err(|error| trapped(store.data(), "instantiate", &error))?;
        Ok(Instance { store, bindings, runtime })
    }

    /// What the guest's clock shows from now on.
    pub(crate) fn set_now(&self, now: EventTime) {
        self.store.data().now.set(now);
    }

    /// Makes one call, which may wait for the outside for the plugin's `ioTimeout`, and `wait` beyond that.
    pub(crate) fn call<T: Send>(
        &mut self,
        call: &str,
        wait: Duration,
        guest: impl AsyncFnOnce(&mut Store<State>, &B) -> wasmtime::Result<Result<T, types::Error>> + Send,
    ) -> Result<T, Failure> {
        let Instance { store, bindings, runtime } = self;
        let limits = store.data().shared.spec.limits;
        store.data_mut().begin();
        store.data_mut().ticks_left = ticks(limits.deadline);
        store.set_epoch_deadline(1);
        let patience = limits.deadline.saturating_add(limits.io_timeout).saturating_add(wait);
        let side = due(store.data(), call);
        if side == Some(Side::Before) {
            return Err(ended(store.data(), call));
        }
        match runtime.block_on(patience, async || guest(store, bindings).await) {
            Some(_) if side == Some(Side::After) => Err(ended(store.data(), call)),
            Some(answer) => finish(store.data(), call, answer),
            None => {
                let shared = &store.data().shared;
                shared.metrics.called(store.data().elapsed());
                shared.metrics.trapped();
                let waiting = limits.io_timeout.saturating_add(wait);
                let error = if store.data().waited() >= waiting / 2 {
                    Error::external(format!(
                        "it waited for the outside for more than {waiting:?} and was ended; check what it connects to, or raise `limits.ioTimeout` of [plugins.{}]",
                        shared.spec.name
                    ))
                } else {
                    Error::limit(format!(
                        "it computed and waited for longer than its deadline of {:?} and {waiting:?} for waiting together; make it do less per call or raise `limits.deadline` of [plugins.{}]",
                        limits.deadline, shared.spec.name
                    ))
                };
                Err(Failure::Trap(placed(error, &shared.spec.name, call)))
            }
        }
    }
}

impl<B> Instance<B> {
    /// Lets time pass without a call.
    pub(crate) fn pause(&self, time: Duration) {
        // The patience is never used up: the pause ends by itself.
        self.runtime.block_on(Duration::MAX, async || tokio::time::sleep(time).await);
    }
}

/// A current-thread runtime that may be dropped anywhere, within another runtime too.
struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    fn new() -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime
            .map(|runtime| OwnRuntime(Some(runtime)))
            .map_err(|error| Error::internal("cannot set up a plugin's runtime").caused_by(error))
    }

    /// Runs a future to its end, or `None` when it takes longer than `patience`.
    fn block_on<T: Send>(&self, patience: Duration, future: impl AsyncFnOnce() -> T + Send) -> Option<T> {
        let runtime = self.0.as_ref().expect("the runtime is there until it is dropped");
        outside_runtime(|| runtime.block_on(async { tokio::time::timeout(patience, future()).await.ok() }))
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Runs `work` where it may block. Task threads are such a place. A host that plans from within its own async runtime is not, and
/// there a thread is made for the one call.
fn outside_runtime<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    if Handle::try_current().is_err() {
        return work();
    }
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(value) => value,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_names_are_fit_for_file_names_and_stay_different() {
        assert_eq!(file_name("hot-auctions_2.1"), "hot-auctions_2.1");
        assert_eq!(file_name("../a b"), "%2e.%2fa%20b");
        assert_ne!(file_name("a/b"), file_name("a_b"));
    }
}

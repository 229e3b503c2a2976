//! What a store holds beside the guest, and what the guest may ask of it.

use crate::bindings::{control, log, metrics, secrets, types};
use crate::limits::{Limiter, Refused};
use crate::network::{Hooks, Network};
use crate::plugin::Shared;
use crate::streams::Streams;
use crate::words::{Rate, Stdio, Words};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use tidegate_api::EventTime;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

/// The epoch's clock as a guest sees it, through `control` and through WASI alike.
#[derive(Debug, Clone, Default)]
pub(crate) struct EpochClock(Arc<AtomicI64>);

impl EpochClock {
    pub(crate) fn set(&self, now: EventTime) {
        self.0.store(now.0, Ordering::Relaxed);
    }

    /// Microseconds since 1970; a guest's clock knows no time before.
    pub(crate) fn micros(&self) -> u64 {
        u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// One instance's side of the host.
pub(crate) struct State {
    pub(crate) shared: Arc<Shared>,
    pub(crate) limiter: Limiter,
    pub(crate) words: Words,
    /// What the system said of a read or write that failed in this call.
    pub(crate) failed: Option<String>,
    pub(crate) now: EpochClock,
    /// Ticks of computing time left in this call; counted for calls with a future only.
    pub(crate) ticks_left: u64,
    /// Where the instance stands, for its log lines.
    operator: String,
    task: usize,
    rate: Rate,
    call_began: Duration,
    last_ran: Duration,
    wasi: WasiCtx,
    http: WasiHttpCtx,
    hooks: Hooks,
    table: ResourceTable,
}

impl State {
    /// The state of a new instance; `wasi` decides what its WASI imports find.
    pub(crate) fn new(shared: Arc<Shared>, operator: &str, task: usize, now: EpochClock, mut wasi: wasmtime_wasi::WasiCtxBuilder) -> Self {
        let limits = shared.spec.limits;
        let words = Words::default();
        let rate = Rate::new(limits.log_lines_per_second);
        let name: Arc<str> = Arc::from(shared.spec.name.as_str());
        let stdio = Stdio::new(name, words.clone(), rate.clone(), Arc::clone(&shared.clock), Arc::clone(&shared.metrics));
        wasi.stdout(stdio.clone()).stderr(stdio);
        let network = Network::new(Arc::clone(&shared), words.clone(), rate.clone());
        network.guard(&mut wasi);
        let mut table = ResourceTable::new();
        table.set_max_capacity(limits.handles);
        State {
            limiter: Limiter::new(limits, Arc::clone(&shared.metrics)),
            words,
            failed: None,
            now,
            ticks_left: 0,
            operator: operator.to_string(),
            task,
            rate,
            call_began: Duration::ZERO,
            last_ran: Duration::ZERO,
            wasi: wasi.build(),
            http: WasiHttpCtx::new(),
            hooks: Hooks(network),
            table,
            shared,
        }
    }

    /// A call begins: what the last one said and was refused is forgotten.
    pub(crate) fn begin(&mut self) {
        self.words.clear();
        self.failed = None;
        self.limiter.refused = Refused::Nothing;
        self.hooks.0.begin();
        self.call_began = self.shared.clock.monotonic();
        self.last_ran = self.call_began;
    }

    /// The guest computes right now; whether it may go on.
    pub(crate) fn ticked(&mut self) -> bool {
        self.last_ran = self.shared.clock.monotonic();
        self.ticks_left = self.ticks_left.saturating_sub(1);
        self.ticks_left > 0
    }

    /// Its WASI streams.
    pub(crate) fn streams(&mut self) -> Streams<'_> {
        Streams { table: &mut self.table, failed: &mut self.failed }
    }

    /// The instance's way to the outside.
    pub(crate) fn network(&self) -> Arc<Network> {
        Arc::clone(&self.hooks.0)
    }

    /// How long the guest has not computed.
    pub(crate) fn waited(&self) -> Duration {
        self.shared.clock.monotonic().saturating_sub(self.last_ran)
    }

    /// How long the call has taken.
    pub(crate) fn elapsed(&self) -> Duration {
        self.shared.clock.monotonic().saturating_sub(self.call_began)
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut self.hooks }
    }
}

impl types::Host for State {}

macro_rules! line {
    ($state:expr, $level:ident, $message:expr, $fields:expr) => {
        tracing::$level!(
            target: "tidegate::plugin",
            plugin = $state.shared.spec.name.as_str(),
            operator = $state.operator.as_str(),
            task = $state.task,
            fields = $fields.as_str(),
            "{}",
            $message
        )
    };
}

impl log::Host for State {
    fn write(&mut self, level: log::Level, message: String, fields: Vec<(String, String)>) {
        if matches!(level, log::Level::Error) {
            self.words.keep(&message);
        }
        if !self.rate.admits(self.shared.clock.monotonic()) {
            self.shared.metrics.dropped_line();
            return;
        }
        let fields = fields.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ");
        match level {
            log::Level::Trace => line!(self, trace, message, fields),
            log::Level::Debug => line!(self, debug, message, fields),
            log::Level::Info => line!(self, info, message, fields),
            log::Level::Warn => line!(self, warn, message, fields),
            log::Level::Error => line!(self, error, message, fields),
        }
    }

    fn enabled(&mut self, level: log::Level) -> bool {
        match level {
            log::Level::Trace => tracing::enabled!(target: "tidegate::plugin", tracing::Level::TRACE),
            log::Level::Debug => tracing::enabled!(target: "tidegate::plugin", tracing::Level::DEBUG),
            log::Level::Info => tracing::enabled!(target: "tidegate::plugin", tracing::Level::INFO),
            log::Level::Warn => tracing::enabled!(target: "tidegate::plugin", tracing::Level::WARN),
            // Error lines are kept for the error that may follow, whatever the log's filter says.
            log::Level::Error => true,
        }
    }
}

impl metrics::Host for State {
    fn count(&mut self, name: String, by: u64) {
        self.shared.metrics.count(&name, by);
    }

    fn gauge(&mut self, name: String, value: f64) {
        self.shared.metrics.gauge(&name, value);
    }

    fn observe(&mut self, name: String, value: f64) {
        self.shared.metrics.observe(&name, value);
    }
}

impl control::Host for State {
    fn now_us(&mut self) -> u64 {
        self.now.micros()
    }

    fn should_yield(&mut self) -> bool {
        self.elapsed() > self.shared.spec.limits.deadline / 2
    }
}

impl secrets::Host for State {
    fn get(&mut self, name: String) -> Result<String, String> {
        let secret = self.shared.spec.secrets.get(&name).cloned();
        secret.ok_or_else(|| format!("there is no secret `{name}`; name it in `secrets` of [plugins.{}]", self.shared.spec.name))
    }
}

//! What a guest's WASI imports find: for a transform nothing that could differ from run to run, for a source or sink its grants.

use crate::network;
use crate::plugin::Shared;
use crate::state::{EpochClock, State};
use crate::streams;
use std::time::Duration;
use tidegate_api::{Error, Result};
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::clocks::WasiClocksView;
use wasmtime_wasi::p2::DynPollable;
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::bindings::random::random;
use wasmtime_wasi::random::Deterministic;
use wasmtime_wasi::{FsPerms, HostMonotonicClock, HostWallClock, WasiCtxBuilder, WasiView};

/// Random bytes per call; more is asked for by mistake or malice.
const MAX_RANDOM: u64 = 1 << 20;
/// The constant that seeds a transform's hash maps.
const SEED: u128 = 0x7469_6465_6761_7465_7469_6465_6761_7465;

/// WASI for a transform: the epoch's clock, constant random, no files, no environment, no network.
pub(crate) fn deterministic(now: &EpochClock) -> WasiCtxBuilder {
    let mut wasi = WasiCtxBuilder::new();
    wasi.wall_clock(now.clone())
        .monotonic_clock(now.clone())
        .secure_random(Deterministic::new(SEED.to_le_bytes().to_vec()))
        .insecure_random(Deterministic::new(SEED.to_be_bytes().to_vec()))
        .insecure_random_seed(SEED)
        .max_random_size(MAX_RANDOM)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_blocking_current_thread(true);
    wasi
}

/// WASI for a source or sink: its grants; a monotonic clock and an insecure random seed without one.
pub(crate) fn granted(shared: &Shared) -> Result<WasiCtxBuilder> {
    let grants = &shared.spec.allow;
    let mut wasi = WasiCtxBuilder::new();
    // File calls on the task's own thread: it has nothing else to do, and no thread is made for them.
    // Sockets may be made; every address they are used with is asked for, see `network`.
    wasi.allow_tcp(true).allow_udp(true).allow_blocking_current_thread(true);
    wasi.max_random_size(MAX_RANDOM);
    for name in &grants.env {
        if let Some(value) = (shared.environment)(name) {
            wasi.env(name, value);
        }
    }
    for dir in &grants.dirs {
        let perms = if dir.writable { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
        wasi.preopened_dir(&dir.host, &dir.guest, perms).map_err(|error| {
            let host = dir.host.display();
            Error::config(format!("the granted directory `{host}` cannot be opened: {error:#}; make it, or mend `allow.dirs`"))
                .context(format!("plugin `{}`", shared.spec.name))
        })?;
    }
    Ok(wasi)
}

/// WASI linked for calls without a future. Waiting for a clock would stop the task for as long as the guest likes, so it traps.
pub(crate) fn link_deterministic(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_sync(linker)?;
    linker.allow_shadowing(true);
    monotonic_clock::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    linker.allow_shadowing(false);
    Ok(())
}

impl HostWallClock for EpochClock {
    fn resolution(&self) -> Duration {
        Duration::from_micros(1)
    }

    fn now(&self) -> Duration {
        Duration::from_micros(self.micros())
    }
}

impl HostMonotonicClock for EpochClock {
    fn resolution(&self) -> u64 {
        1000
    }

    fn now(&self) -> u64 {
        self.micros().saturating_mul(1000)
    }
}

impl monotonic_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.now.micros().saturating_mul(1000))
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(1000)
    }

    fn subscribe_instant(&mut self, _: u64) -> wasmtime::Result<Resource<DynPollable>> {
        Err(wasmtime::format_err!("a transform may not wait"))
    }

    fn subscribe_duration(&mut self, _: u64) -> wasmtime::Result<Resource<DynPollable>> {
        Err(wasmtime::format_err!("a transform may not wait"))
    }
}

/// WASI linked for calls with a future. What needs a grant that is not given traps and names the grant.
pub(crate) fn link_granted(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_async(linker)?;
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)?;
    linker.allow_shadowing(true);
    wall_clock::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    random::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    streams::link(linker)?;
    network::link_lookup(linker)?;
    network::link_handler(linker)?;
    linker.allow_shadowing(false);
    Ok(())
}

fn missing(shared: &Shared, what: &str, grant: &str) -> wasmtime::Error {
    wasmtime::format_err!("it asked for {what}, which it is not granted; set `{grant} = true` in `allow` of [plugins.{}]", shared.spec.name)
}

impl wall_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        if !self.shared.spec.allow.clock {
            return Err(missing(&self.shared, "wall time", "clock"));
        }
        wall_clock::Host::now(&mut self.clocks())
    }

    fn resolution(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        wall_clock::Host::resolution(&mut self.clocks())
    }
}

impl random::Host for State {
    fn get_random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        if !self.shared.spec.allow.random {
            return Err(missing(&self.shared, "secure random numbers", "random"));
        }
        random::Host::get_random_bytes(self.ctx().ctx.random(), length)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        if !self.shared.spec.allow.random {
            return Err(missing(&self.shared, "secure random numbers", "random"));
        }
        random::Host::get_random_u64(self.ctx().ctx.random())
    }
}

//! The plugin host: loads, limits and calls WebAssembly components and adapts them to the engine's traits.
//!
//! A [`PluginHost`] loads a component from a file: its world and version are read from its types before anything of it runs, and its
//! compiled code is cached. A [`Plugin`] is then used like anything native: [`Plugin::transform`] gives a step,
//! [`Plugin::source`] an `InlineSource`, [`Plugin::sink`] an `OutputSink`. The border itself is the WIT package in `wit/`.
//!
//! Whatever a guest does, the process stays up and its memory bounded. Each instance has [`Limits`]; a call that runs into one, or
//! traps, costs the instance and gives an error that names the plugin, the call and the remedy. A transform that traps on a row is
//! called again without it. What a guest hands over is checked before it is believed. `docs/design/0003-plugin-host.md` has the whole table.

mod bindings;
mod cache;
mod changes;
mod chaos;
mod code;
mod columns;
mod config;
mod describe;
mod engine;
mod fault;
#[doc(hidden)]
pub mod fuzz;
mod grants;
mod instance;
mod ipc;
mod limits;
mod load;
mod metrics;
mod network;
mod plugin;
mod sink;
mod source;
mod state;
mod streams;
mod transform;
mod wasi;
mod words;

pub use config::{Environment, HostConfig, PluginSpec, Resolver};
pub use describe::Description;
pub use grants::{DirGrant, Grants, Host, HostGrant, HttpGrant};
pub use ipc::{StreamEncoder, decode_stream};
pub use limits::Limits;
pub use load::World;
pub use metrics::{GuestMetric, PluginMetrics};
pub use plugin::{Plugin, PluginHost};
pub use transform::{Shape, Transform};

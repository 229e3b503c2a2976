//! The guest side of `tidegate:plugin`: write a transform, a source or a sink in Rust and build it into one `.wasm` file.
//!
//! Implement one trait and export it. [`Transform`] is a stateless step over record batches, [`Source`] reads rows split by split, [`Sink`] writes
//! them, and [`TwoPhaseSink`] adds what exactly-once takes. Then `export_transform!(MyType)` (or [`export_source!`], [`export_sink!`],
//! [`export_two_phase_sink!`]) makes the component's exports. Around it: [`log`], [`metrics`], [`control`] and [`secrets`] call the host; the first export that is
//! called installs a panic hook, so that a panic's message reaches the run's log before the instance ends.
//!
//! A plugin is ordinary Rust: its unit tests run natively, with [`testing`] in the host's place.
//!
#![cfg_attr(feature = "arrow", doc = "```")]
#![cfg_attr(not(feature = "arrow"), doc = "```ignore")]
#![doc = include_str!("../examples/shout.rs")]
//! ```
//!
//! Sources and sinks that talk to the network find a client in `net`, behind the feature `http`.
//!
//! Without the default feature `arrow` there are [`ColumnsTransform`], on raw column buffers, and the [`bindings`].

pub mod bindings;
mod columns;
pub mod control;
mod error;
mod info;
pub mod log;
pub mod metrics;
#[cfg(feature = "http")]
pub mod net;
mod panic;
pub mod secrets;
#[cfg(not(target_family = "wasm"))]
pub mod testing;

#[cfg(feature = "arrow")]
pub mod changes;
#[cfg(feature = "arrow")]
mod config;
#[cfg(feature = "arrow")]
pub mod ipc;
#[cfg(feature = "arrow")]
mod nearest;
#[cfg(feature = "arrow")]
mod sink;
#[cfg(feature = "arrow")]
mod source;
#[cfg(feature = "arrow")]
mod transform;

pub use bindings::types::{RowError, Scope, Shape};
pub use columns::{ColumnsGuest, ColumnsTransform};
pub use error::{Error, Result};
pub use info::Info;

#[cfg(feature = "arrow")]
pub use config::parse as parse_config;
#[cfg(feature = "arrow")]
pub use nearest::hint;
#[cfg(feature = "arrow")]
pub use sink::{Accepts, Guarantee, Outcome, Sink, SinkGuest, SinkPlan, Token, TwoPhaseGuest, TwoPhaseSink, Written};
#[cfg(feature = "arrow")]
pub use source::{BadRecord, Chunk, Discovered, PollRequest, Polled, Source, SourceGuest, SourcePlan, Split, SplitState};
#[cfg(feature = "arrow")]
pub use transform::{Processed, Transform, TransformGuest, TransformPlan};

/// The Arrow crates the SDK is built with, so that a plugin needs no versions of its own.
#[cfg(feature = "arrow")]
pub mod arrow {
    pub use arrow_array as array;
    pub use arrow_buffer as buffer;
    pub use arrow_schema as schema;
    pub use arrow_select as select;
}

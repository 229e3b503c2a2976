//! Tidegate: a streaming dataflow engine whose connectors and transforms are WebAssembly components.
//!
//! This crate is the composition root. A platform embeds it through [`run_stream`] and a [`ControlPlane`] of its own; the
//! `tidegate` command does the same over a pipeline file ([`mod@file`]). What a run is made of is decided in [`dataflow`]: stages
//! and datasets become tasks and edges, and only the columns that somebody reads are asked of a source.
//!
//! The library installs no signal handler, subscriber, panic hook or global, and two runs in one process do not know of each other.

pub mod compute;
pub mod control;
pub mod file;
mod memory;
mod options;
pub mod plan;
mod prepare;
mod record;
pub mod reference;
mod run;
pub mod settings;

pub use control::{Binding, BuildSignal, ControlPlane, HostSettings, StageDef, StartOptions, Topology};
pub use plan as dataflow;
pub use prepare::{Prepared, prepare};
pub use run::{new_run_id, run_stream};
pub use tidegate_api as api;
pub use tidegate_api::{InlineSource, OutputSink, SinkCtx, SourceCtx};
pub use tidegate_connectors::decode;
pub use tidegate_dialect as dialect;
pub use tidegate_epochs as epochs;
pub use tidegate_host as host;
pub use tidegate_operators as steps;

/// Everything shown in the guide for embedding hosts runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/embedding.md")]
struct Embedding;

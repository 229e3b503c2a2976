//! The native connectors, and the decoders and encoders they share.
//!
//! A connector turns options of a pipeline file into an [`InlineSource`](tidegate_api::InlineSource) or an
//! [`OutputSink`](tidegate_api::OutputSink). [`source`] and [`sink`] do that by name; [`CONNECTORS`] describes every
//! connector and option, and `docs/connectors.md` is made from it. A new connector is a folder here, a line of that list, and a test.
//!
//! [`decode`] turns bytes into batches and bad rows, [`encode`] batches into bytes; neither knows where the bytes come from or go to.

/// So that tests of the inside and of the outside share what they look through.
#[cfg(test)]
extern crate self as tidegate_connectors;

mod base64;
pub mod blackhole;
pub mod decode;
pub mod encode;
pub mod files;
#[doc(hidden)]
pub mod fuzz;
pub mod kafka;
pub mod nexmark;
pub mod page;
mod pin;
mod registry;
mod schemas;
mod shape;
pub mod stdin;
pub mod stdout;
pub mod table;

pub use registry::{Build, CONNECTORS, ConnectorCtx, ConnectorDef, OptionDef, Secrets, SinkDef, SourceDef, secrets, sink, source};

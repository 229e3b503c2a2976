//! The `stdin` source: lines of standard input, read once.

mod config;
mod input;
mod source;

use crate::registry::{ConnectorDef, SourceDef};

pub use config::StdinConfig;
pub use input::StdinInput;
pub use source::StdinSource;

/// The connector, for the list of all.
pub const CONNECTOR: ConnectorDef = ConnectorDef {
    name: "stdin",
    doc: "Reads lines of standard input until it ends. They are there once: after a crash, those that came since the last epoch are lost, \
          so an output behind it is at most once. One dataset of a pipeline reads it.",
    source: Some(SourceDef { options: config::OPTIONS, build: source::build }),
    sink: None,
    secrets: &[],
};

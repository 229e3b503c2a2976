//! The `stdout` sink: rows as lines, at least once.

mod sink;
mod target;

use crate::registry::{ConnectorDef, OptionDef, SinkDef};

pub use sink::{StdoutSink, is_closed_pipe};
pub(crate) use sink::{refuse_upserts, text_options};
pub use target::StdoutTarget;

/// The connector, for the list of all.
pub const CONNECTOR: ConnectorDef = ConnectorDef {
    name: "stdout",
    doc: "Writes rows to standard output as lines. A closed pipe ends the run as a stop does.",
    source: None,
    sink: Some(SinkDef {
        options: &[
            OptionDef { name: "format", kind: "json | csv", default: "json", doc: "how a row becomes a line" },
            OptionDef { name: "timestamps", kind: "iso | epochMs", default: "iso", doc: "timestamps as ISO-8601 text or as integers" },
            OptionDef { name: "int64AsText", kind: "boolean", default: "false", doc: "64-bit integers as text" },
        ],
        guarantee: "at least once",
        build: sink::build,
    }),
    secrets: &[],
};

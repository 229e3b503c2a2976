//! The `kafka` connector.

mod client;
mod sink;

use crate::registry::{ConnectorDef, SinkDef};

/// The connector, for the list of all.
pub const CONNECTOR: ConnectorDef = ConnectorDef {
    name: "kafka",
    doc: "Topics of Apache Kafka, or of what speaks its protocol.",
    source: None,
    sink: Some(SinkDef { options: sink::OPTIONS, guarantee: "exactly once, or at least once with `delivery`", build: sink::build }),
};

//! The `kafka` connector: partitions of topics as splits, read without a consumer group's say (`docs/design/0005-kafka.md`), and records
//! that become visible once with their epoch (`docs/design/0006-kafka-sink.md`).

mod ahead;
mod client;
mod discovery;
mod listener;
mod part;
mod place;
mod reader;
mod run;
mod sample;
mod sink;
mod source;
mod source_config;
mod source_options;
mod source_registered;
mod teller;

use crate::registry::{ConnectorDef, Secrets, SinkDef, SourceDef};

pub use source::KafkaSource;

/// The connector, for the list of all.
pub const CONNECTOR: ConnectorDef = ConnectorDef {
    name: "kafka",
    doc: "Topics of Apache Kafka, or of anything that speaks its protocol. Reading, every partition is a split, `TOPIC/NUMBER`, and can be \
          gone on with at any offset; only committed rows are read. Positions are the engine's own, kept with its epochs: the offsets \
          committed to the consumer group follow them and decide nothing. An offset that is gone, a topic that is gone or was made \
          again, and a partition that is gone end the run with an error that says so ([more](#kafka-where-reading-begins-and-ends)).",
    source: Some(SourceDef { options: source_options::SOURCE_OPTIONS, build: source::build }),
    sink: Some(SinkDef { options: sink::OPTIONS, guarantee: "exactly once, or at least once with `delivery`", build: sink::build }),
    secrets: &[
        Secrets { table: Some("properties"), keys: client::SECRET },
        Secrets { table: Some("registry"), keys: crate::schemas::SECRET },
    ],
};

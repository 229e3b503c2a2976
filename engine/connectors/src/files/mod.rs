//! The `files` connector: reads CSV, JSON lines, Parquet and Arrow files, writes parts of a directory in transactions.

mod commit;
mod compression;
mod config;
mod input;
mod listing;
mod memory;
mod open;
mod part;
mod partition;
mod parts;
mod place;
mod remote;
mod sink;
mod source;
mod staging;
mod upload;
mod watch;

#[cfg(test)]
mod tests;

use crate::registry::{ConnectorDef, Secrets, SinkDef, SourceDef};

pub use compression::Compression;
pub use config::{FilesSinkConfig, FilesSourceConfig, Format};
pub use sink::FilesSink;
pub use source::FilesSource;
pub use staging::STAGING;

/// The connector, for the list of all.
pub const CONNECTOR: ConnectorDef = ConnectorDef {
    name: "files",
    doc: "Files of a folder. Reading, every file is a split and can be gone on with at any row. Writing, rows become visible as whole \
          files with their epoch: `part-<run>-<dataset>-<generation>-<epoch>-<task>-<number>.<ending>`, in the folder or, with \
          `partitionBy`, in folders below it ([more](#partitions-of-files)); in a bucket the epoch is not part of the name. Parts of an earlier run stay, also when a \
          run starts over with `--fresh`.",
    source: Some(SourceDef { options: config::SOURCE_OPTIONS, build: source::build }),
    sink: Some(SinkDef { options: config::SINK_OPTIONS, guarantee: "exactly once", build: sink::build }),
    secrets: &[Secrets { table: Some("storeOptions"), keys: remote::SECRETS }],
};

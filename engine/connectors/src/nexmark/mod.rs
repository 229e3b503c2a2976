//! The Nexmark source: a generator of an auction house's events, as benchmarks of streaming systems use it.
//!
//! Event `n` is a pure function of the seed and `n`, so any position can be sought, any number of tasks gives the same events,
//! and a column nobody asked for costs nothing. The draws follow the public description of the benchmark: of 50 events one is a
//! person, three are auctions and 46 are bids; half the bids go to a hot auction, three in four come from a hot bidder.

mod config;
mod draw;
mod generate;
mod layout;
mod source;
mod text;

#[cfg(test)]
mod tests;

use crate::registry::{ConnectorDef, SourceDef};

pub use config::NexmarkConfig;
pub use source::{NexmarkSource, schema};

/// The connector, for the list of all.
pub const CONNECTOR: ConnectorDef = ConnectorDef {
    name: "nexmark",
    doc: "Generates the events of the Nexmark benchmark: persons, auctions and bids in one stream, null where a kind lacks a column. \
          Deterministic for a seed; makes only the columns that are read.",
    source: Some(SourceDef { options: config::OPTIONS, build: source::build }),
    sink: None,
    secrets: &[],
};

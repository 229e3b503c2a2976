//! `lookupJoin`: every row of a stream with what a table says of its key.
//!
//! The right input is the table: a row replaces the earlier one of its key, and a delete of an upsert stream takes it away.
//! Without `asOf` a row meets the table as it stands when the row comes. Until the table is there for the first time (its input has
//! ended or is idle) the stream is not read; a barrier may let a few rows through, and they wait in the state. With `asOf` a row
//! meets the version that was valid at its own time: it waits until the watermark says that all versions up to then have come, so
//! the answer does not depend on which input was faster.
//!
//! A row of the stream is joined at most once and is never taken back: what the table says later is for later rows.
//!
//! | file | what |
//! |---|---|
//! | `config.rs` | the step's keys |
//! | `bind.rs` | its types: a plan |
//! | `table.rs` | the table: keys to versions |
//! | `operator.rs` | rows and time in, joined rows out |
//! | `state.rs` | the table's changes and the waiting rows as pieces of snapshots |
//!
//! `docs/design/lookup-join.md` has the failure table.

mod bind;
mod config;
mod operator;
mod state;
mod table;

pub(crate) use config::INFO;

#[cfg(test)]
mod reload_tests;
#[cfg(test)]
mod tests;

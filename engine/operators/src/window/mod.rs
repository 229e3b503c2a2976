//! `windowedAggregate`: aggregates per group over tumbling, hopping and cumulating windows of event time, or of the clock.
//!
//! A row goes to one pane, whatever the number of windows over it; the panes of a window are merged when it fires. Pane
//! first, key second: neighbouring rows mostly share a pane, and a pane's own small key table beats one table over windows
//! and keys. Windows fire in the order of their ends, when the watermark reaches them; a row is late when every window over
//! it has fired for its vnode, or `allowedLateness` after that: until then the window is kept, and its groups that changed come out
//! again. `emit` lets results out before their window fires. Both make the output one of updates.
//!
//! | file | what |
//! |---|---|
//! | `written.rs` | the step's keys |
//! | `config.rs` | its types |
//! | `arithmetic.rs` | which pane, which windows: pure |
//! | `calendar.rs` | days of a time zone as days of a grid |
//! | `panes.rs` | a pane is a table and accumulators; recycled |
//! | `running.rs` | the counts of a window that moves on |
//! | `operator.rs` | rows in, windows out |
//! | `state.rs` | panes as pieces of snapshots |
//!
//! Group columns become dense group numbers in `crate::keys`; accumulators over them are in `crate::aggregates`.

mod arithmetic;
mod calendar;
mod config;
mod operator;
mod panes;
mod running;
mod state;
mod written;

pub(crate) use arithmetic::{LONGEST_MS, Unit, within_reach};
pub(crate) use config::{END, INFO, START};
pub(crate) use written::{KEY_BY, KeyBy, key_by};

#[cfg(test)]
pub(crate) mod tests;

//! `windowedAggregate`: aggregates per group over tumbling and hopping windows of event time.
//!
//! A row goes to one pane, whatever the number of windows over it; the panes of a window are merged when it fires. Pane
//! first, key second: neighbouring rows mostly share a pane, and a pane's own small key table beats one table over windows
//! and keys. Windows fire in the order of their ends, when the watermark reaches them; a row is late when every window over
//! it has fired for its vnode.
//!
//! | file | what |
//! |---|---|
//! | `config.rs` | the step's keys, and its types |
//! | `arithmetic.rs` | which pane, which windows: pure |
//! | `panes.rs` | a pane is a table and accumulators; recycled |
//! | `operator.rs` | rows in, windows out |
//! | `state.rs` | panes as pieces of snapshots |
//!
//! Group columns become dense group numbers in `crate::keys`; accumulators over them are in `crate::aggregates`.

mod arithmetic;
mod config;
mod operator;
mod panes;
mod state;

pub(crate) use arithmetic::LONGEST_MS;
pub(crate) use config::INFO;

#[cfg(test)]
mod tests;

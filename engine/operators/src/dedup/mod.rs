//! `deduplicate`: one row per key, the first or the last.
//!
//! `keep = "first"` passes the first row of each key on and remembers the key, for `ttlMs` of event time or for ever.
//! `keep = "last"` passes the newest row of each key on as an update of the one before; no row is kept, only how new the
//! newest was. Both leave the keys that time has passed to the next sweep, dictionary and all.
//!
//! | file | what |
//! |---|---|
//! | `config.rs` | the step's keys, and its types |
//! | `operator.rs` | rows in, rows out |
//! | `memory.rs` | the keys that are remembered, their sweep and their snapshots |

mod config;
mod memory;
mod operator;

pub(crate) use config::INFO;

#[cfg(test)]
mod tests;

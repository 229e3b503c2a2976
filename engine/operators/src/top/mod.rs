//! `topN`: the first rows of every group in an order, ranked.
//!
//! Ranks change as rows come: after every batch the ranks that have another row are emitted as updates, and those that have
//! none any more as deletes. Or, `windowed`, they are told once, when their window closes. Rows that update each other are
//! taken too: a row replaces the one of equal keys, wherever that was ranked.
//!
//! | file | what |
//! |---|---|
//! | `config.rs` | the step's keys |
//! | `bind.rs` | what they mean over a schema |
//! | `plan.rs` | a stage, typed; its output rows |
//! | `best.rs` | the operator for `n = 1` of final rows, which keeps no row |
//! | `running.rs` | the operator for ranks that change |
//! | `windowed.rs` | the operator for ranks that are told once |
//! | `windowed/` | its windows: of which rows, which rows can be among the first, how they leave |

mod best;
mod bind;
mod config;
mod plan;
mod running;
mod windowed;

pub(crate) use config::{INFO, count};

#[cfg(test)]
mod tests;

//! `streamJoin`: rows of two inputs that have equal keys and times near each other.
//!
//! A row waits on its own side until the watermark says that no partner can come any more. Whichever of two partners comes second
//! finds the first, so every pair is made once, in any order of the inputs; what has waited in vain leaves as an outer row when its
//! time is over, once. Times are compared in whole milliseconds, as watermarks are.
//!
//! Rows are never copied into a map. They stay in the columns they came in (a chunk), and a table from hashes to chains of row
//! numbers finds them; the table holds no keys, so nothing of a key outlives its rows. A batch is hashed once, its candidates are
//! gathered as numbers, thrown out by time, by key and by `condition` as whole arrays, and only what is left is put together.
//!
//! | file | what |
//! |---|---|
//! | `config.rs` | the step's keys |
//! | `names.rs` | what the columns of a joined row are called |
//! | `bind.rs` | its types: a plan |
//! | `plan.rs` | the plan: what is stored, compared, put out |
//! | `equality.rs` | two types of a key as one |
//! | `bounds.rs` | kinds and times: pure |
//! | `chunk.rs` | rows that came together |
//! | `side.rs` | the chunks of an input, their table, and how rows leave |
//! | `tidy.rs` | merging and compacting of chunks |
//! | `operator.rs` | rows in, pairs out, time |
//! | `probe.rs` | pairs found, a bounded number at a time |
//! | `output.rs` | rows put together |
//! | `state.rs` | chunks and marks as pieces of snapshots |

mod bind;
mod bounds;
mod chunk;
mod config;
mod equality;
mod late;
mod names;
mod operator;
mod output;
mod plan;
mod probe;
mod side;
mod state;
mod tidy;

pub(crate) use bounds::{FARTHEST_MS, Which};
pub(crate) use config::{INFO, Pair, pair, renames};
pub(crate) use equality::Form;
pub(crate) use late::{Late, WHERE_LATE};
pub(crate) use names::{Column, Naming};

#[cfg(test)]
mod tests;

//! `aggregate`: aggregates per group over all rows, without windows.
//!
//! The groups that a batch changed are told after it, or less often where `emit` says so, or once, when the input ends. Rows
//! that update each other need their earlier selves taken back, which not every aggregate can: they are kept, and a group that
//! changed is computed anew (`crate::last`).
//!
//! | file | what |
//! |---|---|
//! | `config.rs` | the step's keys, and its types |
//! | `operator.rs` | rows in, groups out |
//! | `groups.rs` | the groups, their aggregates, what waits to be told; sweep and snapshots |

mod config;
mod groups;
mod operator;

pub(crate) use config::INFO;

#[cfg(test)]
mod tests;

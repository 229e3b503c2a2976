//! `lastN`: aggregates over the last rows of every group.
//!
//! A group's rows are ranked from the newest back (`crate::lean::Ranking`), with the values that the aggregates take of them, and
//! a group that has changed is computed anew from its `n`. Rows that update each other are taken too: a row takes the place of the one of
//! equal keys, and comes last. `aggregate` over such rows is the same with no limit to `n`.
//!
//! | file | what |
//! |---|---|
//! | `config.rs` | the step's keys, and its types |
//! | `operator.rs` | rows in, aggregates out |
//! | `plan.rs` | a stage, typed; what of a row is kept |

mod config;
mod operator;
mod plan;

pub(crate) use config::{INFO, Stage, output_schema, per};
pub(crate) use operator::{misfit, rows, with_none};
pub(crate) use plan::Updates;

#[cfg(test)]
mod tests;

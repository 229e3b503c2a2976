//! The conformance kit: contract tests that native connectors and components both pass.
//!
//! A suite plays the engine's part: it plans, opens, kills, replays and commits in the ways that the engine does, and compares what comes of it.
//! Each promise is a [`Rule`] with a stable name; a script that finds one broken ends in a [`Conviction`]. Tests of native connectors call
//! the fronts that fail the test ([`source::source_contract`], [`transform::transform_contract`], [`sink::sink_contract`]);
//! [`plugin::judge`] takes a component, chooses the suites by its world, and makes a [`report::Report`] of the guarantee that it earned.

pub mod plugin;
pub mod report;
pub mod sink;
pub mod source;
pub mod transform;

mod rules;
mod verdict;

pub use rules::{Rule, Suite};
pub use verdict::{Conviction, Judgement, Progress, Verdict};

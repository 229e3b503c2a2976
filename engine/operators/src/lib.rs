//! Inline steps and stateful operators.
//!
//! A step of a pipeline file passes three stages. [`parse_step`] reads its JSON and knows every key; what comes out is a
//! [`StepDef`], which knows nothing of types yet. [`StepDef::bind`] types it against its inputs and gives a [`Bound`]: the
//! output's type, the columns it needs, and a factory. The factory opens one [`Step`](tidegate_api::Step) or
//! [`Operator`](tidegate_api::Operator) per task.
//!
//! Binding is pure and happens twice: once with everything the inputs have, and again after column pruning, with narrower
//! inputs and with the output columns that anybody reads ([`BindCtx::needed`]).
//!
//! Adding a step touches its file, one line of [`STEPS`], and a test; `docs/steps.md` is checked against the list.

mod aggregates;
mod apply_expression;
mod binding;
mod cast;
mod chunked;
mod composite;
mod dedup;
mod drop;
mod expression;
mod filter;
mod fired;
mod join;
mod keys;
mod last;
mod lean;
mod lookup;
mod per_split;
mod projection;
mod rename;
mod sample;
#[cfg(test)]
mod scenario;
mod select;
mod session;
mod step;
mod table;
#[cfg(test)]
mod testing;
mod texts;
mod top;
mod total;
mod union;
mod unnest;
mod when;
mod wide;
mod window;

pub use sample::sample_keys;
pub use step::{BindCtx, Bound, BoundNode, KeyInfo, ParseStep, Required, STEPS, StepDef, StepInfo, StreamType, parse_step};

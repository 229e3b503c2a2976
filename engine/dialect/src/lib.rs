//! The value dialect: the expression language of `filter` and `applyExpression`.
//!
//! [`bind`] parses a text against a schema and types it: an unknown column, a wrong type or a bad arity is a [`Diagnostic`] with
//! its position. The result, [`Typed`], says what the plan wants to know (type, columns read, conditions a source could apply)
//! and compiles to [`Compiled`], which evaluates whole batches.
//!
//! There are two evaluators with one meaning. The reference evaluator (`reference.rs`) takes one row and gives one value; it is
//! the definition. The fast path translates to DataFusion physical expressions over Arrow kernels that check as they go. A
//! row on which an expression fails is a bad row of [`Evaluated`]; it costs itself, never its batch. The fast path carries no
//! error per row: a kernel that meets one gives up the batch, which is then halved until the reference evaluator has named
//! the bad rows. `docs/dialect.md` is the language's manual; tests run every example in it.

mod diagnostic;
mod typed;

pub use diagnostic::Diagnostic;
pub use typed::{Compiled, Equals, Evaluated, Typed, bind};

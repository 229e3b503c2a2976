//! The value dialect: the expression language of `filter` and `applyExpression`.
//!
//! [`bind`] parses a text against a schema and types it: an unknown column, a wrong type or a bad arity is a [`Diagnostic`] with
//! its position. The result, [`Typed`], says what the plan wants to know (type, columns read, conditions a source could apply)
//! and compiles to [`Compiled`], which evaluates whole batches.
//!
//! There are two evaluators with one meaning. The reference evaluator (`reference.rs`) takes one row and gives one value; it is
//! the definition. The fast path (`compile.rs`) translates to DataFusion physical expressions over kernels that check as they
//! go. A row on which an expression fails is a bad row of [`Evaluated`]; it costs itself, never its batch. The fast path
//! carries no error per row: a kernel that meets one gives up the batch, which is then halved until the reference evaluator
//! has named the bad rows.
//!
//! Adding a function touches its own file in `functions/` and one line of the list in `functions.rs`; its examples are its test.
//! `docs/dialect.md` is the language's manual; tests run every example in it.
//!
//! ```
//! use arrow::array::{AsArray, Int64Array, RecordBatch};
//! use arrow::datatypes::{DataType, Field, Int64Type, Schema};
//! use std::sync::Arc;
//! use tidegate_api::EventTime;
//!
//! let schema = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true)]));
//! let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from(vec![6, 0, 3]))])?;
//! let typed = tidegate_dialect::bind("a == 0 ? 0 : 12 % a + a", &schema)?;
//! let found = typed.compile().evaluate(&batch, EventTime(0));
//! assert_eq!(found.values.as_primitive::<Int64Type>().values(), &[6, 0, 3]);
//! assert!(found.bad.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod ast;
mod binder;
mod compile;
mod diagnostic;
mod equals;
mod fold;
mod functions;
mod host;
mod lex;
mod node;
mod numbers;
mod parse;
mod reference;
#[cfg(test)]
mod tests;
mod time;
mod typed;
mod types;
mod value;

pub use diagnostic::Diagnostic;
pub use equals::Equals;
pub use functions::{Function, functions};
pub use host::{Functions, HostFunction, Signature};
pub use typed::{Compiled, Evaluated, Typed, bind};
pub use value::Value;

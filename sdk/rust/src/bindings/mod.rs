//! The bindings of `wit/`, generated once and checked in, so that a plugin's build expands no WIT.
//!
//! One file per world; what the worlds share stands in the first and is used by the others. `tests/bindings.rs` fails when a file is not what
//! the generator makes of `wit/`, and writes it with `UPDATE_BINDINGS=1`. Plugins that want no traits implement these directly.
#![allow(missing_docs, unsafe_code, unreachable_pub, clippy::all, clippy::unwrap_used, reason = "generated code")]

#[rustfmt::skip]
pub mod transform;
#[rustfmt::skip]
pub mod transform_columns;
#[rustfmt::skip]
pub mod source;
#[rustfmt::skip]
pub mod sink;

#[doc(hidden)]
pub use wit_bindgen::rt;

pub use source::tidegate::plugin::secrets;
pub use transform::tidegate::plugin::{control, log, metrics, types};

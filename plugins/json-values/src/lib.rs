//! JSON both ways: what the plugins share that read or write it.
//!
//! Rows become lines of JSON ([`Encoder`]); typed values are taken out of JSON text by paths ([`parse_path`], [`Node`], [`value`]), exactly or not at all.

mod convert;
mod encode;
mod path;
mod tree;

pub use convert::{NotOfItsType, value};
pub use encode::{Encoder, check};
pub use path::{Step, parse as parse_path};
pub use tree::Node;

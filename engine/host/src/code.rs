//! The one place that turns stored machine code back into something callable.
//!
//! # Safety argument
//!
//! `Component::deserialize` executes what it is given, so the bytes must be what this engine serialised itself:
//!
//! - They come from [`crate::cache`] only, a directory of this user's that nobody else may write (0700, files 0600, both owned by
//!   this user; anything else is not read). Who can write there can replace the binary that reads it.
//! - They are read into memory once and checked there, before they are used: format, engine (version, target, flags), the digest of the
//!   component they were compiled from, length, and a SHA-256 over all of it. A torn, truncated or flipped file does not pass.
//! - They never come from a plugin's author: compiled code is a cache and no delivery format, and [`crate::load`] takes components and
//!   modules only.
//!
//! wasmtime checks version and flags once more itself.
#![allow(unsafe_code)]

use crate::cache::Checked;
use wasmtime::Engine;
use wasmtime::component::Component;

/// A component from cached code.
pub(crate) fn component(engine: &Engine, code: &Checked) -> wasmtime::Result<Component> {
    // SAFETY: `Checked` is made by the cache only, after the checks above; see the module's documentation.
    unsafe { Component::deserialize(engine, code.bytes()) }
}

//! The conformance kit: contract tests that native connectors and components both pass.
//!
//! A test hands over a world and gets a panic that names the rule that was broken. What is proved here, the engine relies on: it commits,
//! undoes and begins anew exactly in the ways that the scripts do.

#![allow(clippy::expect_used, reason = "a contract test fails by panicking")]

pub mod sink;

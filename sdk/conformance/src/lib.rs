//! The conformance kit: contract tests that native connectors and components both pass.

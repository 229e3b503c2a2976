//! Inline steps and stateful operators.

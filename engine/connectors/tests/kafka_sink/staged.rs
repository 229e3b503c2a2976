//! Exactly-once.

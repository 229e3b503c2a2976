//! From Kafka through windows back into Kafka, against a real broker: each row once, whatever dies, freezes or is started twice.
//!
//! The judge is a reader of committed records that knows nothing of the engine, and windows recomputed by another program. Brokers are
//! started by `cargo xtask services up kafka`, those that are killed by `cargo xtask test` and `cargo xtask chaos`.
//! `TIDEGATE_CHAOS_KILLS` sets how often the pipeline dies.

#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may end by panicking, and a long one says how far it is")]

mod broker;
mod chaos;
mod cluster;
mod example;
mod pipeline;
mod security;
mod topics;
mod zombies;

//! The Kafka sink against a real broker.
//!
//! `TIDEGATE_TEST_KAFKA` is the `host:port` of one. Tests that stop, freeze or configure a broker are named `kafka_mortal_…` and start
//! their own; `TIDEGATE_TEST_KAFKA_MORTAL` says how, see `mortal`. A `read_committed` consumer is the judge.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

mod cluster;
mod live;
mod registered;
#[path = "../../src/schemas/fake.rs"]
mod registry;
mod staged;

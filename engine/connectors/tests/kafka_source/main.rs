//! The Kafka source against a real broker: `TIDEGATE_TEST_KAFKA=HOST:PORT cargo test -p tidegate-connectors --test kafka_source --
//! --ignored kafka_`. Every test has topics of its own. Tests named `kafka_mortal_…` start, freeze and kill a broker of their own, as
//! `TIDEGATE_TEST_KAFKA_MORTAL` says (`{ "endpoint": …, "program": …, "arguments": […], "log": … }`), one after the other.
//!
//! Tests named after a number are situations that users of stream processors reported; `docs/cases.md` lists them.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

mod formats;
mod gaps;
mod judged;
mod mock;
mod mortal;
mod places;
mod registered;
#[path = "../../src/schemas/fake.rs"]
mod registry;
mod support;
mod topics;
mod wire;

//! For tests of this crate and of those above it: the contract of stores, and a store that fails on demand.

#[allow(clippy::unwrap_used, reason = "a contract test fails by panicking")]
mod contract;
mod faulty;

pub use contract::store_contract;
pub use faulty::{Calls, Fault, FaultPlan, FaultyStore};

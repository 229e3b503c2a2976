//! For tests of this crate and of those above it: the contract of stores, and a store that fails on demand.

mod contract;
mod faulty;

pub use contract::store_contract;
pub use faulty::{Calls, Fault, FaultPlan, FaultyStore};

//! Builds plugins: finds a Rust for wasm, chooses one of four ways to build, and packs core modules into components.
//!
//! [`Package::read`] reads what a crate says of itself, [`Machine::look`] what the machine has, [`choose`] decides, [`Choice::build`] builds.
//! `cargo xtask guests` uses the parts below that: a [`Toolchain`] and [`pack`]. Nothing here installs anything; what is missing is said.

mod choice;
mod error;
mod package;
mod packing;
mod toolchain;

pub use choice::{Choice, Machine, Way, choose};
pub use error::{Error, Result};
pub use package::{Kind, Package};
pub use packing::pack;
pub use toolchain::{DEBIAN_PACKAGES, Debian, Toolchain, installed};

//! The `kafka` connector.

mod client;

//! The `table` source: what it hands over is what the database has, after every reading, whatever breaks off in between.
//!
//! SQLite is tested wherever tests run; PostgreSQL with `TIDEGATE_TEST_POSTGRES=URL cargo test -p tidegate-connectors --test table_source
//! -- --ignored postgres_`.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

mod away;
mod follow;
mod postgres;
mod refused;
mod support;
mod types;

//! The step against an oracle that reads the whole input row by row.

mod behaviour;
mod config;
mod properties;

//! The step against an oracle that sorts the whole input.

mod behaviour;
mod cases;
mod config;
mod oracle;
mod properties;

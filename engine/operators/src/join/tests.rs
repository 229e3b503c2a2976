//! The join step against an oracle that compares every left row with every right one.

mod behaviour;
mod binding;
mod cases;
mod columns;
mod config;
mod harness;
mod oracle;
mod properties;
mod state;

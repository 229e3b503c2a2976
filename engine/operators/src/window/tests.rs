//! The window step against an oracle that knows nothing of panes.

mod behaviour;
mod cases;
mod config;
pub(crate) mod harness;
pub(crate) mod oracle;
mod properties;
mod time_cases;
mod updates;

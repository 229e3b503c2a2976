//! The window step against an oracle that knows nothing of panes.

mod behaviour;
mod cases;
mod config;
mod harness;
mod oracle;
mod properties;
mod scenario;

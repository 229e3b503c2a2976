//! The session step against an oracle that knows nothing of slots.

mod behaviour;
mod oracle;
mod properties;
mod updates;

//! Schema registries that speak Confluent's API: what messages were written with, by the id before them.
//!
//! A [`Registry`] is shared by the tasks of a dataset. What it has learned it keeps, since an id means the same schema for ever; whom it
//! cannot reach it asks again, with pauses, until a budget is spent. `docs/design/0009-schema-registry.md` has who does what when
//! something fails.

mod config;
mod http;
mod json_schema;
mod known;
mod latest;
mod registry;
mod written;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod real_tests;
#[cfg(test)]
mod tests;

pub(crate) use config::{Half, REGISTRY_DOC, RegistryConfig, SECRET};
pub(crate) use json_schema::schema_of as json_schema_of;
pub(crate) use latest::{Latest, latest, pinned};
pub(crate) use registry::{Registry, Schema};

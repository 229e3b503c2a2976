//! What the pipeline file says: `config = { dir = "/out" }`.

use serde::Deserialize;
use std::path::PathBuf;

/// The configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Config {
    /// The directory to write into, as the guest sees it.
    pub(crate) dir: PathBuf,
}

/// The JSON Schema of the configuration.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["dir"],
  "properties": {
    "dir": { "type": "string", "description": "the directory to write into, as the plugin sees it: what a grant of dirs names, or a folder in it" }
  }
}"#;

/// What `plugin inspect` shows.
pub(crate) const MANIFEST: &str = r#"{"description": "newline JSON in a directory, exactly once", "grants": {"dirs": ["HOST=/out:rw"]}}"#;

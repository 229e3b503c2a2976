//! What the pipeline file says: `config = { columns = ["tailnum"], mode = "hash", salt = "…" }`.

use serde::Deserialize;
use tidegate_sdk::{Error, Result};

/// The configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Config {
    /// The columns to mask.
    pub(crate) columns: Vec<String>,
    /// How.
    #[serde(default)]
    pub(crate) mode: Mode,
    /// Goes before each value into its hash, so that nobody without it can hash a list of guesses and compare.
    #[serde(default)]
    pub(crate) salt: Option<String>,
}

/// What becomes of a value. A null stays null in both.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Mode {
    /// The first 32 hexadecimal digits of its SHA-256.
    #[default]
    Hash,
    /// A constant.
    Redact,
}

impl Config {
    /// What the types cannot say.
    pub(crate) fn check(&self) -> Result<()> {
        if self.columns.is_empty() {
            return Err(Error::config("`columns` is empty; name the columns to mask"));
        }
        for (index, name) in self.columns.iter().enumerate() {
            if self.columns[..index].contains(name) {
                return Err(Error::config(format!("`columns` names `{name}` twice")));
            }
        }
        if self.mode == Mode::Redact && self.salt.is_some() {
            return Err(Error::config("`salt` is for `mode = \"hash\"`; a redacted value is a constant"));
        }
        Ok(())
    }
}

/// The JSON Schema of the configuration.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["columns"],
  "properties": {
    "columns": { "type": "array", "minItems": 1, "uniqueItems": true, "items": { "type": "string" }, "description": "the text columns to mask" },
    "mode": { "enum": ["hash", "redact"], "default": "hash", "description": "hash: 32 hexadecimal digits of SHA-256; redact: [redacted]" },
    "salt": { "type": "string", "description": "goes before each value into its hash" }
  }
}"#;

/// What `plugin inspect` shows.
pub(crate) const MANIFEST: &str = r#"{"description": "hashes or redacts text columns", "grants": {}}"#;

//! What the pipeline file says: `config = { column = "origin", table = "${file:airports.csv}", add = ["lat", "lon"] }`.

use serde::Deserialize;
use tidegate_sdk::{Error, Result};

/// The configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Config {
    /// The column of codes.
    pub(crate) column: String,
    /// The table: CSV text with a header.
    pub(crate) table: String,
    /// The table's column of codes.
    #[serde(default = "default_key")]
    pub(crate) key: String,
    /// The table's columns to add.
    pub(crate) add: Vec<String>,
    /// Put before the name of every added column.
    #[serde(default)]
    pub(crate) prefix: String,
    /// Texts in the table that mean that there is no value.
    #[serde(default)]
    pub(crate) nulls: Vec<String>,
    /// What becomes of a row whose code the table does not have.
    #[serde(default)]
    pub(crate) on_unknown: OnUnknown,
}

/// What becomes of a row whose code the table does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OnUnknown {
    /// Its added columns are null.
    #[default]
    Null,
    /// It is a bad row.
    Bad,
}

fn default_key() -> String {
    "iata".into()
}

impl Config {
    /// What the types cannot say.
    pub(crate) fn check(&self) -> Result<()> {
        if self.add.is_empty() {
            return Err(Error::config("`add` is empty; name the columns of the table to add"));
        }
        for (index, name) in self.add.iter().enumerate() {
            if self.add[..index].contains(name) {
                return Err(Error::config(format!("`add` names `{name}` twice")));
            }
        }
        Ok(())
    }
}

/// The JSON Schema of the configuration.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["column", "table", "add"],
  "properties": {
    "column": { "type": "string", "description": "the column of codes" },
    "table": { "type": "string", "description": "the table as CSV text with a header: ${file:airports.csv}" },
    "key": { "type": "string", "default": "iata", "description": "the table's column of codes" },
    "add": { "type": "array", "minItems": 1, "uniqueItems": true, "items": { "type": "string" }, "description": "the table's columns to add" },
    "prefix": { "type": "string", "default": "", "description": "put before the name of every added column" },
    "nulls": { "type": "array", "items": { "type": "string" }, "default": [], "description": "texts in the table that mean that there is no value" },
    "onUnknown": { "enum": ["null", "bad"], "default": "null", "description": "a code that the table does not have: nulls, or a bad row" }
  }
}"#;

/// What `plugin inspect` shows.
pub(crate) const MANIFEST: &str = r#"{"description": "puts columns of a table beside the code that names its rows", "grants": {}}"#;

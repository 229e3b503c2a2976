//! What the pipeline file says: `config = { dir = "/in", columns = [{ name = "delay", type = "int64" }], watch = true }`.

use serde::Deserialize;
use std::path::PathBuf;
use text_values::ValueType;
use tidegate_sdk::{Error, Result, hint};

/// The configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Config {
    /// The directory, as the guest sees it.
    pub(crate) dir: PathBuf,
    /// The columns to read.
    pub(crate) columns: Vec<Column>,
    /// Whether files that come later are read too.
    #[serde(default)]
    pub(crate) watch: bool,
    /// The column of instants that every file is in order of.
    #[serde(default)]
    pub(crate) time_column: Option<String>,
    /// What stands between fields.
    #[serde(default = "default_delimiter")]
    pub(crate) delimiter: char,
    /// Texts that mean that there is no value.
    #[serde(default)]
    pub(crate) nulls: Vec<String>,
}

/// A column.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    /// Its name, in the files' headers and in the output.
    pub(crate) name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub(crate) value_type: ValueType,
}

fn default_delimiter() -> char {
    ','
}

impl Config {
    /// What the types cannot say.
    pub(crate) fn check(&self) -> Result<()> {
        if self.columns.is_empty() {
            return Err(Error::config("`columns` is empty; name the columns to read"));
        }
        for (index, column) in self.columns.iter().enumerate() {
            if self.columns[..index].iter().any(|other| other.name == column.name) {
                return Err(Error::config(format!("`columns` has the name `{}` twice", column.name)));
            }
        }
        if let Some(name) = &self.time_column {
            let Some(column) = self.columns.iter().find(|column| column.name == *name) else {
                let near = hint(name, self.columns.iter().map(|column| column.name.as_str()));
                return Err(Error::config(format!("`timeColumn` names `{name}`, which `columns` does not have{near}")));
            };
            if column.value_type != ValueType::TimestampMs {
                return Err(Error::config(format!(
                    "`timeColumn` names `{name}`, which is {}, and timestamp_ms is wanted",
                    column.value_type
                )));
            }
        }
        if !self.delimiter.is_ascii() || matches!(self.delimiter, '"' | '\r' | '\n' | '\0') {
            return Err(Error::config(format!(
                "`delimiter` is {:?}; one ASCII character is wanted, no quote and no line end",
                self.delimiter
            )));
        }
        Ok(())
    }
}

/// The JSON Schema of the configuration.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["dir", "columns"],
  "properties": {
    "dir": { "type": "string", "description": "the directory of the files, as the plugin sees it: what a grant of dirs names, or a folder in it" },
    "columns": {
      "type": "array",
      "minItems": 1,
      "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "type"],
        "properties": {
          "name": { "type": "string", "description": "as the headers of the files have it" },
          "type": { "enum": ["int64", "float64", "bool", "string", "timestamp_ms"] }
        }
      }
    },
    "watch": { "type": "boolean", "default": false, "description": "whether files that come later are read too; without it the input ends" },
    "timeColumn": { "type": "string", "description": "the timestamp_ms column that every file is in order of: gives watermarks" },
    "delimiter": { "type": "string", "minLength": 1, "maxLength": 1, "default": ",", "description": "what stands between fields" },
    "nulls": { "type": "array", "items": { "type": "string" }, "default": [], "description": "texts that mean that there is no value, as NA" }
  }
}"#;

/// What `plugin inspect` shows.
pub(crate) const MANIFEST: &str =
    r#"{"description": "the CSV files of a directory, replayable from any record", "grants": {"dirs": ["HOST=/in"]}}"#;

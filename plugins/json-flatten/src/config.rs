//! What the pipeline file says: `config = { column = "payload", fields = [{ path = "user.id", name = "user", type = "int64" }] }`.

use json_values::{Step, parse_path};
use serde::Deserialize;
use text_values::ValueType;
use tidegate_sdk::{Error, Result};

/// The configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Config {
    /// The column of JSON text.
    pub(crate) column: String,
    /// What to take out of it.
    pub(crate) fields: Vec<Field>,
    /// Put before the name of every field.
    #[serde(default)]
    pub(crate) prefix: String,
    /// What becomes of text that is no JSON, and of values that are not of their field's type.
    #[serde(default)]
    pub(crate) on_error: OnError,
}

/// A column to make.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Field {
    /// Where its value stands.
    pub(crate) path: String,
    /// Its name, without the prefix.
    pub(crate) name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub(crate) value_type: ValueType,
}

/// What becomes of a value that cannot be had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OnError {
    /// A null.
    #[default]
    Null,
    /// Its row is a bad row.
    Bad,
}

impl Config {
    /// The name of a field's column.
    pub(crate) fn column_name(&self, field: &Field) -> String {
        format!("{}{}", self.prefix, field.name)
    }

    /// The paths of all fields.
    pub(crate) fn paths(&self) -> Result<Vec<Vec<Step>>> {
        self.fields.iter().map(|field| parse_path(&field.path)).collect()
    }

    /// What the types cannot say.
    pub(crate) fn check(&self) -> Result<()> {
        if self.fields.is_empty() {
            return Err(Error::config("`fields` is empty; name what to take out of the JSON"));
        }
        self.paths()?;
        for (index, field) in self.fields.iter().enumerate() {
            if self.column_name(field).is_empty() {
                return Err(Error::config(format!("the field with the path `{}` has an empty name", field.path)));
            }
            if self.fields[..index].iter().any(|other| other.name == field.name) {
                return Err(Error::config(format!("`fields` has the name `{}` twice", field.name)));
            }
        }
        Ok(())
    }
}

/// The JSON Schema of the configuration.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["column", "fields"],
  "properties": {
    "column": { "type": "string", "description": "the column of JSON text" },
    "fields": {
      "type": "array",
      "minItems": 1,
      "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["path", "name", "type"],
        "properties": {
          "path": { "type": "string", "description": "where the value stands: a.b[0].c; a name with other characters is written [\"a.b\"]" },
          "name": { "type": "string", "description": "the name of its column" },
          "type": { "enum": ["int64", "float64", "bool", "string", "timestamp_ms"] }
        }
      }
    },
    "prefix": { "type": "string", "default": "", "description": "put before the name of every field" },
    "onError": { "enum": ["null", "bad"], "default": "null", "description": "what is no JSON, or not of its type: null, or a bad row" }
  }
}"#;

/// What `plugin inspect` shows.
pub(crate) const MANIFEST: &str = r#"{"description": "turns a column of JSON text into typed columns by paths", "grants": {}}"#;

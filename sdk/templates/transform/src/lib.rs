//! Adds a column with the cents of an amount that is written as text: `12.50` gives 1250.
//!
//! `bind` says which columns are read and made, `process` makes them. A text that is no amount
//! costs its own row, with a reason, and no other.

use serde::Deserialize;
use std::sync::Arc;
use tidegate_sdk::arrow::array::{RecordBatch, builder::Int64Builder, cast::AsArray};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidegate_sdk::{
    Error, Info, Processed, Result, RowError, Scope, Transform, TransformPlan, export_transform,
};

/// `config = { column = "price", output = "cents" }` in the pipeline file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    column: String,
    #[serde(default = "cents_column")]
    output: String,
}

fn cents_column() -> String {
    "cents".into()
}

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["column"],
  "properties": {
    "column": { "type": "string", "description": "the text column with the amounts" },
    "output": { "type": "string", "default": "cents", "description": "the column to add" }
  }
}"#;

const MANIFEST: &str = r#"{"description": "adds the cents of an amount written as text"}"#;

struct Cents {
    column: String,
    output: SchemaRef,
}

impl Transform for Cents {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .with_config_schema(SCHEMA)
            .with_manifest(MANIFEST)
    }

    /// Called while planning. Only the column named here crosses into the plugin; the host carries
    /// the others past it.
    fn bind(config: &Config, input: &Schema) -> Result<TransformPlan> {
        let plan = TransformPlan::rowwise(output(config));
        let plan = plan.reading(input, [config.column.as_str()])?;
        match input.field_with_name(&config.column)?.data_type() {
            DataType::Utf8 => Ok(plan),
            other => Err(Error::config(format!(
                "column `{}` is {other}; only text is read as an amount",
                config.column
            ))),
        }
    }

    /// Called once per task.
    fn open(config: Config, _: &Scope, _: &SchemaRef) -> Result<Self> {
        Ok(Cents {
            output: Arc::new(output(&config)),
            column: config.column,
        })
    }

    /// Called for every batch. Row i that goes in is row i that comes out.
    fn process(&mut self, rows: &RecordBatch) -> Result<Processed> {
        let mut made = Int64Builder::with_capacity(rows.num_rows());
        let mut bad = Vec::new();
        for (row, text) in rows.column(0).as_string::<i32>().iter().enumerate() {
            let cents = text.map(cents);
            if cents == Some(None) {
                let text = text.unwrap_or_default();
                bad.push(RowError {
                    row: row as u64,
                    column: Some(self.column.clone()),
                    message: format!("`{text}` is no amount such as `12.50`"),
                });
            }
            made.append_option(cents.flatten());
        }
        let rows = RecordBatch::try_new(Arc::clone(&self.output), vec![Arc::new(made.finish())])?;
        Ok(Processed {
            rows: vec![rows],
            bad,
        })
    }
}

fn output(config: &Config) -> Schema {
    Schema::new(vec![Field::new(&config.output, DataType::Int64, true)])
}

/// Digits, and if there is a point two more behind it.
fn cents(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "00"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() != 2 {
        return None;
    }
    whole
        .parse::<i64>()
        .ok()?
        .checked_mul(100)?
        .checked_add(part.parse().ok()?)
}

export_transform!(Cents);

#[cfg(test)]
mod tests;

//! A whole plugin: adds an exclamation mark to every value of one text column.

use serde::Deserialize;
use std::sync::Arc;
use tidegate_sdk::arrow::array::{RecordBatch, StringArray, cast::AsArray};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidegate_sdk::{Error, Info, Processed, Result, Scope, Transform, TransformPlan, export_transform};

/// `config = { column = "name" }` in the pipeline file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    column: String,
}

struct Shout {
    output: SchemaRef,
}

impl Transform for Shout {
    type Config = Config;

    fn info() -> Info {
        Info::new("shout", "1.0.0")
    }

    /// Called while planning: says which columns cross into the plugin and what comes back. Every other column stays with the host.
    fn bind(config: &Config, input: &Schema) -> Result<TransformPlan> {
        let plan = TransformPlan::rowwise(output(&config.column)).reading(input, [config.column.as_str()])?;
        match input.field_with_name(&config.column)?.data_type() {
            DataType::Utf8 => Ok(plan),
            other => Err(Error::config(format!("column `{}` is {other}; only text can be shouted", config.column))),
        }
    }

    /// Called once per task. `input` has the one column that `bind` asked for.
    fn open(config: Config, _: &Scope, _: &SchemaRef) -> Result<Self> {
        Ok(Shout { output: Arc::new(output(&config.column)) })
    }

    /// Called for every batch.
    fn process(&mut self, rows: &RecordBatch) -> Result<Processed> {
        let names = rows.column(0).as_string::<i32>();
        let louder: StringArray = names.iter().map(|name| name.map(|name| format!("{name}!"))).collect();
        Ok(RecordBatch::try_new(Arc::clone(&self.output), vec![Arc::new(louder)])?.into())
    }
}

/// The column that comes back has the name of the one that went in, so it takes its place.
fn output(column: &str) -> Schema {
    Schema::new(vec![Field::new(column, DataType::Utf8, true)])
}

export_transform!(Shout);

/// An example is a program; a plugin is a library (`crate-type = ["cdylib"]`) and has no `main`.
fn main() {}

//! `json-flatten`: a transform that makes typed columns of a column of JSON text.
//!
//! Only the text crosses into it; every column of the input, the text among them, stays with the host. It is row-wise and deterministic. A value that is missing is a
//! null; what becomes of a wrong one is for the configuration to say.

mod config;

#[cfg(test)]
mod tests;

use config::{Config, OnError};
use json_values::Node;
use std::sync::Arc;
use text_values::{ColumnBuilder, Value, quoted};
use tidegate_sdk::arrow::array::{Array, ArrayRef, GenericStringArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions, cast::AsArray};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidegate_sdk::{Error, Info, Processed, Result, RowError, Scope, Transform, TransformPlan, export_transform, hint, metrics};

/// Counts the values that are null because they were not what they should be.
const UNREADABLE: &str = "unreadable";

/// The opened transform.
struct JsonFlatten {
    config: Config,
    output: SchemaRef,
    tree: Node,
}

impl Transform for JsonFlatten {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_config_schema(config::SCHEMA).with_manifest(config::MANIFEST)
    }

    fn bind(config: &Config, input: &Schema) -> Result<TransformPlan> {
        config.check()?;
        let plan = TransformPlan::rowwise(output(config)).reading(input, [config.column.as_str()])?;
        check_text(config, input)?;
        for field in &config.fields {
            let name = config.column_name(field);
            if name != config.column && input.column_with_name(&name).is_some() {
                return Err(Error::config(format!(
                    "the input has a column `{name}` already; give the field another name, or set `prefix`"
                )));
            }
        }
        Ok(plan)
    }

    fn open(config: Config, _: &Scope, input: &SchemaRef) -> Result<Self> {
        config.check()?;
        check_text(&config, input)?;
        Ok(JsonFlatten { output: Arc::new(output(&config)), tree: Node::new(&config.paths()?), config })
    }

    fn process(&mut self, rows: &RecordBatch) -> Result<Processed> {
        let text = rows.column(0);
        match text.data_type() {
            DataType::LargeUtf8 => self.flatten(text.as_string::<i64>()),
            _ => self.flatten(text.as_string::<i32>()),
        }
    }
}

/// The columns that are made.
fn output(config: &Config) -> Schema {
    let fields = config.fields.iter().map(|field| Field::new(config.column_name(field), field.value_type.data_type(), true));
    Schema::new(fields.collect::<Vec<_>>())
}

fn check_text(config: &Config, input: &Schema) -> Result<()> {
    let name = &config.column;
    let Some((_, field)) = input.column_with_name(name) else {
        let near = hint(name, input.fields().iter().map(|field| field.name().as_str()));
        return Err(Error::config(format!("the input has no column `{name}`{near}")));
    };
    match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => Ok(()),
        other => Err(Error::config(format!("column `{name}` is {other}, and JSON is text; `cast` it to string before"))),
    }
}

impl JsonFlatten {
    fn flatten<O: OffsetSizeTrait>(&self, texts: &GenericStringArray<O>) -> Result<Processed> {
        let fields = &self.config.fields;
        let mut columns: Vec<ColumnBuilder> = fields.iter().map(|field| ColumnBuilder::new(field.value_type, texts.len())).collect();
        let mut found = vec![None; fields.len()];
        let mut bad = Vec::new();
        let mut unreadable = 0;
        for row in 0..texts.len() {
            // The first complaint about the row, if there is one: the column at fault and why.
            let mut complaint: Option<(&str, String)> = None;
            if texts.is_null(row) {
                found.fill(None);
            } else if let Err(error) = self.tree.find(texts.value(row), &mut found) {
                found.fill(None);
                unreadable += 1;
                complaint = Some((&self.config.column, format!("{} is no JSON: {error}", quoted(texts.value(row)))));
            }
            for ((field, json), column) in fields.iter().zip(&found).zip(&mut columns) {
                let value: Option<Value<'_>> = match json.map(|json| (json, json_values::value(field.value_type, json))) {
                    None => None,
                    Some((_, Ok(value))) => value,
                    Some((json, Err(_))) => {
                        unreadable += 1;
                        let why = || format!("`{}` is {}, which is no {}", field.path, quoted(json), field.value_type);
                        complaint.get_or_insert_with(|| (&self.config.column, why()));
                        None
                    }
                };
                column.append(value);
            }
            if let (OnError::Bad, Some((column, message))) = (self.config.on_error, complaint) {
                bad.push(RowError { row: row as u64, column: Some(column.to_owned()), message });
            }
        }
        if unreadable > 0 && self.config.on_error == OnError::Null {
            metrics::count(UNREADABLE, unreadable);
        }
        let columns: Vec<ArrayRef> = columns.into_iter().map(ColumnBuilder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(texts.len()));
        Ok(Processed { rows: vec![RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)?], bad })
    }
}

export_transform!(JsonFlatten);

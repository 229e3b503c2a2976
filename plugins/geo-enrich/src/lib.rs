//! `geo-enrich`: a transform that puts columns of a table beside the code that names its rows: an airport's place beside its code.
//!
//! The table comes whole with the configuration and stays in memory; only the column of codes crosses. It is row-wise and deterministic.

mod config;
mod table;

#[cfg(test)]
mod tests;

use config::{Config, OnUnknown};
use std::sync::Arc;
use table::Table;
use text_values::quoted;
use tidegate_sdk::arrow::array::{
    Array, ArrayRef, GenericStringArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions, UInt32Array, cast::AsArray,
};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidegate_sdk::arrow::select::take::take;
use tidegate_sdk::{Error, Info, Processed, Result, RowError, Scope, Transform, TransformPlan, export_transform, hint, metrics};

/// Counts the codes that the table does not have.
const UNKNOWN: &str = "unknown_codes";

/// The opened transform.
struct GeoEnrich {
    config: Config,
    table: Table,
    output: SchemaRef,
}

impl Transform for GeoEnrich {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_config_schema(config::SCHEMA).with_manifest(config::MANIFEST)
    }

    fn bind(config: &Config, input: &Schema) -> Result<TransformPlan> {
        config.check()?;
        check_codes(config, input)?;
        let output = output(config, &Table::read(config)?);
        if let Some(field) = output.fields().iter().find(|field| input.column_with_name(field.name()).is_some()) {
            return Err(Error::config(format!("the input has a column `{}` already; set `prefix`", field.name())));
        }
        TransformPlan::rowwise(output).reading(input, [config.column.as_str()])
    }

    fn open(config: Config, _: &Scope, input: &SchemaRef) -> Result<Self> {
        config.check()?;
        check_codes(&config, input)?;
        let table = Table::read(&config)?;
        Ok(GeoEnrich { output: Arc::new(output(&config, &table)), table, config })
    }

    fn process(&mut self, rows: &RecordBatch) -> Result<Processed> {
        let codes = rows.column(0);
        match codes.data_type() {
            DataType::LargeUtf8 => self.enrich(codes.as_string::<i64>()),
            _ => self.enrich(codes.as_string::<i32>()),
        }
    }
}

/// The columns that are made.
fn output(config: &Config, table: &Table) -> Schema {
    let named = config.add.iter().zip(&table.columns);
    let fields = named.map(|(name, column)| Field::new(format!("{}{name}", config.prefix), column.data_type().clone(), true));
    Schema::new(fields.collect::<Vec<_>>())
}

fn check_codes(config: &Config, input: &Schema) -> Result<()> {
    let name = &config.column;
    let Some((_, field)) = input.column_with_name(name) else {
        let near = hint(name, input.fields().iter().map(|field| field.name().as_str()));
        return Err(Error::config(format!("the input has no column `{name}`{near}")));
    };
    match field.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => Ok(()),
        other => Err(Error::config(format!("column `{name}` is {other}, and a code is text; `cast` it to string before"))),
    }
}

impl GeoEnrich {
    fn enrich<O: OffsetSizeTrait>(&self, codes: &GenericStringArray<O>) -> Result<Processed> {
        let places: UInt32Array = codes.iter().map(|code| code.and_then(|code| self.table.row(code))).collect();
        let unknown = (0..codes.len()).filter(|row| codes.is_valid(*row) && places.is_null(*row));
        let mut bad = Vec::new();
        match self.config.on_unknown {
            OnUnknown::Null => match unknown.count() {
                0 => {}
                count => metrics::count(UNKNOWN, count as u64),
            },
            OnUnknown::Bad => {
                for row in unknown {
                    let message = format!("the table has no `{}` {}", self.config.key, quoted(codes.value(row)));
                    bad.push(RowError { row: row as u64, column: Some(self.config.column.clone()), message });
                }
            }
        }
        let columns: Vec<ArrayRef> = self.table.columns.iter().map(|column| take(column, &places, None)).collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(codes.len()));
        Ok(Processed { rows: vec![RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)?], bad })
    }
}

export_transform!(GeoEnrich);

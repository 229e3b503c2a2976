//! Two light steps over Nexmark bids: a column that is added, and a filter. What they compute costs next to nothing, so a benchmark
//! that runs them beside the native steps of the same meaning measures the border.

use serde::Deserialize;
use std::sync::Arc;
use tidegate_sdk::arrow::array::types::Int64Type;
use tidegate_sdk::arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, cast::AsArray};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidegate_sdk::{Info, Processed, Result, Scope, Transform, TransformPlan, export_transform};

/// What to do.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    /// `dollars = price * 908 / 1000`.
    Add,
    /// Keeps bids for every 123rd auction.
    Filter,
}

/// The configuration.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    kind: Kind,
}

struct Bids {
    kind: Kind,
    output: SchemaRef,
}

fn output(kind: Kind) -> Schema {
    Schema::new(vec![match kind {
        Kind::Add => Field::new("dollars", DataType::Int64, true),
        Kind::Filter => Field::new("keep", DataType::Boolean, false),
    }])
}

impl Transform for Bids {
    type Config = Config;

    fn info() -> Info {
        Info::new("bids", env!("CARGO_PKG_VERSION"))
    }

    fn bind(config: &Config, input: &Schema) -> Result<TransformPlan> {
        match config.kind {
            Kind::Add => TransformPlan::rowwise(output(config.kind)).reading(input, ["price"]),
            Kind::Filter => TransformPlan::filter(output(config.kind)).reading(input, ["auction"]),
        }
    }

    fn open(config: Config, _: &Scope, _: &SchemaRef) -> Result<Self> {
        Ok(Bids { kind: config.kind, output: Arc::new(output(config.kind)) })
    }

    fn process(&mut self, rows: &RecordBatch) -> Result<Processed> {
        let numbers = rows.column(0).as_primitive::<Int64Type>();
        let made: ArrayRef = match self.kind {
            Kind::Add => Arc::new(numbers.unary::<_, Int64Type>(|price| price.wrapping_mul(908) / 1000) as Int64Array),
            Kind::Filter => Arc::new(BooleanArray::from_unary(numbers, |auction| auction % 123 == 0)),
        };
        Ok(RecordBatch::try_new(Arc::clone(&self.output), vec![made])?.into())
    }
}

export_transform!(Bids);

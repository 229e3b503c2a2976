//! `mask-pii`: a transform that hashes or redacts declared text columns.
//!
//! Only these columns cross into it; all others stay with the host. It is row-wise and deterministic: equal values under an equal salt become equal hashes, in
//! every run and on every machine, so that masked columns can still be grouped and joined by.

mod config;
mod mask;
mod plan;

#[cfg(test)]
mod tests;

use config::Config;
use mask::Masker;
use std::sync::Arc;
use tidegate_sdk::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use tidegate_sdk::arrow::schema::{Schema, SchemaRef};
use tidegate_sdk::{Info, Processed, Result, Scope, Transform, TransformPlan, export_transform};

/// The opened transform: a masker for every column that crosses.
struct MaskPii {
    output: SchemaRef,
    maskers: Vec<Masker>,
}

impl Transform for MaskPii {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")).with_config_schema(config::SCHEMA).with_manifest(config::MANIFEST)
    }

    fn bind(config: &Config, input: &Schema) -> Result<TransformPlan> {
        config.check()?;
        let output = plan::output(config, input)?;
        TransformPlan::rowwise(output).reading(input, config.columns.iter().map(String::as_str))
    }

    fn open(config: Config, _: &Scope, input: &SchemaRef) -> Result<Self> {
        config.check()?;
        let output = Arc::new(plan::output(&config, input)?);
        let maskers = config.columns.iter().map(|_| Masker::new(config.mode, config.salt.as_deref())).collect();
        Ok(MaskPii { output, maskers })
    }

    fn process(&mut self, rows: &RecordBatch) -> Result<Processed> {
        let columns: Vec<ArrayRef> = rows.columns().iter().zip(&mut self.maskers).map(|(column, masker)| masker.mask(column)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options)?.into())
    }
}

export_transform!(MaskPii);

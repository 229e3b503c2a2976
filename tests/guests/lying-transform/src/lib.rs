//! `lying-transform`: a transform that breaks one promise, `lie`, and keeps the others. Without a lie it is honest.
//!
//! It reads the first column, 64-bit integers, and makes `made`: the number, wrapped, plus one.

use serde::Deserialize;
use std::sync::Arc;
use tidegate_sdk::arrow::array::{Array, Int64Array, RecordBatch};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidegate_sdk::{Error, Info, Processed, Result, Scope, Transform, TransformPlan, export_transform};

/// What is done wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Lie {
    /// A row becomes something else in another batch.
    BatchCuts,
    /// A counter over all batches is part of every row.
    Counter,
    /// Rows come back in another order than they went in.
    RowMapping,
    /// The least number is more than it can take.
    Traps,
    /// Every batch keeps some memory.
    Leaks,
    /// A wrong type in the configuration makes it panic.
    Hostile,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    #[serde(default)]
    lie: Option<Lie>,
    #[serde(default)]
    step: Step,
}

/// How much is added. Any value is read as one, so that the mistake is this plugin's own.
#[derive(Debug, Clone, Copy)]
struct Step(Option<i64>);

impl Default for Step {
    fn default() -> Self {
        Step(Some(1))
    }
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Any {
            Number(i64),
            Other(serde::de::IgnoredAny),
        }
        Ok(Step(match Any::deserialize(deserializer)? {
            Any::Number(number) => Some(number),
            Any::Other(_) => None,
        }))
    }
}

impl Config {
    fn step(&self) -> Result<i64> {
        match self.step.0 {
            Some(step) => Ok(step),
            None if self.lie == Some(Lie::Hostile) => panic!("the step is no number"),
            None => Err(Error::config("`step` is no integer")),
        }
    }
}

struct Lying {
    config: Config,
    step: i64,
    output: SchemaRef,
    seen: i64,
    kept: Vec<Vec<u8>>,
}

fn output() -> Schema {
    Schema::new(vec![Field::new("made", DataType::Int64, true)])
}

impl Transform for Lying {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
    }

    fn bind(config: &Config, input: &Schema) -> Result<TransformPlan> {
        config.step()?;
        let first = input.fields().first().filter(|field| *field.data_type() == DataType::Int64);
        let first = first.ok_or_else(|| Error::config("the first column must be int64"))?;
        TransformPlan::rowwise(output()).reading(input, [first.name().as_str()])
    }

    fn open(config: Config, _: &Scope, _: &SchemaRef) -> Result<Self> {
        let step = config.step()?;
        Ok(Lying { config, step, output: Arc::new(output()), seen: 0, kept: Vec::new() })
    }

    fn process(&mut self, rows: &RecordBatch) -> Result<Processed> {
        let column = rows.column(0).as_any().downcast_ref::<Int64Array>().ok_or_else(|| Error::fatal("the column has changed"))?;
        let mut made: Vec<Option<i64>> = column.iter().map(|value| value.map(|value| value.wrapping_add(self.step))).collect();
        match self.config.lie {
            Some(Lie::BatchCuts) => {
                let count = column.len() as i64;
                made.iter_mut().flatten().for_each(|value| *value = value.wrapping_add(count));
            }
            Some(Lie::Counter) => {
                for value in made.iter_mut().flatten() {
                    self.seen += 1;
                    *value = value.wrapping_add(self.seen);
                }
            }
            Some(Lie::RowMapping) => made.reverse(),
            Some(Lie::Traps) => assert!(column.iter().flatten().all(|value| value != i64::MIN), "too small"),
            Some(Lie::Leaks) => self.kept.push(vec![self.kept.len() as u8; 1 << 10]),
            Some(Lie::Hostile) | None => {}
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.output), vec![Arc::new(Int64Array::from(made))])?.into())
    }
}

export_transform!(Lying);

//! The suites of sources and steps, judged themselves: honest ones pass, and mistakes are found by their rule.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use std::sync::Arc;
use tidegate_api::testkit::{Script, ScriptedSource};
use tidegate_api::{EventTime, InlineSource, Output, Result, Step, StepCtx, StepFactory};
use tidegate_conformance::source::{SourceOptions, SourceWorld, source_contract};
use tidegate_conformance::transform::{BoundStep, TransformWorld, judge, transform_contract};
use tidegate_conformance::{Conviction, Rule};

fn numbers(values: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_from_iter([
        ("n", Arc::new(Int64Array::from_iter_values(values.clone())) as ArrayRef),
        ("m", Arc::new(Int64Array::from_iter_values(values.map(|value| value * 3))) as ArrayRef),
    ])
    .unwrap()
}

#[test]
fn a_scripted_source_passes() {
    let world = SourceWorld::new(|| {
        let scripts = vec![
            Script::new("a", vec![numbers(0..50), numbers(50..53)]),
            Script::new("b", vec![numbers(100..131)]),
            Script::new("c", vec![]),
        ];
        Ok(Arc::new(ScriptedSource::new(numbers(0..1).schema(), scripts)) as Arc<dyn InlineSource>)
    });
    source_contract(&world, &SourceOptions::default());
}

/// Keeps even numbers and halves them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Halve {
    Honest,
    /// Loses its first row.
    Loses,
    /// Makes a row of none.
    MakesUp,
    /// Fails on nulls.
    HatesNulls,
}

struct Factory(Halve, SchemaRef);

impl StepFactory for Factory {
    fn name(&self) -> &str {
        "halve"
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.1)
    }

    fn open(&self, _: StepCtx) -> Result<Box<dyn Step>> {
        Ok(Box::new(Halving(self.0)))
    }
}

struct Halving(Halve);

impl Step for Halving {
    fn apply(&mut self, batch: RecordBatch, _: EventTime, out: &mut Output) -> Result<()> {
        let column = batch.column(0).as_primitive::<Int64Type>();
        if self.0 == Halve::HatesNulls && column.iter().any(|value| value.is_none()) {
            return Err(tidegate_api::Error::data("there is a null"));
        }
        let mut keep: Vec<bool> = column.iter().map(|value| value.is_none_or(|value| value % 2 == 0)).collect();
        if self.0 == Halve::Loses
            && let Some(first) = keep.first_mut()
        {
            *first = false;
        }
        let kept = filter_record_batch(&batch, &keep.clone().into())?;
        let halved: Int64Array = kept.column(0).as_primitive::<Int64Type>().unary(|value| value / 2);
        out.filtered += (batch.num_rows() - kept.num_rows()) as u64;
        let mut columns = kept.columns().to_vec();
        columns[0] = Arc::new(halved);
        out.emit(RecordBatch::try_new(batch.schema(), columns)?);
        if self.0 == Halve::MakesUp && batch.num_rows() == 0 {
            out.emit(numbers(0..1).with_schema(batch.schema())?);
        }
        Ok(())
    }
}

fn world(how: Halve) -> TransformWorld {
    let fields = ["n", "m"].map(|name| Field::new(name, DataType::Int64, true));
    let input = Arc::new(Schema::new(fields.to_vec()));
    TransformWorld::new(input, move |input| {
        let factory = Arc::new(Factory(how, Arc::clone(input)));
        Ok(BoundStep { factory, plan: format!("{input}"), rowwise: true })
    })
}

#[test]
fn a_native_step_passes_and_its_mistakes_are_found() {
    transform_contract(&world(Halve::Honest));
    let rule = |how| judge(&world(how)).conviction.map(|Conviction { rule, .. }| rule);
    assert_eq!(rule(Halve::Loses), Some(Rule::BatchCuts));
    assert_eq!(rule(Halve::MakesUp), Some(Rule::EmptyBatch));
    assert_eq!(rule(Halve::HatesNulls), Some(Rule::Extremes));
}

//! Small steps.

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int64Type, SchemaRef};
use std::sync::Arc;
use tidegate_api::{BadReason, BadRow, EventTime, OnBadData, Output, Result, Step, StepCtx, StepFactory};
use tidegate_runtime::graph::PipeStep;

type Test = Arc<dyn Fn(i64) -> Verdict + Send + Sync>;

/// What becomes of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Keep,
    Drop,
    Bad,
}

/// Judges rows by their first column.
pub struct Judge {
    schema: SchemaRef,
    test: Test,
}

pub fn judge(schema: &SchemaRef, on_bad: OnBadData, test: impl Fn(i64) -> Verdict + Send + Sync + 'static) -> PipeStep {
    let factory = Arc::new(Judge { schema: Arc::clone(schema), test: Arc::new(test) });
    PipeStep::new("clean", "1:judge", factory, on_bad)
}

impl StepFactory for Judge {
    fn name(&self) -> &str {
        "judge"
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn open(&self, _: StepCtx) -> Result<Box<dyn Step>> {
        Ok(Box::new(Judging(Arc::clone(&self.test))))
    }
}

struct Judging(Test);

impl Step for Judging {
    fn apply(&mut self, batch: RecordBatch, _: EventTime, out: &mut Output) -> Result<()> {
        let verdicts: Vec<Verdict> = batch.column(0).as_primitive::<Int64Type>().values().iter().map(|value| (self.0)(*value)).collect();
        for (row, verdict) in verdicts.iter().enumerate() {
            match verdict {
                Verdict::Keep => {}
                Verdict::Drop => out.filtered += 1,
                Verdict::Bad => out.bad.push(BadRow::of(&batch, row, BadReason::Expression, "judged bad")),
            }
        }
        let keep: BooleanArray = verdicts.iter().map(|verdict| Some(*verdict == Verdict::Keep)).collect();
        out.emit(filter_record_batch(&batch, &keep)?);
        Ok(())
    }
}

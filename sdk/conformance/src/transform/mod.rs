//! Transforms and other stateless steps: deterministic, honest about which row is which, the same for any cut of the rows into batches.
//!
//! The rows are generated for the input's schema, with nulls and the extreme values of every type, and those that the caller brings.

mod scripts;
mod values;

use crate::rules::Rule;
use crate::verdict::{Judgement, Progress, Record, Verdict};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use tidegate_api::{BadReason, EventTime, Generation, Output, Result, RunId, RunIdentity, Step, StepCtx, StepFactory};

pub use values::{extreme_batch, extreme_values};

/// Rows that are also handed over one by one.
const FEW: usize = 101;
/// Rows of the larger table.
const MANY: usize = 1009;
/// The epoch's clock.
const NOW: EventTime = EventTime(1_700_000_000_000_000);

/// A step that is bound to its input.
pub struct BoundStep {
    /// Makes the instances.
    pub factory: Arc<dyn StepFactory>,
    /// The plan in words; equal plans have equal words.
    pub plan: String,
    /// Whether each output row belongs to an input row.
    pub rowwise: bool,
}

/// Binds a transform to an input.
pub type Bind = Box<dyn Fn(&SchemaRef) -> Result<BoundStep>>;

/// What is judged.
pub struct TransformWorld {
    /// Binds it to an input anew.
    pub bind: Bind,
    /// The input.
    pub input: SchemaRef,
    /// Rows of that input beside the generated ones.
    pub rows: Vec<RecordBatch>,
}

impl TransformWorld {
    /// A transform of generated rows.
    pub fn new(input: SchemaRef, bind: impl Fn(&SchemaRef) -> Result<BoundStep> + 'static) -> Self {
        TransformWorld { bind: Box::new(bind), input, rows: Vec::new() }
    }

    /// Adds rows.
    #[must_use]
    pub fn with_rows(mut self, rows: Vec<RecordBatch>) -> Self {
        self.rows = rows;
        self
    }
}

/// What every script works with.
struct Bench<'a> {
    world: &'a TransformWorld,
    record: &'a Record,
    bound: BoundStep,
    /// A table of few rows, and one of many.
    few: RecordBatch,
    many: RecordBatch,
}

/// What became of some batches.
struct Made {
    rows: RecordBatch,
    /// Bad rows, by their index over all batches.
    bad: Vec<(usize, String)>,
    filtered: u64,
    /// The words of a trap, if a row was convicted of one.
    trapped: Option<String>,
}

impl Bench<'_> {
    fn open(&self, rule: Rule) -> Verdict<Box<dyn Step>> {
        let run = RunIdentity::new("conformance", RunId::new("run"), Generation(1), "stage");
        let step = self.bound.factory.open(StepCtx::new(run, 0, 1));
        step.map_err(|error| self.record.convict(rule, format!("`open` failed: {error}")))
    }

    /// Hands batches over in turn.
    fn apply(&self, step: &mut dyn Step, batches: &[RecordBatch], rule: Rule) -> Verdict<Made> {
        let mut made =
            Made { rows: RecordBatch::new_empty(self.bound.factory.output_schema()), bad: Vec::new(), filtered: 0, trapped: None };
        let (mut all, mut at) = (Vec::new(), 0);
        for batch in batches {
            let mut out = Output::default();
            let rows = batch.num_rows();
            step.apply(batch.clone(), NOW, &mut out)
                .map_err(|error| self.record.convict(rule, format!("a batch of {rows} rows failed: {error}")))?;
            made.filtered += out.filtered;
            for bad in out.bad {
                if bad.reason == BadReason::PluginTrap && made.trapped.is_none() {
                    made.trapped = Some(bad.message.clone());
                }
                made.bad.push((at + bad.row.unwrap_or_default(), bad.message));
            }
            all.extend(out.batches);
            at += rows;
        }
        made.rows = concat_batches(&made.rows.schema(), &all)
            .map_err(|error| self.record.convict(rule, format!("the rows made do not fit the declared output: {error}")))?;
        Ok(made)
    }
}

type Script = (&'static str, fn(&Bench) -> Verdict);

const SCRIPTS: &[Script] = &[
    ("bound again", scripts::bound_again),
    ("nulls and extremes", scripts::extremes),
    ("a batch without rows", scripts::empty),
    ("the same batch again", scripts::same_again),
    ("row by row", scripts::row_by_row),
    ("other batches", scripts::other_cuts),
    ("bound again after rows were processed", scripts::bound_again),
];

/// Judges a transform.
pub fn judge(world: &TransformWorld) -> Judgement {
    judge_telling(world, Progress::default())
}

/// Judges a transform and tells what it does.
pub(crate) fn judge_telling(world: &TransformWorld, progress: Progress) -> Judgement {
    let record = Record::telling(progress);
    let verdict = run(world, &record);
    record.close(verdict)
}

/// Checks a native step, and fails the test that calls it.
///
/// # Panics
/// With the script and the rule that was broken.
pub fn transform_contract(world: &TransformWorld) {
    judge(world).expect_passed();
}

fn run(world: &TransformWorld, record: &Record) -> Verdict {
    record.script("bound");
    let bound = (world.bind)(&world.input).map_err(|error| record.convict(Rule::CallsSucceed, format!("`bind` failed: {error}")))?;
    let table = |rows: usize| {
        let table =
            extreme_batch(&world.input, rows).and_then(|generated| concat_batches(&world.input, world.rows.iter().chain([&generated])));
        table
            .map(|table| table.slice(0, table.num_rows().min(rows.max(1))))
            .map_err(|error| record.convict(Rule::CallsSucceed, format!("the rows given do not fit the input: {error}")))
    };
    let (few, many) = (table(FEW)?, table(MANY)?);
    let bench = Bench { world, record, bound, few, many };
    for (name, script) in SCRIPTS {
        record.script(name);
        script(&bench)?;
        record.kept(Rule::CallsSucceed);
    }
    Ok(())
}

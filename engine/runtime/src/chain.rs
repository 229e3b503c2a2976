//! Runs the tree of stateless steps behind a source or operator, on the thread of what feeds it.
//!
//! Rows pass step by step; where the tree forks they are shared without a copy; where it ends they go to an edge. Each step's bad
//! rows follow that step's policy, and nothing a step drops goes uncounted.

use crate::bad::{BadRows, Finder, Origin};
use crate::graph::{EdgeId, Pipe, PipeEnd, PipeStep};
use crate::metrics::StepCounters;
use crate::output::Outputs;
use arrow::array::{Array, ArrayRef, RecordBatch};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::time::raw_times;
use tidegate_api::{BadRow, Error, EventTime, OnBadData, Output, Result, ResultExt, RunIdentity, Step, StepCtx};

/// What a batch needs on its way.
pub(crate) struct Way<'a> {
    pub(crate) outputs: &'a mut Outputs,
    pub(crate) bad: &'a BadRows,
    pub(crate) origin: Origin<'a>,
    pub(crate) now: EventTime,
}

/// What stands behind a task, not opened yet.
pub(crate) struct ChainPlan {
    pub(crate) main: Pipe,
    pub(crate) late: Option<Pipe>,
    pub(crate) task: usize,
    pub(crate) tasks: usize,
    pub(crate) run: RunIdentity,
    /// Where each edge stands among the task's outputs.
    pub(crate) edges: BTreeMap<EdgeId, usize>,
    /// The steps' counters, in the order of [`crate::metrics`]'s walk.
    pub(crate) counters: Vec<StepCounters>,
}

impl ChainPlan {
    /// Opens every step; called on the task's thread.
    pub(crate) fn open(&self) -> Result<Chains> {
        let mut counters = self.counters.iter().cloned();
        let mut cx = Opening { task: self.task, tasks: self.tasks, run: &self.run, edges: &self.edges, counters: &mut counters };
        let main = Chain::open(&self.main, &mut cx)?;
        let late = self.late.as_ref().map(|late| Chain::open(late, &mut cx)).transpose()?;
        Ok(Chains { main, late })
    }
}

/// What stands behind a task.
#[derive(Default)]
pub(crate) struct Chains {
    pub(crate) main: Chain,
    pub(crate) late: Option<Chain>,
}

/// A tree of opened steps.
#[derive(Default)]
pub(crate) struct Chain {
    steps: Vec<Link>,
    ends: Vec<End>,
}

struct Link {
    stage: String,
    label: String,
    step: Box<dyn Step>,
    on_bad: OnBadData,
    /// The event-time column among what it is given.
    time: Option<Arc<str>>,
    counters: StepCounters,
    scratch: Output,
}

enum End {
    Chain(Chain),
    Edge(usize),
}

/// What opening needs to know of the task.
struct Opening<'a> {
    task: usize,
    tasks: usize,
    run: &'a RunIdentity,
    edges: &'a BTreeMap<EdgeId, usize>,
    counters: &'a mut dyn Iterator<Item = StepCounters>,
}

impl Chain {
    fn open(pipe: &Pipe, cx: &mut Opening<'_>) -> Result<Chain> {
        let steps = pipe.steps.iter().map(|step| Link::open(step, cx)).collect::<Result<_>>()?;
        let ends = pipe.to.iter().map(|end| match end {
            PipeEnd::Pipe(next) => Ok(End::Chain(Chain::open(next, cx)?)),
            PipeEnd::Edge(edge) => {
                let index = cx.edges.get(edge).ok_or_else(|| Error::internal(format!("edge {edge} is no output of this task")))?;
                Ok(End::Edge(*index))
            }
        });
        Ok(Chain { steps, ends: ends.collect::<Result<_>>()? })
    }

    /// Sends a batch through.
    pub(crate) fn run(&mut self, batch: RecordBatch, way: &mut Way<'_>) -> Result<()> {
        self.run_from(0, batch, way)
    }

    fn run_from(&mut self, from: usize, batch: RecordBatch, way: &mut Way<'_>) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let Some(link) = self.steps.get_mut(from) else {
            return self.finish(batch, way);
        };
        link.apply(batch, way)?;
        let mut made = std::mem::take(&mut link.scratch.batches);
        for batch in made.drain(..) {
            self.run_from(from + 1, batch, way)?;
        }
        // The vector goes back, so that a batch costs no allocation here.
        self.steps[from].scratch.batches = made;
        Ok(())
    }

    fn finish(&mut self, batch: RecordBatch, way: &mut Way<'_>) -> Result<()> {
        let Some((last, others)) = self.ends.split_last_mut() else { return Ok(()) };
        for end in others {
            end.take(batch.clone(), way)?;
        }
        last.take(batch, way)
    }
}

impl End {
    fn take(&mut self, batch: RecordBatch, way: &mut Way<'_>) -> Result<()> {
        match self {
            End::Chain(chain) => chain.run(batch, way),
            End::Edge(edge) => way.outputs.push(*edge, batch),
        }
    }
}

impl Link {
    fn open(step: &PipeStep, cx: &mut Opening<'_>) -> Result<Link> {
        let mut run = cx.run.clone();
        run.operator = step.stage.clone();
        let opened =
            step.factory.open(StepCtx::new(run, cx.task, cx.tasks)).context(|| format!("stage `{}`: step `{}`", step.stage, step.label))?;
        let counters = cx.counters.next().ok_or_else(|| Error::internal(format!("step `{}` has no counters", step.label)))?;
        Ok(Link {
            stage: step.stage.clone(),
            label: step.label.clone(),
            step: opened,
            on_bad: step.on_bad,
            time: step.time.clone(),
            counters,
            scratch: Output::default(),
        })
    }

    fn apply(&mut self, batch: RecordBatch, way: &mut Way<'_>) -> Result<()> {
        self.counters.rows_in.add(batch.num_rows() as u64);
        let times = self.time.as_ref().and_then(|column| batch.column_by_name(column)).map(Arc::clone);
        self.step.apply(batch, way.now, &mut self.scratch).context(|| format!("stage `{}`: step `{}`", self.stage, self.label))?;
        let made: usize = self.scratch.batches.iter().map(RecordBatch::num_rows).sum();
        self.counters.rows_out.add(made as u64);
        self.counters.filtered.add(std::mem::take(&mut self.scratch.filtered));
        if !self.scratch.late.is_empty() {
            return Err(Error::internal(format!("stage `{}`: step `{}` is stateless and spoke of late rows", self.stage, self.label)));
        }
        let mut bad = std::mem::take(&mut self.scratch.bad);
        if let Some(times) = times.filter(|_| !bad.is_empty()) {
            tell_times(&mut bad, &times)?;
        }
        let finder = Finder { stage: Some(&self.stage), step: Some(&self.label), ..Finder::default() };
        way.bad.report(bad, self.on_bad, finder, way.origin, &self.counters.bad, way.outputs)
    }
}

/// Adds the event times of bad rows that say which rows they are.
fn tell_times(bad: &mut [BadRow], column: &ArrayRef) -> Result<()> {
    let (times, scale) = raw_times(column)?;
    for row in bad.iter_mut().filter(|row| row.event_time.is_none()) {
        let index = row.row.filter(|index| *index < times.len() && times.is_valid(*index));
        row.event_time = index.map(|index| scale.event_time(times.value(index)));
    }
    Ok(())
}

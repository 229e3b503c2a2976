//! The step of one task.

use super::Bound;
use super::border::{Border, Made};
use super::conviction::Convictions;
use super::recovery::{self, Attempt, Part};
use crate::bindings::types;
use crate::fault::{Failure, broken, placed};
use crate::instance::{TransformInstance, task_scope};
use crate::ipc::size_of;
use crate::plugin::Plugin;
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{BadReason, BadRow, Error, EventTime, Output, Result, ResultExt, Step, StepCtx};
use wasmtime::component::ResourceAny;

/// Rows per call: more gains nothing, because the copies leave the processor's cache.
const MAX_ROWS: usize = 8192;
/// Bytes per call, likewise.
const MAX_BYTES: usize = 2 << 20;

pub(super) struct TransformStep<B: Border> {
    guest: Guest<B>,
    bound: Bound,
    /// Rows per call, at most; halved when a batch was too large for the guest.
    max_rows: usize,
    convictions: Convictions,
}

impl<B: Border> TransformStep<B> {
    pub(super) fn open(plugin: Arc<Plugin>, config: &str, input: &SchemaRef, bound: Bound, ctx: &StepCtx) -> Result<Self> {
        let border = B::new(input, bound.reads.clone()).context(|| format!("plugin `{}`", plugin.name()))?;
        let mut guest = Guest {
            scope: task_scope(config, &ctx.run, ctx.task, ctx.tasks),
            operator: ctx.run.operator.clone(),
            task: ctx.task,
            plugin,
            bound: bound.clone(),
            border,
            projected: RecordBatch::new_empty(Arc::new(arrow::datatypes::Schema::empty())),
            now: EventTime(0),
            open: None,
        };
        guest.open = Some(guest.instance().map_err(Failure::into_error)?);
        Ok(TransformStep { guest, bound, max_rows: MAX_ROWS, convictions: Convictions::default() })
    }

    /// One call's worth of rows, and what becomes of it after a trap.
    fn apply_part(&mut self, batch: &RecordBatch, out: &mut Output) -> Result<u64> {
        self.guest.projected = self.guest.border.project(batch)?;
        let deadline = self.guest.plugin.spec().limits.deadline;
        let outcome = recovery::run(&mut self.guest, 0..batch.num_rows(), deadline);
        let outcome = outcome.context(|| format!("task {}", self.guest.task))?;
        if outcome.too_large {
            self.max_rows = (batch.num_rows() / 2).max(1);
            tracing::warn!(
                plugin = self.guest.plugin.name(),
                rows = self.max_rows,
                "a transform trapped on a batch and on no part of it; it gets smaller ones"
            );
        }
        let mut convicted = 0;
        for part in outcome.parts {
            match part {
                Part::Answered(rows, answer) => self.answered(batch, rows, answer, out)?,
                Part::Convicted(row, message) => {
                    convicted += 1;
                    self.guest.plugin.metrics().convicted();
                    // A trap's message names the plugin and the call already.
                    out.bad.push(BadRow::of(batch, row, BadReason::PluginTrap, message));
                }
            }
        }
        Ok(convicted)
    }

    /// Takes the answer for some rows of `batch`.
    fn answered(&self, batch: &RecordBatch, rows: Range<usize>, answer: Answer, out: &mut Output) -> Result<()> {
        let mut bad = Vec::with_capacity(answer.bad.len());
        for error in answer.bad {
            let message = format!("plugin `{}`: {}", self.guest.plugin.name(), error.message);
            let row = BadRow::of(batch, rows.start + error.row as usize, BadReason::Plugin, message);
            out.bad.push(row.in_column(error.column));
            bad.push(error.row as usize);
        }
        let (made, filtered) = self.bound.layout.assemble(&batch.slice(rows.start, rows.len()), &answer.made, &bad)?;
        out.filtered += filtered;
        out.emit(made);
        Ok(())
    }
}

impl<B: Border> Step for TransformStep<B> {
    fn apply(&mut self, batch: RecordBatch, now: EventTime, out: &mut Output) -> Result<()> {
        self.guest.now = now;
        let rows = batch.num_rows();
        let (mut at, mut convicted) = (0, 0);
        if rows == 0 {
            return Ok(());
        }
        // The bytes that cross are those of the columns read; views are as good an estimate as their plain form.
        let bytes: usize = self.bound.reads.iter().map(|column| batch.column(*column).get_buffer_memory_size()).sum();
        let by_bytes = if bytes <= MAX_BYTES { MAX_ROWS } else { self.rows_within(&batch)? };
        while at < rows {
            let count = self.max_rows.min(by_bytes).min(rows - at);
            let reported = out.bad.len();
            convicted += self.apply_part(&batch.slice(at, count), out)?;
            for bad in &mut out.bad[reported..] {
                bad.row = bad.row.map(|row| row + at);
            }
            at += count;
        }
        let spec = self.guest.plugin.spec();
        if self.convictions.exceed(rows as u64, convicted, spec.max_bad_ratio) {
            let error = Error::data(format!(
                "it trapped on {} of the last 100,000 rows, over the `maxBadRatio` of {}; use a mended build of the plugin, or raise `maxBadRatio`",
                self.convictions.convicted(),
                spec.max_bad_ratio
            ));
            return Err(placed(error, &spec.name, "process"));
        }
        Ok(())
    }
}

impl<B: Border> TransformStep<B> {
    /// How many rows of this batch fit into one call's bytes.
    fn rows_within(&self, batch: &RecordBatch) -> Result<usize> {
        let projected = self.guest.border.project(batch)?;
        let per_row = size_of(&projected).div_ceil(batch.num_rows());
        Ok((MAX_BYTES / per_row.max(1)).clamp(1, MAX_ROWS))
    }
}

/// A guest's answer, checked.
struct Answer {
    made: RecordBatch,
    bad: Vec<types::RowError>,
}

/// The task's instance and what is needed to replace it.
struct Guest<B: Border> {
    plugin: Arc<Plugin>,
    scope: types::Scope,
    operator: String,
    task: usize,
    bound: Bound,
    border: B,
    /// The columns read of the rows at hand.
    projected: RecordBatch,
    now: EventTime,
    open: Option<Open<B>>,
}

/// An instance and its processor.
type Open<B> = (TransformInstance<<B as Border>::Guest>, ResourceAny);

impl<B: Border> Guest<B> {
    fn instance(&self) -> Result<Open<B>, Failure> {
        let mut instance = TransformInstance::new(&self.plugin, &self.operator, self.task, B::guest).map_err(Failure::Fault)?;
        instance.set_now(self.now);
        let processor = self.border.open(&mut instance, &self.scope);
        // A new instance that cannot be opened will not be better the next time.
        let processor = processor.map_err(|failure| Failure::Fault(failure.into_error()))?;
        Ok((instance, processor))
    }

    fn check(&self, rows: usize, processed: Made) -> Result<Answer, String> {
        let mut batches = processed.rows;
        let made = match batches.len() {
            1 => batches.swap_remove(0),
            _ => concat_batches(self.bound.decoder.schema(), &batches).map_err(|error| error.to_string())?,
        };
        self.bound.layout.check(rows, &made)?;
        let mut next = 0;
        for error in &processed.bad {
            if error.row < next || error.row >= rows as u64 {
                return Err(format!("it calls row {} of {rows} bad, twice, out of order or out of range", error.row));
            }
            next = error.row + 1;
        }
        Ok(Answer { made, bad: processed.bad })
    }
}

impl<B: Border> Attempt for Guest<B> {
    type Answer = Answer;

    fn attempt(&mut self, rows: Range<usize>) -> Result<Answer, Failure> {
        let (mut instance, processor) = match self.open.take() {
            Some(open) => open,
            None => self.instance()?,
        };
        instance.set_now(self.now);
        let whole = rows.len() == self.projected.num_rows();
        let part = if whole { self.projected.clone() } else { self.projected.slice(rows.start, rows.len()) };
        match self.border.process(&self.plugin, &mut instance, processor, &part, &self.bound.decoder) {
            Ok(processed) => {
                self.open = Some((instance, processor));
                self.check(rows.len(), processed).map_err(|what| Failure::Fault(broken(self.plugin.name(), "processor.process", what)))
            }
            Err(failure) => {
                if matches!(failure, Failure::Fault(_)) {
                    self.open = Some((instance, processor));
                }
                Err(failure)
            }
        }
    }

    fn elapsed(&self) -> Duration {
        self.plugin.shared().clock.monotonic()
    }
}

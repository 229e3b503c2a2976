//! The contract of everything between sources and sinks: stateless steps and stateful operators.
//!
//! Both see data, time and snapshots. They never see a barrier; alignment, forwarding and acknowledging belong to the task.

use crate::{
    BadRow, Clock, Counter, Epoch, EventTime, PieceId, RestoredPiece, Result, RunIdentity, Signature, StatePiece, SystemClock, VnodeRange,
    Watermark,
};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;

/// Where a step or operator puts what it makes. The task empties it after every call and routes what it finds.
#[derive(Debug, Default)]
pub struct Output {
    /// Rows for the next step or edge, in order. Empty batches are dropped by the task.
    pub batches: Vec<RecordBatch>,
    /// Rows that could not be used.
    pub bad: Vec<BadRow>,
    /// Late rows under the operator's input schema or [`OperatorFactory::late_schema`], for `lateOutput`; counted whether or not
    /// anybody wants them.
    pub late: Vec<RecordBatch>,
    /// Rows left out on purpose by a step.
    pub filtered: u64,
    /// Rows late for some of their windows and absorbed by others.
    pub late_windows: u64,
    /// Rows of this call that were put by unseen; a later call judges them.
    pub deferred: u64,
    /// Rows that earlier calls deferred and this one has judged.
    pub resumed: u64,
}

impl Output {
    /// Emits rows.
    pub fn emit(&mut self, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            self.batches.push(batch);
        }
    }
}

/// What a step is opened with.
#[derive(Clone)]
#[non_exhaustive]
pub struct StepCtx {
    /// This task, from 0.
    pub task: usize,
    /// How many tasks run the same step.
    pub tasks: usize,
    /// Who is running; `operator` is the stage.
    pub run: RunIdentity,
}

impl StepCtx {
    /// The context of one task.
    pub fn new(run: RunIdentity, task: usize, tasks: usize) -> Self {
        StepCtx { task, tasks, run }
    }
}

/// Makes one [`Step`] per task. Shared by planning and all tasks.
pub trait StepFactory: Send + Sync {
    /// What it is called in plans, metrics and bad rows, such as `filter`.
    fn name(&self) -> &str;

    /// The schema of the rows it makes, hidden columns included.
    fn output_schema(&self) -> SchemaRef;

    /// Opens the step of one task; called on the task's thread before the first batch.
    ///
    /// # Errors
    /// Any; the run fails before a row was read.
    fn open(&self, ctx: StepCtx) -> Result<Box<dyn Step>>;
}

/// A stateless transformation, chained on the thread of what feeds it. Used from one thread.
pub trait Step: Send {
    /// Transforms one batch. `now` is the epoch's clock. Row order is kept. For row-wise steps: rows in = rows emitted + filtered + bad.
    ///
    /// # Errors
    /// Only for what is wrong with the step; a bad row goes to `out.bad` and costs only itself.
    fn apply(&mut self, batch: RecordBatch, now: EventTime, out: &mut Output) -> Result<()>;
}

/// Whether a call has finished its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Nothing is left to do.
    Done,
    /// There is more: call again with the same arguments once there is room for output.
    More,
}

/// What an operator is opened with.
#[derive(Clone)]
#[non_exhaustive]
pub struct OperatorCtx {
    /// This task, from 0.
    pub task: usize,
    /// How many tasks run the operator.
    pub tasks: usize,
    /// The vnodes this task owns; every row it receives hashes into them.
    pub vnodes: VnodeRange,
    /// How many vnodes there are in all.
    pub vnode_count: u16,
    /// Rows per emitted batch, at most.
    pub batch_rows: usize,
    /// Who is running; `operator` is the stage.
    pub run: RunIdentity,
    /// The only clock an operator may use, for processing-time windows and emission by time.
    pub clock: Arc<dyn Clock>,
    /// A gauge of the operator's state in bytes, set by it at least at every barrier and when it is asked to measure.
    pub state_bytes: Counter,
}

impl OperatorCtx {
    /// The context of the only task of an operator, owning all of 256 vnodes.
    pub fn new(run: RunIdentity) -> Self {
        OperatorCtx {
            task: 0,
            tasks: 1,
            vnodes: VnodeRange::all(256),
            vnode_count: 256,
            batch_rows: 8192,
            run,
            clock: Arc::new(SystemClock),
            state_bytes: Counter::new(),
        }
    }

    /// Sets which task of how many this is, and deals out the vnodes accordingly.
    #[must_use]
    pub fn with_task(mut self, task: usize, tasks: usize, vnode_count: u16) -> Self {
        self.task = task;
        self.tasks = tasks;
        self.vnode_count = vnode_count;
        self.vnodes = VnodeRange::of_task(task, tasks, vnode_count);
        self
    }

    /// Sets the rows per emitted batch.
    #[must_use]
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the gauge of state bytes.
    #[must_use]
    pub fn with_state_bytes(mut self, gauge: Counter) -> Self {
        self.state_bytes = gauge;
        self
    }
}

/// Makes one [`Operator`] per task. Shared by planning and all tasks.
pub trait OperatorFactory: Send + Sync {
    /// What it is called in plans and metrics, such as `windowedAggregate`.
    fn name(&self) -> &str;

    /// What its state depends on.
    fn signature(&self) -> Signature;

    /// The schema of the rows it makes, hidden columns included.
    fn output_schema(&self) -> SchemaRef;

    /// The visible columns and `_key` of its late rows, when they are not simply those of its only input.
    fn late_schema(&self) -> Option<SchemaRef> {
        None
    }

    /// Whether several operators, each with a part of a task's vnodes and the rows that hash into it, together do what one does
    /// with all of them. If so, state past the memory limit is put aside part by part.
    fn divides(&self) -> bool {
        true
    }

    /// Opens the operator of one task; called on the task's thread, before `restore` and before the first batch.
    ///
    /// # Errors
    /// Any; the run fails before a row was read.
    fn open(&self, ctx: OperatorCtx) -> Result<Box<dyn Operator>>;
}

/// A stateful operator. Used from one thread; every call does a bounded amount of work.
pub trait Operator: Send {
    /// Takes rows from one input. In = absorbed + filtered + late + bad.
    ///
    /// # Errors
    /// Only for what is wrong with the operator; a bad row goes to `out.bad`.
    fn on_batch(&mut self, input: usize, batch: RecordBatch, out: &mut Output) -> Result<()>;

    /// The merged watermark of all inputs rose to `watermark`. Emits what is due, in bounded portions: while it returns
    /// [`Flow::More`] it is called again with the same watermark and nothing else is called in between.
    ///
    /// # Errors
    /// As `on_batch`.
    fn on_watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<Flow>;

    /// All inputs have ended for good (`on_watermark(MAX)` came before). Emits the rest; portions as in `on_watermark`. Not called at a stop.
    ///
    /// # Errors
    /// As `on_batch`.
    fn on_drain(&mut self, out: &mut Output) -> Result<Flow> {
        let _ = out;
        Ok(Flow::Done)
    }

    /// Called when the task has nothing else to do, and before every barrier, for what depends on the clock. Returns whether there is more.
    ///
    /// # Errors
    /// As `on_batch`.
    fn on_time(&mut self, out: &mut Output) -> Result<Flow> {
        let _ = out;
        Ok(Flow::Done)
    }

    /// A barrier has arrived on all inputs: what was deferred is due before the state is taken. Portions as in `on_watermark`; comes
    /// after `on_time`, and before `on_drain` if the barrier is the last.
    ///
    /// # Errors
    /// As `on_batch`.
    fn on_barrier(&mut self, out: &mut Output) -> Result<Flow> {
        let _ = out;
        Ok(Flow::Done)
    }

    /// Whether [`Operator::output_watermark`] of the last watermark may have risen without a new one coming in. Answered once.
    fn has_caught_up(&mut self) -> bool {
        false
    }

    /// What one input of several has promised by itself; comes before [`Operator::on_watermark`] is told of the merged one.
    /// [`Watermark::At`] the end of time: the input has ended.
    fn on_input_watermark(&mut self, input: usize, watermark: Watermark) {
        let _ = (input, watermark);
    }

    /// Whether it wants no rows of this input for now; the input's edges then fill, and what feeds them waits. Asked before every
    /// event. Not heeded while a barrier has arrived on one input and not on another: the barrier may stand behind the rows.
    fn holds(&self, input: usize) -> bool {
        let _ = input;
        false
    }

    /// The watermark to forward when the input's is `watermark`: held back to the earliest event time it may still emit.
    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        watermark
    }

    /// Sets [`OperatorCtx::state_bytes`]. Called now and then, for the memory limit goes by it.
    fn measure(&mut self) {}

    /// The whole state, as pieces: new ones, and references to unchanged ones.
    ///
    /// # Errors
    /// Any fails the run back to the manifest.
    fn snapshot(&mut self, epoch: Epoch) -> Result<Vec<StatePiece>>;

    /// Earlier pieces cannot be referred to any more: the next snapshot consists of new ones only. For operators that keep pieces.
    fn forget_pieces(&mut self) {}

    /// Tells under which id each new piece of the snapshot of `epoch` will be known, in the order they were returned; comes
    /// right after `snapshot`. A later snapshot may keep it.
    fn pieces_named(&mut self, epoch: Epoch, ids: Vec<PieceId>) {
        let _ = (epoch, ids);
    }

    /// Takes state back; called once, before the first batch, with every piece that overlaps the task's vnodes. What belongs to
    /// other vnodes is left out. Restored rows are never late and never fire twice.
    ///
    /// # Errors
    /// `External` for a piece that cannot be decoded.
    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()>;
}

//! Runs a stateful operator: aligns its inputs, gives it rows and time in portions, and takes its state at barriers.

use super::{Report, Seat, Task, Turn};
use crate::bad::{BadRows, Finder, Origin};
use crate::chain::{ChainPlan, Chains, Way};
use crate::graph::OperatorNode;
use crate::input::{Incoming, Inputs};
use crate::late::marked;
use crate::metrics::NodeMeters;
use crate::output::Outputs;
use crate::planted::Planted;
use crate::spill::{Member, Place, Spilling};
use arrow::array::RecordBatch;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    Barrier, BarrierKind, Error, EventTime, Flow, Operator, OperatorCtx, Output, RestoredPiece, Result, ResultExt, Watermark,
};
use tidegate_epochs::{SnapshotPiece, TaskSnapshot, name_pieces};

/// Events taken in one step at most, so that commands and output get their turn.
const EVENTS: usize = 8;
/// How often an operator without input is asked whether the clock has made something due.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// Reads the state of one task back; runs on the task's thread.
pub(crate) type Restore = Box<dyn FnOnce() -> Result<Vec<RestoredPiece>> + Send>;

/// What an operator task is made of.
pub(crate) struct OperatorParts {
    pub(crate) seat: Seat,
    pub(crate) node: OperatorNode,
    /// What its state may take, and where the rest goes; `None`: without limit.
    pub(crate) memory: Option<(Member, Option<Place>)>,
    pub(crate) ctx: OperatorCtx,
    /// `None` when there is no state to restore.
    pub(crate) restore: Option<Restore>,
    pub(crate) inputs: Inputs,
    pub(crate) chains: ChainPlan,
    pub(crate) bad: BadRows,
    pub(crate) outputs: Outputs,
    pub(crate) meters: Arc<NodeMeters>,
    /// The value of `now()` in the first epoch.
    pub(crate) now: EventTime,
    /// For the simulator.
    pub(crate) planted: Planted,
}

/// See the module's documentation.
pub(crate) struct OperatorTask {
    parts: OperatorParts,
    operator: Option<Running>,
    chains: Chains,
    work: Work,
    /// The last watermark; `None` while all inputs are idle.
    reached: Option<EventTime>,
    /// All inputs are idle, and the operator is behind: until it has caught up it holds back those that follow.
    idles_later: bool,
    scratch: Output,
}

/// The operator, by itself or with state that may be put aside.
enum Running {
    Plain(Box<dyn Operator>),
    Spilling(Box<Spilling>),
}

impl Running {
    /// Whether something waits for state that lies on disk.
    fn is_behind(&self) -> bool {
        match self {
            Running::Plain(_) => false,
            Running::Spilling(operator) => operator.is_behind(),
        }
    }
}

impl Deref for Running {
    type Target = dyn Operator;

    fn deref(&self) -> &Self::Target {
        match self {
            Running::Plain(operator) => operator.as_ref(),
            Running::Spilling(operator) => operator.as_ref(),
        }
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Running::Plain(operator) => operator.as_mut(),
            Running::Spilling(operator) => operator.as_mut(),
        }
    }
}

/// What must be finished before the inputs are read again.
#[derive(Debug, Clone, Copy)]
enum Work {
    None,
    /// Tell the operator that time has come so far.
    Advance(EventTime),
    /// What the clock made due, before this barrier.
    Timers(Barrier),
    /// What was deferred, before this barrier.
    Deferred(Barrier),
    /// Everything that is left, before this barrier.
    Drain(Barrier),
    /// Take the state and send this barrier on.
    Seal(Barrier),
    /// The end was sent.
    Ended,
}

impl OperatorTask {
    pub(crate) fn new(parts: OperatorParts) -> Self {
        OperatorTask {
            parts,
            operator: None,
            chains: Chains::default(),
            work: Work::None,
            reached: None,
            idles_later: false,
            scratch: Output::default(),
        }
    }

    fn open(&mut self) -> Result<Turn> {
        self.chains = self.parts.chains.open()?;
        let (factory, ctx) = (&self.parts.node.factory, self.parts.ctx.clone());
        let mut operator = match self.parts.memory.take() {
            None => Running::Plain(factory.open(ctx)?),
            Some((member, place)) => Running::Spilling(Box::new(Spilling::open(Arc::clone(factory), ctx, place, member)?)),
        };
        if let Some(restore) = self.parts.restore.take() {
            let pieces = restore().context(|| "reading its state".to_string())?;
            operator.restore(pieces).context(|| "restoring its state".to_string())?;
        }
        self.operator = Some(operator);
        self.parts.seat.report(Report::Opened);
        Ok(Turn::Progress)
    }

    fn read(&mut self) -> Result<Turn> {
        for event in 0..EVENTS {
            let Some(operator) = &mut self.operator else { return Err(Error::internal("the operator is not open")) };
            let Some(incoming) = self.parts.inputs.read_unless(|input| operator.holds(input))? else {
                return if event == 0 { self.rest() } else { Ok(Turn::Progress) };
            };
            if let Some((input, watermark)) = self.parts.inputs.told() {
                operator.on_input_watermark(input, watermark);
            }
            match incoming {
                Incoming::Nothing => {}
                Incoming::Batch(input, batch) => self.on_batch(input, batch)?,
                Incoming::Watermark(Watermark::Idle) => {
                    self.idles_later = operator.is_behind();
                    self.idle();
                }
                Incoming::Watermark(Watermark::At(at)) => {
                    self.idles_later = false;
                    self.reached = Some(at);
                    self.parts.meters.watermarks[self.parts.seat.task].set(Watermark::At(at));
                    self.work = Work::Advance(at);
                    break;
                }
                Incoming::Barrier(barrier) => {
                    self.work = Work::Timers(barrier);
                    break;
                }
                Incoming::End => {
                    self.end()?;
                    break;
                }
            }
            if !self.parts.outputs.flush()? {
                break;
            }
        }
        Ok(Turn::Progress)
    }

    fn on_batch(&mut self, input: usize, batch: RecordBatch) -> Result<()> {
        let rows = batch.num_rows() as u64;
        let Some(operator) = &mut self.operator else { return Err(Error::internal("the operator is not open")) };
        operator.on_batch(input, batch, &mut self.scratch)?;
        self.parts.meters.counters.rows_in.add(rows);
        self.count(rows)?;
        self.deliver()
    }

    /// Counts what became of the rows that this call has judged.
    fn count(&mut self, came: u64) -> Result<()> {
        let (deferred, resumed) = (std::mem::take(&mut self.scratch.deferred), std::mem::take(&mut self.scratch.resumed));
        let Some(rows) = (came + resumed).checked_sub(deferred).filter(|rows| *rows > 0) else { return Ok(()) };
        let late: usize = self.scratch.late.iter().map(RecordBatch::num_rows).sum();
        let bad_input = self.scratch.bad.iter().filter(|row| !row.reason.is_of_output()).count();
        let left_out = late as u64 + bad_input as u64 + self.scratch.filtered;
        let absorbed = rows.checked_sub(left_out);
        let absorbed =
            absorbed.ok_or_else(|| Error::internal(format!("{left_out} of {rows} rows were left out: the operator miscounts")))?;
        self.parts.meters.counters.absorbed.add(absorbed);
        Ok(())
    }

    /// Sends on what the operator has put into the scratch output.
    fn deliver(&mut self) -> Result<()> {
        let OperatorParts { node, bad, outputs, meters, inputs, now, .. } = &mut self.parts;
        let counters = &meters.counters;
        counters.filtered.add(std::mem::take(&mut self.scratch.filtered));
        counters.late_windows.add(std::mem::take(&mut self.scratch.late_windows));
        let mut way = Way { outputs, bad, origin: Origin::default(), now: *now };
        if !self.scratch.bad.is_empty() {
            let rows = std::mem::take(&mut self.scratch.bad);
            counters.bad_output.add(rows.iter().filter(|row| row.reason.is_of_output()).count() as u64);
            let finder = Finder { stage: Some(&node.stage), step: Some(&node.label), ..Finder::default() };
            bad.report(rows, node.on_bad, finder, Origin::default(), &counters.bad, way.outputs)?;
        }
        for rows in self.scratch.late.drain(..) {
            counters.late.add(rows.num_rows() as u64);
            if let Some(late) = &mut self.chains.late {
                late.run(marked(&rows, &node.stage, Some(inputs.reached()))?, &mut way)?;
            }
        }
        for rows in self.scratch.batches.drain(..) {
            counters.rows_out.add(rows.num_rows() as u64);
            self.chains.main.run(rows, &mut way)?;
        }
        Ok(())
    }

    /// One portion of what is under way.
    fn work(&mut self) -> Result<()> {
        let Some(operator) = &mut self.operator else { return Err(Error::internal("the operator is not open")) };
        let (flow, next) = match self.work {
            Work::None | Work::Ended => return Ok(()),
            Work::Advance(at) => (operator.on_watermark(at, &mut self.scratch)?, Work::None),
            Work::Timers(barrier) => (operator.on_time(&mut self.scratch)?, Work::Deferred(barrier)),
            Work::Deferred(barrier) => {
                let next = match barrier.kind {
                    BarrierKind::Drain => Work::Drain(barrier),
                    BarrierKind::Checkpoint | BarrierKind::Suspend => Work::Seal(barrier),
                };
                (operator.on_barrier(&mut self.scratch)?, next)
            }
            Work::Drain(barrier) => (operator.on_drain(&mut self.scratch)?, Work::Seal(barrier)),
            Work::Seal(barrier) => return self.seal(barrier),
        };
        self.count(0)?;
        self.deliver()?;
        self.forward();
        match flow {
            Flow::More => Ok(()),
            Flow::Done => {
                if let (Work::Advance(at), Some(operator)) = (self.work, &self.operator) {
                    self.parts.outputs.watermark(Watermark::At(operator.output_watermark(at)));
                }
                self.work = next;
                Ok(())
            }
        }
    }

    /// Tells downstream of the time that deferred rows held back.
    fn forward(&mut self) {
        if let (Some(operator), Some(at)) = (&mut self.operator, self.reached)
            && operator.has_caught_up()
        {
            self.parts.outputs.watermark(Watermark::At(operator.output_watermark(at)));
        }
        if self.idles_later && !self.operator.as_ref().is_some_and(Running::is_behind) {
            self.idles_later = false;
            self.idle();
        }
    }

    /// Holds nobody back any more, unless something is still to come out.
    fn idle(&mut self) {
        if !self.idles_later {
            self.reached = None;
            self.parts.outputs.watermark(Watermark::Idle);
        }
    }

    fn seal(&mut self, barrier: Barrier) -> Result<()> {
        let Some(operator) = &mut self.operator else { return Err(Error::internal("the operator is not open")) };
        let seat = &self.parts.seat;
        let pieces = operator.snapshot(barrier.epoch)?;
        let (mut state, ids) = name_pieces(self.parts.ctx.run.generation, barrier.epoch, &seat.node, seat.task as u32, pieces);
        operator.pieces_named(barrier.epoch, ids);
        if self.parts.planted.is(Planted::KeptPiecesForgotten) {
            state.pieces.retain(|piece| !matches!(piece, SnapshotPiece::Kept(_)));
        }
        let snapshot = TaskSnapshot { states: vec![state], ..TaskSnapshot::default() };
        self.parts.outputs.barrier(barrier)?;
        seat.report(Report::Acknowledged { epoch: barrier.epoch, snapshot: Box::new(snapshot) });
        self.parts.now = barrier.now;
        self.work = Work::None;
        if self.parts.inputs.release() {
            self.end()?;
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.work = Work::Ended;
        self.parts.outputs.end()
    }

    fn rest(&mut self) -> Result<Turn> {
        let Some(operator) = &mut self.operator else { return Err(Error::internal("the operator is not open")) };
        let flow = operator.on_time(&mut self.scratch)?;
        let made = !self.scratch.batches.is_empty() || !self.scratch.bad.is_empty();
        self.count(0)?;
        self.deliver()?;
        self.forward();
        if made || flow == Flow::More {
            return Ok(Turn::Progress);
        }
        self.parts.outputs.settle()?;
        if self.parts.outputs.flush()? {
            Ok(Turn::Starved { until: Some(self.parts.seat.clock.monotonic().saturating_add(HEARTBEAT)) })
        } else {
            Ok(Turn::Backpressured)
        }
    }
}

impl Task for OperatorTask {
    fn step(&mut self) -> Result<Turn> {
        if self.operator.is_none() {
            return self.open();
        }
        if !self.parts.outputs.flush()? {
            return Ok(Turn::Backpressured);
        }
        match self.work {
            Work::None => self.read(),
            Work::Ended => Ok(Turn::Done),
            Work::Advance(_) | Work::Timers(_) | Work::Deferred(_) | Work::Drain(_) | Work::Seal(_) => {
                self.work()?;
                Ok(Turn::Progress)
            }
        }
    }
}

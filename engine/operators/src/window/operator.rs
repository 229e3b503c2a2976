//! The operator: rows in, windows out.

mod emission;
mod late;
mod updates;

use super::arithmetic::{Run, Unit, runs};
use super::calendar::Grid;
use super::panes::{Panes, Shape};
use super::state;
use crate::aggregates::{BoundAggregate, Dealing, far_times, null_times};
use crate::expression::BadRows;
use crate::fired::{FIRED, Fired};
use crate::lean::Saved;
use crate::when::{Quiet, Time, When};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, take};
use arrow::datatypes::{DataType, SchemaRef};
use std::sync::Arc;
use tidegate_api::{
    Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature, StatePiece,
    time::raw_times,
};

use emission::{Firing, Made};
use updates::Updates;

const NAME: &str = "windowedAggregate";
/// Rows that alternate between panes more often than this are brought in order first: work per run must stay work per batch.
const SHORT_RUN: usize = 16;

/// A stage, typed.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) grid: Grid,
    pub(super) time: Time,
    pub(super) when: When,
    /// The group columns' indices and types.
    pub(super) groups: Vec<usize>,
    pub(super) group_types: Vec<DataType>,
    /// Those among the groups that decide a row's vnode.
    pub(super) dealt_by: Vec<usize>,
    pub(super) aggregates: Vec<BoundAggregate>,
    /// The output: window, groups, results, `_key` when `keyed`, `_op` when rows replace earlier ones.
    pub(super) schema: SchemaRef,
    pub(super) keyed: bool,
    pub(super) signature: Signature,
}

/// Opens the operator of each task.
#[derive(Debug)]
pub(super) struct WindowFactory {
    plan: Arc<Plan>,
}

impl WindowFactory {
    pub(super) fn new(plan: Plan) -> Self {
        WindowFactory { plan: Arc::new(plan) }
    }
}

impl OperatorFactory for WindowFactory {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> Signature {
        self.plan.signature.clone()
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }

    fn open(&self, ctx: OperatorCtx) -> Result<Box<dyn Operator>> {
        let aggregates = self.plan.aggregates.iter().map(|bound| bound.aggregate.clone()).collect();
        let shape = Shape::new(self.plan.group_types.clone(), aggregates)?;
        Ok(Box::new(WindowedAggregate {
            plan: Arc::clone(&self.plan),
            panes: Panes::new(shape),
            fired: Fired::new(ctx.vnodes),
            cursor: i64::MIN,
            firing: None,
            updates: Updates::default(),
            quiet: Quiet::default(),
            promised: i64::MIN,
            named: Vec::new(),
            scratch: Scratch::default(),
            ctx,
        }))
    }
}

/// Buffers that keep their memory from batch to batch.
#[derive(Debug, Default)]
struct Scratch {
    runs: Vec<Run>,
    far: Vec<usize>,
    numbers: Vec<u32>,
    hashes: Vec<u64>,
}

/// What the new pieces of the last snapshot hold.
#[derive(Debug, Clone, Copy)]
enum Named {
    /// The pane that starts there, so many pieces.
    Pane(i64, usize),
    Fired,
}

struct WindowedAggregate {
    plan: Arc<Plan>,
    ctx: OperatorCtx,
    panes: Panes,
    /// Through which moment each vnode has fired.
    fired: Fired,
    /// The mark at which windows end that have fired, also while a watermark is being worked through.
    cursor: i64,
    firing: Option<Firing>,
    updates: Updates,
    quiet: Quiet,
    /// Everything through this moment is being fired because of the clock. Rows may come in between: what they belong to has
    /// been promised away.
    promised: i64,
    named: Vec<Named>,
    scratch: Scratch,
}

impl Operator for WindowedAggregate {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.quiet.rows_came();
        let mut bad = BadRows::default();
        let Time::Column { index, name, .. } = &self.plan.time else {
            self.scratch.runs.clear();
            let pane = self.plan.grid.pane_of(self.now());
            let pane = pane.ok_or_else(|| Error::internal("the clock shows a time that no window holds"))?;
            self.scratch.runs.push(Run { pane, from: 0, to: batch.num_rows() });
            let masks = self.masks(&batch, &mut bad);
            if bad.is_empty() {
                return self.absorb(batch, masks, out);
            }
            let good = filter_record_batch(&batch, &BooleanArray::new(bad.good(batch.num_rows()), None))?;
            bad.report(&batch, out);
            return self.on_batch(0, good, out);
        };
        let (times, scale) = raw_times(batch.column(*index))?;
        runs(times.values(), Unit::of(scale), &self.plan.grid, &mut self.scratch.runs, &mut self.scratch.far);
        null_times(&times, name, &mut bad);
        far_times(&self.scratch.far, &times, name, &mut bad);
        let masks = self.masks(&batch, &mut bad);
        if bad.is_empty() {
            return self.absorb(batch, masks, out);
        }
        let good = filter_record_batch(&batch, &BooleanArray::new(bad.good(batch.num_rows()), None))?;
        let reported = out.bad.len();
        bad.report(&batch, out);
        for row in &mut out.bad[reported..] {
            let index = row.row.filter(|index| times.is_valid(*index));
            row.event_time = index.map(|index| scale.event_time(times.value(index)));
        }
        self.on_batch(0, good, out)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<Flow> {
        match self.plan.time {
            // Only the end of the input means something to windows of the clock.
            Time::Clock if watermark != EventTime::MAX => Ok(Flow::Done),
            Time::Clock | Time::Column { .. } => self.advance(Some(self.plan.when.through(watermark)), out),
        }
    }

    fn on_time(&mut self, out: &mut Output) -> Result<Flow> {
        let through = match self.plan.time {
            Time::Clock => Some(self.now()),
            Time::Column { .. } => self.idle_through(),
        };
        if let Some(through) = through {
            self.promised = self.promised.max(through);
        }
        let through = (self.promised > self.fired.low).then_some(self.promised);
        if through.is_none() && !self.plan.when.updates() && self.firing.is_none() {
            return Ok(Flow::Done);
        }
        self.advance(through, out)
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        match (watermark, &self.plan.time) {
            (EventTime::MIN | EventTime::MAX, _) => watermark,
            // Its windows are not on the clock of the rows.
            (_, Time::Clock) => EventTime::MIN,
            (at, Time::Column { .. }) => {
                let grid = &self.plan.grid;
                let open = grid.windows.open_start(grid.reached(self.plan.when.through(at).saturating_sub(self.plan.when.lateness)));
                EventTime(grid.moment(open).saturating_mul(1000)).min(at)
            }
        }
    }

    fn measure(&mut self) {
        self.ctx.state_bytes.set(self.panes.bytes() as u64);
    }

    fn snapshot(&mut self, _epoch: Epoch) -> Result<Vec<StatePiece>> {
        if self.firing.is_some() {
            return Err(Error::internal("a snapshot was asked for while a window is being emitted"));
        }
        let vnodes = self.ctx.vnodes;
        let dealing = Dealing { by: self.plan.dealt_by.clone(), count: self.ctx.vnode_count };
        let mut pieces = Vec::new();
        self.named.clear();
        let (panes, shape) = self.panes.all();
        for (start, pane) in panes {
            let new = state::save_pane(start, pane, shape, &dealing, vnodes, &mut pieces)?;
            if new > 0 {
                self.named.push(Named::Pane(start, new));
            }
        }
        match &self.fired.saved {
            Some(id) => pieces.push(StatePiece::Kept(id.clone())),
            None => {
                let data = self.fired.encode();
                pieces.push(StatePiece::New { name: FIRED.into(), vnodes, data });
                self.named.push(Named::Fired);
            }
        }
        self.ctx.state_bytes.set(self.panes.bytes() as u64);
        Ok(pieces)
    }

    fn forget_pieces(&mut self) {
        let (panes, _) = self.panes.all();
        for (_, pane) in panes {
            pane.saved = Saved::No;
        }
        self.fired.saved = None;
    }

    fn pieces_named(&mut self, _epoch: Epoch, ids: Vec<PieceId>) {
        let mut ids = ids.into_iter();
        for named in self.named.drain(..) {
            match named {
                Named::Fired => self.fired.saved = ids.next(),
                Named::Pane(start, new) => {
                    let mut ids = ids.by_ref().take(new);
                    if let Some(pane) = self.panes.get(start) {
                        state::name_pane(pane, &mut ids);
                    }
                    ids.for_each(drop);
                }
            }
        }
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        pieces.iter().filter(|piece| piece.name == FIRED).try_for_each(|piece| self.fired.restore(piece))?;
        let panes = pieces.iter().filter(|piece| piece.name != FIRED);
        state::restore_panes(&mut self.panes, panes, self.plan.groups.len(), self.ctx.vnodes)?;
        self.cursor = self.plan.grid.reached(self.fired.low);
        self.ctx.state_bytes.set(self.panes.bytes() as u64);
        Ok(())
    }
}

impl WindowedAggregate {
    /// The rows that each aggregate takes, where it does not take all.
    fn masks(&self, batch: &RecordBatch, bad: &mut BadRows) -> Vec<Option<BooleanBuffer>> {
        self.plan.aggregates.iter().map(|bound| bound.mask(batch, bad)).collect()
    }

    /// What the clock shows, never before what has fired: a clock that was put back must not make rows late.
    fn now(&self) -> i64 {
        self.ctx.clock.wall().as_millis().max(self.fired.high).max(self.promised)
    }

    /// Emits what changed since it was emitted, and then, with `through`, the windows that end there or before. One portion.
    fn advance(&mut self, through: Option<i64>, out: &mut Output) -> Result<Flow> {
        let mut made = Made::new(self.ctx.batch_rows.max(1));
        loop {
            if let Some(mut firing) = self.firing.take() {
                while firing.next < firing.columns.rows {
                    let rows = made.room().min(firing.columns.rows - firing.next);
                    made.push(self.portion(&firing, rows, out)?, rows);
                    firing.next += rows;
                    if made.room() == 0 {
                        made.flush(&self.plan, out)?;
                        self.firing = Some(firing);
                        return Ok(Flow::More);
                    }
                }
            }
            if let Some(end) = self.next_update() {
                self.firing = Some(self.update(end)?);
                continue;
            }
            let Some(through) = through else { break };
            match self.next_due(self.plan.grid.reached(through), self.closed(through)) {
                Some(end) => self.firing = Some(self.fire(end)?),
                None => {
                    self.fired.raise(through);
                    self.cursor = self.cursor.max(self.plan.grid.reached(self.fired.low));
                    break;
                }
            }
        }
        made.flush(&self.plan, out)?;
        self.ctx.state_bytes.set(self.panes.bytes() as u64);
        Ok(Flow::Done)
    }

    /// The mark through which windows are done with for good once everything through a moment has fired.
    fn closed(&self, through: i64) -> i64 {
        self.plan.grid.reached(through.saturating_sub(self.plan.when.lateness))
    }

    /// Takes good rows; `scratch.runs` are theirs.
    fn absorb(&mut self, batch: RecordBatch, masks: Vec<Option<BooleanBuffer>>, out: &mut Output) -> Result<()> {
        self.set_late_aside(&batch, out)?;
        if self.scratch.runs.is_empty() {
            return Ok(());
        }
        let mut groups: Vec<ArrayRef> = self.plan.groups.iter().map(|index| Arc::clone(batch.column(*index))).collect();
        let mut values: Vec<Option<ArrayRef>> = Vec::with_capacity(masks.len());
        for (bound, mask) in self.plan.aggregates.iter().zip(masks) {
            values.push(bound.values(&batch, mask)?);
        }
        if self.scratch.runs.len() > 2 && self.scratch.runs.len() * SHORT_RUN > batch.num_rows() {
            let order = bring_in_order(&mut self.scratch.runs);
            for column in groups.iter_mut().chain(values.iter_mut().flatten()) {
                *column = take(column, &order, None)?;
            }
        }
        let keys = self.panes.shape().keys(&groups)?;
        let watched = self.watched();
        let mut rows = 0;
        for run in &self.scratch.runs {
            let watch = watched.is_some_and(|mark| self.plan.grid.windows.first_end(run.pane) <= mark);
            self.panes.at(run.pane)?.absorb(&keys, &values, run.from..run.to, &mut self.scratch.numbers, watch)?;
            rows += run.to - run.from;
        }
        self.changed(rows);
        Ok(())
    }

    /// The vnodes of rows with these groups.
    fn dealt(&mut self, groups: &[ArrayRef], rows: usize) -> Result<Vec<u16>> {
        let columns: Vec<ArrayRef> = self.plan.dealt_by.iter().map(|index| Arc::clone(&groups[*index])).collect();
        crate::fired::vnodes(&columns, rows, self.ctx.vnode_count, &mut self.scratch.hashes)
    }
}

/// Sorts runs by pane and joins those of one pane; gives the rows in their new order. Rows of a pane keep theirs.
fn bring_in_order(runs: &mut Vec<Run>) -> UInt32Array {
    runs.sort_by_key(|run| run.pane);
    let order: UInt32Array = runs.iter().flat_map(|run| run.from as u32..run.to as u32).collect::<Vec<u32>>().into();
    let mut joined: Vec<Run> = Vec::new();
    let mut row = 0;
    for run in runs.iter() {
        let rows = run.to - run.from;
        match joined.last_mut().filter(|last| last.pane == run.pane) {
            Some(last) => last.to += rows,
            None => joined.push(Run { pane: run.pane, from: row, to: row + rows }),
        }
        row += rows;
    }
    *runs = joined;
    order
}

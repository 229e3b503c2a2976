//! The operator: rows in, windows out.

mod emission;

use super::arithmetic::{Run, Unit, Windows, runs};
use super::panes::{Aggregate, Panes, Shape};
use super::state;
use crate::aggregates::masked;
use crate::expression::{BadRows, truths};
use crate::fired::{self, FIRED, Fired};
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, take, take_record_batch};
use arrow::datatypes::{DataType, Field, SchemaRef};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::{
    BadReason, Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature,
    StatePiece, time::raw_times,
};
use tidegate_dialect::Compiled;

use emission::{Firing, Made};

const NAME: &str = "windowedAggregate";
/// Rows that alternate between panes more often than this are brought in order first: work per run must stay work per batch.
const SHORT_RUN: usize = 16;

/// A stage, typed.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) windows: Windows,
    /// The time column's index and zone.
    pub(super) time: usize,
    pub(super) zone: Option<Arc<str>>,
    /// The group columns' indices and types.
    pub(super) groups: Vec<usize>,
    pub(super) group_types: Vec<DataType>,
    pub(super) aggregates: Vec<BoundAggregate>,
    /// The output: window, groups, results, and `_key` when `keyed`.
    pub(super) schema: SchemaRef,
    pub(super) keyed: bool,
    pub(super) signature: Signature,
}

/// An aggregate of a stage, typed.
#[derive(Debug)]
pub(super) struct BoundAggregate {
    pub(super) aggregate: Aggregate,
    /// Its column's index.
    pub(super) column: Option<usize>,
    /// The condition on the rows it takes.
    pub(super) filter: Option<Compiled>,
    /// The columns that the condition reads.
    pub(super) reads: BTreeSet<String>,
    /// Its output column.
    pub(super) field: Field,
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

/// What a new piece of the last snapshot holds.
#[derive(Debug, Clone, Copy)]
enum Named {
    Pane(i64),
    Fired,
}

struct WindowedAggregate {
    plan: Arc<Plan>,
    ctx: OperatorCtx,
    panes: Panes,
    fired: Fired,
    /// Windows that end here or before are done with, also while a watermark is being worked through.
    cursor: i64,
    firing: Option<Firing>,
    named: Vec<Named>,
    scratch: Scratch,
}

impl Operator for WindowedAggregate {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let (times, scale) = raw_times(batch.column(self.plan.time))?;
        runs(times.values(), Unit::of(scale), self.plan.windows, &mut self.scratch.runs, &mut self.scratch.far);
        let mut bad = BadRows::default();
        self.find_bad_times(&times, &mut bad);
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
        let through = watermark.as_millis();
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
            match self.next_due(through) {
                Some(end) => self.firing = Some(self.fire(end)?),
                None => break,
            }
        }
        made.flush(&self.plan, out)?;
        self.fired.raise(through);
        self.cursor = self.cursor.max(self.fired.low);
        self.ctx.state_bytes.set(self.panes.bytes() as u64);
        Ok(Flow::Done)
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        match watermark {
            EventTime::MIN | EventTime::MAX => watermark,
            at => EventTime(self.plan.windows.open_start(at.as_millis()).saturating_mul(1000)).min(at),
        }
    }

    fn snapshot(&mut self, _epoch: Epoch) -> Result<Vec<StatePiece>> {
        if self.firing.is_some() {
            return Err(Error::internal("a snapshot was asked for while a window is being emitted"));
        }
        let vnodes = self.ctx.vnodes;
        let mut pieces = Vec::new();
        self.named.clear();
        let (panes, shape) = self.panes.all();
        for (start, pane) in panes {
            if pane.dirty {
                let data = state::encode_pane(pane, shape, self.ctx.vnode_count)?;
                pieces.push(StatePiece::New { name: state::pane_name(start), vnodes, data });
                self.named.push(Named::Pane(start));
                pane.saved.clear();
            } else {
                pieces.extend(pane.saved.iter().cloned().map(StatePiece::Kept));
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

    fn pieces_named(&mut self, _epoch: Epoch, ids: Vec<PieceId>) {
        for (named, id) in self.named.drain(..).zip(ids) {
            match named {
                Named::Fired => self.fired.saved = Some(id),
                Named::Pane(start) => {
                    if let Some(pane) = self.panes.get(start) {
                        pane.saved = vec![id];
                        pane.dirty = false;
                    }
                }
            }
        }
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        let own = self.ctx.vnodes;
        let groups = self.plan.groups.len();
        // A pane may come in several pieces, from the tasks of another time. It is unchanged only if all of them are ours whole.
        let mut partial = BTreeSet::new();
        for piece in &pieces {
            if piece.name == FIRED {
                self.fired.restore(piece)?;
                continue;
            }
            let start = state::pane_start(&piece.name)
                .ok_or_else(|| Error::external(format!("state piece `{}` is none of this operator's", piece.name)))?;
            state::restore_pane(&mut self.panes, start, piece, groups, own)?;
            if !own.covers(piece.vnodes) {
                partial.insert(start);
            }
            if let Some(pane) = self.panes.get(start) {
                pane.saved.push(piece.id.clone());
            }
        }
        let (panes, _) = self.panes.all();
        for (start, pane) in panes {
            pane.dirty = partial.contains(&start);
        }
        self.cursor = self.fired.low;
        self.ctx.state_bytes.set(self.panes.bytes() as u64);
        Ok(())
    }
}

impl WindowedAggregate {
    fn find_bad_times(&self, times: &Int64Array, bad: &mut BadRows) {
        let name = || self.plan.signature.parameters.get("timeColumn").and_then(|name| name.as_str()).unwrap_or_default();
        if let Some(nulls) = times.nulls().filter(|nulls| nulls.null_count() > 0) {
            for row in (0..times.len()).filter(|row| nulls.is_null(*row)) {
                bad.add(row, BadReason::MissingValue, Some(name()), || format!("the time column `{}` is null", name()));
            }
        }
        for row in &self.scratch.far {
            bad.add(*row, BadReason::TypeMismatch, Some(name()), || {
                format!("the time `{}` in column `{}` is too far from 1970 for a window", times.value(*row), name())
            });
        }
    }

    /// The rows that each aggregate takes, where it does not take all.
    fn masks(&self, batch: &RecordBatch, bad: &mut BadRows) -> Vec<Option<BooleanBuffer>> {
        let mask = |bound: &BoundAggregate, bad: &mut BadRows| {
            let evaluated = bound.filter.as_ref()?.evaluate(batch, EventTime(0));
            bad.add_failed(evaluated.bad, Some(bound.field.name()));
            Some(truths(&evaluated.values))
        };
        self.plan.aggregates.iter().map(|bound| mask(bound, bad)).collect()
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
            let column = bound.column.map(|index| bound.aggregate.function.prepared(batch.column(index))).transpose()?;
            values.push(match mask {
                None => column,
                Some(passing) => Some(masked(column, passing)?),
            });
        }
        if self.scratch.runs.len() > 2 && self.scratch.runs.len() * SHORT_RUN > batch.num_rows() {
            let order = bring_in_order(&mut self.scratch.runs);
            for column in groups.iter_mut().chain(values.iter_mut().flatten()) {
                *column = take(column, &order, None)?;
            }
        }
        let keys = self.panes.shape().keys(&groups)?;
        for run in &self.scratch.runs {
            self.panes.at(run.pane)?.absorb(&keys, &values, run.from..run.to, &mut self.scratch.numbers)?;
        }
        Ok(())
    }

    /// Takes the rows out of `scratch.runs` for which every window has fired.
    fn set_late_aside(&mut self, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        let (windows, fired) = (self.plan.windows, &self.fired);
        if self.scratch.runs.iter().all(|run| windows.first_end(run.pane) > fired.high) {
            return Ok(());
        }
        let mut vnodes = None;
        let mut kept: Vec<Run> = Vec::with_capacity(self.scratch.runs.len());
        let mut late: Vec<u32> = Vec::new();
        for run in &self.scratch.runs {
            let (first, last) = (windows.first_end(run.pane), windows.last_end(run.pane));
            if last <= fired.low {
                late.extend(run.from as u32..run.to as u32);
            } else if first > fired.high {
                kept.push(*run);
            } else if fired.low == fired.high {
                out.late_windows += (run.to - run.from) as u64;
                kept.push(*run);
            } else {
                // Only after a restore that brought vnodes of different progress together, until the next watermark.
                if vnodes.is_none() {
                    let groups: Vec<ArrayRef> = self.plan.groups.iter().map(|index| Arc::clone(batch.column(*index))).collect();
                    vnodes = Some(fired::vnodes(&groups, batch.num_rows(), self.ctx.vnode_count, &mut self.scratch.hashes)?);
                }
                for row in run.from..run.to {
                    let vnode = vnodes.as_ref().map_or(0, |vnodes| vnodes[row]);
                    let through = fired.of(vnode)?;
                    if last <= through {
                        late.push(row as u32);
                        continue;
                    }
                    out.late_windows += u64::from(first <= through);
                    match kept.last_mut().filter(|previous| previous.pane == run.pane && previous.to == row) {
                        Some(previous) => previous.to += 1,
                        None => kept.push(Run { pane: run.pane, from: row, to: row + 1 }),
                    }
                }
            }
        }
        if late.len() == batch.num_rows() {
            out.late.push(batch.clone());
        } else if !late.is_empty() {
            out.late.push(take_record_batch(batch, &UInt32Array::from(late))?);
        }
        self.scratch.runs = kept;
        Ok(())
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

//! The operator: rows in, groups out.

use super::config::Emit;
use super::groups::{Groups, Ttl};
use crate::aggregates::BoundAggregate;
use crate::expression::BadRows;
use crate::fired::{self, FIRED, Fired};
use crate::last::{misfit, rows};
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter, filter_record_batch};
use arrow::datatypes::{DataType, SchemaRef};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    BadReason, Epoch, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature,
    StatePiece, TimeScale, hidden, time::raw_times,
};

/// Portions that are told at once.
const PORTIONS: usize = 4;

/// A time column.
#[derive(Debug)]
pub(super) struct Time {
    pub(super) index: usize,
    pub(super) name: String,
    pub(super) scale: TimeScale,
}

/// A stage, typed.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) groups: Vec<usize>,
    pub(super) group_types: Vec<DataType>,
    pub(super) aggregates: Vec<BoundAggregate>,
    pub(super) emit: Emit,
    pub(super) time: Option<Time>,
    /// In milliseconds; there is a time where there is one.
    pub(super) ttl: Option<i64>,
    /// Groups, results, `_op` unless groups are told once, and `_key` when `keyed`.
    pub(super) schema: SchemaRef,
    pub(super) keyed: bool,
    pub(super) signature: Signature,
}

/// Opens the operator of each task.
#[derive(Debug)]
pub(super) struct AggregateFactory {
    plan: Arc<Plan>,
}

impl AggregateFactory {
    pub(super) fn new(plan: Plan) -> Self {
        AggregateFactory { plan: Arc::new(plan) }
    }
}

impl OperatorFactory for AggregateFactory {
    fn name(&self) -> &str {
        "aggregate"
    }

    fn signature(&self) -> Signature {
        self.plan.signature.clone()
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }

    fn open(&self, ctx: OperatorCtx) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Aggregating {
            groups: Groups::new(self.plan.group_types.clone(), &self.plan.aggregates, self.plan.ttl.is_some())?,
            horizon: self.plan.ttl.map(|_| Fired::new(ctx.vnodes)),
            horizon_named: false,
            next_sweep: i64::MIN,
            scale: self.plan.time.as_ref().map_or(TimeScale::Times(1), |time| time.scale),
            rows: 0,
            told_at: ctx.clock.monotonic(),
            due: false,
            next_final: 0,
            hashes: Vec::new(),
            plan: Arc::clone(&self.plan),
            ctx,
        }))
    }
}

struct Aggregating {
    plan: Arc<Plan>,
    ctx: OperatorCtx,
    groups: Groups,
    /// Rows before this many milliseconds are late: the watermark less the time to live, by vnode.
    horizon: Option<Fired>,
    horizon_named: bool,
    /// The horizon at which groups that ended are looked for again.
    next_sweep: i64,
    scale: TimeScale,
    /// Rows taken since groups were last told, and when that was.
    rows: u64,
    told_at: Duration,
    /// Whether what waits is being told.
    due: bool,
    /// The next group to be told when the input has ended.
    next_final: usize,
    hashes: Vec<u64>,
}

impl Operator for Aggregating {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let mut bad = BadRows::default();
        let times = self.times(&batch, &mut bad)?;
        let masks: Vec<Option<BooleanBuffer>> = self.plan.aggregates.iter().map(|bound| bound.mask(&batch, &mut bad)).collect();
        if !bad.is_empty() {
            let good = filter_record_batch(&batch, &BooleanArray::new(bad.good(batch.num_rows()), None))?;
            bad.report(&batch, out);
            return self.on_batch(0, good, out);
        }
        if let Some(late) = self.late(&batch, times.as_ref())? {
            let aside = filter_record_batch(&batch, &BooleanArray::new(late.clone(), None))?;
            out.late.push(aside);
            let passing = filter_record_batch(&batch, &BooleanArray::new(!&late, None))?;
            return self.on_batch(0, passing, out);
        }
        if batch.num_rows() > 0 {
            self.absorb(&batch, masks, times)?;
        }
        self.rows += batch.num_rows() as u64;
        self.come_due();
        for _ in 0..PORTIONS {
            if self.tell(out)? == Flow::Done {
                break;
            }
        }
        Ok(())
    }

    fn on_watermark(&mut self, watermark: EventTime, _out: &mut Output) -> Result<Flow> {
        let (Some(horizon), Some(ttl)) = (&mut self.horizon, self.plan.ttl) else { return Ok(Flow::Done) };
        horizon.raise(watermark.as_millis().saturating_sub(ttl));
        let reached = horizon.low;
        if reached >= self.next_sweep {
            self.next_sweep = reached.saturating_add((ttl / 4).max(1));
            let (limit, ttl, scale) = (reached.saturating_mul(1000), ttl.saturating_mul(1000), self.scale);
            self.groups.sweep(|time| scale.to_micros(time).saturating_add(ttl) <= limit)?;
            self.ctx.state_bytes.set(self.groups.bytes() as u64);
        }
        Ok(Flow::Done)
    }

    fn on_time(&mut self, out: &mut Output) -> Result<Flow> {
        self.come_due();
        self.tell(out)
    }

    fn on_drain(&mut self, out: &mut Output) -> Result<Flow> {
        if self.plan.emit != Emit::Final {
            self.due = true;
            return self.tell(out);
        }
        let to = self.groups.len().min(self.next_final + self.ctx.batch_rows.max(1));
        let groups: Vec<u32> = (self.next_final as u32..to as u32).collect();
        self.next_final = to;
        if !groups.is_empty() {
            self.emit(&groups, out)?;
        }
        Ok(if to < self.groups.len() { Flow::More } else { Flow::Done })
    }

    fn measure(&mut self) {
        self.ctx.state_bytes.set(self.groups.bytes() as u64);
    }

    fn snapshot(&mut self, _epoch: Epoch) -> Result<Vec<StatePiece>> {
        let mut pieces = Vec::new();
        self.horizon_named = false;
        if let Some(horizon) = &self.horizon {
            self.horizon_named = horizon.saved.is_none();
            pieces.push(match &horizon.saved {
                Some(id) => StatePiece::Kept(id.clone()),
                None => StatePiece::New { name: FIRED.into(), vnodes: self.ctx.vnodes, data: horizon.encode() },
            });
        }
        self.groups.snapshot(&self.ctx, &mut pieces)?;
        self.ctx.state_bytes.set(self.groups.bytes() as u64);
        Ok(pieces)
    }

    fn forget_pieces(&mut self) {
        if let Some(horizon) = &mut self.horizon {
            horizon.saved = None;
        }
        self.groups.forget_pieces();
    }

    fn pieces_named(&mut self, _epoch: Epoch, ids: Vec<PieceId>) {
        if let Some(horizon) = self.horizon.as_mut().filter(|_| self.horizon_named) {
            horizon.saved = ids.first().cloned();
        }
        self.groups.named(ids, usize::from(self.horizon_named));
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        if let Some(horizon) = &mut self.horizon {
            pieces.iter().filter(|piece| piece.name == FIRED).try_for_each(|piece| horizon.restore(piece))?;
        }
        self.groups.restore(&pieces, &self.ctx)?;
        self.ctx.state_bytes.set(self.groups.bytes() as u64);
        Ok(())
    }
}

impl Aggregating {
    /// The times of a batch, where groups end by them or aggregates go by them; rows without one are bad.
    fn times(&self, batch: &RecordBatch, bad: &mut BadRows) -> Result<Option<Int64Array>> {
        let Some(time) = &self.plan.time else { return Ok(None) };
        let (times, scale) = raw_times(batch.column(time.index))?;
        if let Some(nulls) = times.nulls().filter(|nulls| nulls.null_count() > 0) {
            for row in (0..times.len()).filter(|row| nulls.is_null(*row)) {
                let message = || format!("the time column `{}` is null", time.name);
                bad.add(row, BadReason::MissingValue, Some(&time.name), message);
            }
        }
        if let (Some(_), TimeScale::Times(factor)) = (self.plan.ttl, scale) {
            let far = |row: &usize| times.is_valid(*row) && times.value(*row).checked_mul(factor).is_none();
            for row in (0..times.len()).filter(far) {
                let message = || format!("the time `{}` in column `{}` is too far from 1970", times.value(row), time.name);
                bad.add(row, BadReason::TypeMismatch, Some(&time.name), message);
            }
        }
        Ok(Some(times))
    }

    /// The rows that are late, if any are.
    fn late(&mut self, batch: &RecordBatch, times: Option<&Int64Array>) -> Result<Option<BooleanBuffer>> {
        let (Some(horizon), Some(times)) = (&self.horizon, times) else { return Ok(None) };
        let scale = self.scale;
        let millis = |row: usize| scale.event_time(times.value(row)).as_millis();
        if (0..batch.num_rows()).all(|row| millis(row) >= horizon.high) {
            return Ok(None);
        }
        let mut late = Vec::with_capacity(batch.num_rows());
        if horizon.low == horizon.high {
            late.extend((0..batch.num_rows()).map(|row| millis(row) < horizon.low));
        } else {
            let keys = self.key_columns(batch);
            let vnodes = fired::vnodes(&keys, batch.num_rows(), self.ctx.vnode_count, &mut self.hashes)?;
            for (row, vnode) in vnodes.into_iter().enumerate() {
                late.push(millis(row) < horizon.of(vnode)?);
            }
        }
        Ok(late.contains(&true).then(|| BooleanBuffer::from(late)))
    }

    fn key_columns(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.plan.groups.iter().map(|index| Arc::clone(batch.column(*index))).collect()
    }

    fn absorb(&mut self, batch: &RecordBatch, masks: Vec<Option<BooleanBuffer>>, times: Option<Int64Array>) -> Result<()> {
        let values: Vec<Option<ArrayRef>> =
            self.plan.aggregates.iter().zip(masks).map(|(bound, mask)| bound.values(batch, mask)).collect::<Result<_>>()?;
        let keys = self.groups.keys(&self.key_columns(batch))?;
        let ttl: Option<Ttl> = self.plan.ttl.map(|ttl| (ttl.saturating_mul(1000), self.scale));
        self.groups.absorb(&keys, batch.num_rows(), &values, times.as_ref().zip(ttl))
    }

    /// Notes whether it is time to tell what has changed.
    fn come_due(&mut self) {
        let now = self.ctx.clock.monotonic();
        self.due |= match self.plan.emit {
            Emit::Batches => true,
            Emit::Rows(rows) => self.rows >= rows,
            Emit::Every(every) => now.saturating_sub(self.told_at) >= every,
            Emit::Final => false,
        };
        if self.due {
            self.rows = 0;
            self.told_at = now;
        }
    }

    /// Tells a portion of what has changed, if it is time to.
    fn tell(&mut self, out: &mut Output) -> Result<Flow> {
        if !self.due {
            return Ok(Flow::Done);
        }
        let groups = self.groups.next_changed(self.ctx.batch_rows.max(1));
        if !groups.is_empty() {
            self.emit(&groups, out)?;
        }
        self.due = self.groups.any_waiting();
        Ok(if self.due { Flow::More } else { Flow::Done })
    }

    /// Emits some groups.
    fn emit(&self, groups: &[u32], out: &mut Output) -> Result<()> {
        let (keys, accumulators) = self.groups.of(groups)?;
        let mut misfits: BTreeSet<usize> = BTreeSet::new();
        let mut results = Vec::with_capacity(accumulators.len());
        for (bound, accumulator) in self.plan.aggregates.iter().zip(accumulators) {
            let finished = accumulator.finish()?;
            for (group, value) in finished.misfits {
                out.bad.push(misfit(&self.plan.schema, &bound.field, &value, &keys, group));
                misfits.insert(group);
            }
            results.push(finished.values);
        }
        // A row that is told once is told right or not at all; one that is an update has null, so that an older value does not stay.
        if self.plan.emit == Emit::Final && !misfits.is_empty() {
            let passing: BooleanArray = (0..groups.len()).map(|group| Some(!misfits.contains(&group))).collect();
            let passed =
                |columns: &[ArrayRef]| columns.iter().map(|column| filter(column, &passing)).collect::<std::result::Result<_, _>>();
            out.emit(rows(&self.plan.schema, passed(&keys)?, passed(&results)?, None, self.plan.keyed)?);
            return Ok(());
        }
        let ops = (self.plan.emit != Emit::Final).then(|| vec![hidden::UPSERT; groups.len()]);
        out.emit(rows(&self.plan.schema, keys, results, ops, self.plan.keyed)?);
        Ok(())
    }
}

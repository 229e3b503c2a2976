//! The operator: rows in, pairs out, and what time makes of those that wait.

use super::bounds::{FARTHEST_MS, Which};
use super::late::Late;
use super::output::Picked;
use super::plan::Plan;
use super::probe::{Candidates, Probe, without_nulls};
use super::side::{Ptr, Side};
use super::state::Named;
use crate::expression::BadRows;
use crate::fired::Fired;
use crate::texts::Compactor;
use crate::window::Unit;
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{filter_record_batch, take, take_record_batch};
use arrow::datatypes::SchemaRef;
use std::collections::VecDeque;
use std::sync::Arc;
use tidegate_api::{
    BadReason, Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature,
    StatePiece, hash, time::raw_times,
};

const NAME: &str = "streamJoin";
/// How many batches of candidates one call looks at. What is left waits for the next call, so that one batch of a hot key neither
/// holds up the task nor fills the memory.
const ROUNDS: usize = 16;

/// Opens the operator of each task.
#[derive(Debug)]
pub(super) struct JoinFactory {
    plan: Arc<Plan>,
}

impl JoinFactory {
    pub(super) fn new(plan: Plan) -> Self {
        JoinFactory { plan: Arc::new(plan) }
    }
}

impl OperatorFactory for JoinFactory {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> Signature {
        self.plan.signature.clone()
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }

    fn late_schema(&self) -> Option<SchemaRef> {
        self.plan.late.as_ref().map(|late| Arc::clone(&late.schema))
    }

    fn open(&self, ctx: OperatorCtx) -> Result<Box<dyn Operator>> {
        let plan = Arc::clone(&self.plan);
        Ok(Box::new(StreamJoin {
            sides: Which::BOTH.map(|which| Side::new(which, plan.kind, plan.bounds)),
            plan,
            fired: Fired::new(ctx.vnodes),
            queue: VecDeque::new(),
            ready: Vec::new(),
            candidates: Candidates::default(),
            seq: 0,
            hashes: Vec::new(),
            texts: Default::default(),
            marks: [None, None],
            named: Vec::new(),
            ctx,
        }))
    }
}

pub(super) struct StreamJoin {
    pub(super) plan: Arc<Plan>,
    pub(super) ctx: OperatorCtx,
    pub(super) sides: [Side; 2],
    pub(super) fired: Fired,
    /// Rows that have come in and still look for partners, the earliest first.
    pub(super) queue: VecDeque<Probe>,
    /// Pairs to be put together.
    pub(super) ready: Vec<(Ptr, Ptr)>,
    pub(super) candidates: Candidates,
    /// The number of the last batch.
    pub(super) seq: u64,
    hashes: Vec<u64>,
    /// Per side, what its texts point into.
    texts: [Compactor; 2],
    /// Per side, the piece that holds its marks.
    pub(super) marks: [Option<PieceId>; 2],
    pub(super) named: Vec<Named>,
}

impl Operator for StreamJoin {
    fn on_batch(&mut self, input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        self.accept(Which::of(input), batch, out)?;
        let limit = self.ctx.batch_rows.max(1);
        for _ in 0..ROUNDS {
            if self.queue.is_empty() || out.bad.len() >= limit {
                break;
            }
            self.round(limit, out)?;
            while self.ready.len() >= limit {
                self.emit(limit, out)?;
            }
        }
        self.emit(limit, out)?;
        self.tidy()
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<Flow> {
        if self.catch_up(out)? == Flow::More {
            return Ok(Flow::More);
        }
        let (through, limit) = (watermark.as_millis(), self.ctx.batch_rows.max(1));
        for which in Which::BOTH {
            let expired = self.sides[which.index()].expire(through, ROUNDS * limit, limit);
            if !expired.unmatched.is_empty() {
                let rows = &expired.unmatched;
                let side = &self.sides[which.index()];
                let picked = Picked::new(side, rows);
                let width = self.plan.side(which).fields.len();
                let stored = (0..width).map(|column| picked.column(side, column)).collect::<Result<Vec<_>>>()?;
                out.emit(self.plan.unmatched(which, &stored, rows.len())?);
            }
            if expired.more || !expired.unmatched.is_empty() {
                self.tidy()?;
                return Ok(Flow::More);
            }
        }
        self.fired.raise(through);
        self.tidy()?;
        self.set_gauge();
        Ok(Flow::Done)
    }

    fn on_drain(&mut self, out: &mut Output) -> Result<Flow> {
        self.catch_up(out)
    }

    fn on_time(&mut self, out: &mut Output) -> Result<Flow> {
        self.catch_up(out)
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        match watermark {
            EventTime::MIN | EventTime::MAX => watermark,
            at => EventTime::from_millis(at.as_millis().saturating_sub(self.plan.bounds.hold(self.plan.kind))).min(at),
        }
    }

    fn measure(&mut self) {
        self.set_gauge();
    }

    fn snapshot(&mut self, epoch: Epoch) -> Result<Vec<StatePiece>> {
        if !self.queue.is_empty() || !self.ready.is_empty() {
            return Err(Error::internal("a snapshot was asked for while rows look for partners"));
        }
        self.set_gauge();
        self.pieces(epoch)
    }

    fn forget_pieces(&mut self) {
        self.forget_saved();
    }

    fn pieces_named(&mut self, _epoch: Epoch, ids: Vec<PieceId>) {
        self.name_pieces(ids);
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        self.take_back(pieces)?;
        self.set_gauge();
        Ok(())
    }
}

impl StreamJoin {
    fn set_gauge(&self) {
        self.ctx.state_bytes.set(self.sides.iter().map(Side::bytes).sum::<usize>() as u64);
    }

    /// Whatever moves rows waits until nobody stands on one.
    fn tidy(&mut self) -> Result<()> {
        if !self.queue.is_empty() || !self.ready.is_empty() {
            return Ok(());
        }
        self.sides.iter_mut().try_for_each(Side::tidy)
    }

    /// One batch of what earlier rows have left to find.
    fn catch_up(&mut self, out: &mut Output) -> Result<Flow> {
        let limit = self.ctx.batch_rows.max(1);
        if self.queue.is_empty() && self.ready.is_empty() {
            return Ok(Flow::Done);
        }
        for _ in 0..ROUNDS {
            if self.queue.is_empty() || self.ready.len() >= limit || out.bad.len() >= limit {
                break;
            }
            self.round(limit, out)?;
        }
        self.emit(limit, out)?;
        self.tidy()?;
        Ok(Flow::More)
    }

    /// Sorts out bad, late and keyless rows; the others wait on their side and look for partners.
    fn accept(&mut self, which: Which, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let (raw, scale) = raw_times(batch.column(self.plan.side(which).time))?;
        let unit = Unit::of(scale);
        let times: Vec<i64> = raw.values().iter().map(|raw| unit.millis(*raw)).collect();
        let mut bad = BadRows::default();
        self.find_bad_times(which, &raw, &times, &mut bad);
        if !bad.is_empty() {
            let good = filter_record_batch(&batch, &BooleanArray::new(bad.good(rows), None))?;
            let reported = out.bad.len();
            bad.report(&batch, out);
            for row in &mut out.bad[reported..] {
                row.event_time = row.row.filter(|row| raw.is_valid(*row)).map(|row| scale.event_time(raw.value(row)));
            }
            return self.accept(which, good, out);
        }
        let keys = self.plan.side(which).key_columns(&batch);
        let mut hashes = std::mem::take(&mut self.hashes);
        hash::hash_rows(&keys, rows, &mut hashes)?;
        let taken = self.sort_out(which, &batch, &keys, &hashes, &times, out);
        self.hashes = hashes;
        taken
    }

    fn find_bad_times(&self, which: Which, raw: &Int64Array, times: &[i64], bad: &mut BadRows) {
        let name = self.plan.side(which).time_name.as_str();
        if let Some(nulls) = raw.nulls().filter(|nulls| nulls.null_count() > 0) {
            for row in (0..raw.len()).filter(|row| nulls.is_null(*row)) {
                bad.add(row, BadReason::MissingValue, Some(name), || format!("the time column `{name}` is null"));
            }
        }
        let is_far = |time: i64| !(-FARTHEST_MS..=FARTHEST_MS).contains(&time);
        if times.iter().any(|time| is_far(*time)) {
            for (row, _) in times.iter().enumerate().filter(|(row, time)| is_far(**time) && raw.is_valid(*row)) {
                bad.add(row, BadReason::TypeMismatch, Some(name), || {
                    format!("the time `{}` in column `{name}` is too far from 1970 for a join", raw.value(row))
                });
            }
        }
    }

    fn sort_out(
        &mut self,
        which: Which,
        batch: &RecordBatch,
        keys: &[ArrayRef],
        hashes: &[u64],
        times: &[i64],
        out: &mut Output,
    ) -> Result<()> {
        let common = self.plan.common(keys)?;
        let keyed = without_nulls(&common, times.len());
        let late = self.late(hashes, times)?;
        if keyed.is_none() && late.is_empty() {
            let columns = self.plan.side(which).columns(batch, &common);
            return self.take_in(which, columns, hashes, times);
        }
        let mut lates = late.iter().copied().peekable();
        let (mut kept, mut loose) = (Vec::with_capacity(times.len()), Vec::new());
        for row in 0..times.len() as u32 {
            if lates.next_if_eq(&row).is_some() {
                continue;
            }
            let is_keyed = keyed.as_ref().is_none_or(|keyed| keyed.value(row as usize));
            if is_keyed { kept.push(row) } else { loose.push(row) }
        }
        if !late.is_empty() {
            let rows = take_record_batch(batch, &UInt32Array::from(late))?;
            out.late.push(Late::rows(self.plan.late.as_ref(), which, &rows)?);
        }
        let columns = self.plan.side(which).columns(batch, &common);
        let of = |rows: Vec<u32>| -> Result<Vec<ArrayRef>> {
            let rows = UInt32Array::from(rows);
            columns.iter().map(|column| Ok(take(column, &rows, None)?)).collect()
        };
        if !self.plan.kind.keeps_unmatched(which) {
            out.filtered += loose.len() as u64;
        } else {
            // No partner will ever come, so there is nothing to wait for.
            for portion in loose.chunks(self.ctx.batch_rows.max(1)) {
                out.emit(self.plan.unmatched(which, &of(portion.to_vec())?, portion.len())?);
            }
        }
        if kept.is_empty() {
            return Ok(());
        }
        let hashes: Vec<u64> = kept.iter().map(|row| hashes[*row as usize]).collect();
        let times: Vec<i64> = kept.iter().map(|row| times[*row as usize]).collect();
        let columns = of(kept)?;
        self.take_in(which, columns, &hashes, &times)
    }

    /// The rows behind the watermark that was here for their vnode.
    fn late(&self, hashes: &[u64], times: &[i64]) -> Result<Vec<u32>> {
        let fired = &self.fired;
        let mut late = Vec::new();
        if times.iter().all(|time| *time >= fired.high) {
            return Ok(late);
        }
        for (row, (hash, time)) in hashes.iter().zip(times).enumerate() {
            // Between low and high only after a restore that brought vnodes of different progress together.
            let is_late = *time < fired.low || (*time < fired.high && *time < fired.of(hash::vnode(*hash, self.ctx.vnode_count))?);
            if is_late {
                late.push(row as u32);
            }
        }
        Ok(late)
    }

    fn take_in(&mut self, which: Which, columns: Vec<ArrayRef>, hashes: &[u64], times: &[i64]) -> Result<()> {
        let columns = self.texts[which.index()].compact(columns);
        self.seq += 1;
        let slot = self.sides[which.index()].insert(columns, hashes, times, self.seq);
        self.queue.push_back(Probe::new(which, slot, self.seq));
        Ok(())
    }
}

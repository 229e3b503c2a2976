//! The operator: rows in, the first or the last of each key out.

use super::memory::Memory;
use crate::expression::BadRows;
use crate::fired::{self, FIRED, Fired};
use crate::keys::normalised;
use crate::lean::{emit_cut, visible_columns};
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, UInt8Array, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, take_arrays};
use arrow::datatypes::{DataType, SchemaRef};
use std::sync::Arc;
use tidegate_api::{
    BadReason, Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature,
    StatePiece, TimeScale, hidden, key, time::raw_times,
};

/// Which row of a key counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keep {
    First,
    Last,
}

impl Keep {
    pub(super) fn name(self) -> &'static str {
        match self {
            Keep::First => "first",
            Keep::Last => "last",
        }
    }
}

/// A time column.
#[derive(Debug)]
pub(super) struct Time {
    pub(super) index: usize,
    pub(super) name: String,
}

/// A stage, typed.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) keys: Vec<usize>,
    pub(super) key_types: Vec<DataType>,
    pub(super) keep: Keep,
    pub(super) time: Option<Time>,
    /// In milliseconds; there is a time where there is one.
    pub(super) ttl: Option<i64>,
    /// The input's columns, `_op` when the last row is kept, `_key` when `keyed`.
    pub(super) schema: SchemaRef,
    pub(super) keyed: bool,
    pub(super) signature: Signature,
}

/// Opens the operator of each task.
#[derive(Debug)]
pub(super) struct DeduplicateFactory {
    plan: Arc<Plan>,
}

impl DeduplicateFactory {
    pub(super) fn new(plan: Plan) -> Self {
        DeduplicateFactory { plan: Arc::new(plan) }
    }
}

impl OperatorFactory for DeduplicateFactory {
    fn name(&self) -> &str {
        "deduplicate"
    }

    fn signature(&self) -> Signature {
        self.plan.signature.clone()
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }

    fn open(&self, ctx: OperatorCtx) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Deduplicate {
            memory: Memory::new(self.plan.key_types.clone(), self.plan.time.is_some())?,
            horizon: self.plan.ttl.map(|_| Fired::new(ctx.vnodes)),
            next_sweep: i64::MIN,
            met: Vec::new(),
            numbers: Vec::new(),
            hashes: Vec::new(),
            horizon_named: false,
            plan: Arc::clone(&self.plan),
            ctx,
        }))
    }
}

struct Deduplicate {
    plan: Arc<Plan>,
    ctx: OperatorCtx,
    memory: Memory,
    /// Rows before this many milliseconds are late: the watermark less the time to live, by vnode.
    horizon: Option<Fired>,
    /// The horizon at which forgotten keys are looked for again.
    next_sweep: i64,
    /// One bit per key, set while the rows of a batch are looked through from the last to the first.
    met: Vec<u64>,
    numbers: Vec<u32>,
    hashes: Vec<u64>,
    /// Whether the horizon is the first new piece of the last snapshot.
    horizon_named: bool,
}

impl Operator for Deduplicate {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let Some(batch) = self.timed_rows(batch, out)? else { return Ok(()) };
        let Some(batch) = self.rows_in_time(batch, out)? else { return Ok(()) };
        let times = self.times(&batch)?;
        let keys: Vec<ArrayRef> = self.plan.keys.iter().map(|index| Arc::clone(batch.column(*index))).collect();
        let keys = self.memory.keys(&keys)?;
        let mut numbers = std::mem::take(&mut self.numbers);
        let known = self.memory.len();
        self.memory.numbers(&keys, batch.num_rows(), &mut numbers)?;
        match self.plan.keep {
            Keep::First => self.first(&batch, &numbers, known, times.as_ref(), out)?,
            Keep::Last => self.last(&batch, &numbers, known, times.as_ref(), out)?,
        }
        self.numbers = numbers;
        Ok(())
    }

    fn on_watermark(&mut self, watermark: EventTime, _out: &mut Output) -> Result<Flow> {
        let (Some(horizon), Some(ttl)) = (&mut self.horizon, self.plan.ttl) else { return Ok(Flow::Done) };
        horizon.raise(watermark.as_millis().saturating_sub(ttl));
        let reached = horizon.low;
        // Four sweeps in the life of a key: what they cost is a small part of what the keys did.
        if reached >= self.next_sweep {
            self.next_sweep = reached.saturating_add((ttl / 4).max(1));
            self.sweep(reached, ttl)?;
            self.ctx.state_bytes.set(self.bytes());
        }
        Ok(Flow::Done)
    }

    fn measure(&mut self) {
        self.ctx.state_bytes.set(self.bytes());
    }

    fn snapshot(&mut self, _epoch: Epoch) -> Result<Vec<StatePiece>> {
        let mut pieces = Vec::new();
        self.horizon_named = false;
        if let Some(horizon) = &self.horizon {
            pieces.push(match &horizon.saved {
                Some(id) => StatePiece::Kept(id.clone()),
                None => {
                    self.horizon_named = true;
                    StatePiece::New { name: FIRED.into(), vnodes: self.ctx.vnodes, data: horizon.encode() }
                }
            });
        }
        self.memory.snapshot(&self.ctx, &mut pieces)?;
        self.ctx.state_bytes.set(self.bytes());
        Ok(pieces)
    }

    fn forget_pieces(&mut self) {
        if let Some(horizon) = &mut self.horizon {
            horizon.saved = None;
        }
        self.memory.runs.renumbered();
    }

    fn pieces_named(&mut self, _epoch: Epoch, ids: Vec<PieceId>) {
        let mut ids = ids.into_iter();
        if let Some(horizon) = self.horizon.as_mut().filter(|_| self.horizon_named) {
            horizon.saved = ids.next();
        }
        self.memory.named(&mut ids);
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        if let Some(horizon) = &mut self.horizon {
            pieces.iter().filter(|piece| piece.name == FIRED).try_for_each(|piece| horizon.restore(piece))?;
        }
        self.memory.restore(&pieces, &self.ctx)?;
        self.ctx.state_bytes.set(self.bytes());
        Ok(())
    }
}

impl Deduplicate {
    /// The rows whose time can be used; the others are bad.
    fn timed_rows(&self, batch: RecordBatch, out: &mut Output) -> Result<Option<RecordBatch>> {
        let Some(time) = &self.plan.time else { return Ok(some(batch)) };
        let (times, scale) = raw_times(batch.column(time.index))?;
        let mut bad = BadRows::default();
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
        if bad.is_empty() {
            return Ok(some(batch));
        }
        let good = filter_record_batch(&batch, &BooleanArray::new(bad.good(batch.num_rows()), None))?;
        bad.report(&batch, out);
        Ok(some(good))
    }

    /// The rows that are not late.
    fn rows_in_time(&mut self, batch: RecordBatch, out: &mut Output) -> Result<Option<RecordBatch>> {
        let (Some(horizon), Some(time)) = (&self.horizon, &self.plan.time) else { return Ok(Some(batch)) };
        let (times, scale) = raw_times(batch.column(time.index))?;
        let millis = |row: usize| scale.event_time(times.value(row)).as_millis();
        if (0..batch.num_rows()).all(|row| millis(row) >= horizon.high) {
            return Ok(Some(batch));
        }
        let mut late = Vec::with_capacity(batch.num_rows());
        if horizon.low == horizon.high {
            late.extend((0..batch.num_rows()).map(|row| millis(row) < horizon.low));
        } else {
            let keys: Vec<ArrayRef> = self.plan.keys.iter().map(|index| Arc::clone(batch.column(*index))).collect();
            let vnodes = fired::vnodes(&keys, batch.num_rows(), self.ctx.vnode_count, &mut self.hashes)?;
            for (row, vnode) in vnodes.into_iter().enumerate() {
                late.push(millis(row) < horizon.of(vnode)?);
            }
        }
        let late = BooleanBuffer::from(late);
        let passing = BooleanArray::new(!&late, None);
        let aside = filter_record_batch(&batch, &BooleanArray::new(late, None))?;
        if aside.num_rows() > 0 {
            out.late.push(aside);
        }
        Ok(some(filter_record_batch(&batch, &passing)?))
    }

    fn times(&self, batch: &RecordBatch) -> Result<Option<(Int64Array, TimeScale)>> {
        self.plan.time.as_ref().map(|time| raw_times(batch.column(time.index))).transpose()
    }

    /// Passes on the rows of new keys, and of keys that were remembered long enough.
    fn first(
        &mut self,
        batch: &RecordBatch,
        numbers: &[u32],
        mut known: usize,
        times: Option<&(Int64Array, TimeScale)>,
        out: &mut Output,
    ) -> Result<()> {
        let ttl = self.plan.ttl.unwrap_or_default().saturating_mul(1000);
        let memory = &mut self.memory;
        let mut passing: Vec<u32> = Vec::new();
        for (row, number) in numbers.iter().enumerate() {
            let new = *number as usize == known;
            if let Some((times, scale)) = times {
                let time = times.value(row);
                if new {
                    memory.times.push(time);
                } else {
                    let earlier = memory.times.get_mut(*number as usize);
                    if scale.to_micros(time) < scale.to_micros(*earlier).saturating_add(ttl) {
                        continue;
                    }
                    *earlier = time;
                }
            } else if !new {
                continue;
            }
            known += usize::from(new);
            memory.runs.mark(*number);
            passing.push(row as u32);
        }
        out.filtered += (numbers.len() - passing.len()) as u64;
        self.emit(batch, passing, out)
    }

    /// Passes on the newest row of each key of the batch, unless the key had a newer one before.
    fn last(
        &mut self,
        batch: &RecordBatch,
        numbers: &[u32],
        known: usize,
        times: Option<&(Int64Array, TimeScale)>,
        out: &mut Output,
    ) -> Result<()> {
        let memory = &mut self.memory;
        let mut accepted: Vec<u32> = Vec::with_capacity(numbers.len());
        if let Some((times, _)) = times {
            let mut met = known;
            for (row, (number, time)) in numbers.iter().zip(times.values()).enumerate() {
                let key = *number as usize;
                if key == met {
                    memory.times.push(*time);
                    met += 1;
                } else {
                    let newest = memory.times.get_mut(key);
                    if *time < *newest {
                        continue;
                    }
                    *newest = *time;
                }
                accepted.push(row as u32);
            }
        } else {
            accepted.extend(0..numbers.len() as u32);
        }
        out.filtered += (numbers.len() - accepted.len()) as u64;
        self.met.resize(memory.len().div_ceil(64), 0);
        // The last that was accepted is the newest; a bit per key fits a cache where a row number per key does not.
        let mut kept = accepted.len();
        for index in (0..accepted.len()).rev() {
            let number = numbers[accepted[index] as usize];
            let (word, bit) = (&mut self.met[(number >> 6) as usize], 1 << (number & 63));
            if *word & bit == 0 {
                *word |= bit;
                kept -= 1;
                accepted[kept] = accepted[index];
            }
        }
        accepted.drain(..kept);
        // Without a time there is nothing to keep but the keys.
        for row in &accepted {
            let number = numbers[*row as usize];
            self.met[(number >> 6) as usize] = 0;
            if times.is_some() || number as usize >= known {
                memory.runs.mark(number);
            }
        }
        self.emit(batch, accepted, out)
    }

    fn emit(&self, batch: &RecordBatch, rows: Vec<u32>, out: &mut Output) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let count = rows.len();
        let mut columns = visible_columns(batch);
        if count < batch.num_rows() {
            columns = take_arrays(&columns, &UInt32Array::from(rows), None)?;
        }
        if self.plan.keep == Keep::Last {
            // What replaces a row is equal to it in the keys, to the bit.
            for key in &self.plan.keys {
                columns[*key] = normalised(&columns[*key]);
            }
            columns.push(Arc::new(UInt8Array::from(vec![hidden::UPSERT; count])));
        }
        if self.plan.keyed {
            let mut named: Vec<ArrayRef> = self.plan.keys.iter().map(|key| Arc::clone(&columns[*key])).collect();
            // A key that is forgotten comes again, at another time.
            if let (Keep::First, Some(time), Some(_)) = (self.plan.keep, &self.plan.time, self.plan.ttl) {
                named.push(Arc::clone(&columns[time.index]));
            }
            columns.push(key::build(count, |row, bytes| named.iter().try_for_each(|column| key::push_value(bytes, column.as_ref(), row)))?);
        }
        emit_cut(RecordBatch::try_new(Arc::clone(&self.plan.schema), columns)?, self.ctx.batch_rows, out);
        Ok(())
    }

    /// Forgets the keys that no row in time can meet again.
    fn sweep(&mut self, horizon: i64, ttl: i64) -> Result<()> {
        let Some(scale) = self.scale() else {
            return Err(Error::internal("keys are forgotten by a time that is none"));
        };
        let limit = horizon.saturating_mul(1000);
        let ttl = ttl.saturating_mul(1000);
        match self.plan.keep {
            Keep::First => self.memory.sweep(|time| scale.to_micros(time).saturating_add(ttl) <= limit)?,
            Keep::Last => self.memory.sweep(|time| scale.to_micros(time) < limit)?,
        }
        self.met.truncate(self.memory.len().div_ceil(64));
        if self.memory.len() == 0 {
            self.met = Vec::new();
        }
        Ok(())
    }

    fn scale(&self) -> Option<TimeScale> {
        let time = self.plan.time.as_ref()?;
        TimeScale::of(self.plan.schema.field_with_name(&time.name).ok()?.data_type())
    }

    fn bytes(&self) -> u64 {
        (self.memory.bytes() + self.met.capacity() * 8) as u64
    }
}

fn some(batch: RecordBatch) -> Option<RecordBatch> {
    (batch.num_rows() > 0).then_some(batch)
}

//! The operator: rows in, sessions out.

use super::sessions::{Columns, Limits, Sessions};
use crate::aggregates::{self, BoundAggregate, far_times, null_times};
use crate::expression::BadRows;
use crate::fired::{self, FIRED, Fired};
use crate::window::{Unit, within_reach};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, TimestampMillisecondArray, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use std::sync::Arc;
use tidegate_api::{
    BadReason, Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature,
    StatePiece, key, raw, time::raw_times, types,
};

const NAME: &str = "sessionAggregate";
/// The version of the state's format; part of the signature.
pub(super) const VERSION: u32 = 1;
/// The piece that holds the open sessions.
const OPEN: &str = "sessions";

/// A stage, typed.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) limits: Limits,
    /// The time column's index, name and zone.
    pub(super) time: usize,
    pub(super) time_name: String,
    pub(super) zone: Option<Arc<str>>,
    /// The group columns' indices and types.
    pub(super) groups: Vec<usize>,
    pub(super) group_types: Vec<DataType>,
    /// Those among the groups that decide a row's vnode.
    pub(super) dealt_by: Vec<usize>,
    pub(super) aggregates: Vec<BoundAggregate>,
    /// The output: window, groups, results, and `_key` when `keyed`.
    pub(super) schema: SchemaRef,
    pub(super) keyed: bool,
    pub(super) signature: Signature,
}

/// Opens the operator of each task.
#[derive(Debug)]
pub(super) struct SessionFactory {
    plan: Arc<Plan>,
}

impl SessionFactory {
    pub(super) fn new(plan: Plan) -> Self {
        SessionFactory { plan: Arc::new(plan) }
    }
}

impl OperatorFactory for SessionFactory {
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
        Ok(Box::new(SessionAggregate {
            sessions: Sessions::new(self.plan.limits, self.plan.group_types.clone(), aggregates)?,
            plan: Arc::clone(&self.plan),
            fired: Fired::new(ctx.vnodes),
            firing: None,
            named: Vec::new(),
            saved: None,
            millis: Vec::new(),
            hashes: Vec::new(),
            ctx,
        }))
    }
}

/// Sessions on their way out.
#[derive(Debug)]
struct Firing {
    slots: Vec<u32>,
    next: usize,
}

/// What a new piece of the last snapshot holds.
#[derive(Debug, Clone, Copy)]
enum Named {
    Open,
    Fired,
}

struct SessionAggregate {
    plan: Arc<Plan>,
    ctx: OperatorCtx,
    sessions: Sessions,
    /// A session that ended before this is done with.
    fired: Fired,
    firing: Option<Firing>,
    named: Vec<Named>,
    /// The pieces that hold the open sessions, unless they have changed since the last snapshot.
    saved: Option<Vec<PieceId>>,
    millis: Vec<i64>,
    hashes: Vec<u64>,
}

impl Operator for SessionAggregate {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let (times, scale) = raw_times(batch.column(self.plan.time))?;
        let unit = Unit::of(scale);
        self.millis.clear();
        self.millis.extend(times.values().iter().map(|time| unit.millis(*time)));
        let mut bad = BadRows::default();
        let far: Vec<usize> = self.millis.iter().enumerate().filter(|(_, millis)| !within_reach(**millis)).map(|(row, _)| row).collect();
        null_times(&times, &self.plan.time_name, &mut bad);
        far_times(&far, &times, &self.plan.time_name, &mut bad);
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
        let mut firing = match self.firing.take() {
            Some(firing) => firing,
            None => Firing { slots: self.sessions.due(through)?, next: 0 },
        };
        let end = (firing.next + self.ctx.batch_rows.max(1)).min(firing.slots.len());
        if firing.next < end {
            let slots = &firing.slots[firing.next..end];
            self.emit(slots, out)?;
            self.sessions.remove(slots);
            self.saved = None;
            firing.next = end;
            if end < firing.slots.len() {
                self.firing = Some(firing);
                return Ok(Flow::More);
            }
        }
        self.sessions.sweep()?;
        self.fired.raise(through);
        self.ctx.state_bytes.set(self.sessions.bytes() as u64);
        Ok(Flow::Done)
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        if matches!(watermark, EventTime::MIN | EventTime::MAX) {
            return watermark;
        }
        // A row that is not late begins no session before this.
        let next = watermark.as_millis().saturating_sub(self.plan.limits.gap);
        let earliest = self.sessions.slots.earliest().map_or(next, |start| start.min(next));
        EventTime::from_millis(earliest).min(watermark)
    }

    fn measure(&mut self) {
        self.ctx.state_bytes.set(self.sessions.bytes() as u64);
    }

    fn snapshot(&mut self, _epoch: Epoch) -> Result<Vec<StatePiece>> {
        if self.firing.is_some() {
            return Err(Error::internal("a snapshot was asked for while sessions are being emitted"));
        }
        let vnodes = self.ctx.vnodes;
        let mut pieces = Vec::new();
        self.named.clear();
        match &self.saved {
            Some(ids) => pieces.extend(ids.iter().cloned().map(StatePiece::Kept)),
            None => {
                let state = self.sessions.state()?;
                let rows = state.starts.len();
                let dealt = self.dealt(&state.groups, rows)?;
                let own: Vec<ArrayRef> = vec![
                    Arc::new(Int64Array::from(state.starts)),
                    Arc::new(Int64Array::from(state.lasts)),
                    Arc::new(BooleanArray::from(state.waiting)),
                ];
                self.saved = Some(Vec::new());
                if rows > 0 {
                    let data = aggregates::encode(dealt, own, state.groups, state.states)?;
                    pieces.push(StatePiece::New { name: OPEN.into(), vnodes, data });
                    self.named.push(Named::Open);
                }
            }
        }
        match &self.fired.saved {
            Some(id) => pieces.push(StatePiece::Kept(id.clone())),
            None => {
                pieces.push(StatePiece::New { name: FIRED.into(), vnodes, data: self.fired.encode() });
                self.named.push(Named::Fired);
            }
        }
        self.ctx.state_bytes.set(self.sessions.bytes() as u64);
        Ok(pieces)
    }

    fn forget_pieces(&mut self) {
        self.saved = None;
        self.fired.saved = None;
    }

    fn pieces_named(&mut self, _epoch: Epoch, ids: Vec<PieceId>) {
        for (named, id) in self.named.drain(..).zip(ids) {
            match named {
                Named::Fired => self.fired.saved = Some(id),
                Named::Open => self.saved = Some(vec![id]),
            }
        }
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        let own = self.ctx.vnodes;
        let widths = self.sessions.state_widths()?;
        let groups = self.plan.groups.len();
        // The state is unchanged only if all of its pieces are ours whole.
        let mut saved = Some(Vec::new());
        for piece in &pieces {
            if piece.name == FIRED {
                self.fired.restore(piece)?;
                continue;
            }
            if piece.name != OPEN {
                return Err(Error::external(format!("state piece `{}` is none of this operator's", piece.name)));
            }
            aggregates::restore(piece, 3, groups, &widths, own, |part| {
                let foreign = || Error::external(format!("state piece `{}` does not hold sessions", piece.name));
                let ints = |index: usize| part.own[index].as_primitive_opt::<Int64Type>().ok_or_else(foreign);
                let (starts, lasts, waiting) = (ints(0)?, ints(1)?, part.own[2].as_boolean_opt().ok_or_else(foreign)?);
                let spans: Vec<(i64, i64, bool)> =
                    (0..part.rows).map(|row| (starts.value(row), lasts.value(row), waiting.value(row))).collect();
                self.sessions.restore(part.groups, &spans, &part.states)
            })?;
            saved = saved.filter(|_| own.covers(piece.vnodes)).map(|mut ids: Vec<PieceId>| {
                ids.push(piece.id.clone());
                ids
            });
        }
        self.saved = saved;
        self.ctx.state_bytes.set(self.sessions.bytes() as u64);
        Ok(())
    }
}

impl SessionAggregate {
    /// The rows that each aggregate takes, where it does not take all.
    fn masks(&self, batch: &RecordBatch, bad: &mut BadRows) -> Vec<Option<BooleanBuffer>> {
        self.plan.aggregates.iter().map(|bound| bound.mask(batch, bad)).collect()
    }

    /// The vnodes of rows with these groups.
    fn dealt(&mut self, groups: &[ArrayRef], rows: usize) -> Result<Vec<u16>> {
        let columns: Vec<ArrayRef> = self.plan.dealt_by.iter().map(|index| Arc::clone(&groups[*index])).collect();
        fired::vnodes(&columns, rows, self.ctx.vnode_count, &mut self.hashes)
    }

    fn groups(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.plan.groups.iter().map(|index| Arc::clone(batch.column(*index))).collect()
    }

    /// Takes good rows; `self.millis` are their times.
    fn absorb(&mut self, batch: RecordBatch, masks: Vec<Option<BooleanBuffer>>, out: &mut Output) -> Result<()> {
        let late = self.late_rows(&batch)?;
        if late.is_empty() {
            let values = self.plan.aggregates.iter().zip(masks).map(|(bound, mask)| bound.values(&batch, mask));
            let values = values.collect::<Result<Vec<_>>>()?;
            self.saved = None;
            self.sessions.absorb(&self.groups(&batch), &self.millis, &values)?;
            // Sessions that were bridged leave numbers behind, also while the watermark stands still.
            return self.sessions.sweep();
        }
        if late.len() == batch.num_rows() {
            out.late.push(batch);
            return Ok(());
        }
        out.late.push(take_record_batch(&batch, &UInt32Array::from(late.clone()))?);
        let mut kept = vec![true; batch.num_rows()];
        late.iter().for_each(|row| kept[*row as usize] = false);
        let mut rows = kept.iter();
        self.millis.retain(|_| rows.next().is_some_and(|kept| *kept));
        let batch = filter_record_batch(&batch, &BooleanArray::from(kept))?;
        let masks = self.masks(&batch, &mut BadRows::default());
        self.absorb(batch, masks, out)
    }

    /// The rows whose session alone would have fired.
    fn late_rows(&mut self, batch: &RecordBatch) -> Result<Vec<u32>> {
        let gap = self.plan.limits.gap;
        let (low, high) = (self.fired.low, self.fired.high);
        // Sums stay in range: times are within reach, and before the first watermark nothing is late.
        let ended = |time: i64, through: i64| time + gap < through;
        if self.millis.iter().all(|time| !ended(*time, high)) {
            return Ok(Vec::new());
        }
        let rows = self.millis.iter().zip(0u32..);
        if low == high {
            return Ok(rows.filter(|(time, _)| ended(**time, high)).map(|(_, row)| row).collect());
        }
        // Only after a restore that brought vnodes of different progress together, until the next watermark.
        let vnodes = self.dealt(&self.groups(batch), batch.num_rows())?;
        let mut late = Vec::new();
        for (row, (time, vnode)) in self.millis.iter().zip(vnodes).enumerate() {
            if ended(*time, self.fired.of(vnode)?) {
                late.push(row as u32);
            }
        }
        Ok(late)
    }

    /// Sessions as output rows, at most a batch of them.
    fn emit(&self, slots: &[u32], out: &mut Output) -> Result<()> {
        let Columns { starts, lasts, groups, results } = self.sessions.columns(slots)?;
        let gap = self.plan.limits.gap;
        let ends: Vec<i64> = lasts.iter().map(|last| last + gap).collect();
        let times =
            |millis: Vec<i64>| -> ArrayRef { Arc::new(TimestampMillisecondArray::from(millis).with_timezone_opt(self.plan.zone.clone())) };
        let mut bad = BadRows::default();
        for (bound, result) in self.plan.aggregates.iter().zip(&results) {
            for (row, value) in &result.misfits {
                bad.add(*row, BadReason::Overflow, Some(bound.field.name()), || {
                    self.misfit(bound, value, EventTime::from_millis(starts[*row]), EventTime::from_millis(ends[*row]), &groups, *row)
                });
            }
        }
        let mut columns = vec![times(starts.clone()), times(ends.clone())];
        columns.extend(groups.iter().cloned());
        columns.extend(results.into_iter().map(|result| result.values));
        if !bad.is_empty() {
            let visible = Arc::new(self.plan.schema.project(&(0..columns.len()).collect::<Vec<_>>())?);
            let whole = RecordBatch::try_new(visible, columns.clone())?;
            let passing = BooleanArray::new(bad.good(slots.len()), None);
            let reported = out.bad.len();
            bad.report(&whole, out);
            for row in &mut out.bad[reported..] {
                row.event_time = row.row.map(|index| EventTime::from_millis(starts[index]));
            }
            columns = filter_record_batch(&whole, &passing)?.columns().to_vec();
        }
        if self.plan.keyed {
            let window = |at: usize| raw_times(&columns[at]).map(|(times, _)| times);
            let (starts, ends, groups) = (window(0)?, window(1)?, &columns[2..2 + groups.len()]);
            columns.push(key::build(starts.len(), |row, bytes| {
                key::push_millis(bytes, starts.value(row));
                key::push_millis(bytes, ends.value(row));
                groups.iter().try_for_each(|group| key::push_value(bytes, group.as_ref(), row))
            })?);
        }
        out.emit(RecordBatch::try_new(Arc::clone(&self.plan.schema), columns)?);
        Ok(())
    }

    fn misfit(&self, bound: &BoundAggregate, value: &str, start: EventTime, end: EventTime, groups: &[ArrayRef], row: usize) -> String {
        let names = self.plan.schema.fields().iter().skip(2);
        let shown: Vec<String> = names.zip(groups).map(|(field, group)| format!("{}={}", field.name(), raw::value(group, row))).collect();
        let group = if shown.is_empty() { String::new() } else { format!(", group {}", shown.join(", ")) };
        let (name, of) = (bound.field.name(), types::name(bound.field.data_type()));
        format!("`{name}` is `{value}`, which `{of}` cannot hold (session {start} to {end}{group})")
    }
}

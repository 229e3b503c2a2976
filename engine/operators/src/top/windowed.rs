//! The operator for ranks that are told once: a ranking per window, emitted and dropped when the window closes.
//!
//! A window that the step cuts itself closes when the watermark reaches its end. One that rows name comes from a window step,
//! whose watermark stays at the start of the earliest window still to come: it closes when the watermark is behind its start.

use super::plan::{Beside, Plan, Window};
use crate::expression::BadRows;
use crate::fired::{self, FIRED, Fired};
use crate::lean::{Ranking, Shape, visible_columns};
use crate::window::LONGEST_MS;
use arrow::array::{Array, ArrayRef, BooleanArray, Int64Array, RecordBatch, TimestampMillisecondArray, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::SchemaRef;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::{
    BadReason, Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature,
    StatePiece, TimeScale, time::raw_times,
};

/// Times beyond this many milliseconds from 1970 have no windows that 64 bits of microseconds hold.
const FARTHEST_MS: i64 = i64::MAX / 1000 - 4 * LONGEST_MS;

/// A window: when it closes, in milliseconds, and its bounds as its rows have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Bounds {
    due: i64,
    start: i64,
    end: i64,
}

impl Bounds {
    fn prefix(self) -> String {
        format!("window/{}/{}/{}/", self.due, self.start, self.end)
    }

    /// What the name of a piece says, and the rest of it.
    fn of_name(name: &str) -> Option<(Bounds, &str)> {
        let mut parts = name.strip_prefix("window/")?.splitn(4, '/');
        let mut number = || parts.next()?.parse().ok();
        let bounds = Bounds { due: number()?, start: number()?, end: number()? };
        Some((bounds, parts.next()?))
    }
}

/// Opens the operator of each task.
#[derive(Debug)]
pub(super) struct WindowedFactory {
    plan: Arc<Plan>,
}

impl WindowedFactory {
    pub(super) fn new(plan: Plan) -> Self {
        WindowedFactory { plan: Arc::new(plan) }
    }
}

impl OperatorFactory for WindowedFactory {
    fn name(&self) -> &str {
        "topN"
    }

    fn signature(&self) -> Signature {
        self.plan.signature.clone()
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }

    fn open(&self, ctx: OperatorCtx) -> Result<Box<dyn Operator>> {
        Ok(Box::new(Windowed {
            shape: Arc::new(self.plan.shape()?),
            open: BTreeMap::new(),
            closing: None,
            fired: Fired::new(ctx.vnodes),
            fired_named: false,
            hashes: Vec::new(),
            plan: Arc::clone(&self.plan),
            ctx,
        }))
    }
}

struct Windowed {
    plan: Arc<Plan>,
    ctx: OperatorCtx,
    shape: Arc<Shape>,
    open: BTreeMap<Bounds, Ranking>,
    closing: Option<Closing>,
    fired: Fired,
    /// Whether the fired times are the first new piece of the last snapshot.
    fired_named: bool,
    hashes: Vec<u64>,
}

/// A window on its way out, and how far it has come.
#[derive(Debug)]
struct Closing {
    bounds: Bounds,
    ranking: Ranking,
    group: u32,
    rank: usize,
}

impl Operator for Windowed {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let ranked = self.plan.ranked(&batch)?;
        out.filtered += ranked.filtered as u64;
        let (mut batch, mut stays) = (ranked.batch, ranked.ranked);
        let mut bad = BadRows::default();
        let mut bounds = self.bounds(&batch, &mut bad)?;
        if !bad.is_empty() {
            // A row that is only to go, or has nothing to be ordered by, was counted already or needs no window of its own.
            let good = bad.good(batch.num_rows());
            bounds = kept(&bounds, &good);
            stays = kept_bits(&stays, &good);
            let rows = filter_record_batch(&batch, &BooleanArray::new(good, None))?;
            bad.report(&batch, out);
            batch = rows;
        }
        let late = self.late(&batch, &bounds)?;
        if let Some(late) = late {
            let aside = filter_record_batch(&batch, &BooleanArray::new(late.clone(), None))?;
            let passing = !&late;
            bounds = kept(&bounds, &passing);
            stays = kept_bits(&stays, &passing);
            batch = filter_record_batch(&batch, &BooleanArray::new(passing, None))?;
            out.late.push(aside);
        }
        self.absorb(&batch, &bounds, &stays)
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<Flow> {
        let through = watermark.as_millis();
        loop {
            if let Some(closing) = self.closing.take()
                && let Some(rest) = self.emit(closing, out)?
            {
                self.closing = Some(rest);
                return Ok(Flow::More);
            }
            let due = self.open.first_entry().filter(|first| first.key().due <= through);
            let Some((bounds, ranking)) = due.map(|first| first.remove_entry()) else { break };
            self.closing = Some(Closing { bounds, ranking, group: 0, rank: 0 });
            if !out.batches.is_empty() {
                return Ok(Flow::More);
            }
        }
        self.fired.raise(through);
        self.ctx.state_bytes.set(self.bytes());
        Ok(Flow::Done)
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        match (&self.plan.window, watermark) {
            (Some(Window::Of { size, .. }), at) if at != EventTime::MIN && at != EventTime::MAX => {
                let millis = at.as_millis().clamp(-FARTHEST_MS, FARTHEST_MS);
                EventTime::from_millis(millis - millis.rem_euclid(*size)).min(at)
            }
            _ => watermark,
        }
    }

    fn snapshot(&mut self, _epoch: Epoch) -> Result<Vec<StatePiece>> {
        if self.closing.is_some() {
            return Err(Error::internal("a snapshot was asked for while a window is being emitted"));
        }
        let mut pieces = Vec::new();
        self.fired_named = self.fired.saved.is_none();
        pieces.push(match &self.fired.saved {
            Some(id) => StatePiece::Kept(id.clone()),
            None => StatePiece::New { name: FIRED.into(), vnodes: self.ctx.vnodes, data: self.fired.encode() },
        });
        for (bounds, ranking) in &mut self.open {
            ranking.snapshot(&bounds.prefix(), &self.ctx, &mut pieces)?;
        }
        self.ctx.state_bytes.set(self.bytes());
        Ok(pieces)
    }

    fn pieces_named(&mut self, _epoch: Epoch, ids: Vec<PieceId>) {
        let mut ids = ids.into_iter();
        if self.fired_named {
            self.fired.saved = ids.next();
        }
        self.open.values_mut().for_each(|ranking| ranking.named(&mut ids));
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        let mut windows: BTreeMap<Bounds, Vec<(&str, &RestoredPiece)>> = BTreeMap::new();
        for piece in &pieces {
            if piece.name == FIRED {
                self.fired.restore(piece)?;
                continue;
            }
            let (bounds, rest) = Bounds::of_name(&piece.name)
                .ok_or_else(|| Error::external(format!("state piece `{}` is none of this operator's", piece.name)))?;
            windows.entry(bounds).or_default().push((rest, piece));
        }
        for (bounds, pieces) in windows {
            let mut ranking = Ranking::new(&self.shape, false)?;
            ranking.restore(&pieces, &self.ctx, |_| {})?;
            // A piece may hold no row of ours.
            if ranking.group_count() > 0 {
                self.open.insert(bounds, ranking);
            }
        }
        self.ctx.state_bytes.set(self.bytes());
        Ok(())
    }
}

impl Windowed {
    /// The window of each row; rows without one are bad.
    fn bounds(&self, batch: &RecordBatch, bad: &mut BadRows) -> Result<Vec<Bounds>> {
        let name = |index: usize| batch.schema_ref().field(index).name().as_str();
        let mut nulls = |times: &Int64Array, column: &str| {
            if let Some(nulls) = times.nulls().filter(|nulls| nulls.null_count() > 0) {
                for row in (0..times.len()).filter(|row| nulls.is_null(*row)) {
                    bad.add(row, BadReason::MissingValue, Some(column), || format!("the time column `{column}` is null"));
                }
            }
        };
        let millis = |scale: TimeScale, value: i64| scale.event_time(value).as_millis();
        match &self.plan.window {
            None => Err(Error::internal("a stage without windows closes none")),
            Some(Window::Of { time, name, size, .. }) => {
                let (times, scale) = raw_times(batch.column(*time))?;
                nulls(&times, name);
                let mut bounds = Vec::with_capacity(times.len());
                for row in 0..times.len() {
                    let millis = millis(scale, times.value(row));
                    if !(-FARTHEST_MS..=FARTHEST_MS).contains(&millis) && times.is_valid(row) {
                        bad.add(row, BadReason::TypeMismatch, Some(name), || {
                            format!("the time `{}` in column `{name}` is too far from 1970 for a window", times.value(row))
                        });
                    }
                    let start = millis.clamp(-FARTHEST_MS, FARTHEST_MS).div_euclid(*size) * size;
                    bounds.push(Bounds { due: start + size, start, end: start + size });
                }
                Ok(bounds)
            }
            Some(Window::Named { start, end }) => {
                let ((starts, scale), (ends, _)) = (raw_times(batch.column(*start))?, raw_times(batch.column(*end))?);
                nulls(&starts, name(*start));
                nulls(&ends, name(*end));
                let bounds = (0..starts.len()).map(|row| {
                    let (start, end) = (starts.value(row), ends.value(row));
                    Bounds { due: millis(scale, start).saturating_add(1), start, end }
                });
                Ok(bounds.collect())
            }
        }
    }

    /// The rows whose window has closed for their vnode, if there are any.
    fn late(&mut self, batch: &RecordBatch, bounds: &[Bounds]) -> Result<Option<BooleanBuffer>> {
        if bounds.iter().all(|bounds| bounds.due > self.fired.high) {
            return Ok(None);
        }
        let mut late = Vec::with_capacity(bounds.len());
        if self.fired.low == self.fired.high {
            late.extend(bounds.iter().map(|bounds| bounds.due <= self.fired.low));
        } else {
            let keys: Vec<ArrayRef> = self.plan.exchange.iter().map(|index| Arc::clone(batch.column(*index))).collect();
            let vnodes = fired::vnodes(&keys, batch.num_rows(), self.ctx.vnode_count, &mut self.hashes)?;
            for (bounds, vnode) in bounds.iter().zip(vnodes) {
                late.push(bounds.due <= self.fired.of(vnode)?);
            }
        }
        Ok(late.contains(&true).then(|| BooleanBuffer::from(late)))
    }

    /// Takes rows in, window by window.
    fn absorb(&mut self, batch: &RecordBatch, bounds: &[Bounds], stays: &BooleanBuffer) -> Result<()> {
        let mut order: Vec<u32> = (0..bounds.len() as u32).collect();
        if !bounds.is_sorted() {
            order.sort_by_key(|row| bounds[*row as usize]);
        }
        let whole = order.chunk_by(|a, b| bounds[*a as usize] == bounds[*b as usize]);
        for rows in whole {
            let part = match rows.len() == bounds.len() {
                true => batch.clone(),
                false => take_record_batch(batch, &UInt32Array::from(rows.to_vec()))?,
            };
            use std::collections::btree_map::Entry;
            let ranking = match self.open.entry(bounds[rows[0] as usize]) {
                Entry::Occupied(open) => open.into_mut(),
                Entry::Vacant(vacant) => vacant.insert(Ranking::new(&self.shape, false)?),
            };
            let columns = visible_columns(&part);
            match self.plan.updates {
                Some(_) => {
                    let stays: BooleanBuffer = rows.iter().map(|row| stays.value(*row as usize)).collect();
                    ranking.update(&columns, rows.len(), &stays)?;
                }
                None => ranking.absorb(&columns, rows.len())?,
            }
        }
        Ok(())
    }

    /// Emits a portion of a window; gives it back if more is left of it.
    fn emit(&self, mut closing: Closing, out: &mut Output) -> Result<Option<Closing>> {
        let limit = self.ctx.batch_rows.max(1);
        let (mut ids, mut ranks) = (Vec::new(), Vec::new());
        let groups = closing.ranking.group_count() as u32;
        while ids.len() < limit && closing.group < groups {
            let before = ids.len();
            let next = closing.ranking.ranked(closing.group).skip(closing.rank).take(limit - ids.len());
            ids.extend(next);
            ranks.extend((closing.rank..closing.rank + ids.len() - before).map(|rank| rank as i64 + 1));
            closing.rank += ids.len() - before;
            if closing.ranking.ranked(closing.group).nth(closing.rank).is_none() {
                (closing.group, closing.rank) = (closing.group + 1, 0);
            }
        }
        if !ids.is_empty() {
            let bounds = match &self.plan.window {
                Some(Window::Of { zone, .. }) => {
                    let bound = |millis: i64| -> ArrayRef {
                        Arc::new(TimestampMillisecondArray::from(vec![millis; ids.len()]).with_timezone_opt(zone.clone()))
                    };
                    Some((bound(closing.bounds.start), bound(closing.bounds.end)))
                }
                Some(Window::Named { .. }) | None => None,
            };
            let columns = closing.ranking.rows(&ids)?;
            out.emit(self.plan.output(&columns, Beside { ranks, ops: None, bounds })?);
        }
        Ok((closing.group < groups).then_some(closing))
    }

    fn bytes(&self) -> u64 {
        self.open.values().map(Ranking::bytes).sum::<usize>() as u64
    }
}

fn kept(bounds: &[Bounds], good: &BooleanBuffer) -> Vec<Bounds> {
    good.set_indices().map(|row| bounds[row]).collect()
}

fn kept_bits(bits: &BooleanBuffer, good: &BooleanBuffer) -> BooleanBuffer {
    good.set_indices().map(|row| bits.value(row)).collect()
}

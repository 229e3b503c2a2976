//! The operator for ranks that are told once: a ranking per window, emitted and dropped when the window closes.
//!
//! A window that the step cuts itself closes when the watermark reaches its end. One that rows name comes from a window step,
//! whose watermark stays at the start of the earliest window still to come: it closes when the watermark is behind its start.

mod closing;
mod firsts;
mod spans;

use super::plan::{Plan, Window};
use crate::expression::BadRows;
use crate::fired::{self, FIRED, Fired};
use crate::lean::{Ranking, Shape, visible_columns};
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, take_arrays, take_record_batch};
use arrow::datatypes::SchemaRef;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use tidegate_api::{
    Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature, StatePiece,
};

use closing::{Closing, Portion};
use spans::{Bounds, FARTHEST_MS, Span};

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
            heads: Vec::new(),
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
    heads: Vec<u64>,
}

impl Operator for Windowed {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let ranked = self.plan.ranked(&batch)?;
        out.filtered += ranked.filtered as u64;
        let (mut batch, mut stays) = (ranked.batch, ranked.ranked);
        let mut bad = BadRows::default();
        let mut spans = self.plan.spans(&batch, &mut bad)?;
        if !bad.is_empty() {
            // A row that is only to go, or has nothing to be ordered by, was counted already or needs no window of its own.
            let good = bad.good(batch.num_rows());
            stays = kept(&stays, &good);
            let rows = filter_record_batch(&batch, &BooleanArray::new(good, None))?;
            bad.report(&batch, out);
            batch = rows;
            spans = self.plan.spans(&batch, &mut BadRows::default())?;
        }
        if let Some(late) = self.late(&batch, &spans)? {
            let aside = filter_record_batch(&batch, &BooleanArray::new(late.clone(), None))?;
            let passing = !&late;
            stays = kept(&stays, &passing);
            batch = filter_record_batch(&batch, &BooleanArray::new(passing, None))?;
            spans = self.plan.spans(&batch, &mut BadRows::default())?;
            out.late.push(aside);
        }
        // Windows one after the other; the rows of each in the order they came.
        if !spans.is_sorted_by_key(|span| span.bounds) {
            spans.sort_by_key(|span| span.bounds);
        }
        let columns = visible_columns(&batch);
        match self.plan.updates {
            Some(_) => self.update(&batch, &spans, &stays),
            None => self.absorb(&columns, &spans),
        }
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<Flow> {
        let through = watermark.as_millis();
        let mut portion = Portion::new(self.ctx.batch_rows.max(1));
        while let Some(closing) = self.closing.take().or_else(|| self.next_due(through)) {
            portion.fill(closing);
            if portion.is_full() {
                self.closing = portion.emit(&self.plan, out)?;
                return Ok(Flow::More);
            }
        }
        portion.emit(&self.plan, out)?;
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

    fn measure(&mut self) {
        self.ctx.state_bytes.set(self.bytes());
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

    fn forget_pieces(&mut self) {
        self.fired.saved = None;
        self.open.values_mut().for_each(Ranking::forget_pieces);
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
    /// The next window to close at this watermark.
    fn next_due(&mut self, through: i64) -> Option<Closing> {
        let due = self.open.first_entry().filter(|first| first.key().due <= through);
        due.map(|first| first.remove_entry()).map(|(bounds, ranking)| Closing::new(bounds, ranking))
    }

    /// The rows whose window has closed for their vnode, if there are any.
    fn late(&mut self, batch: &RecordBatch, spans: &[Span]) -> Result<Option<BooleanBuffer>> {
        if spans.iter().all(|span| span.bounds.due > self.fired.high) {
            return Ok(None);
        }
        let mut late = Vec::with_capacity(batch.num_rows());
        if self.fired.low == self.fired.high {
            for span in spans {
                late.resize(span.to, span.bounds.due <= self.fired.low);
            }
        } else {
            let keys: Vec<ArrayRef> = self.plan.exchange.iter().map(|index| Arc::clone(batch.column(*index))).collect();
            let vnodes = fired::vnodes(&keys, batch.num_rows(), self.ctx.vnode_count, &mut self.hashes)?;
            for span in spans {
                for vnode in &vnodes[span.from..span.to] {
                    late.push(span.bounds.due <= self.fired.of(*vnode)?);
                }
            }
        }
        Ok(late.contains(&true).then(|| BooleanBuffer::from(late)))
    }

    fn ranking(&mut self, bounds: Bounds) -> Result<&mut Ranking> {
        Ok(match self.open.entry(bounds) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(vacant) => vacant.insert(Ranking::new(&self.shape, false)?),
        })
    }

    /// Takes rows that update each other, window by window.
    fn update(&mut self, batch: &RecordBatch, spans: &[Span], stays: &BooleanBuffer) -> Result<()> {
        for spans in spans.chunk_by(|a, b| a.bounds == b.bounds) {
            let rows: Vec<u32> = spans.iter().flat_map(Span::rows).collect();
            let part = match spans {
                [one] => batch.slice(one.from, one.to - one.from),
                _ => take_record_batch(batch, &UInt32Array::from(rows.clone()))?,
            };
            let stays: BooleanBuffer = rows.iter().map(|row| stays.value(*row as usize)).collect();
            self.ranking(spans[0].bounds)?.update(&visible_columns(&part), rows.len(), &stays)?;
        }
        Ok(())
    }

    /// Takes final rows. Those that cannot be among the first of their window are left out before any is moved.
    fn absorb(&mut self, columns: &[ArrayRef], spans: &[Span]) -> Result<()> {
        let (shape, mut heads) = (Arc::clone(&self.shape), std::mem::take(&mut self.heads));
        shape.order.heads(columns, &mut heads)?;
        let mut picked: Vec<u32> = Vec::new();
        let mut parts: Vec<(Bounds, usize, usize)> = Vec::new();
        for spans in spans.chunk_by(|a, b| a.bounds == b.bounds) {
            let ranking = self.ranking(spans[0].bounds)?;
            let from = picked.len();
            if shape.groups.is_empty() {
                firsts::pick(&heads, spans, shape.n, ranking.last_head(), &mut picked);
            } else {
                picked.extend(spans.iter().flat_map(Span::rows));
            }
            parts.push((spans[0].bounds, from, picked.len()));
        }
        let picked = match spans {
            // Nothing was left out, and nothing is out of order.
            [one] if picked.len() == one.to - one.from => columns.to_vec(),
            _ => take_arrays(columns, &UInt32Array::from(picked), None)?,
        };
        let parts = parts.into_iter().filter(|(_, from, to)| from < to);
        if shape.groups.is_empty() {
            let rows = picked.first().map_or(0, |column| column.len());
            let prepared = shape.prepared(picked, rows)?;
            for (bounds, from, to) in parts {
                self.ranking(bounds)?.absorb_prepared(&prepared, from..to)?;
            }
        } else {
            for (bounds, from, to) in parts {
                let rows: Vec<ArrayRef> = picked.iter().map(|column| column.slice(from, to - from)).collect();
                self.ranking(bounds)?.absorb(&rows, to - from)?;
            }
        }
        self.heads = heads;
        Ok(())
    }

    fn bytes(&self) -> u64 {
        self.open.values().map(Ranking::bytes).sum::<usize>() as u64
    }
}

fn kept(bits: &BooleanBuffer, good: &BooleanBuffer) -> BooleanBuffer {
    good.set_indices().map(|row| bits.value(row)).collect()
}

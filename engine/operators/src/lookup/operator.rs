//! The operator: rows of stream and table in, joined rows out.

use super::bind::Plan;
use super::config::INFO;
use super::state::Log;
use super::table::{Change, Found, KeyColumns, Table};
use crate::expression::BadRows;
use crate::fired::{self, Fired};
use crate::join::{FARTHEST_MS, Late, Which};
use crate::window::Unit;
use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{SchemaRef, UInt8Type};
use std::collections::VecDeque;
use std::sync::Arc;
use tidegate_api::{
    BadReason, Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature,
    StatePiece, Watermark, hidden, time::raw_times,
};

/// Input numbers.
pub(super) const STREAM: usize = 0;
pub(super) const TABLE: usize = 1;

/// Opens the operator of each task.
#[derive(Debug)]
pub(super) struct LookupFactory {
    plan: Arc<Plan>,
}

impl LookupFactory {
    pub(super) fn new(plan: Plan) -> Self {
        LookupFactory { plan: Arc::new(plan) }
    }
}

impl OperatorFactory for LookupFactory {
    fn name(&self) -> &str {
        INFO.op
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
        Ok(Box::new(LookupJoin {
            table: Table::new(&self.plan)?,
            plan: Arc::clone(&self.plan),
            waiting: VecDeque::new(),
            due: VecDeque::new(),
            ready: false,
            fired: Fired::new(ctx.vnodes),
            log: Log::default(),
            found: Found::default(),
            hashes: Vec::new(),
            ctx,
        }))
    }
}

pub(super) struct LookupJoin {
    pub(super) plan: Arc<Plan>,
    pub(super) ctx: OperatorCtx,
    pub(super) table: Table,
    /// Rows of the stream that cannot be joined yet, in their order.
    pub(super) waiting: VecDeque<RecordBatch>,
    /// Joined rows on their way out.
    due: VecDeque<RecordBatch>,
    /// Whether the table has been there; only without `asOf`.
    ready: bool,
    /// Up to when rows have been joined; only with `asOf`.
    pub(super) fired: Fired,
    pub(super) log: Log,
    found: Found,
    hashes: Vec<u64>,
}

impl Operator for LookupJoin {
    fn on_batch(&mut self, input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        if input == TABLE {
            return self.learn(batch, out);
        }
        if self.plan.times.is_some() {
            if let Some(good) = self.in_time(STREAM, batch, out)? {
                self.waiting.push_back(good);
            }
            return Ok(());
        }
        let portion = batch.num_rows().max(self.ctx.batch_rows);
        self.waiting.push_back(batch);
        // Two for one, so that what has waited is worked off while new rows come.
        for _ in 0..2 {
            if let Some(batch) = self.next_waiting(portion) {
                out.emit(self.joined(&batch)?);
            }
        }
        Ok(())
    }

    fn on_input_watermark(&mut self, input: usize, watermark: Watermark) {
        // A table that is merely slow has promised a time or nothing; one that is there has ended, or has nothing more for now.
        self.ready |= input == TABLE && matches!(watermark, Watermark::Idle | Watermark::At(EventTime::MAX));
    }

    fn holds(&self, input: usize) -> bool {
        input == STREAM && self.plan.times.is_none() && !self.ready
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<Flow> {
        let through = watermark.as_millis();
        loop {
            if let Some(batch) = self.due.pop_front() {
                out.emit(batch);
                return Ok(Flow::More);
            }
            let Some(batch) = self.next_due(through)? else { break };
            let joined = self.joined(&batch)?;
            self.cut(&joined);
        }
        if self.plan.times.is_some() {
            self.fired.raise(through);
        }
        Ok(Flow::Done)
    }

    fn on_drain(&mut self, out: &mut Output) -> Result<Flow> {
        // Both inputs have ended, so the table is there, whatever was heard of it.
        self.ready = true;
        self.on_watermark(EventTime::MAX, out)
    }

    fn on_time(&mut self, out: &mut Output) -> Result<Flow> {
        if self.plan.times.is_none()
            && let Some(batch) = self.next_waiting(self.ctx.batch_rows)
        {
            out.emit(self.joined(&batch)?);
            return Ok(Flow::More);
        }
        Ok(Flow::Done)
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        // Without a time nobody knows how old the rows that wait are.
        if self.plan.times.is_none() && !self.waiting.is_empty() { EventTime::MIN } else { watermark }
    }

    fn measure(&mut self) {
        self.set_gauge();
    }

    fn snapshot(&mut self, epoch: Epoch) -> Result<Vec<StatePiece>> {
        if !self.due.is_empty() {
            return Err(Error::internal("a snapshot was asked for while rows are being emitted"));
        }
        self.pieces(epoch)
    }

    fn pieces_named(&mut self, _: Epoch, ids: Vec<PieceId>) {
        self.log.named(ids, &mut self.fired);
    }

    fn forget_pieces(&mut self) {
        self.log.forget();
        self.fired.saved = None;
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        self.take_back(pieces)
    }
}

impl LookupJoin {
    /// Changes the table.
    fn learn(&mut self, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let Some(batch) = (match self.plan.times {
            Some(_) => self.in_time(TABLE, batch, out)?,
            None => Some(batch),
        }) else {
            return Ok(());
        };
        let deletes: Option<Vec<bool>> = match self.plan.op {
            Some(index) => {
                let ops = batch.column(index).as_primitive_opt::<UInt8Type>();
                let ops = ops.ok_or_else(|| Error::internal("`_op` is not a uint8 column"))?;
                Some(ops.values().iter().map(|op| *op == hidden::DELETE).collect())
            }
            None => None,
        };
        let mut changes: Vec<Change> =
            (0..batch.num_rows()).map(|row| Change { since: 0, delete: deletes.as_ref().is_some_and(|deletes| deletes[row]) }).collect();
        if let Some([_, index]) = self.plan.times {
            let (times, scale) = raw_times(batch.column(index))?;
            for (change, time) in changes.iter_mut().zip(times.values()) {
                change.since = scale.event_time(*time).0;
            }
        }
        self.change(batch, changes, true)
    }

    /// Changes the table; `fresh` changes belong to no piece yet.
    pub(super) fn change(&mut self, batch: RecordBatch, changes: Vec<Change>, fresh: bool) -> Result<()> {
        let keys = KeyColumns::of(&self.plan, TABLE, &batch)?;
        let rows = hidden::visible(&batch);
        // A restore takes back versions that came before the watermark did: a delete that is needless now may still cover one.
        let needless = if fresh || self.plan.times.is_none() { self.needless() } else { i64::MIN };
        self.table.absorb(&rows, &keys, &changes, needless)?;
        if fresh {
            self.log.add(rows, changes);
        }
        if self.table.is_wasteful() {
            let parts = self.table.rewritten()?;
            let mut table = Table::new(&self.plan)?;
            for (rows, changes) in &parts {
                table.absorb(rows, &KeyColumns::of(&self.plan, TABLE, rows)?, changes, i64::MIN)?;
            }
            self.table = table;
        }
        Ok(())
    }

    /// The last microsecond that every row still to be joined is past; without `asOf` only the latest version counts.
    fn needless(&self) -> i64 {
        match self.plan.times {
            None => i64::MAX,
            Some(_) => self.fired.low.saturating_mul(1000),
        }
    }

    /// The rows that have a time and are not late; `None` if there is none.
    fn in_time(&mut self, input: usize, batch: RecordBatch, out: &mut Output) -> Result<Option<RecordBatch>> {
        let Some(index) = self.plan.times.map(|times| times[input]) else { return Ok(Some(batch)) };
        let (times, scale) = raw_times(batch.column(index))?;
        let unit = Unit::of(scale);
        // Further away times would meet in one, and never be passed.
        let is_far = |row: usize| !(-FARTHEST_MS..=FARTHEST_MS).contains(&unit.millis(times.value(row)));
        if times.null_count() > 0 || (0..times.len()).any(is_far) {
            let mut bad = BadRows::default();
            let name = &self.plan.time_names[input];
            for row in 0..times.len() {
                if times.is_null(row) {
                    bad.add(row, BadReason::MissingValue, Some(name), || format!("the time column `{name}` is null"));
                } else if is_far(row) {
                    bad.add(row, BadReason::TypeMismatch, Some(name), || {
                        format!("the time `{}` in column `{name}` is too far from 1970 for a look-up", times.value(row))
                    });
                }
            }
            let good = filter_record_batch(&batch, &BooleanArray::new(bad.good(batch.num_rows()), None))?;
            bad.report(&batch, out);
            return if good.num_rows() == 0 { Ok(None) } else { self.in_time(input, good, out) };
        }
        let millis = |row: usize| scale.event_time(times.value(row)).as_millis();
        let rows = batch.num_rows();
        if (0..rows).all(|row| millis(row) >= self.fired.high) {
            return Ok(Some(batch));
        }
        let late: Vec<bool> = if self.fired.low == self.fired.high {
            (0..rows).map(|row| millis(row) < self.fired.high).collect()
        } else {
            // Only between a restore that brought vnodes of different progress together and the next watermark.
            let keys: Vec<_> = self.plan.keys[input].iter().map(|index| Arc::clone(batch.column(*index))).collect();
            let vnodes = fired::vnodes(&keys, rows, self.ctx.vnode_count, &mut self.hashes)?;
            (0..rows).map(|row| Ok(millis(row) < self.fired.of(vnodes[row])?)).collect::<Result<_>>()?
        };
        let kept = filter_record_batch(&batch, &late.iter().map(|late| Some(!late)).collect::<BooleanArray>())?;
        let late = filter_record_batch(&batch, &late.into_iter().map(Some).collect::<BooleanArray>())?;
        if late.num_rows() > 0 {
            out.late.push(Late::rows(self.plan.late.as_ref(), Which::of(input), &late)?);
        }
        Ok((kept.num_rows() > 0).then_some(kept))
    }

    /// The next of the rows that waited for the table, once it is there. What waited at a snapshot is one batch after a restore, however long.
    fn next_waiting(&mut self, most: usize) -> Option<RecordBatch> {
        let batch = self.waiting.pop_front_if(|_| self.ready)?;
        let portion = most.clamp(1, batch.num_rows().max(1));
        if portion < batch.num_rows() {
            self.waiting.push_front(batch.slice(portion, batch.num_rows() - portion));
        }
        Some(batch.slice(0, portion.min(batch.num_rows())))
    }

    /// The next rows that can be joined now.
    fn next_due(&mut self, through: i64) -> Result<Option<RecordBatch>> {
        let Some([index, _]) = self.plan.times else {
            return Ok(self.next_waiting(self.ctx.batch_rows));
        };
        // Batches without a due row are passed over once per watermark; `waiting` is put together when it grows long.
        if self.waiting.len() > 64 {
            let all = arrow::compute::concat_batches(&self.plan.left, &self.waiting)?;
            self.waiting = VecDeque::from([all]);
        }
        for at in 0..self.waiting.len() {
            let batch = &self.waiting[at];
            let (times, scale) = raw_times(batch.column(index))?;
            let due: BooleanArray =
                times.values().iter().map(|time| Some(scale.event_time(*time).as_millis() < through || through == i64::MAX)).collect();
            match due.true_count() {
                0 => continue,
                all if all == due.len() => return Ok(self.waiting.remove(at)),
                _ => {
                    let ready = filter_record_batch(batch, &due)?;
                    let later = arrow::compute::not(&due)?;
                    self.waiting[at] = filter_record_batch(batch, &later)?;
                    return Ok(Some(ready));
                }
            }
        }
        Ok(None)
    }

    /// Rows of the stream with what the table says of them.
    fn joined(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let keys = KeyColumns::of(&self.plan, STREAM, batch)?;
        let rows = batch.num_rows();
        match self.plan.times {
            None => self.table.find(&keys, rows, |_| i64::MAX, &mut self.found)?,
            Some([index, _]) => {
                let (times, scale) = raw_times(batch.column(index))?;
                self.table.find(&keys, rows, |row| scale.event_time(times.value(row)).0, &mut self.found)?;
            }
        }
        let mut left = batch.clone();
        if self.plan.inner && self.found.matched().any(|matched| !matched) {
            let matched: BooleanArray = self.found.matched().map(Some).collect();
            left = filter_record_batch(&left, &matched)?;
            self.found.retain_matched();
        }
        let column = |(which, index): &(Which, usize)| match which {
            Which::Left => Ok(Arc::clone(left.column(*index))),
            Which::Right => self.table.column(&self.plan, *index, &self.found),
        };
        let columns = self.plan.columns.iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(left.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.plan.schema), columns, &options)?)
    }

    fn cut(&mut self, joined: &RecordBatch) {
        let portion = self.ctx.batch_rows.max(1);
        for from in (0..joined.num_rows()).step_by(portion) {
            self.due.push_back(joined.slice(from, portion.min(joined.num_rows() - from)));
        }
    }
}

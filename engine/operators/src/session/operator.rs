//! The operator: rows in, sessions out.

use super::rounds::Round;
use super::sessions::{Limits, Sessions};
use super::state::Named;
use crate::aggregates::{BoundAggregate, far_times, null_times};
use crate::expression::BadRows;
use crate::fired::{self, Fired};
use crate::lean::Saved;
use crate::when::{Pace, Quiet, Time, When};
use crate::window::{Unit, within_reach};
use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, SchemaRef};
use std::collections::VecDeque;
use std::sync::Arc;
use tidegate_api::{
    Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature, StatePiece,
    time::raw_times,
};

const NAME: &str = "sessionAggregate";

/// A stage, typed.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) limits: Limits,
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

impl Plan {
    /// Through when sessions are done with for good once everything through a moment has fired.
    pub(super) fn closed(&self, through: i64) -> i64 {
        if through == EventTime::MAX.as_millis() { through } else { through.saturating_sub(self.when.lateness) }
    }
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
            sessions: Sessions::new(self.plan.limits, self.plan.group_types.clone(), aggregates, self.plan.when.updates())?,
            plan: Arc::clone(&self.plan),
            fired: Fired::new(ctx.vnodes),
            promised: i64::MIN,
            round: None,
            queue: VecDeque::new(),
            pace: Pace::default(),
            quiet: Quiet::default(),
            idled: false,
            named: Vec::new(),
            millis: Vec::new(),
            hashes: Vec::new(),
            ctx,
        }))
    }
}

pub(super) struct SessionAggregate {
    pub(super) plan: Arc<Plan>,
    pub(super) ctx: OperatorCtx,
    pub(super) sessions: Sessions,
    /// A session that ended before this has fired.
    pub(super) fired: Fired,
    /// Everything through this moment fires because of the clock.
    promised: i64,
    pub(super) round: Option<Round>,
    /// Rows on their way out.
    pub(super) queue: VecDeque<RecordBatch>,
    pub(super) pace: Pace,
    pub(super) quiet: Quiet,
    /// Whether everything has fired since rows came last, because none did.
    pub(super) idled: bool,
    pub(super) named: Vec<Named>,
    pub(super) millis: Vec<i64>,
    hashes: Vec<u64>,
}

impl Operator for SessionAggregate {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        // A round that the clock began is not about these rows.
        self.finish_round(out)?;
        self.quiet.rows_came();
        self.idled = false;
        let mut bad = BadRows::default();
        let Time::Column { index, name, .. } = &self.plan.time else {
            let masks = self.masks(&batch, &mut bad);
            if bad.is_empty() {
                self.millis.clear();
                self.millis.resize(batch.num_rows(), self.now());
                return self.absorb(batch, masks, out);
            }
            let good = filter_record_batch(&batch, &BooleanArray::new(bad.good(batch.num_rows()), None))?;
            bad.report(&batch, out);
            return self.on_batch(0, good, out);
        };
        let (times, scale) = raw_times(batch.column(*index))?;
        let unit = Unit::of(scale);
        self.millis.clear();
        self.millis.extend(times.values().iter().map(|time| unit.millis(*time)));
        let far: Vec<usize> = self.millis.iter().enumerate().filter(|(_, millis)| !within_reach(**millis)).map(|(row, _)| row).collect();
        null_times(&times, name, &mut bad);
        far_times(&far, &times, name, &mut bad);
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
            // Only the end of the input means something to sessions of the clock.
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
        self.advance((self.promised > self.fired.low).then_some(self.promised), out)
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        match (watermark, &self.plan.time) {
            (EventTime::MIN | EventTime::MAX, _) => watermark,
            // Its sessions are not on the clock of the rows.
            (_, Time::Clock) => EventTime::MIN,
            (at, Time::Column { .. }) => {
                // A row that is not late begins no session before this.
                let next = self.plan.closed(self.plan.when.through(at)).saturating_sub(self.plan.limits.gap);
                let earliest = self.sessions.slots.earliest().map_or(next, |start| start.min(next));
                EventTime::from_millis(earliest).min(at)
            }
        }
    }

    fn measure(&mut self) {
        self.ctx.state_bytes.set(self.sessions.bytes() as u64);
    }

    fn snapshot(&mut self, _epoch: Epoch) -> Result<Vec<StatePiece>> {
        if self.round.is_some() || !self.queue.is_empty() {
            return Err(Error::internal("a snapshot was asked for while sessions are being emitted"));
        }
        self.ctx.state_bytes.set(self.sessions.bytes() as u64);
        self.pieces()
    }

    fn forget_pieces(&mut self) {
        self.sessions.saved = Saved::No;
        self.fired.saved = None;
    }

    fn pieces_named(&mut self, _epoch: Epoch, ids: Vec<PieceId>) {
        self.take_names(ids);
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        self.take_back(&pieces)?;
        self.ctx.state_bytes.set(self.sessions.bytes() as u64);
        Ok(())
    }
}

impl SessionAggregate {
    /// What the clock shows, never before what has fired: a clock that was put back must not make rows late.
    fn now(&self) -> i64 {
        self.ctx.clock.wall().as_millis().max(self.fired.high).max(self.promised)
    }

    /// The rows that each aggregate takes, where it does not take all.
    fn masks(&self, batch: &RecordBatch, bad: &mut BadRows) -> Vec<Option<BooleanBuffer>> {
        self.plan.aggregates.iter().map(|bound| bound.mask(batch, bad)).collect()
    }

    /// The vnodes of rows with these groups.
    pub(super) fn dealt(&mut self, groups: &[ArrayRef], rows: usize) -> Result<Vec<u16>> {
        let columns: Vec<ArrayRef> = self.plan.dealt_by.iter().map(|index| Arc::clone(&groups[*index])).collect();
        fired::vnodes(&columns, rows, self.ctx.vnode_count, &mut self.hashes)
    }

    pub(super) fn groups(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.plan.groups.iter().map(|index| Arc::clone(batch.column(*index))).collect()
    }

    /// Takes good rows; `self.millis` are their times.
    fn absorb(&mut self, batch: RecordBatch, masks: Vec<Option<BooleanBuffer>>, out: &mut Output) -> Result<()> {
        let late = self.late_rows(&batch)?;
        if late.is_empty() {
            let values = self.plan.aggregates.iter().zip(masks).map(|(bound, mask)| bound.values(&batch, mask));
            let values = values.collect::<Result<Vec<_>>>()?;
            if self.plan.when.early.is_some() {
                let clock = &self.ctx.clock;
                self.pace.took(batch.num_rows(), || clock.monotonic());
            }
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
}

//! One operator per split, each with its own state and time.

use super::rows::{Run, runs};
use crate::fired::{self, FIRED, Fired};
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringViewArray};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_api::key::{self, Tag};
use tidegate_api::{
    Counter, Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature,
    StatePiece, VnodeRange, hidden,
};

/// Stands between a split and the name of a piece of its operator. No operator's own names have it.
const OF: char = '@';

/// Opens an operator that keeps splits apart.
pub(crate) struct PerSplitFactory {
    inner: Arc<dyn OperatorFactory>,
}

impl PerSplitFactory {
    /// Of these operators, one per split. Their rows carry [`hidden::SPLIT`] and what belongs to it, and they must not update what
    /// they emit: rows of different splits have no keys to be told apart by.
    pub(crate) fn new(inner: Arc<dyn OperatorFactory>) -> Self {
        PerSplitFactory { inner }
    }
}

impl OperatorFactory for PerSplitFactory {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> Signature {
        self.inner.signature().with("keyBy", false)
    }

    fn output_schema(&self) -> arrow::datatypes::SchemaRef {
        self.inner.output_schema()
    }

    fn late_schema(&self) -> Option<arrow::datatypes::SchemaRef> {
        self.inner.late_schema()
    }

    fn open(&self, ctx: OperatorCtx) -> Result<Box<dyn Operator>> {
        let fresh = Apart::open(self.inner.as_ref(), &ctx)?;
        Ok(Box::new(PerSplit {
            inner: Arc::clone(&self.inner),
            keyed: self.inner.output_schema().index_of(hidden::KEY).ok(),
            fired: Fired::new(ctx.vnodes),
            ctx,
            fresh,
            splits: BTreeMap::new(),
            due: BTreeSet::new(),
            round: None,
            merged: EventTime::MIN,
            named: Vec::new(),
        }))
    }
}

/// The operator of one split.
struct Apart {
    operator: Box<dyn Operator>,
    bytes: Counter,
    /// What its rows have promised.
    promised: EventTime,
    /// The watermark it has worked through.
    reached: EventTime,
}

impl Apart {
    fn open(factory: &dyn OperatorFactory, ctx: &OperatorCtx) -> Result<Apart> {
        // Its state belongs to the split whole, whatever its groups hash to.
        let mut own = ctx.clone().with_state_bytes(Counter::new());
        own.vnodes = VnodeRange::all(ctx.vnode_count);
        let bytes = own.state_bytes.clone();
        Ok(Apart { operator: factory.open(own)?, bytes, promised: EventTime::MIN, reached: EventTime::MIN })
    }
}

/// What all splits are asked for, one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Round {
    what: What,
    /// The next split, if there is one.
    next: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Watermark(EventTime),
    Time,
    Drain,
}

struct PerSplit {
    inner: Arc<dyn OperatorFactory>,
    ctx: OperatorCtx,
    /// Where the output has its `_key`.
    keyed: Option<usize>,
    /// An operator that no row has reached: what a split that is not known yet may still emit.
    fresh: Apart,
    splits: BTreeMap<String, Apart>,
    /// Splits that have not worked through what their rows promised. No state: the next rows say it again.
    due: BTreeSet<String>,
    round: Option<Round>,
    /// The watermark of all splits together.
    merged: EventTime,
    /// The same by vnode, for what has been put aside or restored.
    fired: Fired,
    named: Vec<(String, usize)>,
}

impl Operator for PerSplit {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        runs(&batch)?.into_iter().try_for_each(|run| self.take(run, out))
    }

    fn holds(&self, _input: usize) -> bool {
        !self.due.is_empty()
    }

    fn on_watermark(&mut self, watermark: EventTime, out: &mut Output) -> Result<Flow> {
        if self.work(out)? == Flow::More {
            return Ok(Flow::More);
        }
        self.merged = self.merged.max(watermark);
        let flow = self.go_round(What::Watermark(watermark), out)?;
        if flow == Flow::Done {
            self.fired.raise(watermark.as_millis());
        }
        Ok(flow)
    }

    fn on_time(&mut self, out: &mut Output) -> Result<Flow> {
        if self.work(out)? == Flow::More {
            return Ok(Flow::More);
        }
        self.go_round(What::Time, out)
    }

    fn on_barrier(&mut self, out: &mut Output) -> Result<Flow> {
        self.work(out)
    }

    fn on_drain(&mut self, out: &mut Output) -> Result<Flow> {
        if self.work(out)? == Flow::More {
            return Ok(Flow::More);
        }
        self.go_round(What::Drain, out)
    }

    fn output_watermark(&self, watermark: EventTime) -> EventTime {
        // A split that is not known yet has promised what all of them have.
        let known = self.splits.values().map(|apart| apart.operator.output_watermark(apart.reached.max(watermark)));
        known.fold(self.fresh.operator.output_watermark(watermark), EventTime::min)
    }

    fn measure(&mut self) {
        self.splits.values_mut().for_each(|apart| apart.operator.measure());
        self.gauge();
    }

    fn snapshot(&mut self, epoch: Epoch) -> Result<Vec<StatePiece>> {
        let mut pieces = Vec::new();
        self.named.clear();
        let mut gone = Vec::new();
        for (split, apart) in &mut self.splits {
            let theirs = apart.operator.snapshot(epoch)?;
            // Where only the time is left, and all splits together have promised as much, nothing is lost with it.
            if theirs.len() <= 1 && apart.promised <= self.merged && apart.reached <= self.merged {
                gone.push(split.clone());
                continue;
            }
            let vnode = vnode_of(split, self.ctx.vnode_count)?;
            let vnodes = VnodeRange { start: vnode, end: vnode + 1 };
            let mut new = 0;
            for piece in theirs {
                pieces.push(match piece {
                    StatePiece::Kept(id) => StatePiece::Kept(id),
                    StatePiece::New { name, data, .. } => {
                        new += 1;
                        StatePiece::New { name: format!("{split}{OF}{name}"), vnodes, data }
                    }
                    StatePiece::Deferred { name, data, .. } => {
                        new += 1;
                        StatePiece::Deferred { name: format!("{split}{OF}{name}"), vnodes, data }
                    }
                });
            }
            self.named.push((split.clone(), new));
        }
        for split in gone {
            self.splits.remove(&split);
        }
        match &self.fired.saved {
            Some(id) => pieces.push(StatePiece::Kept(id.clone())),
            None => {
                pieces.push(StatePiece::New { name: FIRED.into(), vnodes: self.ctx.vnodes, data: self.fired.encode() });
                self.named.push((String::new(), 1));
            }
        }
        self.gauge();
        Ok(pieces)
    }

    fn forget_pieces(&mut self) {
        self.splits.values_mut().for_each(|apart| apart.operator.forget_pieces());
        self.fired.saved = None;
    }

    fn pieces_named(&mut self, epoch: Epoch, ids: Vec<PieceId>) {
        let mut ids = ids.into_iter();
        for (split, count) in std::mem::take(&mut self.named) {
            let theirs: Vec<PieceId> = ids.by_ref().take(count).collect();
            match self.splits.get_mut(&split) {
                Some(apart) => apart.operator.pieces_named(epoch, theirs),
                None => self.fired.saved = theirs.into_iter().next(),
            }
        }
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        let mut by_split: BTreeMap<String, Vec<RestoredPiece>> = BTreeMap::new();
        for piece in pieces {
            if piece.name == FIRED {
                self.fired.restore(&piece)?;
                continue;
            }
            let Some((split, name)) = piece.name.rsplit_once(OF) else {
                return Err(Error::external(format!("state piece `{}` is no split's", piece.name)));
            };
            let theirs = RestoredPiece { name: name.to_string(), vnodes: VnodeRange::all(self.ctx.vnode_count), ..piece.clone() };
            by_split.entry(split.to_string()).or_default().push(theirs);
        }
        for (split, theirs) in by_split {
            let mut apart = Apart::open(self.inner.as_ref(), &self.ctx)?;
            apart.operator.restore(theirs)?;
            self.splits.insert(split, apart);
        }
        if self.fired.low > i64::MIN {
            self.merged = EventTime::from_millis(self.fired.low);
        }
        self.gauge();
        Ok(())
    }
}

impl PerSplit {
    /// One portion of what rows have promised.
    fn work(&mut self, out: &mut Output) -> Result<Flow> {
        while let Some(split) = self.due.first().cloned() {
            if self.catch_up(&split, out)? {
                self.due.remove(&split);
            }
            if !out.batches.is_empty() {
                return Ok(Flow::More);
            }
        }
        Ok(Flow::Done)
    }

    /// Takes rows once their split has worked through what was promised before them: little, since rows are held while it is due.
    fn take(&mut self, run: Run, out: &mut Output) -> Result<()> {
        self.know(&run.split, run.before)?;
        while !self.catch_up(&run.split, out)? {}
        let Some(apart) = self.splits.get_mut(&run.split) else { return Ok(()) };
        let made = out.batches.len();
        apart.operator.on_batch(0, run.rows, out)?;
        apart.promised = apart.promised.max(run.after);
        if apart.promised > apart.reached {
            self.due.insert(run.split.clone());
        }
        self.mark(&run.split, made, out)
    }

    /// The split gets an operator, if it has none, and is known to have promised so much.
    fn know(&mut self, split: &str, promised: EventTime) -> Result<()> {
        if !self.splits.contains_key(split) {
            let mut apart = Apart::open(self.inner.as_ref(), &self.ctx)?;
            // What was given up for its vnode is not begun anew.
            let through = self.fired.of(vnode_of(split, self.ctx.vnode_count)?)?;
            if through > i64::MIN {
                apart.promised = EventTime::from_millis(through);
            }
            self.splits.insert(split.to_string(), apart);
        }
        if let Some(apart) = self.splits.get_mut(split) {
            apart.promised = apart.promised.max(promised);
        }
        Ok(())
    }

    /// One portion of the time that a split has been promised. Answers whether it is worked through.
    fn catch_up(&mut self, split: &str, out: &mut Output) -> Result<bool> {
        let merged = self.merged;
        let Some(apart) = self.splits.get_mut(split) else { return Ok(true) };
        let time = apart.promised.max(merged);
        if apart.reached >= time {
            return Ok(true);
        }
        let made = out.batches.len();
        let flow = apart.operator.on_watermark(time, out)?;
        if flow == Flow::Done {
            apart.reached = time;
        }
        self.mark(split, made, out)?;
        Ok(flow == Flow::Done)
    }

    /// One portion of what all splits are asked for.
    fn go_round(&mut self, what: What, out: &mut Output) -> Result<Flow> {
        let mut round = match self.round.take() {
            Some(round) if round.what == what => round,
            Some(_) | None => Round { what, next: self.splits.keys().next().cloned() },
        };
        while let Some(split) = round.next.clone() {
            let made = out.batches.len();
            let done = match what {
                What::Watermark(_) => self.catch_up(&split, out)?,
                What::Time | What::Drain => {
                    let Some(apart) = self.splits.get_mut(&split) else { break };
                    let flow = match what {
                        What::Drain => apart.operator.on_drain(out)?,
                        What::Time | What::Watermark(_) => apart.operator.on_time(out)?,
                    };
                    self.mark(&split, made, out)?;
                    flow == Flow::Done
                }
            };
            if done {
                let after = (std::ops::Bound::Excluded(split), std::ops::Bound::Unbounded);
                round.next = self.splits.range(after).next().map(|(split, _)| split.clone());
            }
            if !out.batches.is_empty() {
                break;
            }
        }
        if round.next.is_some() {
            self.round = Some(round);
            return Ok(Flow::More);
        }
        self.gauge();
        Ok(Flow::Done)
    }

    /// Rows that were made since tell their split in their key: two splits may have the same window and groups.
    fn mark(&self, split: &str, from: usize, out: &mut Output) -> Result<()> {
        let Some(index) = self.keyed else { return Ok(()) };
        for batch in &mut out.batches[from..] {
            let keys = batch.column(index).as_binary_opt::<i32>();
            let keys = keys.ok_or_else(|| Error::internal("`_key` is not a binary column"))?;
            let told = key::build(batch.num_rows(), |row, bytes| {
                key::push(bytes, Tag::Split, split.as_bytes());
                bytes.extend_from_slice(keys.value(row));
                Ok(())
            })?;
            let mut columns = batch.columns().to_vec();
            columns[index] = told as ArrayRef;
            *batch = RecordBatch::try_new(batch.schema(), columns)?;
        }
        Ok(())
    }

    fn gauge(&self) {
        self.ctx.state_bytes.set(self.splits.values().map(|apart| apart.bytes.get()).sum());
    }
}

/// The vnode that a split's state belongs to: that of the value in its rows.
fn vnode_of(split: &str, count: u16) -> Result<u16> {
    let column: ArrayRef = Arc::new(StringViewArray::from_iter_values([split]));
    let vnodes = fired::vnodes(&[column], 1, count, &mut Vec::new())?;
    vnodes.first().copied().ok_or_else(|| Error::internal("a split has no vnode"))
}

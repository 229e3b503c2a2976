//! Pairs found: a batch that came in looks for its partners on the other side, a bounded number of candidates at a time.
//!
//! Batches look in the order they came, and each sees the rows that came before it: a pair is found by the later of its two rows,
//! also when a hot key makes a batch look for so long that others come in between.

use super::bounds::Which;
use super::operator::StreamJoin;
use super::output::Pairs;
use super::side::{GONE, NONE, Ptr, pointer, row_of};
use crate::expression::truths;
use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::kernels::cmp::eq;
use std::sync::Arc;
use tidegate_api::{BadReason, BadRow, EventTime, Output, Result};

/// Rows that look for partners.
#[derive(Debug)]
pub(super) struct Probe {
    which: Which,
    slot: u32,
    /// The next row, among those of `only` if not all are looked for.
    row: usize,
    /// The next candidate of this row; `None` before its first.
    next: Option<Ptr>,
    /// Sees rows of earlier batches only.
    seq: u64,
    /// Whether those of the other side that may be partners are in chains.
    chained: bool,
    /// The rows that may have partners, where few can; all of them otherwise.
    only: Option<Vec<u32>>,
}

impl Probe {
    /// A chunk that has just come in.
    pub(super) fn new(which: Which, slot: u32, seq: u64) -> Self {
        Probe { which, slot, row: 0, next: None, seq, chained: false, only: None }
    }
}

/// Candidate pairs, and buffers that keep their memory.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    left: Vec<Ptr>,
    right: Vec<Ptr>,
    /// Right time minus left time.
    apart: Vec<i64>,
}

impl Candidates {
    fn clear(&mut self) {
        self.left.clear();
        self.right.clear();
        self.apart.clear();
    }

    /// Keeps those of `mask`.
    fn retain(&mut self, mask: &BooleanBuffer) {
        if mask.count_set_bits() == self.left.len() {
            return;
        }
        let mut kept = 0;
        for index in mask.set_indices() {
            (self.left[kept], self.right[kept]) = (self.left[index], self.right[index]);
            kept += 1;
        }
        self.left.truncate(kept);
        self.right.truncate(kept);
    }
}

impl StreamJoin {
    /// Looks at so many candidates at most, and adds the pairs among them to those that are ready.
    pub(super) fn round(&mut self, limit: usize, out: &mut Output) -> Result<()> {
        let mut found = std::mem::take(&mut self.candidates);
        found.clear();
        self.gather(limit, &mut found);

        let bounds = self.plan.bounds;
        let within = BooleanBuffer::collect_bool(found.apart.len(), |pair| bounds.allow(found.apart[pair]));
        found.retain(&within);
        if !found.left.is_empty() && !self.plan.sides[0].compared.is_empty() {
            let equal = self.equal_keys(&found)?;
            found.retain(&equal);
        }
        if !found.left.is_empty() && self.plan.condition.is_some() {
            let true_for = self.condition(&found, out)?;
            found.retain(&true_for);
        }
        self.settle(&found);
        self.candidates = found;
        Ok(())
    }

    /// Walks the chains of the rows that look for partners.
    fn gather(&mut self, limit: usize, found: &mut Candidates) {
        let mut steps = 0;
        while steps < limit {
            let Some(probe) = self.queue.front_mut() else { break };
            let [left, right] = &mut self.sides;
            let (own, other) = match probe.which {
                Which::Left => (&*left, right),
                Which::Right => (&*right, left),
            };
            let Some(chunk) = own.chunk(pointer(probe.slot, 0)) else {
                self.queue.pop_front();
                continue;
            };
            if !std::mem::replace(&mut probe.chained, true) {
                other.chain_for(&chunk.nodes);
                probe.only = other.few_wanted(chunk.rows()).map(|wanted| {
                    let nodes = chunk.nodes.iter().zip(0u32..);
                    nodes.filter(|(node, _)| wanted.has(node.hash)).map(|(_, row)| row).collect()
                });
            }
            let row = match &probe.only {
                None => Some(probe.row).filter(|row| *row < chunk.rows()),
                Some(only) => only.get(probe.row).map(|row| *row as usize),
            };
            let Some(row) = row else {
                self.queue.pop_front();
                continue;
            };
            let (node, own_ptr) = (chunk.nodes[row], pointer(probe.slot, row));
            // A row that needed one partner may have found it meanwhile.
            let mut next = if node.prev == GONE { NONE } else { probe.next.unwrap_or_else(|| other.head(node.hash)) };
            while next != NONE && steps < limit {
                let Some(candidates) = other.chunk(next) else {
                    next = NONE;
                    break;
                };
                let candidate = candidates.nodes[row_of(next)];
                if candidates.seq < probe.seq && candidate.prev != GONE {
                    let (left, right, apart) = match probe.which {
                        Which::Left => (own_ptr, next, candidate.time - node.time),
                        Which::Right => (next, own_ptr, node.time - candidate.time),
                    };
                    found.left.push(left);
                    found.right.push(right);
                    found.apart.push(apart);
                }
                next = candidate.next;
                steps += 1;
            }
            if next == NONE {
                probe.row += 1;
                probe.next = None;
            } else {
                probe.next = Some(next);
            }
        }
    }

    /// The candidates whose keys are equal, not just their hashes.
    fn equal_keys(&self, found: &Candidates) -> Result<BooleanBuffer> {
        let pairs = Pairs::new(&self.sides, &found.left, &found.right);
        let mut equal = BooleanBuffer::new_set(found.left.len());
        for (left, right) in self.plan.sides[0].compared.iter().zip(&self.plan.sides[1].compared) {
            let compared: ArrayRef = Arc::new(eq(&pairs.column(Which::Left, *left)?, &pairs.column(Which::Right, *right)?)?);
            equal = &equal & &truths(&compared);
        }
        Ok(equal)
    }

    /// The candidates for which the condition is true. A pair on which it fails is none, and is reported.
    fn condition(&self, found: &Candidates, out: &mut Output) -> Result<BooleanBuffer> {
        let rows = found.left.len();
        let Some(condition) = &self.plan.condition else { return Ok(BooleanBuffer::new_set(rows)) };
        let pairs = Pairs::new(&self.sides, &found.left, &found.right);
        let columns = condition.columns.iter().map(|(which, column)| pairs.column(*which, *column)).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let joined = RecordBatch::try_new_with_options(Arc::clone(&condition.schema), columns, &options)?;
        let evaluated = condition.compiled.evaluate(&joined, EventTime(0));
        for (row, message) in evaluated.bad {
            let message = format!("the condition fails on a pair of rows: {message}");
            let mut bad = BadRow::of(&joined, row, BadReason::Condition, message).in_column(Some("condition".into()));
            // It is no row of the batch that came in.
            bad.row = None;
            bad.event_time = self.time_of(found.left[row]).map(EventTime::from_millis);
            out.bad.push(bad);
        }
        Ok(truths(&evaluated.values))
    }

    fn time_of(&self, left: Ptr) -> Option<i64> {
        self.sides[0].chunk(left).and_then(|chunk| chunk.nodes.get(row_of(left))).map(|node| node.time)
    }

    /// Remembers who has had a partner, and what is to come out.
    fn settle(&mut self, found: &Candidates) {
        let kind = self.plan.kind;
        let [left_side, right_side] = &mut self.sides;
        if kind.ends_with_a_partner(Which::Left) {
            for left in &found.left {
                if left_side.is_matched(*left) {
                    continue;
                }
                left_side.mark(*left);
                left_side.unlink(*left);
                if !kind.keeps_unmatched(Which::Left) {
                    self.ready.push((*left, NONE));
                }
            }
            return;
        }
        if left_side.marked {
            found.left.iter().for_each(|left| left_side.mark(*left));
        }
        if right_side.marked {
            found.right.iter().for_each(|right| right_side.mark(*right));
        }
        self.ready.extend(found.left.iter().copied().zip(found.right.iter().copied()));
    }

    /// Puts the oldest of the pairs that are ready together, `limit` at most.
    pub(super) fn emit(&mut self, limit: usize, out: &mut Output) -> Result<()> {
        let rows = self.ready.len().min(limit);
        if rows == 0 {
            return Ok(());
        }
        let (left, right): (Vec<Ptr>, Vec<Ptr>) = self.ready.drain(..rows).unzip();
        let right = if self.plan.kind.pairs() { right } else { Vec::new() };
        let made = self.plan.joined(&Pairs::new(&self.sides, &left, &right))?;
        out.emit(made);
        Ok(())
    }
}

/// Which of the candidates' rows are null in any of these columns: a null key equals nothing.
pub(super) fn without_nulls(columns: &[ArrayRef], rows: usize) -> Option<BooleanArray> {
    let mut keyed: Option<BooleanBuffer> = None;
    for nulls in columns.iter().filter_map(|column| column.logical_nulls()).filter(|nulls| nulls.null_count() > 0) {
        keyed = Some(keyed.map_or_else(|| nulls.inner().clone(), |keyed| &keyed & nulls.inner()));
    }
    debug_assert!(keyed.as_ref().is_none_or(|keyed| keyed.len() == rows));
    keyed.map(|keyed| BooleanArray::new(keyed, None))
}

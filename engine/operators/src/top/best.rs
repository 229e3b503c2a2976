//! The operator for `n = 1` of final rows: nothing but the place of each group's first row is kept, since no row that is not
//! among those that just came can ever be emitted.

use super::bind::breaks_by_a_word;
use super::plan::{Beside, Plan};
use crate::keys::{GroupBy, Groups};
use crate::lean::{Order, RowHash, Runs, decode, deferred, emit_cut, is_word, own_rows, visible_columns, words};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::take_arrays;
use arrow::datatypes::{DataType, SchemaRef, UInt64Type};
use std::sync::Arc;
use tidegate_api::{
    Epoch, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result, Signature, StatePiece, hidden,
};

/// Whether a stage is one of these.
pub(super) fn suits(plan: &Plan) -> bool {
    plan.n == 1 && plan.updates.is_none() && plan.window.is_none() && is_word(&plan.types[plan.order_by]) && breaks_by_a_word(plan)
}

/// Opens the operator of each task.
#[derive(Debug)]
pub(super) struct BestFactory {
    plan: Arc<Plan>,
}

impl BestFactory {
    pub(super) fn new(plan: Plan) -> Self {
        BestFactory { plan: Arc::new(plan) }
    }
}

impl OperatorFactory for BestFactory {
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
        let by = GroupBy::new(self.plan.groups.iter().map(|index| self.plan.types[*index].clone()).collect())?;
        Ok(Box::new(Best {
            groups: by.table(),
            by,
            order: self.plan.order()?,
            hash: RowHash::new(&self.plan.types)?,
            places: Places::default(),
            newest: Vec::new(),
            runs: Runs::default(),
            scratch: Scratch::default(),
            plan: Arc::clone(&self.plan),
            ctx,
        }))
    }
}

struct Best {
    plan: Arc<Plan>,
    ctx: OperatorCtx,
    by: GroupBy,
    groups: Groups,
    order: Order,
    hash: RowHash,
    places: Places,
    /// Per group the row of the running batch that is first so far. What other batches left there means nothing.
    newest: Vec<u32>,
    runs: Runs,
    scratch: Scratch,
}

/// The places of first rows, by group.
#[derive(Debug, Default)]
struct Places {
    heads: Vec<u64>,
    /// What breaks ties: the value and, above it, whether there is none. Empty where nothing does.
    ties: Vec<u128>,
    hashes: Vec<u64>,
}

#[derive(Debug, Default)]
struct Scratch {
    numbers: Vec<u32>,
    heads: Vec<u64>,
    hashes: Vec<u64>,
}

impl Operator for Best {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let ranked = self.plan.ranked(&batch)?;
        out.filtered += ranked.filtered as u64;
        let rows = ranked.batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let columns = visible_columns(&ranked.batch);
        let mut scratch = std::mem::take(&mut self.scratch);
        self.order.heads(&columns, &mut scratch.heads)?;
        let ties = self.ties(&columns)?;
        self.number(&columns, rows, &mut scratch.numbers)?;
        let firsts = self.firsts(&columns, rows, &mut scratch, &ties)?;
        let taken = match firsts.len() {
            0 => {
                self.scratch = scratch;
                return Ok(());
            }
            all if all == rows => columns,
            _ => take_arrays(&columns, &UInt32Array::from(firsts.clone()), None)?,
        };
        self.hash.of(&taken, firsts.len(), &mut scratch.hashes)?;
        for (row, hash) in firsts.iter().zip(&scratch.hashes) {
            let number = scratch.numbers[*row as usize];
            self.places.hashes[number as usize] = *hash;
            self.runs.mark(number);
        }
        self.scratch = scratch;
        let count = firsts.len();
        let beside = Beside { ranks: vec![1; count], ops: Some(vec![hidden::UPSERT; count]), bounds: None };
        emit_cut(self.plan.output(&taken, beside)?, self.ctx.batch_rows, out);
        Ok(())
    }

    fn on_watermark(&mut self, _watermark: EventTime, _out: &mut Output) -> Result<Flow> {
        Ok(Flow::Done)
    }

    fn measure(&mut self) {
        self.ctx.state_bytes.set(self.bytes());
    }

    fn snapshot(&mut self, _epoch: Epoch) -> Result<Vec<StatePiece>> {
        let mut pieces = Vec::new();
        let (by, groups, places) = (&self.by, &self.groups, &self.places);
        self.runs.snapshot(groups.len(), self.ctx.vnodes, &mut pieces, |numbers| {
            let mut columns = by.columns_of(groups, numbers)?;
            columns.extend(places.columns(numbers));
            deferred(columns, numbers.len())
        })?;
        self.ctx.state_bytes.set(self.bytes());
        Ok(pieces)
    }

    fn forget_pieces(&mut self) {
        self.runs.renumbered();
    }

    fn pieces_named(&mut self, _epoch: Epoch, ids: Vec<PieceId>) {
        self.runs.named(&mut ids.into_iter());
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        let keys: Vec<usize> = (0..self.plan.groups.len()).collect();
        let mut types: Vec<DataType> = self.plan.groups.iter().map(|index| self.plan.types[*index].clone()).collect();
        types.extend(vec![DataType::UInt64; if self.plan.tie_by.is_empty() { 2 } else { 4 }]);
        let (by, groups, places, ctx) = (&self.by, &mut self.groups, &mut self.places, &self.ctx);
        self.runs.restore(&pieces, ctx.vnodes, |piece| {
            let mut records = 0;
            for batch in decode(piece, &types)? {
                records += batch.num_rows();
                let batch = own_rows(batch, &keys, piece, ctx.vnodes, ctx.vnode_count)?;
                let rows = batch.num_rows();
                if rows == 0 {
                    continue;
                }
                let mut numbers = Vec::with_capacity(rows);
                groups.intern(&by.keys(&batch.columns()[..keys.len()])?, 0..rows, |number| numbers.push(number))?;
                places.take(&numbers, groups.len(), &batch.columns()[keys.len()..]);
            }
            Ok(records)
        })?;
        self.newest.resize(self.groups.len(), 0);
        self.ctx.state_bytes.set(self.bytes());
        Ok(())
    }
}

impl Best {
    fn number(&mut self, columns: &[ArrayRef], rows: usize, numbers: &mut Vec<u32>) -> Result<()> {
        let keys: Vec<ArrayRef> = self.plan.groups.iter().map(|index| Arc::clone(&columns[*index])).collect();
        numbers.clear();
        self.groups.intern(&self.by.keys(&keys)?, 0..rows, |number| numbers.push(number))?;
        self.newest.resize(self.groups.len(), 0);
        Ok(())
    }

    /// What breaks ties, by row; empty where nothing does.
    fn ties(&self, columns: &[ArrayRef]) -> Result<Vec<u128>> {
        let Some(tie) = self.plan.tie_by.first() else { return Ok(Vec::new()) };
        let mut values = Vec::with_capacity(columns[*tie].len());
        words(&columns[*tie], &mut values)?;
        let nulls = columns[*tie].logical_nulls();
        let missing = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        Ok(values.iter().enumerate().map(|(row, word)| if missing(row) { 1 << 64 } else { u128::from(*word) }).collect())
    }

    /// The rows that are now first of their groups and were not before, in their order. Their places are noted, but for the hash.
    fn firsts(&mut self, columns: &[ArrayRef], rows: usize, scratch: &mut Scratch, ties: &[u128]) -> Result<Vec<u32>> {
        let places = &mut self.places;
        let tie = |row: usize| ties.get(row).copied().unwrap_or_default();
        let mut accepted: Vec<u32> = Vec::with_capacity(rows);
        // The hashes of all rows, once two rows are equal in everything before it.
        let mut hashed = false;
        let mut met = places.heads.len();
        for (row, number) in scratch.numbers.iter().enumerate() {
            let group = *number as usize;
            if group == met {
                places.push(scratch.heads[row], ties.get(row).copied());
                met += 1;
            } else {
                let place = (places.heads[group], places.ties.get(group).copied().unwrap_or_default());
                let order = (scratch.heads[row], tie(row)).cmp(&place);
                if order.is_gt() {
                    continue;
                }
                if order.is_eq() {
                    if !std::mem::replace(&mut hashed, true) {
                        self.hash.of(columns, rows, &mut scratch.hashes)?;
                    }
                    let in_batch = self.newest[group] as usize;
                    let is_of_batch =
                        in_batch < row && scratch.numbers[in_batch] == *number && accepted.binary_search(&(in_batch as u32)).is_ok();
                    let first = if is_of_batch { scratch.hashes[in_batch] } else { places.hashes[group] };
                    if scratch.hashes[row] >= first {
                        continue;
                    }
                }
                places.heads[group] = scratch.heads[row];
                if let Some(tie) = ties.get(row) {
                    places.ties[group] = *tie;
                }
            }
            self.newest[group] = row as u32;
            accepted.push(row as u32);
        }
        let (newest, numbers) = (&self.newest, &scratch.numbers);
        accepted.retain(|row| newest[numbers[*row as usize] as usize] == *row);
        Ok(accepted)
    }

    fn bytes(&self) -> u64 {
        (self.groups.bytes() + self.places.bytes() + self.newest.capacity() * 4 + self.runs.bytes()) as u64
    }
}

impl Places {
    fn push(&mut self, head: u64, tie: Option<u128>) {
        self.heads.push(head);
        self.ties.extend(tie);
        self.hashes.push(0);
    }

    /// The state columns of some groups.
    fn columns(&self, numbers: &[u32]) -> Vec<ArrayRef> {
        let column = |value: &dyn Fn(usize) -> u64| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(numbers.iter().map(|number| value(*number as usize))))
        };
        let mut columns = vec![column(&|group| self.heads[group]), column(&|group| self.hashes[group])];
        if !self.ties.is_empty() {
            columns.push(column(&|group| self.ties[group] as u64));
            columns.push(column(&|group| (self.ties[group] >> 64) as u64));
        }
        columns
    }

    /// Takes state columns of some groups back.
    fn take(&mut self, numbers: &[u32], total: usize, columns: &[ArrayRef]) {
        self.heads.resize(total, 0);
        self.hashes.resize(total, 0);
        let column = |index: usize| columns[index].as_primitive::<UInt64Type>().values();
        for (row, number) in numbers.iter().enumerate() {
            self.heads[*number as usize] = column(0)[row];
            self.hashes[*number as usize] = column(1)[row];
        }
        if columns.len() > 2 {
            self.ties.resize(total, 0);
            for (row, number) in numbers.iter().enumerate() {
                self.ties[*number as usize] = u128::from(column(3)[row]) << 64 | u128::from(column(2)[row]);
            }
        }
    }

    fn bytes(&self) -> usize {
        (self.heads.capacity() + self.hashes.capacity()) * 8 + self.ties.capacity() * 16
    }
}

//! The operator: rows in, the aggregates of changed groups out.

use super::plan::{Layout, Plan};
use crate::expression::BadRows;
use crate::lean::{Ranking, Shape};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt8Array, new_null_array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{concat, filter, filter_record_batch};
use arrow::datatypes::{SchemaRef, UInt8Type, UInt64Type};
use std::sync::Arc;
use tidegate_api::{
    BadReason, BadRow, Epoch, Error, EventTime, Flow, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, Result,
    Signature, StatePiece, hidden, key, raw, types,
};

/// Portions that are told at once.
const PORTIONS: usize = 4;

/// Opens the operator of each task.
#[derive(Debug)]
pub(crate) struct LastFactory {
    plan: Arc<Plan>,
}

impl LastFactory {
    pub(crate) fn new(plan: Plan) -> Self {
        LastFactory { plan: Arc::new(plan) }
    }
}

impl OperatorFactory for LastFactory {
    fn name(&self) -> &str {
        self.plan.op
    }

    fn signature(&self) -> Signature {
        self.plan.signature.clone()
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.plan.schema)
    }

    fn open(&self, ctx: OperatorCtx) -> Result<Box<dyn Operator>> {
        let layout = self.plan.layout()?;
        let shape: Shape = self.plan.shape(&layout)?;
        let ranking = Ranking::new(&Arc::new(shape), true)?;
        Ok(Box::new(Last { plan: Arc::clone(&self.plan), layout, ranking, next: 0, ctx }))
    }
}

struct Last {
    plan: Arc<Plan>,
    ctx: OperatorCtx,
    layout: Layout,
    ranking: Ranking,
    /// The place of the next row in the order of arrival.
    next: u64,
}

impl Operator for Last {
    fn on_batch(&mut self, _input: usize, batch: RecordBatch, out: &mut Output) -> Result<()> {
        let rows = batch.num_rows();
        if rows == 0 {
            return Ok(());
        }
        let mut bad = BadRows::default();
        let kept = self.plan.kept(&batch, self.next, &mut bad)?;
        self.next += rows as u64;
        let columns: Vec<ArrayRef> = kept.into_iter().flatten().collect();
        let stays = self.stays(&batch)?;
        // What has no value to be ordered by is left out; what is only to go need not have one, nor can it be bad.
        let nulls = self.plan.order_by.and_then(|index| batch.column(index).logical_nulls());
        let ordered = nulls.map_or_else(|| stays.clone(), |nulls| &stays & nulls.inner());
        let good = bad.good(rows);
        let ranked = &ordered & &good;
        out.filtered += (stays.count_set_bits() - ordered.count_set_bits()) as u64;
        if ranked.count_set_bits() < ordered.count_set_bits() {
            self.report(&batch, &(&ordered & &!&good), out)?;
        }
        match self.plan.updates {
            Some(_) => self.ranking.update(&columns, rows, &ranked)?,
            None if ranked.count_set_bits() == rows => self.ranking.absorb(&columns, rows)?,
            None => {
                let taken = BooleanArray::new(ranked, None);
                let columns: Vec<ArrayRef> = columns.iter().map(|column| filter(column, &taken)).collect::<std::result::Result<_, _>>()?;
                self.ranking.absorb(&columns, taken.true_count())?;
            }
        }
        for _ in 0..PORTIONS {
            if self.tell(out)? == Flow::Done {
                break;
            }
        }
        Ok(())
    }

    fn on_watermark(&mut self, _watermark: EventTime, out: &mut Output) -> Result<Flow> {
        self.tell(out)
    }

    fn on_time(&mut self, out: &mut Output) -> Result<Flow> {
        self.tell(out)
    }

    fn on_drain(&mut self, out: &mut Output) -> Result<Flow> {
        self.tell(out)
    }

    fn measure(&mut self) {
        self.ctx.state_bytes.set(self.ranking.bytes() as u64);
    }

    fn snapshot(&mut self, _epoch: Epoch) -> Result<Vec<StatePiece>> {
        let mut pieces = Vec::new();
        self.ranking.snapshot("", &self.ctx, &mut pieces)?;
        self.ctx.state_bytes.set(self.ranking.bytes() as u64);
        Ok(pieces)
    }

    fn forget_pieces(&mut self) {
        self.ranking.forget_pieces();
    }

    fn pieces_named(&mut self, _epoch: Epoch, ids: Vec<PieceId>) {
        self.ranking.named(&mut ids.into_iter());
    }

    fn restore(&mut self, pieces: Vec<RestoredPiece>) -> Result<()> {
        let named: Vec<(&str, &RestoredPiece)> = pieces.iter().map(|piece| (piece.name.as_str(), piece)).collect();
        let (by_arrival, mut next) = (self.plan.order_by.is_none(), self.next);
        self.ranking.restore(&named, &self.ctx, |columns| {
            let places = columns.last().filter(|_| by_arrival).and_then(|column| column.as_primitive_opt::<UInt64Type>());
            let last = places.and_then(|places| places.values().iter().max().copied());
            next = next.max(last.map_or(0, |last| last + 1));
        })?;
        self.next = next;
        self.ctx.state_bytes.set(self.ranking.bytes() as u64);
        Ok(())
    }
}

impl Last {
    /// The rows that are not only to go.
    fn stays(&self, batch: &RecordBatch) -> Result<BooleanBuffer> {
        let Some(op) = self.plan.updates.as_ref().and_then(|updates| updates.op) else {
            return Ok(BooleanBuffer::new_set(batch.num_rows()));
        };
        let ops = batch.column(op).as_primitive_opt::<UInt8Type>().ok_or_else(|| Error::internal("`_op` is not a uint8 column"))?;
        Ok(ops.values().iter().map(|op| *op != hidden::DELETE).collect())
    }

    /// Hands bad rows over: looked at alone, each says again what is wrong with it.
    fn report(&self, batch: &RecordBatch, rows: &BooleanBuffer, out: &mut Output) -> Result<()> {
        let alone = filter_record_batch(batch, &BooleanArray::new(rows.clone(), None))?;
        let mut bad = BadRows::default();
        for bound in &self.plan.aggregates {
            bound.mask(&alone, &mut bad);
        }
        bad.report(&alone, out);
        Ok(())
    }

    /// Tells a portion of the groups that have changed.
    fn tell(&mut self, out: &mut Output) -> Result<Flow> {
        // A portion is a batch of rows to be looked at, and of groups to be told.
        let limit = self.ctx.batch_rows.max(1);
        let Some(changed) = self.ranking.changed_groups(limit) else { return Ok(Flow::Done) };
        let (mut groups, mut gone) = (Vec::new(), Vec::new());
        let (mut ids, mut numbers): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        for (group, was_told) in changed {
            let from = ids.len();
            ids.extend(self.ranking.ranked(group));
            if ids.len() > from {
                // The oldest first, for aggregates that look at the order.
                ids[from..].reverse();
                numbers.extend(std::iter::repeat_n(groups.len() as u32, ids.len() - from));
                groups.push(group);
            } else if was_told {
                gone.push(group);
            }
        }
        let kept = self.ranking.rows(&ids)?;
        let mut results: Vec<ArrayRef> = Vec::with_capacity(self.plan.aggregates.len());
        let all: Vec<u32> = groups.iter().chain(&gone).copied().collect();
        let group_columns = self.ranking.group_columns(&all)?;
        for (bound, values) in self.plan.aggregates.iter().zip(&self.layout.values) {
            let mut accumulator = bound.aggregate.accumulator()?;
            accumulator.update(&numbers, groups.len(), values.map(|index| &kept[index]))?;
            let finished = accumulator.finish()?;
            for (group, value) in finished.misfits {
                out.bad.push(misfit(&self.plan.schema, &bound.field, &value, &group_columns, group));
            }
            results.push(with_none(finished.values, gone.len(), bound.field.is_nullable())?);
        }
        if !all.is_empty() {
            let ops = [vec![hidden::UPSERT; groups.len()], vec![hidden::DELETE; gone.len()]].concat();
            out.emit(rows(&self.plan.schema, group_columns, results, Some(ops), self.plan.keyed)?);
        }
        if !self.ranking.is_told() {
            return Ok(Flow::More);
        }
        self.ranking.tidy()?;
        Ok(Flow::Done)
    }
}

/// A column with `count` more values that mean nothing, for rows that remove others.
///
/// # Errors
/// `Internal` when the array cannot be made.
pub(crate) fn with_none(column: ArrayRef, count: usize, nullable: bool) -> Result<ArrayRef> {
    if count == 0 {
        return Ok(column);
    }
    let none: ArrayRef = if nullable { new_null_array(column.data_type(), count) } else { Arc::new(Int64Array::from(vec![0; count])) };
    Ok(concat(&[column.as_ref(), none.as_ref()])?)
}

/// Output rows: groups, results, and the hidden columns.
pub(crate) fn rows(
    schema: &SchemaRef,
    groups: Vec<ArrayRef>,
    results: Vec<ArrayRef>,
    ops: Option<Vec<u8>>,
    keyed: bool,
) -> Result<RecordBatch> {
    let count = results.first().map_or(0, |result| result.len());
    let named = groups.clone();
    let mut columns = groups;
    columns.extend(results);
    if let Some(ops) = ops {
        columns.push(Arc::new(UInt8Array::from(ops)));
    }
    if keyed {
        columns.push(key::build(count, |row, bytes| named.iter().try_for_each(|column| key::push_value(bytes, column.as_ref(), row)))?);
    }
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// A result that does not fit its type. The group is told with null in its place.
pub(crate) fn misfit(schema: &SchemaRef, field: &arrow::datatypes::Field, value: &str, groups: &[ArrayRef], row: usize) -> BadRow {
    let names = schema.fields().iter().zip(groups);
    let shown: Vec<String> = names.map(|(field, group)| format!("{}={}", field.name(), raw::value(group, row))).collect();
    let group = if shown.is_empty() { String::new() } else { format!(" (group {})", shown.join(", ")) };
    let message = format!("`{}` is `{value}`, which `{}` cannot hold{group}", field.name(), types::name(field.data_type()));
    BadRow::new(BadReason::Overflow, message, shown.join(", ")).in_column(Some(field.name().clone()))
}

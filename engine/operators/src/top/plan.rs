//! A stage, typed, and its output rows.

use crate::keys::{GroupBy, normalised};
use crate::lean::{Direction, Order, RowHash, Shape};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt8Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, SchemaRef, UInt8Type};
use std::sync::Arc;
use tidegate_api::{Error, Result, Signature, hidden, key};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Plan {
    /// The input's visible columns.
    pub(super) types: Vec<DataType>,
    pub(super) order_by: usize,
    pub(super) direction: Direction,
    pub(super) tie_by: Vec<usize>,
    pub(super) n: usize,
    pub(super) groups: Vec<usize>,
    /// The columns that decide a row's task.
    pub(super) exchange: Vec<usize>,
    pub(super) updates: Option<Updates>,
    pub(super) window: Option<Window>,
    /// The input columns behind the rank.
    pub(super) rest: Vec<usize>,
    pub(super) schema: SchemaRef,
    pub(super) keyed: bool,
    pub(super) signature: Signature,
}

/// How rows that come in update each other.
#[derive(Debug)]
pub(super) struct Updates {
    pub(super) keys: Vec<usize>,
    /// The `_op` column.
    pub(super) op: Option<usize>,
}

/// Where a row's window is found.
#[derive(Debug)]
pub(super) enum Window {
    /// Cut from a time column.
    Of {
        /// The column.
        time: usize,
        /// Its name.
        name: String,
        /// The windows' length in milliseconds.
        size: i64,
        /// The column's zone.
        zone: Option<Arc<str>>,
    },
    /// Named by two columns.
    Named { start: usize, end: usize },
}

/// Output rows in the making: what stands beside the input's columns.
pub(super) struct Beside {
    pub(super) ranks: Vec<i64>,
    /// `_op`, of a stage whose ranks change.
    pub(super) ops: Option<Vec<u8>>,
    /// `windowStart` and `windowEnd`, of a windowed stage that cuts them itself.
    pub(super) bounds: Option<(ArrayRef, ArrayRef)>,
}

impl Plan {
    /// What a ranking of this stage is made of. A window's own ranking needs no groups by the window's bounds.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(super) fn shape(&self) -> Result<Shape> {
        let groups: Vec<usize> = match self.window {
            Some(Window::Named { start, end }) => self.groups.iter().copied().filter(|index| *index != start && *index != end).collect(),
            Some(Window::Of { .. }) | None => self.groups.clone(),
        };
        Ok(Shape {
            types: self.types.clone(),
            by: GroupBy::new(groups.iter().map(|index| self.types[*index].clone()).collect())?,
            groups,
            order: self.order()?,
            hash: Some(RowHash::new(&self.types)?),
            n: self.n,
            keys: self.updates.as_ref().map(|updates| updates.keys.clone()),
            exchange: self.exchange.clone(),
        })
    }

    /// The order of rows.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(super) fn order(&self) -> Result<Order> {
        Order::new(&self.types, self.order_by, self.direction, self.tie_by.clone())
    }

    /// The rows of a batch that are to be ranked. Others leave no trace where rows are final; where rows update each other they
    /// stay in the batch, since what they replace goes.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn ranked(&self, batch: &RecordBatch) -> Result<Ranked> {
        let rows = batch.num_rows();
        let nulls = batch.column(self.order_by).logical_nulls().filter(|nulls| nulls.null_count() > 0);
        let Some(updates) = &self.updates else {
            return Ok(match nulls {
                None => Ranked { batch: batch.clone(), ranked: BooleanBuffer::new_set(rows), filtered: 0 },
                Some(nulls) => {
                    let kept = filter_record_batch(batch, &BooleanArray::new(nulls.inner().clone(), None))?;
                    let filtered = rows - kept.num_rows();
                    Ranked { ranked: BooleanBuffer::new_set(kept.num_rows()), batch: kept, filtered }
                }
            });
        };
        let stays = match updates.op {
            None => BooleanBuffer::new_set(rows),
            Some(op) => {
                let ops = batch.column(op).as_primitive_opt::<UInt8Type>().ok_or_else(|| Error::internal("`_op` is not a uint8 column"))?;
                ops.values().iter().map(|op| *op != hidden::DELETE).collect()
            }
        };
        let ranked = nulls.map_or_else(|| stays.clone(), |nulls| &stays & nulls.inner());
        let filtered = stays.count_set_bits() - ranked.count_set_bits();
        Ok(Ranked { batch: batch.clone(), ranked, filtered })
    }

    /// Output rows, from the input's visible columns.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn output(&self, columns: &[ArrayRef], beside: Beside) -> Result<RecordBatch> {
        let rows = beside.ranks.len();
        let mut made: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        if let Some((start, end)) = beside.bounds {
            made.extend([start, end]);
        }
        // What replaces a row is equal to it in the keys, to the bit.
        made.extend(self.groups.iter().map(|index| normalised(&columns[*index])));
        made.push(Arc::new(Int64Array::from(beside.ranks)));
        let named = made.clone();
        made.extend(self.rest.iter().map(|index| Arc::clone(&columns[*index])));
        if let Some(ops) = beside.ops {
            made.push(Arc::new(UInt8Array::from(ops)));
        }
        if self.keyed {
            made.push(key::build(rows, |row, bytes| named.iter().try_for_each(|column| key::push_value(bytes, column.as_ref(), row)))?);
        }
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), made)?)
    }
}

/// Rows on their way into a ranking.
pub(super) struct Ranked {
    pub(super) batch: RecordBatch,
    pub(super) ranked: BooleanBuffer,
    pub(super) filtered: usize,
}

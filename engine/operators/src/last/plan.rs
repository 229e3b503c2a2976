//! A stage, typed, and what of a row it keeps: its group, its keys, the values that the aggregates take, and its place in the
//! order.

use crate::aggregates::BoundAggregate;
use crate::expression::BadRows;
use crate::keys::GroupBy;
use crate::lean::{Direction, Order, RowHash, Shape};
use crate::projection::find;
use crate::step::StreamType;
use arrow::array::{Array, ArrayRef, RecordBatch, UInt64Array, new_null_array};
use arrow::datatypes::{DataType, SchemaRef};
use std::sync::Arc;
use tidegate_api::{ChangeMode, Result, Signature, hidden};

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) op: &'static str,
    pub(crate) input: SchemaRef,
    pub(crate) n: usize,
    /// `None` for the order of arrival.
    pub(crate) order_by: Option<usize>,
    pub(crate) groups: Vec<usize>,
    /// Whether rows of a group come to one task of several by their group; else there is one task.
    pub(crate) exchanged: bool,
    pub(crate) updates: Option<Updates>,
    pub(crate) aggregates: Vec<BoundAggregate>,
    /// Groups, results, `_op`, and `_key` when `keyed`.
    pub(crate) schema: SchemaRef,
    pub(crate) keyed: bool,
    pub(crate) signature: Signature,
}

/// How rows that come in update each other.
#[derive(Debug)]
pub(crate) struct Updates {
    pub(crate) keys: Vec<usize>,
    /// The `_op` column.
    pub(crate) op: Option<usize>,
}

impl Updates {
    /// Those of an input, if its rows do.
    pub(crate) fn of(input: &StreamType) -> Option<Self> {
        let ChangeMode::Upsert { keys } = &input.mode else { return None };
        let found = keys.iter().filter_map(|key| find(&input.schema, key)).collect();
        Some(Updates { keys: found, op: input.schema.index_of(hidden::OP).ok() })
    }
}

/// Where the parts of a kept row are.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) types: Vec<DataType>,
    /// The first of the keys; groups come before them.
    keys: usize,
    /// The column of each aggregate's values; `None` counts rows.
    pub(super) values: Vec<Option<usize>>,
}

impl Plan {
    /// What of a batch is kept, one column per part. `first` is the place of its first row in the order of arrival.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn kept(&self, batch: &RecordBatch, first: u64, bad: &mut BadRows) -> Result<Vec<Option<ArrayRef>>> {
        let rows = batch.num_rows();
        let mut columns: Vec<Option<ArrayRef>> = Vec::new();
        let keys = self.updates.iter().flat_map(|updates| &updates.keys);
        columns.extend(self.groups.iter().chain(keys).map(|index| Some(Arc::clone(batch.column(*index)))));
        for bound in &self.aggregates {
            let mask = bound.mask(batch, bad);
            columns.push(bound.values(batch, mask)?);
        }
        columns.push(Some(match self.order_by {
            Some(index) => Arc::clone(batch.column(index)),
            None => Arc::new(UInt64Array::from_iter_values((0..rows as u64).map(|row| first + row))),
        }));
        Ok(columns)
    }

    /// The layout of kept rows.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn layout(&self) -> Result<Layout> {
        let fields: Vec<ArrayRef> = self.input.fields().iter().map(|field| new_null_array(field.data_type(), 0)).collect();
        let empty = RecordBatch::try_new(Arc::clone(&self.input), fields)?;
        let parts = self.kept(&empty, 0, &mut BadRows::default())?;
        let keys = self.groups.len();
        let before = keys + self.updates.as_ref().map_or(0, |updates| updates.keys.len());
        let mut next = before;
        let values = parts[before..before + self.aggregates.len()].iter().map(|part| {
            let place = next;
            next += usize::from(part.is_some());
            part.as_ref().map(|_| place)
        });
        let values = values.collect();
        let types = parts.into_iter().flatten().map(|part| part.data_type().clone()).collect();
        Ok(Layout { types, keys, values })
    }

    /// What a ranking of kept rows is made of.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(super) fn shape(&self, layout: &Layout) -> Result<Shape> {
        let groups: Vec<usize> = (0..self.groups.len()).collect();
        let by = layout.types.len() - 1;
        Ok(Shape {
            by: GroupBy::new(layout.types[..self.groups.len()].to_vec())?,
            order: Order::new(&layout.types, by, Direction::Descending, Vec::new())?,
            // No two rows arrive at once.
            hash: self.order_by.map(|_| RowHash::new(&layout.types)).transpose()?,
            n: self.n,
            keys: self.updates.as_ref().map(|updates| (layout.keys..layout.keys + updates.keys.len()).collect()),
            exchange: if self.exchanged { groups.clone() } else { Vec::new() },
            types: layout.types.clone(),
            groups,
        })
    }
}

//! Rows put together: pairs, and rows without a partner.

use super::bounds::Which;
use super::plan::{Plan, Source};
use super::side::{Ptr, Side, row_of, slot_of};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{cast, interleave, take};
use std::sync::Arc;
use tidegate_api::key::{self, Tag};
use tidegate_api::{Error, Result};

/// Rows of a side, ready to be gathered column by column.
pub(super) struct Picked {
    /// The chunks they are in.
    slots: Vec<usize>,
    rows: Rows,
}

enum Rows {
    /// Of one chunk.
    Of(UInt32Array),
    /// Of several: which chunk, which row.
    Among(Vec<(usize, usize)>),
}

impl Picked {
    pub(super) fn new(side: &Side, rows: &[Ptr]) -> Self {
        let first = rows.first().map_or(0, |ptr| slot_of(*ptr));
        if rows.iter().all(|ptr| slot_of(*ptr) == first) {
            return Picked { slots: vec![first], rows: Rows::Of(rows.iter().map(|ptr| row_of(*ptr) as u32).collect::<Vec<u32>>().into()) };
        }
        let mut place = vec![usize::MAX; side.chunks.len()];
        let mut slots = Vec::new();
        let among = rows.iter().map(|ptr| {
            let slot = slot_of(*ptr);
            if place[slot] == usize::MAX {
                place[slot] = slots.len();
                slots.push(slot);
            }
            (place[slot], row_of(*ptr))
        });
        let among = among.collect();
        Picked { slots, rows: Rows::Among(among) }
    }

    /// One column of the rows.
    pub(super) fn column(&self, side: &Side, column: usize) -> Result<ArrayRef> {
        let lost = || Error::internal("a row of a join is in no chunk");
        let of = |slot: &usize| side.chunks[*slot].as_ref().and_then(|chunk| chunk.columns.get(column)).ok_or_else(lost);
        match &self.rows {
            Rows::Of(rows) => Ok(take(of(&self.slots[0])?, rows, None)?),
            Rows::Among(rows) => {
                let arrays = self.slots.iter().map(|slot| of(slot).map(AsRef::as_ref)).collect::<Result<Vec<&dyn Array>>>()?;
                Ok(interleave(&arrays, rows)?)
            }
        }
    }
}

/// The two rows of pairs, or left rows alone.
pub(super) struct Pairs<'a> {
    sides: &'a [Side; 2],
    picked: [Picked; 2],
    rows: usize,
}

impl<'a> Pairs<'a> {
    pub(super) fn new(sides: &'a [Side; 2], left: &[Ptr], right: &[Ptr]) -> Self {
        Pairs { picked: [Picked::new(&sides[0], left), Picked::new(&sides[1], right)], sides, rows: left.len() }
    }

    /// One column of one of the two rows.
    pub(super) fn column(&self, which: Which, column: usize) -> Result<ArrayRef> {
        self.picked[which.index()].column(&self.sides[which.index()], column)
    }
}

impl Plan {
    /// Output rows of pairs; of left rows alone when the join gives those.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn joined(&self, pairs: &Pairs<'_>) -> Result<RecordBatch> {
        let column = |source: &Source| match source {
            Source::Of(which, column) => pairs.column(*which, *column),
            Source::Key { left, .. } => pairs.column(Which::Left, *left),
        };
        let mut columns = self.output.iter().map(column).collect::<Result<Vec<_>>>()?;
        if let Some([left, right]) = self.keyed {
            let left = pairs.column(Which::Left, left)?;
            columns.push(if self.kind.pairs() {
                pair_keys(Some(&left), Some(&pairs.column(Which::Right, right)?), pairs.rows)?
            } else {
                left
            });
        }
        self.batch(columns, pairs.rows)
    }

    /// Output rows of rows without a partner, given what is stored of them.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn unmatched(&self, which: Which, stored: &[ArrayRef], rows: usize) -> Result<RecordBatch> {
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for (source, field) in self.output.iter().zip(self.schema.fields()) {
            columns.push(match (source, which) {
                (Source::Of(own, column), _) if *own == which => Arc::clone(&stored[*column]),
                (Source::Of(..), _) => new_null_array(field.data_type(), rows),
                (Source::Key { left, .. }, Which::Left) => Arc::clone(&stored[*left]),
                (Source::Key { right, to, .. }, Which::Right) => cast(&stored[*right], to)?,
            });
        }
        if let Some(keys) = self.keyed {
            let own = &stored[keys[which.index()]];
            columns.push(match which {
                _ if !self.kind.pairs() => Arc::clone(own),
                Which::Left => pair_keys(Some(own), None, rows)?,
                Which::Right => pair_keys(None, Some(own), rows)?,
            });
        }
        self.batch(columns, rows)
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// The keys of joined rows: the left row's key, then the right row's, each as bytes; null for the one that is not there.
fn pair_keys(left: Option<&ArrayRef>, right: Option<&ArrayRef>, rows: usize) -> Result<ArrayRef> {
    let sides = [left, right].map(|keys| keys.and_then(|keys| keys.as_binary_opt::<i32>()));
    Ok(key::build(rows, |row, bytes| {
        for side in sides {
            match side {
                Some(keys) => key::push(bytes, Tag::Binary, keys.value(row)),
                None => key::push(bytes, Tag::Null, &[]),
            }
        }
        Ok(())
    })?)
}

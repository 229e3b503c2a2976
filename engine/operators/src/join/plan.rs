//! A join, typed.

use super::bounds::{Bounds, Kind, Which};
use super::equality::Form;
use super::late::Late;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, SchemaRef};
use std::sync::Arc;
use tidegate_api::{Result, Signature};
use tidegate_dialect::Compiled;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    pub(super) bounds: Bounds,
    pub(super) sides: [SidePlan; 2],
    /// The common type of each pair of key columns.
    pub(super) forms: Vec<Form>,
    pub(super) condition: Option<Condition>,
    pub(super) output: Vec<Source>,
    /// The output's columns, and `_key` when `keyed`.
    pub(super) schema: SchemaRef,
    /// Rows carry keys, which stand here in what is stored of the two sides.
    pub(super) keyed: Option<[usize; 2]>,
    /// What late rows look like, where anybody wants them.
    pub(super) late: Option<Late>,
    pub(super) signature: Signature,
}

/// What a join does with the columns of an input.
#[derive(Debug)]
pub(super) struct SidePlan {
    /// The event-time column.
    pub(super) time: usize,
    pub(super) time_name: String,
    pub(super) keys: Vec<usize>,
    /// The input's columns that are stored.
    pub(super) stored: Vec<usize>,
    /// The pairs of key columns whose common values are stored too, behind the others: those that differ from what is stored.
    pub(super) extra: Vec<usize>,
    /// Where the common values of each pair of key columns stand; empty if equal hashes are equal keys.
    pub(super) compared: Vec<usize>,
    /// All that is stored, as it is written.
    pub(super) fields: Vec<FieldRef>,
}

/// Where an output column comes from: places in what is stored.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// A column of one side.
    Of(Which, usize),
    /// A key: the left row's, or where there is none, the right row's.
    Key { left: usize, right: usize, to: DataType },
}

/// The condition on pairs.
#[derive(Debug)]
pub(super) struct Condition {
    pub(super) compiled: Compiled,
    /// The columns it was typed over; those it does not read are not there.
    pub(super) schema: SchemaRef,
    pub(super) columns: Vec<(Which, usize)>,
}

impl SidePlan {
    /// What is stored of the rows of a batch.
    pub(super) fn columns(&self, batch: &RecordBatch, common: &[ArrayRef]) -> Vec<ArrayRef> {
        let stored = self.stored.iter().map(|index| Arc::clone(batch.column(*index)));
        stored.chain(self.extra.iter().map(|part| Arc::clone(&common[*part]))).collect()
    }

    /// The key columns of a batch.
    pub(super) fn key_columns(&self, batch: &RecordBatch) -> Vec<ArrayRef> {
        self.keys.iter().map(|index| Arc::clone(batch.column(*index))).collect()
    }
}

impl Plan {
    /// The key columns of a batch in their common types.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn common(&self, keys: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        self.forms.iter().zip(keys).map(|(form, key)| form.of(key)).collect()
    }

    /// What is done with an input.
    pub(super) fn side(&self, which: Which) -> &SidePlan {
        &self.sides[which.index()]
    }
}

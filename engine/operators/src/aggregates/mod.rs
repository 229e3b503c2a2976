//! The aggregates of stateful steps: what may be written, what it means over a schema, and the accumulators behind it.
//!
//! An accumulator holds one value per group, updated a batch at a time. Ours are exact where the usual ones wrap: integer
//! sums, averages and variances accumulate in 128 bits and more. No accumulator fails on input; a result that does not fit
//! its type is found when it is emitted. Aggregates that look at several columns get them as one struct column, so that
//! every accumulator sees one array, whose nulls are the rows it does not take.
//!
//! | file | what |
//! |---|---|
//! | `function.rs` | the functions and their types |
//! | `definition.rs` | `aggs` as it is written |
//! | `bound.rs` | an aggregate over a schema, and its values in a batch |
//! | `pieces.rs` | groups and their aggregates in snapshots |
//! | the others | accumulators |

mod average;
mod bits;
mod bound;
mod collected;
mod count;
mod definition;
mod distinct;
mod extreme;
mod function;
mod lists;
mod percentile;
mod pick;
mod pieces;
mod seen;
mod sketch;
mod sum;
mod variance;

pub(crate) use bound::{Aggregate, BoundAggregate, Scope, bind, far_times, null_times, reads};
pub(crate) use definition::{AGGS, AggregateDef, describe, read, signature};
pub(crate) use function::Function;
pub(crate) use pieces::{Content, Dealing, restore};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, make_array};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// How min and max see a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Working {
    /// As integers whose order is that of the values.
    Ordered64,
    /// As 128-bit integers.
    Ordered128,
    /// As bytes.
    Bytes,
}

impl Working {
    fn of(data_type: &DataType) -> Option<Working> {
        match data_type {
            DataType::Float32 | DataType::Float64 => Some(Working::Ordered64),
            DataType::Decimal128(_, _) => Some(Working::Ordered128),
            DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => Some(Working::Bytes),
            DataType::BinaryView | DataType::Binary | DataType::LargeBinary => Some(Working::Bytes),
            other => crate::keys::narrow_form(other).map(|_| Working::Ordered64),
        }
    }
}

/// One aggregate of every group of a pane. Groups are numbered densely from 0.
pub(crate) trait Accumulator: Send + std::fmt::Debug {
    /// Takes rows: `groups[i]` is the group of the i-th, `values` their prepared values, and `total` the number of groups
    /// from now on. Every group that is new appears in `groups`. Without `values` rows are counted.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>) -> Result<()>;

    /// Takes the state of another accumulator, whose group `i` is `groups[i]` here. Several of them may be one here.
    ///
    /// # Errors
    /// `External` when the arrays are not such a state.
    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()>;

    /// The state of every group.
    ///
    /// # Errors
    /// `Internal` when an array cannot be made.
    fn state(&self) -> Result<Vec<ArrayRef>>;

    /// The result of every group.
    ///
    /// # Errors
    /// `Internal` when an array cannot be made.
    fn finish(&self) -> Result<Finished>;

    /// A new accumulator of some groups, each once, numbered in this order.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    fn select(&self, groups: &[u32]) -> Result<Box<dyn Accumulator>>;

    /// Forgets the groups.
    fn clear(&mut self);

    /// Memory held.
    fn bytes(&self) -> usize;
}

/// The results of an aggregate.
#[derive(Debug)]
pub(crate) struct Finished {
    /// One per group; null where nothing was aggregated or nothing fits.
    pub(crate) values: ArrayRef,
    /// The groups whose result does not fit, each with the result.
    pub(crate) misfits: Vec<(usize, String)>,
}

impl Finished {
    fn fitting(values: ArrayRef) -> Self {
        Finished { values, misfits: Vec::new() }
    }
}

/// A column where rows that fail a condition are null, so that accumulators know of nulls only. Without a column, one that
/// is null just there.
///
/// # Errors
/// `Internal` when the array cannot be made.
pub(crate) fn masked(column: Option<ArrayRef>, passing: BooleanBuffer) -> Result<ArrayRef> {
    let nulls = Some(NullBuffer::new(passing.clone()));
    match column {
        None => Ok(Arc::new(BooleanArray::new(passing, nulls))),
        Some(column) => {
            let nulls = NullBuffer::union(column.nulls(), nulls.as_ref());
            Ok(make_array(column.to_data().into_builder().nulls(nulls).build()?))
        }
    }
}

/// Numbers as sums take them.
///
/// # Errors
/// `Internal` when a kernel fails.
fn average_input(column: &ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Decimal128(_, _) => Ok(Arc::clone(column)),
        DataType::Float32 => Ok(cast(column, &DataType::Float64)?),
        _ => Ok(cast(column, &DataType::Int64)?),
    }
}

/// Calls `each` with the group and the value of every row whose value is not null.
#[inline(always)]
fn each_valid<T: Copy>(groups: &[u32], values: &[T], nulls: Option<&NullBuffer>, mut each: impl FnMut(usize, T)) {
    match nulls.filter(|nulls| nulls.null_count() > 0) {
        None => {
            for (group, value) in groups.iter().zip(values) {
                each(*group as usize, *value);
            }
        }
        Some(nulls) => {
            for row in nulls.valid_indices() {
                each(groups[row] as usize, values[row]);
            }
        }
    }
}

/// The values of some groups.
fn gathered<T: Clone>(values: &[T], groups: &[u32]) -> Vec<T> {
    groups.iter().map(|group| values[*group as usize].clone()).collect()
}

/// Where the list of each of `total` groups begins when so many entries belong to each, and where the last ends.
///
/// # Errors
/// `Limit` beyond 2^31 entries, which a list column cannot hold.
fn list_offsets(lengths: impl Iterator<Item = usize>) -> Result<OffsetBuffer<i32>> {
    let mut offsets = vec![0i32];
    let mut end = 0usize;
    for length in lengths {
        end += length;
        let offset = i32::try_from(end).map_err(|_| Error::limit("the groups of an aggregate hold more than 2^31 values; take fewer"))?;
        offsets.push(offset);
    }
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

/// For every entry of a list column, the group of its list: `groups[i]` for those of list `i`.
fn spread(groups: &[u32], offsets: &OffsetBuffer<i32>) -> Vec<u32> {
    let mut spread = Vec::new();
    for (group, length) in groups.iter().zip(offsets.lengths()) {
        spread.extend(std::iter::repeat_n(*group, length));
    }
    spread
}

fn foreign() -> Error {
    Error::external("a state piece does not hold the aggregates of this stage")
}

fn state_ints(state: &[ArrayRef], index: usize) -> Result<&Int64Array> {
    state.get(index).and_then(|array| array.as_primitive_opt::<Int64Type>()).ok_or_else(foreign)
}

fn state_floats(state: &[ArrayRef], index: usize) -> Result<&Float64Array> {
    state.get(index).and_then(|array| array.as_primitive_opt::<Float64Type>()).ok_or_else(foreign)
}

#[cfg(test)]
mod tests;

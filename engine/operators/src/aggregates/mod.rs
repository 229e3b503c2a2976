//! The accumulators of a pane: one value per group and aggregate, updated a batch at a time.
//!
//! Ours are exact where the usual ones wrap: integer sums and averages accumulate in 128 bits. No accumulator fails on
//! input; a result that does not fit its type is found when it is emitted. [`Accumulator`] has the shape of DataFusion's
//! `GroupsAccumulator` (update, merge of state arrays, state, evaluate), which is how further aggregates will come in.

mod average;
mod count;
mod extreme;
mod seen;
mod sum;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, make_array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Float64Type, Int64Type};
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// What is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    /// Rows, or a column's non-null values.
    Count,
    /// The sum of the non-null values.
    Sum,
    /// Their mean.
    Avg,
    /// The least of them.
    Min,
    /// The greatest of them.
    Max,
}

impl Function {
    /// Those there are, by name.
    pub(crate) const ALL: &[(&'static str, Function)] =
        &[("count", Function::Count), ("sum", Function::Sum), ("avg", Function::Avg), ("min", Function::Min), ("max", Function::Max)];

    /// Its name in a pipeline file.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Function::Count => "count",
            Function::Sum => "sum",
            Function::Avg => "avg",
            Function::Min => "min",
            Function::Max => "max",
        }
    }

    /// The type of its result over values of a type, or `None` when it has no meaning there.
    pub(crate) fn result(self, values: &DataType) -> Option<DataType> {
        match self {
            Function::Count => Some(DataType::Int64),
            Function::Sum => match values {
                integer if integer.is_integer() => Some(DataType::Int64),
                DataType::Float32 | DataType::Float64 => Some(DataType::Float64),
                DataType::Decimal128(_, scale) => Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, *scale)),
                _ => None,
            },
            Function::Avg => match values {
                integer if integer.is_integer() => Some(DataType::Float64),
                DataType::Float32 | DataType::Float64 => Some(DataType::Float64),
                DataType::Decimal128(_, scale) => Some(DataType::Decimal128(DECIMAL128_MAX_PRECISION, average::decimal_scale(*scale))),
                _ => None,
            },
            Function::Min | Function::Max => Working::of(values).map(|_| values.clone()),
        }
    }

    /// A new accumulator over values of a type that [`Function::result`] accepts; `None` counts rows.
    ///
    /// # Errors
    /// `Internal` for a type that it does not.
    pub(crate) fn accumulator(self, values: Option<&DataType>) -> Result<Box<dyn Accumulator>> {
        let refused = || Error::internal(format!("`{}` cannot take values of type `{values:?}`", self.name()));
        let typed = || values.ok_or_else(refused);
        Ok(match self {
            Function::Count => Box::new(count::Count::default()),
            Function::Sum => match typed()? {
                float if float.is_floating() => Box::new(sum::FloatSum::default()),
                exact => Box::new(sum::ExactSum::new(self.result(exact).ok_or_else(refused)?)),
            },
            Function::Avg => match typed()? {
                float if float.is_floating() => Box::new(average::FloatAverage::default()),
                exact => Box::new(average::ExactAverage::new(exact.clone())),
            },
            Function::Min => extreme::accumulator(typed()?, extreme::Which::Least).ok_or_else(refused)?,
            Function::Max => extreme::accumulator(typed()?, extreme::Which::Greatest).ok_or_else(refused)?,
        })
    }

    /// A column as its accumulator takes it, prepared once per batch.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn prepared(self, column: &ArrayRef) -> Result<ArrayRef> {
        match self {
            Function::Count => Ok(Arc::clone(column)),
            Function::Sum | Function::Avg => match column.data_type() {
                DataType::Int64 | DataType::UInt64 | DataType::Float64 | DataType::Decimal128(_, _) => Ok(Arc::clone(column)),
                DataType::Float32 => Ok(cast(column, &DataType::Float64)?),
                _ => Ok(cast(column, &DataType::Int64)?),
            },
            Function::Min | Function::Max => extreme::prepared(column),
        }
    }
}

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
    fn update(&mut self, groups: &[u32], total: usize, values: Option<&ArrayRef>);

    /// Takes the state of another accumulator, whose group `i` is `groups[i]` here.
    ///
    /// # Errors
    /// `External` when the arrays are not such a state.
    fn merge(&mut self, groups: &[u32], total: usize, state: &[ArrayRef]) -> Result<()>;

    /// The state of every group.
    fn state(&self) -> Vec<ArrayRef>;

    /// The result of every group.
    ///
    /// # Errors
    /// `Internal` when an array cannot be made.
    fn finish(&self) -> Result<Finished>;

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

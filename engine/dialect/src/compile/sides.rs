//! The operands of a kernel: a slice with a value for each row, or one value for all.

use arrow::array::{Array, ArrowPrimitiveType, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt64Type,
};
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;

/// The error that gives a batch to the reference evaluator.
pub(super) fn failed<T>() -> Result<T> {
    exec_err!("a row failed")
}

/// One operand's values.
#[derive(Clone, Copy)]
pub(super) enum Side<'a, T> {
    Each(&'a [T]),
    One(T),
}

impl<T: Copy> Side<'_, T> {
    #[inline(always)]
    pub(super) fn get(&self, row: usize) -> T {
        match self {
            Side::Each(values) => values[row],
            Side::One(value) => *value,
        }
    }
}

/// The rows without a value; a null scalar never reaches a kernel.
pub(super) fn nulls(value: &ColumnarValue) -> Option<&NullBuffer> {
    match value {
        ColumnarValue::Array(array) => array.nulls(),
        ColumnarValue::Scalar(_) => None,
    }
}

pub(super) fn both_nulls(args: &[ColumnarValue]) -> Option<NullBuffer> {
    NullBuffer::union(nulls(&args[0]), nulls(&args[1]))
}

fn primitive<T: ArrowPrimitiveType>(array: &dyn Array) -> Option<&[T::Native]> {
    array.as_primitive_opt::<T>().map(|array| array.values().as_ref())
}

/// int64, and everything that is one inside: timestamps.
pub(super) fn longs(value: &ColumnarValue) -> Result<Side<'_, i64>> {
    let found = match value {
        ColumnarValue::Array(array) => {
            let array = array.as_ref();
            match array.data_type() {
                DataType::Int64 => primitive::<Int64Type>(array),
                DataType::Timestamp(TimeUnit::Second, _) => primitive::<TimestampSecondType>(array),
                DataType::Timestamp(TimeUnit::Millisecond, _) => primitive::<TimestampMillisecondType>(array),
                DataType::Timestamp(TimeUnit::Microsecond, _) => primitive::<TimestampMicrosecondType>(array),
                DataType::Timestamp(TimeUnit::Nanosecond, _) => primitive::<TimestampNanosecondType>(array),
                _ => None,
            }
            .map(Side::Each)
        }
        ColumnarValue::Scalar(
            ScalarValue::Int64(Some(value))
            | ScalarValue::TimestampSecond(Some(value), _)
            | ScalarValue::TimestampMillisecond(Some(value), _)
            | ScalarValue::TimestampMicrosecond(Some(value), _)
            | ScalarValue::TimestampNanosecond(Some(value), _),
        ) => Some(Side::One(*value)),
        ColumnarValue::Scalar(_) => None,
    };
    found.map_or_else(|| exec_err!("expected 64-bit integers, found {}", value.data_type()), Ok)
}

pub(super) fn unsigned(value: &ColumnarValue) -> Result<Side<'_, u64>> {
    match value {
        ColumnarValue::Array(array) => primitive::<UInt64Type>(array.as_ref()).map(Side::Each),
        ColumnarValue::Scalar(ScalarValue::UInt64(Some(value))) => Some(Side::One(*value)),
        ColumnarValue::Scalar(_) => None,
    }
    .map_or_else(|| exec_err!("expected uint64, found {}", value.data_type()), Ok)
}

pub(super) fn floats(value: &ColumnarValue) -> Result<Side<'_, f64>> {
    match value {
        ColumnarValue::Array(array) => primitive::<Float64Type>(array.as_ref()).map(Side::Each),
        ColumnarValue::Scalar(ScalarValue::Float64(Some(value))) => Some(Side::One(*value)),
        ColumnarValue::Scalar(_) => None,
    }
    .map_or_else(|| exec_err!("expected float64, found {}", value.data_type()), Ok)
}

pub(super) fn decimals(value: &ColumnarValue) -> Result<Side<'_, i128>> {
    match value {
        ColumnarValue::Array(array) => primitive::<Decimal128Type>(array.as_ref()).map(Side::Each),
        ColumnarValue::Scalar(ScalarValue::Decimal128(Some(value), _, _)) => Some(Side::One(*value)),
        ColumnarValue::Scalar(_) => None,
    }
    .map_or_else(|| exec_err!("expected decimals, found {}", value.data_type()), Ok)
}

pub(super) fn days(value: &ColumnarValue) -> Result<Side<'_, i32>> {
    match value {
        ColumnarValue::Array(array) => primitive::<Date32Type>(array.as_ref()).map(Side::Each),
        ColumnarValue::Scalar(ScalarValue::Date32(Some(value))) => Some(Side::One(*value)),
        ColumnarValue::Scalar(_) => None,
    }
    .map_or_else(|| exec_err!("expected dates, found {}", value.data_type()), Ok)
}

/// int64 or uint64, widened.
pub(super) enum Wide<'a> {
    Signed(Side<'a, i64>),
    Unsigned(Side<'a, u64>),
}

impl Wide<'_> {
    pub(super) fn of(value: &ColumnarValue) -> Result<Wide<'_>> {
        match value.data_type() {
            DataType::UInt64 => unsigned(value).map(Wide::Unsigned),
            _ => longs(value).map(Wide::Signed),
        }
    }

    #[inline(always)]
    pub(super) fn get(&self, row: usize) -> i128 {
        match self {
            Wide::Signed(side) => side.get(row).into(),
            Wide::Unsigned(side) => side.get(row).into(),
        }
    }
}

/// `map` of both operands for every row, whatever stands under a null.
#[inline(always)]
pub(super) fn zip_with<A: Copy, B: Copy, C>(left: Side<'_, A>, right: Side<'_, B>, rows: usize, mut map: impl FnMut(A, B) -> C) -> Vec<C> {
    match (left, right) {
        (Side::Each(left), Side::Each(right)) => left.iter().zip(right).map(|(a, b)| map(*a, *b)).collect(),
        (Side::Each(left), Side::One(b)) => left.iter().map(|a| map(*a, b)).collect(),
        (Side::One(a), Side::Each(right)) => right.iter().map(|b| map(a, *b)).collect(),
        (Side::One(a), Side::One(b)) => (0..rows).map(|_| map(a, b)).collect(),
    }
}

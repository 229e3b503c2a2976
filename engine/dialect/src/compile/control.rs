//! Operations that evaluate an operand only for the rows that need it. A failure of a row that does not need it is no failure.

use super::Physical;
use super::sides::failed;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, RecordBatch};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{and_kleene, is_null, not, or_kleene};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
};
use datafusion_common::Result;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

fn bools(value: ColumnarValue, rows: usize) -> Result<BooleanArray> {
    Ok(value.into_array(rows)?.as_boolean().clone())
}

/// The rows where `mask` is not `value`: null or the other one.
fn other_than(mask: &BooleanArray, value: bool) -> BooleanArray {
    let values = if value { !mask.values() } else { mask.values().clone() };
    match mask.nulls() {
        Some(nulls) => BooleanArray::new(&values | &!nulls.inner(), None),
        None => BooleanArray::new(values, None),
    }
}

pub(super) fn and(args: &[Physical], batch: &RecordBatch) -> Result<ColumnarValue> {
    let left = bools(args[0].evaluate(batch)?, batch.num_rows())?;
    let right = selected(&args[1], &other_than(&left, false), true, batch)?;
    Ok(ColumnarValue::Array(Arc::new(and_kleene(&left, &bools(right, batch.num_rows())?)?)))
}

pub(super) fn or(args: &[Physical], batch: &RecordBatch) -> Result<ColumnarValue> {
    let left = bools(args[0].evaluate(batch)?, batch.num_rows())?;
    let right = selected(&args[1], &other_than(&left, true), true, batch)?;
    Ok(ColumnarValue::Array(Arc::new(or_kleene(&left, &bools(right, batch.num_rows())?)?)))
}

/// The values of `expr`, evaluated for the rows in `mask` only if `select`; others are null then.
fn selected(expr: &Physical, mask: &BooleanArray, select: bool, batch: &RecordBatch) -> Result<ColumnarValue> {
    if select { expr.evaluate_selection(batch, mask) } else { expr.evaluate(batch) }
}

pub(super) fn choose(args: &[Physical], select_then: bool, select_otherwise: bool, batch: &RecordBatch) -> Result<ColumnarValue> {
    let condition = bools(args[0].evaluate(batch)?, batch.num_rows())?;
    if condition.null_count() > 0 {
        return failed();
    }
    let then = selected(&args[1], &condition, select_then, batch)?;
    let otherwise = match select_otherwise {
        true => selected(&args[2], &not(&condition)?, true, batch)?,
        false => args[2].evaluate(batch)?,
    };
    Ok(ColumnarValue::Array(merge(&condition, &then, &otherwise)?))
}

pub(super) fn coalesce(args: &[Physical], select: &[bool], batch: &RecordBatch) -> Result<ColumnarValue> {
    let mut found = args[0].evaluate(batch)?.into_array(batch.num_rows())?;
    for (arg, select) in args.iter().zip(select).skip(1) {
        let missing = is_null(&found)?;
        if !missing.has_true() {
            break;
        }
        let next = selected(arg, &missing, *select, batch)?;
        found = merge(&missing, &next, &ColumnarValue::Array(found))?;
    }
    Ok(ColumnarValue::Array(found))
}

/// `then` where the mask (without nulls) is true, `otherwise` elsewhere.
fn merge(mask: &BooleanArray, then: &ColumnarValue, otherwise: &ColumnarValue) -> Result<ArrayRef> {
    let (then_type, rows) = (then.data_type(), mask.len());
    if then_type == otherwise.data_type() {
        match &then_type {
            DataType::Int64 => return blend::<Int64Type>(mask, then, otherwise),
            DataType::Float64 => return blend::<Float64Type>(mask, then, otherwise),
            DataType::Timestamp(TimeUnit::Millisecond, None) => return blend::<TimestampMillisecondType>(mask, then, otherwise),
            DataType::Timestamp(TimeUnit::Microsecond, None) => return blend::<TimestampMicrosecondType>(mask, then, otherwise),
            DataType::Null => return then.to_array(rows),
            _ => {}
        }
    }
    Ok(match (then, otherwise) {
        (ColumnarValue::Array(then), ColumnarValue::Array(otherwise)) => zip(mask, then, otherwise)?,
        (ColumnarValue::Array(then), ColumnarValue::Scalar(otherwise)) => zip(mask, then, &otherwise.to_scalar()?)?,
        (ColumnarValue::Scalar(then), ColumnarValue::Array(otherwise)) => zip(mask, &then.to_scalar()?, otherwise)?,
        (ColumnarValue::Scalar(then), ColumnarValue::Scalar(otherwise)) => zip(mask, &then.to_scalar()?, &otherwise.to_scalar()?)?,
    })
}

/// Numbers are merged value by value: Arrow's `zip` copies run by run, which is slow where runs are short.
fn blend<T: ArrowPrimitiveType>(mask: &BooleanArray, then: &ColumnarValue, otherwise: &ColumnarValue) -> Result<ArrayRef> {
    let rows = mask.len();
    let (one_then, one_otherwise) = (one(then)?, one(otherwise)?);
    let (then_array, otherwise_array) = (one_then.as_primitive::<T>(), one_otherwise.as_primitive::<T>());
    let bits = mask.values();
    let (a, b) = (then_array.values(), otherwise_array.values());
    let pick = |row: usize, a: T::Native, b: T::Native| if bits.value(row) { a } else { b };
    let values: Vec<T::Native> = match (then, otherwise) {
        (ColumnarValue::Array(_), ColumnarValue::Array(_)) => {
            a.iter().zip(b.iter()).enumerate().map(|(row, (a, b))| pick(row, *a, *b)).collect()
        }
        (ColumnarValue::Array(_), ColumnarValue::Scalar(_)) => a.iter().enumerate().map(|(row, a)| pick(row, *a, b[0])).collect(),
        (ColumnarValue::Scalar(_), ColumnarValue::Array(_)) => b.iter().enumerate().map(|(row, b)| pick(row, a[0], *b)).collect(),
        (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) => (0..rows).map(|row| pick(row, a[0], b[0])).collect(),
    };
    let validity = |value: &ColumnarValue, array: &dyn Array| match value {
        ColumnarValue::Array(_) => array.nulls().map(|nulls| nulls.inner().clone()),
        ColumnarValue::Scalar(scalar) => scalar.is_null().then(|| BooleanBuffer::new_unset(rows)),
    };
    let nulls = match (validity(then, then_array), validity(otherwise, otherwise_array)) {
        (None, None) => None,
        (Some(then), None) => Some(&then | &!bits),
        (None, Some(otherwise)) => Some(&otherwise | bits),
        (Some(then), Some(otherwise)) => Some(&(&then & bits) | &(&otherwise & &!bits)),
    };
    Ok(Arc::new(PrimitiveArray::<T>::new(values.into(), nulls.map(NullBuffer::new).filter(|nulls| nulls.null_count() > 0))))
}

/// A scalar as an array of one row.
fn one(value: &ColumnarValue) -> Result<ArrayRef> {
    match value {
        ColumnarValue::Array(array) => Ok(Arc::clone(array)),
        ColumnarValue::Scalar(scalar) => scalar.to_array(),
    }
}

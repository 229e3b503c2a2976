//! Conversions of the promotion rules over whole batches.

use super::access::member_of;
use super::arithmetic::as_timestamp;
use super::flat::Flat;
use super::sides::{Side, days, failed, longs, nulls};
use crate::node::KernelFn;
use crate::time::per_second;
use crate::types::decimal_to_float;
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion_common::{Result, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

/// The kernel from one type to another.
pub(super) fn kernel(from: &DataType, to: &DataType) -> KernelFn {
    let to = to.clone();
    match (from, &to) {
        (DataType::Null, _) => Arc::new(move |_, rows| Ok(ColumnarValue::Array(new_null_array(&to, rows)))),
        (DataType::Int64, DataType::Float64) => Arc::new(|args, rows| {
            let floats: Float64Array = args[0].to_array(rows)?.as_primitive::<Int64Type>().unary(|value| value as f64);
            Ok(ColumnarValue::Array(Arc::new(floats)))
        }),
        (DataType::Decimal128(_, scale), DataType::Float64) => {
            let scale = *scale;
            Arc::new(move |args, rows| {
                let decimals = args[0].to_array(rows)?;
                let floats: Float64Array = decimals.as_primitive::<Decimal128Type>().unary(|value| decimal_to_float(value, scale));
                Ok(ColumnarValue::Array(Arc::new(floats)))
            })
        }
        (DataType::Timestamp(unit, _), DataType::Timestamp(target, _)) => {
            let factor = per_second(*target) / per_second(*unit);
            Arc::new(move |args, rows| Ok(ColumnarValue::Array(scaled(longs(&args[0])?, factor, &args[0], rows, &to)?)))
        }
        (DataType::Date32, DataType::Timestamp(target, _)) => {
            let factor = 86_400 * per_second(*target);
            Arc::new(move |args, rows| {
                let wide: Vec<i64> = match days(&args[0])? {
                    Side::Each(days) => days.iter().map(|day| i64::from(*day)).collect(),
                    Side::One(day) => vec![day.into(); rows],
                };
                Ok(ColumnarValue::Array(scaled(Side::Each(&wide), factor, &args[0], rows, &to)?))
            })
        }
        (DataType::Dictionary(_, values), _) => {
            let (values, to) = (values.as_ref().clone(), to.clone());
            Arc::new(move |args, rows| {
                let plain = cast(&args[0].to_array(rows)?, &values)?;
                Ok(ColumnarValue::Array(convert(&plain, &to)?))
            })
        }
        (DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) | DataType::Struct(_), _) => {
            Arc::new(move |args, rows| Ok(ColumnarValue::Array(nested(&args[0].to_array(rows)?, &to)?)))
        }
        _ => Arc::new(move |args, rows| {
            // Not `safe`: a value that does not fit is a failure, never a null.
            let options = CastOptions { safe: false, ..CastOptions::default() };
            Ok(ColumnarValue::Array(cast_with_options(&args[0].to_array(rows)?, &to, &options)?))
        }),
    }
}

/// An array in another type.
fn convert(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    kernel(array.data_type(), to)(&[ColumnarValue::Array(Arc::clone(array))], array.len())?.into_array(array.len())
}

/// Lists by their elements and structs by their members. What stands under a null is not looked at: it could fail.
fn nested(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    match (array.data_type(), to) {
        (DataType::LargeList(item) | DataType::FixedSizeList(item, _), DataType::List(_)) => {
            let plain = cast(array, &DataType::List(Arc::clone(item)))?;
            nested(&plain, to)
        }
        (DataType::List(_), DataType::List(item)) => {
            let flat = Flat::of_array(array)?;
            flat.with_elements(convert(&flat.elements, item.data_type())?, to)
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let structs = array.as_struct();
            let column = |(at, field): (usize, &arrow::datatypes::FieldRef)| convert(&member_of(structs, at)?, field.data_type());
            let columns = fields.iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, structs.nulls().cloned(), structs.len())?))
        }
        (from, to) => exec_err!("{from} does not become {to}"),
    }
}

/// Ticks times `factor` as the timestamp type `to`.
fn scaled(ticks: Side<'_, i64>, factor: i64, arg: &ColumnarValue, rows: usize, to: &DataType) -> Result<ArrayRef> {
    let nulls = nulls(arg).cloned();
    let mut values = Vec::with_capacity(rows);
    for row in 0..rows {
        let (value, over) = ticks.get(row).overflowing_mul(factor);
        if over && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            return failed();
        }
        values.push(value);
    }
    let ticks: ArrayRef = Arc::new(Int64Array::new(values.into(), nulls));
    debug_assert_eq!(ticks.len(), rows);
    as_timestamp(&ticks, to)
}

//! `+ - * / %` over whole batches. A kernel computes every row, those under a null too, and notes in passing whether one
//! failed; only then are the nulls asked whether it counts.

use super::sides::{Side, Wide, both_nulls, decimals, failed, floats, longs, zip_with};
use crate::ast::Arithmetic;
use crate::node::{KernelFn, Node};
use crate::numbers::{self, Remainder};
use crate::reference::{nanos_per_tick, ticks_per_milli};
use crate::types::{integer_range, scale_of};
use crate::value::Value;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array, PrimitiveArray, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Float64Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use datafusion_common::{Result, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

fn answer<A: Array + 'static>(array: A) -> Result<ColumnarValue> {
    Ok(ColumnarValue::Array(Arc::new(array)))
}

/// The kernel of an operation with a result of type `ty`.
pub(super) fn kernel(op: Arithmetic, left: &Node, right: &Node, ty: &DataType) -> KernelFn {
    match ty {
        DataType::Decimal128(precision, scale) => decimal(op, scale_of(&left.ty), scale_of(&right.ty), *precision, *scale),
        DataType::Float64 if op == Arithmetic::Divide && integers(left) && integers(right) => Arc::new(quotient),
        DataType::Float64 => float(op),
        DataType::Int64 if left.ty == DataType::Int64 && right.ty == DataType::Int64 => match (op, right.as_literal()) {
            (Arithmetic::Modulo, Some(Value::Int(divisor))) if *divisor != 0 => remainder(*divisor as i64),
            _ => long(op),
        },
        _ => wide(op, ty.clone()),
    }
}

fn integers(node: &Node) -> bool {
    integer_range(&node.ty).is_some()
}

/// Fails if a row that is not null was noted.
fn checked<T>(values: Vec<T>, any: bool, nulls: Option<&NullBuffer>, bad: impl Fn(usize) -> bool) -> Result<Vec<T>> {
    if any && (0..values.len()).any(|row| nulls.is_none_or(|nulls| nulls.is_valid(row)) && bad(row)) {
        return failed();
    }
    Ok(values)
}

/// `map` gives a value and a number that is negative if it is wrong. The numbers are gathered by their bits, not by a test for
/// each row, so that additions stay in vector registers.
#[inline(always)]
fn long_with(args: &[ColumnarValue], rows: usize, map: impl Fn(i64, i64) -> (i64, i64)) -> Result<ColumnarValue> {
    let (left, right) = (longs(&args[0])?, longs(&args[1])?);
    let nulls = both_nulls(args);
    let mut wrong = 0;
    let values = zip_with(left, right, rows, |a, b| {
        let (value, sign) = map(a, b);
        wrong |= sign;
        value
    });
    let values = checked(values, wrong < 0, nulls.as_ref(), |row| map(left.get(row), right.get(row)).1 < 0)?;
    answer(Int64Array::new(values.into(), nulls))
}

/// The sign that [`long_with`] looks for.
fn wrong_if(bad: bool) -> i64 {
    -i64::from(bad)
}

fn long(op: Arithmetic) -> KernelFn {
    match op {
        Arithmetic::Add => Arc::new(|args, rows| {
            // A sum overflowed if its sign is neither operand's.
            long_with(args, rows, |a, b| {
                let sum = a.wrapping_add(b);
                (sum, (a ^ sum) & (b ^ sum))
            })
        }),
        Arithmetic::Subtract => Arc::new(|args, rows| {
            long_with(args, rows, |a, b| {
                let difference = a.wrapping_sub(b);
                (difference, (a ^ b) & (a ^ difference))
            })
        }),
        Arithmetic::Multiply => Arc::new(|args, rows| {
            long_with(args, rows, |a, b| {
                let (product, bad) = a.overflowing_mul(b);
                (product, wrong_if(bad))
            })
        }),
        Arithmetic::Modulo => {
            Arc::new(|args, rows| long_with(args, rows, |a, b| if b == 0 { (0, wrong_if(true)) } else { (a.wrapping_rem(b), 0) }))
        }
        Arithmetic::Divide => Arc::new(quotient),
    }
}

/// `% constant`, which cannot fail.
fn remainder(divisor: i64) -> KernelFn {
    let by = Remainder::new(divisor);
    Arc::new(move |args, rows| {
        let values = args[0].to_array(rows)?;
        let Some(values) = values.as_primitive_opt::<Int64Type>() else {
            return exec_err!("expected int64");
        };
        answer::<Int64Array>(match by {
            Some(by) => values.unary(|value| by.of(value)),
            None => values.unary(|value: i64| value.wrapping_rem(divisor)),
        })
    })
}

/// Integer by integer, a float64.
fn quotient(args: &[ColumnarValue], rows: usize) -> Result<ColumnarValue> {
    let nulls = both_nulls(args);
    let mut any = false;
    let values: Vec<f64>;
    if let (Wide::Signed(left), Wide::Signed(right)) = (Wide::of(&args[0])?, Wide::of(&args[1])?) {
        values = zip_with(left, right, rows, |a, b| {
            any |= b == 0;
            a as f64 / b as f64
        });
        let values = checked(values, any, nulls.as_ref(), |row| right.get(row) == 0)?;
        return answer(Float64Array::new(values.into(), nulls));
    }
    let (left, right) = (Wide::of(&args[0])?, Wide::of(&args[1])?);
    values = (0..rows).map(|row| left.get(row) as f64 / right.get(row) as f64).collect();
    let values = checked(values, true, nulls.as_ref(), |row| right.get(row) == 0)?;
    answer(Float64Array::new(values.into(), nulls))
}

/// uint64, alone or beside int64, in 128 bits.
fn wide(op: Arithmetic, ty: DataType) -> KernelFn {
    Arc::new(move |args, rows| {
        let (left, right) = (Wide::of(&args[0])?, Wide::of(&args[1])?);
        let (least, most) = integer_range(&ty).unwrap_or((i64::MIN.into(), i64::MAX.into()));
        let nulls = both_nulls(args);
        let compute = |row: usize| {
            let (a, b) = (left.get(row), right.get(row));
            let value = match op {
                Arithmetic::Add => a + b,
                Arithmetic::Subtract => a - b,
                Arithmetic::Multiply => a.checked_mul(b)?,
                Arithmetic::Divide | Arithmetic::Modulo if b == 0 => return None,
                Arithmetic::Divide => a / b,
                Arithmetic::Modulo => a % b,
            };
            (value >= least && value <= most).then_some(value)
        };
        let mut any = false;
        let values: Vec<i128> = (0..rows)
            .map(|row| {
                let value = compute(row);
                any |= value.is_none();
                value.unwrap_or(0)
            })
            .collect();
        let values = checked(values, any, nulls.as_ref(), |row| compute(row).is_none())?;
        match ty {
            DataType::UInt64 => answer(UInt64Array::new(values.into_iter().map(|value| value as u64).collect(), nulls)),
            _ => answer(Int64Array::new(values.into_iter().map(|value| value as i64).collect(), nulls)),
        }
    })
}

/// A float operand, which may still be int64.
enum Number<'a> {
    Float(Side<'a, f64>),
    Integer(Side<'a, i64>),
}

impl Number<'_> {
    fn of(value: &ColumnarValue) -> Result<Number<'_>> {
        match value.data_type() {
            DataType::Int64 => longs(value).map(Number::Integer),
            _ => floats(value).map(Number::Float),
        }
    }
}

#[inline(always)]
fn float_with(args: &[ColumnarValue], rows: usize, map: impl Fn(f64, f64) -> f64) -> Result<ColumnarValue> {
    let values = match (Number::of(&args[0])?, Number::of(&args[1])?) {
        (Number::Float(left), Number::Float(right)) => zip_with(left, right, rows, map),
        (Number::Integer(left), Number::Float(right)) => zip_with(left, right, rows, |a, b| map(a as f64, b)),
        (Number::Float(left), Number::Integer(right)) => zip_with(left, right, rows, |a, b| map(a, b as f64)),
        (Number::Integer(left), Number::Integer(right)) => zip_with(left, right, rows, |a, b| map(a as f64, b as f64)),
    };
    answer(Float64Array::new(values.into(), both_nulls(args)))
}

fn float(op: Arithmetic) -> KernelFn {
    match op {
        Arithmetic::Add => Arc::new(|args, rows| float_with(args, rows, |a, b| a + b)),
        Arithmetic::Subtract => Arc::new(|args, rows| float_with(args, rows, |a, b| a - b)),
        Arithmetic::Multiply => Arc::new(|args, rows| float_with(args, rows, |a, b| a * b)),
        Arithmetic::Divide => Arc::new(|args, rows| float_with(args, rows, |a, b| a / b)),
        Arithmetic::Modulo => Arc::new(|args, rows| float_with(args, rows, |a, b| a % b)),
    }
}

fn decimal(op: Arithmetic, left_scale: i8, right_scale: i8, precision: u8, scale: i8) -> KernelFn {
    Arc::new(move |args, rows| {
        let (left, right) = (decimals(&args[0])?, decimals(&args[1])?);
        let nulls = both_nulls(args);
        let compute = |a: i128, b: i128| numbers::decimal(op, (a, left_scale), (b, right_scale), precision, scale);
        let mut any = false;
        let values = zip_with(left, right, rows, |a, b| {
            let value = compute(a, b);
            any |= value.is_err();
            value.unwrap_or(0)
        });
        let values = checked(values, any, nulls.as_ref(), |row| compute(left.get(row), right.get(row)).is_err())?;
        let typed = Decimal128Array::new(values.into(), nulls).with_precision_and_scale(precision, scale)?;
        answer(typed)
    })
}

/// The minus sign.
pub(super) fn negate(ty: &DataType) -> KernelFn {
    let ty = ty.clone();
    Arc::new(move |args, rows| {
        let values = args[0].to_array(rows)?;
        match &ty {
            DataType::Float64 => answer::<Float64Array>(values.as_primitive::<Float64Type>().unary(|value: f64| -value)),
            DataType::Decimal128(precision, scale) => {
                let negated: Decimal128Array = values.as_primitive::<arrow::datatypes::Decimal128Type>().unary(i128::wrapping_neg);
                answer(negated.with_precision_and_scale(*precision, *scale)?)
            }
            _ => {
                let values = values.as_primitive::<Int64Type>();
                let negated: Int64Array = values.unary(i64::wrapping_neg);
                let smallest = |row: usize| values.is_valid(row) && values.value(row) == i64::MIN;
                if (0..rows).any(smallest) { failed() } else { answer(negated) }
            }
        }
    })
}

/// A timestamp moved by milliseconds.
pub(super) fn shift(op: Arithmetic, ty: &DataType) -> KernelFn {
    let (rate, ty) = (ticks_per_milli(ty), ty.clone());
    Arc::new(move |args, rows| {
        let moved = long_with(args, rows, |at, by| {
            let (by, large) = by.overflowing_mul(rate);
            let (sum, over) = if op == Arithmetic::Subtract { at.overflowing_sub(by) } else { at.overflowing_add(by) };
            (sum, wrong_if(large | over))
        })?;
        Ok(ColumnarValue::Array(as_timestamp(&moved.to_array(rows)?, &ty)?))
    })
}

/// int64 as the timestamp type that has the same ticks.
pub(super) fn as_timestamp(ticks: &ArrayRef, ty: &DataType) -> Result<ArrayRef> {
    let (Some(ticks), DataType::Timestamp(unit, zone)) = (ticks.as_primitive_opt::<Int64Type>(), ty) else {
        return exec_err!("expected ticks of a timestamp");
    };
    let (values, nulls) = (ticks.values().clone(), ticks.nulls().cloned());
    Ok(match unit {
        TimeUnit::Second => Arc::new(PrimitiveArray::<TimestampSecondType>::new(values, nulls).with_timezone_opt(zone.clone())),
        TimeUnit::Millisecond => Arc::new(PrimitiveArray::<TimestampMillisecondType>::new(values, nulls).with_timezone_opt(zone.clone())),
        TimeUnit::Microsecond => Arc::new(PrimitiveArray::<TimestampMicrosecondType>::new(values, nulls).with_timezone_opt(zone.clone())),
        TimeUnit::Nanosecond => Arc::new(PrimitiveArray::<TimestampNanosecondType>::new(values, nulls).with_timezone_opt(zone.clone())),
    })
}

/// The milliseconds between two timestamps, cut towards zero.
pub(super) fn elapsed(left: &DataType, right: &DataType) -> KernelFn {
    let (left, right) = (nanos_per_tick(left), nanos_per_tick(right));
    if left == right && left == 1_000_000 {
        return long(Arithmetic::Subtract);
    }
    Arc::new(move |args, rows| {
        long_with(args, rows, |a, b| {
            let ms = (i128::from(a) * i128::from(left) - i128::from(b) * i128::from(right)) / 1_000_000;
            (ms as i64, wrong_if(i64::try_from(ms).is_err()))
        })
    })
}

//! Comparisons over whole batches where Arrow's own kernels answer another question: floats, mixed types, times.

use super::sides::{Side, Wide, both_nulls, decimals, floats, longs, nulls};
use crate::ast::Compare;
use crate::node::{KernelFn, Order};
use crate::reference::nanos_per_tick;
use crate::types::{compare_decimals, compare_integer_float, scale_of, ten};
use crate::value::Value;
use arrow::array::BooleanArray;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use datafusion_common::{Result, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use datafusion_expr_common::operator::Operator;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

/// DataFusion's operator for a comparison.
pub(super) fn operator(op: Compare) -> Operator {
    match op {
        Compare::Equal => Operator::Eq,
        Compare::NotEqual => Operator::NotEq,
        Compare::Less => Operator::Lt,
        Compare::LessOrEqual => Operator::LtEq,
        Compare::Greater => Operator::Gt,
        Compare::GreaterOrEqual => Operator::GtEq,
    }
}

fn answer(values: BooleanBuffer, nulls: Option<NullBuffer>) -> Result<ColumnarValue> {
    Ok(ColumnarValue::Array(Arc::new(BooleanArray::new(values, nulls))))
}

/// A test of both operands for every row.
#[inline(always)]
fn test<A: Copy, B: Copy>(left: Side<'_, A>, right: Side<'_, B>, rows: usize, test: impl Fn(A, B) -> bool) -> BooleanBuffer {
    match (left, right) {
        (Side::Each(left), Side::Each(right)) => {
            let (left, right) = (&left[..rows], &right[..rows]);
            BooleanBuffer::collect_bool(rows, |row| test(left[row], right[row]))
        }
        (Side::Each(left), Side::One(b)) => {
            let left = &left[..rows];
            BooleanBuffer::collect_bool(rows, |row| test(left[row], b))
        }
        (Side::One(a), Side::Each(right)) => {
            let right = &right[..rows];
            BooleanBuffer::collect_bool(rows, |row| test(a, right[row]))
        }
        (Side::One(a), Side::One(b)) => BooleanBuffer::collect_bool(rows, |_| test(a, b)),
    }
}

/// Every comparison from equality and `less`, for a total order.
#[inline(always)]
fn total<T: Copy>(
    op: Compare,
    left: Side<'_, T>,
    right: Side<'_, T>,
    rows: usize,
    equal: impl Fn(T, T) -> bool,
    less: impl Fn(T, T) -> bool,
) -> BooleanBuffer {
    match op {
        Compare::Equal => test(left, right, rows, equal),
        Compare::NotEqual => test(left, right, rows, |a, b| !equal(a, b)),
        Compare::Less => test(left, right, rows, less),
        Compare::GreaterOrEqual => test(left, right, rows, |a, b| !less(a, b)),
        Compare::Greater => test(left, right, rows, |a, b| less(b, a)),
        Compare::LessOrEqual => test(left, right, rows, |a, b| !less(b, a)),
    }
}

fn float_equal(a: f64, b: f64) -> bool {
    (a == b) | (a.is_nan() & b.is_nan())
}

fn float_less(a: f64, b: f64) -> bool {
    (a < b) | (b.is_nan() & !a.is_nan())
}

/// The kernel of a comparison.
pub(super) fn kernel(op: Compare, order: Order, left_type: &DataType, right_type: &DataType) -> KernelFn {
    let pair = Pair::of(order, left_type, right_type);
    Arc::new(move |args, rows| answer(pair.test(op, &args[0], &args[1], rows)?, both_nulls(args)))
}

/// `in` a list of literals, by their hashes. Every literal becomes a value of the tested type; one that is none of its values
/// equals none.
pub(super) fn within<'a>(order: Order, value_type: &DataType, items: impl Iterator<Item = (&'a Value, &'a DataType)>) -> KernelFn {
    let integer = move |item: &Value| match item {
        Value::Float(float) if float.trunc() == *float && float.abs() < 2e19 => Some(*float as i128),
        Value::Int(value) => Some(*value),
        _ => None,
    };
    match order {
        Order::Floats => {
            let known: HashSet<u64> = items.map(|(item, _)| float_key(item.float())).collect();
            Arc::new(move |args, rows| {
                let values = floats(&args[0])?;
                let found = BooleanBuffer::collect_bool(rows, |row| known.contains(&float_key(values.get(row))));
                answer(found, nulls(&args[0]).cloned())
            })
        }
        Order::Decimals => {
            let scale = scale_of(value_type);
            let rescaled = |(item, ty): (&Value, &DataType)| match scale - scale_of(ty) {
                up if up >= 0 => item.integer().checked_mul(ten(up)),
                down if item.integer() % ten(down) == 0 => Some(item.integer() / ten(down)),
                _ => None,
            };
            let known: HashSet<i128> = items.filter_map(rescaled).collect();
            Arc::new(move |args, rows| {
                let values = decimals(&args[0])?;
                let found = BooleanBuffer::collect_bool(rows, |row| known.contains(&values.get(row)));
                answer(found, nulls(&args[0]).cloned())
            })
        }
        Order::Times => {
            let tick = i128::from(nanos_per_tick(value_type));
            let ticks = |(item, ty): (&Value, &DataType)| {
                let nanos = item.integer() * i128::from(nanos_per_tick(ty));
                if nanos % tick == 0 { i64::try_from(nanos / tick).ok() } else { None }
            };
            let known: HashSet<i64> = items.filter_map(ticks).collect();
            Arc::new(move |args, rows| {
                let values = longs(&args[0])?;
                let found = BooleanBuffer::collect_bool(rows, |row| known.contains(&values.get(row)));
                answer(found, nulls(&args[0]).cloned())
            })
        }
        Order::Integers | Order::IntegerFloat | Order::Same => {
            let known: HashSet<i128> = items.filter_map(|(item, _)| integer(item)).collect();
            Arc::new(move |args, rows| {
                let values = Wide::of(&args[0])?;
                let found = BooleanBuffer::collect_bool(rows, |row| known.contains(&values.get(row)));
                answer(found, nulls(&args[0]).cloned())
            })
        }
    }
}

/// Equal for floats that are: one NaN, one zero.
fn float_key(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

/// What two types need to be compared.
#[derive(Debug, Clone, Copy)]
enum Pair {
    Floats,
    Integers,
    IntegerFloat,
    Decimals(i8, i8),
    /// Nanoseconds per tick on each side.
    Times(i64, i64),
    /// Types that Arrow compares.
    Arrow,
}

impl Pair {
    fn of(order: Order, left: &DataType, right: &DataType) -> Pair {
        match order {
            Order::Same => Pair::Arrow,
            Order::Floats => Pair::Floats,
            Order::Integers => Pair::Integers,
            Order::IntegerFloat => Pair::IntegerFloat,
            Order::Decimals => Pair::Decimals(scale_of(left), scale_of(right)),
            Order::Times => Pair::Times(nanos_per_tick(left), nanos_per_tick(right)),
        }
    }

    fn test(self, op: Compare, left: &ColumnarValue, right: &ColumnarValue, rows: usize) -> Result<BooleanBuffer> {
        let by = |order: Ordering| op.holds(order);
        Ok(match self {
            Pair::Floats => total(op, floats(left)?, floats(right)?, rows, float_equal, float_less),
            Pair::Integers => {
                let (left, right) = (Wide::of(left)?, Wide::of(right)?);
                BooleanBuffer::collect_bool(rows, |row| by(left.get(row).cmp(&right.get(row))))
            }
            Pair::IntegerFloat => {
                let (left, right) = (Wide::of(left)?, floats(right)?);
                BooleanBuffer::collect_bool(rows, |row| by(compare_integer_float(left.get(row), right.get(row))))
            }
            Pair::Decimals(s1, s2) if s1 == s2 => total(op, decimals(left)?, decimals(right)?, rows, |a, b| a == b, |a, b| a < b),
            Pair::Decimals(s1, s2) => test(decimals(left)?, decimals(right)?, rows, |a, b| by(compare_decimals(a, s1, b, s2))),
            Pair::Times(t1, t2) if t1 == t2 => total(op, longs(left)?, longs(right)?, rows, |a, b| a == b, |a, b| a < b),
            Pair::Times(t1, t2) => {
                let (t1, t2) = (i128::from(t1), i128::from(t2));
                test(longs(left)?, longs(right)?, rows, |a, b| by((i128::from(a) * t1).cmp(&(i128::from(b) * t2))))
            }
            Pair::Arrow => return exec_err!("arrow compares these types"),
        })
    }
}

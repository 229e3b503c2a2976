//! Comparisons over whole batches where Arrow's own kernels answer another question: floats, mixed types, times.

use super::sides::{Side, Wide, both_nulls, decimals, floats, longs, nulls};
use crate::ast::Compare;
use crate::node::{KernelFn, Order};
use crate::reference::nanos_per_tick;
use crate::types::{compare_decimals, compare_integer_float, scale_of};
use arrow::array::BooleanArray;
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use datafusion_expr_common::operator::Operator;
use std::cmp::Ordering;
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

/// `in` a list of literals.
pub(super) fn within(order: Order, value_type: &DataType, items: Vec<(ScalarValue, DataType)>) -> KernelFn {
    let items: Vec<(ColumnarValue, Pair)> =
        items.into_iter().map(|(item, ty)| (ColumnarValue::Scalar(item), Pair::of(order, value_type, &ty))).collect();
    Arc::new(move |args, rows| {
        let mut found = BooleanBuffer::new_unset(rows);
        for (item, pair) in &items {
            found = &found | &pair.test(Compare::Equal, &args[0], item, rows)?;
        }
        answer(found, nulls(&args[0]).cloned())
    })
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

//! The reference evaluator: one row, one value, plain Rust. It is the definition of the dialect; the fast path must agree with
//! it bit for bit, and a property test holds the two against each other.

use crate::ast::Arithmetic;
use crate::node::{Kind, Node, Order};
use crate::numbers;
use crate::time::per_second;
use crate::types::{self, compare_decimals, compare_floats, compare_integer_float, convert, integer_range, scale_of};
use crate::value::Value;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::DataType;
use std::cmp::Ordering;

/// A row and the time that `now()` is for it.
pub(crate) struct Row<'a> {
    pub(crate) batch: &'a RecordBatch,
    pub(crate) index: usize,
    /// Microseconds since 1970.
    pub(crate) now: i64,
}

/// The value of an expression of literals.
pub(crate) fn constant(node: &Node) -> Result<Value, String> {
    eval(node, None)
}

/// The value of an expression for a row, or why the row is bad.
pub(crate) fn evaluate(node: &Node, row: &Row<'_>) -> Result<Value, String> {
    eval(node, Some(row))
}

fn eval(node: &Node, row: Option<&Row<'_>>) -> Result<Value, String> {
    let of = |child: &Node| eval(child, row);
    Ok(match &node.kind {
        Kind::Literal(value) => value.clone(),
        Kind::Column { index, .. } => row.map_or(Value::Null, |row| Value::read(row.batch.column(*index), row.index)),
        Kind::Now => row.map_or(Value::Null, |row| Value::Time(row.now)),
        Kind::Convert(child) => {
            let value = of(child)?;
            match (&child.ty, value) {
                // Text of any layout, dictionaries included, is one kind of value.
                (DataType::Dictionary(..), Value::Nested(one)) => read_text(&one),
                (from, value) => convert(value, from, &node.ty)?,
            }
        }
        Kind::Negate(child) => match of(child)? {
            Value::Int(value) => in_range(-value, &node.ty)?,
            Value::Float(value) => Value::Float(-value),
            Value::Decimal(value) => Value::Decimal(-value),
            other => other,
        },
        Kind::Not(child) => match of(child)? {
            Value::Bool(value) => Value::Bool(!value),
            other => other,
        },
        Kind::Arithmetic(op, left, right) => arithmetic(node, *op, left, right, of(left)?, of(right)?)?,
        Kind::Shift(op, time, millis) => match (of(time)?, of(millis)?) {
            (Value::Time(at), Value::Int(by)) => {
                let by = if *op == Arithmetic::Subtract { -by } else { by };
                let ticks = i128::from(at) + by * i128::from(ticks_per_milli(&node.ty));
                Value::Time(i64::try_from(ticks).map_err(|_| "time is out of range".to_string())?)
            }
            _ => Value::Null,
        },
        Kind::Elapsed(left, right) => match (of(left)?, of(right)?) {
            (Value::Time(a), Value::Time(b)) => {
                let nanos = nanos(a, &left.ty) - nanos(b, &right.ty);
                in_range(nanos / 1_000_000, &DataType::Int64)?
            }
            _ => Value::Null,
        },
        Kind::Compare(op, order, left, right) => {
            let (a, b) = (of(left)?, of(right)?);
            compare(*order, &a, &left.ty, &b, &right.ty).map_or(Value::Null, |order| Value::Bool(op.holds(order)))
        }
        Kind::In(order, value, items) => {
            let found = of(value)?;
            if found.is_null() {
                return Ok(Value::Null);
            }
            let equals = |item: &Node| {
                let item_value = item.as_literal().unwrap_or(&Value::Null);
                compare(*order, &found, &value.ty, item_value, &item.ty) == Some(Ordering::Equal)
            };
            Value::Bool(items.iter().any(equals))
        }
        Kind::IsNull(child) => Value::Bool(of(child)?.is_null()),
        // The right side is not evaluated where the left decides; its failures do not count there.
        Kind::And(left, right) => match of(left)? {
            Value::Bool(false) => Value::Bool(false),
            Value::Bool(_) => of(right)?,
            _ => match of(right)? {
                Value::Bool(false) => Value::Bool(false),
                _ => Value::Null,
            },
        },
        Kind::Or(left, right) => match of(left)? {
            Value::Bool(true) => Value::Bool(true),
            Value::Bool(_) => of(right)?,
            _ => match of(right)? {
                Value::Bool(true) => Value::Bool(true),
                _ => Value::Null,
            },
        },
        Kind::If(condition, then, otherwise) => match of(condition)? {
            Value::Bool(true) => of(then)?,
            Value::Bool(false) => of(otherwise)?,
            _ => return Err("the condition of `?:` is null".to_string()),
        },
        Kind::Coalesce(items) => {
            for item in items {
                let value = of(item)?;
                if !value.is_null() {
                    return Ok(value);
                }
            }
            Value::Null
        }
        Kind::Member(child, index) => match of(child)? {
            Value::Nested(one) => Value::read(one.as_struct().column(*index), 0),
            _ => Value::Null,
        },
        Kind::Index(list, index) => match (of(list)?, of(index)?) {
            (Value::Nested(one), Value::Int(at)) => {
                let items = match one.data_type() {
                    DataType::LargeList(_) => one.as_list::<i64>().value(0),
                    _ => one.as_list::<i32>().value(0),
                };
                match usize::try_from(at) {
                    Ok(at) if at < items.len() => Value::read(&items, at),
                    _ => Value::Null,
                }
            }
            _ => Value::Null,
        },
        Kind::Call(call) => {
            let mut args = Vec::with_capacity(call.args.len());
            for arg in &call.args {
                args.push(of(arg)?);
            }
            if args.iter().any(Value::is_null) { Value::Null } else { (call.row)(&args)? }
        }
    })
}

fn read_text(one: &dyn Array) -> Value {
    let text = arrow::compute::cast(one, &DataType::Utf8View).expect("dictionaries of text become text");
    Value::read(&text, 0)
}

fn in_range(value: i128, ty: &DataType) -> Result<Value, String> {
    let (least, most) = integer_range(ty).unwrap_or((i64::MIN.into(), i64::MAX.into()));
    if value < least || value > most {
        return Err(format!("integer overflow: `{value}` does not fit in {}", types::name(ty)));
    }
    Ok(Value::Int(value))
}

fn arithmetic(node: &Node, op: Arithmetic, left: &Node, right: &Node, a: Value, b: Value) -> Result<Value, String> {
    Ok(match (a, b) {
        (Value::Int(a), Value::Int(b)) => match op {
            Arithmetic::Add => in_range(a + b, &node.ty)?,
            Arithmetic::Subtract => in_range(a - b, &node.ty)?,
            // Two uint64 can leave even 128 bits.
            Arithmetic::Multiply => match a.checked_mul(b) {
                Some(product) => in_range(product, &node.ty)?,
                None => return Err(format!("integer overflow: the product does not fit in {}", types::name(&node.ty))),
            },
            Arithmetic::Divide | Arithmetic::Modulo if b == 0 => return Err("division by zero".to_string()),
            Arithmetic::Divide => Value::Float(a as f64 / b as f64),
            Arithmetic::Modulo => in_range(a % b, &node.ty)?,
        },
        (Value::Float(a), Value::Float(b)) => Value::Float(match op {
            Arithmetic::Add => a + b,
            Arithmetic::Subtract => a - b,
            Arithmetic::Multiply => a * b,
            Arithmetic::Divide => a / b,
            Arithmetic::Modulo => a % b,
        }),
        (Value::Decimal(a), Value::Decimal(b)) => {
            let (DataType::Decimal128(precision, scale), s1, s2) = (&node.ty, scale_of(&left.ty), scale_of(&right.ty)) else {
                return Err("expected a decimal type".to_string());
            };
            Value::Decimal(numbers::decimal(op, (a, s1), (b, s2), *precision, *scale).map_err(str::to_string)?)
        }
        _ => Value::Null,
    })
}

/// Ticks of a timestamp type, milliseconds or finer, in a millisecond.
pub(crate) fn ticks_per_milli(ty: &DataType) -> i64 {
    match ty {
        DataType::Timestamp(unit, _) => per_second(*unit) / 1_000,
        _ => 1,
    }
}

/// A timestamp, or epoch milliseconds, in nanoseconds.
pub(crate) fn nanos(value: i64, ty: &DataType) -> i128 {
    i128::from(value) * i128::from(nanos_per_tick(ty))
}

pub(crate) fn nanos_per_tick(ty: &DataType) -> i64 {
    match ty {
        DataType::Timestamp(unit, _) => 1_000_000_000 / per_second(*unit),
        _ => 1_000_000,
    }
}

/// The order of two values, or `None` where one is null.
fn compare(order: Order, a: &Value, a_type: &DataType, b: &Value, b_type: &DataType) -> Option<Ordering> {
    Some(match (a, b) {
        (Value::Null, _) | (_, Value::Null) => return None,
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(a), Value::Int(b)) => a.cmp(b),
        (Value::Float(a), Value::Float(b)) => compare_floats(*a, *b),
        (Value::Int(a), Value::Float(b)) => compare_integer_float(*a, *b),
        (Value::Decimal(a), Value::Decimal(b)) => compare_decimals(*a, scale_of(a_type), *b, scale_of(b_type)),
        (Value::Text(a), Value::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
        (Value::Bytes(a), Value::Bytes(b)) => a.cmp(b),
        (Value::Time(a), Value::Time(b)) if order == Order::Times => nanos(*a, a_type).cmp(&nanos(*b, b_type)),
        (Value::Time(a), Value::Time(b)) => a.cmp(b),
        (Value::Time(a), Value::Int(b)) => nanos(*a, a_type).cmp(&(b * 1_000_000)),
        (Value::Int(a), Value::Time(b)) => (a * 1_000_000).cmp(&nanos(*b, b_type)),
        _ => return None,
    })
}

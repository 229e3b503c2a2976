//! The reference evaluator: one row, one value, plain Rust. It is the definition of the dialect; the fast path must agree with
//! it bit for bit, and a property test holds the two against each other.

use crate::ast::Arithmetic;
use crate::node::{Each, Form, Kind, Node, Order};
use crate::numbers;
use crate::time::per_second;
use crate::types::{self, compare_decimals, compare_floats, compare_integer_float, convert, integer_range, scale_of};
use crate::value::Value;
use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use std::cmp::Ordering;

/// A row and the time that `now()` is for it.
pub(crate) struct Row<'a> {
    pub(crate) batch: &'a RecordBatch,
    pub(crate) index: usize,
    /// Microseconds since 1970.
    pub(crate) now: i64,
}

/// Steps that an evaluation may still take.
pub(crate) struct Fuel(u64);

impl Fuel {
    pub(crate) fn new(steps: u64) -> Self {
        Fuel(steps)
    }

    /// What is left; nothing means that the evaluation was given up.
    pub(crate) fn left(&self) -> u64 {
        self.0
    }
}

/// What surrounds a part of an expression.
struct Around<'a> {
    row: Option<&'a Row<'a>>,
    /// What lambdas and `Let` have put into slots, the innermost last.
    slots: Vec<(usize, Value)>,
    fuel: Option<&'a mut Fuel>,
}

impl Around<'_> {
    fn slot(&self, slot: usize) -> Value {
        self.slots.iter().rev().find(|(known, _)| *known == slot).map_or(Value::Null, |(_, value)| value.clone())
    }

    /// Evaluates with values in slots.
    fn within(&mut self, node: &Node, slots: impl IntoIterator<Item = (usize, Value)>) -> Result<Value, String> {
        let before = self.slots.len();
        self.slots.extend(slots);
        let value = eval(node, self);
        self.slots.truncate(before);
        value
    }

    /// Takes fuel for a step that handles a value; an error says that there is none left.
    fn burn(&mut self, value: &Value) -> Result<(), String> {
        let Some(fuel) = self.fuel.as_mut() else { return Ok(()) };
        fuel.0 = fuel.0.saturating_sub(1 + weight(value));
        if fuel.0 == 0 { Err("this takes too many steps to be a constant".to_string()) } else { Ok(()) }
    }

    fn exhausted(&self) -> bool {
        self.fuel.as_ref().is_some_and(|fuel| fuel.0 == 0)
    }
}

fn weight(value: &Value) -> u64 {
    match value {
        Value::Text(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::List(items) | Value::Object(items) => items.iter().map(|item| 1 + weight(item)).sum(),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Decimal(_) | Value::Time(_) | Value::Nested(_) => 0,
    }
}

/// The value of an expression that reads nothing around it.
pub(crate) fn constant(node: &Node, fuel: &mut Fuel) -> Result<Value, String> {
    eval(node, &mut Around { row: None, slots: Vec::new(), fuel: Some(fuel) })
}

/// The value of an expression for a row, or why the row is bad.
pub(crate) fn evaluate(node: &Node, row: &Row<'_>) -> Result<Value, String> {
    eval(node, &mut Around { row: Some(row), slots: Vec::new(), fuel: None })
}

fn eval(node: &Node, around: &mut Around<'_>) -> Result<Value, String> {
    let value = value(node, around)?;
    around.burn(&value)?;
    Ok(value)
}

fn value(node: &Node, around: &mut Around<'_>) -> Result<Value, String> {
    let row = around.row;
    let mut of = |child: &Node| eval(child, around);
    Ok(match &node.kind {
        Kind::Literal(value) => value.clone(),
        Kind::Column { index, .. } => row.map_or(Value::Null, |row| Value::read(row.batch.column(*index), row.index)),
        Kind::Now => row.map_or(Value::Null, |row| Value::Time(row.now)),
        Kind::Convert(child) => convert(of(child)?, &child.ty, &node.ty)?,
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
            Value::Object(mut members) if *index < members.len() => members.swap_remove(*index),
            _ => Value::Null,
        },
        Kind::Index(list, index) => match (of(list)?, of(index)?) {
            (Value::List(mut items), Value::Int(at)) => match usize::try_from(at) {
                Ok(at) if at < items.len() => items.swap_remove(at),
                _ => Value::Null,
            },
            _ => Value::Null,
        },
        Kind::Call(call) => {
            let mut args = Vec::with_capacity(call.args.len());
            for arg in &call.args {
                args.push(of(arg)?);
            }
            if args.iter().any(Value::is_null) { Value::Null } else { (call.row)(&args)? }
        }
        Kind::List(items) => Value::List(items.iter().map(of).collect::<Result<_, _>>()?),
        Kind::Object(members) => Value::Object(members.iter().map(of).collect::<Result<_, _>>()?),
        Kind::Param(slot) => around.slot(*slot),
        Kind::Let(slot, value, body) => {
            let value = of(value)?;
            around.within(body, [(*slot, value)])?
        }
        Kind::Each(lambda) => each(lambda, around)?,
        Kind::Try(child) => match of(child) {
            Err(message) if around.exhausted() => return Err(message),
            found => found.unwrap_or(Value::Null),
        },
    })
}

/// A lambda over the elements of a list. Every element is evaluated, also behind the one that decides: a failing one makes
/// its row bad.
fn each(each: &Each, around: &mut Around<'_>) -> Result<Value, String> {
    let (slot, body) = (each.slot, each.body.as_ref());
    let mut args = Vec::with_capacity(each.args.len());
    for arg in &each.args {
        args.push(eval(arg, around)?);
    }
    let Value::List(items) = &args[0] else { return Ok(Value::Null) };
    match (each.form, args.get(1)) {
        (Form::Reduce, Some(start)) => {
            let mut found = start.clone();
            for item in items {
                found = around.within(body, [(slot, found), (slot + 1, item.clone())])?;
            }
            return Ok(found);
        }
        (Form::Same, Some(Value::List(others))) => {
            let mut same = items.len() == others.len();
            if same {
                for (item, other) in items.iter().zip(others) {
                    let equal = around.within(body, [(slot, item.clone()), (slot + 1, other.clone())])?;
                    same &= matches!(equal, Value::Bool(true));
                }
            }
            return Ok(Value::Bool(same));
        }
        (Form::Reduce | Form::Same, _) => return Ok(Value::Null),
        (Form::Map | Form::Filter | Form::Any | Form::All | Form::Position | Form::SortBy, _) => {}
    }
    let mut values = Vec::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        values.push(around.within(body, [(slot, item.clone()), (slot + 1, Value::Int(at as i128))])?);
    }
    let decided = |by: bool| match values.iter().any(|value| matches!(value, Value::Bool(value) if *value == by)) {
        true => Value::Bool(by),
        false if values.iter().any(Value::is_null) => Value::Null,
        false => Value::Bool(!by),
    };
    Ok(match each.form {
        Form::Filter => {
            let kept = items.iter().zip(&values).filter(|(_, kept)| matches!(kept, Value::Bool(true)));
            Value::List(kept.map(|(item, _)| item.clone()).collect())
        }
        Form::Any => decided(true),
        Form::All => decided(false),
        Form::Position => {
            let first = values.iter().position(|value| matches!(value, Value::Bool(true)));
            first.map_or(Value::Null, |at| Value::Int(at as i128))
        }
        Form::SortBy => {
            let mut sorted: Vec<(&Value, &Value)> = values.iter().zip(items).collect();
            sorted.sort_by(|(a, _), (b, _)| order_of_one_type(a, b));
            Value::List(sorted.into_iter().map(|(_, item)| item.clone()).collect())
        }
        Form::Map | Form::Reduce | Form::Same => Value::List(values),
    })
}

/// The order of two values of one type, nulls last.
pub(crate) fn order_of_one_type(a: &Value, b: &Value) -> Ordering {
    let same = DataType::Null;
    compare(Order::Same, a, &same, b, &same).unwrap_or_else(|| a.is_null().cmp(&b.is_null()))
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

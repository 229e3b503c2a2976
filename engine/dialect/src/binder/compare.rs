//! The types of `== != < <= > >=` and `in`.

use super::{Binder, as_timestamp, convert};
use crate::Diagnostic;
use crate::ast::Compare;
use crate::node::{Each, Form, Kind, Node, Order};
use crate::time::per_second;
use crate::types::{self, Class, class, integer_range};
use crate::value::Value;
use arrow::datatypes::DataType;
use std::ops::Range;

impl Binder<'_> {
    pub(super) fn compare(&self, op: Compare, left: Node, right: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
        compare(self.text, op, left, right, span)
    }

    /// `value in [items]`: whether it equals one of them, as `value == a || value == b` would have it.
    pub(super) fn within(&self, value: Node, items: Vec<Node>, span: Range<usize>) -> Result<Node, Diagnostic> {
        if items.is_empty() {
            return self.fail(&span, "the list after `in` is empty");
        }
        if let Some(null) = items.iter().find(|item| class(&item.ty) == Class::Null) {
            return self.fail(&null.span, "`null` cannot stand in the list after `in`, add `|| … == null`");
        }
        value.once(Node::free_slot(&items), |value| {
            let mut tests = Vec::new();
            // Literals that compare in one way stand together, whatever stands between them.
            let mut groups: Vec<(Order, Node, Vec<Node>)> = Vec::new();
            for item in &items {
                let (order, left, right, flipped) = match nested(item) {
                    false => order(self.text, value.clone(), item.clone(), &item.span)?,
                    true => {
                        tests.push(self.compare(Compare::Equal, value.clone(), item.clone(), item.span.clone())?);
                        continue;
                    }
                };
                // The sides of these orders may change places.
                let symmetric = matches!(order, Order::Floats | Order::Same);
                let (left, right, flipped) = if flipped && symmetric { (right, left, false) } else { (left, right, flipped) };
                if flipped || right.as_literal().is_none() {
                    tests.push(self.compare(Compare::Equal, value.clone(), item.clone(), span.clone())?);
                    continue;
                }
                match groups.iter_mut().find(|(known, node, literals)| {
                    *known == order && node.ty == left.ty && literals.last().is_none_or(|literal| literal.ty == right.ty)
                }) {
                    Some((_, _, literals)) => literals.push(right),
                    None => groups.push((order, left, vec![right])),
                }
            }
            let within =
                |(order, left, literals)| Node::new(Kind::In(order, Box::new(left), literals), DataType::Boolean, span.clone(), false);
            tests.extend(groups.into_iter().map(within));
            // A balanced tree keeps a long list shallow; `||` is associative, so the meaning is the same.
            while tests.len() > 1 {
                let mut halved = Vec::with_capacity(tests.len().div_ceil(2));
                let mut rest = tests.into_iter();
                while let Some(first) = rest.next() {
                    halved.push(match rest.next() {
                        Some(second) => Node::new(Kind::Or(Box::new(first), Box::new(second)), DataType::Boolean, span.clone(), false),
                        None => first,
                    });
                }
                tests = halved;
            }
            tests.pop().map_or_else(|| self.fail(&span, "the list after `in` is empty"), Ok)
        })
    }
}

fn nested(node: &Node) -> bool {
    matches!(node.ty, DataType::List(_) | DataType::Struct(_))
}

pub(crate) fn compare(text: &str, op: Compare, left: Node, right: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
    // `== null` asks whether there is a value; every other comparison with null is null.
    if matches!(op, Compare::Equal | Compare::NotEqual) && (left.is_null_literal() || right.is_null_literal()) {
        let operand = if right.is_null_literal() { left } else { right };
        let test = Node::new(Kind::IsNull(Box::new(operand)), DataType::Boolean, span.clone(), false);
        return Ok(match op {
            Compare::NotEqual => Node::new(Kind::Not(Box::new(test)), DataType::Boolean, span, false),
            _ => test,
        });
    }
    if nested(&left) && right.ty == DataType::Null || nested(&right) && left.ty == DataType::Null {
        return Ok(Node::literal(Value::Null, DataType::Boolean, span));
    }
    let alike = matches!((&left.ty, &right.ty), (DataType::List(_), DataType::List(_)) | (DataType::Struct(_), DataType::Struct(_)));
    if matches!(op, Compare::Equal | Compare::NotEqual) && alike {
        let same = same_value(text, left, right, span.clone())?;
        return Ok(match op {
            Compare::NotEqual => Node::new(Kind::Not(Box::new(same)), DataType::Boolean, span, false),
            _ => same,
        });
    }
    let (order, left, right, flipped) = order(text, left, right, &span)?;
    let op = if flipped { op.flipped() } else { op };
    Ok(Node::new(Kind::Compare(op, order, Box::new(left), Box::new(right)), DataType::Boolean, span, false))
}

/// Whether two lists or two objects are equal, as `==` has it: lists element by element, objects member by member, by name. A
/// null inside equals a null. Null where one of them is null.
fn same_value(text: &str, left: Node, right: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
    match (left.ty.clone(), right.ty.clone()) {
        (DataType::List(a), DataType::List(b)) => {
            let slot = Node::free_slot([&left, &right]);
            let elements = (
                Node::param(slot, a.data_type().clone(), left.span.clone()),
                Node::param(slot + 1, b.data_type().clone(), right.span.clone()),
            );
            let body = Box::new(same_or_null(text, elements.0, elements.1, span.clone())?);
            let each = Each { form: Form::Same, slot, args: vec![left, right], body };
            Ok(Node::new(Kind::Each(each), DataType::Boolean, span, false))
        }
        (DataType::Struct(a), DataType::Struct(b)) => {
            if a.len() != b.len() || a.iter().any(|field| b.find(field.name()).is_none()) {
                let (a, b) = (types::name(&left.ty), types::name(&right.ty));
                return fail(text, &span, format!("objects with different members are never equal: {a} and {b}"));
            }
            left.once(Node::free_slot([&right]), |left| {
                right.once(Node::free_slot([&left]), |right| {
                    let member = |object: &Node, name: &str| match &object.ty {
                        DataType::Struct(fields) => fields.find(name).map(|(at, field)| {
                            let kind = Kind::Member(Box::new(object.clone()), at);
                            Node::new(kind, field.data_type().clone(), object.span.clone(), false)
                        }),
                        _ => None,
                    };
                    let mut all = Node::literal(Value::Bool(true), DataType::Boolean, span.clone());
                    for (at, field) in a.iter().enumerate() {
                        if let (Some(left), Some(right)) = (member(&left, field.name()), member(&right, field.name())) {
                            let same = same_or_null(text, left, right, span.clone())?;
                            all = if at == 0 { same } else { both(Kind::And, all, same, &span) };
                        }
                    }
                    // A null on either side makes it null; `null && false` would not.
                    let missing = both(Kind::Or, is_null(left, &span), is_null(right, &span), &span);
                    let unknown = Node::literal(Value::Null, DataType::Boolean, span.clone());
                    Ok(Node::new(Kind::If(Box::new(missing), Box::new(unknown), Box::new(all)), DataType::Boolean, span.clone(), false))
                })
            })
        }
        (a, b) => fail(text, &span, format!("{} and {} cannot be compared", types::name(&a), types::name(&b))),
    }
}

/// As `==`, but null equals null and the answer is never null.
pub(crate) fn same_or_null(text: &str, left: Node, right: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
    left.once(Node::free_slot([&right]), |left| {
        right.once(Node::free_slot([&left]), |right| {
            let nulls = both(Kind::And, is_null(left.clone(), &span), is_null(right.clone(), &span), &span);
            let equal = compare(text, Compare::Equal, left, right, span.clone())?;
            Ok(Node::new(Kind::Coalesce(vec![equal, nulls]), DataType::Boolean, span.clone(), false))
        })
    })
}

fn both(kind: fn(Box<Node>, Box<Node>) -> Kind, left: Node, right: Node, span: &Range<usize>) -> Node {
    Node::new(kind(Box::new(left), Box::new(right)), DataType::Boolean, span.clone(), false)
}

pub(crate) fn is_null(node: Node, span: &Range<usize>) -> Node {
    Node::new(Kind::IsNull(Box::new(node)), DataType::Boolean, span.clone(), false)
}

fn fail<T>(text: &str, span: &Range<usize>, message: impl Into<String>) -> Result<T, Diagnostic> {
    Err(Diagnostic::new(text, span.clone(), message))
}

/// How two operands compare, and the operands in the types it takes; the flag says that they changed sides.
fn order(text: &str, left: Node, right: Node, span: &Range<usize>) -> Result<(Order, Node, Node, bool), Diagnostic> {
    use Class::{Bool, Date, Decimal, Float, Null, Other, Plain, Signed, Text, Timestamp, Unsigned};
    let plain = |order, left, right| Ok((order, left, right, false));
    let (left, right) = match (class(&left.ty), class(&right.ty)) {
        (Null, Null) => (convert(left, &DataType::Int64), convert(right, &DataType::Int64)),
        (Null, _) => {
            let ty = right.ty.clone();
            (convert(left, &ty), right)
        }
        (_, Null) => {
            let ty = left.ty.clone();
            (left, convert(right, &ty))
        }
        _ => (left, right),
    };
    match (class(&left.ty), class(&right.ty)) {
        (Bool, Bool) | (Text, Text) | (Date, Date) => plain(Order::Same, left, right),
        (Plain, Plain) if left.ty == right.ty => plain(Order::Same, left, right),
        (Signed | Unsigned, Signed | Unsigned) => {
            let (left, right) = integers(left, right);
            plain(if left.ty == right.ty { Order::Same } else { Order::Integers }, left, right)
        }
        (Float, Float) => plain(Order::Floats, convert(left, &DataType::Float64), convert(right, &DataType::Float64)),
        (Signed | Unsigned, Float) => integer_float(left, right, false),
        (Float, Signed | Unsigned) => integer_float(right, left, true),
        (Decimal(..), Float) | (Float, Decimal(..)) => {
            plain(Order::Floats, convert(left, &DataType::Float64), convert(right, &DataType::Float64))
        }
        (Decimal(..), Decimal(..) | Signed | Unsigned) | (Signed | Unsigned, Decimal(..)) => {
            plain(Order::Decimals, exact(left), exact(right))
        }
        (Timestamp(..) | Date, Timestamp(..) | Date) => {
            let (left, right) = times(as_timestamp(left), as_timestamp(right));
            plain(Order::Times, left, right)
        }
        (Timestamp(..), Signed | Unsigned) => plain(Order::Times, left, convert(right, &DataType::Int64)),
        (Signed | Unsigned, Timestamp(..)) => plain(Order::Times, convert(left, &DataType::Int64), right),
        (Other, _) | (_, Other) => {
            let names = (types::name(&left.ty), types::name(&right.ty));
            match nested(&left) && left.ty == right.ty {
                true => fail(text, &left.span, format!("{} has no order, only `==` and `!=` compare it", names.0)),
                false if nested(&left) || nested(&right) => fail(text, span, format!("{} and {} cannot be compared", names.0, names.1)),
                false => fail(text, &left.span, format!("{} cannot be compared, only tested with `== null`", names.0)),
            }
        }
        (a, b) => {
            let hint = match (a, b) {
                (Timestamp(..) | Date, Text) | (Text, Timestamp(..) | Date) => ", write a time as `ts'2026-01-31T12:00:00Z'`",
                (Text, Signed | Unsigned | Float | Decimal(..)) | (Signed | Unsigned | Float | Decimal(..), Text) => {
                    ", read text with `toNumber` or write a number with `toString`"
                }
                _ => "",
            };
            fail(text, span, format!("{} and {} cannot be compared{hint}", types::name(&left.ty), types::name(&right.ty)))
        }
    }
}

/// A literal takes the column's type where it fits, so that no column is widened for it.
fn integers(left: Node, right: Node) -> (Node, Node) {
    if left.ty == right.ty {
        return (left, right);
    }
    let retyped = |literal: &Node, ty: &DataType| -> Option<Node> {
        let (Value::Int(value), (least, most)) = (literal.as_literal()?, integer_range(ty)?) else { return None };
        (*value >= least && *value <= most).then(|| Node::literal(Value::Int(*value), ty.clone(), literal.span.clone()))
    };
    if let Some(right) = retyped(&right, &left.ty) {
        return (left, right);
    }
    if let Some(left) = retyped(&left, &right.ty) {
        return (left, right);
    }
    let wide = |node: Node| match class(&node.ty) {
        Class::Unsigned => node,
        _ => convert(node, &DataType::Int64),
    };
    (wide(left), wide(right))
}

/// An integer on the left, a float on the right; a literal that the other type holds exactly becomes one of its values.
fn integer_float(integer: Node, float: Node, flipped: bool) -> Result<(Order, Node, Node, bool), Diagnostic> {
    if let Some(Value::Int(value)) = integer.as_literal()
        && types::compare_integer_float(*value, *value as f64).is_eq()
    {
        let float = convert(float, &DataType::Float64);
        return Ok((Order::Floats, convert(integer, &DataType::Float64), float, flipped));
    }
    if let Some(Value::Float(value)) = float.as_literal()
        && value.trunc() == *value
        && let Some((least, most)) = integer_range(&integer.ty)
        && *value >= -9e18
        && *value <= 9e18
        && (*value as i128) >= least
        && (*value as i128) <= most
    {
        let literal = Node::literal(Value::Int(*value as i128), integer.ty.clone(), float.span);
        return Ok((Order::Same, integer, literal, flipped));
    }
    let integer = if class(&integer.ty) == Class::Unsigned { integer } else { convert(integer, &DataType::Int64) };
    Ok((Order::IntegerFloat, integer, convert(float, &DataType::Float64), flipped))
}

/// Integers beside decimals, as decimals of their own size.
fn exact(node: Node) -> Node {
    match types::decimal_of_integer(&node.ty) {
        Some((precision, scale)) => convert(node, &DataType::Decimal128(precision, scale)),
        None => node,
    }
}

/// A literal time takes the other side's unit if that holds it exactly.
fn times(left: Node, right: Node) -> (Node, Node) {
    let in_unit_of = |literal: &Node, other: &Node| -> Option<Node> {
        let (Value::Time(value), DataType::Timestamp(from, _), DataType::Timestamp(to, _)) =
            (literal.as_literal()?, &literal.ty, &other.ty)
        else {
            return None;
        };
        let nanos = i128::from(*value) * i128::from(1_000_000_000 / per_second(*from));
        let tick = i128::from(1_000_000_000 / per_second(*to));
        let ticks = i64::try_from(nanos / tick).ok().filter(|_| nanos % tick == 0)?;
        Some(Node::literal(Value::Time(ticks), other.ty.clone(), literal.span.clone()))
    };
    if let Some(right) = in_unit_of(&right, &left) {
        return (left, right);
    }
    if let Some(left) = in_unit_of(&left, &right) {
        return (left, right);
    }
    (left, right)
}

//! The types of `+ - * / %` and of the minus sign.

use super::{Binder, as_timestamp, convert};
use crate::Diagnostic;
use crate::ast::Arithmetic;
use crate::functions;
use crate::node::{Kind, Node};
use crate::types::{self, Class, DECIMAL_DIGITS, class, decimal_of};
use crate::value::Value;
use arrow::datatypes::{DataType, TimeUnit};
use std::ops::Range;

/// The least number of decimals that a division of decimals keeps.
const DIVISION_SCALE: i8 = 6;

impl Binder<'_> {
    pub(super) fn negate(&self, operand: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
        let ty = match class(&operand.ty) {
            Class::Signed | Class::Unsigned | Class::Null => DataType::Int64,
            Class::Float => DataType::Float64,
            Class::Decimal(..) => operand.ty.clone(),
            Class::Bool | Class::Text | Class::Timestamp(..) | Class::Date | Class::Plain | Class::Other => {
                return self.fail(&operand.span, format!("`-` takes a number, not {}", types::name(&operand.ty)));
            }
        };
        let fails = ty == DataType::Int64;
        Ok(Node::new(Kind::Negate(Box::new(convert(operand, &ty))), ty, span, fails))
    }

    pub(super) fn arithmetic(&self, op: Arithmetic, left: Node, right: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
        use Class::{Date, Decimal, Float, Null, Signed, Text, Timestamp, Unsigned};
        let refuse = |node: &Node| {
            let hint = match class(&node.ty) {
                Text => ", read it with `toNumber`",
                Date | Timestamp(..) => ", times are only moved by `+` and `-`",
                _ => "",
            };
            self.fail(&node.span, format!("`{}` does not take {} here{hint}", op.symbol(), types::name(&node.ty)))
        };
        let (left, right) = match (class(&left.ty), class(&right.ty)) {
            (Null, Null) => (convert(left, &DataType::Int64), convert(right, &DataType::Int64)),
            (Null, Timestamp(..) | Date) if op == Arithmetic::Subtract => {
                let ty = right.ty.clone();
                (convert(left, &ty), right)
            }
            (Null, Timestamp(..) | Date) => (convert(left, &DataType::Int64), right),
            (Timestamp(..) | Date, Null) => (left, convert(right, &DataType::Int64)),
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
            (Text, Text) if op == Arithmetic::Add => functions::join(self.text, span, vec![left, right]),
            (Timestamp(..) | Date, Signed | Unsigned) if matches!(op, Arithmetic::Add | Arithmetic::Subtract) => {
                Ok(shift(op, left, right, span))
            }
            (Signed | Unsigned, Timestamp(..) | Date) if op == Arithmetic::Add => Ok(shift(op, right, left, span)),
            (Timestamp(..) | Date, Timestamp(..) | Date) if op == Arithmetic::Subtract => {
                let (left, right) = (as_timestamp(left), as_timestamp(right));
                Ok(Node::new(Kind::Elapsed(Box::new(left), Box::new(right)), DataType::Int64, span, true))
            }
            (Signed | Unsigned, Signed | Unsigned) => Ok(integers(op, left, right, span)),
            (Float, Signed | Unsigned | Float | Decimal(..)) | (Signed | Unsigned | Decimal(..), Float) => {
                let (left, right) = (convert(left, &DataType::Float64), convert(right, &DataType::Float64));
                Ok(node(op, left, right, DataType::Float64, span, false))
            }
            (Decimal(..), Signed | Unsigned | Decimal(..)) | (Signed | Unsigned, Decimal(..)) => self.decimals(op, left, right, span),
            (Text, _) | (Class::Bool | Class::Plain | Class::Other, _) => refuse(&left),
            (Timestamp(..) | Date, Signed | Unsigned | Timestamp(..) | Date) => refuse(&left),
            (_, _) => refuse(&right),
        }
    }

    fn decimals(&self, op: Arithmetic, left: Node, right: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
        let as_decimal = |node: Node| match decimal_of(&node.ty) {
            // A literal needs no more digits than it has, which keeps the result small.
            Some(_) if matches!(node.as_literal(), Some(Value::Int(_))) => {
                let digits = match node.as_literal() {
                    Some(Value::Int(value)) => value.unsigned_abs().to_string().len() as u8,
                    _ => DECIMAL_DIGITS,
                };
                convert(node, &DataType::Decimal128(digits, 0))
            }
            Some((precision, scale)) => convert(node, &DataType::Decimal128(precision, scale)),
            None => node,
        };
        let (left, right) = (as_decimal(left), as_decimal(right));
        let (Some((p1, s1)), Some((p2, s2))) = (decimal_of(&left.ty), decimal_of(&right.ty)) else {
            return self.fail(&span, "expected decimals");
        };
        let (w1, w2) = (p1 as i8 - s1, p2 as i8 - s2);
        let (whole, scale) = match op {
            Arithmetic::Add | Arithmetic::Subtract => (w1.max(w2) + 1, s1.max(s2)),
            Arithmetic::Multiply => (w1 + w2, s1 + s2),
            Arithmetic::Divide => (w1 + s2 + 1, s1.max(s2).max(DIVISION_SCALE)),
            Arithmetic::Modulo => (w1.min(w2), s1.max(s2)),
        };
        if scale > DECIMAL_DIGITS as i8 {
            let message = format!("the product needs {scale} decimals, a decimal has at most {DECIMAL_DIGITS}: round an operand first");
            return self.fail(&span, message);
        }
        let precision = (whole + scale).clamp(1, DECIMAL_DIGITS as i8);
        // Operands brought to one scale can leave the range of 128 bits even where the result fits; only these cannot.
        let exact = whole + scale <= DECIMAL_DIGITS as i8 && matches!(op, Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply);
        let ty = DataType::Decimal128(precision as u8, scale);
        Ok(node(op, left, right, ty, span, !exact))
    }
}

fn node(op: Arithmetic, left: Node, right: Node, ty: DataType, span: Range<usize>, fails: bool) -> Node {
    Node::new(Kind::Arithmetic(op, Box::new(left), Box::new(right)), ty, span, fails)
}

/// Integers are int64; uint64 where one side is and the other is not negative by its type; with a signed side the result is
/// int64 again, computed exactly. `/` is a float64.
fn integers(op: Arithmetic, left: Node, right: Node, span: Range<usize>) -> Node {
    let wide = |node: &Node| class(&node.ty) == Class::Unsigned;
    let natural = |node: &Node| match (&node.ty, node.as_literal()) {
        (DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64, _) => true,
        (_, Some(Value::Int(value))) => *value >= 0,
        _ => false,
    };
    let (any_wide, both_natural) = (wide(&left) || wide(&right), natural(&left) && natural(&right));
    let ty = if any_wide && both_natural { DataType::UInt64 } else { DataType::Int64 };
    let as_operand = |node: Node| {
        let target = if ty == DataType::UInt64 || wide(&node) { DataType::UInt64 } else { DataType::Int64 };
        convert(node, &target)
    };
    let (left, right) = (as_operand(left), as_operand(right));
    let divisor = match right.as_literal() {
        Some(Value::Int(value)) => Some(*value),
        _ => None,
    };
    match op {
        Arithmetic::Divide => node(op, left, right, DataType::Float64, span, divisor.is_none_or(|value| value == 0)),
        // A remainder is no larger than either side: it fits wherever the dividend does, a uint64 dividend with a signed
        // divisor excepted.
        Arithmetic::Modulo => {
            let fits = left.ty == ty || divisor.is_some_and(|value| value.unsigned_abs() <= i64::MAX as u128);
            let fails = divisor.is_none_or(|value| value == 0) || !fits;
            node(op, left, right, ty, span, fails)
        }
        Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply => node(op, left, right, ty, span, true),
    }
}

fn shift(op: Arithmetic, time: Node, millis: Node, span: Range<usize>) -> Node {
    let time = as_timestamp(time);
    let ty = match &time.ty {
        DataType::Timestamp(TimeUnit::Second, zone) => DataType::Timestamp(TimeUnit::Millisecond, zone.clone()),
        other => other.clone(),
    };
    let (time, millis) = (convert(time, &ty), convert(millis, &DataType::Int64));
    Node::new(Kind::Shift(op, Box::new(time), Box::new(millis)), ty, span, true)
}

//! From the expression as written to the typed one: names are looked up, types checked, conversions made explicit.

mod arithmetic;
mod compare;

use crate::Diagnostic;
use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::fold;
use crate::functions::{self, Args};
use crate::lex::Token;
use crate::node::{Kind, Node};
use crate::types::{self, Class, class};
use crate::value::Value;
use arrow::datatypes::{DataType, Schema, TimeUnit};
use std::ops::Range;
use tidegate_api::{hidden, nearest};

/// Types an expression against a schema.
pub(crate) fn bind(text: &str, expr: &Expr, schema: &Schema) -> Result<Node, Diagnostic> {
    Binder { text, schema }.expr(expr)
}

pub(crate) struct Binder<'a> {
    text: &'a str,
    schema: &'a Schema,
}

impl Binder<'_> {
    fn fail<T>(&self, span: &Range<usize>, message: impl Into<String>) -> Result<T, Diagnostic> {
        Err(Diagnostic::new(self.text, span.clone(), message))
    }

    fn expr(&self, expr: &Expr) -> Result<Node, Diagnostic> {
        let span = expr.span.clone();
        let node = match &expr.kind {
            ExprKind::Null => Node::literal(Value::Null, DataType::Null, span),
            ExprKind::Bool(value) => Node::literal(Value::Bool(*value), DataType::Boolean, span),
            ExprKind::Literal(token) => self.literal(token, false, span)?,
            ExprKind::Column(name) => self.column(name, span)?,
            ExprKind::Unary(UnaryOp::Negate, operand) => match &operand.kind {
                ExprKind::Literal(token @ (Token::Integer(_) | Token::Float(_) | Token::Decimal(..) | Token::Duration(_))) => {
                    self.literal(token, true, span)?
                }
                _ => self.negate(self.expr(operand)?, span)?,
            },
            ExprKind::Unary(UnaryOp::Not, operand) => {
                let operand = self.condition(operand, "`!`")?;
                Node::new(Kind::Not(Box::new(operand)), DataType::Boolean, span, false)
            }
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, span)?,
            ExprKind::In(value, items) => {
                let value = self.expr(value)?;
                let items = items.iter().map(|item| self.expr(item)).collect::<Result<Vec<_>, _>>()?;
                self.within(value, items, span)?
            }
            ExprKind::If(condition, then, otherwise) => {
                let condition = self.condition(condition, "the condition of `?:`")?;
                let (then, otherwise) = (self.expr(then)?, self.expr(otherwise)?);
                let ty = self.common(&[&then, &otherwise], "the two values of `?:`")?;
                let (then, otherwise) = (self.convert(then, &ty), self.convert(otherwise, &ty));
                let certain = condition.as_literal().is_some_and(|value| !value.is_null()) || self.never_null(&condition);
                Node::new(Kind::If(Box::new(condition), Box::new(then), Box::new(otherwise)), ty, span, !certain)
            }
            ExprKind::Member(value, name) => self.member(self.expr(value)?, name, span)?,
            ExprKind::Index(list, index) => {
                let (list, index) = (self.expr(list)?, self.expr(index)?);
                let (DataType::List(item) | DataType::LargeList(item)) = &list.ty else {
                    return self.fail(&list.span, format!("{} has no elements, `[…]` reads a list", types::name(&list.ty)));
                };
                if !types::is_integer(&index.ty) {
                    return self.fail(&index.span, format!("an index is an integer, not {}", types::name(&index.ty)));
                }
                let ty = item.data_type().clone();
                let index = self.convert(index, &DataType::Int64);
                let read = Node::new(Kind::Index(Box::new(list), Box::new(index)), ty.clone(), span, false);
                self.as_view(read)
            }
            ExprKind::Call(name, args) => self.call(name, args, span)?,
        };
        fold::fold(self.text, node)
    }

    fn literal(&self, token: &Token, negative: bool, span: Range<usize>) -> Result<Node, Diagnostic> {
        let sign = if negative { -1 } else { 1 };
        Ok(match token {
            Token::Integer(value) => {
                let value = *value as i128 * sign;
                let ty = match i64::try_from(value) {
                    Ok(_) => DataType::Int64,
                    Err(_) if value > 0 => DataType::UInt64,
                    Err(_) => return self.fail(&span, format!("`{value}` does not fit in 64 bits, write `{value}m` for a decimal")),
                };
                Node::literal(Value::Int(value), ty, span)
            }
            Token::Float(value) => Node::literal(Value::Float(if negative { -value } else { *value }), DataType::Float64, span),
            Token::Decimal(unscaled, scale) => {
                let digits = unscaled.to_string().len().max(*scale as usize) as u8;
                Node::literal(Value::Decimal(unscaled * sign), DataType::Decimal128(digits, *scale), span)
            }
            Token::Duration(millis) => Node::literal(Value::Int(i128::from(*millis) * sign), DataType::Int64, span),
            Token::Timestamp(value, unit) => Node::literal(Value::Time(*value), DataType::Timestamp(*unit, None), span),
            Token::Text(value) => Node::literal(Value::Text(value.clone()), DataType::Utf8View, span),
            Token::Name(_) | Token::Quoted(_) | Token::Symbol(_) | Token::End => {
                return self.fail(&span, "expected a literal");
            }
        })
    }

    fn column(&self, name: &str, span: Range<usize>) -> Result<Node, Diagnostic> {
        let Some((index, field)) = self.schema.column_with_name(name) else {
            let known = self.schema.fields().iter().map(|field| field.name().as_str()).filter(|name| !hidden::is_hidden(name));
            let hint = match functions::find(name) {
                Some(function) => format!(", the function is written `{}`", function.signature),
                None => nearest::hint(name, known),
            };
            return self.fail(&span, format!("unknown column `{name}`{hint}"));
        };
        let read = Node::new(Kind::Column { index, name: name.to_string() }, field.data_type().clone(), span, false);
        Ok(self.as_view(read))
    }

    /// Text of every layout as `Utf8View`, the only one the evaluators know.
    fn as_view(&self, node: Node) -> Node {
        let text = match &node.ty {
            DataType::Utf8 | DataType::LargeUtf8 => true,
            DataType::Dictionary(_, values) => matches!(values.as_ref(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View),
            _ => false,
        };
        if text { self.convert(node, &DataType::Utf8View) } else { node }
    }

    fn member(&self, value: Node, name: &str, span: Range<usize>) -> Result<Node, Diagnostic> {
        let DataType::Struct(fields) = &value.ty else {
            let whole = self.text[span.clone()].replace('`', "");
            let hint = match self.schema.column_with_name(&whole) {
                Some(_) => format!(", quote the column as `` `{whole}` ``"),
                None => String::new(),
            };
            return self.fail(&span, format!("{} has no members{hint}", types::name(&value.ty)));
        };
        let Some((index, field)) = fields.find(name) else {
            let known = fields.iter().map(|field| field.name().as_str());
            return self.fail(&span, format!("unknown member `{name}`{}", nearest::hint(name, known)));
        };
        let ty = field.data_type().clone();
        Ok(self.as_view(Node::new(Kind::Member(Box::new(value), index), ty, span, false)))
    }

    fn binary(&self, op: BinaryOp, left: &Expr, right: &Expr, span: Range<usize>) -> Result<Node, Diagnostic> {
        match op {
            BinaryOp::And | BinaryOp::Or => {
                let symbol = if op == BinaryOp::And { "`&&`" } else { "`||`" };
                let (left, right) = (Box::new(self.condition(left, symbol)?), Box::new(self.condition(right, symbol)?));
                let kind = if op == BinaryOp::And { Kind::And(left, right) } else { Kind::Or(left, right) };
                Ok(Node::new(kind, DataType::Boolean, span, false))
            }
            BinaryOp::Coalesce => self.coalesce(vec![self.expr(left)?, self.expr(right)?], span),
            BinaryOp::Compare(op) => self.compare(op, self.expr(left)?, self.expr(right)?, span),
            BinaryOp::Arithmetic(op) => self.arithmetic(op, self.expr(left)?, self.expr(right)?, span),
        }
    }

    /// An operand that must be bool; `null` counts as one.
    fn condition(&self, expr: &Expr, place: &str) -> Result<Node, Diagnostic> {
        let node = self.expr(expr)?;
        match class(&node.ty) {
            Class::Bool => Ok(node),
            Class::Null => Ok(self.convert(node, &DataType::Boolean)),
            _ => self.fail(&node.span, format!("{place} takes bool, not {}", types::name(&node.ty))),
        }
    }

    fn coalesce(&self, items: Vec<Node>, span: Range<usize>) -> Result<Node, Diagnostic> {
        let ty = self.common(&items.iter().collect::<Vec<_>>(), "the alternatives")?;
        let items = items.into_iter().map(|item| self.convert(item, &ty)).collect();
        Ok(Node::new(Kind::Coalesce(items), ty, span, false))
    }

    fn call(&self, name: &str, args: &[Expr], span: Range<usize>) -> Result<Node, Diagnostic> {
        let name_span = span.start..span.start + name.len();
        let Some(function) = functions::find(name) else {
            let hint = nearest::hint(name, functions::functions().iter().map(|function| function.name));
            return self.fail(&name_span, format!("unknown function `{name}`{hint}"));
        };
        let (least, most) = function.arity;
        if args.len() < least || args.len() > most {
            return self.fail(&span, format!("`{}` does not take {} argument{}", function.signature, args.len(), plural(args.len())));
        }
        let mut nodes = Vec::with_capacity(args.len());
        for arg in args {
            nodes.push(self.expr(arg)?);
        }
        (function.bind)(Args::new(self.text, function, span, nodes))
    }

    /// The type all have in common.
    fn common(&self, nodes: &[&Node], what: &str) -> Result<DataType, Diagnostic> {
        let mut ty = DataType::Null;
        for node in nodes {
            ty = match types::common(&ty, &node.ty) {
                Some(common) => common,
                None => {
                    let (a, b) = (types::name(&ty), types::name(&node.ty));
                    return self.fail(&node.span, format!("{what} have no type in common: {a} and {b}"));
                }
            };
        }
        Ok(ty)
    }

    fn convert(&self, node: Node, ty: &DataType) -> Node {
        convert(node, ty)
    }

    fn never_null(&self, node: &Node) -> bool {
        match &node.kind {
            Kind::IsNull(_) => true,
            Kind::Not(inner) => self.never_null(inner),
            Kind::And(a, b) | Kind::Or(a, b) => self.never_null(a) && self.never_null(b),
            _ => false,
        }
    }
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// `node` in another type; a literal is converted here and now if it can be.
pub(crate) fn convert(node: Node, ty: &DataType) -> Node {
    if node.ty == *ty {
        return node;
    }
    if let Kind::Literal(value) = &node.kind
        && let Ok(value) = types::convert(value.clone(), &node.ty, ty)
    {
        return Node::literal(value, ty.clone(), node.span);
    }
    let (span, fails) = (node.span.clone(), types::conversion_can_fail(&node.ty, ty));
    Node::new(Kind::Convert(Box::new(node)), ty.clone(), span, fails)
}

/// Timestamps for arithmetic: a date is its midnight in seconds, seconds become milliseconds.
pub(crate) fn as_timestamp(node: Node) -> Node {
    match class(&node.ty) {
        Class::Date => convert(node, &DataType::Timestamp(TimeUnit::Second, None)),
        _ => node,
    }
}

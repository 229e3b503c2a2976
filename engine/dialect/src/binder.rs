//! From the expression as written to the typed one: names are looked up, types checked, conversions made explicit.

mod arithmetic;
mod compare;
mod lambda;
mod nested;

use crate::Diagnostic;
use crate::ast::{BinaryOp, Expr, ExprKind, UnaryOp};
use crate::fold::Folding;
use crate::functions::{self, Args};
use crate::host::Functions;
use crate::lex::Token;
use crate::node::{Kind, Node};
use crate::types::{self, Class, class};
use crate::value::Value;
use arrow::datatypes::{DataType, Schema, TimeUnit};
pub(crate) use compare::{compare, same_or_null};
use std::cell::RefCell;
use std::ops::Range;
use tidegate_api::{hidden, nearest};

/// Parts that the type of a value may have: its lists, objects and members counted one by one.
const MOST_PARTS: usize = 2_000;

/// Levels of lists and objects in each other, as many as a type of the pipeline file may have.
const MOST_NESTED: usize = 32;

/// Types an expression against a schema.
pub(crate) fn bind(text: &str, expr: &Expr, schema: &Schema, functions: &Functions) -> Result<Node, Diagnostic> {
    Binder { text, schema, functions, params: RefCell::new(Vec::new()), folding: Folding::new() }.expr(expr)
}

pub(crate) struct Binder<'a> {
    text: &'a str,
    schema: &'a Schema,
    functions: &'a Functions,
    /// The parameters of the lambdas around what is bound; each has the slot of its place here.
    params: RefCell<Vec<(String, DataType)>>,
    folding: Folding,
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
            ExprKind::InList(value, list) => self.in_list(self.expr(value)?, self.expr(list)?, span)?,
            ExprKind::InRange(value, low, high) => self.in_range(self.expr(value)?, self.expr(low)?, self.expr(high)?, span)?,
            ExprKind::If(condition, then, otherwise) => {
                let condition = self.condition(condition, "the condition of `?:`")?;
                let (then, otherwise) = (self.expr(then)?, self.expr(otherwise)?);
                let ty = self.common(&[&then, &otherwise], "the two values of `?:`")?;
                let (then, otherwise) = (self.convert(then, &ty), self.convert(otherwise, &ty));
                let certain = condition.as_literal().is_some_and(|value| !value.is_null()) || self.never_null(&condition);
                Node::new(Kind::If(Box::new(condition), Box::new(then), Box::new(otherwise)), ty, span, !certain)
            }
            ExprKind::Member(value, access, name) => self.member(self.expr(value)?, *access, name, span)?,
            ExprKind::Index(value, index) => self.index(self.expr(value)?, self.expr(index)?, span)?,
            ExprKind::List(items) => {
                let items = items.iter().map(|item| self.expr(item)).collect::<Result<Vec<_>, _>>()?;
                self.list(items, span)?
            }
            ExprKind::Object(members) => self.object(members, span)?,
            ExprKind::Lambda(..) => return self.fail(&span, "a lambda stands only as an argument of a function such as `map`"),
            ExprKind::Call(name, args) => self.call(name, args, span)?,
        };
        if types::parts(&node.ty, MOST_PARTS) > MOST_PARTS {
            return self.fail(&node.span, format!("the type of this has more than {MOST_PARTS} parts"));
        }
        if types::depth(&node.ty) > MOST_NESTED {
            return self.fail(&node.span, format!("lists and objects stand in each other more than {MOST_NESTED} levels deep"));
        }
        self.folding.fold(self.text, node)
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
        let params = self.params.borrow();
        if let Some((slot, (_, ty))) = params.iter().enumerate().rev().find(|(_, (known, _))| known == name) {
            return Ok(Node::param(slot, ty.clone(), span));
        }
        let Some((index, field)) = self.schema.column_with_name(name) else {
            let columns = self.schema.fields().iter().map(|field| field.name().as_str()).filter(|name| !hidden::is_hidden(name));
            let known = columns.chain(params.iter().map(|(name, _)| name.as_str()).filter(|name| !name.is_empty()));
            let hint = match self.functions.signature(name) {
                Some(signature) => format!(", the function is written `{signature}`"),
                None => nearest::hint(name, known),
            };
            return self.fail(&span, format!("unknown column `{name}`{hint}"));
        };
        let read = Node::new(Kind::Column { index, name: name.to_string() }, field.data_type().clone(), span, false);
        // The evaluators know one layout of text and of lists.
        let ty = types::canonical(&read.ty);
        Ok(self.convert(read, &ty))
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
        let (signature, (least, most)) = match (functions::find(name), self.functions.host(name)) {
            (Some(function), _) => (function.signature, function.arity),
            (None, Some(function)) => (function.signature(), function.arity()),
            (None, None) => {
                let hint = nearest::hint(name, self.functions.names());
                return self.fail(&name_span, format!("unknown function `{name}`{hint}"));
            }
        };
        if args.len() < least || args.len() > most {
            return self.fail(&span, format!("`{signature}` does not take {} argument{}", args.len(), plural(args.len())));
        }
        if let Some(form) = lambda::form(name) {
            return form(self, args, span);
        }
        if let Some(lambda) = args.iter().find(|arg| matches!(arg.kind, ExprKind::Lambda(..))) {
            return self.fail(&lambda.span, format!("`{signature}` does not take a lambda"));
        }
        let mut nodes = Vec::with_capacity(args.len());
        for arg in args {
            nodes.push(self.expr(arg)?);
        }
        match (functions::find(name), self.functions.host(name)) {
            (Some(function), _) => (function.bind)(Args::new(self.text, function, span, nodes)),
            (None, Some(function)) => function.bind(self.text, span, nodes),
            (None, None) => self.fail(&name_span, format!("unknown function `{name}`")),
        }
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
            Kind::Coalesce(items) => items.last().is_some_and(|last| self.never_null(last)),
            Kind::Literal(value) => !value.is_null(),
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

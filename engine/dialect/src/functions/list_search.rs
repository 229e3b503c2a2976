//! Looking for a value in a list: `contains`, `listIndexOf`. Both are lambdas that compare each element.

use super::list_kernels::listed;
use super::{Args, Function};
use crate::Diagnostic;
use crate::ast::Compare;
use crate::binder::compare;
use crate::node::{Each, Form, Kind, Node};
use crate::types::item_of;
use crate::value::Value;
use arrow::datatypes::DataType;
use std::ops::Range;

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "listIndexOf",
    signature: "listIndexOf(list, value) -> int64",
    doc: "The position, from 0, of the first element that equals the value; null where none does.",
    examples: &[
        ("listIndexOf(['a', 'b'], 'b')", "1"),
        ("listIndexOf([1, 2.0], 2)", "1"),
        ("listIndexOf([1], 3)", "null"),
        ("listIndexOf([1], null)", "null"),
    ],
    arity: (2, 2),
    bind: |mut args| {
        listed(&mut args, 0)?;
        let (source, span) = (args.source(), args.span.clone());
        let value = args.nodes.pop();
        match (args.nodes.pop(), value) {
            (Some(list), Some(value)) => search(source, Form::Position, DataType::Int64, list, value, span),
            _ => Err(Diagnostic::new(source, span, "expected a list and a value")),
        }
    },
}];

/// `contains` of a list.
pub(super) fn within(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    listed(&mut args, 0)?;
    let (source, span) = (args.source(), args.span.clone());
    let value = args.nodes.pop();
    match (args.nodes.pop(), value) {
        (Some(list), Some(value)) => contains(source, list, value, span),
        _ => Err(Diagnostic::new(source, span, "expected a list and a value")),
    }
}

/// Whether one of the elements equals the value; null elements equal none.
pub(crate) fn contains(source: &str, list: Node, value: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
    search(source, Form::Any, DataType::Boolean, list, value, span)
}

fn search(source: &str, form: Form, ty: DataType, list: Node, value: Node, span: Range<usize>) -> Result<Node, Diagnostic> {
    let item = item_of(&list.ty).cloned().unwrap_or(DataType::Null);
    if value.ty == DataType::Null || item == DataType::Null && value.is_null_literal() {
        return Ok(Node::literal(Value::Null, ty, span));
    }
    value.once(Node::free_slot([&list]), |value| {
        let slot = Node::free_slot([&list, &value]);
        let element = Node::param(slot, item, span.clone());
        let equal = compare(source, Compare::Equal, element, value.clone(), span.clone())?;
        let no = Node::literal(Value::Bool(false), DataType::Boolean, span.clone());
        let body = Box::new(Node::new(Kind::Coalesce(vec![equal, no]), DataType::Boolean, span.clone(), false));
        let found = Node::new(Kind::Each(Each { form, slot, args: vec![list], body }), ty.clone(), span.clone(), false);
        if value.as_literal().is_some_and(|value| !value.is_null()) {
            return Ok(found);
        }
        let missing = Node::new(Kind::IsNull(Box::new(value)), DataType::Boolean, span.clone(), false);
        let unknown = Node::literal(Value::Null, ty.clone(), span.clone());
        Ok(Node::new(Kind::If(Box::new(missing), Box::new(unknown), Box::new(found)), ty, span, false))
    })
}

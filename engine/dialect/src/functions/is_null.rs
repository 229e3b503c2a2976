//! `isNull` and `isNotNull`

use super::Function;
use crate::node::{Kind, Node};
use arrow::datatypes::DataType;

pub(super) const FUNCTION: Function = Function {
    name: "isNull",
    signature: "isNull(value) -> bool",
    doc: "Whether there is no value; the same as `value == null`.",
    examples: &[("isNull(null)", "true"), ("isNull('')", "false")],
    arity: (1, 1),
    bind: |mut args| {
        let operand = Box::new(args.nodes.remove(0));
        Ok(Node::new(Kind::IsNull(operand), DataType::Boolean, args.span, false))
    },
};

pub(super) const NOT_NULL: Function = Function {
    name: "isNotNull",
    signature: "isNotNull(value) -> bool",
    doc: "Whether there is a value; the same as `value != null`.",
    examples: &[("isNotNull(null)", "false"), ("isNotNull('')", "true")],
    arity: (1, 1),
    bind: |mut args| {
        let operand = Box::new(args.nodes.remove(0));
        let test = Node::new(Kind::IsNull(operand), DataType::Boolean, args.span.clone(), false);
        Ok(Node::new(Kind::Not(Box::new(test)), DataType::Boolean, args.span, false))
    },
};

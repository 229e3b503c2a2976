//! What kind of value there is: `isNumber`, `isString`, `isBoolean`

use super::{Args, Function};
use crate::Diagnostic;
use crate::node::{Kind, Node};
use crate::types::Class;
use crate::value::Value;
use arrow::datatypes::DataType;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "isNumber",
        signature: "isNumber(value) -> bool",
        doc: "Whether there is a value and its type is that of an integer, a float or a decimal. Null gives false, NaN true, and text that reads as a number false.",
        examples: &[("isNumber(1.5m)", "true"), ("isNumber('1')", "false"), ("isNumber(null)", "false")],
        arity: (1, 1),
        bind: |args| of_kind(args, |class| matches!(class, Class::Signed | Class::Unsigned | Class::Float | Class::Decimal(..))),
    },
    Function {
        name: "isString",
        signature: "isString(value) -> bool",
        doc: "Whether there is a value and it is text. Null gives false.",
        examples: &[("isString('')", "true"), ("isString(1)", "false"), ("isString(null)", "false")],
        arity: (1, 1),
        bind: |args| of_kind(args, |class| matches!(class, Class::Text)),
    },
    Function {
        name: "isBoolean",
        signature: "isBoolean(value) -> bool",
        doc: "Whether there is a value and it is a bool. Null gives false, and so does text such as `'true'`.",
        examples: &[("isBoolean(1 < 2)", "true"), ("isBoolean('true')", "false"), ("isBoolean(null)", "false")],
        arity: (1, 1),
        bind: |args| of_kind(args, |class| matches!(class, Class::Bool)),
    },
];

/// The type is known when the expression is bound; what is left to ask of a row is whether it has a value.
fn of_kind(mut args: Args<'_>, wanted: fn(Class) -> bool) -> Result<Node, Diagnostic> {
    let (fits, span) = (wanted(args.class(0)), args.span.clone());
    if !fits {
        return Ok(Node::literal(Value::Bool(false), DataType::Boolean, span));
    }
    let missing = Node::new(Kind::IsNull(Box::new(args.nodes.remove(0))), DataType::Boolean, span.clone(), false);
    Ok(Node::new(Kind::Not(Box::new(missing)), DataType::Boolean, span, false))
}

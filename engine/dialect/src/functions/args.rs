//! The arguments of a call while it is bound: checks, conversions, and the node they become.

use super::Function;
use crate::Diagnostic;
use crate::binder::convert;
use crate::node::{Call, KernelFn, Kind, Node, RowFn};
use crate::types::{self, Class, class};
use crate::value::Value;
use arrow::datatypes::DataType;
use std::ops::Range;
use std::sync::Arc;

/// Arguments whose number fits the function's arity.
pub(crate) struct Args<'a> {
    text: &'a str,
    function: &'static Function,
    pub(crate) span: Range<usize>,
    pub(crate) nodes: Vec<Node>,
}

const PLACES: [&str; 4] = ["first", "second", "third", "fourth"];

impl<'a> Args<'a> {
    pub(crate) fn new(text: &'a str, function: &'static Function, span: Range<usize>, nodes: Vec<Node>) -> Self {
        Args { text, function, span, nodes }
    }

    /// The text of the whole expression.
    pub(crate) fn source(&self) -> &'a str {
        self.text
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A mistake in an argument.
    pub(crate) fn refuse(&self, at: usize, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(self.text, self.nodes[at].span.clone(), message)
    }

    /// The argument is not of the type that `wanted` names.
    pub(crate) fn wrong(&self, at: usize, wanted: &str) -> Diagnostic {
        let place = PLACES.get(at).copied().unwrap_or("next");
        let found = types::name(&self.nodes[at].ty);
        self.refuse(at, format!("the {place} argument of `{}` is {wanted}, not {found}", self.function.name))
    }

    pub(crate) fn class(&self, at: usize) -> Class {
        class(&self.nodes[at].ty)
    }

    pub(crate) fn ty(&self, at: usize) -> &DataType {
        &self.nodes[at].ty
    }

    /// Gives an argument another type by the promotion rules.
    pub(crate) fn convert(&mut self, at: usize, ty: &DataType) {
        let node = std::mem::replace(&mut self.nodes[at], Node::literal(Value::Null, DataType::Null, 0..0));
        self.nodes[at] = convert(node, ty);
    }

    /// Requires text.
    pub(crate) fn text(&mut self, at: usize) -> Result<(), Diagnostic> {
        match self.class(at) {
            Class::Text => Ok(()),
            Class::Null => {
                self.convert(at, &DataType::Utf8View);
                Ok(())
            }
            _ => Err(self.wrong(at, "text")),
        }
    }

    /// Requires an integer, as int64.
    pub(crate) fn integer(&mut self, at: usize) -> Result<(), Diagnostic> {
        match self.class(at) {
            Class::Signed | Class::Unsigned | Class::Null => {
                self.convert(at, &DataType::Int64);
                Ok(())
            }
            _ => Err(self.wrong(at, "an integer")),
        }
    }

    /// Requires a literal text, known when the expression is bound.
    pub(crate) fn constant_text(&self, at: usize) -> Result<&str, Diagnostic> {
        match self.nodes[at].as_literal() {
            Some(Value::Text(text)) => Ok(text),
            _ => Err(self.wrong(at, "a constant text").without_type()),
        }
    }

    /// A literal integer, if the argument is one.
    pub(crate) fn constant_integer(&self, at: usize) -> Option<i128> {
        if let Some(Value::Int(value)) = self.nodes[at].as_literal() { Some(*value) } else { None }
    }

    /// The call: its type, whether it can fail on arguments that are not null, its definition, and its kernel.
    pub(crate) fn call(
        self,
        ty: DataType,
        fails: bool,
        row: impl Fn(&[Value]) -> Result<Value, String> + Send + Sync + 'static,
        kernel: Option<KernelFn>,
    ) -> Node {
        let row: RowFn = Arc::new(row);
        let kind = Kind::Call(Call { name: self.function.name, args: self.nodes, row, kernel });
        Node::new(kind, ty, self.span, fails)
    }
}

impl Diagnostic {
    /// Leaves out the type that was found, where it is not what is wrong.
    fn without_type(mut self) -> Self {
        if let Some(at) = self.message.rfind(", not ") {
            self.message.truncate(at);
        }
        self
    }
}

//! The arguments of a call while it is bound: checks, conversions, and the node they become.

use super::Function;
use crate::Diagnostic;
use crate::binder::convert;
use crate::node::{Call, KernelFn, Kind, Node, RowFn};
use crate::time::{Zone, zone_named, zone_of};
use crate::types::{self, Class, class};
use crate::value::Value;
use arrow::datatypes::{DataType, TimeUnit};
use std::ops::Range;
use std::sync::Arc;
use tidegate_api::nearest;

/// Arguments whose number fits the function's arity.
pub(crate) struct Args<'a> {
    text: &'a str,
    function: &'static Function,
    pub(crate) span: Range<usize>,
    pub(crate) nodes: Vec<Node>,
}

const PLACES: [&str; 4] = ["first", "second", "third", "fourth"];

/// What an argument must be, and what it is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Text,
    /// Any integer, as int64.
    Integer,
    /// Any number, as float64.
    Float,
    Bool,
    /// Text or binary, read as bytes.
    Bytes,
}

/// The numbers that arithmetic knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Int,
    Unsigned,
    Float,
    Decimal(u8, i8),
}

/// How the ticks of a time are read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    pub(super) unit: TimeUnit,
    pub(super) zone: Zone,
}

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

    /// Requires that the arguments have these shapes; the last is that of all further arguments, and those left out are not asked.
    pub(super) fn take(&mut self, shapes: &[Shape]) -> Result<(), Diagnostic> {
        for at in 0..self.len() {
            match shapes[at.min(shapes.len() - 1)] {
                Shape::Text => self.text(at)?,
                Shape::Integer => self.integer(at)?,
                Shape::Float => self.float(at)?,
                Shape::Bool => match self.class(at) {
                    Class::Bool | Class::Null => self.convert(at, &DataType::Boolean),
                    _ => return Err(self.wrong(at, "a bool")),
                },
                Shape::Bytes => match self.ty(at) {
                    DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {}
                    _ if matches!(self.class(at), Class::Text | Class::Null) => self.text(at)?,
                    _ => return Err(self.wrong(at, "text or binary")),
                },
            }
        }
        Ok(())
    }

    /// Requires a number, as float64.
    pub(super) fn float(&mut self, at: usize) -> Result<(), Diagnostic> {
        match self.class(at) {
            Class::Signed | Class::Unsigned | Class::Float | Class::Decimal(..) | Class::Null => {
                self.convert(at, &DataType::Float64);
                Ok(())
            }
            _ => Err(self.wrong(at, "a number")),
        }
    }

    /// Requires a number and makes it the widest of its kind.
    pub(super) fn number(&mut self, at: usize) -> Result<Number, Diagnostic> {
        let (number, ty) = match self.class(at) {
            Class::Signed | Class::Null => (Number::Int, DataType::Int64),
            Class::Unsigned => (Number::Unsigned, DataType::UInt64),
            Class::Float => (Number::Float, DataType::Float64),
            Class::Decimal(precision, scale) => (Number::Decimal(precision, scale), DataType::Decimal128(precision, scale)),
            _ => return Err(self.wrong(at, "a number")),
        };
        self.convert(at, &ty);
        Ok(number)
    }

    /// Requires a time: a timestamp, a date, which becomes its midnight in seconds, or int64 epoch milliseconds.
    pub(super) fn time(&mut self, at: usize) -> Result<Clock, Diagnostic> {
        match self.class(at) {
            Class::Signed | Class::Unsigned | Class::Null => {
                self.integer(at)?;
                Ok(Clock { unit: TimeUnit::Millisecond, zone: Zone::Utc })
            }
            Class::Date => {
                self.convert(at, &DataType::Timestamp(TimeUnit::Second, None));
                Ok(Clock { unit: TimeUnit::Second, zone: Zone::Utc })
            }
            Class::Timestamp(unit, _) => match zone_of(self.ty(at)) {
                Some(zone) => Ok(Clock { unit, zone }),
                None => Err(self.wrong(at, "a time in a known zone")),
            },
            _ => Err(self.wrong(at, "a timestamp, a date or epoch milliseconds")),
        }
    }

    /// Gives all arguments from `first` on the type they have in common.
    pub(super) fn common(&mut self, first: usize) -> Result<DataType, Diagnostic> {
        let mut ty = DataType::Null;
        for at in first..self.len() {
            ty = types::common(&ty, self.ty(at)).ok_or_else(|| {
                let (known, found) = (types::name(&ty), types::name(self.ty(at)));
                self.refuse(at, format!("the arguments of `{}` have no type in common: {known} and {found}", self.function.name))
            })?;
        }
        for at in first..self.len() {
            self.convert(at, &ty);
        }
        Ok(ty)
    }

    /// A constant time zone: its name, and what it means.
    pub(super) fn zone(&self, at: usize) -> Result<(Arc<str>, Zone), Diagnostic> {
        let name = self.constant_text(at)?;
        let known = name.parse::<arrow::array::timezone::Tz>().is_ok() || name == "Z";
        match zone_named(name).filter(|_| known) {
            Some(zone) => Ok((if name == "Z" { "UTC" } else { name }.into(), zone)),
            None => {
                Err(self
                    .refuse(at, format!("unknown time zone `{name}`, write `UTC`, an offset like `+02:00` or a name like `Europe/Berlin`")))
            }
        }
    }

    /// One of a few words, a constant.
    pub(super) fn word<T: Copy>(&self, at: usize, what: &str, words: &[(&str, T)]) -> Result<T, Diagnostic> {
        let name = self.constant_text(at)?;
        match words.iter().find(|(known, _)| *known == name) {
            Some((_, found)) => Ok(*found),
            None => {
                let hint = nearest::hint(name, words.iter().map(|(known, _)| *known));
                Err(self.refuse(at, format!("unknown {what} `{name}`{hint}")))
            }
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

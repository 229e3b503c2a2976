//! The typed expression: names are positions, every conversion is a node of its own, and each node knows whether it can fail.

use crate::ast::{Arithmetic, Compare};
use crate::value::Value;
use arrow::datatypes::DataType;
use datafusion_common::Result as DataFusionResult;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A typed expression.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) ty: DataType,
    pub(crate) span: Range<usize>,
    /// Whether some row can be bad here or below.
    pub(crate) fallible: bool,
    /// Whether a kernel here or below is dear enough to be worth selecting rows first.
    pub(crate) costly: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Literal(Value),
    Column {
        index: usize,
        name: String,
    },
    /// `now()`: the epoch's time, in microseconds.
    Now,
    /// The child's value in this node's type, by the promotion rules.
    Convert(Box<Node>),
    Negate(Box<Node>),
    Not(Box<Node>),
    /// Numbers of one class; the result's type says which arithmetic it is.
    Arithmetic(Arithmetic, Box<Node>, Box<Node>),
    /// A timestamp moved by int64 milliseconds, forwards (`Add`) or back (`Subtract`).
    Shift(Arithmetic, Box<Node>, Box<Node>),
    /// The milliseconds between two timestamps.
    Elapsed(Box<Node>, Box<Node>),
    Compare(Compare, Order, Box<Node>, Box<Node>),
    IsNull(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    If(Box<Node>, Box<Node>, Box<Node>),
    /// The first that is not null; later ones are evaluated only where needed.
    Coalesce(Vec<Node>),
    /// `value in [literals]`, all of the value's type, none null.
    In(Order, Box<Node>, Vec<Node>),
    Member(Box<Node>, usize),
    Index(Box<Node>, Box<Node>),
    Call(Call),
}

/// How two operands are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Order {
    /// One type, whose Arrow order is ours.
    Same,
    /// Two float64.
    Floats,
    /// int64 or uint64 on either side.
    Integers,
    /// An integer on the left, a float64 on the right.
    IntegerFloat,
    Decimals,
    /// Timestamps of any unit, or int64 epoch milliseconds.
    Times,
}

/// The definition of a function's value from its arguments' values.
pub(crate) type RowFn = Arc<dyn Fn(&[Value]) -> Result<Value, String> + Send + Sync>;

/// A vectorised form: arguments and the number of rows. An error gives the batch to the reference evaluator.
pub(crate) type KernelFn = Arc<dyn Fn(&[ColumnarValue], usize) -> DataFusionResult<ColumnarValue> + Send + Sync>;

/// A call with its checked arguments.
#[derive(Clone)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) args: Vec<Node>,
    /// Not called when an argument is null: the result is null then.
    pub(crate) row: RowFn,
    /// `None`: evaluated row by row.
    pub(crate) kernel: Option<KernelFn>,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("name", &self.name).field("args", &self.args).field("vectorised", &self.kernel.is_some()).finish()
    }
}

impl Node {
    /// A node; `fails` says whether it can fail by itself, besides its children.
    pub(crate) fn new(kind: Kind, ty: DataType, span: Range<usize>, fails: bool) -> Node {
        let mut node = Node { kind, ty, span, fallible: fails, costly: false };
        node.costly = match &node.kind {
            Kind::Call(call) => call.kernel.is_none() || call.name.starts_with("regex"),
            _ => false,
        };
        let (fallible, costly) =
            node.children().into_iter().fold((fails, node.costly), |(f, c), child| (f | child.fallible, c | child.costly));
        node.fallible = fallible;
        node.costly = costly;
        node
    }

    pub(crate) fn literal(value: Value, ty: DataType, span: Range<usize>) -> Node {
        Node::new(Kind::Literal(value), ty, span, false)
    }

    pub(crate) fn as_literal(&self) -> Option<&Value> {
        if let Kind::Literal(value) = &self.kind { Some(value) } else { None }
    }

    pub(crate) fn is_null_literal(&self) -> bool {
        self.as_literal().is_some_and(Value::is_null)
    }

    /// The operands, in the order in which they are evaluated.
    pub(crate) fn children(&self) -> Vec<&Node> {
        match &self.kind {
            Kind::Literal(_) | Kind::Column { .. } | Kind::Now => Vec::new(),
            Kind::Convert(a) | Kind::Negate(a) | Kind::Not(a) | Kind::IsNull(a) | Kind::Member(a, _) => vec![a],
            Kind::Arithmetic(_, a, b) | Kind::Shift(_, a, b) | Kind::Elapsed(a, b) | Kind::Compare(_, _, a, b) => vec![a, b],
            Kind::And(a, b) | Kind::Or(a, b) | Kind::Index(a, b) => vec![a, b],
            Kind::If(a, b, c) => vec![a, b, c],
            Kind::Coalesce(items) => items.iter().collect(),
            Kind::In(_, value, items) => std::iter::once(value.as_ref()).chain(items).collect(),
            Kind::Call(call) => call.args.iter().collect(),
        }
    }

    /// Calls `visit` on this node and all below.
    pub(crate) fn walk<'a>(&'a self, visit: &mut impl FnMut(&'a Node)) {
        visit(self);
        for child in self.children() {
            child.walk(visit);
        }
    }
}

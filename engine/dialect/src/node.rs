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
    /// Whether it reads nothing around it, so that it has one value for all rows.
    pub(crate) constant: bool,
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
    /// A list of values of one type, nulls included.
    List(Vec<Node>),
    /// The members of an object, in the order of the node's type.
    Object(Vec<Node>),
    /// What a surrounding [`Kind::Each`] or [`Kind::Let`] gave this slot; the innermost that has it counts.
    Param(usize),
    /// The body, with the first node's value in a slot: evaluated once, read as often as the body likes.
    Let(usize, Box<Node>, Box<Node>),
    Each(Each),
    /// The value, or null where it makes a bad row.
    Try(Box<Node>),
}

/// A lambda over the elements of a list.
#[derive(Debug, Clone)]
pub(crate) struct Each {
    pub(crate) form: Form,
    /// The first of the lambda's slots.
    pub(crate) slot: usize,
    /// The list, and what the form has beside it.
    pub(crate) args: Vec<Node>,
    pub(crate) body: Box<Node>,
}

/// What becomes of a lambda's values. The slots are the element and its position, unless it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// The list of the values.
    Map,
    /// The elements for which it is true.
    Filter,
    /// Whether it is true for one; null if it is not, but null for one.
    Any,
    /// Whether it is true for every one; null if it is false for none, but null for one.
    All,
    /// The position of the first for which it is true, or null.
    Position,
    /// The elements in the order of its values, nulls last.
    SortBy,
    /// The last value; slots are the value so far, which begins as the second argument, and the element.
    Reduce,
    /// Whether two lists have one length and it is true for each pair of elements; slots are the two elements.
    Same,
}

/// What a part of an expression reads from around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaf {
    Column(usize),
    Now,
    Param(usize),
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
        let mut node = Node { kind, ty, span, fallible: fails, costly: false, constant: false };
        node.costly = match &node.kind {
            Kind::Call(call) => call.kernel.is_none() || call.name.starts_with("regex"),
            Kind::Each(_) => true,
            _ => false,
        };
        let (mut fallible, mut costly, mut constant) = (fails, node.costly, true);
        for child in node.children() {
            fallible |= child.fallible;
            costly |= child.costly;
            constant &= child.constant;
        }
        node.fallible = fallible && !matches!(node.kind, Kind::Try(_));
        node.costly = costly;
        node.constant = match &node.kind {
            Kind::Column { .. } | Kind::Now | Kind::Param(_) => false,
            Kind::Let(..) | Kind::Each(_) => node.leaves().is_empty(),
            _ => constant,
        };
        node
    }

    /// What a surrounding node gives it under `slot`.
    pub(crate) fn param(slot: usize, ty: DataType, span: Range<usize>) -> Node {
        Node::new(Kind::Param(slot), ty, span, false)
    }

    /// A slot that none of the nodes uses.
    pub(crate) fn free_slot<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> usize {
        let mut slot = 0;
        for node in nodes {
            node.walk(&mut |node| match &node.kind {
                Kind::Param(used) | Kind::Let(used, ..) => slot = slot.max(used + 1),
                Kind::Each(each) => slot = slot.max(each.slot + 2),
                _ => {}
            });
        }
        slot
    }

    /// What `body` makes of this node's value, which is evaluated once however often `body` uses it. `free` is a slot from
    /// which on the nodes that `body` puts in beside it use none: see [`Node::free_slot`].
    pub(crate) fn once<E>(self, free: usize, body: impl FnOnce(Node) -> Result<Node, E>) -> Result<Node, E> {
        let simple = match &self.kind {
            Kind::Literal(_) | Kind::Column { .. } | Kind::Now | Kind::Param(_) => true,
            Kind::Convert(inner) => matches!(inner.kind, Kind::Column { .. } | Kind::Param(_)),
            _ => false,
        };
        if simple {
            return body(self);
        }
        let slot = free.max(Node::free_slot([&self]));
        let body = body(Node::param(slot, self.ty.clone(), self.span.clone()))?;
        let (ty, span) = (body.ty.clone(), body.span.clone());
        Ok(Node::new(Kind::Let(slot, Box::new(self), Box::new(body)), ty, span, false))
    }

    /// What it reads from around it, each once, with its type, in the order of first use.
    pub(crate) fn leaves(&self) -> Vec<(Leaf, &Node)> {
        fn collect<'a>(node: &'a Node, own: &mut Vec<usize>, found: &mut Vec<(Leaf, &'a Node)>) {
            let leaf = match &node.kind {
                Kind::Column { index, .. } => Some(Leaf::Column(*index)),
                Kind::Now => Some(Leaf::Now),
                Kind::Param(slot) if !own.contains(slot) => Some(Leaf::Param(*slot)),
                _ => None,
            };
            if let Some(leaf) = leaf
                && !found.iter().any(|(known, _)| *known == leaf)
            {
                found.push((leaf, node));
            }
            let before = own.len();
            match &node.kind {
                Kind::Let(slot, value, body) => {
                    collect(value, own, found);
                    own.push(*slot);
                    collect(body, own, found);
                }
                Kind::Each(each) => {
                    each.args.iter().for_each(|arg| collect(arg, own, found));
                    own.extend([each.slot, each.slot + 1]);
                    collect(&each.body, own, found);
                }
                _ => node.children().into_iter().for_each(|child| collect(child, own, found)),
            }
            own.truncate(before);
        }
        let (mut own, mut found) = (Vec::new(), Vec::new());
        collect(self, &mut own, &mut found);
        found
    }

    pub(crate) fn literal(value: Value, ty: DataType, span: Range<usize>) -> Node {
        Node::new(Kind::Literal(value), ty, span, false)
    }

    pub(crate) fn as_literal(&self) -> Option<&Value> {
        if let Kind::Literal(value) = &self.kind { Some(value) } else { None }
    }

    /// Whether it is `null` as it is written; a constant that happens to be null has a type.
    pub(crate) fn is_null_literal(&self) -> bool {
        self.ty == DataType::Null && self.as_literal().is_some()
    }

    /// The operands, in the order in which they are evaluated.
    pub(crate) fn children(&self) -> Vec<&Node> {
        match &self.kind {
            Kind::Literal(_) | Kind::Column { .. } | Kind::Now | Kind::Param(_) => Vec::new(),
            Kind::Convert(a) | Kind::Negate(a) | Kind::Not(a) | Kind::IsNull(a) | Kind::Member(a, _) | Kind::Try(a) => vec![a],
            Kind::Arithmetic(_, a, b) | Kind::Shift(_, a, b) | Kind::Elapsed(a, b) | Kind::Compare(_, _, a, b) => vec![a, b],
            Kind::And(a, b) | Kind::Or(a, b) | Kind::Index(a, b) | Kind::Let(_, a, b) => vec![a, b],
            Kind::If(a, b, c) => vec![a, b, c],
            Kind::Each(each) => each.args.iter().chain([each.body.as_ref()]).collect(),
            Kind::Coalesce(items) | Kind::List(items) | Kind::Object(items) => items.iter().collect(),
            Kind::In(_, value, items) => std::iter::once(value.as_ref()).chain(items).collect(),
            Kind::Call(call) => call.args.iter().collect(),
        }
    }

    pub(crate) fn children_mut(&mut self) -> Vec<&mut Node> {
        match &mut self.kind {
            Kind::Literal(_) | Kind::Column { .. } | Kind::Now | Kind::Param(_) => Vec::new(),
            Kind::Convert(a) | Kind::Negate(a) | Kind::Not(a) | Kind::IsNull(a) | Kind::Member(a, _) | Kind::Try(a) => vec![a],
            Kind::Arithmetic(_, a, b) | Kind::Shift(_, a, b) | Kind::Elapsed(a, b) | Kind::Compare(_, _, a, b) => vec![a, b],
            Kind::And(a, b) | Kind::Or(a, b) | Kind::Index(a, b) | Kind::Let(_, a, b) => vec![a, b],
            Kind::If(a, b, c) => vec![a, b, c],
            Kind::Each(each) => each.args.iter_mut().chain([each.body.as_mut()]).collect(),
            Kind::Coalesce(items) | Kind::List(items) | Kind::Object(items) => items.iter_mut().collect(),
            Kind::In(_, value, items) => std::iter::once(value.as_mut()).chain(items).collect(),
            Kind::Call(call) => call.args.iter_mut().collect(),
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

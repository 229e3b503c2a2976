//! The expression as written: names are not looked up and nothing has a type yet.

use crate::lex::Token;
use std::ops::Range;

/// An expression with the bytes it came from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: Range<usize>,
    /// Levels of nesting, itself included; the parser bounds it.
    pub(crate) depth: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ExprKind {
    Null,
    Bool(bool),
    /// A literal number, text, time or duration.
    Literal(Token),
    Column(String),
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `value in [items]`
    In(Box<Expr>, Vec<Expr>),
    /// `value in list`
    InList(Box<Expr>, Box<Expr>),
    /// `value in low..high`
    InRange(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `condition ? then : otherwise`
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Member(Box<Expr>, Access, String),
    Index(Box<Expr>, Box<Expr>),
    Call(String, Vec<Expr>),
    /// `[items]`
    List(Vec<Expr>),
    /// `{name: value}`
    Object(Vec<(String, Expr)>),
    /// `(a, b) -> body`, as an argument of a call only.
    Lambda(Vec<String>, Box<Expr>),
}

/// How a member is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// `.`
    Plain,
    /// `?.`, which takes `null` itself too.
    NullSafe,
}

#[cfg(test)]
impl Expr {
    /// The expressions directly below.
    pub(crate) fn children(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Null | ExprKind::Bool(_) | ExprKind::Literal(_) | ExprKind::Column(_) => Vec::new(),
            ExprKind::Unary(_, a) | ExprKind::Member(a, ..) | ExprKind::Lambda(_, a) => vec![a],
            ExprKind::Binary(_, a, b) | ExprKind::InList(a, b) | ExprKind::Index(a, b) => vec![a, b],
            ExprKind::InRange(a, b, c) | ExprKind::If(a, b, c) => vec![a, b, c],
            ExprKind::In(value, items) => std::iter::once(value.as_ref()).chain(items).collect(),
            ExprKind::Call(_, items) | ExprKind::List(items) => items.iter().collect(),
            ExprKind::Object(members) => members.iter().map(|(_, value)| value).collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnaryOp {
    Not,
    Negate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BinaryOp {
    Arithmetic(Arithmetic),
    Compare(Compare),
    And,
    Or,
    /// `??`
    Coalesce,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Arithmetic {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::Modulo => "%",
        }
    }
}

impl Compare {
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Compare::Equal => "==",
            Compare::NotEqual => "!=",
            Compare::Less => "<",
            Compare::LessOrEqual => "<=",
            Compare::Greater => ">",
            Compare::GreaterOrEqual => ">=",
        }
    }

    /// Whether an order of the two sides satisfies it.
    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Compare::Equal => order.is_eq(),
            Compare::NotEqual => order.is_ne(),
            Compare::Less => order.is_lt(),
            Compare::LessOrEqual => order.is_le(),
            Compare::Greater => order.is_gt(),
            Compare::GreaterOrEqual => order.is_ge(),
        }
    }

    /// The comparison that says the same with the sides exchanged.
    pub(crate) fn flipped(self) -> Self {
        match self {
            Compare::Equal | Compare::NotEqual => self,
            Compare::Less => Compare::Greater,
            Compare::LessOrEqual => Compare::GreaterOrEqual,
            Compare::Greater => Compare::Less,
            Compare::GreaterOrEqual => Compare::LessOrEqual,
        }
    }
}

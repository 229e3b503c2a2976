//! Constants are computed once, when the expression is bound.

use crate::Diagnostic;
use crate::node::{Kind, Node};
use crate::reference::{self, Fuel};
use std::cell::Cell;

/// Steps that all constants of one expression may take together. What needs more is computed with the rows.
const STEPS: u64 = 2_000_000;

/// Folds the constants of one expression.
pub(crate) struct Folding {
    steps: Cell<u64>,
    /// Calls of `try` around what is folded: a failure there is a null, no mistake.
    attempts: Cell<usize>,
}

impl Folding {
    pub(crate) fn new() -> Self {
        Folding { steps: Cell::new(STEPS), attempts: Cell::new(0) }
    }

    /// Runs `bind` on what stands inside a `try`.
    pub(crate) fn attempt<T>(&self, bind: impl FnOnce() -> T) -> T {
        self.attempts.set(self.attempts.get() + 1);
        let bound = bind();
        self.attempts.set(self.attempts.get() - 1);
        bound
    }

    /// `node`, or the literal it always is. A constant whose evaluation fails would make every row bad: that is a mistake.
    pub(crate) fn fold(&self, text: &str, node: Node) -> Result<Node, Diagnostic> {
        if !node.constant || matches!(node.kind, Kind::Literal(_)) {
            return Ok(node);
        }
        let mut fuel = Fuel::new(self.steps.get());
        let found = reference::constant(&node, &mut fuel);
        self.steps.set(fuel.left());
        match found {
            _ if fuel.left() == 0 => Ok(node),
            Ok(value) => Ok(Node::literal(value, node.ty, node.span)),
            Err(_) if self.attempts.get() > 0 => Ok(node),
            Err(message) => Err(Diagnostic::new(text, node.span, format!("this always fails: {message}"))),
        }
    }
}

//! Constants are computed once, when the expression is bound.

use crate::Diagnostic;
use crate::node::{Kind, Node};
use crate::reference;

/// `node`, or the literal it always is. A constant whose evaluation fails would make every row bad: that is a mistake.
pub(crate) fn fold(text: &str, node: Node) -> Result<Node, Diagnostic> {
    let constant = match &node.kind {
        Kind::Literal(_) | Kind::Column { .. } | Kind::Now => false,
        _ => node.children().iter().all(|child| child.as_literal().is_some()),
    };
    if !constant {
        return Ok(node);
    }
    match reference::constant(&node) {
        Ok(value) => Ok(Node::literal(value, node.ty, node.span)),
        Err(message) => Err(Diagnostic::new(text, node.span, format!("this always fails: {message}"))),
    }
}

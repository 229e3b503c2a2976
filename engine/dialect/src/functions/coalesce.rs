//! `coalesce`, the operator `??` for any number of values

use super::{Args, Function};
use crate::Diagnostic;
use crate::binder::convert;
use crate::node::{Kind, Node};
use crate::types;

pub(super) const FUNCTION: Function = Function {
    name: "coalesce",
    signature: "coalesce(value, ...) -> common type",
    doc: "The first value that is not null, or null; the same as `a ?? b ?? c`. Later values are evaluated only where they are needed.",
    examples: &[("coalesce(null, 2, 3)", "2"), ("null ?? 'x'", "'x'"), ("coalesce(null, null)", "null")],
    arity: (1, 64),
    bind,
};

fn bind(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    let mut ty = args.ty(0).clone();
    for at in 1..args.len() {
        ty = types::common(&ty, args.ty(at)).ok_or_else(|| {
            let (known, found) = (types::name(&ty), types::name(args.ty(at)));
            args.refuse(at, format!("the alternatives have no type in common: {known} and {found}"))
        })?;
    }
    let items = std::mem::take(&mut args.nodes).into_iter().map(|node| convert(node, &ty)).collect();
    Ok(Node::new(Kind::Coalesce(items), ty, args.span, false))
}

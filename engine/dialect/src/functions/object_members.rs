//! Objects by their members: `keys`, `values`, `has`, `merge`, `pick`, `omit`. An object's members are known when the expression
//! is bound, so all of these become reads of members.

use super::{Args, Function};
use crate::Diagnostic;
use crate::binder::convert;
use crate::node::{Kind, Node};
use crate::types::{self, list_of, object_of};
use crate::value::Value;
use arrow::datatypes::{DataType, Fields};
use std::ops::Range;
use tidegate_api::nearest;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "keys",
        signature: "keys(object) -> list<string>",
        doc: "The names of the members, in their order.",
        examples: &[("keys({a: 1, b: null})", "['a', 'b']"), ("keys({})", "[]")],
        arity: (1, 1),
        bind: |mut args| {
            let fields = members(&args, 0)?;
            let names = fields.iter().map(|field| Value::Text(field.name().clone())).collect();
            let span = args.span.clone();
            let list = Node::literal(Value::List(names), list_of(DataType::Utf8View), span.clone());
            Ok(unless_null(&args.nodes.remove(0), list, &span))
        },
    },
    Function {
        name: "values",
        signature: "values(object) -> list",
        doc: "The values of the members, in their order, in the type they have in common.",
        examples: &[("values({a: 1, b: 2.5})", "[1.0, 2.5]"), ("values({a: null, b: 'x'})", "[null, 'x']")],
        arity: (1, 1),
        bind: values,
    },
    Function {
        name: "has",
        signature: "has(object, name) -> bool",
        doc: "Whether the object has a member of that name (a constant text) whose value is not null.",
        examples: &[("has({a: 1}, 'a')", "true"), ("has({a: null}, 'a')", "false"), ("has({a: 1}, 'b')", "false")],
        arity: (2, 2),
        bind: has,
    },
    Function {
        name: "merge",
        signature: "merge(object, object, ...) -> object",
        doc: "The members of all objects. Where two have a member of the same name the later one counts, also if its value is null.",
        examples: &[("merge({a: 1, b: 2}, {b: 'x', c: 3})", "{a: 1, b: 'x', c: 3}"), ("merge({a: 1}, null)", "null")],
        arity: (1, 64),
        bind: merge,
    },
    Function {
        name: "pick",
        signature: "pick(object, name, ...) -> object",
        doc: "An object of the named members (constant texts), in the order of the names.",
        examples: &[("pick({a: 1, b: 2, c: 3}, 'c', 'a')", "{c: 3, a: 1}")],
        arity: (2, 256),
        bind: |args| {
            let (fields, names) = (members(&args, 0)?, names(&args)?);
            let places = names.iter().map(|name| fields.find(name).map_or(0, |(at, _)| at)).collect();
            chosen(args, &fields, places)
        },
    },
    Function {
        name: "omit",
        signature: "omit(object, name, ...) -> object",
        doc: "The object without the named members (constant texts).",
        examples: &[("omit({a: 1, b: 2, c: 3}, 'b')", "{a: 1, c: 3}")],
        arity: (2, 256),
        bind: |args| {
            let (fields, names) = (members(&args, 0)?, names(&args)?);
            let places = (0..fields.len()).filter(|at| !names.contains(fields[*at].name())).collect();
            chosen(args, &fields, places)
        },
    },
];

/// The members of an argument that is an object.
fn members(args: &Args<'_>, at: usize) -> Result<Fields, Diagnostic> {
    match args.ty(at) {
        DataType::Struct(fields) => Ok(fields.clone()),
        _ => Err(args.wrong(at, "an object")),
    }
}

/// The constant names behind the object, each of which it must have.
fn names(args: &Args<'_>) -> Result<Vec<String>, Diagnostic> {
    let fields = members(args, 0)?;
    let mut found: Vec<String> = Vec::with_capacity(args.len());
    for at in 1..args.len() {
        let name = args.constant_text(at)?;
        if fields.find(name).is_none() {
            let hint = nearest::hint(name, fields.iter().map(|field| field.name().as_str()));
            return Err(args.refuse(at, format!("unknown member `{name}`{hint}")));
        }
        if found.iter().any(|known| known == name) {
            return Err(args.refuse(at, format!("the member `{name}` is named twice")));
        }
        found.push(name.to_string());
    }
    Ok(found)
}

/// A member of an object.
fn member(object: &Node, at: usize) -> Node {
    let ty = match &object.ty {
        DataType::Struct(fields) => fields[at].data_type().clone(),
        other => other.clone(),
    };
    Node::new(Kind::Member(Box::new(object.clone()), at), ty, object.span.clone(), false)
}

/// `value`, or null where the object is.
fn unless_null(object: &Node, value: Node, span: &Range<usize>) -> Node {
    let ty = value.ty.clone();
    let missing = Node::new(Kind::IsNull(Box::new(object.clone())), DataType::Boolean, span.clone(), false);
    let unknown = Node::literal(Value::Null, ty.clone(), span.clone());
    Node::new(Kind::If(Box::new(missing), Box::new(unknown), Box::new(value)), ty, span.clone(), false)
}

fn values(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    let mut ty = DataType::Null;
    for field in members(&args, 0)?.iter() {
        ty = types::common(&ty, field.data_type()).ok_or_else(|| {
            let (known, found) = (types::name(&ty), types::name(field.data_type()));
            args.refuse(0, format!("the members have no type in common: {known} and {found}"))
        })?;
    }
    let (span, count) = (args.span.clone(), members(&args, 0)?.len());
    args.nodes.remove(0).once(0, |object| {
        let items = (0..count).map(|at| convert(member(&object, at), &ty)).collect();
        let list = Node::new(Kind::List(items), list_of(ty.clone()), span.clone(), false);
        Ok(unless_null(&object, list, &span))
    })
}

fn has(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    let found = members(&args, 0)?.find(args.constant_text(1)?).map(|(at, _)| at);
    let span = args.span.clone();
    args.nodes.remove(0).once(0, |object| {
        let there = match found {
            Some(at) => {
                let missing = Node::new(Kind::IsNull(Box::new(member(&object, at))), DataType::Boolean, span.clone(), false);
                Node::new(Kind::Not(Box::new(missing)), DataType::Boolean, span.clone(), false)
            }
            None => Node::literal(Value::Bool(false), DataType::Boolean, span.clone()),
        };
        Ok(unless_null(&object, there, &span))
    })
}

fn chosen(mut args: Args<'_>, fields: &Fields, places: Vec<usize>) -> Result<Node, Diagnostic> {
    let span = args.span.clone();
    args.nodes.remove(0).once(0, |object| {
        let ty = object_of(places.iter().map(|at| (fields[*at].name().clone(), fields[*at].data_type().clone())).collect());
        let members = places.iter().map(|at| member(&object, *at)).collect();
        Ok(unless_null(&object, Node::new(Kind::Object(members), ty, span.clone(), false), &span))
    })
}

fn merge(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    if let Some(null) = args.nodes.iter().position(|node| node.ty == DataType::Null) {
        return Ok(args.nodes.remove(null));
    }
    (0..args.len()).try_for_each(|at| members(&args, at).map(|_| ()))?;
    let span = args.span.clone();
    let mut nodes = std::mem::take(&mut args.nodes).into_iter();
    let Some(mut merged) = nodes.next() else {
        return Err(Diagnostic::new(args.source(), span, "expected an object"));
    };
    for next in nodes {
        merged = two(merged, next, &span)?;
    }
    Ok(merged)
}

fn two(left: Node, right: Node, span: &Range<usize>) -> Result<Node, Diagnostic> {
    left.once(Node::free_slot([&right]), |left| {
        right.once(Node::free_slot([&left]), |right| {
            let (DataType::Struct(first), DataType::Struct(second)) = (left.ty.clone(), right.ty.clone()) else {
                return Ok(left);
            };
            let (mut fields, mut nodes) = (Vec::new(), Vec::new());
            for (at, field) in first.iter().enumerate() {
                let node = match second.find(field.name()) {
                    Some((at, _)) => member(&right, at),
                    None => member(&left, at),
                };
                fields.push((field.name().clone(), node.ty.clone()));
                nodes.push(node);
            }
            for (at, field) in second.iter().enumerate().filter(|(_, field)| first.find(field.name()).is_none()) {
                fields.push((field.name().clone(), field.data_type().clone()));
                nodes.push(member(&right, at));
            }
            let object = Node::new(Kind::Object(nodes), object_of(fields), span.clone(), false);
            Ok(unless_null(&left, unless_null(&right, object, span), span))
        })
    })
}

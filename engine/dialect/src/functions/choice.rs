//! Choosing between values: `greatest`, `least`, `clamp`, `nullIf`, `ifNull`, `if`

use super::args::{Args, Shape};
use super::rows::In;
use super::{Function, coalesce};
use crate::Diagnostic;
use crate::binder::convert;
use crate::node::{Kind, Node};
use crate::types::{Class, class, compare_floats};
use crate::value::Value;
use arrow::datatypes::DataType;
use std::cmp::Ordering;

const ORDERED: &str = "a value that has an order";

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "greatest",
        signature: "greatest(value, ...) -> common type",
        doc: "The greatest of the values, in the type they have in common; null if one of them is null. NaN is the greatest float.",
        examples: &[
            ("greatest(1, 3, 2)", "3"),
            ("greatest(1, 2.5)", "2.5"),
            ("greatest('a', 'b')", "'b'"),
            ("greatest(ts'2026-01-31', ts'2026-02-01')", "ts'2026-02-01'"),
            ("greatest(1, null)", "null"),
        ],
        arity: (1, 64),
        bind: |args| extreme(args, Ordering::Greater),
    },
    Function {
        name: "least",
        signature: "least(value, ...) -> common type",
        doc: "The least of the values, in the type they have in common; null if one of them is null.",
        examples: &[("least(3, 1, 2)", "1"), ("least(1.5m, 2)", "1.5m"), ("least('a', null)", "null")],
        arity: (1, 64),
        bind: |args| extreme(args, Ordering::Less),
    },
    Function {
        name: "max",
        signature: "max(value, ...) -> common type",
        doc: "The same as `greatest`: of one row, not of a group.",
        examples: &[("max(1, 3, 2)", "3")],
        arity: (1, 64),
        bind: |args| extreme(args, Ordering::Greater),
    },
    Function {
        name: "min",
        signature: "min(value, ...) -> common type",
        doc: "The same as `least`: of one row, not of a group.",
        examples: &[("min(1, 3, 2)", "1")],
        arity: (1, 64),
        bind: |args| extreme(args, Ordering::Less),
    },
    Function {
        name: "clamp",
        signature: "clamp(value, least, greatest) -> common type",
        doc: "The value, or the nearer of two bounds if it lies outside them. A lower bound above the upper one makes a bad row.",
        examples: &[
            ("clamp(15, 0, 10)", "10"),
            ("clamp(-1.5, 0, 10)", "0.0"),
            ("clamp('m', 'a', 'f')", "'f'"),
            ("clamp(1, 5, 2)", "error"),
        ],
        arity: (3, 3),
        bind: |mut args| {
            let ty = ordered(&mut args)?;
            let order = order_of(&ty);
            Ok(pick(args, ty, move |row| {
                if order(row, 1, 2) == Ordering::Greater {
                    return Err("the lower bound of `clamp` is above the upper one".to_string());
                }
                Ok(match (order(row, 0, 1), order(row, 0, 2)) {
                    (Ordering::Less, _) => 1,
                    (_, Ordering::Greater) => 2,
                    _ => 0,
                })
            }))
        },
    },
    Function {
        name: "nullIf",
        signature: "nullIf(value, other) -> common type",
        doc: "Null where the two are equal, otherwise the value; the value too where `other` is null.",
        examples: &[("nullIf('-', '-')", "null"), ("nullIf(1, 2)", "1"), ("nullIf(1, null)", "1"), ("nullIf(0.0, -0.0)", "null")],
        arity: (2, 2),
        bind: |mut args| {
            let ty = ordered(&mut args)?;
            let (other, value) = (args.nodes.remove(1), args.nodes.remove(0));
            let (order, span, free) = (order_of(&ty), args.span.clone(), Node::free_slot([&other]));
            value.once(free, |value| {
                args.nodes = vec![value.clone(), other];
                let equal = args.into_bool(move |row| order(row, 0, 1) == Ordering::Equal);
                let null = Node::literal(Value::Null, ty.clone(), span.clone());
                Ok(Node::new(Kind::If(Box::new(certainly(equal)), Box::new(null), Box::new(value)), ty, span, false))
            })
        },
    },
    Function {
        name: "ifNull",
        signature: "ifNull(value, otherwise) -> common type",
        doc: "The value, or `otherwise` where it is null; the same as `value ?? otherwise`.",
        examples: &[("ifNull(null, 5)", "5"), ("ifNull('a', 'b')", "'a'")],
        arity: (2, 2),
        bind: coalesce::FUNCTION.bind,
    },
    Function {
        name: "iif",
        signature: "iif(condition, then, otherwise) -> common type",
        doc: "`then` where the condition is true, `otherwise` where it is false or null. Only the one taken is evaluated. `condition ? then : otherwise` makes a bad row of a null condition.",
        examples: &[("iif(1 < 2, 'less', 'more')", "'less'"), ("iif(null, 1, 2.5)", "2.5")],
        arity: (3, 3),
        bind: |mut args| {
            if !matches!(args.class(0), Class::Bool | Class::Null) {
                return Err(args.wrong(0, "a bool"));
            }
            let ty = args.common(1)?;
            let (otherwise, then, condition) = (args.nodes.remove(2), args.nodes.remove(1), args.nodes.remove(0));
            let certain = certainly(convert(condition, &DataType::Boolean));
            Ok(Node::new(Kind::If(Box::new(certain), Box::new(then), Box::new(otherwise)), ty, args.span, false))
        },
    },
    Function {
        name: "xor",
        signature: "xor(a, b) -> bool",
        doc: "Whether just one of two bools is true.",
        examples: &[("xor(true, false)", "true"), ("xor(true, true)", "false"), ("xor(true, null)", "null")],
        arity: (2, 2),
        bind: |mut args| {
            args.take(&[Shape::Bool])?;
            Ok(args.into_bool(|row| row.bool(0) ^ row.bool(1)))
        },
    },
];

/// Brings the arguments to one type whose values have an order, the widest of its kind.
fn ordered(args: &mut Args<'_>) -> Result<DataType, Diagnostic> {
    let ty = match args.common(0)? {
        DataType::Null => DataType::Int64,
        ty => match class(&ty) {
            Class::Signed => DataType::Int64,
            Class::Float => DataType::Float64,
            Class::Text => DataType::Utf8View,
            Class::Plain | Class::Other => return Err(args.wrong(0, ORDERED)),
            _ => ty,
        },
    };
    for at in 0..args.len() {
        args.convert(at, &ty);
    }
    Ok(ty)
}

/// A condition that is false where it is null.
fn certainly(condition: Node) -> Node {
    let span = condition.span.clone();
    let otherwise = Node::literal(Value::Bool(false), DataType::Boolean, span.clone());
    Node::new(Kind::Coalesce(vec![condition, otherwise]), DataType::Boolean, span, false)
}

type Compare = fn(In<'_>, usize, usize) -> Ordering;

/// How two arguments of that type are ordered.
fn order_of(ty: &DataType) -> Compare {
    match class(ty) {
        Class::Float => |row, a, b| compare_floats(row.float(a), row.float(b)),
        Class::Text => |row, a, b| row.text(a).as_bytes().cmp(row.text(b).as_bytes()),
        Class::Bool => |row, a, b| row.bool(a).cmp(&row.bool(b)),
        _ => |row, a, b| row.wide(a).cmp(&row.wide(b)),
    }
}

fn extreme(mut args: Args<'_>, wanted: Ordering) -> Result<Node, Diagnostic> {
    let ty = ordered(&mut args)?;
    let order = order_of(&ty);
    let best = move |row: In<'_>| (1..row.len()).fold(0, |best, at| if order(row, at, best) == wanted { at } else { best });
    Ok(pick(args, ty, best))
}

/// The call whose value is the argument at the place that `place` names.
fn pick<O: super::answers::IntoAnswer<usize> + 'static>(
    args: Args<'_>,
    ty: DataType,
    place: impl Fn(In<'_>) -> O + Send + Sync + Clone + 'static,
) -> Node {
    let at = move |row: In<'_>| Ok(place(row).answer()?.unwrap_or(0));
    let certain = !O::FAILS;
    match class(&ty) {
        Class::Float if certain => args.into_float(move |row| at(row).map_or(0.0, |at: usize| row.float(at))),
        Class::Float => args.into_float(move |row| at(row).map(|at: usize| row.float(at))),
        Class::Text if certain => args.into_part(move |row| at(row).ok().map(|at: usize| row.text(at))),
        Class::Text => args.into_text(move |row, out| at(row).map(|at: usize| out.push_str(row.text(at)))),
        Class::Bool if certain => args.into_bool(move |row| at(row).is_ok_and(|at: usize| row.bool(at))),
        Class::Bool => args.into_bool(move |row| at(row).map(|at: usize| row.bool(at))),
        Class::Timestamp(..) | Class::Date if certain => args.into_time(ty, move |row| at(row).map_or(0, |at: usize| row.int(at))),
        Class::Timestamp(..) | Class::Date => args.into_time(ty, move |row| at(row).map(|at: usize| row.int(at))),
        _ if certain => args.into_wide(ty, move |row| at(row).map_or(0, |at: usize| row.wide(at))),
        _ => args.into_wide(ty, move |row| at(row).map(|at: usize| row.wide(at))),
    }
}

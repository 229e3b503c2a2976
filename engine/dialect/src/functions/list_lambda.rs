//! The functions that take a lambda, and `try`. The binder binds their arguments itself: see `binder/lambda.rs`.

use super::{Args, Function};
use crate::Diagnostic;
use crate::node::Node;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "map",
        signature: "map(list, x -> value) -> list",
        doc: "The value of the lambda for each element; `(x, i) -> …` has the position, from 0, as well. An element that fails makes its row bad.",
        examples: &[
            ("map([1, 2, 3], x -> x * 10)", "[10, 20, 30]"),
            ("map(['a', 'b'], (x, i) -> concat(x, i))", "['a0', 'b1']"),
            ("map([1, null], x -> x ?? 0)", "[1, 0]"),
            ("map([[1, 2], [3]], l -> map(l, x -> x + size(l)))", "[[3, 4], [4]]"),
            ("map([1, 0], x -> 1 % x)", "error"),
            ("map(null, x -> 1)", "null"),
        ],
        arity: (2, 2),
        bind: elsewhere,
    },
    Function {
        name: "filter",
        signature: "filter(list, x -> bool) -> list",
        doc: "The elements for which the lambda is true; null is not true. The lambda may take the position too.",
        examples: &[
            ("filter([1, 5, 3], x -> x > 2)", "[5, 3]"),
            ("filter([1, null], x -> x > 0)", "[1]"),
            ("filter([5, 6, 7], (x, i) -> i != 1)", "[5, 7]"),
        ],
        arity: (2, 2),
        bind: elsewhere,
    },
    Function {
        name: "any",
        signature: "any(list, x -> bool) -> bool",
        doc: "Whether the lambda is true for one element; false for an empty list. Null if it is true for none and null for one. Every element is evaluated.",
        examples: &[("any([1, 5], x -> x > 2)", "true"), ("any([], x -> true)", "false"), ("any([1, null], x -> x > 2)", "null")],
        arity: (2, 2),
        bind: elsewhere,
    },
    Function {
        name: "all",
        signature: "all(list, x -> bool) -> bool",
        doc: "Whether the lambda is true for every element; true for an empty list. Null if it is false for none and null for one. Every element is evaluated.",
        examples: &[
            ("all([3, 5], x -> x > 2)", "true"),
            ("all([], x -> false)", "true"),
            ("all([1, null], x -> x > 2)", "false"),
            ("all([3, null], x -> x > 2)", "null"),
        ],
        arity: (2, 2),
        bind: elsewhere,
    },
    Function {
        name: "sortBy",
        signature: "sortBy(list, x -> key) -> list",
        doc: "The elements in ascending order of the lambda's values, nulls last, equal ones in the order they had.",
        examples: &[
            ("sortBy(['ccc', 'a', 'bb'], x -> length(x))", "['a', 'bb', 'ccc']"),
            ("sortBy([1, 2, 3, 4], x -> x % 2)", "[2, 4, 1, 3]"),
            ("sortBy([3, 1, 2], x -> -x)", "[3, 2, 1]"),
        ],
        arity: (2, 2),
        bind: elsewhere,
    },
    Function {
        name: "reduce",
        signature: "reduce(list, start, (sum, x) -> value) -> type of start",
        doc: "What the lambda makes of the start value and the first element, of that and the second, and so on; the start value for an empty list. The lambda gives the type of the start value: int64 for integers, float64 for floats, a decimal of 38 digits for decimals.",
        examples: &[
            ("reduce([1, 2, 3], 0, (sum, x) -> sum + x)", "6"),
            ("reduce(['a', 'b'], '', (sum, x) -> x + sum)", "'ba'"),
            ("reduce([], 1, (sum, x) -> 2)", "1"),
            ("reduce([1.5m, 2.5m], 0.0m, (sum, x) -> sum + x)", "4.0m"),
            ("reduce(null, 1, (sum, x) -> 2)", "null"),
        ],
        arity: (3, 3),
        bind: elsewhere,
    },
    Function {
        name: "try",
        signature: "try(value) -> type of value",
        doc: "The value, or null where it makes a bad row. It is the only function that answers a failure with a value; use `try(…) ?? other` for another one.",
        examples: &[
            ("try(toInt('12'))", "12"),
            ("try(toInt('x'))", "null"),
            ("try(1 / 0)", "null"),
            ("try(toInt('x')) ?? -1", "-1"),
            ("map(['1', 'x'], x -> try(toInt(x)))", "[1, null]"),
        ],
        arity: (1, 1),
        bind: elsewhere,
    },
];

/// Never called: the binder knows these by name before it binds their arguments.
fn elsewhere(args: Args<'_>) -> Result<Node, Diagnostic> {
    Err(args.refuse(0, "expected a lambda"))
}

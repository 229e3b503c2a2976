//! Lists under the names that begin with `array`

use super::list_kernels::listed;
use super::{Args, Function, list_make, list_order, list_parts, list_sum};
use crate::Diagnostic;
use crate::binder::same_or_null;
use crate::node::{Each, Form, Kind, Node};
use arrow::datatypes::DataType;
use std::cmp::Ordering;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "arrayContains",
        signature: "arrayContains(list, value) -> bool",
        doc: "Whether one of the elements equals the value; a null value equals a null element, which it does not for `contains`. Null for a null list.",
        examples: &[
            ("arrayContains([1, 2.5], 1)", "true"),
            ("arrayContains(['a', 'b'], 'c')", "false"),
            ("arrayContains([1, null], null)", "true"),
            ("arrayContains([1, 2], null)", "false"),
            ("arrayContains([1, null], 2)", "false"),
            ("arrayContains(null, 1)", "null"),
        ],
        arity: (2, 2),
        bind: contains,
    },
    Function {
        name: "arrayJoin",
        signature: "arrayJoin(list of text, separator) -> string",
        doc: "The same as `join`, with the separator always written: null elements are left out. More than 16 MiB make a bad row.",
        examples: &[("arrayJoin(['a', null, 'b'], '-')", "'a-b'"), ("arrayJoin([], '-')", "''"), ("arrayJoin(['a'], null)", "null")],
        arity: (2, 2),
        bind: list_make::join,
    },
    Function {
        name: "arrayMax",
        signature: "arrayMax(list) -> element",
        doc: "The same as `listMax`: the largest element that is not null; null if there is none.",
        examples: &[("arrayMax([3, null, 7])", "7"), ("arrayMax([null])", "null")],
        arity: (1, 1),
        bind: |args| list_order::extreme(args, Ordering::Greater),
    },
    Function {
        name: "arrayMin",
        signature: "arrayMin(list) -> element",
        doc: "The same as `listMin`: the smallest element that is not null; null if there is none.",
        examples: &[("arrayMin([3, null, 7])", "3"), ("arrayMin([])", "null")],
        arity: (1, 1),
        bind: |args| list_order::extreme(args, Ordering::Less),
    },
    Function {
        name: "arrayReverse",
        signature: "arrayReverse(list) -> list",
        doc: "The elements from the last to the first, as `reverse` has them; it takes lists only.",
        examples: &[("arrayReverse([1, null, 3])", "[3, null, 1]"), ("arrayReverse([])", "[]")],
        arity: (1, 1),
        bind: |mut args| {
            listed(&mut args, 0)?;
            list_parts::reverse(args)
        },
    },
    Function {
        name: "arraySum",
        signature: "arraySum(list of numbers) -> number",
        doc: "The same as `listSum`: the sum of the elements that are not null, 0 if there are none. Overflow makes a bad row.",
        examples: &[
            ("arraySum([1, null, 2])", "3"),
            ("arraySum([0.5, 1])", "1.5"),
            ("arraySum([])", "0"),
            ("arraySum([9223372036854775807, 1])", "error"),
        ],
        arity: (1, 1),
        bind: list_sum::sum,
    },
];

fn contains(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    let item = listed(&mut args, 0)?;
    let (source, span) = (args.source(), args.span.clone());
    let (value, list) = (args.nodes.remove(1), args.nodes.remove(0));
    value.once(Node::free_slot([&list]), |value| {
        let slot = Node::free_slot([&list, &value]);
        let element = Node::param(slot, item, span.clone());
        let body = Box::new(same_or_null(source, element, value, span.clone())?);
        let each = Each { form: Form::Any, slot, args: vec![list], body };
        Ok(Node::new(Kind::Each(each), DataType::Boolean, span, false))
    })
}

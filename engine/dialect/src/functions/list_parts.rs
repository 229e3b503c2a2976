//! Parts of lists: `first`, `last`, `slice`, `reverse`, `size`, `flatten`

use super::kernels::Integers;
use super::list_kernels::{gather, listed, missing, pick_one};
use super::{Args, Function};
use crate::compile::flat::{Flat, lists};
use crate::node::Node;
use crate::types::{Class, item_of};
use crate::value::Value;
use crate::{Diagnostic, types};
use arrow::array::Int64Array;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "first",
        signature: "first(list) -> element",
        doc: "The first element, which may be null; null for an empty list. The same as `list[0]`.",
        examples: &[("first([3, 1, 2])", "3"), ("first([])", "null"), ("first([null, 1])", "null")],
        arity: (1, 1),
        bind: |mut args| {
            let item = listed(&mut args, 0)?;
            let row = |args: &[Value]| Ok(args[0].list().first().cloned().unwrap_or(Value::Null));
            let kernel = |args: &[ColumnarValue], rows: usize| pick_one(&Flat::of(&args[0], rows)?, |mut range| range.next());
            Ok(args.call(item, false, row, Some(Arc::new(kernel))))
        },
    },
    Function {
        name: "last",
        signature: "last(list) -> element",
        doc: "The last element, which may be null; null for an empty list.",
        examples: &[("last([3, 1, 2])", "2"), ("last([])", "null")],
        arity: (1, 1),
        bind: |mut args| {
            let item = listed(&mut args, 0)?;
            let row = |args: &[Value]| Ok(args[0].list().last().cloned().unwrap_or(Value::Null));
            let kernel = |args: &[ColumnarValue], rows: usize| pick_one(&Flat::of(&args[0], rows)?, |mut range| range.next_back());
            Ok(args.call(item, false, row, Some(Arc::new(kernel))))
        },
    },
    Function {
        name: "size",
        signature: "size(list) -> int64",
        doc: "The number of elements, nulls included.",
        examples: &[("size([3, null, 2])", "3"), ("size([])", "0"), ("size(null)", "null")],
        arity: (1, 1),
        bind: size,
    },
    Function {
        name: "slice",
        signature: "slice(list, start, count?) -> list",
        doc: "The elements from position `start` (the first is 0), at most `count` of them. Positions outside the list hold nothing; a negative count gives the empty list.",
        examples: &[
            ("slice([1, 2, 3, 4], 1, 2)", "[2, 3]"),
            ("slice([1, 2, 3], 1)", "[2, 3]"),
            ("slice([1, 2, 3], -1, 2)", "[1]"),
            ("slice([1, 2, 3], 7)", "[]"),
            ("slice([1, 2, 3], 0, -1)", "[]"),
        ],
        arity: (2, 3),
        bind: slice,
    },
    Function {
        name: "reverse",
        signature: "reverse(list or text) -> list or text",
        doc: "The elements of a list, or the characters (code points) of a text, from the last to the first.",
        examples: &[("reverse([1, 2, 3])", "[3, 2, 1]"), ("reverse('Größe')", "'eßörG'"), ("reverse(null)", "null")],
        arity: (1, 1),
        bind: reverse,
    },
    Function {
        name: "flatten",
        signature: "flatten(list of lists) -> list",
        doc: "The elements of the inner lists, one after the other. An inner list that is null has none.",
        examples: &[
            ("flatten([[1, 2], [], [3]])", "[1, 2, 3]"),
            ("flatten([[1], null])", "[1]"),
            ("flatten([[[1]], [[2]]])", "[[1], [2]]"),
        ],
        arity: (1, 1),
        bind: flatten,
    },
];

pub(super) fn size(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    listed(&mut args, 0)?;
    let row = |args: &[Value]| Ok(Value::Int(args[0].list().len() as i128));
    let kernel = |args: &[ColumnarValue], rows: usize| {
        let flat = Flat::of(&args[0], rows)?;
        let sizes: Vec<i64> = (0..rows).map(|row| flat.range(row).len() as i64).collect();
        Ok(ColumnarValue::Array(Arc::new(Int64Array::new(sizes.into(), flat.nulls))))
    };
    Ok(args.call(DataType::Int64, false, row, Some(Arc::new(kernel))))
}

/// The positions of a list of `length` that `slice` keeps.
fn window(length: usize, start: i64, count: Option<i64>) -> std::ops::Range<usize> {
    let (length, start) = (length as i128, i128::from(start));
    let end = count.map_or(length, |count| (start + i128::from(count.max(0))).clamp(0, length));
    let start = start.clamp(0, length);
    start as usize..end.max(start) as usize
}

fn slice(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    listed(&mut args, 0)?;
    (1..args.len()).try_for_each(|at| args.integer(at))?;
    let ty = args.ty(0).clone();
    let row = |args: &[Value]| {
        let count = args.get(2).map(|count| count.integer() as i64);
        let list = args[0].list();
        Ok(Value::List(list[window(list.len(), args[1].integer() as i64, count)].to_vec()))
    };
    let result = ty.clone();
    let kernel = move |args: &[ColumnarValue], rows: usize| {
        let flat = Flat::of(&args[0], rows)?;
        let (starts, counts) = (Integers::of(&args[1])?, args.get(2).map(Integers::of).transpose()?);
        gather(&flat.elements, rows, missing(args), &ty, |row, places| {
            let range = flat.range(row);
            let count = counts.as_ref().and_then(|counts| counts.get(row));
            let kept = window(range.len(), starts.get(row).unwrap_or_default(), count);
            places.extend((range.start + kept.start) as u64..(range.start + kept.end) as u64);
        })
    };
    Ok(args.call(result, false, row, Some(Arc::new(kernel))))
}

pub(super) fn reverse(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    if matches!(args.class(0), Class::Text | Class::Null) {
        args.text(0)?;
        let row = |args: &[Value]| Ok(Value::Text(args[0].text().chars().rev().collect()));
        let kernel = super::kernels::text_to_text(|text, out| out.extend(text.chars().rev()));
        return Ok(args.call(DataType::Utf8View, false, row, Some(kernel)));
    }
    if item_of(args.ty(0)).is_none() {
        return Err(args.wrong(0, "a list or text"));
    }
    let ty = args.ty(0).clone();
    let row = |args: &[Value]| Ok(Value::List(args[0].list().iter().rev().cloned().collect()));
    let result = ty.clone();
    let kernel = move |args: &[ColumnarValue], rows: usize| {
        let flat = Flat::of(&args[0], rows)?;
        gather(&flat.elements, rows, flat.nulls.clone(), &ty, |row, places| {
            places.extend(flat.range(row).rev().map(|at| at as u64));
        })
    };
    Ok(args.call(result, false, row, Some(Arc::new(kernel))))
}

fn flatten(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    let inner = listed(&mut args, 0)?;
    let ty = match inner {
        DataType::List(_) => inner,
        DataType::Null => {
            let nested = types::list_of(types::list_of(DataType::Null));
            args.convert(0, &nested);
            types::list_of(DataType::Null)
        }
        _ => return Err(args.wrong(0, "a list of lists")),
    };
    let row = |args: &[Value]| Ok(Value::List(args[0].list().iter().flat_map(Value::list).cloned().collect()));
    let result = ty.clone();
    let kernel = move |args: &[ColumnarValue], rows: usize| -> Result<ColumnarValue> {
        let outer = Flat::of(&args[0], rows)?;
        let inner = Flat::of_array(&outer.elements)?;
        let offsets: Vec<i32> = outer.offsets.iter().map(|offset| inner.offsets[*offset as usize]).collect();
        Ok(ColumnarValue::Array(lists(OffsetBuffer::new(offsets.into()), inner.elements, outer.nulls, &ty)?))
    };
    Ok(args.call(result, false, row, Some(Arc::new(kernel))))
}

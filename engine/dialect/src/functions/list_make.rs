//! Lists out of something else, and text out of lists: `listOf`, `range`, `split`, `join`, `zip`, and `concat` of lists

use super::kernels::{Integers, Texts};
use super::list_kernels::{gather, listed, missing};
use super::rows::room;
use super::{Args, Function};
use crate::Diagnostic;
use crate::binder::convert;
use crate::compile::flat::{Flat, lists};
use crate::node::{Kind, Node};
use crate::types::{self, Class, class, list_of, object_of};
use crate::value::Value;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray, StringViewBuilder, StructArray, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat, take};
use arrow::datatypes::DataType;
use datafusion_common::{Result, exec_datafusion_err, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

/// The most elements that `range` makes.
const MOST: i128 = 1_000_000;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "listOf",
        signature: "listOf(value, ...) -> list",
        doc: "A list of the values, in the type they have in common; the same as `[a, b]`.",
        examples: &[("listOf(1, 2)", "[1, 2]"), ("listOf('a', null)", "['a', null]"), ("listOf()", "[]")],
        arity: (0, 1_000),
        bind: |mut args| {
            let mut ty = DataType::Null;
            for at in 0..args.len() {
                ty = types::common(&ty, args.ty(at)).ok_or_else(|| {
                    let (known, found) = (types::name(&ty), types::name(args.ty(at)));
                    args.refuse(at, format!("the elements of the list have no type in common: {known} and {found}"))
                })?;
            }
            let items = std::mem::take(&mut args.nodes).into_iter().map(|node| convert(node, &ty)).collect();
            Ok(Node::new(Kind::List(items), list_of(ty), args.span, false))
        },
    },
    Function {
        name: "range",
        signature: "range(from, to, step?) -> list<int64>",
        doc: "The integers from `from` to `to`, both included, in steps of 1 or of `step`, which may be negative. A step of 0 and more than 1,000,000 elements make a bad row.",
        examples: &[
            ("range(1, 4)", "[1, 2, 3, 4]"),
            ("range(5, 1, -2)", "[5, 3, 1]"),
            ("range(2, 1)", "[]"),
            ("range(1, 2, 0)", "error"),
            ("range(1, 2000000)", "error"),
        ],
        arity: (2, 3),
        bind: range,
    },
    Function {
        name: "split",
        signature: "split(text, separator) -> list<string>",
        doc: "The parts of the text between the separators. An empty separator cuts nothing.",
        examples: &[
            ("split('a,b,,c', ',')", "['a', 'b', '', 'c']"),
            ("split('', ',')", "['']"),
            ("split('abc', '')", "['abc']"),
            ("split(null, ',')", "null"),
        ],
        arity: (2, 2),
        bind: split,
    },
    Function {
        name: "join",
        signature: "join(list of text, separator?) -> string",
        doc: "The texts one after the other with the separator (by default none) between them; nulls are left out. More than 16 MiB make a bad row. Other values are written with `map(list, x -> toString(x))`.",
        examples: &[
            ("join(['a', 'b', 'c'], '-')", "'a-b-c'"),
            ("join(['a', null, 'b'], ',')", "'a,b'"),
            ("join([], ',')", "''"),
            ("join(['a', 'b'])", "'ab'"),
        ],
        arity: (1, 2),
        bind: join,
    },
    Function {
        name: "concatWs",
        signature: "concatWs(separator, value, ...) -> string",
        doc: "The values with the separator between them; null values are left out, what is not text is written as `toString` does. Null for a null separator. More than 16 MiB make a bad row.",
        examples: &[
            ("concatWs('-', 'a', null, 'b')", "'a-b'"),
            ("concatWs(', ', 'id', 7)", "'id, 7'"),
            ("concatWs('-', null)", "''"),
            ("concatWs(null, 'a', 'b')", "null"),
        ],
        arity: (2, 64),
        bind: join_values,
    },
    Function {
        name: "zip",
        signature: "zip(list, list) -> list<struct<first, second>>",
        doc: "The pairs of the elements at the same positions, as objects `{first: …, second: …}`; what the longer list has more is left out.",
        examples: &[
            ("zip([1, 2], ['a', 'b', 'c'])", "[{first: 1, second: 'a'}, {first: 2, second: 'b'}]"),
            ("map(zip([1, 2], [3, 4]), p -> p.first * p.second)", "[3, 8]"),
        ],
        arity: (2, 2),
        bind: zip,
    },
];

/// The number of elements of a range.
fn count(from: i64, to: i64, step: i64) -> std::result::Result<i128, String> {
    if step == 0 {
        return Err("the step of `range` is 0".to_string());
    }
    let distance = if step > 0 { i128::from(to) - i128::from(from) } else { i128::from(from) - i128::from(to) };
    let count = (distance.div_euclid(i128::from(step).abs()) + 1).max(0);
    if count > MOST { Err(format!("the range has {count} elements, at most {MOST} are made")) } else { Ok(count) }
}

fn range(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    (0..args.len()).try_for_each(|at| args.integer(at))?;
    let row = |args: &[Value]| {
        let [from, to] = [0, 1].map(|at| args[at].integer() as i64);
        let step = args.get(2).map_or(1, |step| step.integer() as i64);
        let count = count(from, to, step)?;
        Ok(Value::List((0..count).map(|at| Value::Int(i128::from(from) + at * i128::from(step))).collect()))
    };
    let ty = list_of(DataType::Int64);
    let result = ty.clone();
    let kernel = move |args: &[ColumnarValue], rows: usize| {
        let (from, to, steps) = (Integers::of(&args[0])?, Integers::of(&args[1])?, args.get(2).map(Integers::of).transpose()?);
        let nulls = missing(args);
        let (mut values, mut lengths) = (Vec::new(), Vec::with_capacity(rows));
        for row in 0..rows {
            let step = steps.as_ref().map_or(Some(1), |steps| steps.get(row));
            let (Some(from), Some(to), Some(step)) = (from.get(row), to.get(row), step) else {
                lengths.push(0);
                continue;
            };
            let Ok(count) = count(from, to, step) else {
                return exec_err!("a row failed");
            };
            // Two long lists are enough to be better off row by row.
            if rows > 1 && values.len() as i128 + count > 4 * MOST {
                return exec_err!("too many elements for one batch");
            }
            // What lies between the ends fits in int64, but the distance to it may not.
            values.extend((0..count as i64).map(|at| from.wrapping_add(at.wrapping_mul(step))));
            lengths.push(count as usize);
        }
        Ok(ColumnarValue::Array(lists(OffsetBuffer::from_lengths(lengths), Arc::new(Int64Array::from(values)), nulls, &ty)?))
    };
    Ok(args.call(result, true, row, Some(Arc::new(kernel))))
}

/// The parts of a text.
fn parts<'a>(text: &'a str, separator: &'a str) -> impl Iterator<Item = &'a str> {
    let whole = separator.is_empty().then_some(text);
    let cut = if separator.is_empty() { None } else { Some(text.split(separator)) };
    whole.into_iter().chain(cut.into_iter().flatten())
}

fn split(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    args.text(0)?;
    args.text(1)?;
    let row = |args: &[Value]| Ok(Value::List(parts(args[0].text(), args[1].text()).map(|part| Value::Text(part.to_string())).collect()));
    let ty = list_of(DataType::Utf8View);
    let result = ty.clone();
    let kernel = move |args: &[ColumnarValue], rows: usize| {
        let (texts, separators) = (Texts::of(&args[0])?, Texts::of(&args[1])?);
        let (mut builder, mut lengths) = (StringViewBuilder::new(), Vec::with_capacity(rows));
        for row in 0..rows {
            let mut length = 0;
            if let (Some(text), Some(separator)) = (texts.get(row), separators.get(row)) {
                for part in parts(text, separator) {
                    builder.append_value(part);
                    length += 1;
                }
            }
            lengths.push(length);
        }
        let elements: ArrayRef = Arc::new(builder.finish());
        Ok(ColumnarValue::Array(lists(OffsetBuffer::from_lengths(lengths), elements, missing(args), &ty)?))
    };
    Ok(args.call(result, false, row, Some(Arc::new(kernel))))
}

pub(super) fn join(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    match class(&listed(&mut args, 0)?) {
        Class::Text => {}
        Class::Null => args.convert(0, &list_of(DataType::Utf8View)),
        _ => return Err(args.wrong(0, "a list of text")),
    }
    if args.len() > 1 {
        args.text(1)?;
    }
    let row = |args: &[Value]| {
        let separator = args.get(1).map_or("", Value::text);
        let texts: Vec<&str> = args[0].list().iter().filter(|text| !text.is_null()).map(Value::text).collect();
        let between = separator.len().saturating_mul(texts.len().saturating_sub(1));
        room(texts.iter().map(|text| text.len()).sum::<usize>().saturating_add(between))?;
        Ok(Value::Text(texts.join(separator)))
    };
    let kernel = |args: &[ColumnarValue], rows: usize| {
        let flat = Flat::of(&args[0], rows)?;
        let Some(texts) = flat.elements.as_string_view_opt() else {
            return exec_err!("expected text, found {}", flat.elements.data_type());
        };
        let separators = args.get(1).map(Texts::of).transpose()?;
        let mut builder = StringViewBuilder::with_capacity(rows);
        let mut buffer = String::new();
        for row in 0..rows {
            let separator = separators.as_ref().map_or(Some(""), |separators| separators.get(row));
            let Some(separator) = separator.filter(|_| !flat.is_null(row)) else {
                builder.append_null();
                continue;
            };
            buffer.clear();
            for (nth, at) in flat.range(row).filter(|at| texts.is_valid(*at)).enumerate() {
                if nth > 0 {
                    buffer.push_str(separator);
                }
                buffer.push_str(texts.value(at));
                // The separator is as long as the row likes, and there is one for each element.
                room(buffer.len()).map_err(|message| exec_datafusion_err!("{message}"))?;
            }
            builder.append_value(&buffer);
        }
        let joined: StringViewArray = builder.finish();
        Ok(ColumnarValue::Array(Arc::new(joined)))
    };
    Ok(args.call(DataType::Utf8View, true, row, Some(Arc::new(kernel))))
}

/// The texts behind the separator as one list, joined: what is null is left out.
fn join_values(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    args.text(0)?;
    for at in 1..args.len() {
        if args.class(at) != Class::Text {
            args.nodes[at] = super::to_string::written(&args, at)?;
        }
        args.text(at)?;
    }
    let texts = args.nodes.split_off(1);
    let list = Node::new(Kind::List(texts), list_of(DataType::Utf8View), args.span.clone(), false);
    args.nodes.insert(0, list);
    join(args)
}

fn zip(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    let (first, second) = (listed(&mut args, 0)?, listed(&mut args, 1)?);
    let pair = object_of(vec![("first".to_string(), first), ("second".to_string(), second)]);
    let ty = list_of(pair.clone());
    let row = |args: &[Value]| {
        let pairs = args[0].list().iter().zip(args[1].list());
        Ok(Value::List(pairs.map(|(a, b)| Value::Object(vec![a.clone(), b.clone()])).collect()))
    };
    let result = ty.clone();
    let kernel = move |args: &[ColumnarValue], rows: usize| -> Result<ColumnarValue> {
        let (left, right) = (Flat::of(&args[0], rows)?, Flat::of(&args[1], rows)?);
        let nulls = missing(args);
        let (mut a, mut b, mut lengths) = (Vec::new(), Vec::new(), Vec::with_capacity(rows));
        for row in 0..rows {
            let present = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
            let length = if present { left.range(row).len().min(right.range(row).len()) } else { 0 };
            a.extend(left.range(row).take(length).map(|at| at as u64));
            b.extend(right.range(row).take(length).map(|at| at as u64));
            lengths.push(length);
        }
        let DataType::Struct(fields) = &pair else {
            return exec_err!("expected a struct type, found {pair}");
        };
        let count = a.len();
        let columns = vec![take(&left.elements, &UInt64Array::from(a), None)?, take(&right.elements, &UInt64Array::from(b), None)?];
        let pairs: ArrayRef = Arc::new(StructArray::try_new_with_length(fields.clone(), columns, None, count)?);
        Ok(ColumnarValue::Array(lists(OffsetBuffer::from_lengths(lengths), pairs, nulls, &ty)?))
    };
    Ok(args.call(result, false, row, Some(Arc::new(kernel))))
}

/// Refuses a list that is joined of too many elements.
fn fits(elements: usize) -> std::result::Result<(), String> {
    let count = elements as i128;
    if count > MOST { Err(format!("the list has {count} elements, at most {MOST} are made")) } else { Ok(()) }
}

/// `concat` of lists: their elements one after the other.
pub(super) fn join_lists(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    let mut ty = list_of(DataType::Null);
    for at in 0..args.len() {
        listed(&mut args, at)?;
        ty = types::common(&ty, args.ty(at)).ok_or_else(|| {
            let (known, found) = (types::name(&ty), types::name(args.ty(at)));
            args.refuse(at, format!("the lists have no type in common: {known} and {found}"))
        })?;
    }
    (0..args.len()).for_each(|at| args.convert(at, &ty));
    let row = |args: &[Value]| {
        fits(args.iter().map(|arg| arg.list().len()).sum())?;
        Ok(Value::List(args.iter().flat_map(Value::list).cloned().collect()))
    };
    let result = ty.clone();
    let kernel = move |args: &[ColumnarValue], rows: usize| {
        let flats = args.iter().map(|arg| Flat::of(arg, rows)).collect::<Result<Vec<_>>>()?;
        let elements: Vec<&dyn Array> = flats.iter().map(|flat| flat.elements.as_ref()).collect();
        let mut starts = vec![0];
        for flat in &flats {
            starts.push(starts[starts.len() - 1] + flat.elements.len());
        }
        for row in 0..rows {
            fits(flats.iter().map(|flat| flat.range(row).len()).sum()).map_err(|message| exec_datafusion_err!("{message}"))?;
        }
        gather(&concat(&elements)?, rows, missing(args), &ty, |row, places| {
            for (flat, start) in flats.iter().zip(&starts) {
                places.extend(flat.range(row).map(|at| (start + at) as u64));
            }
        })
    };
    Ok(args.call(result, true, row, Some(Arc::new(kernel))))
}

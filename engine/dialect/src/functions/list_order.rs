//! Lists by the values of their elements: `sort`, `distinct`, `listMin`, `listMax`

use super::list_kernels::{gather, listed, pick_one};
use super::{Args, Function};
use crate::Diagnostic;
use crate::compile::flat::Flat;
use crate::node::Node;
use crate::reference::order_of_one_type;
use crate::types::{Class, class};
use crate::value::Value;
use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Float64Array, StructArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion_common::Result;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "sort",
        signature: "sort(list) -> list",
        doc: "The elements in ascending order, nulls last, equal ones in the order they had. `reverse(sort(list))` is the descending order, `sortBy` takes another key.",
        examples: &[
            ("sort([3, 1, 2])", "[1, 2, 3]"),
            ("sort(['b', null, 'B', 'a'])", "['B', 'a', 'b', null]"),
            ("sort([1.5, 0.0 / 0.0, -1.0])", "[-1.0, 1.5, 0.0 / 0.0]"),
        ],
        arity: (1, 1),
        bind: sort,
    },
    Function {
        name: "distinct",
        signature: "distinct(list) -> list",
        doc: "The elements without those that stand in the list before; null is one value.",
        examples: &[
            ("distinct([1, 2, 1, null, null])", "[1, 2, null]"),
            ("distinct([0.0, -0.0])", "[0.0]"),
            ("distinct([[1], [1], []])", "[[1], []]"),
        ],
        arity: (1, 1),
        bind: distinct,
    },
    Function {
        name: "listMin",
        signature: "listMin(list) -> element",
        doc: "The smallest element that is not null; null if there is none.",
        examples: &[("listMin([3, null, 2])", "2"), ("listMin(['b', 'a'])", "'a'"), ("listMin([])", "null")],
        arity: (1, 1),
        bind: |args| extreme(args, Ordering::Less),
    },
    Function {
        name: "listMax",
        signature: "listMax(list) -> element",
        doc: "The largest element that is not null, NaN being larger than every other number; null if there is none.",
        examples: &[
            ("listMax([3, null, 2])", "3"),
            ("listMax([ts'2026-01-31', ts'2026-02-01'])", "ts'2026-02-01'"),
            ("listMax([])", "null"),
        ],
        arity: (1, 1),
        bind: |args| extreme(args, Ordering::Greater),
    },
];

/// Keys whose bytes are ordered as the values are, nulls last, and equal where the values are equal.
pub(crate) fn keys(values: &ArrayRef) -> Result<Rows> {
    let options = SortOptions { descending: false, nulls_first: false };
    let converter = RowConverter::new(vec![SortField::new_with_options(values.data_type().clone(), options)])?;
    Ok(converter.convert_columns(&[plain_floats(values)?])?)
}

/// Floats with one NaN and one zero, at every depth.
fn plain_floats(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::Float64 => {
            let plain: Float64Array = values.as_primitive::<Float64Type>().unary(|v| if v.is_nan() { f64::NAN } else { v + 0.0 });
            Arc::new(plain)
        }
        DataType::Float32 => {
            let plain: Float32Array = values.as_primitive::<Float32Type>().unary(|v| if v.is_nan() { f32::NAN } else { v + 0.0 });
            Arc::new(plain)
        }
        DataType::List(_) => {
            let flat = Flat::of_array(values)?;
            flat.with_elements(plain_floats(&flat.elements)?, values.data_type())?
        }
        DataType::Struct(fields) => {
            let structs = values.as_struct();
            let columns = structs.columns().iter().map(plain_floats).collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, structs.nulls().cloned(), structs.len())?)
        }
        _ => Arc::clone(values),
    })
}

/// Requires a list of elements that have an order.
fn ordered(args: &mut Args<'_>) -> std::result::Result<DataType, Diagnostic> {
    let item = listed(args, 0)?;
    match class(&item) {
        Class::Other => Err(args.wrong(0, "a list of values that have an order")),
        _ => Ok(item),
    }
}

fn sort(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    ordered(&mut args)?;
    let ty = args.ty(0).clone();
    let row = |args: &[Value]| {
        let mut sorted = args[0].list().to_vec();
        sorted.sort_by(order_of_one_type);
        Ok(Value::List(sorted))
    };
    let result = ty.clone();
    let kernel = move |args: &[ColumnarValue], rows: usize| {
        let flat = Flat::of(&args[0], rows)?;
        let keys = keys(&flat.elements)?;
        gather(&flat.elements, rows, flat.nulls.clone(), &ty, |row, places| {
            let start = places.len();
            places.extend(flat.range(row).map(|at| at as u64));
            places[start..].sort_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)));
        })
    };
    Ok(args.call(result, false, row, Some(Arc::new(kernel))))
}

fn distinct(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    let item = listed(&mut args, 0)?;
    if !has_identity(&item) {
        return Err(args.wrong(0, "a list of values that can be compared"));
    }
    let ty = args.ty(0).clone();
    let row = |args: &[Value]| {
        let mut seen = HashSet::new();
        let mut fresh = |value: &&Value| {
            let mut bytes = Vec::new();
            identity(value, &mut bytes);
            seen.insert(bytes)
        };
        Ok(Value::List(args[0].list().iter().filter(&mut fresh).cloned().collect()))
    };
    let result = ty.clone();
    let kernel = move |args: &[ColumnarValue], rows: usize| {
        let flat = Flat::of(&args[0], rows)?;
        let keys = keys(&flat.elements)?;
        let mut seen = HashSet::new();
        gather(&flat.elements, rows, flat.nulls.clone(), &ty, |row, places| {
            seen.clear();
            places.extend(flat.range(row).filter(|at| seen.insert(keys.row(*at).data())).map(|at| at as u64));
        })
    };
    Ok(args.call(result, false, row, Some(Arc::new(kernel))))
}

pub(super) fn extreme(mut args: Args<'_>, wanted: Ordering) -> std::result::Result<Node, Diagnostic> {
    let item = ordered(&mut args)?;
    let row = move |args: &[Value]| {
        let mut best: Option<&Value> = None;
        for value in args[0].list().iter().filter(|value| !value.is_null()) {
            if best.is_none_or(|best| order_of_one_type(value, best) == wanted) {
                best = Some(value);
            }
        }
        Ok(best.cloned().unwrap_or(Value::Null))
    };
    let kernel = move |args: &[ColumnarValue], rows: usize| {
        let flat = Flat::of(&args[0], rows)?;
        let keys = keys(&flat.elements)?;
        let nulls = flat.elements.logical_nulls();
        pick_one(&flat, |range| {
            let mut best: Option<usize> = None;
            for at in range.filter(|at| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*at))) {
                if best.is_none_or(|best| keys.row(at).cmp(&keys.row(best)) == wanted) {
                    best = Some(at);
                }
            }
            best
        })
    };
    Ok(args.call(item, false, row, Some(Arc::new(kernel))))
}

/// Whether values of a type have an [`identity`].
fn has_identity(ty: &DataType) -> bool {
    match ty {
        DataType::List(item) => has_identity(item.data_type()),
        DataType::Struct(fields) => fields.iter().all(|field| has_identity(field.data_type())),
        ty => class(ty) != Class::Other,
    }
}

/// Bytes that are equal for values that are equal.
fn identity(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null | Value::Nested(_) => out.push(0),
        Value::Bool(value) => out.extend([1, u8::from(*value)]),
        Value::Int(value) | Value::Decimal(value) => {
            out.push(2);
            out.extend(value.to_le_bytes());
        }
        Value::Time(value) => {
            out.push(3);
            out.extend(value.to_le_bytes());
        }
        Value::Float(value) => {
            out.push(4);
            out.extend(if value.is_nan() { f64::NAN } else { value + 0.0 }.to_le_bytes());
        }
        Value::Text(text) => bytes(text.as_bytes(), out),
        Value::Bytes(value) => bytes(value, out),
        Value::List(items) | Value::Object(items) => {
            out.push(6);
            out.extend(items.len().to_le_bytes());
            items.iter().for_each(|item| identity(item, out));
        }
    }
}

fn bytes(value: &[u8], out: &mut Vec<u8>) {
    out.push(5);
    out.extend(value.len().to_le_bytes());
    out.extend(value);
}

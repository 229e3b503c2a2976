//! What the functions of lists share.

use super::Args;
use crate::Diagnostic;
use crate::compile::flat::{Flat, lists};
use crate::types::{item_of, list_of};
use arrow::array::{ArrayRef, UInt64Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::ops::Range;

/// Requires a list and gives the type of its elements; a null is a list of nulls.
pub(crate) fn listed(args: &mut Args<'_>, at: usize) -> std::result::Result<DataType, Diagnostic> {
    if *args.ty(at) == DataType::Null {
        args.convert(at, &list_of(DataType::Null));
    }
    match item_of(args.ty(at)) {
        Some(item) => Ok(item.clone()),
        None => Err(args.wrong(at, "a list")),
    }
}

/// The rows where an argument is null; a null that is the same for all rows never reaches a kernel.
pub(crate) fn missing(args: &[ColumnarValue]) -> Option<NullBuffer> {
    args.iter().fold(None, |found, arg| match arg {
        ColumnarValue::Array(array) => NullBuffer::union(found.as_ref(), array.logical_nulls().as_ref()),
        ColumnarValue::Scalar(_) => found,
    })
}

/// Lists of the elements that `pick` names, row by row; rows in `nulls` are null and not asked.
pub(crate) fn gather(
    elements: &ArrayRef,
    rows: usize,
    nulls: Option<NullBuffer>,
    ty: &DataType,
    mut pick: impl FnMut(usize, &mut Vec<u64>),
) -> Result<ColumnarValue> {
    let (mut places, mut lengths) = (Vec::with_capacity(elements.len()), Vec::with_capacity(rows));
    for row in 0..rows {
        let before = places.len();
        if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
            pick(row, &mut places);
        }
        lengths.push(places.len() - before);
    }
    let picked = take(elements, &UInt64Array::from(places), None)?;
    Ok(ColumnarValue::Array(lists(OffsetBuffer::from_lengths(lengths), picked, nulls, ty)?))
}

/// One element for each row, or null.
pub(crate) fn pick_one(flat: &Flat, pick: impl Fn(Range<usize>) -> Option<usize>) -> Result<ColumnarValue> {
    let place = |row: usize| if flat.is_null(row) { None } else { pick(flat.range(row)).map(|at| at as u64) };
    let places: UInt64Array = (0..flat.rows()).map(place).collect();
    if flat.elements.is_empty() {
        return Ok(ColumnarValue::Array(arrow::array::new_null_array(flat.elements.data_type(), flat.rows())));
    }
    Ok(ColumnarValue::Array(take(&flat.elements, &places, None)?))
}

//! Members of structs and elements of lists over whole batches.

use super::flat::lists;
use super::sides::longs;
use crate::node::KernelFn;
use crate::types::item_of;
use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, StructArray, UInt64Array, make_array, new_empty_array, new_null_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{interleave, take};
use arrow::datatypes::DataType;
use datafusion_common::exec_err;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

/// A member, null where the struct is.
pub(super) fn member(index: usize) -> KernelFn {
    Arc::new(move |args, rows| {
        let structs = args[0].to_array(rows)?;
        let Some(structs) = structs.as_struct_opt() else {
            return exec_err!("expected a struct");
        };
        Ok(ColumnarValue::Array(member_of(structs, index)?))
    })
}

/// A member's column, null where the struct is.
pub(super) fn member_of(structs: &StructArray, index: usize) -> datafusion_common::Result<ArrayRef> {
    let column = structs.column(index);
    if *column.data_type() == DataType::Null || structs.null_count() == 0 {
        return Ok(Arc::clone(column));
    }
    let nulls = NullBuffer::union(structs.nulls(), column.nulls());
    let data = column.to_data().into_builder().nulls(nulls).build()?;
    Ok(make_array(data))
}

/// `[a, b]`: the values of each row, one after the other.
pub(super) fn list(ty: &DataType) -> KernelFn {
    let ty = ty.clone();
    Arc::new(move |args, rows| {
        let columns = args.iter().map(|arg| arg.to_array(rows)).collect::<datafusion_common::Result<Vec<_>>>()?;
        let columns: Vec<&dyn Array> = columns.iter().map(|column| column.as_ref()).collect();
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(args.len(), rows));
        let places: Vec<(usize, usize)> = (0..rows).flat_map(|row| (0..columns.len()).map(move |column| (column, row))).collect();
        let elements = match (columns.as_slice(), item_of(&ty)) {
            ([], Some(item)) => new_empty_array(item),
            (_, None) => return exec_err!("expected a list type, found {ty}"),
            // Arrow joins no columns of nulls.
            (_, Some(DataType::Null)) => new_null_array(&DataType::Null, places.len()),
            (columns, Some(_)) => interleave(columns, &places)?,
        };
        Ok(ColumnarValue::Array(lists(offsets, elements, None, &ty)?))
    })
}

/// `{a: 1}`
pub(super) fn object(ty: &DataType) -> KernelFn {
    let ty = ty.clone();
    Arc::new(move |args, rows| {
        let columns = args.iter().map(|arg| arg.to_array(rows)).collect::<datafusion_common::Result<Vec<_>>>()?;
        let DataType::Struct(fields) = &ty else {
            return exec_err!("expected a struct type, found {ty}");
        };
        Ok(ColumnarValue::Array(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, None, rows)?)))
    })
}

/// The element at a position from 0, null where there is none.
pub(super) fn index() -> KernelFn {
    Arc::new(|args, rows| {
        let lists = args[0].to_array(rows)?;
        let element = match lists.data_type() {
            DataType::LargeList(_) => elements::<i64>(&lists, &args[1], rows)?,
            DataType::List(_) => elements::<i32>(&lists, &args[1], rows)?,
            other => return exec_err!("expected a list, found {other}"),
        };
        Ok(ColumnarValue::Array(element))
    })
}

fn elements<O: OffsetSizeTrait>(lists: &ArrayRef, index: &ColumnarValue, rows: usize) -> datafusion_common::Result<ArrayRef> {
    let lists = lists.as_list::<O>();
    let positions = longs(index)?;
    let nulls = super::sides::nulls(index);
    let offsets = lists.value_offsets();
    let place = |row: usize| {
        let present = lists.is_valid(row) && nulls.is_none_or(|nulls| nulls.is_valid(row));
        let position = positions.get(row);
        let (start, end) = (offsets[row].as_usize() as i64, offsets[row + 1].as_usize() as i64);
        (present && position >= 0 && position < end - start).then(|| (start + position) as u64)
    };
    let places: UInt64Array = (0..rows).map(place).collect();
    if lists.values().is_empty() {
        return Ok(new_null_array(lists.values().data_type(), rows));
    }
    Ok(take(lists.values(), &places, None)?)
}

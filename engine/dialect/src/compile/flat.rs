//! The elements of a list column as one column of their own, each with the row it belongs to.

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::take;
use arrow::datatypes::DataType;
use datafusion_common::{Result, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

/// Elements that one batch may have at once. Beyond it the batch is halved, as one with a bad row is: a product of long lists
/// then costs time, not memory.
const MOST_ELEMENTS: usize = 1 << 22;

/// Lists without gaps: the elements of the rows that have a list, in order, and nothing else.
pub(crate) struct Flat {
    pub(crate) offsets: OffsetBuffer<i32>,
    pub(crate) elements: ArrayRef,
    pub(crate) nulls: Option<NullBuffer>,
}

impl Flat {
    /// The lists of an argument, one for each row.
    pub(crate) fn of(lists: &ColumnarValue, rows: usize) -> Result<Flat> {
        if let ColumnarValue::Scalar(scalar) = lists {
            let one = scalar.to_array()?;
            let length = one.as_list_opt::<i32>().map_or(0, |list| list.values().len());
            if rows > 1 && length.saturating_mul(rows) > MOST_ELEMENTS {
                return exec_err!("too many elements for one batch");
            }
        }
        Flat::of_array(&lists.to_array(rows)?)
    }

    pub(crate) fn of_array(lists: &ArrayRef) -> Result<Flat> {
        let Some(lists) = lists.as_list_opt::<i32>() else {
            return exec_err!("expected a list, found {}", lists.data_type());
        };
        let flat = Flat::of_list(lists)?;
        if lists.len() > 1 && flat.elements.len() > MOST_ELEMENTS {
            return exec_err!("too many elements for one batch");
        }
        Ok(flat)
    }

    fn of_list(lists: &ListArray) -> Result<Flat> {
        let nulls = lists.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let offsets = lists.offsets();
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        let hidden = nulls.as_ref().is_some_and(|nulls| (0..lists.len()).any(|row| nulls.is_null(row) && offsets[row] < offsets[row + 1]));
        if !hidden {
            let elements = lists.values().slice(first as usize, (last - first) as usize);
            let offsets = match first {
                0 => offsets.clone(),
                _ => OffsetBuffer::new(offsets.iter().map(|offset| offset - first).collect()),
            };
            return Ok(Flat { offsets, elements, nulls });
        }
        let present = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let places: UInt32Array = (0..lists.len())
            .filter(|row| present(*row))
            .flat_map(|row| offsets[row] as u32..offsets[row + 1] as u32)
            .collect::<Vec<u32>>()
            .into();
        let lengths = (0..lists.len()).map(|row| if present(row) { (offsets[row + 1] - offsets[row]) as usize } else { 0 });
        Ok(Flat { offsets: OffsetBuffer::from_lengths(lengths), elements: take(lists.values(), &places, None)?, nulls })
    }

    pub(crate) fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Where the elements of a row are.
    pub(crate) fn range(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    pub(crate) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// The row of each element.
    pub(crate) fn rows_of_elements(&self) -> UInt32Array {
        let mut rows = Vec::with_capacity(self.elements.len());
        for row in 0..self.rows() {
            rows.resize(rows.len() + self.range(row).len(), row as u32);
        }
        rows.into()
    }

    /// Lists of the type `ty` with other elements in the same places.
    pub(crate) fn with_elements(&self, elements: ArrayRef, ty: &DataType) -> Result<ArrayRef> {
        lists(self.offsets.clone(), elements, self.nulls.clone(), ty)
    }
}

/// A list array of the type `ty`.
pub(crate) fn lists(offsets: OffsetBuffer<i32>, elements: ArrayRef, nulls: Option<NullBuffer>, ty: &DataType) -> Result<ArrayRef> {
    let DataType::List(field) = ty else {
        return exec_err!("expected a list type, found {ty}");
    };
    Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, elements, nulls)?))
}

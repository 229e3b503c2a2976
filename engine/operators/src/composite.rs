//! Columns as the words of composite keys, and back.

use crate::keys::from_ints;
use crate::wide::WideTable;
use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use std::ops::Range;
use tidegate_api::{Error, Result};

/// Per row a bit for each column that is null; `None` if no row has any.
pub(crate) fn null_masks(columns: &[Int64Array]) -> Option<Vec<u8>> {
    let mut masks = None;
    for (index, column) in columns.iter().enumerate() {
        let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) else { continue };
        let masks = masks.get_or_insert_with(|| vec![0u8; column.len()]);
        for (mask, valid) in masks.iter_mut().zip(nulls.iter()) {
            *mask |= u8::from(!valid) << index;
        }
    }
    masks
}

/// Calls `each` with the number of the key of every row of `rows`.
///
/// # Errors
/// `Internal` when there are other columns than the table has words.
#[inline]
pub(crate) fn intern_wide<const N: usize>(
    table: &mut WideTable<N>,
    columns: &[ScalarBuffer<i64>],
    masks: Option<&[u8]>,
    rows: Range<usize>,
    each: impl FnMut(u32),
) -> Result<()> {
    let columns: &[ScalarBuffer<i64>; N] = columns.try_into().map_err(|_| Error::internal("keys do not fit their table"))?;
    let columns: [&[i64]; N] = columns.each_ref().map(|words| &words[rows.clone()]);
    table.intern(columns, masks.map(|masks| &masks[rows]), each);
    Ok(())
}

/// Numbers as places.
pub(crate) fn places(numbers: &[u32]) -> impl ExactSizeIterator<Item = usize> + Clone {
    numbers.iter().map(|number| *number as usize)
}

/// Some keys as columns of these types.
///
/// # Errors
/// `Internal` for types that do not fit a word.
pub(crate) fn wide_columns<const N: usize>(
    table: &WideTable<N>,
    numbers: impl ExactSizeIterator<Item = usize> + Clone,
    types: &[DataType],
) -> Result<Vec<ArrayRef>> {
    let masks: Option<Vec<u8>> = table.has_nulls().then(|| numbers.clone().map(|number| table.mask(number as u32)).collect());
    let column = |(word, data_type): (usize, &DataType)| {
        let words: Vec<i64> = numbers.clone().map(|number| table.key(number)[word]).collect();
        let nulls = masks.as_ref().map(|masks| NullBuffer::from_iter(masks.iter().map(|mask| mask >> word & 1 == 0)));
        from_ints(Int64Array::new(words.into(), nulls.filter(|nulls| nulls.null_count() > 0)), data_type)
    };
    types.iter().enumerate().map(column).collect()
}

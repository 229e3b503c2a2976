//! About how many bytes the rows of a batch take.
//!
//! Credit counts rows and bytes. Arrow's own sizes count whole buffers, which for a slice of an exchange is every target's
//! share; this counts the rows that are there, text views by a sample, and costs a few nanoseconds a column.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::DataType;

/// About how many bytes these rows take.
pub(crate) fn batch_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(column_bytes).sum()
}

fn column_bytes(column: &ArrayRef) -> usize {
    let rows = column.len();
    if let Some(width) = column.data_type().primitive_width() {
        return rows * width;
    }
    match column.data_type() {
        DataType::Null => 0,
        DataType::Boolean => rows.div_ceil(8),
        DataType::Utf8View => rows * 16 + sampled(rows, column.as_string_view().views()),
        DataType::BinaryView => rows * 16 + sampled(rows, column.as_binary_view().views()),
        DataType::Utf8 => rows * 4 + spanned(column.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => rows * 8 + spanned(column.as_string::<i64>().value_offsets()),
        DataType::Binary => rows * 4 + spanned(column.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => rows * 8 + spanned(column.as_binary::<i64>().value_offsets()),
        DataType::Struct(_) => column.as_struct().columns().iter().map(column_bytes).sum(),
        _ => column.to_data().get_slice_memory_size().unwrap_or_else(|_| column.get_array_memory_size()),
    }
}

fn spanned<O: arrow::array::OffsetSizeTrait>(offsets: &[O]) -> usize {
    match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => last.as_usize() - first.as_usize(),
        _ => 0,
    }
}

/// The bytes behind the views, reckoned from up to 64 of them. The low 32 bits of a view are its length; up to 12 bytes are inline.
fn sampled(rows: usize, views: &[u128]) -> usize {
    const SAMPLE: usize = 64;
    let stride = rows.div_ceil(SAMPLE).max(1);
    let (mut seen, mut bytes) = (0, 0);
    for view in views.iter().step_by(stride) {
        let length = *view as u32 as usize;
        seen += 1;
        bytes += if length > 12 { length } else { 0 };
    }
    (bytes * rows).checked_div(seen).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringArray, StringViewArray};
    use std::sync::Arc;

    fn bytes(column: ArrayRef) -> usize {
        batch_bytes(&RecordBatch::try_from_iter([("c", column)]).unwrap())
    }

    #[test]
    fn a_slice_counts_only_its_own_rows() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        assert_eq!(bytes(numbers.slice(10, 100)), 800);
        let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..1000).map(|_| "ten bytes!")));
        assert_eq!(bytes(text.slice(10, 100)), 1400);
    }

    #[test]
    fn views_count_the_text_behind_them() {
        let short: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..1000).map(|_| "inline")));
        assert_eq!(bytes(short), 16_000);
        let long: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..1000).map(|_| "a text of twenty-two b")));
        assert_eq!(bytes(long.slice(500, 500)), 500 * (16 + 22));
    }
}

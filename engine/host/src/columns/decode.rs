//! Rows on their way from a guest: every length, offset and bit is checked before it is used.

use super::wit;
use arrow::array::{
    ArrayData, ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, StringBuilder, make_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Decimal128Type, Field, SchemaRef};
use std::sync::Arc;

/// Rows in one answer, at most; a batch without columns costs no bytes per row.
const MAX_ROWS: usize = 16 * 1024 * 1024;

/// Makes a batch of what a guest sent. The error says what is wrong with it.
pub(crate) fn decode_columns(sent: wit::Columns, declared: &SchemaRef) -> Result<RecordBatch, String> {
    let rows = sent.rows as usize;
    if rows > MAX_ROWS {
        return Err(format!("it announces {rows} rows"));
    }
    if sent.columns.len() != declared.fields().len() {
        return Err(format!("it has {} columns, and {} are declared", sent.columns.len(), declared.fields().len()));
    }
    let columns = sent.columns.into_iter().zip(declared.fields()).map(|(column, field)| {
        let read = read(column, field, rows);
        read.map_err(|error| format!("column `{}`: {error}", field.name()))
    });
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    // Also refuses nulls where none are declared.
    RecordBatch::try_new_with_options(Arc::clone(declared), columns.collect::<Result<_, _>>()?, &options).map_err(|error| error.to_string())
}

fn read(column: wit::Column, field: &Field, rows: usize) -> Result<ArrayRef, String> {
    let wit::Column { data, offsets, validity } = column;
    let nulls =
        validity.map(|bytes| bits("validity", bytes, rows)).transpose()?.map(NullBuffer::new).filter(|nulls| nulls.null_count() > 0);
    match field.data_type() {
        DataType::Utf8 => text(data, offsets_of(offsets, rows)?, nulls),
        DataType::Binary => {
            let offsets = checked(offsets_of(offsets, rows)?, data.len())?;
            let read = BinaryArray::try_new(offsets, Buffer::from_vec(data), nulls);
            read.map(|array| Arc::new(array) as ArrayRef).map_err(|error| error.to_string())
        }
        _ if offsets.is_some() => Err("it has offsets, which only text and bytes have".into()),
        DataType::Boolean => Ok(Arc::new(BooleanArray::new(bits("data", data, rows)?, nulls))),
        fixed => {
            let width = fixed.primitive_width().ok_or_else(|| format!("`{fixed}` does not cross"))?;
            if data.len() != rows * width {
                return Err(format!("its data has {} bytes, and {rows} rows of {width} take {}", data.len(), rows * width));
            }
            let array =
                ArrayData::builder(fixed.clone()).len(rows).nulls(nulls).add_buffer(Buffer::from_vec(data)).align_buffers(true).build();
            let array = make_array(array.map_err(|error| error.to_string())?);
            if let DataType::Decimal128(precision, _) = fixed {
                let decimals = array.as_primitive::<Decimal128Type>();
                decimals.validate_decimal_precision(*precision).map_err(|error| error.to_string())?;
            }
            Ok(array)
        }
    }
}

fn bits(what: &str, bytes: Vec<u8>, rows: usize) -> Result<BooleanBuffer, String> {
    if bytes.len() != rows.div_ceil(8) {
        return Err(format!("its {what} has {} bytes, and {rows} bits take {}", bytes.len(), rows.div_ceil(8)));
    }
    Ok(BooleanBuffer::new(Buffer::from_vec(bytes), 0, rows))
}

fn offsets_of(offsets: Option<Vec<u8>>, rows: usize) -> Result<Vec<i32>, String> {
    let bytes = offsets.ok_or("it has no offsets")?;
    if bytes.len() != (rows + 1) * 4 {
        return Err(format!("its offsets have {} bytes, and {rows} rows take {}", bytes.len(), (rows + 1) * 4));
    }
    let (words, _) = bytes.as_chunks::<4>();
    Ok(words.iter().map(|word| i32::from_le_bytes(*word)).collect())
}

/// Offsets that begin in the data, never go back and end in it.
fn checked(offsets: Vec<i32>, length: usize) -> Result<OffsetBuffer<i32>, String> {
    if let Some(row) = offsets.windows(2).position(|pair| pair[0] > pair[1]) {
        return Err(format!("its offsets go back at row {row}"));
    }
    let (first, last) = (offsets.first().copied().unwrap_or(0), offsets.last().copied().unwrap_or(0));
    if first < 0 || last as usize > length {
        return Err(format!("its offsets reach from {first} to {last}, and its data has {length} bytes"));
    }
    Ok(OffsetBuffer::new(ScalarBuffer::from(offsets)))
}

fn text(data: Vec<u8>, offsets: Vec<i32>, nulls: Option<NullBuffer>) -> Result<ArrayRef, String> {
    let offsets = checked(offsets, data.len())?;
    let data = Buffer::from_vec(data);
    match (StringArray::try_new(offsets.clone(), data.clone(), nulls.clone()), nulls) {
        (Ok(array), _) => Ok(Arc::new(array)),
        (Err(error), None) => Err(error.to_string()),
        // What stands at a null is arbitrary and need not be text; the rest is looked at alone.
        (Err(_), Some(nulls)) => {
            let mut texts = StringBuilder::with_capacity(nulls.len(), data.len());
            for (row, pair) in offsets.windows(2).enumerate() {
                let value = &data.as_slice()[pair[0] as usize..pair[1] as usize];
                match (nulls.is_valid(row), std::str::from_utf8(value)) {
                    (false, _) => texts.append_null(),
                    (true, Ok(value)) => texts.append_value(value),
                    (true, Err(error)) => return Err(format!("row {row} is no UTF-8 text: {error}")),
                }
            }
            Ok(Arc::new(texts.finish()))
        }
    }
}

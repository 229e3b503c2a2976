//! Deterministic keys of output rows: the same bytes after any restart, rescale or re-batching.
//!
//! A key is a sequence of fields, each a type tag, a length in four bytes little endian, and the value. Fields are
//! appended by the operator that makes the row: a source writes split and ordinal; a window writes its bounds and the group.
//! The encoding is frozen by a fixture; `docs/keys.md` describes it for those who store keys elsewhere.

use crate::{Error, Result, SplitId};
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int64Type, UInt64Type};
use std::sync::Arc;

/// The type tags. Values are little endian; equal values of different physical types encode equally.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Tag {
    /// Null; no value.
    Null = 0,
    /// One byte, 0 or 1.
    Boolean = 1,
    /// Any integer that fits 64 bits signed, and integral floats: eight bytes.
    Integer = 2,
    /// An unsigned integer beyond the signed range: eight bytes.
    Unsigned = 3,
    /// A float that is no 64-bit integer: eight bytes, one pattern for NaN.
    Float = 4,
    /// Text: its UTF-8 bytes.
    Text = 5,
    /// Bytes.
    Binary = 6,
    /// A decimal: its unscaled value in 16 (or, beyond that, 32) bytes, then one byte of scale.
    Decimal = 7,
    /// A point in time: eight bytes of its unit's count, then one byte, the unit's power of ten below a second.
    Time = 8,
    /// A source's split: its name.
    Split = 9,
    /// A row's number within its split: eight bytes.
    Ordinal = 10,
}

/// Appends one field.
pub fn push(key: &mut Vec<u8>, tag: Tag, value: &[u8]) {
    key.push(tag as u8);
    key.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_le_bytes());
    key.extend_from_slice(value);
}

/// Appends the identity of a source's row.
pub fn push_origin(key: &mut Vec<u8>, split: &SplitId, ordinal: u64) {
    push(key, Tag::Split, split.as_str().as_bytes());
    push(key, Tag::Ordinal, &ordinal.to_le_bytes());
}

/// Appends a point in time in milliseconds, as window bounds are.
pub fn push_millis(key: &mut Vec<u8>, millis: i64) {
    push_time(key, millis, 3);
}

fn push_time(key: &mut Vec<u8>, value: i64, power: u8) {
    let mut bytes = [0; 9];
    bytes[..8].copy_from_slice(&value.to_le_bytes());
    bytes[8] = power;
    push(key, Tag::Time, &bytes);
}

fn push_float(key: &mut Vec<u8>, value: f64) {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && (-LIMIT..LIMIT).contains(&value) {
        push(key, Tag::Integer, &(value as i64).to_le_bytes());
    } else {
        let bits = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
        push(key, Tag::Float, &bits.to_le_bytes());
    }
}

/// Appends the value of `column` at `row`.
///
/// # Errors
/// `Config` if the column's type cannot be part of a key (lists, structs, maps, intervals).
pub fn push_value(key: &mut Vec<u8>, column: &dyn Array, row: usize) -> Result<()> {
    if column.is_null(row) {
        push(key, Tag::Null, &[]);
        return Ok(());
    }
    match column.data_type() {
        DataType::Null => push(key, Tag::Null, &[]),
        DataType::Boolean => push(key, Tag::Boolean, &[u8::from(column.as_boolean().value(row))]),
        DataType::UInt64 => {
            let value = column.as_primitive::<UInt64Type>().value(row);
            match i64::try_from(value) {
                Ok(signed) => push(key, Tag::Integer, &signed.to_le_bytes()),
                Err(_) => push(key, Tag::Unsigned, &value.to_le_bytes()),
            }
        }
        integer if integer.is_integer() => push(key, Tag::Integer, &widened(column, row)?.to_le_bytes()),
        DataType::Float16 => push_float(key, column.as_primitive::<Float16Type>().value(row).to_f64()),
        DataType::Float32 => push_float(key, f64::from(column.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => push_float(key, column.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => push(key, Tag::Text, column.as_string::<i32>().value(row).as_bytes()),
        DataType::LargeUtf8 => push(key, Tag::Text, column.as_string::<i64>().value(row).as_bytes()),
        DataType::Utf8View => push(key, Tag::Text, column.as_string_view().value(row).as_bytes()),
        DataType::Binary => push(key, Tag::Binary, column.as_binary::<i32>().value(row)),
        DataType::LargeBinary => push(key, Tag::Binary, column.as_binary::<i64>().value(row)),
        DataType::BinaryView => push(key, Tag::Binary, column.as_binary_view().value(row)),
        DataType::FixedSizeBinary(_) => push(key, Tag::Binary, column.as_fixed_size_binary().value(row)),
        DataType::Decimal128(_, scale) => {
            push_decimal(key, &column.as_primitive::<Decimal128Type>().value(row).to_le_bytes(), *scale);
        }
        DataType::Decimal256(_, scale) => {
            let value = column.as_primitive::<Decimal256Type>().value(row);
            match value.to_i128() {
                Some(narrow) => push_decimal(key, &narrow.to_le_bytes(), *scale),
                None => push_decimal(key, &value.to_le_bytes(), *scale),
            }
        }
        DataType::Timestamp(unit, _) | DataType::Time32(unit) | DataType::Time64(unit) => {
            let power = match unit {
                arrow::datatypes::TimeUnit::Second => 0,
                arrow::datatypes::TimeUnit::Millisecond => 3,
                arrow::datatypes::TimeUnit::Microsecond => 6,
                arrow::datatypes::TimeUnit::Nanosecond => 9,
            };
            push_time(key, widened(column, row)?, power);
        }
        // A day count and a millisecond count of whole days are one date.
        DataType::Date32 => push_time(key, widened(column, row)?.saturating_mul(86_400), 0),
        DataType::Date64 => push_time(key, widened(column, row)?.div_euclid(1000), 0),
        DataType::Dictionary(_, _) => {
            let values = arrow::compute::cast(&column.slice(row, 1), &dictionary_values(column.data_type()))?;
            push_value(key, values.as_ref(), 0)?;
        }
        other => return Err(Error::config(format!("a column of type `{other}` cannot be part of a key"))),
    }
    Ok(())
}

fn push_decimal(key: &mut Vec<u8>, unscaled: &[u8], scale: i8) {
    let mut bytes = unscaled.to_vec();
    bytes.push(scale as u8);
    push(key, Tag::Decimal, &bytes);
}

fn widened(column: &dyn Array, row: usize) -> Result<i64> {
    let one = column.slice(row, 1);
    let wide = arrow::compute::cast(&one, &DataType::Int64)?;
    Ok(wide.as_primitive::<Int64Type>().value(0))
}

fn dictionary_values(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, values) => values.as_ref().clone(),
        other => other.clone(),
    }
}

/// Builds a key column: `write` is called once per row with that row's empty key.
///
/// # Errors
/// Those of `write`.
pub fn build(rows: usize, mut write: impl FnMut(usize, &mut Vec<u8>) -> Result<()>) -> Result<Arc<arrow::array::BinaryArray>> {
    let mut builder = arrow::array::BinaryBuilder::with_capacity(rows, rows * 32);
    let mut key = Vec::with_capacity(64);
    for row in 0..rows {
        key.clear();
        write(row, &mut key)?;
        builder.append_value(&key);
    }
    Ok(Arc::new(builder.finish()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float64Array, Int16Array, Int64Array, StringViewArray, TimestampMillisecondArray};

    fn key(column: &dyn Array, row: usize) -> Vec<u8> {
        let mut key = Vec::new();
        push_value(&mut key, column, row).unwrap();
        key
    }

    #[test]
    fn the_encoding_is_frozen() {
        let mut made = Vec::new();
        push_origin(&mut made, &SplitId::new("p0"), 258);
        assert_eq!(made, [9, 2, 0, 0, 0, b'p', b'0', 10, 8, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(key(&StringViewArray::from(vec!["ab"]), 0), [5, 2, 0, 0, 0, b'a', b'b']);
        assert_eq!(key(&TimestampMillisecondArray::from(vec![-1]), 0), [8, 9, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255, 3]);
        assert_eq!(key(&Int64Array::from(vec![None]), 0), [0, 0, 0, 0, 0]);
    }

    #[test]
    fn equal_values_make_equal_keys() {
        let three = key(&Int64Array::from(vec![3]), 0);
        assert_eq!(three, key(&Int16Array::from(vec![3]), 0));
        assert_eq!(three, key(&Float64Array::from(vec![3.0]), 0));
        let zeros: ArrayRef = Arc::new(Float64Array::from(vec![0.0, -0.0]));
        assert_eq!(key(&zeros, 0), key(&zeros, 1));
    }
}

//! The key hash: which vnode a row belongs to, on every machine and in every later version.
//!
//! Equal values hash equally whatever their physical type: all integers as their value in 64 bits, integral floats as that
//! integer, -0.0 as 0, every NaN alike, all text types alike, dictionaries as their values. The planner casts decimals and
//! times to a common scale before keys meet. A manifest records [`HASH_VERSION`]; a golden test freezes the values.

use crate::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, downcast_dictionary_array};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use xxhash_rust::xxh3::xxh3_64;

/// The version of this function; part of every manifest and state signature.
pub const HASH_VERSION: u32 = 1;

const NULL: u64 = 0x6e75_6c6c_5f5f_7467;
const NAN: u64 = 0x6e61_6e5f_5f5f_7467;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Mixes 64 bits so that every input bit reaches the upper bits (the finaliser of SplitMix64, Steele, Lea and Flood 2014).
#[inline(always)]
pub fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(MULTIPLIER);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The vnode of a hash: its upper bits scaled to `vnodes`.
#[inline(always)]
pub fn vnode(hash: u64, vnodes: u16) -> u16 {
    (((hash >> 32) * u64::from(vnodes)) >> 32) as u16
}

/// Hashes the rows of the key columns into `hashes`, which is resized to `rows`. No columns: every row hashes to the same value.
///
/// # Errors
/// `Config` if a column's type cannot be a key (lists, structs, maps, intervals).
pub fn hash_rows(columns: &[ArrayRef], rows: usize, hashes: &mut Vec<u64>) -> Result<()> {
    hashes.clear();
    hashes.resize(rows, 0);
    for (index, column) in columns.iter().enumerate() {
        hash_column(column.as_ref(), if index == 0 { Join::First } else { Join::Next }, hashes)?;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Join {
    First,
    Next,
}

#[inline(always)]
fn put(slot: &mut u64, join: Join, value: u64) {
    *slot = match join {
        Join::First => value,
        Join::Next => mix(slot.rotate_left(23) ^ value),
    };
}

fn hash_column(column: &dyn Array, join: Join, hashes: &mut [u64]) -> Result<()> {
    fn integers<T: ArrowPrimitiveType>(column: &dyn Array, join: Join, hashes: &mut [u64], widen: impl Fn(T::Native) -> u64) {
        primitive(column.as_primitive::<T>(), join, hashes, |value| mix(widen(value)));
    }
    match column.data_type() {
        DataType::Null => hashes.iter_mut().for_each(|slot| put(slot, join, NULL)),
        DataType::Boolean => booleans(column.as_boolean(), join, hashes),
        DataType::Int8 => integers::<Int8Type>(column, join, hashes, |v| i64::from(v) as u64),
        DataType::Int16 => integers::<Int16Type>(column, join, hashes, |v| i64::from(v) as u64),
        DataType::Int32 => integers::<Int32Type>(column, join, hashes, |v| i64::from(v) as u64),
        DataType::Int64 => integers::<Int64Type>(column, join, hashes, |v| v as u64),
        DataType::UInt8 => integers::<UInt8Type>(column, join, hashes, u64::from),
        DataType::UInt16 => integers::<UInt16Type>(column, join, hashes, u64::from),
        DataType::UInt32 => integers::<UInt32Type>(column, join, hashes, u64::from),
        DataType::UInt64 => integers::<UInt64Type>(column, join, hashes, |v| v),
        DataType::Float16 => primitive(column.as_primitive::<Float16Type>(), join, hashes, |v| float(v.to_f64())),
        DataType::Float32 => primitive(column.as_primitive::<Float32Type>(), join, hashes, |v| float(f64::from(v))),
        DataType::Float64 => primitive(column.as_primitive::<Float64Type>(), join, hashes, float),
        DataType::Decimal128(_, _) => primitive(column.as_primitive::<Decimal128Type>(), join, hashes, |v| xxh3_64(&v.to_le_bytes())),
        DataType::Decimal256(_, _) => primitive(column.as_primitive::<Decimal256Type>(), join, hashes, |v| {
            // A value that fits 128 bits hashes as the narrower type does.
            v.to_i128().map_or_else(|| xxh3_64(&v.to_le_bytes()), |narrow| xxh3_64(&narrow.to_le_bytes()))
        }),
        DataType::Date32 => integers::<Date32Type>(column, join, hashes, |v| i64::from(v) as u64),
        DataType::Date64 => integers::<Date64Type>(column, join, hashes, |v| v as u64),
        DataType::Time32(TimeUnit::Second) => integers::<Time32SecondType>(column, join, hashes, |v| i64::from(v) as u64),
        DataType::Time32(_) => integers::<Time32MillisecondType>(column, join, hashes, |v| i64::from(v) as u64),
        DataType::Time64(TimeUnit::Microsecond) => integers::<Time64MicrosecondType>(column, join, hashes, |v| v as u64),
        DataType::Time64(_) => integers::<Time64NanosecondType>(column, join, hashes, |v| v as u64),
        DataType::Timestamp(TimeUnit::Second, _) => integers::<TimestampSecondType>(column, join, hashes, |v| v as u64),
        DataType::Timestamp(TimeUnit::Millisecond, _) => integers::<TimestampMillisecondType>(column, join, hashes, |v| v as u64),
        DataType::Timestamp(TimeUnit::Microsecond, _) => integers::<TimestampMicrosecondType>(column, join, hashes, |v| v as u64),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => integers::<TimestampNanosecondType>(column, join, hashes, |v| v as u64),
        DataType::Utf8 => bytes(column, column.as_string::<i32>().iter().map(|v| v.map(str::as_bytes)), join, hashes),
        DataType::LargeUtf8 => bytes(column, column.as_string::<i64>().iter().map(|v| v.map(str::as_bytes)), join, hashes),
        DataType::Utf8View => bytes(column, column.as_string_view().iter().map(|v| v.map(str::as_bytes)), join, hashes),
        DataType::Binary => bytes(column, column.as_binary::<i32>().iter(), join, hashes),
        DataType::LargeBinary => bytes(column, column.as_binary::<i64>().iter(), join, hashes),
        DataType::BinaryView => bytes(column, column.as_binary_view().iter(), join, hashes),
        DataType::FixedSizeBinary(_) => bytes(column, column.as_fixed_size_binary().iter(), join, hashes),
        DataType::Dictionary(_, _) => return dictionary(column, join, hashes),
        other => return Err(Error::config(format!("a column of type `{other}` cannot be a key"))),
    }
    Ok(())
}

fn primitive<T: ArrowPrimitiveType>(column: &PrimitiveArray<T>, join: Join, hashes: &mut [u64], hash: impl Fn(T::Native) -> u64) {
    if column.null_count() == 0 {
        for (slot, value) in hashes.iter_mut().zip(column.values()) {
            put(slot, join, hash(*value));
        }
    } else {
        for (slot, value) in hashes.iter_mut().zip(column.iter()) {
            put(slot, join, value.map_or(NULL, &hash));
        }
    }
}

fn booleans(column: &BooleanArray, join: Join, hashes: &mut [u64]) {
    for (slot, value) in hashes.iter_mut().zip(column.iter()) {
        put(slot, join, value.map_or(NULL, |value| mix(u64::from(value))));
    }
}

fn bytes<'a>(column: &dyn Array, values: impl Iterator<Item = Option<&'a [u8]>>, join: Join, hashes: &mut [u64]) {
    debug_assert_eq!(column.len(), hashes.len());
    for (slot, value) in hashes.iter_mut().zip(values) {
        put(slot, join, value.map_or(NULL, xxh3_64));
    }
}

fn dictionary(column: &dyn Array, join: Join, hashes: &mut [u64]) -> Result<()> {
    downcast_dictionary_array!(
        column => {
            let mut values = vec![0; column.values().len()];
            hash_column(column.values().as_ref(), Join::First, &mut values)?;
            for (slot, key) in hashes.iter_mut().zip(column.keys_iter()) {
                put(slot, join, key.map_or(NULL, |key| values[key]));
            }
            Ok(())
        }
        other => Err(Error::internal(format!("`{other}` is not a dictionary")))
    )
}

/// Integral floats hash as that integer, so that a float key meets an integer key of the same value.
fn float(value: f64) -> u64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if value.is_nan() {
        NAN
    } else if value.fract() == 0.0 && (-LIMIT..LIMIT).contains(&value) {
        mix(value as i64 as u64)
    } else {
        mix(value.to_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray, StringViewArray};
    use std::sync::Arc;

    fn hashes(columns: &[ArrayRef]) -> Vec<u64> {
        let mut hashes = Vec::new();
        hash_rows(columns, columns[0].len(), &mut hashes).unwrap();
        hashes
    }

    #[test]
    fn golden_vectors() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(0), Some(1), Some(-1), Some(i64::MAX), None]));
        let text: ArrayRef = Arc::new(StringArray::from(vec![Some(""), Some("a"), Some("hello"), None, Some("naïve")]));
        assert_eq!(hashes(&[Arc::clone(&numbers)]), GOLDEN_NUMBERS);
        assert_eq!(hashes(&[Arc::clone(&text)]), GOLDEN_TEXT);
        assert_eq!(hashes(&[numbers, text]), GOLDEN_BOTH);
    }

    const GOLDEN_NUMBERS: [u64; 5] =
        [16294208416658607535, 10451216379200822465, 16490336266968443936, 3055647633038352039, 7959387129159578727];
    const GOLDEN_TEXT: [u64; 5] =
        [3244421341483603138, 16629034431890738719, 10760762337991515389, 7959387129159578727, 14757376859149137928];
    const GOLDEN_BOTH: [u64; 5] = [10689987381092316192, 6901289757173327713, 2964955786219195702, 748486861592518517, 3653586662109915927];

    #[test]
    fn equal_values_hash_equally_whatever_their_type() {
        let wide = hashes(&[Arc::new(Int64Array::from(vec![7, 0, 0]))]);
        assert_eq!(wide, hashes(&[Arc::new(Int32Array::from(vec![7, 0, 0]))]));
        assert_eq!(wide, hashes(&[Arc::new(Float64Array::from(vec![7.0, 0.0, -0.0]))]));
        let nans = hashes(&[Arc::new(Float64Array::from(vec![f64::NAN, f64::from_bits(0xfff8_0000_0000_0001)]))]);
        assert_eq!(nans[0], nans[1]);

        let plain = hashes(&[Arc::new(StringArray::from(vec!["x", "a long text that a view does not inline"]))]);
        assert_eq!(plain, hashes(&[Arc::new(StringViewArray::from(vec!["x", "a long text that a view does not inline"]))]));
        let dictionary: DictionaryArray<Int32Type> = vec!["x", "a long text that a view does not inline"].into_iter().collect();
        assert_eq!(plain, hashes(&[Arc::new(dictionary)]));
    }

    #[test]
    fn vnodes_are_all_reached_and_in_range() {
        let rows: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20_000));
        let mut seen = [0u32; 256];
        for hash in hashes(&[rows]) {
            seen[usize::from(vnode(hash, 256))] += 1;
        }
        assert!(seen.iter().all(|rows| (30..150).contains(rows)), "{seen:?}");
    }
}

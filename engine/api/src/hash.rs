//! The key hash: which vnode a row belongs to, on every machine and in every later version.
//!
//! Equal values hash equally whatever their physical type: all integers as their value in 64 bits, integral floats as that
//! integer, -0.0 as 0, every NaN alike, all text types alike, dictionaries as their values. A decimal hashes as its value
//! whatever its scale (an integral one as that integer), a point in time as itself whatever its unit, and so do times of day
//! and dates: rows meet although the two sides of a join write a key differently. A manifest records [`HASH_VERSION`]; a golden
//! test freezes the values.

use crate::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray, downcast_dictionary_array};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type, i256,
};
use xxhash_rust::xxh3::xxh3_64;

/// The version of this function; part of every manifest and state signature.
pub const HASH_VERSION: u32 = 1;

const NULL: u64 = 0x6e75_6c6c_5f5f_7467;
const NAN: u64 = 0x6e61_6e5f_5f5f_7467;
const FRACTION: u64 = 0x6672_6163_5f5f_7467;
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
        DataType::Decimal128(_, scale) => {
            let scale = Scale::new(*scale);
            primitive(column.as_primitive::<Decimal128Type>(), join, hashes, |v| scale.hash(v));
        }
        DataType::Decimal256(_, scale) => {
            let scale = Scale::new(*scale);
            primitive(column.as_primitive::<Decimal256Type>(), join, hashes, |v| scale.hash_wide(v));
        }
        // Times hash as their count of the finest unit, modulo 2^64: equal times are equal there in every unit.
        DataType::Date32 => integers::<Date32Type>(column, join, hashes, |v| (i64::from(v) * 86_400_000) as u64),
        DataType::Date64 => integers::<Date64Type>(column, join, hashes, |v| v as u64),
        DataType::Time32(TimeUnit::Second) => integers::<Time32SecondType>(column, join, hashes, |v| in_nanos(i64::from(v), 1_000_000_000)),
        DataType::Time32(_) => integers::<Time32MillisecondType>(column, join, hashes, |v| in_nanos(i64::from(v), 1_000_000)),
        DataType::Time64(TimeUnit::Microsecond) => integers::<Time64MicrosecondType>(column, join, hashes, |v| in_nanos(v, 1000)),
        DataType::Time64(_) => integers::<Time64NanosecondType>(column, join, hashes, |v| v as u64),
        DataType::Timestamp(TimeUnit::Second, _) => integers::<TimestampSecondType>(column, join, hashes, |v| in_nanos(v, 1_000_000_000)),
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            integers::<TimestampMillisecondType>(column, join, hashes, |v| in_nanos(v, 1_000_000));
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => integers::<TimestampMicrosecondType>(column, join, hashes, |v| in_nanos(v, 1000)),
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

#[inline(always)]
fn in_nanos(value: i64, nanos_per_unit: i64) -> u64 {
    value.wrapping_mul(nanos_per_unit) as u64
}

/// How the unscaled values of a decimal column hash.
struct Scale {
    /// Ten to the scale, where the scale is not negative and that fits.
    whole: Option<i256>,
    /// Ten to the negated scale of a negative scale.
    factor: i256,
    /// The inverse of ten to the scale, modulo [`PRIME`].
    inverse: u64,
}

/// A Mersenne prime: every power of ten has an inverse modulo it, so that a fraction hashes as its value, whatever its scale.
const PRIME: u64 = (1 << 61) - 1;
/// The inverse of ten modulo [`PRIME`].
const TENTH: u64 = 2_075_258_708_292_324_556;

fn times_modulo(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) % u128::from(PRIME)) as u64
}

fn power_modulo(base: u64, exponent: u32) -> u64 {
    (0..exponent).fold(1, |power, _| times_modulo(power, base))
}

impl Scale {
    fn new(scale: i8) -> Self {
        let places = u32::from(scale.unsigned_abs());
        let power = i256::from_i128(10).checked_pow(places);
        match scale < 0 {
            true => Scale { whole: Some(i256::ONE), factor: power.unwrap_or(i256::ONE), inverse: power_modulo(10, places) },
            false => Scale { whole: power, factor: i256::ONE, inverse: power_modulo(TENTH, places) },
        }
    }

    fn hash(&self, value: i128) -> u64 {
        match (self.whole.and_then(|whole| whole.to_i128()), self.factor == i256::ONE) {
            (Some(whole), true) => match i64::try_from(value / whole) {
                Ok(integer) if value % whole == 0 => mix(integer as u64),
                _ => self.fraction((value.rem_euclid(i128::from(PRIME))) as u64),
            },
            _ => self.hash_wide(i256::from_i128(value)),
        }
    }

    fn hash_wide(&self, value: i256) -> u64 {
        let whole = self.whole.filter(|whole| value.checked_rem(*whole) == Some(i256::ZERO));
        let integer = whole.and_then(|whole| value.checked_div(whole)?.checked_mul(self.factor)?.to_i128());
        if let Some(integer) = integer.and_then(|integer| i64::try_from(integer).ok()) {
            return mix(integer as u64);
        }
        let prime = i256::from_i128(i128::from(PRIME));
        let rest = value.checked_rem(prime).and_then(|rest| rest.to_i128()).unwrap_or_default();
        self.fraction(rest.rem_euclid(i128::from(PRIME)) as u64)
    }

    fn fraction(&self, modulo: u64) -> u64 {
        mix(times_modulo(modulo, self.inverse) ^ FRACTION)
    }
}

/// Integral floats hash as that integer, so that a float key meets an integer key of the same value.
fn float(value: f64) -> u64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if value.is_nan() {
        NAN
    } else if value.fract() == 0.0 && (-LIMIT..LIMIT).contains(&value) {
        mix(value as i64 as u64)
    } else if value.fract() == 0.0 && (LIMIT..2.0 * LIMIT).contains(&value) {
        // What an unsigned integer can be.
        mix(value as u64)
    } else {
        mix(value.to_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Date32Array, Date64Array, Decimal128Array, Decimal256Array, DictionaryArray, Float64Array, Int32Array, Int64Array, StringArray,
        StringViewArray, Time32SecondArray, Time64NanosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray,
        TimestampNanosecondArray, TimestampSecondArray,
    };
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
    fn times_hash_equally_whatever_their_unit() {
        let seconds = hashes(&[Arc::new(TimestampSecondArray::from(vec![-5, 0, 1_700_000_000]))]);
        assert_eq!(seconds, hashes(&[Arc::new(TimestampMillisecondArray::from(vec![-5000, 0, 1_700_000_000_000]))]));
        assert_eq!(
            seconds,
            hashes(&[Arc::new(TimestampMicrosecondArray::from(vec![-5_000_000, 0, 1_700_000_000_000_000]).with_timezone_utc())])
        );
        assert_eq!(seconds, hashes(&[Arc::new(TimestampNanosecondArray::from(vec![-5_000_000_000, 0, 1_700_000_000_000_000_000]))]));
        let days = hashes(&[Arc::new(Date32Array::from(vec![-1, 20_000]))]);
        assert_eq!(days, hashes(&[Arc::new(Date64Array::from(vec![-86_400_000, 1_728_000_000_000]))]));
        let noon = hashes(&[Arc::new(Time32SecondArray::from(vec![43_200]))]);
        assert_eq!(noon, hashes(&[Arc::new(Time64NanosecondArray::from(vec![43_200_000_000_000]))]));
        assert_eq!(seconds, GOLDEN_SECONDS);
    }

    #[test]
    fn decimals_hash_as_their_value_whatever_their_scale() {
        let decimal = |values: Vec<i128>, precision, scale| -> ArrayRef {
            Arc::new(Decimal128Array::from(values).with_precision_and_scale(precision, scale).unwrap())
        };
        let wide = |values: Vec<i128>, scale| -> ArrayRef {
            let values: Vec<i256> = values.into_iter().map(i256::from_i128).collect();
            Arc::new(Decimal256Array::from(values).with_precision_and_scale(76, scale).unwrap())
        };
        let cents = hashes(&[decimal(vec![0, 100, -250, 7, i128::MAX], 38, 2)]);
        assert_eq!(cents[..4], hashes(&[decimal(vec![0, 10_000, -25_000, 700], 38, 4)]));
        assert_eq!(cents, hashes(&[wide(vec![0, 100, -250, 7, i128::MAX], 2)]));
        assert_eq!(cents[..4], hashes(&[wide(vec![0, 10_i128.pow(20), -25 * 10_i128.pow(19), 7 * 10_i128.pow(18)], 20)]));
        assert_eq!(cents[..2], hashes(&[Arc::new(Int64Array::from(vec![0, 1]))]));
        assert_eq!(
            hashes(&[decimal(vec![3, i128::MAX], 38, -2)]),
            hashes(&[wide(vec![300, i128::MAX], 0)])[..1].iter().copied().chain(hashes(&[wide(vec![i128::MAX], -2)])).collect::<Vec<_>>()
        );
        assert_eq!(cents, GOLDEN_CENTS);
    }

    const GOLDEN_SECONDS: [u64; 3] = [16637795523471665857, 16294208416658607535, 673942876139735264];
    const GOLDEN_CENTS: [u64; 5] =
        [16294208416658607535, 10451216379200822465, 464471610577985553, 3735950582567466286, 13806368961953838606];

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

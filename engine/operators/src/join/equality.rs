//! Two types of a key as one: equal values of both sides become equal values of one type, and a value that nothing of the other
//! side can equal becomes null, which matches nothing.

use crate::keys::normal;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit, UInt64Type};
use std::sync::Arc;
use tidegate_api::time::raw_times;
use tidegate_api::{Error, Result};

/// The common type of a pair of key columns.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Form {
    /// Integers, and what equals one: bool among itself, dates, floats beside integers.
    Integer,
    /// Unsigned 64-bit integers on both sides, or floats on one, as the signed ones of the same bits.
    Unsigned,
    /// Floats, as their bits: one zero, one NaN.
    Float,
    /// Decimals of this type, integers among them.
    Decimal(DataType),
    /// A count of this unit: points in time, or times of day.
    Time(TimeUnit),
    /// Text.
    Text,
    /// Bytes.
    Binary,
}

/// The type of a column's values, behind a dictionary.
fn values(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float16 | DataType::Float32 | DataType::Float64)
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

fn is_date(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Date32 | DataType::Date64)
}

/// Precision and scale of a decimal, or of the decimals that hold every value of an integer type.
fn digits(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => Some((*precision, *scale)),
        integer if integer.is_integer() => Some((20, 0)),
        _ => None,
    }
}

fn finer(left: TimeUnit, right: TimeUnit) -> TimeUnit {
    if power(left) >= power(right) { left } else { right }
}

fn power(unit: TimeUnit) -> u32 {
    match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 3,
        TimeUnit::Microsecond => 6,
        TimeUnit::Nanosecond => 9,
    }
}

impl Form {
    /// The common type of two columns; `None` if no value of one ever equals a value of the other.
    pub(crate) fn common(left: &DataType, right: &DataType) -> Option<Form> {
        use DataType::{Boolean, Time32, Time64, Timestamp, UInt64};
        let (left, right) = (values(left), values(right));
        let both = |test: fn(&DataType) -> bool| test(left) && test(right);
        Some(match (left, right) {
            (UInt64, UInt64) => Form::Unsigned,
            (UInt64, float) | (float, UInt64) if is_float(float) => Form::Unsigned,
            (Boolean, Boolean) => Form::Integer,
            _ if both(DataType::is_integer) || both(is_date) => Form::Integer,
            _ if both(is_float) => Form::Float,
            _ if (left.is_integer() && is_float(right)) || (is_float(left) && right.is_integer()) => Form::Integer,
            _ if both(is_text) => Form::Text,
            _ if both(is_binary) => Form::Binary,
            (Timestamp(left, _), Timestamp(right, _)) => Form::Time(finer(*left, *right)),
            (Time32(left) | Time64(left), Time32(right) | Time64(right)) => Form::Time(finer(*left, *right)),
            _ => {
                let ((left, left_scale), (right, right_scale)) = (digits(left)?, digits(right)?);
                let scale = left_scale.max(right_scale);
                let before = |precision: u8, own: i8| i16::from(precision) - i16::from(own);
                let precision = before(left, left_scale).max(before(right, right_scale)) + i16::from(scale);
                let precision = u8::try_from(precision.max(1)).ok()?;
                match precision {
                    ..=38 => Form::Decimal(DataType::Decimal128(precision, scale)),
                    39..=76 => Form::Decimal(DataType::Decimal256(precision, scale)),
                    77.. => return None,
                }
            }
        })
    }

    /// Whether two columns meet as an integer and a float: fractions match nothing.
    pub(crate) fn is_mixed(left: &DataType, right: &DataType) -> bool {
        is_float(values(left)) != is_float(values(right))
    }

    /// Whether equal key hashes are equal keys, when this is the only key: the hash of 64 bits loses nothing.
    pub(crate) fn is_hashed_exactly(&self) -> bool {
        matches!(self, Form::Integer | Form::Unsigned)
    }

    /// The type of the common values.
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Form::Integer | Form::Unsigned | Form::Float | Form::Time(_) => DataType::Int64,
            Form::Decimal(data_type) => data_type.clone(),
            Form::Text => DataType::Utf8View,
            Form::Binary => DataType::Binary,
        }
    }

    /// The values of a key column in the common type.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn of(&self, column: &ArrayRef) -> Result<ArrayRef> {
        let plain = match column.data_type() {
            DataType::Dictionary(_, values) => cast(column, values)?,
            _ => Arc::clone(column),
        };
        Ok(match self {
            Form::Integer => integers(&plain)?,
            Form::Unsigned if is_float(plain.data_type()) => {
                const LIMIT: f64 = 18_446_744_073_709_551_616.0;
                let is_whole = |value: f64| value.fract() == 0.0 && (0.0..LIMIT).contains(&value);
                let wide = cast(&plain, &DataType::Float64)?;
                let bits: Int64Array = wide.as_primitive::<Float64Type>().unary_opt(|value| is_whole(value).then_some(value as u64 as i64));
                Arc::new(bits)
            }
            Form::Unsigned => {
                let bits: Int64Array = plain.as_primitive::<UInt64Type>().unary(|value| value as i64);
                Arc::new(bits)
            }
            Form::Float => {
                let wide = cast(&plain, &DataType::Float64)?;
                let bits: Int64Array = wide.as_primitive::<Float64Type>().unary(|value| normal(value).to_bits() as i64);
                Arc::new(bits)
            }
            Form::Decimal(to) => {
                let decimal = if plain.data_type().is_integer() { cast(&plain, &DataType::Decimal128(20, 0))? } else { plain };
                // What the common type cannot hold stands on one side only.
                cast_with_options(&decimal, to, &CastOptions { safe: true, ..CastOptions::default() })?
            }
            Form::Time(unit) => times(&plain, *unit)?,
            Form::Text => cast(&plain, &DataType::Utf8View)?,
            Form::Binary => cast(&plain, &DataType::Binary)?,
        })
    }
}

fn integers(column: &ArrayRef) -> Result<ArrayRef> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    Ok(match column.data_type() {
        DataType::UInt64 => {
            let fitting: Int64Array = column.as_primitive::<UInt64Type>().unary_opt(|value| i64::try_from(value).ok());
            Arc::new(fitting)
        }
        float if is_float(float) => {
            let wide = cast(column, &DataType::Float64)?;
            let is_whole = |value: f64| value.fract() == 0.0 && (-LIMIT..LIMIT).contains(&value);
            let whole: Int64Array = wide.as_primitive::<Float64Type>().unary_opt(|value| is_whole(value).then_some(value as i64));
            Arc::new(whole)
        }
        // Both as milliseconds, since one of them may be.
        DataType::Date32 => cast(&cast(column, &DataType::Date64)?, &DataType::Int64)?,
        _ => cast(column, &DataType::Int64)?,
    })
}

fn times(column: &ArrayRef, to: TimeUnit) -> Result<ArrayRef> {
    let (counts, unit) = match column.data_type() {
        DataType::Timestamp(unit, _) => (raw_times(column)?.0, *unit),
        DataType::Time32(unit) => (cast(&cast(column, &DataType::Int32)?, &DataType::Int64)?.as_primitive::<Int64Type>().clone(), *unit),
        DataType::Time64(unit) => (cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone(), *unit),
        other => return Err(Error::internal(format!("a column of type `{other}` is no time"))),
    };
    let factor = 10_i64.pow(power(to).saturating_sub(power(unit)));
    if factor == 1 {
        return Ok(Arc::new(counts));
    }
    let finer: Int64Array = counts.unary_opt(|count| count.checked_mul(factor));
    Ok(Arc::new(finer))
}

/// Whether every value of `from` can stand in a column of type `to` unchanged.
pub(crate) fn holds(to: &DataType, from: &DataType) -> bool {
    use DataType::{Date32, Date64, Float16, Float32, Float64, Time32, Time64, Timestamp};
    let width = |data_type: &DataType| data_type.primitive_width().unwrap_or_default();
    let (to, from) = (values(to), values(from));
    if to == from || (is_text(to) && is_text(from)) || (is_binary(from) && matches!(to, DataType::Binary | DataType::BinaryView)) {
        return true;
    }
    match (to, from) {
        (Float64, Float32 | Float16) | (Float32, Float16) | (Date64, Date32) => true,
        (Timestamp(to, _), Timestamp(from, _)) | (Time32(to) | Time64(to), Time32(from) | Time64(from)) => power(*to) >= power(*from),
        _ if to.is_signed_integer() && from.is_integer() => {
            width(to) > width(from) || (width(to) == width(from) && from.is_signed_integer())
        }
        _ if to.is_unsigned_integer() && from.is_unsigned_integer() => width(to) >= width(from),
        _ => match (to, digits(to), digits(from)) {
            (DataType::Decimal128(..) | DataType::Decimal256(..), Some((to, to_scale)), Some((from, from_scale))) => {
                to_scale >= from_scale && i16::from(to) - i16::from(to_scale) >= i16::from(from) - i16::from(from_scale)
            }
            _ => false,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Date32Array, Date64Array, Decimal128Array, DictionaryArray, Float32Array, Float64Array, Int32Array, LargeStringArray,
        StringViewArray, Time32SecondArray, Time64MicrosecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
    };
    use arrow::datatypes::Int8Type;
    use tidegate_api::hash;

    /// Which values of two columns are equal, and that those hash equally.
    fn equal(left: ArrayRef, right: ArrayRef) -> Vec<bool> {
        let form = Form::common(left.data_type(), right.data_type()).unwrap();
        let (a, b) = (form.of(&left).unwrap(), form.of(&right).unwrap());
        assert_eq!((a.data_type(), b.data_type()), (&form.data_type(), &form.data_type()));
        let hashes = |column: &ArrayRef| {
            let mut hashes = Vec::new();
            hash::hash_rows(std::slice::from_ref(column), column.len(), &mut hashes).unwrap();
            hashes
        };
        let equal = arrow::compute::kernels::cmp::eq(&a, &b).unwrap();
        for ((equal, left), right) in equal.iter().zip(hashes(&left)).zip(hashes(&right)) {
            // Rows of null are left out before hashes are compared.
            let Some(equal) = equal else { continue };
            assert!(!equal || left == right, "equal values go to different vnodes");
            assert!(equal || left != right || !form.is_hashed_exactly(), "the hash is not exact");
        }
        equal.iter().map(|equal| equal.unwrap_or(false)).collect()
    }

    #[test]
    fn equal_values_of_different_types_meet() {
        let int: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(i64::MAX), Some(-1), None]));
        assert_eq!(
            equal(Arc::clone(&int), Arc::new(Int32Array::from(vec![Some(1), Some(-1), Some(-1), None]))),
            [true, false, true, false]
        );
        let unsigned: ArrayRef = Arc::new(UInt64Array::from(vec![1, i64::MAX as u64, u64::MAX, 0]));
        assert_eq!(equal(Arc::clone(&int), Arc::clone(&unsigned)), [true, true, false, false]);
        assert_eq!(equal(Arc::clone(&unsigned), unsigned), [true; 4]);
        let float: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 9_223_372_036_854_775_807.0, -1.5, f64::NAN]));
        assert_eq!(equal(int, float), [true, false, false, false]);
        let large: ArrayRef = Arc::new(UInt64Array::from(vec![1 << 63, 18_446_744_073_709_549_568, u64::MAX, 0, 5, 1 << 62]));
        let floats = [
            9_223_372_036_854_775_808.0,
            18_446_744_073_709_549_568.0,
            18_446_744_073_709_551_616.0,
            -0.0,
            5.0,
            -4_611_686_018_427_387_904.0,
        ];
        let floats: ArrayRef = Arc::new(Float64Array::from(floats.to_vec()));
        assert_eq!(equal(Arc::clone(&large), Arc::clone(&floats)), [true, true, false, true, true, false]);
        assert_eq!(equal(floats, large), [true, true, false, true, true, false]);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![0.0, f64::NAN, 0.1, 1.5]));
        assert_eq!(equal(floats, Arc::new(Float32Array::from(vec![-0.0, -f32::NAN, 0.1, 1.5]))), [true, true, false, true]);
        let text: ArrayRef = Arc::new(StringViewArray::from(vec!["a", "a longer text than a view", ""]));
        let dictionary: DictionaryArray<Int8Type> = vec!["a", "a longer text than a view", "b"].into_iter().collect();
        assert_eq!(equal(Arc::clone(&text), Arc::new(dictionary)), [true, true, false]);
        assert_eq!(equal(text, Arc::new(LargeStringArray::from(vec!["a", "b", ""]))), [true, false, true]);
    }

    #[test]
    fn times_meet_in_the_finer_unit_and_decimals_at_the_larger_scale() {
        let seconds: ArrayRef = Arc::new(TimestampSecondArray::from(vec![-1, 2, i64::MAX]).with_timezone("Europe/Berlin"));
        let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![-1_000_000_000, 2_000_000_001, -1_000_000_000]));
        assert_eq!(equal(seconds, nanos), [true, false, false]);
        let noon: ArrayRef = Arc::new(Time32SecondArray::from(vec![43_200]));
        assert_eq!(equal(noon, Arc::new(Time64MicrosecondArray::from(vec![43_200_000_000]))), [true]);
        let days: ArrayRef = Arc::new(Date32Array::from(vec![-1, 3]));
        assert_eq!(equal(days, Arc::new(Date64Array::from(vec![-86_400_000, 3]))), [true, false]);
        let cents: ArrayRef = Arc::new(Decimal128Array::from(vec![150, 7]).with_precision_and_scale(9, 2).unwrap());
        let fine: ArrayRef = Arc::new(Decimal128Array::from(vec![15_000, 701]).with_precision_and_scale(38, 4).unwrap());
        assert_eq!(equal(Arc::clone(&cents), fine), [true, false]);
        let whole: ArrayRef = Arc::new(Decimal128Array::from(vec![300, 301]).with_precision_and_scale(9, 2).unwrap());
        assert_eq!(equal(whole, Arc::new(Int64Array::from(vec![3, 3]))), [true, false]);
    }

    #[test]
    fn what_never_is_equal_has_no_common_type() {
        use DataType::{Boolean, Date32, Decimal128, Decimal256, Float64, Int64, Timestamp, Utf8View};
        for (left, right) in [
            (Int64, Utf8View),
            (Boolean, Int64),
            (Float64, Decimal128(10, 2)),
            (Date32, Timestamp(TimeUnit::Second, None)),
            (Decimal256(76, 0), Decimal256(76, 10)),
            (DataType::Null, DataType::Null),
            (DataType::Binary, Utf8View),
        ] {
            assert_eq!(Form::common(&left, &right), None, "{left} and {right}");
        }
    }

    #[test]
    fn a_column_holds_another_if_nothing_is_lost() {
        use DataType::{Decimal128, Float64, Int32, Int64, UInt32, UInt64};
        for (to, from) in [(Int64, Int32), (Int64, UInt32), (Int64, Int64), (Decimal128(22, 2), Int64)] {
            assert!(holds(&to, &from), "{to} holds {from}");
            assert!(to == from || !holds(&from, &to), "{from} does not hold {to}");
        }
        assert!(!holds(&Int64, &UInt64) && !holds(&Int64, &Float64) && !holds(&Float64, &Int64) && !holds(&Decimal128(10, 2), &Int64));
    }
}

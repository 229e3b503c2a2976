//! The rules of types: what an operand counts as, what two operands become, how a value is converted.

use crate::time::{self, finer, per_second};
use crate::value::Value;
use arrow::datatypes::{DataType, Field, TimeUnit};
use std::cmp::Ordering;
use std::sync::Arc;

/// The most digits a decimal has.
pub(crate) const DECIMAL_DIGITS: u8 = 38;

/// What the rules see of a type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Class {
    Null,
    Bool,
    /// int8 to int64 and uint8 to uint32: computed as int64.
    Signed,
    /// uint64, the one integer that int64 does not hold.
    Unsigned,
    Float,
    Decimal(u8, i8),
    Text,
    Timestamp(TimeUnit, Option<Arc<str>>),
    Date,
    /// Times of day and binary: compared with their own type only.
    Plain,
    /// Lists, structs and what else Arrow has: read by member or index, tested for null.
    Other,
}

pub(crate) fn class(data_type: &DataType) -> Class {
    match data_type {
        DataType::Null => Class::Null,
        DataType::Boolean => Class::Bool,
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Class::Signed,
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => Class::Signed,
        DataType::UInt64 => Class::Unsigned,
        DataType::Float32 | DataType::Float64 => Class::Float,
        DataType::Decimal128(precision, scale) if *scale >= 0 => Class::Decimal(*precision, *scale),
        DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => Class::Text,
        DataType::Timestamp(unit, zone) => Class::Timestamp(*unit, zone.clone()),
        DataType::Date32 => Class::Date,
        DataType::Date64 | DataType::Time32(_) | DataType::Time64(_) => Class::Plain,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Class::Plain,
        _ => Class::Other,
    }
}

/// A type as the evaluators know it: text is `Utf8View`, a list of any layout is a `List`, a dictionary is its values, and every
/// element and member may be null.
pub(crate) fn canonical(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Dictionary(_, values) => canonical(values),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => list_of(canonical(item.data_type())),
        DataType::Struct(fields) => object_of(fields.iter().map(|field| (field.name().clone(), canonical(field.data_type()))).collect()),
        other => other.clone(),
    }
}

pub(crate) fn list_of(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(item, true)))
}

pub(crate) fn object_of(members: Vec<(String, DataType)>) -> DataType {
    DataType::Struct(members.into_iter().map(|(name, ty)| Field::new(name, ty, true)).collect())
}

/// The type of a list's elements; `None` for what is no list.
pub(crate) fn item_of(data_type: &DataType) -> Option<&DataType> {
    if let DataType::List(item) = data_type { Some(item.data_type()) } else { None }
}

/// Counts the parts of a type, but not beyond `most`.
pub(crate) fn parts(data_type: &DataType, most: usize) -> usize {
    match data_type {
        DataType::List(item) => 1 + parts(item.data_type(), most),
        DataType::Struct(fields) => fields.iter().fold(1, |sum, field| match sum {
            sum if sum > most => sum,
            sum => sum + parts(field.data_type(), most - sum),
        }),
        _ => 1,
    }
}

/// How deep lists and objects stand in each other.
pub(crate) fn depth(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) => 1 + depth(item.data_type()),
        DataType::Struct(fields) => 1 + fields.iter().map(|field| depth(field.data_type())).max().unwrap_or(0),
        _ => 0,
    }
}

/// The name of a type as the pipeline file writes it.
pub(crate) fn name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "null".to_string(),
        other => tidegate_api::types::name(other),
    }
}

pub(crate) fn is_integer(data_type: &DataType) -> bool {
    matches!(class(data_type), Class::Signed | Class::Unsigned)
}

/// The smallest and largest value of an integer type.
pub(crate) fn integer_range(data_type: &DataType) -> Option<(i128, i128)> {
    Some(match data_type {
        DataType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        DataType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        DataType::UInt8 => (0, u8::MAX.into()),
        DataType::UInt16 => (0, u16::MAX.into()),
        DataType::UInt32 => (0, u32::MAX.into()),
        DataType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

/// The decimal that holds every value of an integer type.
pub(crate) fn decimal_of_integer(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

/// The type that values of both types have in common, as for the branches of `?:`; `None` where there is none.
pub(crate) fn common(a: &DataType, b: &DataType) -> Option<DataType> {
    if a == b {
        return Some(a.clone());
    }
    Some(match (class(a), class(b)) {
        (Class::Null, _) => b.clone(),
        (_, Class::Null) => a.clone(),
        (Class::Text, Class::Text) => DataType::Utf8View,
        (Class::Signed, Class::Signed) => DataType::Int64,
        (Class::Signed, Class::Unsigned) | (Class::Unsigned, Class::Signed) => DataType::Decimal128(20, 0),
        (Class::Float, other) | (other, Class::Float) if is_numeric(&other) => DataType::Float64,
        (left, right) if is_numeric(&left) && is_numeric(&right) => {
            let (p1, s1) = decimal_of(a)?;
            let (p2, s2) = decimal_of(b)?;
            let scale = s1.max(s2);
            let whole = (p1 as i8 - s1).max(p2 as i8 - s2);
            DataType::Decimal128((whole + scale).clamp(1, DECIMAL_DIGITS as i8) as u8, scale)
        }
        (Class::Timestamp(u1, z1), Class::Timestamp(u2, z2)) => {
            let zone = match (z1, z2) {
                (Some(z1), Some(z2)) if z1 == z2 => Some(z1),
                (Some(_), Some(_)) => Some("UTC".into()),
                (zone, None) | (None, zone) => zone,
            };
            DataType::Timestamp(finer(u1, u2), zone)
        }
        (Class::Timestamp(unit, zone), Class::Date) | (Class::Date, Class::Timestamp(unit, zone)) => DataType::Timestamp(unit, zone),
        _ => return common_nested(a, b),
    })
}

/// Lists by their elements; objects with the same members in the same order, member by member.
fn common_nested(a: &DataType, b: &DataType) -> Option<DataType> {
    match (a, b) {
        (DataType::List(a), DataType::List(b)) => Some(list_of(common(a.data_type(), b.data_type())?)),
        (DataType::Struct(a), DataType::Struct(b)) if a.len() == b.len() => {
            let both = a.iter().zip(b).map(|(a, b)| match a.name() == b.name() {
                true => Some((a.name().clone(), common(a.data_type(), b.data_type())?)),
                false => None,
            });
            Some(object_of(both.collect::<Option<Vec<_>>>()?))
        }
        _ => None,
    }
}

fn is_numeric(class: &Class) -> bool {
    matches!(class, Class::Signed | Class::Unsigned | Class::Float | Class::Decimal(..))
}

/// The decimal type of a number that is not a float.
pub(crate) fn decimal_of(data_type: &DataType) -> Option<(u8, i8)> {
    match data_type {
        DataType::Decimal128(precision, scale) => Some((*precision, *scale)),
        other => decimal_of_integer(other),
    }
}

/// Whether converting from one type to another can fail on some value.
pub(crate) fn conversion_can_fail(from: &DataType, to: &DataType) -> bool {
    match (class(from), class(to)) {
        (Class::Unsigned, Class::Signed) => true,
        (Class::Timestamp(from, _), Class::Timestamp(to, _)) => per_second(to) > per_second(from),
        // 2^31 days are beyond what nanoseconds, and microseconds, hold.
        (Class::Date, Class::Timestamp(..)) => true,
        (Class::Decimal(p1, s1), Class::Decimal(p2, s2)) => p1 as i8 - s1 > p2 as i8 - s2,
        (Class::Signed | Class::Unsigned, Class::Decimal(precision, scale)) => {
            decimal_of_integer(from).is_none_or(|(digits, _)| digits as i8 > precision as i8 - scale)
        }
        _ => match (from, to) {
            (DataType::List(from), DataType::List(to)) => conversion_can_fail(from.data_type(), to.data_type()),
            (DataType::Struct(from), DataType::Struct(to)) => {
                from.iter().zip(to).any(|(from, to)| conversion_can_fail(from.data_type(), to.data_type()))
            }
            _ => false,
        },
    }
}

/// `10^power` for powers a decimal can have.
pub(crate) fn ten(power: i8) -> i128 {
    10_i128.pow(u32::from(power.unsigned_abs()))
}

/// Unscaled digits as a float.
pub(crate) fn decimal_to_float(unscaled: i128, scale: i8) -> f64 {
    // Both sides are exact up to 2^53 and 10^22, so that the division rounds once: `0.10m` is the float `0.1`.
    unscaled as f64 / 10_f64.powi(scale.into())
}

/// Unscaled digits moved to a larger scale within a number of digits.
pub(crate) fn rescale_up(unscaled: i128, from: i8, to: i8, precision: u8) -> Option<i128> {
    fits(unscaled.checked_mul(ten(to - from))?, precision)
}

/// `unscaled`, if it has no more than `precision` digits.
pub(crate) fn fits(unscaled: i128, precision: u8) -> Option<i128> {
    (unscaled.unsigned_abs() < ten(precision as i8).unsigned_abs()).then_some(unscaled)
}

/// Converts a value as the promotion rules ask.
pub(crate) fn convert(value: Value, from: &DataType, to: &DataType) -> Result<Value, String> {
    let too_large = || format!("value does not fit in {}", name(to));
    let value = match (value, from, to) {
        (Value::List(items), DataType::List(from) | DataType::LargeList(from) | DataType::FixedSizeList(from, _), DataType::List(to)) => {
            let items = items.into_iter().map(|item| convert(item, from.data_type(), to.data_type()));
            return Ok(Value::List(items.collect::<Result<_, _>>()?));
        }
        (Value::Object(members), DataType::Struct(from), DataType::Struct(to)) => {
            let both = members.into_iter().zip(from.iter().zip(to));
            let members = both.map(|(member, (from, to))| convert(member, from.data_type(), to.data_type()));
            return Ok(Value::Object(members.collect::<Result<_, _>>()?));
        }
        (value, DataType::Dictionary(_, values), to) => return convert(value, values, to),
        (value, _, _) => value,
    };
    Ok(match (value, class(to)) {
        (Value::Null, _) => Value::Null,
        (Value::Int(value), Class::Signed | Class::Unsigned) => {
            let (least, most) = integer_range(to).expect("the class is an integer's");
            if value < least || value > most {
                return Err(format!("`{value}` does not fit in {}", name(to)));
            }
            Value::Int(value)
        }
        (Value::Int(value), Class::Float) => Value::Float(value as f64),
        (Value::Int(value), Class::Decimal(precision, scale)) => {
            Value::Decimal(rescale_up(value, 0, scale, precision).ok_or_else(too_large)?)
        }
        (Value::Decimal(value), Class::Float) => Value::Float(decimal_to_float(value, scale_of(from))),
        (Value::Decimal(value), Class::Decimal(precision, scale)) => {
            Value::Decimal(rescale_up(value, scale_of(from), scale, precision).ok_or_else(too_large)?)
        }
        (Value::Time(value), Class::Timestamp(unit, _)) => {
            let (value, rate) = match from {
                DataType::Timestamp(from, _) => (value, per_second(*from)),
                _ => (value * (time::DAY_MS / 1_000), 1),
            };
            let moved = i128::from(value) * i128::from(per_second(unit) / rate);
            Value::Time(i64::try_from(moved).map_err(|_| too_large())?)
        }
        (value, _) => value,
    })
}

pub(crate) fn scale_of(data_type: &DataType) -> i8 {
    if let DataType::Decimal128(_, scale) = data_type { *scale } else { 0 }
}

/// The order of floats everywhere in the engine: -0.0 equals 0.0, all NaN are one value, greater than every other.
pub(crate) fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// An integer and a float by their exact values.
pub(crate) fn compare_integer_float(a: i128, b: f64) -> Ordering {
    if b.is_nan() || b >= 2e19 {
        return Ordering::Less;
    }
    if b <= -2e19 {
        return Ordering::Greater;
    }
    // Within 65 bits the whole part converts exactly; what is left decides between equals.
    let whole = b.trunc();
    a.cmp(&(whole as i128)).then_with(|| 0.0_f64.partial_cmp(&(b - whole)).unwrap_or(Ordering::Equal))
}

/// Two decimals of different scales by their exact values.
pub(crate) fn compare_decimals(a: i128, a_scale: i8, b: i128, b_scale: i8) -> Ordering {
    match a_scale.cmp(&b_scale) {
        Ordering::Equal => a.cmp(&b),
        // What overflows when scaled is larger than any decimal, on its sign's side.
        Ordering::Less => a.checked_mul(ten(b_scale - a_scale)).map_or_else(|| a.cmp(&0), |a| a.cmp(&b)),
        Ordering::Greater => b.checked_mul(ten(a_scale - b_scale)).map_or_else(|| 0.cmp(&b), |b| a.cmp(&b)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_and_floats_compare_by_their_exact_values() {
        let big = 9_007_199_254_740_993_i128;
        assert_eq!(compare_integer_float(big, 9_007_199_254_740_992.0), Ordering::Greater);
        assert_eq!(compare_integer_float(i64::MAX.into(), 9_223_372_036_854_775_808.0), Ordering::Less);
        assert_eq!(compare_integer_float(u64::MAX.into(), 18_446_744_073_709_551_616.0), Ordering::Less);
        assert_eq!(compare_integer_float(0, -0.0), Ordering::Equal);
        assert_eq!(compare_integer_float(0, -0.5), Ordering::Greater);
        assert_eq!(compare_integer_float(-1, -0.5), Ordering::Less);
        assert_eq!(compare_integer_float(5, f64::NAN), Ordering::Less);
        assert_eq!(compare_integer_float(5, f64::NEG_INFINITY), Ordering::Greater);
        assert_eq!(compare_integer_float(5, f64::INFINITY), Ordering::Less);
    }

    #[test]
    fn decimals_of_different_scales_compare_without_overflow() {
        let most = ten(38) - 1;
        assert_eq!(compare_decimals(most, 0, most, 38), Ordering::Greater);
        assert_eq!(compare_decimals(-most, 0, most, 38), Ordering::Less);
        assert_eq!(compare_decimals(most, 38, most, 0), Ordering::Less);
        assert_eq!(compare_decimals(15, 1, 150, 2), Ordering::Equal);
    }

    #[test]
    fn the_common_type_does_not_depend_on_the_side() {
        use DataType::*;
        let types = [
            Null,
            Boolean,
            Int8,
            UInt32,
            Int64,
            UInt64,
            Float32,
            Float64,
            Decimal128(10, 2),
            Decimal128(38, 10),
            Utf8,
            Utf8View,
            Date32,
            Binary,
            Timestamp(TimeUnit::Second, None),
            Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Timestamp(TimeUnit::Millisecond, Some("Europe/Berlin".into())),
            list_of(Null),
            list_of(Int64),
            list_of(list_of(Float64)),
            object_of(vec![("a".into(), Int64), ("b".into(), Utf8View)]),
            object_of(vec![("b".into(), Utf8View), ("a".into(), Int64)]),
            object_of(vec![("a".into(), Decimal128(5, 1)), ("b".into(), Null)]),
        ];
        for a in &types {
            for b in &types {
                assert_eq!(common(a, b), common(b, a), "{a} {b}");
            }
        }
        assert_eq!(common(&Int64, &Decimal128(10, 2)), Some(Decimal128(21, 2)));
        assert_eq!(common(&Int64, &UInt64), Some(Decimal128(20, 0)));
        assert_eq!(common(&Int64, &Utf8), None);
        assert_eq!(common(&list_of(Int64), &list_of(Float64)), Some(list_of(Float64)));
        assert_eq!(common(&list_of(Int64), &list_of(Utf8View)), None);
        assert_eq!(common(&types[20], &types[22]), Some(object_of(vec![("a".into(), Decimal128(20, 1)), ("b".into(), Utf8View)])));
    }
}

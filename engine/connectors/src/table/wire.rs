//! Values of PostgreSQL as they travel, in the binary form.

use super::relation::Natural;
use crate::decode::Value;
use arrow::datatypes::{DataType, TimeUnit};
use std::error::Error as StdError;
use std::fmt::Write as _;
use tokio_postgres::Column;
use tokio_postgres::types::{FromSql, Kind, Type};

/// The bytes of a value, of whatever type.
pub(super) struct Raw<'a>(pub(super) &'a [u8]);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Raw(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// How bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Bool,
    /// Of so many bytes.
    Int(usize),
    /// An object identifier: without a sign.
    Oid,
    Float,
    ShortFloat,
    Numeric,
    Text,
    /// A version, then text.
    Jsonb,
    Bytes,
    Uuid,
    Date,
    Time,
    Timestamp,
}

/// From 1970 to 2000, where its times begin.
const DAYS: i64 = 10_957;
const MICROS: i64 = DAYS * 86_400_000_000;

const ELSEWHERE: &str = "cast it in `query`, for instance to `text`";

/// How values of a type are read; `None` if they are not.
pub(super) fn form(of: &Type) -> Option<Form> {
    Some(match *of {
        Type::BOOL => Form::Bool,
        Type::INT2 => Form::Int(2),
        Type::INT4 => Form::Int(4),
        Type::INT8 => Form::Int(8),
        Type::OID => Form::Oid,
        Type::FLOAT4 => Form::ShortFloat,
        Type::FLOAT8 => Form::Float,
        Type::NUMERIC => Form::Numeric,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::JSON | Type::XML | Type::UNKNOWN => Form::Text,
        Type::JSONB => Form::Jsonb,
        Type::BYTEA => Form::Bytes,
        Type::UUID => Form::Uuid,
        Type::DATE => Form::Date,
        Type::TIME => Form::Time,
        Type::TIMESTAMP | Type::TIMESTAMPTZ => Form::Timestamp,
        _ => match of.kind() {
            Kind::Enum(_) => Form::Text,
            Kind::Domain(inner) => return form(inner),
            _ if of.name() == "citext" => Form::Text,
            _ => return None,
        },
    })
}

/// The type that a column has here, and the database's words for it.
pub(super) fn natural(column: &Column) -> (String, Natural) {
    let mut of = column.type_();
    while let Kind::Domain(inner) = of.kind() {
        of = inner;
    }
    let shown = column.type_().name().to_string();
    let natural = match form(of) {
        None if matches!(of.kind(), Kind::Array(_)) => Natural::Refused("a look-up has no arrays; unnest or cast it in `query`"),
        None => Natural::Refused(ELSEWHERE),
        Some(Form::Numeric) => match decimal(column.type_modifier()) {
            Some(data_type) => Natural::Is(data_type),
            None => Natural::Unclear("a `numeric` without a precision that a decimal can have"),
        },
        Some(form) => Natural::Is(match form {
            Form::Bool => DataType::Boolean,
            Form::Int(2) => DataType::Int16,
            Form::Int(4) => DataType::Int32,
            Form::Int(_) => DataType::Int64,
            Form::Oid => DataType::UInt32,
            Form::ShortFloat => DataType::Float32,
            Form::Float => DataType::Float64,
            Form::Bytes => DataType::Binary,
            Form::Date => DataType::Date32,
            Form::Time => DataType::Time64(TimeUnit::Microsecond),
            Form::Timestamp if *of == Type::TIMESTAMPTZ => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Form::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Form::Text | Form::Jsonb | Form::Uuid | Form::Numeric => DataType::Utf8View,
        }),
    };
    (shown, natural)
}

/// The decimal of a type modifier; none if it says no precision, or one that no decimal has.
fn decimal(modifier: i32) -> Option<DataType> {
    let packed = modifier.checked_sub(4).filter(|packed| *packed >= 0)?;
    let precision = u8::try_from(packed >> 16).ok()?;
    // The scale has eleven bits, and a sign.
    let scale = i8::try_from(((packed & 0x7ff) ^ 0x400) - 0x400).ok()?;
    let fits = scale >= 0 && i16::from(scale) <= i16::from(precision);
    match precision {
        1..=38 if fits => Some(DataType::Decimal128(precision, scale)),
        39..=76 if fits => Some(DataType::Decimal256(precision, scale)),
        _ => None,
    }
}

/// A value. `as_text`: the column is text, so a number is written as one; `scratch` is where that is done.
pub(super) fn value<'a>(form: Form, raw: &'a [u8], as_text: bool, scratch: &'a mut String) -> Value<'a> {
    scratch.clear();
    let number = match form {
        Form::Bool => raw.first().map(|byte| Value::Bool(*byte != 0)),
        Form::Int(_) => int(raw).map(|value| Value::Int(value.into())),
        Form::Oid => raw.try_into().ok().map(|bytes| Value::Int(u32::from_be_bytes(bytes).into())),
        Form::ShortFloat => raw.try_into().ok().map(|bytes| Value::Float(f32::from_be_bytes(bytes).into())),
        Form::Float => raw.try_into().ok().map(|bytes| Value::Float(f64::from_be_bytes(bytes))),
        Form::Text => return Value::Text(raw),
        Form::Jsonb => return raw.strip_prefix(&[1]).map_or(Value::Wrong("a `jsonb` of another version"), Value::Text),
        Form::Bytes => return Value::Bytes(raw),
        Form::Uuid => {
            return match uuid(raw, scratch) {
                Some(()) => Value::Text(scratch.as_bytes()),
                None => Value::Wrong("a `uuid` of another length"),
            };
        }
        Form::Numeric => {
            return match numeric(raw, scratch) {
                Some(()) => Value::Text(scratch.as_bytes()),
                None => Value::Wrong("a `numeric` that is no number"),
            };
        }
        Form::Date => match int(raw) {
            Some(days) if days == i64::from(i32::MAX) || days == i64::from(i32::MIN) => return Value::Wrong("an infinite date"),
            days => days.map(|days| Value::Date(days + DAYS)),
        },
        Form::Time => int(raw).map(|micros| Value::Time(micros, TimeUnit::Microsecond)),
        Form::Timestamp => match int(raw) {
            Some(i64::MAX | i64::MIN) => return Value::Wrong("an infinite timestamp"),
            micros => micros.and_then(|micros| micros.checked_add(MICROS)).map(|micros| Value::Moment(micros, TimeUnit::Microsecond)),
        },
    };
    match number {
        None => Value::Wrong("bytes that are no value of its type"),
        Some(Value::Int(number)) if as_text => {
            let _ = write!(scratch, "{number}");
            Value::Text(scratch.as_bytes())
        }
        Some(Value::Float(number)) if as_text => {
            if form == Form::ShortFloat {
                let _ = write!(scratch, "{}", number as f32);
            } else {
                let _ = write!(scratch, "{number}");
            }
            Value::Text(scratch.as_bytes())
        }
        Some(value) => value,
    }
}

fn int(raw: &[u8]) -> Option<i64> {
    match raw.len() {
        2 => Some(i16::from_be_bytes(raw.try_into().ok()?).into()),
        4 => Some(i32::from_be_bytes(raw.try_into().ok()?).into()),
        8 => Some(i64::from_be_bytes(raw.try_into().ok()?)),
        _ => None,
    }
}

fn uuid(raw: &[u8], out: &mut String) -> Option<()> {
    if raw.len() != 16 {
        return None;
    }
    for (at, byte) in raw.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
    Some(())
}

/// Writes the digits: groups of four, the first of them worth ten thousand to the power of the weight.
fn numeric(raw: &[u8], out: &mut String) -> Option<()> {
    let half = |at: usize| raw.get(at..at + 2).and_then(|pair| pair.try_into().ok()).map(u16::from_be_bytes);
    let (count, weight, sign, scale) = (usize::from(half(0)?), half(2)? as i16, half(4)?, usize::from(half(6)?));
    match sign {
        0x0000 => {}
        0x4000 => out.push('-'),
        0xC000 => {
            out.push_str("NaN");
            return Some(());
        }
        0xD000 => {
            out.push_str("Infinity");
            return Some(());
        }
        0xF000 => {
            out.push_str("-Infinity");
            return Some(());
        }
        _ => return None,
    }
    let group = |place: i32| -> Option<u16> {
        match usize::try_from(i32::from(weight) - place) {
            Ok(at) if at < count => half(8 + 2 * at).filter(|group| *group < 10_000),
            _ => Some(0),
        }
    };
    let first = i32::from(weight).max(0);
    for place in (0..=first).rev() {
        let digits = group(place)?;
        if place == first {
            let _ = write!(out, "{digits}");
        } else {
            let _ = write!(out, "{digits:04}");
        }
    }
    if scale > 0 {
        out.push('.');
        let behind = out.len();
        let mut place = -1;
        while out.len() - behind < scale {
            let _ = write!(out, "{:04}", group(place)?);
            place -= 1;
        }
        out.truncate(behind + scale);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the server writes it.
    fn written(weight: i16, sign: u16, scale: u16, groups: &[u16]) -> Vec<u8> {
        let head = [groups.len() as u16, weight as u16, sign, scale];
        head.iter().chain(groups).flat_map(|half| half.to_be_bytes()).collect()
    }

    fn read(raw: &[u8]) -> Option<String> {
        let mut out = String::new();
        numeric(raw, &mut out).map(|()| out)
    }

    #[test]
    fn a_numeric_keeps_every_digit() {
        for (raw, text) in [
            (written(0, 0, 0, &[]), "0"),
            (written(0, 0, 2, &[12, 5000]), "12.50"),
            (written(2, 0x4000, 0, &[1, 2, 3]), "-100020003"),
            (written(2, 0, 0, &[1]), "100000000"),
            (written(-1, 0, 4, &[1]), "0.0001"),
            (written(-2, 0, 10, &[12]), "0.0000001200"),
            (written(0, 0xC000, 0, &[]), "NaN"),
        ] {
            assert_eq!(read(&raw).as_deref(), Some(text));
        }
        for broken in [&[][..], &[0, 1, 0], &written(0, 1, 0, &[]), &written(0, 0, 0, &[10_000]), &[0, 9, 0, 8, 0, 0, 0, 0, 0, 1]] {
            assert!(read(broken).is_none(), "{broken:?}");
        }
    }

    #[test]
    fn only_a_precision_that_a_decimal_has_is_inferred() {
        let modifier = |precision: i32, scale: i32| ((precision << 16) | (scale & 0x7ff)) + 4;
        assert_eq!(decimal(modifier(12, 2)), Some(DataType::Decimal128(12, 2)));
        assert_eq!(decimal(modifier(76, 0)), Some(DataType::Decimal256(76, 0)));
        for unclear in [-1, modifier(77, 0), modifier(5, -2), modifier(3, 5), modifier(1000, 0)] {
            assert_eq!(decimal(unclear), None, "{unclear}");
        }
    }

    #[test]
    fn what_is_no_value_is_told() {
        let mut scratch = String::new();
        for (form, raw) in
            [(Form::Int(4), &[1u8][..]), (Form::Float, &[]), (Form::Bool, &[]), (Form::Uuid, &[1]), (Form::Jsonb, &[2]), (Form::Oid, &[1])]
        {
            assert!(matches!(value(form, raw, false, &mut scratch), Value::Wrong(_)), "{form:?}");
        }
        assert!(matches!(value(Form::Timestamp, &i64::MAX.to_be_bytes(), false, &mut scratch), Value::Wrong(_)));
        assert!(matches!(value(Form::Date, &0i32.to_be_bytes(), false, &mut scratch), Value::Date(10_957)));
    }
}

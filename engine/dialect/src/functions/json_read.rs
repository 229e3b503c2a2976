//! Typed values from JSON that was found

use super::cast::{decimal_of_text, time_of_day};
use super::json_scan::{Found, Kind, children, compact, unescape};
use crate::time::{parse_timestamp, per_second};
use crate::types::{self, integer_range};
use crate::value::Value;
use arrow::datatypes::{DataType, TimeUnit};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The value of a type that JSON stands for. Numbers are read from their digits.
pub(super) fn typed(found: Found<'_>, ty: &DataType) -> Result<Value, String> {
    if found.kind == Kind::Null {
        return Ok(Value::Null);
    }
    let wrong = || {
        let shown: String = found.text.chars().take(40).collect();
        format!("`{shown}` is not of type {}", types::name(ty))
    };
    let text = || {
        let mut text = String::new();
        match found.kind {
            Kind::Text => unescape(found.text, &mut text).map(|()| text).ok_or_else(wrong),
            _ => Err(wrong()),
        }
    };
    // Numbers that another writer kept in quotes for their exactness.
    let digits = || match found.kind {
        Kind::Number => Ok(found.text.to_string()),
        _ => text(),
    };
    Ok(match ty {
        DataType::Boolean if found.kind == Kind::Bool => Value::Bool(found.text == "true"),
        DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => match found.kind {
            Kind::Text => Value::Text(text()?),
            _ => {
                let mut out = String::new();
                compact(found, &mut out).ok_or_else(wrong)?;
                Value::Text(out)
            }
        },
        DataType::Float64 => Value::Float(digits()?.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(wrong)?),
        DataType::Float32 => {
            let value: f32 = digits()?.parse().ok().filter(|value: &f32| value.is_finite()).ok_or_else(wrong)?;
            Value::Float(value.into())
        }
        DataType::Decimal128(precision, scale) => Value::Decimal(decimal_of_text(&digits()?, *precision, *scale).ok_or_else(wrong)?),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Value::Bytes(STANDARD.decode(text()?).map_err(|_| wrong())?),
        DataType::Timestamp(unit, _) => Value::Time(ticks(&digits()?, found.kind, *unit).ok_or_else(wrong)?),
        DataType::Date32 => {
            let (value, unit) = parse_timestamp(&text()?).ok_or_else(wrong)?;
            Value::Time(value.div_euclid(per_second(unit) * 86_400))
        }
        DataType::Time64(TimeUnit::Microsecond) => Value::Time(time_of_day(&text()?).ok_or_else(wrong)?),
        DataType::List(item) if found.kind == Kind::List => {
            let mut items = Vec::new();
            children(found, |_, child| items.push(typed(child, item.data_type())));
            Value::List(items.into_iter().collect::<Result<_, _>>()?)
        }
        DataType::Struct(fields) if found.kind == Kind::Object => {
            let mut members = vec![Ok(Value::Null); fields.len()];
            let mut name = String::new();
            children(found, |quoted, child| {
                name.clear();
                let known = quoted.and_then(|quoted| unescape(quoted, &mut name)).and_then(|()| fields.find(&name));
                if let Some((at, field)) = known {
                    members[at] = typed(child, field.data_type());
                }
            });
            Value::Object(members.into_iter().collect::<Result<_, _>>()?)
        }
        _ => match integer_range(ty) {
            Some((least, most)) => {
                let value = integer(&digits()?).filter(|value| (least..=most).contains(value));
                Value::Int(value.ok_or_else(wrong)?)
            }
            None => return Err(wrong()),
        },
    })
}

/// A whole number in any of JSON's forms: `12`, `12.0`, `1.2e1`.
fn integer(digits: &str) -> Option<i128> {
    digits.parse().ok().or_else(|| decimal_of_text(digits, 38, 0))
}

/// A time in ISO-8601, or a number of ticks.
fn ticks(digits: &str, kind: Kind, unit: TimeUnit) -> Option<i64> {
    if kind == Kind::Number {
        return i64::try_from(integer(digits)?).ok();
    }
    let (value, from) = parse_timestamp(digits)?;
    let (from, to) = (per_second(from), per_second(unit));
    if to >= from {
        return value.checked_mul(to / from);
    }
    (value % (from / to) == 0).then_some(value / (from / to))
}

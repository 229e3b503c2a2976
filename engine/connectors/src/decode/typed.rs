//! Typed values of the binary formats into columns: exact, or refused.

use super::cells::{Cell, Faults};
use super::column::{Column, Data, Meaning};
use super::times::{in_unit, per_second};
use arrow::datatypes::{TimeUnit, i256};
use std::fmt::Display;

/// A value as it is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Int(i128),
    Float(f64),
    /// Text, which may turn out not to be UTF-8.
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    /// An unscaled value and its scale.
    Decimal(i256, i32),
    Date(i64),
    /// A time of day in a unit.
    Time(i64, TimeUnit),
    /// A time since 1970 in a unit.
    Moment(i64, TimeUnit),
    /// Seconds since 1970 and nanoseconds.
    Instant(i64, u32),
    /// Bytes that are no value of their type, and what is wrong with them.
    Wrong(&'static str),
}

/// A number in another unit, if it can be said exactly.
fn rescaled(value: i64, from: TimeUnit, to: TimeUnit) -> Option<i64> {
    let (from, to) = (per_second(from), per_second(to));
    if to >= from {
        return value.checked_mul(to / from);
    }
    let step = from / to;
    (value % step == 0).then_some(value / step)
}

/// Ten to a power that 256 bits hold.
fn power(exponent: u32) -> Option<i256> {
    i256::from_i128(10).checked_pow(exponent)
}

/// An unscaled value at another scale, if no digit is lost and none is too many.
fn decimal_at(unscaled: i256, from: i32, to: i8, precision: u8) -> Option<i256> {
    let shift = i32::from(to) - from;
    let factor = power(shift.unsigned_abs());
    let value = if unscaled == i256::ZERO {
        i256::ZERO
    } else if shift >= 0 {
        unscaled.checked_mul(factor?)?
    } else {
        let factor = factor?;
        if unscaled.checked_rem(factor)? != i256::ZERO {
            return None;
        }
        unscaled.checked_div(factor)?
    };
    let limit = power(u32::from(precision))?;
    (value < limit && value > limit.wrapping_neg()).then_some(value)
}

impl Value<'_> {
    fn as_unscaled(&self) -> Option<(i256, i32)> {
        match self {
            Value::Int(value) => Some((i256::from_i128(*value), 0)),
            Value::Decimal(unscaled, scale) => Some((*unscaled, *scale)),
            _ => None,
        }
    }

    /// The value for a message.
    fn shown(&self) -> String {
        let shown: &dyn Display = match self {
            Value::Null => &"null",
            Value::Bool(value) => value,
            Value::Wrong(what) => what,
            Value::Int(value) => value,
            Value::Float(value) => value,
            Value::Text(text) => return String::from_utf8_lossy(text).into_owned(),
            Value::Bytes(bytes) => return format!("{} bytes", bytes.len()),
            Value::Decimal(unscaled, scale) => return format!("{unscaled}e-{scale}"),
            Value::Date(days) => return format!("day {days} from 1970"),
            Value::Time(value, unit) => return format!("{value} {unit:?}s of a day"),
            Value::Moment(value, unit) => return format!("{value} {unit:?}s from 1970"),
            Value::Instant(seconds, nanos) => return format!("{seconds} seconds and {nanos} nanoseconds from 1970"),
        };
        shown.to_string()
    }
}

impl Column {
    /// Appends a value, or null and a fault.
    pub(super) fn append_value(&mut self, value: Value<'_>, record: usize, faults: &mut Faults) {
        match value {
            Value::Null => self.append_missing(record, faults),
            Value::Wrong(what) => self.append_wrong(what, record, faults),
            // Everything that can be written as text can be read from it.
            Value::Text(text) => self.append_cells(1, |_| Cell::Text(text), |_| record, faults),
            other => {
                if !self.push(other) {
                    self.append_misfit(record, other.shown().as_bytes(), faults);
                }
            }
        }
    }

    /// Appends a value that fits.
    fn push(&mut self, value: Value<'_>) -> bool {
        let fits = match &mut self.data {
            Data::Bool(values) => match value {
                Value::Bool(value) => {
                    values.append(value);
                    true
                }
                _ => false,
            },
            Data::Int { values, least, most, meaning } => {
                let number = match (value, *meaning) {
                    (Value::Int(value), _) => i64::try_from(value).ok(),
                    (Value::Decimal(..), Meaning::Number) => {
                        value.as_unscaled().and_then(|(unscaled, scale)| decimal_at(unscaled, scale, 0, 38)?.to_i128()?.try_into().ok())
                    }
                    (Value::Date(days), Meaning::Date | Meaning::Number) => Some(days),
                    (Value::Date(days), Meaning::Timestamp(unit, _)) => {
                        days.checked_mul(86_400).and_then(|seconds| in_unit(seconds, 0, unit))
                    }
                    (Value::Time(value, unit), Meaning::Time(to)) => rescaled(value, unit, to),
                    (Value::Moment(value, unit), Meaning::Timestamp(to, _)) => rescaled(value, unit, to),
                    (Value::Time(value, _) | Value::Moment(value, _), Meaning::Number) => Some(value),
                    (Value::Instant(seconds, nanos), Meaning::Timestamp(to, _)) => in_unit(seconds, nanos, to),
                    _ => None,
                };
                let number = number.filter(|number| (*least..=*most).contains(number));
                number.map(|number| values.push(number)).is_some()
            }
            Data::Unsigned(values) => match value {
                Value::Int(value) => u64::try_from(value).map(|value| values.push(value)).is_ok(),
                Value::Decimal(unscaled, scale) => {
                    let number = decimal_at(unscaled, scale, 0, 38).and_then(|value| u64::try_from(value.to_i128()?).ok());
                    number.map(|number| values.push(number)).is_some()
                }
                _ => false,
            },
            Data::Float(values) => match value {
                Value::Float(value) => {
                    values.push(value);
                    true
                }
                // A float holds every integer of 53 bits, of longer ones only some.
                Value::Int(value) if value as f64 as i128 == value => {
                    values.push(value as f64);
                    true
                }
                _ => false,
            },
            Data::ShortFloat(values) => match value {
                Value::Float(value) if value.is_nan() || f64::from(value as f32) == value => {
                    values.push(value as f32);
                    true
                }
                Value::Int(value) if value as f32 as i128 == value => {
                    values.push(value as f32);
                    true
                }
                _ => false,
            },
            Data::Decimal { values, precision, scale } => {
                let unscaled = value.as_unscaled().and_then(|(unscaled, from)| decimal_at(unscaled, from, *scale, *precision)?.to_i128());
                unscaled.map(|unscaled| values.push(unscaled)).is_some()
            }
            Data::LongDecimal { values, precision, scale } => {
                let unscaled = value.as_unscaled().and_then(|(unscaled, from)| decimal_at(unscaled, from, *scale, *precision));
                unscaled.map(|unscaled| values.push(unscaled)).is_some()
            }
            Data::Binary(values) => match value {
                Value::Bytes(bytes) => {
                    values.append_value(bytes);
                    true
                }
                _ => false,
            },
            Data::Text { .. } | Data::List { .. } | Data::Struct(_) => false,
        };
        if fits {
            self.count_one();
        }
        fits
    }
}

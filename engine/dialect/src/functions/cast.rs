//! Casts: exact or a bad row; those that begin with `try` give null instead

use super::args::{Args, Number, Shape};
use super::time_text::Otherwise;
use super::{Function, to_int, to_number};
use crate::Diagnostic;
use crate::node::Node;
use crate::types::{self, Class, DECIMAL_DIGITS, fits, ten};
use crate::value::Value;
use arrow::datatypes::DataType;
use std::fmt::Write;

use Otherwise::{Bad, Null};

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "toDecimal",
        signature: "toDecimal(value, precision, scale) -> decimal",
        doc: "A number or its text, in decimal notation with an exponent or without, as a decimal of `precision` digits (a constant from 1 to 38), `scale` of them decimals (a constant), rounded half away from zero; a float by the digits that `toString` shows. What has more digits before the point, NaN and the infinities, and what is no number in text make a bad row.",
        examples: &[
            ("toDecimal('12345678901234567890.125', 38, 2)", "12345678901234567890.13m"),
            ("toDecimal(7, 10, 2)", "7.00m"),
            ("toDecimal(0.1, 10, 1)", "0.1m"),
            ("toDecimal('1.5e3', 10, 0)", "1500m"),
            ("toDecimal('x', 10, 2)", "error"),
            ("toDecimal(1000, 4, 2)", "error"),
        ],
        arity: (3, 3),
        bind: |args| to_decimal(args, Bad),
    },
    Function {
        name: "tryToDecimal",
        signature: "tryToDecimal(value, precision, scale) -> decimal",
        doc: "As `toDecimal`, but null for what does not fit.",
        examples: &[("tryToDecimal('x', 10, 2)", "null"), ("tryToDecimal('1.5', 10, 2)", "1.50m")],
        arity: (3, 3),
        bind: |args| to_decimal(args, Null),
    },
    Function {
        name: "toFloat",
        signature: "toFloat(value) -> float64",
        doc: "A number, its text in decimal notation, or a bool (0 or 1) as float64, the nearest one. Text that is not a number, or too large, makes a bad row.",
        examples: &[
            ("toFloat(7)", "7.0"),
            ("toFloat('1.5e3')", "1500.0"),
            ("toFloat(0.1m)", "0.1"),
            ("toFloat(true)", "1.0"),
            ("toFloat('x')", "error"),
        ],
        arity: (1, 1),
        bind: |args| to_float(args, Bad),
    },
    Function {
        name: "tryToFloat",
        signature: "tryToFloat(value) -> float64",
        doc: "As `toFloat`, but null for what does not fit.",
        examples: &[("tryToFloat('x')", "null"), ("tryToFloat('1.5')", "1.5")],
        arity: (1, 1),
        bind: |args| to_float(args, Null),
    },
    Function {
        name: "tryToNumber",
        signature: "tryToNumber(value) -> number",
        doc: "As `toNumber`, but null for a text that is not a number.",
        examples: &[("tryToNumber('x')", "null"), ("tryToNumber('1.5')", "1.5"), ("tryToNumber(7)", "7")],
        arity: (1, 1),
        bind: |args| match args.class(0) {
            Class::Text | Class::Null => to_float(args, Null),
            _ => (to_number::FUNCTION.bind)(args),
        },
    },
    Function {
        name: "tryToInt",
        signature: "tryToInt(value) -> int64",
        doc: "As `toInt`, but null for what does not fit.",
        examples: &[("tryToInt('1.5')", "null"), ("tryToInt('15')", "15"), ("tryToInt(1e19)", "null"), ("tryToInt(2.50m)", "2")],
        arity: (1, 1),
        bind: |mut args| match args.class(0) {
            Class::Text => Ok(args.into_int(|row| to_int::read(row.text(0)))),
            Class::Float => {
                args.take(&[Shape::Float])?;
                Ok(args.into_int(|row| to_int::of_float(row.float(0))))
            }
            Class::Unsigned => Ok(args.into_int(|row| i64::try_from(row.wide(0)).ok())),
            Class::Decimal(_, scale) => {
                let unit = ten(scale);
                Ok(args.into_int(move |row| i64::try_from(row.wide(0) / unit).ok()))
            }
            _ => to_int::exact(args),
        },
    },
    Function {
        name: "toBool",
        signature: "toBool(value) -> bool",
        doc: "The texts true and 1 (in any case, white space around them ignored) as true, false and 0 as false; a number that is not zero as true. NaN and any other text make a bad row.",
        examples: &[
            ("toBool(' TRUE ')", "true"),
            ("toBool('0')", "false"),
            ("toBool(2)", "true"),
            ("toBool(0.0)", "false"),
            ("toBool('yes')", "error"),
        ],
        arity: (1, 1),
        bind: |args| to_bool(args, Bad),
    },
    Function {
        name: "tryToBool",
        signature: "tryToBool(value) -> bool",
        doc: "As `toBool`, but null for what is neither.",
        examples: &[("tryToBool('yes')", "null"), ("tryToBool('true')", "true")],
        arity: (1, 1),
        bind: |args| to_bool(args, Null),
    },
    Function {
        name: "toBinary",
        signature: "toBinary(text) -> binary",
        doc: "The bytes of a text in UTF-8; binary stays what it is.",
        examples: &[("hexEncode(toBinary('ä'))", "'c3a4'")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Bytes])?;
            Ok(args.into_bytes(|row, out: &mut Vec<u8>| out.extend_from_slice(row.bytes(0))))
        },
    },
    Function {
        name: "fromUtf8",
        signature: "fromUtf8(binary) -> string",
        doc: "The text that the bytes are in UTF-8; bytes that are not UTF-8 make a bad row.",
        examples: &[("fromUtf8(hexDecode('c3a4'))", "'ä'"), ("fromUtf8(hexDecode('ff'))", "error")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Bytes])?;
            Ok(args.into_text(|row, out: &mut String| match std::str::from_utf8(row.bytes(0)) {
                Ok(text) => {
                    out.push_str(text);
                    Ok(())
                }
                Err(error) => Err(format!("the bytes are not UTF-8 at byte {}", error.valid_up_to())),
            }))
        },
    },
    Function {
        name: "typeOf",
        signature: "typeOf(value) -> string",
        doc: "The name of the value's type, as a `schema` writes it, whatever the value; `null` for the literal.",
        examples: &[("typeOf(1)", "'int64'"), ("typeOf(1.50m)", "'decimal(3,2)'"), ("typeOf(null)", "'null'")],
        arity: (1, 1),
        bind: |args| Ok(Node::literal(Value::Text(types::name(args.ty(0))), DataType::Utf8View, args.span)),
    },
];

fn to_decimal(mut args: Args<'_>, otherwise: Otherwise) -> Result<Node, Diagnostic> {
    let (precision, scale) = match (args.constant_integer(1), args.constant_integer(2)) {
        (Some(precision @ 1..=38), Some(scale)) if (0..=precision).contains(&scale) => (precision as u8, scale as i8),
        (Some(1..=38), _) => return Err(args.refuse(2, "the scale is a constant integer from 0 to the precision")),
        _ => return Err(args.refuse(1, "the precision is a constant integer from 1 to 38")),
    };
    args.nodes.truncate(1);
    let ty = DataType::Decimal128(precision, scale);
    let too_large = move || format!("value does not fit in decimal({precision},{scale})");
    if args.class(0) == Class::Text {
        return Ok(args.into_wide(ty, move |row| {
            let found = read_decimal(row.text(0).trim(), precision, scale, true);
            otherwise.answer(found, || format!("`{}` is not a decimal({precision},{scale})", row.text(0)))
        }));
    }
    let from = match args.number(0)? {
        Number::Float => {
            return Ok(args.into_wide(ty, move |row| {
                let mut digits = Digits::default();
                let _ = write!(digits, "{:e}", row.float(0));
                otherwise.answer(read_decimal(digits.text(), precision, scale, true), too_large)
            }));
        }
        Number::Decimal(_, from) => from,
        Number::Int | Number::Unsigned => 0,
    };
    Ok(args.into_wide(ty, move |row| {
        let moved = match from > scale {
            true => Some(crate::numbers::rescale_down(row.wide(0), from - scale)),
            false => row.wide(0).checked_mul(ten(scale - from)),
        };
        otherwise.answer(moved.and_then(|value| fits(value, precision)), too_large)
    }))
}

/// The digits of a float, without an allocation.
#[derive(Default)]
struct Digits {
    bytes: [u8; 32],
    size: usize,
}

impl Digits {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes[..self.size]).unwrap_or_default()
    }
}

impl Write for Digits {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.size + text.len();
        self.bytes.get_mut(self.size..end).ok_or(std::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.size = end;
        Ok(())
    }
}

/// A number in text as a decimal of that type, if it is one without a digit lost.
pub(super) fn decimal_of_text(text: &str, precision: u8, scale: i8) -> Option<i128> {
    read_decimal(text, precision, scale, false)
}

/// Reads `[+-]digits[.digits][e[+-]digits]`; digits beyond the scale are rounded half away from zero, or refused.
fn read_decimal(text: &str, precision: u8, scale: i8, round: bool) -> Option<i128> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
        // Anything beyond these moves every digit out of sight.
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().ok()?.clamp(-1 << 40, 1 << 40)),
        None => (rest, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if whole.len() + fraction.len() == 0 || !digits().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    // How many of the digits, with zeros behind them if need be, are kept.
    let kept = whole.len() as i64 + exponent + i64::from(scale);
    let mut value = 0_i128;
    let mut up = false;
    for (at, digit) in digits().enumerate() {
        let digit = i128::from(digit - b'0');
        match kept - at as i64 {
            1.. => value = value.checked_mul(10)?.checked_add(digit)?,
            _ if digit != 0 && !round => return None,
            0 => up = digit >= 5,
            _ if !round => {}
            _ => break,
        }
    }
    let missing = kept - (whole.len() + fraction.len()) as i64;
    if missing > 0 && value != 0 {
        value = value.checked_mul(ten(i8::try_from(missing).ok().filter(|missing| *missing <= DECIMAL_DIGITS as i8)?))?;
    }
    let value = fits(value + i128::from(up), precision)?;
    Some(if negative { -value } else { value })
}

/// Microseconds since midnight of `12:30`, `12:30:15`, `12:30:15.123456`.
pub(super) fn time_of_day(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':');
    let mut part = |most: i64| {
        let part = parts.next()?;
        let value: i64 = Some(part).filter(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()?;
        (value <= most).then_some(value)
    };
    let (hour, minute) = (part(23)?, part(59)?);
    let second = if clock.len() > 5 { part(59)? } else { 0 };
    if clock.len() > 8
        || fraction.len() > 6
        || !fraction.bytes().all(|byte| byte.is_ascii_digit())
        || (text.contains('.') && fraction.is_empty())
    {
        return None;
    }
    let micros = if fraction.is_empty() { 0 } else { fraction.parse::<i64>().ok()? * 10_i64.pow(6 - fraction.len() as u32) };
    Some(((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
}

fn to_float(mut args: Args<'_>, otherwise: Otherwise) -> Result<Node, Diagnostic> {
    match args.class(0) {
        Class::Text => {
            Ok(args.into_float(move |row| otherwise.answer(to_number::read(row.text(0)), || format!("`{}` is not a number", row.text(0)))))
        }
        Class::Bool => Ok(args.into_float(|row| f64::from(u8::from(row.bool(0))))),
        Class::Signed | Class::Unsigned | Class::Float | Class::Decimal(..) | Class::Null => {
            args.take(&[Shape::Float])?;
            Ok(args.nodes.remove(0))
        }
        _ => Err(args.wrong(0, "text, a bool or a number")),
    }
}

fn to_bool(mut args: Args<'_>, otherwise: Otherwise) -> Result<Node, Diagnostic> {
    match args.class(0) {
        Class::Text => Ok(args.into_bool(move |row| {
            let text = row.text(0).trim();
            let found = match text {
                "1" => Some(true),
                "0" => Some(false),
                _ if text.eq_ignore_ascii_case("true") => Some(true),
                _ if text.eq_ignore_ascii_case("false") => Some(false),
                _ => None,
            };
            otherwise.answer(found, || format!("`{}` is not a bool", row.text(0)))
        })),
        Class::Bool => Ok(args.nodes.remove(0)),
        _ => match args.number(0)? {
            Number::Float => Ok(args.into_bool(move |row| {
                let found = Some(row.float(0)).filter(|value| !value.is_nan()).map(|value| value != 0.0);
                otherwise.answer(found, || "NaN is not a bool".to_string())
            })),
            _ => Ok(args.into_bool(|row| row.wide(0) != 0)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_from_their_digits() {
        let read = |text| decimal_of_text(text, 38, 2);
        assert_eq!(read("1.5"), Some(150));
        assert_eq!(read("-0.01"), Some(-1));
        assert_eq!(read("1.230"), Some(123));
        assert_eq!(read("1.234"), None);
        assert_eq!(read("12e-1"), Some(120));
        assert_eq!(read("1e36"), None);
        assert_eq!(read("0e999999999999999999"), Some(0));
        assert_eq!(read("1e-999999999"), None);
        assert_eq!(read_decimal("1e-999999999", 38, 2, true), Some(0));
        assert_eq!(read_decimal("0.005", 38, 2, true), Some(1));
        assert_eq!(read_decimal("-0.0049", 38, 2, true), Some(0));
        assert_eq!(read_decimal("99999999999999999999999999999999999999.4", 38, 0, true), Some(ten(38) - 1));
        assert_eq!(read_decimal("99999999999999999999999999999999999999.5", 38, 0, true), None);
        for wrong in ["", "-", ".", "1e", "1.5.2", "1 ", "NaN", "inf", "0x1", "1_0", "ä"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn times_of_day_are_read_to_the_microsecond() {
        assert_eq!(time_of_day("00:00"), Some(0));
        assert_eq!(time_of_day("12:30:15.5"), Some(45_015_500_000));
        for wrong in ["", "1:00", "24:00", "12:60", "12:30:15.", "12:30:15.1234567", "12:30:15:00", "ab:cd"] {
            assert_eq!(time_of_day(wrong), None, "{wrong}");
        }
    }
}

//! Exact arithmetic beyond the operators: signs, remainders, rounding to whole numbers and digits, divisors

use super::args::{Args, Number, Shape};
use super::floor::whole;
use super::rows::In;
use super::{Function, round};
use crate::Diagnostic;
use crate::ast::Arithmetic;
use crate::node::Node;
use crate::numbers::{self, ZERO};
use crate::types::{DECIMAL_DIGITS, ten};
use arrow::datatypes::DataType;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "sign",
        signature: "sign(number) -> number",
        doc: "-1, 0 or 1 as the number is negative, zero or positive: int64 of an integer or a decimal, float64 of a float, NaN of NaN.",
        examples: &[("sign(-7)", "-1"), ("sign(0.00m)", "0"), ("sign(2.5)", "1.0"), ("isNaN(sign(0.0 / 0.0))", "true")],
        arity: (1, 1),
        bind: |mut args| match args.number(0)? {
            Number::Float => Ok(args.float_map(|value| if value == 0.0 || value.is_nan() { value } else { value.signum() })),
            _ => Ok(args.into_int(|row| row.wide(0).signum() as i64)),
        },
    },
    Function {
        name: "trunc",
        signature: "trunc(number) -> number",
        doc: "The number without its decimals, cut towards zero. A float stays a float64, a decimal loses its decimals, an integer stays what it is.",
        examples: &[("trunc(1.9)", "1.0"), ("trunc(-1.9)", "-1.0"), ("trunc(-1.90m)", "-1m"), ("trunc(7)", "7")],
        arity: (1, 1),
        bind: |args| whole(args, f64::trunc, |value, unit| value / unit),
    },
    Function {
        name: "roundTo",
        signature: "roundTo(number, decimals?) -> number",
        doc: "The same as `round`.",
        examples: &[("roundTo(3.14159, 2)", "3.14"), ("roundTo(-2.5)", "-3.0")],
        arity: (1, 2),
        bind: round::FUNCTION.bind,
    },
    Function {
        name: "roundEven",
        signature: "roundEven(number) -> number",
        doc: "The nearest whole number, of two equally near ones the even one, which adds no bias to sums. Types as for `floor`.",
        examples: &[("roundEven(2.5)", "2.0"), ("roundEven(3.5)", "4.0"), ("roundEven(-2.5m)", "-2m"), ("roundEven(2.51m)", "3m")],
        arity: (1, 1),
        bind: |args| whole(args, f64::round_ties_even, even),
    },
    Function {
        name: "mod",
        signature: "mod(a, b) -> number",
        doc: "The remainder of a division cut towards zero, with the sign of `a`, as `a % b`: of integers int64 (uint64 for two uint64), of decimals exact, with a float float64. Zero as an integer or decimal divisor makes a bad row.",
        examples: &[("mod(7, 3)", "1"), ("mod(-7, 3)", "-1"), ("mod(7.5m, 2)", "1.5m"), ("mod(5.5, 2)", "1.5"), ("mod(1, 0)", "error")],
        arity: (2, 2),
        bind: |args| remainder(args, |a, b| Ok(a % b), |a, b| a % b),
    },
    Function {
        name: "floorMod",
        signature: "floorMod(a, b) -> number",
        doc: "The remainder of a division rounded down, with the sign of `b`: `floorMod(-7, 3)` is 2. Types and bad rows as for `mod`.",
        examples: &[
            ("floorMod(7, 3)", "1"),
            ("floorMod(-7, 3)", "2"),
            ("floorMod(7, -3)", "-2"),
            ("floorMod(-0.5, 2)", "1.5"),
            ("floorMod(1, 0)", "error"),
        ],
        arity: (2, 2),
        bind: |args| {
            remainder(
                args,
                |a, b| {
                    let rest = a % b;
                    Ok(if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest })
                },
                |a, b| {
                    let rest = a % b;
                    if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }
                },
            )
        },
    },
    Function {
        name: "gcd",
        signature: "gcd(a, b) -> int64",
        doc: "The greatest common divisor of two integers, never negative; `gcd(0, 0)` is 0. What int64 does not hold makes a bad row.",
        examples: &[("gcd(12, 18)", "6"), ("gcd(-4, 6)", "2"), ("gcd(0, 5)", "5"), ("gcd(0, -9223372036854775808)", "error")],
        arity: (2, 2),
        bind: |mut args| {
            args.take(&[Shape::Integer])?;
            Ok(args.into_int(|row| i64::try_from(gcd(row.int(0), row.int(1))).map_err(|_| overflow())))
        },
    },
    Function {
        name: "lcm",
        signature: "lcm(a, b) -> int64",
        doc: "The least common multiple of two integers, never negative; 0 if one of them is 0. What int64 does not hold makes a bad row.",
        examples: &[("lcm(4, 6)", "12"), ("lcm(0, 6)", "0"), ("lcm(9223372036854775807, 2)", "error")],
        arity: (2, 2),
        bind: |mut args| {
            args.take(&[Shape::Integer])?;
            Ok(args.into_int(|row| {
                let (a, b) = (u128::from(row.int(0).unsigned_abs()), u128::from(row.int(1).unsigned_abs()));
                let divisor = u128::from(gcd(row.int(0), row.int(1))).max(1);
                i64::try_from(a / divisor * b).map_err(|_| overflow())
            }))
        },
    },
    Function {
        name: "factorial",
        signature: "factorial(integer) -> int64",
        doc: "The product of the whole numbers from 1 to the integer; 1 of 0. Negative numbers and those above 20, whose factorial int64 does not hold, make a bad row.",
        examples: &[("factorial(5)", "120"), ("factorial(0)", "1"), ("factorial(20)", "2432902008176640000"), ("factorial(21)", "error")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Integer])?;
            Ok(args.into_int(|row| -> Result<i64, String> {
                match row.int(0) {
                    value @ 0..=20 => Ok((1..=value).product::<i64>()),
                    value => Err(format!("`{value}` has no factorial in int64")),
                }
            }))
        },
    },
];

fn overflow() -> String {
    "integer overflow: the result does not fit in int64".to_string()
}

fn gcd(a: i64, b: i64) -> u64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Digits counted in `unit` to the nearest whole number, halves to the even one.
fn even(value: i128, unit: i128) -> i128 {
    let (quotient, rest) = (value / unit, (value % unit).unsigned_abs());
    let half = unit.unsigned_abs() - rest;
    let away = rest > half || (rest == half && quotient % 2 != 0);
    if away { quotient + value.signum() } else { quotient }
}

/// Integers exactly, decimals at their common scale, floats as floats.
fn remainder(mut args: Args<'_>, exact: fn(i128, i128) -> Result<i128, String>, float: fn(f64, f64) -> f64) -> Result<Node, Diagnostic> {
    let (a, b) = (args.number(0)?, args.number(1)?);
    if a == Number::Float || b == Number::Float {
        args.take(&[Shape::Float])?;
        return Ok(args.into_float(move |row| float(row.float(0), row.float(1))));
    }
    let digits = |number: Number| match number {
        Number::Decimal(precision, scale) => (precision, scale),
        Number::Unsigned => (20, 0),
        _ => (19, 0),
    };
    let ((p1, s1), (p2, s2)) = (digits(a), digits(b));
    if !matches!((a, b), (Number::Decimal(..), _) | (_, Number::Decimal(..))) {
        let (ty, most) = match (a, b) {
            (Number::Unsigned, Number::Unsigned) => (DataType::UInt64, i128::from(u64::MAX)),
            _ => (DataType::Int64, i128::from(i64::MAX)),
        };
        return Ok(args.into_wide(ty, move |row: In<'_>| match row.wide(1) {
            0 => Err(ZERO.to_string()),
            b => exact(row.wide(0), b).and_then(|rest| if rest > most { Err(overflow()) } else { Ok(rest) }),
        }));
    }
    // A remainder is smaller than the divisor, and `floorMod` may move it once by that.
    let scale = s1.max(s2);
    let whole = (p1 as i8 - s1).max(p2 as i8 - s2);
    let precision = (whole + scale).clamp(1, DECIMAL_DIGITS as i8) as u8;
    Ok(args.into_wide(DataType::Decimal128(precision, scale), move |row: In<'_>| {
        if row.wide(1) == 0 {
            return Err(ZERO.to_string());
        }
        let a = numbers::decimal(Arithmetic::Add, (row.wide(0), s1), (0, scale), DECIMAL_DIGITS, scale)?;
        let b = numbers::decimal(Arithmetic::Add, (row.wide(1), s2), (0, scale), DECIMAL_DIGITS, scale)?;
        let rest = exact(a, b)?;
        if rest.unsigned_abs() < ten(precision as i8).unsigned_abs() { Ok(rest) } else { Err(numbers::OVERFLOW.to_string()) }
    }))
}

//! Roots, powers, logarithms, angles: functions of float64

use super::args::Shape;
use super::{Args, Function};
use crate::Diagnostic;
use crate::node::Node;
use crate::value::Value;
use arrow::datatypes::DataType;

/// One float64 to another.
macro_rules! float {
    ($name:literal, $map:expr, $doc:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, "(number) -> float64"),
            doc: $doc,
            examples: &$examples,
            arity: (1, 1),
            bind: |mut args| {
                args.take(&[Shape::Float])?;
                Ok(args.float_map($map))
            },
        }
    };
}

/// Two float64 to one.
macro_rules! floats {
    ($name:literal, $arguments:literal, $map:expr, $doc:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, $arguments, " -> float64"),
            doc: $doc,
            examples: &$examples,
            arity: (2, 2),
            bind: |mut args| {
                args.take(&[Shape::Float])?;
                let map: fn(f64, f64) -> f64 = $map;
                Ok(args.into_float(move |row| map(row.float(0), row.float(1))))
            },
        }
    };
}

/// A question about a float64.
macro_rules! ask {
    ($name:literal, $test:expr, $doc:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, "(number) -> bool"),
            doc: $doc,
            examples: &$examples,
            arity: (1, 1),
            bind: |mut args| {
                args.take(&[Shape::Float])?;
                let test: fn(f64) -> bool = $test;
                Ok(args.into_bool(move |row| test(row.float(0))))
            },
        }
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    float!(
        "sqrt",
        f64::sqrt,
        "The square root; NaN of a negative number.",
        [("sqrt(9)", "3.0"), ("sqrt(2.25m)", "1.5"), ("isNaN(sqrt(-1))", "true")]
    ),
    float!("cbrt", f64::cbrt, "The cube root.", [("cbrt(-27)", "-3.0")]),
    float!(
        "exp",
        f64::exp,
        "e to the power of the number; infinity where float64 ends.",
        [("exp(0)", "1.0"), ("isInfinite(exp(1000))", "true")]
    ),
    float!(
        "ln",
        f64::ln,
        "The natural logarithm; minus infinity of 0, NaN of a negative number.",
        [("ln(1)", "0.0"), ("isNaN(ln(-1))", "true")]
    ),
    float!("log10", f64::log10, "The logarithm to base 10; minus infinity of 0, NaN of a negative number.", [("log10(1000)", "3.0")]),
    float!("log2", f64::log2, "The logarithm to base 2; minus infinity of 0, NaN of a negative number.", [("log2(8)", "3.0")]),
    float!("sin", f64::sin, "The sine of an angle in radians.", [("sin(0)", "0.0")]),
    float!("cos", f64::cos, "The cosine of an angle in radians.", [("cos(0)", "1.0")]),
    float!("tan", f64::tan, "The tangent of an angle in radians.", [("tan(0)", "0.0")]),
    float!(
        "cot",
        |angle| 1.0 / angle.tan(),
        "The cotangent of an angle in radians; infinity of 0.",
        [("round(cot(radians(45)), 12)", "1.0")]
    ),
    float!("asin", f64::asin, "The angle, in radians, of a sine; NaN outside -1 to 1.", [("asin(0)", "0.0"), ("isNaN(asin(2))", "true")]),
    float!("acos", f64::acos, "The angle, in radians, of a cosine; NaN outside -1 to 1.", [("acos(1)", "0.0")]),
    float!("atan", f64::atan, "The angle, in radians, of a tangent.", [("atan(0)", "0.0")]),
    float!("sinh", f64::sinh, "The hyperbolic sine.", [("sinh(0)", "0.0")]),
    float!("cosh", f64::cosh, "The hyperbolic cosine.", [("cosh(0)", "1.0")]),
    float!("tanh", f64::tanh, "The hyperbolic tangent.", [("tanh(0)", "0.0")]),
    float!("degrees", f64::to_degrees, "Radians as degrees.", [("degrees(pi())", "180.0")]),
    float!("radians", f64::to_radians, "Degrees as radians.", [("radians(180) == pi()", "true")]),
    float!("radToDeg", f64::to_degrees, "The same as `degrees`.", [("radToDeg(pi())", "180.0")]),
    float!("degToRad", f64::to_radians, "The same as `radians`.", [("degToRad(180) == pi()", "true")]),
    floats!(
        "pow",
        "(base, exponent)",
        f64::powf,
        "`base` to the power of `exponent`, in float64; NaN of a negative base and a fraction.",
        [("pow(2, 10)", "1024.0"), ("pow(4, 0.5)", "2.0"), ("isNaN(pow(-8, 0.5))", "true"),]
    ),
    floats!("power", "(base, exponent)", f64::powf, "The same as `pow`.", [("power(2, 3)", "8.0")]),
    floats!(
        "atan2",
        "(y, x)",
        f64::atan2,
        "The angle, in radians, between the positive x axis and the point (x, y).",
        [("atan2(0, 1)", "0.0"), ("degrees(atan2(1, 0))", "90.0")]
    ),
    floats!("hypot", "(a, b)", f64::hypot, "The square root of `a * a + b * b`, without overflow on the way.", [("hypot(3, 4)", "5.0")]),
    Function {
        name: "log",
        signature: "log(number, base?) -> float64",
        doc: "The logarithm to `base`, by default the natural one; minus infinity of 0, NaN of a negative number.",
        examples: &[("log(1)", "0.0"), ("log(8, 2)", "3.0"), ("log(100, 10)", "2.0")],
        arity: (1, 2),
        bind: |mut args| {
            args.take(&[Shape::Float])?;
            match args.len() {
                1 => Ok(args.float_map(f64::ln)),
                _ => Ok(args.into_float(|row| log(row.float(0), row.float(1)))),
            }
        },
    },
    ask!(
        "isNaN",
        f64::is_nan,
        "Whether the number is not a number, as 0.0 / 0.0 is. Integers and decimals never are.",
        [("isNaN(0.0 / 0.0)", "true"), ("isNaN(1)", "false"), ("isNaN(null)", "null")]
    ),
    ask!(
        "isFinite",
        f64::is_finite,
        "Whether the number is neither infinite nor NaN.",
        [("isFinite(1.5)", "true"), ("isFinite(1.0 / 0.0)", "false")]
    ),
    ask!(
        "isInfinite",
        f64::is_infinite,
        "Whether the number is plus or minus infinity.",
        [("isInfinite(-1.0 / 0.0)", "true"), ("isInfinite(0.0 / 0.0)", "false")]
    ),
    Function {
        name: "pi",
        signature: "pi() -> float64",
        doc: "The ratio of a circle's circumference to its diameter.",
        examples: &[("pi()", "3.141592653589793")],
        arity: (0, 0),
        bind: |args| constant(args, std::f64::consts::PI),
    },
    Function {
        name: "e",
        signature: "e() -> float64",
        doc: "The base of natural logarithms.",
        examples: &[("e()", "2.718281828459045")],
        arity: (0, 0),
        bind: |args| constant(args, std::f64::consts::E),
    },
];

fn constant(args: Args<'_>, value: f64) -> Result<Node, Diagnostic> {
    Ok(Node::literal(Value::Float(value), DataType::Float64, args.span))
}

/// The exact bases have functions of their own, which are right for whole powers where a quotient of logarithms is not.
fn log(value: f64, base: f64) -> f64 {
    match base {
        2.0 => value.log2(),
        10.0 => value.log10(),
        _ => value.ln() / base.ln(),
    }
}

//! `round`

use super::{Args, Function, kernels};
use crate::numbers::rescale_down;
use crate::types::Class;
use crate::value::Value;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};

/// More decimals than a float64 has digits change nothing.
const MOST_DECIMALS: i128 = 15;

pub(super) const FUNCTION: Function = Function {
    name: "round",
    signature: "round(number, decimals?) -> number",
    doc: "The number rounded half away from zero to `decimals` (a constant from 0 to 15, by default 0). A float64 is scaled by 10^decimals, rounded and scaled back; a decimal is exact and keeps no more decimals than asked; an integer stays what it is.",
    examples: &[
        ("round(2.5)", "3.0"),
        ("round(-2.5)", "-3.0"),
        ("round(3.14159, 2)", "3.14"),
        ("round(1.255m, 2)", "1.26m"),
        ("round(7, 2)", "7"),
    ],
    arity: (1, 2),
    bind: |mut args| {
        let decimals = match args.len() {
            1 => 0,
            _ => match args.constant_integer(1) {
                Some(decimals) if (0..=MOST_DECIMALS).contains(&decimals) => decimals as i8,
                Some(_) | None => return Err(args.refuse(1, "the number of decimals is a constant integer from 0 to 15")),
            },
        };
        args.nodes.truncate(1);
        match args.class(0) {
            Class::Signed | Class::Unsigned => Ok(args.nodes.remove(0)),
            Class::Float | Class::Null => {
                args.convert(0, &DataType::Float64);
                let factor = 10_f64.powi(decimals.into());
                let row = move |args: &[Value]| Ok(Value::Float(rounded(args[0].float(), factor)));
                let kernel = kernels::primitive::<Float64Type, Float64Type>(move |value| rounded(value, factor));
                Ok(Args::call(args, DataType::Float64, false, row, Some(kernel)))
            }
            Class::Decimal(_, scale) if scale <= decimals => Ok(args.nodes.remove(0)),
            Class::Decimal(precision, scale) => {
                let by = scale - decimals;
                let digits = (precision as i8 - by + 1).clamp(1, 38) as u8;
                let ty = DataType::Decimal128(digits, decimals);
                let row = move |args: &[Value]| Ok(Value::Decimal(rescale_down(args[0].integer(), by)));
                let kernel = kernels::primitive::<Decimal128Type, Decimal128Type>(move |value| rescale_down(value, by));
                Ok(Args::call(args, ty.clone(), false, row, Some(kernels::retyped(kernel, ty))))
            }
            Class::Bool | Class::Text | Class::Timestamp(..) | Class::Date | Class::Plain | Class::Other => Err(args.wrong(0, "a number")),
        }
    },
};

fn rounded(value: f64, factor: f64) -> f64 {
    let scaled = value * factor;
    // From 2^52 on a float has no decimals to round, and scaling may have left the range.
    if factor == 1.0 || scaled.abs() >= 4_503_599_627_370_496.0 || scaled.is_nan() {
        return if factor == 1.0 { value.round() } else { value };
    }
    scaled.round() / factor
}

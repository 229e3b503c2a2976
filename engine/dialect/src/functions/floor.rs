//! `floor`

use super::{Args, Function, kernels};
use crate::Diagnostic;
use crate::node::Node;
use crate::types::{Class, ten};
use crate::value::Value;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type};

pub(super) const FUNCTION: Function = Function {
    name: "floor",
    signature: "floor(number) -> number",
    doc: "The largest whole number that is not larger. A float stays a float64, a decimal loses its decimals, an integer stays what it is.",
    examples: &[("floor(1.7)", "1.0"), ("floor(-1.2)", "-2.0"), ("floor(-1.20m)", "-2m"), ("floor(7)", "7")],
    arity: (1, 1),
    bind: |args| whole(args, f64::floor, |value, unit| value.div_euclid(unit)),
};

/// A number to a whole number, by a rule for floats and one for digits and the unit they are counted in.
pub(super) fn whole(mut args: Args<'_>, float: fn(f64) -> f64, decimal: fn(i128, i128) -> i128) -> Result<Node, Diagnostic> {
    match args.class(0) {
        Class::Signed | Class::Unsigned => Ok(args.nodes.remove(0)),
        Class::Float | Class::Null => {
            args.convert(0, &DataType::Float64);
            let row = move |args: &[Value]| Ok(Value::Float(float(args[0].float())));
            Ok(args.call(DataType::Float64, false, row, Some(kernels::primitive::<Float64Type, Float64Type>(float))))
        }
        Class::Decimal(precision, scale) => {
            let unit = ten(scale);
            // Rounding up can need a digit more; 38 digits with decimals to lose always have room for it.
            let digits = (precision as i8 - scale + 1).clamp(1, 38) as u8;
            let ty = DataType::Decimal128(digits, 0);
            let row = move |args: &[Value]| Ok(Value::Decimal(decimal(args[0].integer(), unit)));
            let kernel = kernels::primitive::<Decimal128Type, Decimal128Type>(move |value| decimal(value, unit));
            Ok(args.call(ty.clone(), false, row, Some(kernels::retyped(kernel, ty))))
        }
        Class::Bool | Class::Text | Class::Timestamp(..) | Class::Date | Class::Plain | Class::Other => Err(args.wrong(0, "a number")),
    }
}

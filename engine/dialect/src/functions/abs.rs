//! `abs`

use super::{Args, Function, kernels};
use crate::types::Class;
use crate::value::Value;
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};

pub(super) const FUNCTION: Function = Function {
    name: "abs",
    signature: "abs(number) -> number",
    doc: "The number without its sign; integers as int64 (uint64 stays), floats as float64, decimals as they are. The smallest int64 has no positive counterpart and makes a bad row.",
    examples: &[("abs(-3)", "3"), ("abs(-0.5)", "0.5"), ("abs(-1.50m)", "1.50m"), ("abs(toInt('-9223372036854775808'))", "error")],
    arity: (1, 1),
    bind: |mut args| match args.class(0) {
        Class::Unsigned => Ok(args.nodes.remove(0)),
        Class::Signed | Class::Null => {
            args.integer(0)?;
            let row = |args: &[Value]| match i64::try_from(args[0].integer().abs()) {
                Ok(value) => Ok(Value::Int(value.into())),
                Err(_) => Err("integer overflow in `abs`".to_string()),
            };
            Ok(Args::call(args, DataType::Int64, true, row, Some(kernels::try_primitive::<Int64Type, Int64Type>(i64::checked_abs))))
        }
        Class::Float => {
            args.convert(0, &DataType::Float64);
            let row = |args: &[Value]| Ok(Value::Float(args[0].float().abs()));
            Ok(Args::call(args, DataType::Float64, false, row, Some(kernels::primitive::<Float64Type, Float64Type>(f64::abs))))
        }
        Class::Decimal(..) => {
            let ty = args.ty(0).clone();
            let row = |args: &[Value]| Ok(Value::Decimal(args[0].integer().abs()));
            let kernel = kernels::primitive::<Decimal128Type, Decimal128Type>(i128::wrapping_abs);
            Ok(Args::call(args, ty.clone(), false, row, Some(kernels::retyped(kernel, ty))))
        }
        Class::Bool | Class::Text | Class::Timestamp(..) | Class::Date | Class::Plain | Class::Other => Err(args.wrong(0, "a number")),
    },
};

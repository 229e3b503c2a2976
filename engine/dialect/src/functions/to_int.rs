//! `toInt`

use super::{Args, Function, kernels};
use crate::Diagnostic;
use crate::binder::as_timestamp;
use crate::node::{KernelFn, Node};
use crate::time::per_second;
use crate::types::{Class, ten};
use crate::value::Value;
use arrow::array::{Array, AsArray, Int64Array};
use arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type, TimeUnit};
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

pub(super) const FUNCTION: Function = Function {
    name: "toInt",
    signature: "toInt(value) -> int64",
    doc: "Text in decimal digits, with a sign and white space around it or without, exactly; floats and decimals without their fraction; bools as 0 and 1; timestamps and dates as epoch milliseconds, rounded towards the past. What is not an integer in text, NaN, and what int64 does not hold make a bad row.",
    examples: &[
        ("toInt('9007199254740993')", "9007199254740993"),
        ("toInt(-1.9)", "-1"),
        ("toInt(2.50m)", "2"),
        ("toInt('1.5')", "error"),
        ("toInt(1e19)", "error"),
    ],
    arity: (1, 1),
    bind: exact,
};

/// The rows of these two types never fail; those of the others can.
pub(super) fn exact(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    let operand = args.nodes.remove(0);
    args.nodes.push(as_timestamp(operand));
    let ty = DataType::Int64;
    match args.class(0) {
        Class::Signed | Class::Unsigned | Class::Null => {
            args.integer(0)?;
            Ok(args.nodes.remove(0))
        }
        Class::Text => {
            let row = |args: &[Value]| match read(args[0].text()) {
                Some(value) => Ok(Value::Int(value.into())),
                None => Err(format!("`{}` is not an int64", args[0].text())),
            };
            Ok(args.call(ty, true, row, Some(kernels::try_text_to_primitive::<Int64Type>(read))))
        }
        Class::Float => {
            args.convert(0, &DataType::Float64);
            let row = |args: &[Value]| match of_float(args[0].float()) {
                Some(value) => Ok(Value::Int(value.into())),
                None => Err(format!("`{:?}` does not fit in int64", args[0].float())),
            };
            Ok(args.call(ty, true, row, Some(kernels::try_primitive::<Float64Type, Int64Type>(of_float))))
        }
        Class::Decimal(_, scale) => {
            let unit = ten(scale);
            let map = move |value: i128| i64::try_from(value / unit).ok();
            let row = move |args: &[Value]| match map(args[0].integer()) {
                Some(value) => Ok(Value::Int(value.into())),
                None => Err("decimal does not fit in int64".to_string()),
            };
            Ok(args.call(ty, true, row, Some(kernels::try_primitive::<Decimal128Type, Int64Type>(map))))
        }
        Class::Bool => {
            let row = |args: &[Value]| Ok(Value::Int(matches!(args[0], Value::Bool(true)).into()));
            Ok(args.call(ty, false, row, Some(Arc::new(bools))))
        }
        Class::Timestamp(unit, _) => {
            let map = move |value: i64| match unit {
                TimeUnit::Second => value.checked_mul(1_000),
                TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond => Some(value.div_euclid(per_second(unit) / 1_000)),
            };
            let row = move |args: &[Value]| match map(args[0].integer() as i64) {
                Some(value) => Ok(Value::Int(value.into())),
                None => Err("time is out of range".to_string()),
            };
            let kernel: KernelFn = kernels::for_unit!(unit, try_primitive, Int64Type; map);
            Ok(args.call(ty, unit == TimeUnit::Second, row, Some(kernel)))
        }
        Class::Date | Class::Plain | Class::Other => Err(args.wrong(0, "text, a bool, a time or a number")),
    }
}

pub(super) fn read(text: &str) -> Option<i64> {
    text.trim().parse().ok()
}

pub(super) fn of_float(value: f64) -> Option<i64> {
    // Both bounds are exact: -2^63 fits, 2^63 does not.
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value).then_some(value as i64)
}

fn bools(args: &[ColumnarValue], rows: usize) -> datafusion_common::Result<ColumnarValue> {
    let values = args[0].to_array(rows)?;
    let values = values.as_boolean();
    let numbers: Vec<i64> = (0..rows).map(|row| values.value(row).into()).collect();
    Ok(ColumnarValue::Array(Arc::new(Int64Array::new(numbers.into(), values.nulls().cloned()))))
}

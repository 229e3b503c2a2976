//! `div`

use super::kernels::Integers;
use super::{Args, Function};
use crate::node::KernelFn;
use crate::types::Class;
use crate::value::Value;
use arrow::array::PrimitiveBuilder;
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::exec_err;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

pub(super) const FUNCTION: Function = Function {
    name: "div",
    signature: "div(integer, integer) -> int64",
    doc: "The quotient without its remainder, cut towards zero, so that `div(a, b) * b + a % b` is `a`; uint64 for two uint64. Division by zero makes a bad row.",
    examples: &[("div(7, 2)", "3"), ("div(-7, 2)", "-3"), ("div(toInt('1'), toInt('0'))", "error")],
    arity: (2, 2),
    bind: |mut args| {
        let unsigned = [0, 1].map(|at| args.class(at) == Class::Unsigned);
        let (ty, kernel): (_, Option<KernelFn>) = match unsigned {
            [true, true] => (DataType::UInt64, None),
            _ => {
                args.integer(0)?;
                args.integer(1)?;
                (DataType::Int64, Some(Arc::new(kernel)))
            }
        };
        let fails = args.constant_integer(1).is_none_or(|divisor| divisor == 0 || divisor == -1);
        let row = |args: &[Value]| match (args[0].integer(), args[1].integer()) {
            (_, 0) => Err("division by zero".to_string()),
            (a, b) if a == i64::MIN.into() && b == -1 => Err("integer overflow in `div`".to_string()),
            (a, b) => Ok(Value::Int(a / b)),
        };
        Ok(Args::call(args, ty, fails, row, kernel))
    },
};

fn kernel(args: &[ColumnarValue], rows: usize) -> datafusion_common::Result<ColumnarValue> {
    let (left, right) = (Integers::of(&args[0])?, Integers::of(&args[1])?);
    let mut builder = PrimitiveBuilder::<Int64Type>::with_capacity(rows);
    for row in 0..rows {
        match (left.get(row), right.get(row)) {
            (Some(a), Some(b)) => match a.checked_div(b) {
                Some(quotient) => builder.append_value(quotient),
                None => return exec_err!("a row failed"),
            },
            (_, _) => builder.append_null(),
        }
    }
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}

//! Numbers out of lists: `listSum`, `listAvg`

use super::list_kernels::listed;
use super::{Args, Function};
use crate::Diagnostic;
use crate::ast::Arithmetic;
use crate::compile::flat::Flat;
use crate::node::{KernelFn, Node};
use crate::numbers;
use crate::types::{Class, DECIMAL_DIGITS, class, fits, integer_range, list_of};
use crate::value::{Value, build};
use arrow::array::{Array, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion_common::{Result, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "listSum",
        signature: "listSum(list of numbers) -> number",
        doc: "The sum of the elements that are not null, 0 if there are none: int64 or uint64 (overflow makes a bad row), float64 (added from left to right), or a decimal of 38 digits.",
        examples: &[
            ("listSum([1, null, 2])", "3"),
            ("listSum([0.5, 1.5])", "2.0"),
            ("listSum([1.10m, 2.20m])", "3.30m"),
            ("listSum([])", "0"),
            ("listSum([9223372036854775807, 1])", "error"),
        ],
        arity: (1, 1),
        bind: sum,
    },
    Function {
        name: "listAvg",
        signature: "listAvg(list of numbers) -> number",
        doc: "The mean of the elements that are not null, null if there are none: a float64, or for decimals a decimal of 38 digits with at least 6 decimals, rounded half away from zero.",
        examples: &[("listAvg([1, null, 2])", "1.5"), ("listAvg([1m, 2m, 2m])", "1.666667m"), ("listAvg([])", "null")],
        arity: (1, 1),
        bind: average,
    },
];

/// Requires a list of numbers, in the type they are added in.
fn numeric(args: &mut Args<'_>) -> std::result::Result<DataType, Diagnostic> {
    let item = listed(args, 0)?;
    let ty = match class(&item) {
        Class::Signed | Class::Null => DataType::Int64,
        Class::Unsigned => DataType::UInt64,
        Class::Float => DataType::Float64,
        Class::Decimal(..) => item,
        _ => return Err(args.wrong(0, "a list of numbers")),
    };
    args.convert(0, &list_of(ty.clone()));
    Ok(ty)
}

/// The sum of values that are not null, all of type `ty`, and their number.
fn add<'a>(values: impl Iterator<Item = &'a Value>, ty: &DataType) -> std::result::Result<(Value, i128), String> {
    let (mut whole, mut float, mut count) = (0_i128, 0.0, 0);
    for value in values.filter(|value| !value.is_null()) {
        count += 1;
        float += value.float();
        whole = whole.checked_add(value.integer()).ok_or(numbers::OVERFLOW)?;
    }
    let sum = match class(ty) {
        Class::Float => Value::Float(float),
        Class::Decimal(..) => Value::Decimal(whole),
        _ => Value::Int(whole),
    };
    Ok((sum, count))
}

pub(super) fn sum(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    let ty = numeric(&mut args)?;
    let result = match class(&ty) {
        Class::Decimal(_, scale) => DataType::Decimal128(DECIMAL_DIGITS, scale),
        _ => ty.clone(),
    };
    let (of, to) = (ty.clone(), result.clone());
    let row = move |args: &[Value]| match add(args[0].list().iter(), &of)?.0 {
        Value::Decimal(sum) => fits(sum, DECIMAL_DIGITS).map(Value::Decimal).ok_or_else(|| numbers::OVERFLOW.to_string()),
        Value::Int(sum) if integer_range(&to).is_none_or(|(least, most)| sum < least || sum > most) => {
            Err("integer overflow: the sum does not fit in its type".to_string())
        }
        sum => Ok(sum),
    };
    let kernel: KernelFn = match ty {
        DataType::Float64 => Arc::new(|args, rows| floats(args, rows, |sum, _| Some(sum))),
        _ => whole(result.clone(), row.clone()),
    };
    Ok(args.call(result, ty != DataType::Float64, row, Some(kernel)))
}

fn average(mut args: Args<'_>) -> std::result::Result<Node, Diagnostic> {
    let ty = numeric(&mut args)?;
    let result = match class(&ty) {
        Class::Decimal(_, scale) => DataType::Decimal128(DECIMAL_DIGITS, scale.max(6)),
        _ => DataType::Float64,
    };
    let of = ty.clone();
    let row = move |args: &[Value]| {
        Ok(match (add(args[0].list().iter(), &of)?, class(&of)) {
            ((_, 0), _) => Value::Null,
            ((Value::Float(sum), count), _) => Value::Float(sum / count as f64),
            ((Value::Decimal(sum), count), Class::Decimal(_, scale)) => {
                let quotient = numbers::decimal(Arithmetic::Divide, (sum, scale), (count, 0), DECIMAL_DIGITS, scale.max(6));
                Value::Decimal(quotient.map_err(str::to_string)?)
            }
            ((sum, count), _) => Value::Float(sum.integer() as f64 / count as f64),
        })
    };
    let kernel: KernelFn = match ty {
        DataType::Float64 => Arc::new(|args, rows| floats(args, rows, |sum, count| (count > 0).then(|| sum / count as f64))),
        _ => whole(result.clone(), row.clone()),
    };
    let fails = matches!(class(&ty), Class::Decimal(..));
    Ok(args.call(result, fails, row, Some(kernel)))
}

/// Sums of float64, without a detour through values.
fn floats(args: &[ColumnarValue], rows: usize, finish: impl Fn(f64, usize) -> Option<f64>) -> Result<ColumnarValue> {
    let flat = Flat::of(&args[0], rows)?;
    let Some(elements) = flat.elements.as_primitive_opt::<Float64Type>() else {
        return exec_err!("expected float64, found {}", flat.elements.data_type());
    };
    let answer = |row: usize| {
        let (mut sum, mut count) = (0.0, 0);
        for at in flat.range(row).filter(|at| elements.is_valid(*at)) {
            sum += elements.value(at);
            count += 1;
        }
        if flat.is_null(row) { None } else { finish(sum, count) }
    };
    Ok(ColumnarValue::Array(Arc::new((0..rows).map(answer).collect::<Float64Array>())))
}

/// Sums of integers and decimals: the definition itself, over one buffer of values.
fn whole(ty: DataType, row: impl Fn(&[Value]) -> std::result::Result<Value, String> + Send + Sync + 'static) -> KernelFn {
    Arc::new(move |args, rows| {
        let flat = Flat::of(&args[0], rows)?;
        let mut answers = Vec::with_capacity(rows);
        let mut list = [Value::List(Vec::new())];
        for at in 0..rows {
            if flat.is_null(at) {
                answers.push(Value::Null);
                continue;
            }
            if let Value::List(items) = &mut list[0] {
                items.clear();
                items.extend(flat.range(at).map(|at| Value::read(&flat.elements, at)));
            }
            match row(&list) {
                Ok(answer) => answers.push(answer),
                Err(message) => return exec_err!("{message}"),
            }
        }
        Ok(ColumnarValue::Array(build(&ty, &answers)))
    })
}

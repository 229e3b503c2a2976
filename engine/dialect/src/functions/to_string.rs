//! `toString`

use super::{Args, Function, find, kernels};
use crate::Diagnostic;
use crate::node::Node;
use crate::time::{write_date, write_iso};
use crate::types::Class;
use crate::value::Value;
use arrow::array::{Array, AsArray, StringViewArray};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int64Type, UInt64Type};
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::fmt::Write;
use std::sync::Arc;

pub(super) const FUNCTION: Function = Function {
    name: "toString",
    signature: "toString(value) -> string",
    doc: "The value as text: integers in digits, decimals with all their decimals, floats as the shortest text that reads back (`1.0`, `1e21`, `NaN`, `inf`), bools as `true` and `false`, timestamps as `epochToIso`, dates as `2026-01-31`. Text stays what it is; lists, structs and binary have no text.",
    examples: &[
        ("toString(-7)", "'-7'"),
        ("toString(1.50m)", "'1.50'"),
        ("toString(1.0)", "'1.0'"),
        ("toString(1e21)", "'1e21'"),
        ("toString(true)", "'true'"),
        ("toString(ts'2026-01-31')", "'2026-01-31T00:00:00.000Z'"),
        ("toString(null)", "null"),
    ],
    arity: (1, 1),
    bind: |args| written(&args, 0),
};

/// An argument as text.
pub(super) fn written(args: &Args<'_>, at: usize) -> Result<Node, Diagnostic> {
    let function = find("toString").unwrap_or(&super::functions()[0]);
    let mut inner = Args::new("", function, args.nodes[at].span.clone(), vec![args.nodes[at].clone()]);
    let text = |row: fn(&Value, &mut String)| {
        move |args: &[Value]| {
            let mut out = String::new();
            row(&args[0], &mut out);
            Ok(Value::Text(out))
        }
    };
    let ty = DataType::Utf8View;
    Ok(match inner.class(0) {
        Class::Text => inner.nodes.remove(0),
        Class::Null => {
            inner.text(0)?;
            inner.nodes.remove(0)
        }
        Class::Signed => {
            inner.integer(0)?;
            let kernel = kernels::primitive_to_text::<Int64Type>(show);
            inner.call(ty, false, text(|value, out| show(value.integer(), out)), Some(kernel))
        }
        Class::Unsigned => {
            let kernel = kernels::primitive_to_text::<UInt64Type>(show);
            inner.call(ty, false, text(|value, out| show(value.integer(), out)), Some(kernel))
        }
        Class::Float if *inner.ty(0) == DataType::Float32 => {
            let kernel = kernels::primitive_to_text::<Float32Type>(debug);
            inner.call(ty, false, text(|value, out| debug(value.float() as f32, out)), Some(kernel))
        }
        Class::Float => {
            let kernel = kernels::primitive_to_text::<Float64Type>(debug);
            inner.call(ty, false, text(|value, out| debug(value.float(), out)), Some(kernel))
        }
        Class::Decimal(_, scale) => {
            let kernel = kernels::primitive_to_text::<Decimal128Type>(move |value, out| write_decimal(value, scale, out));
            let row = move |args: &[Value]| {
                let mut out = String::new();
                write_decimal(args[0].integer(), scale, &mut out);
                Ok(Value::Text(out))
            };
            inner.call(ty, false, row, Some(kernel))
        }
        Class::Bool => {
            let row = |args: &[Value]| Ok(Value::Text(if matches!(args[0], Value::Bool(true)) { "true" } else { "false" }.to_string()));
            inner.call(ty, false, row, Some(Arc::new(bools)))
        }
        Class::Date => {
            let kernel = kernels::primitive_to_text::<Date32Type>(|days, out| write_date(out, days.into()));
            inner.call(ty, false, text(|value, out| write_date(out, value.integer() as i64)), Some(kernel))
        }
        Class::Timestamp(unit, _) => {
            let kernel = kernels::for_unit!(unit, primitive_to_text; move |value: i64, out: &mut String| write_iso(out, value, unit));
            let row = move |args: &[Value]| {
                let mut out = String::new();
                write_iso(&mut out, args[0].integer() as i64, unit);
                Ok(Value::Text(out))
            };
            inner.call(ty, false, row, Some(kernel))
        }
        Class::Plain | Class::Other => return Err(args.wrong(at, "a value that has a text")),
    })
}

fn show(value: impl std::fmt::Display, out: &mut String) {
    let _ = write!(out, "{value}");
}

/// Rust's debug form of a float is the shortest that reads back, with `.0` or an exponent.
fn debug(value: impl std::fmt::Debug, out: &mut String) {
    let _ = write!(out, "{value:?}");
}

/// Digits with the point in its place.
pub(crate) fn write_decimal(value: i128, scale: i8, out: &mut String) {
    let digits = format!("{:0>width$}", value.unsigned_abs(), width = scale as usize + 1);
    if value < 0 {
        out.push('-');
    }
    let (whole, fraction) = digits.split_at(digits.len() - scale as usize);
    out.push_str(whole);
    if scale > 0 {
        out.push('.');
        out.push_str(fraction);
    }
}

fn bools(args: &[ColumnarValue], rows: usize) -> datafusion_common::Result<ColumnarValue> {
    let values = args[0].to_array(rows)?;
    let values = values.as_boolean();
    let text = |row| (!values.is_null(row)).then(|| if values.value(row) { "true" } else { "false" });
    Ok(ColumnarValue::Array(Arc::new((0..rows).map(text).collect::<StringViewArray>())))
}

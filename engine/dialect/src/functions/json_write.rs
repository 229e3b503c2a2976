//! Values of any type as JSON text

use super::json_scan::quote;
use super::to_string::write_decimal;
use crate::time::{per_second, write_date, write_iso};
use crate::value::Value;
use arrow::array::{Array, AsArray};
use arrow::datatypes::DataType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::fmt::Write;

/// Appends the value of a row.
pub(super) fn write(array: &dyn Array, row: usize, out: &mut String) -> Result<(), String> {
    if array.is_null(row) {
        out.push_str("null");
        return Ok(());
    }
    match array.data_type() {
        DataType::List(_) => elements(array.as_list::<i32>().value(row).as_ref(), out)?,
        DataType::LargeList(_) => elements(array.as_list::<i64>().value(row).as_ref(), out)?,
        DataType::FixedSizeList(..) => elements(array.as_fixed_size_list().value(row).as_ref(), out)?,
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            for (at, (field, column)) in fields.iter().zip(columns).enumerate() {
                out.push(if at == 0 { '{' } else { ',' });
                quote(field.name(), out);
                out.push(':');
                write(column.as_ref(), row, out)?;
            }
            out.push_str(if columns.is_empty() { "{}" } else { "}" });
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (names, values) = (entries.column(0), entries.column(1));
            for at in 0..entries.len() {
                out.push(if at == 0 { '{' } else { ',' });
                match Value::read(names.as_ref(), at) {
                    Value::Text(name) => quote(&name, out),
                    other => quote(&format!("{other:?}"), out),
                }
                out.push(':');
                write(values.as_ref(), at, out)?;
            }
            out.push_str(if entries.is_empty() { "{}" } else { "}" });
        }
        ty => scalar(&Value::read(array, row), ty, out)?,
    }
    Ok(())
}

fn elements(items: &dyn Array, out: &mut String) -> Result<(), String> {
    out.push('[');
    for at in 0..items.len() {
        if at > 0 {
            out.push(',');
        }
        write(items, at, out)?;
    }
    out.push(']');
    Ok(())
}

fn scalar(value: &Value, ty: &DataType, out: &mut String) -> Result<(), String> {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Int(value) => {
            let _ = write!(out, "{value}");
        }
        Value::Float(value) if !value.is_finite() => out.push_str("null"),
        Value::Float(value) => {
            // A float32 has fewer digits than the float64 it is held in.
            let _ = if *ty == DataType::Float32 { write!(out, "{:?}", *value as f32) } else { write!(out, "{value:?}") };
        }
        Value::Decimal(value) => write_decimal(*value, crate::types::scale_of(ty), out),
        Value::Text(text) => quote(text, out),
        Value::Bytes(bytes) => quote(&STANDARD.encode(bytes), out),
        Value::Time(ticks) => {
            out.push('"');
            match ty {
                DataType::Timestamp(unit, _) => write_iso(out, *ticks, *unit),
                DataType::Time32(unit) | DataType::Time64(unit) => {
                    let rate = per_second(*unit);
                    let (seconds, micros) = (ticks.div_euclid(rate), i128::from(ticks.rem_euclid(rate)) * 1_000_000 / i128::from(rate));
                    let _ = write!(out, "{:02}:{:02}:{:02}.{micros:06}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
                }
                DataType::Date64 => write_date(out, ticks.div_euclid(crate::time::DAY_MS)),
                _ => write_date(out, *ticks),
            }
            out.push('"');
        }
        _ => return Err(format!("{ty} has no JSON form")),
    }
    Ok(())
}

//! Protobuf: a message for every row, with the fields that its columns are named after.
//!
//! What a message cannot say is refused, never changed: null in a field that does not tell absence from the default, a list
//! that is null, a number that its field does not hold.

use super::messages::{Encoded, MessageEncoder};
use super::values::{Value, Values, date, decimal, moment, split, time};
use crate::decode::protobuf::plan::{FIXED32, FIXED64, FieldPlan, Item, LENGTH, MessagePlan, Scalar};
use crate::decode::protobuf::{ProtobufFormat, ProtobufFraming};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tidegate_api::sink::RowError;
use tidegate_api::{Error, Result};

/// Writes messages.
pub struct ProtobufMessages {
    plan: MessagePlan,
    header: Vec<u8>,
}

impl ProtobufMessages {
    /// An encoder of rows of this schema. `id` is that of the schema in a registry, for messages framed so.
    ///
    /// # Errors
    /// `Config` for a column that the message lacks, or that its field cannot hold, and for a message of a registry that is
    /// declared inside another, which its header could not name here.
    pub fn new(schema: &SchemaRef, format: &ProtobufFormat, id: u32) -> Result<Self> {
        let plan = MessagePlan::of(format.message(), schema.fields())?;
        let header = match format.framing() {
            ProtobufFraming::Bare => Vec::new(),
            ProtobufFraming::Registry => {
                let message = format.message();
                let place = message.parent_file().messages().position(|other| other == *message);
                let place = place.ok_or_else(|| Error::config(format!("`{}` is declared inside another message", message.full_name())))?;
                let mut header = vec![0];
                header.extend(id.to_be_bytes());
                if place == 0 {
                    header.push(0);
                } else {
                    // Zigzag: a path of one step.
                    varint(2, &mut header);
                    varint(2 * place as u64, &mut header);
                }
                header
            }
        };
        Ok(ProtobufMessages { plan, header })
    }
}

/// Why a row was refused: the column and the reason.
struct Refusal(String, String);

impl MessageEncoder for ProtobufMessages {
    fn encode(&mut self, rows: &RecordBatch) -> Result<Encoded> {
        let columns = Values::of_rows(rows)?;
        let mut encoded = Encoded::default();
        for row in 0..rows.num_rows() {
            let begun = encoded.bytes.len();
            encoded.bytes.extend_from_slice(&self.header);
            match write_message(&self.plan, &columns, row, &mut encoded.bytes) {
                Ok(()) => encoded.ends.push(encoded.bytes.len()),
                Err(Refusal(column, message)) => {
                    encoded.bytes.truncate(begun);
                    encoded.refused.push(RowError { row, column: Some(column), message });
                }
            }
        }
        Ok(encoded)
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7F {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn key(field: &FieldPlan, wire: u8, out: &mut Vec<u8>) {
    varint(u64::from(field.number) << 3 | u64::from(wire), out);
}

/// Appends what `write` makes with its length before it.
fn with_length(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), Refusal>) -> Result<(), Refusal> {
    let begun = out.len();
    write(out)?;
    let length = out.len() - begun;
    varint(length as u64, out);
    let size = out.len() - begun - length;
    // The length was written behind and changes places with the content.
    out[begun..].rotate_right(size);
    Ok(())
}

fn write_message(plan: &MessagePlan, columns: &[(String, Values)], row: usize, out: &mut Vec<u8>) -> Result<(), Refusal> {
    for field in &plan.fields {
        let Some(column) = field.column else { continue };
        let (name, values) = &columns[column];
        let refuse = |message: &str| Err(Refusal(name.clone(), message.to_string()));
        match (values.get(row), field.repeated) {
            (Value::List(items, inner), true) => {
                for item in items {
                    match inner.get(item) {
                        Value::Null => return refuse("a Protobuf list cannot hold null"),
                        _ => write_item(field, name, inner, item, true, out)?,
                    }
                }
            }
            (Value::Null, true) => return refuse("a Protobuf list cannot be null, only empty"),
            (Value::Null, false) if !field.presence => return refuse("the field cannot be null; make it `optional`"),
            (Value::Null, false) => {}
            _ => write_item(field, name, values, row, field.presence, out)?,
        }
    }
    Ok(())
}

/// Writes a value with its key; the default of a field is left out unless it is to be seen.
fn write_item(field: &FieldPlan, name: &str, values: &Values, row: usize, seen: bool, out: &mut Vec<u8>) -> Result<(), Refusal> {
    let misfit = |what: String| Refusal(name.to_string(), what);
    match &field.item {
        Item::Scalar(scalar) => {
            let begun = out.len();
            key(field, scalar.wire(), out);
            let empty = write_scalar(scalar, values.get(row), out).map_err(misfit)?;
            if empty && !seen {
                out.truncate(begun);
            }
        }
        Item::Message(plan) => {
            let Value::Struct(fields) = values.get(row) else { return Err(misfit("no struct".into())) };
            key(field, LENGTH, out);
            with_length(out, |out| write_message(plan, fields, row, out))?;
        }
        Item::Instant => {
            let Value::Moment(value, unit, _) = values.get(row) else { return Err(misfit("no timestamp".into())) };
            let (seconds, nanos) = split(value, unit);
            key(field, LENGTH, out);
            with_length(out, |out| {
                if seconds != 0 {
                    out.push(1 << 3);
                    varint(seconds as u64, out);
                }
                if nanos != 0 {
                    out.push(2 << 3);
                    varint(u64::from(nanos), out);
                }
                Ok(())
            })?;
        }
        Item::Wrapper(scalar) => {
            key(field, LENGTH, out);
            with_length(out, |out| {
                let begun = out.len();
                out.push(1 << 3 | scalar.wire());
                if write_scalar(scalar, values.get(row), out).map_err(misfit)? {
                    out.truncate(begun);
                }
                Ok(())
            })?;
        }
    }
    Ok(())
}

/// Writes a value without its key; answers whether it is the default.
fn write_scalar(scalar: &Scalar, value: Value<'_>, out: &mut Vec<u8>) -> Result<bool, String> {
    let wire = scalar.wire();
    if wire == LENGTH {
        return write_bytes(scalar, value, out);
    }
    let bits = match scalar {
        Scalar::Double => match value {
            Value::Float(value) => value.to_bits(),
            Value::ShortFloat(value) => f64::from(value).to_bits(),
            Value::Int(value) if value as f64 as i128 == value => (value as f64).to_bits(),
            _ => return Err("the value does not fit a `double`".into()),
        },
        Scalar::Float => match value {
            Value::ShortFloat(value) => u64::from(value.to_bits()),
            Value::Float(value) if value.is_nan() || f64::from(value as f32) == value => u64::from((value as f32).to_bits()),
            Value::Int(value) if value as f32 as i128 == value => u64::from((value as f32).to_bits()),
            _ => return Err("the value does not fit a `float`".into()),
        },
        Scalar::Bool => match value {
            Value::Bool(value) => u64::from(value),
            _ => return Err("the value does not fit a `bool`".into()),
        },
        Scalar::Symbol(names) => match value {
            Value::Text(text) => {
                let known = names.iter().find(|(_, name)| *name == text).map(|(number, _)| *number);
                // A number stands for a symbol that the descriptor did not know.
                let number = known.or_else(|| text.parse().ok()).ok_or_else(|| format!("the enum has no symbol `{text}`"))?;
                i64::from(number) as u64
            }
            _ => return Err("the value is no symbol of the enum".into()),
        },
        _ => {
            let number = match value {
                Value::Int(value) => value,
                Value::Date(days) => i128::from(days),
                Value::Time(value, _) | Value::Moment(value, _, _) => i128::from(value),
                _ => return Err("the value is no integer".into()),
            };
            let outside = |_| format!("{number} does not fit the field");
            let short = || i32::try_from(number).map_err(outside);
            let long = || i64::try_from(number).map_err(outside);
            match scalar {
                Scalar::Int32 | Scalar::Enum => i64::from(short()?) as u64,
                Scalar::Sfixed32 => u64::from(short()? as u32),
                Scalar::Sint32 => {
                    let value = short()?;
                    u64::from((value << 1 ^ value >> 31) as u32)
                }
                Scalar::Uint32 | Scalar::Fixed32 => u64::from(u32::try_from(number).map_err(outside)?),
                Scalar::Uint64 | Scalar::Fixed64 => u64::try_from(number).map_err(outside)?,
                Scalar::Sint64 => {
                    let value = long()?;
                    (value << 1 ^ value >> 63) as u64
                }
                _ => long()? as u64,
            }
        }
    };
    match wire {
        FIXED64 => out.extend_from_slice(&bits.to_le_bytes()),
        FIXED32 => out.extend_from_slice(&(bits as u32).to_le_bytes()),
        _ => varint(bits, out),
    }
    Ok(bits == 0)
}

fn write_bytes(scalar: &Scalar, value: Value<'_>, out: &mut Vec<u8>) -> Result<bool, String> {
    let mut text = String::new();
    let bytes: &[u8] = match (scalar, value) {
        (Scalar::Bytes, Value::Bytes(bytes)) => bytes,
        (Scalar::String, Value::Text(text)) => text.as_bytes(),
        (Scalar::String, value) => {
            match value {
                Value::Bool(value) => text = value.to_string(),
                Value::Int(value) => text = value.to_string(),
                Value::Float(value) => text = format!("{value:?}"),
                Value::ShortFloat(value) => text = format!("{value:?}"),
                Value::Decimal(unscaled, scale) => decimal(unscaled, scale, &mut text),
                Value::Date(days) => date(i64::from(days), &mut text),
                Value::Time(value, unit) => {
                    let (seconds, nanos) = split(value, unit);
                    time(seconds, nanos, &mut text);
                }
                Value::Moment(value, unit, zone) => moment(value, unit, zone, &mut text),
                Value::Null | Value::Text(_) | Value::Bytes(_) | Value::List(..) | Value::Struct(_) => {
                    return Err("the value is no text".into());
                }
            }
            text.as_bytes()
        }
        _ => return Err("the value is no bytes".into()),
    };
    varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
    Ok(bytes.is_empty())
}

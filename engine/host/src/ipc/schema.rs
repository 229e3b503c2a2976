//! A guest's schema messages. Decoding is our own: the library's conversion panics on what it does not know.

use super::plain;
use arrow::array::timezone::Tz;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use arrow_ipc::{DateUnit, Endianness, MessageHeader, Precision, Type};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const MAX_DEPTH: usize = 16;
const MAX_COLUMNS: usize = 10_000;

/// Splits an encapsulated message into its metadata and what follows.
pub(super) fn split_message(bytes: &[u8]) -> Result<(&[u8], usize), String> {
    let Some(([0xff, 0xff, 0xff, 0xff, length @ ..], _)) = bytes.split_first_chunk::<8>() else {
        return Err("it is no encapsulated Arrow IPC message: the continuation marker is missing".into());
    };
    let length = u32::from_le_bytes(*length) as usize;
    let metadata = bytes.get(8..).and_then(|rest| rest.get(..length));
    let metadata = metadata.ok_or_else(|| format!("its metadata is cut off: {length} bytes announced, {} there", bytes.len() - 8))?;
    Ok((metadata, 8 + length))
}

/// Reads a guest's schema message.
pub(crate) fn decode_schema(bytes: &[u8]) -> Result<Schema, String> {
    let (metadata, _) = split_message(bytes)?;
    let aligned = Aligned::of(metadata);
    let message = arrow_ipc::root_as_message(aligned.bytes()).map_err(|error| format!("its metadata is damaged: {error}"))?;
    if message.header_type() != MessageHeader::Schema {
        return Err("it is another kind of Arrow IPC message".into());
    }
    let schema = message.header_as_schema().ok_or("its header is missing")?;
    if schema.endianness() != Endianness::Little {
        return Err("it is big-endian".into());
    }
    let fields = schema.fields().ok_or("it lists no fields")?;
    if fields.len() > MAX_COLUMNS {
        return Err(format!("it has {} columns; {MAX_COLUMNS} are the most", fields.len()));
    }
    let fields = fields.iter().map(|field| read_field(field, 0)).collect::<Result<Vec<_>, _>>()?;
    let mut names = HashSet::new();
    if let Some(twice) = fields.iter().find(|field| !names.insert(field.name().clone())) {
        return Err(format!("it names the column `{}` twice", twice.name()));
    }
    Ok(Schema::new(fields))
}

fn read_field(field: arrow_ipc::Field<'_>, depth: usize) -> Result<Field, String> {
    let name = field.name().unwrap_or_default();
    if depth > MAX_DEPTH {
        return Err(format!("column `{name}` is nested too deeply"));
    }
    if field.dictionary().is_some() {
        return Err(format!("column `{name}` is a dictionary, which does not cross the border; declare its values' type"));
    }
    let data_type = read_type(field, depth).map_err(|error| format!("column `{name}` {error}"))?;
    let mut metadata = HashMap::new();
    for entry in field.custom_metadata().into_iter().flatten() {
        if let (Some(key), Some(value)) = (entry.key(), entry.value()) {
            metadata.insert(key.to_string(), value.to_string());
        }
    }
    Ok(Field::new(name, data_type, field.nullable()).with_metadata(metadata))
}

fn read_type(field: arrow_ipc::Field<'_>, depth: usize) -> Result<DataType, String> {
    let missing = || "lacks the details of its type".to_string();
    let children = || field.children().into_iter().flatten().map(|child| read_field(child, depth + 1)).collect::<Result<Vec<_>, _>>();
    let only_child = || match children()?.as_slice() {
        [child] => Ok(Arc::new(child.clone())),
        other => Err(format!("is a list with {} element types", other.len())),
    };
    let data_type = match field.type_type() {
        Type::Null => DataType::Null,
        Type::Bool => DataType::Boolean,
        Type::Int => {
            let int = field.type_as_int().ok_or_else(missing)?;
            match (int.bitWidth(), int.is_signed()) {
                (8, true) => DataType::Int8,
                (16, true) => DataType::Int16,
                (32, true) => DataType::Int32,
                (64, true) => DataType::Int64,
                (8, false) => DataType::UInt8,
                (16, false) => DataType::UInt16,
                (32, false) => DataType::UInt32,
                (64, false) => DataType::UInt64,
                (bits, _) => return Err(format!("is an integer of {bits} bits")),
            }
        }
        Type::FloatingPoint => match field.type_as_floating_point().ok_or_else(missing)?.precision() {
            Precision::HALF => DataType::Float16,
            Precision::SINGLE => DataType::Float32,
            Precision::DOUBLE => DataType::Float64,
            _ => return Err("is a float of unknown precision".into()),
        },
        Type::Decimal => {
            let decimal = field.type_as_decimal().ok_or_else(missing)?;
            let (precision, scale) = (u8::try_from(decimal.precision()), i8::try_from(decimal.scale()));
            match (decimal.bitWidth(), precision, scale) {
                (128, Ok(precision @ 1..=38), Ok(scale)) if i16::from(scale) <= i16::from(precision) => {
                    DataType::Decimal128(precision, scale)
                }
                (256, Ok(precision @ 1..=76), Ok(scale)) if i16::from(scale) <= i16::from(precision) => {
                    DataType::Decimal256(precision, scale)
                }
                _ => return Err("is a decimal of an impossible precision, scale or width".into()),
            }
        }
        Type::Date => match field.type_as_date().ok_or_else(missing)?.unit() {
            DateUnit::DAY => DataType::Date32,
            DateUnit::MILLISECOND => DataType::Date64,
            _ => return Err("is a date of unknown unit".into()),
        },
        Type::Time => {
            let time = field.type_as_time().ok_or_else(missing)?;
            match (read_unit(time.unit())?, time.bitWidth()) {
                (unit @ (TimeUnit::Second | TimeUnit::Millisecond), 32) => DataType::Time32(unit),
                (unit @ (TimeUnit::Microsecond | TimeUnit::Nanosecond), 64) => DataType::Time64(unit),
                _ => return Err("is a time whose unit and width do not fit".into()),
            }
        }
        Type::Timestamp => {
            let timestamp = field.type_as_timestamp().ok_or_else(missing)?;
            let zone = timestamp.timezone().filter(|zone| !zone.is_empty());
            if let Some(zone) = zone {
                zone.parse::<Tz>().map_err(|_| format!("has the unknown time zone `{zone}`"))?;
            }
            DataType::Timestamp(read_unit(timestamp.unit())?, zone.map(Arc::from))
        }
        Type::Duration => DataType::Duration(read_unit(field.type_as_duration().ok_or_else(missing)?.unit())?),
        Type::Utf8 => DataType::Utf8,
        Type::LargeUtf8 => DataType::LargeUtf8,
        Type::Binary => DataType::Binary,
        Type::LargeBinary => DataType::LargeBinary,
        Type::FixedSizeBinary => match field.type_as_fixed_size_binary().ok_or_else(missing)?.byteWidth() {
            width @ 1..=65_536 => DataType::FixedSizeBinary(width),
            width => return Err(format!("has a fixed width of {width} bytes")),
        },
        Type::List => DataType::List(only_child()?),
        Type::LargeList => DataType::LargeList(only_child()?),
        Type::Struct_ => {
            let fields = children()?;
            if fields.is_empty() {
                return Err("is a struct without fields".into());
            }
            DataType::Struct(fields.into())
        }
        other => {
            let name = other.variant_name().unwrap_or("unknown");
            return Err(format!("has the Arrow type `{name}`, which does not cross the border"));
        }
    };
    debug_assert_eq!(plain(&data_type).as_ref(), Some(&data_type));
    Ok(data_type)
}

fn read_unit(unit: arrow_ipc::TimeUnit) -> Result<TimeUnit, String> {
    Ok(match unit {
        arrow_ipc::TimeUnit::SECOND => TimeUnit::Second,
        arrow_ipc::TimeUnit::MILLISECOND => TimeUnit::Millisecond,
        arrow_ipc::TimeUnit::MICROSECOND => TimeUnit::Microsecond,
        arrow_ipc::TimeUnit::NANOSECOND => TimeUnit::Nanosecond,
        _ => return Err("has an unknown time unit".into()),
    })
}

/// Flatbuffers want their bytes aligned to 8; an allocation nearly always is, and is copied where it is not.
pub(super) enum Aligned<'a> {
    There(&'a [u8]),
    Copied(Vec<u64>, usize),
}

impl<'a> Aligned<'a> {
    pub(super) fn of(bytes: &'a [u8]) -> Self {
        if bytes.as_ptr().align_offset(8) == 0 {
            return Aligned::There(bytes);
        }
        let words = bytes.chunks(8).map(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        });
        Aligned::Copied(words.collect(), bytes.len())
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Aligned::There(bytes) => bytes,
            Aligned::Copied(words, length) => &arrow::datatypes::ToByteSlice::to_byte_slice(words.as_slice())[..*length],
        }
    }
}

//! The border for rows as raw columns: Arrow's buffers, without Arrow around them, for guests that have no library for it.
//!
//! Only flat types cross. What a guest sends is checked to the last offset before an array is made of it, and no answer, however wrong,
//! makes the host panic.

mod decode;
mod encode;

pub(crate) use decode::decode_columns;
pub(crate) use encode::ColumnsEncoder;

use crate::bindings::columns::exports::tidegate::plugin::transform_columns as wit;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use std::collections::HashSet;
use tidegate_api::types;

/// The type of a column that can only be carried.
const OPAQUE: &str = "opaque";
const MAX_COLUMNS: usize = 10_000;

/// The flat layout in which a type crosses; `None` for one that does not.
fn flat(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(_, _)
        | DataType::Date32
        | DataType::Time64(TimeUnit::Microsecond)
        | DataType::Timestamp(_, _) => Some(data_type.clone()),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(DataType::Utf8),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Some(DataType::Binary),
        DataType::Dictionary(_, values) => flat(values),
        DataType::RunEndEncoded(_, values) => flat(values.data_type()),
        _ => None,
    }
}

/// A schema as a guest is shown it.
pub(crate) fn offered(schema: &Schema) -> Vec<wit::Field> {
    let shown = |field: &Field| wit::Field {
        name: field.name().clone(),
        data_type: flat(field.data_type()).map_or_else(|| OPAQUE.to_string(), |flat| types::name(&flat)),
        nullable: field.is_nullable(),
    };
    schema.fields().iter().map(|field| shown(field)).collect()
}

impl wit::Field {
    /// Whether it can only be carried.
    pub(crate) fn is_opaque(&self) -> bool {
        self.data_type == OPAQUE
    }
}

/// Reads what a guest declares.
pub(crate) fn declared(fields: &[wit::Field]) -> Result<Schema, String> {
    if fields.len() > MAX_COLUMNS {
        return Err(format!("it has {} columns; {MAX_COLUMNS} are the most", fields.len()));
    }
    let mut names = HashSet::new();
    let mut read = Vec::with_capacity(fields.len());
    for field in fields {
        if !names.insert(&field.name) {
            return Err(format!("it names the column `{}` twice", field.name));
        }
        let parsed = types::parse(&field.data_type).map_err(|error| format!("column `{}`: {error}", field.name))?;
        let flat =
            flat(&parsed).ok_or_else(|| format!("column `{}` is of type `{}`, and only flat types cross", field.name, field.data_type))?;
        read.push(Field::new(&field.name, flat, field.nullable));
    }
    Ok(Schema::new(read))
}

/// The bytes of some rows' buffers.
pub(crate) fn bytes_of(columns: &wit::Columns) -> usize {
    let of = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
    columns.columns.iter().map(|column| column.data.len() + of(&column.offsets) + of(&column.validity)).sum()
}

#[cfg(test)]
mod tests;

//! The border for rows: Arrow IPC, schema once and then bare record-batch messages.
//!
//! Only plain layouts cross ([`plain`]): the host casts views and dictionaries away before it encodes, and text back to `Utf8View`
//! after it decodes ([`native`]). What a guest sends is checked against the declared schema before a buffer is looked at, under
//! a byte limit, and no message, however damaged, makes the host panic.

mod decode;
mod encode;
mod schema;
mod stream;

pub(crate) use decode::Decoder;
pub(crate) use encode::{Encoder, size_of};
pub(crate) use schema::decode_schema;
pub use stream::{StreamEncoder, decode_stream};

use crate::changes::unmarked;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::sync::Arc;

/// The layout in which a type crosses; `None` for types that do not.
pub(crate) fn plain(data_type: &DataType) -> Option<DataType> {
    let field = |inner: &FieldRef| Some(Arc::new(inner.as_ref().clone().with_data_type(plain(inner.data_type())?)));
    match data_type {
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _)
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(_, _)
        | DataType::Duration(_)
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::FixedSizeBinary(_) => Some(data_type.clone()),
        DataType::Utf8View => Some(DataType::Utf8),
        DataType::BinaryView => Some(DataType::Binary),
        DataType::Dictionary(_, values) => plain(values),
        DataType::List(inner) => Some(DataType::List(field(inner)?)),
        DataType::LargeList(inner) => Some(DataType::LargeList(field(inner)?)),
        DataType::Struct(fields) => Some(DataType::Struct(fields.iter().map(field).collect::<Option<_>>()?)),
        DataType::RunEndEncoded(_, values) => plain(values.data_type()),
        DataType::Interval(_)
        | DataType::Decimal32(_, _)
        | DataType::Decimal64(_, _)
        | DataType::FixedSizeList(_, _)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::Map(_, _)
        | DataType::Union(_, _) => None,
    }
}

/// The layout that a column which crossed has inside the engine: text is `Utf8View`.
pub(crate) fn native(data_type: &DataType) -> DataType {
    let field = |inner: &FieldRef| Arc::new(inner.as_ref().clone().with_data_type(native(inner.data_type())));
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::LargeBinary => DataType::Binary,
        DataType::List(inner) => DataType::List(field(inner)),
        DataType::LargeList(inner) => DataType::LargeList(field(inner)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        other => other.clone(),
    }
}

/// The schema under which a guest's rows are seen inside the engine, without the marks of rows that replace each other.
pub(crate) fn native_schema(declared: &Schema) -> SchemaRef {
    let fields: Vec<Field> =
        declared.fields().iter().map(|field| unmarked(field.as_ref().clone().with_data_type(native(field.data_type())))).collect();
    Arc::new(Schema::new_with_metadata(fields, declared.metadata().clone()))
}

#[cfg(test)]
mod tests;

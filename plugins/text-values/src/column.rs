//! The types that text can become, and columns of them.

use crate::number::{float, integer};
use crate::time::parse_ms;
use serde::Deserialize;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use tidegate_sdk::arrow::array::ArrayRef;
use tidegate_sdk::arrow::array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder, TimestampMillisecondBuilder};
use tidegate_sdk::arrow::schema::{DataType, TimeUnit};

/// The type of a column, by its name in a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValueType {
    /// `int64`.
    Int64,
    /// `float64`.
    Float64,
    /// `bool`.
    Bool,
    /// `string`.
    String,
    /// `timestamp_ms`: an instant.
    TimestampMs,
}

impl ValueType {
    /// The column's type.
    pub fn data_type(self) -> DataType {
        match self {
            ValueType::Int64 => DataType::Int64,
            ValueType::Float64 => DataType::Float64,
            ValueType::Bool => DataType::Boolean,
            ValueType::String => DataType::Utf8,
            ValueType::TimestampMs => DataType::Timestamp(TimeUnit::Millisecond, None),
        }
    }

    /// The value that plain text denotes; `None` when it denotes none of this type. An instant is ISO-8601 text, or an integer of milliseconds since 1970.
    pub fn parse(self, text: &str) -> Option<Value<'_>> {
        match self {
            ValueType::Int64 => integer(text).map(Value::Int64),
            ValueType::Float64 => float(text).map(Value::Float64),
            ValueType::Bool => match text {
                "true" | "True" | "TRUE" => Some(Value::Bool(true)),
                "false" | "False" | "FALSE" => Some(Value::Bool(false)),
                _ => None,
            },
            ValueType::String => Some(Value::String(Cow::Borrowed(text))),
            ValueType::TimestampMs => parse_ms(text).or_else(|| integer(text)).map(Value::TimestampMs),
        }
    }
}

impl fmt::Display for ValueType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ValueType::Int64 => "int64",
            ValueType::Float64 => "float64",
            ValueType::Bool => "bool",
            ValueType::String => "string",
            ValueType::TimestampMs => "timestamp_ms",
        })
    }
}

/// A value of one of the types.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// Of `int64`.
    Int64(i64),
    /// Of `float64`.
    Float64(f64),
    /// Of `bool`.
    Bool(bool),
    /// Of `string`.
    String(Cow<'a, str>),
    /// Of `timestamp_ms`.
    TimestampMs(i64),
}

/// Collects the values of one column.
#[derive(Debug)]
pub enum ColumnBuilder {
    /// Of `int64`.
    Int64(Int64Builder),
    /// Of `float64`.
    Float64(Float64Builder),
    /// Of `bool`.
    Bool(BooleanBuilder),
    /// Of `string`.
    String(StringBuilder),
    /// Of `timestamp_ms`.
    TimestampMs(TimestampMillisecondBuilder),
}

impl ColumnBuilder {
    /// An empty column with room for `rows` values.
    pub fn new(value_type: ValueType, rows: usize) -> Self {
        match value_type {
            ValueType::Int64 => ColumnBuilder::Int64(Int64Builder::with_capacity(rows)),
            ValueType::Float64 => ColumnBuilder::Float64(Float64Builder::with_capacity(rows)),
            ValueType::Bool => ColumnBuilder::Bool(BooleanBuilder::with_capacity(rows)),
            ValueType::String => ColumnBuilder::String(StringBuilder::with_capacity(rows, rows * 8)),
            ValueType::TimestampMs => ColumnBuilder::TimestampMs(TimestampMillisecondBuilder::with_capacity(rows)),
        }
    }

    /// Appends a value, which must be of the column's type; one of another type has no place in it and becomes a null.
    pub fn append(&mut self, value: Option<Value<'_>>) {
        match (self, value) {
            (ColumnBuilder::Int64(column), Some(Value::Int64(value))) => column.append_value(value),
            (ColumnBuilder::Float64(column), Some(Value::Float64(value))) => column.append_value(value),
            (ColumnBuilder::Bool(column), Some(Value::Bool(value))) => column.append_value(value),
            (ColumnBuilder::String(column), Some(Value::String(value))) => column.append_value(value),
            (ColumnBuilder::TimestampMs(column), Some(Value::TimestampMs(value))) => column.append_value(value),
            (column, _) => column.append_null(),
        }
    }

    fn append_null(&mut self) {
        match self {
            ColumnBuilder::Int64(column) => column.append_null(),
            ColumnBuilder::Float64(column) => column.append_null(),
            ColumnBuilder::Bool(column) => column.append_null(),
            ColumnBuilder::String(column) => column.append_null(),
            ColumnBuilder::TimestampMs(column) => column.append_null(),
        }
    }

    /// The column.
    pub fn finish(self) -> ArrayRef {
        match self {
            ColumnBuilder::Int64(mut column) => Arc::new(column.finish()),
            ColumnBuilder::Float64(mut column) => Arc::new(column.finish()),
            ColumnBuilder::Bool(mut column) => Arc::new(column.finish()),
            ColumnBuilder::String(mut column) => Arc::new(column.finish()),
            ColumnBuilder::TimestampMs(mut column) => Arc::new(column.finish()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_its_text_and_makes_its_column() {
        for (value_type, text, value) in [
            (ValueType::Int64, "-5", Value::Int64(-5)),
            (ValueType::Float64, "0.5", Value::Float64(0.5)),
            (ValueType::Bool, "TRUE", Value::Bool(true)),
            (ValueType::String, "", Value::String("".into())),
            (ValueType::TimestampMs, "1970-01-02", Value::TimestampMs(86_400_000)),
            (ValueType::TimestampMs, "86400000", Value::TimestampMs(86_400_000)),
        ] {
            assert_eq!(value_type.parse(text), Some(value.clone()), "{value_type}");
            let mut column = ColumnBuilder::new(value_type, 2);
            column.append(Some(value));
            column.append(None);
            let column = column.finish();
            assert_eq!((column.len(), column.null_count(), column.data_type()), (2, 1, &value_type.data_type()));
        }
        for value_type in [ValueType::Int64, ValueType::Float64, ValueType::Bool, ValueType::TimestampMs] {
            assert_eq!(value_type.parse("x"), None, "{value_type}");
        }
    }

    #[test]
    fn a_value_of_another_type_becomes_a_null() {
        let mut column = ColumnBuilder::new(ValueType::Int64, 1);
        column.append(Some(Value::Bool(true)));
        assert_eq!(column.finish().null_count(), 1);
    }
}

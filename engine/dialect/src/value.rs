//! One value of one row, for the reference evaluator, for literals and for a host's own functions.

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryViewArray, BooleanArray, Decimal128Array, LargeBinaryArray, ListArray, NullArray,
    PrimitiveArray, StringViewArray, StructArray, downcast_dictionary_array, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::concat;
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Date64Type, Decimal128Type, FieldRef, Fields, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use std::sync::Arc;

/// A value; its type stands beside it, in the typed expression.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Value {
    /// No value.
    Null,
    /// Of type bool.
    Bool(bool),
    /// Every integer type, exact.
    Int(i128),
    /// Both float types.
    Float(f64),
    /// The unscaled digits; the scale is the type's.
    Decimal(i128),
    /// Text of every layout.
    Text(String),
    /// A timestamp, date or time of day, in the ticks of its type.
    Time(i64),
    /// Binary of every layout.
    Bytes(Vec<u8>),
    /// The elements of a list.
    List(Vec<Value>),
    /// The members of an object (a struct), in the order of its type.
    Object(Vec<Value>),
    /// A value of any other type, such as a map: an array of one row.
    Nested(ArrayRef),
}

impl Value {
    /// Whether it is [`Value::Null`].
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The value of a row.
    pub(crate) fn read(array: &dyn Array, row: usize) -> Value {
        if array.is_null(row) {
            return Value::Null;
        }
        fn native<T: ArrowPrimitiveType>(array: &dyn Array, row: usize) -> T::Native {
            array.as_primitive::<T>().value(row)
        }
        match array.data_type() {
            DataType::Null => Value::Null,
            DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
            DataType::Int8 => Value::Int(native::<Int8Type>(array, row).into()),
            DataType::Int16 => Value::Int(native::<Int16Type>(array, row).into()),
            DataType::Int32 => Value::Int(native::<Int32Type>(array, row).into()),
            DataType::Int64 => Value::Int(native::<Int64Type>(array, row).into()),
            DataType::UInt8 => Value::Int(native::<UInt8Type>(array, row).into()),
            DataType::UInt16 => Value::Int(native::<UInt16Type>(array, row).into()),
            DataType::UInt32 => Value::Int(native::<UInt32Type>(array, row).into()),
            DataType::UInt64 => Value::Int(native::<UInt64Type>(array, row).into()),
            DataType::Float32 => Value::Float(native::<Float32Type>(array, row).into()),
            DataType::Float64 => Value::Float(native::<Float64Type>(array, row)),
            DataType::Decimal128(..) => Value::Decimal(native::<Decimal128Type>(array, row)),
            DataType::Utf8View => Value::Text(array.as_string_view().value(row).to_string()),
            DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_string()),
            DataType::LargeUtf8 => Value::Text(array.as_string::<i64>().value(row).to_string()),
            DataType::Binary => Value::Bytes(array.as_binary::<i32>().value(row).to_vec()),
            DataType::LargeBinary => Value::Bytes(array.as_binary::<i64>().value(row).to_vec()),
            DataType::BinaryView => Value::Bytes(array.as_binary_view().value(row).to_vec()),
            DataType::Date32 => Value::Time(native::<Date32Type>(array, row).into()),
            DataType::Date64 => Value::Time(native::<Date64Type>(array, row)),
            DataType::Time32(TimeUnit::Second) => Value::Time(native::<Time32SecondType>(array, row).into()),
            DataType::Time32(_) => Value::Time(native::<Time32MillisecondType>(array, row).into()),
            DataType::Time64(TimeUnit::Microsecond) => Value::Time(native::<Time64MicrosecondType>(array, row)),
            DataType::Time64(_) => Value::Time(native::<Time64NanosecondType>(array, row)),
            DataType::Timestamp(TimeUnit::Second, _) => Value::Time(native::<TimestampSecondType>(array, row)),
            DataType::Timestamp(TimeUnit::Millisecond, _) => Value::Time(native::<TimestampMillisecondType>(array, row)),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Value::Time(native::<TimestampMicrosecondType>(array, row)),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Value::Time(native::<TimestampNanosecondType>(array, row)),
            DataType::List(_) => elements(&array.as_list::<i32>().value(row)),
            DataType::LargeList(_) => elements(&array.as_list::<i64>().value(row)),
            DataType::FixedSizeList(..) => elements(&array.as_fixed_size_list().value(row)),
            DataType::Struct(_) => Value::Object(array.as_struct().columns().iter().map(|column| Value::read(column, row)).collect()),
            DataType::Dictionary(..) => {
                // A dictionary is its values; a key that is not null may still stand for a null.
                downcast_dictionary_array!(
                    array => array.key(row).map_or(Value::Null, |key| Value::read(array.values(), key)),
                    _ => Value::Null
                )
            }
            _ => Value::Nested(array.slice(row, 1)),
        }
    }
}

fn elements(array: &dyn Array) -> Value {
    Value::List((0..array.len()).map(|at| Value::read(array, at)).collect())
}

/// An array of `data_type` with these values, which are of that type.
pub(crate) fn build(data_type: &DataType, values: &[Value]) -> ArrayRef {
    match data_type {
        DataType::Null => Arc::new(NullArray::new(values.len())),
        DataType::Boolean => {
            let read = |value: &Value| if let Value::Bool(value) = value { Some(*value) } else { None };
            Arc::new(values.iter().map(read).collect::<BooleanArray>())
        }
        DataType::Int8 => ints::<Int8Type>(values, data_type),
        DataType::Int16 => ints::<Int16Type>(values, data_type),
        DataType::Int32 => ints::<Int32Type>(values, data_type),
        DataType::Int64 => ints::<Int64Type>(values, data_type),
        DataType::UInt8 => ints::<UInt8Type>(values, data_type),
        DataType::UInt16 => ints::<UInt16Type>(values, data_type),
        DataType::UInt32 => ints::<UInt32Type>(values, data_type),
        DataType::UInt64 => ints::<UInt64Type>(values, data_type),
        DataType::Float32 => {
            let read = |value: &Value| if let Value::Float(value) = value { Some(*value as f32) } else { None };
            Arc::new(values.iter().map(read).collect::<PrimitiveArray<Float32Type>>())
        }
        DataType::Float64 => {
            let read = |value: &Value| if let Value::Float(value) = value { Some(*value) } else { None };
            Arc::new(values.iter().map(read).collect::<PrimitiveArray<Float64Type>>())
        }
        DataType::Decimal128(..) => {
            let read = |value: &Value| if let Value::Decimal(value) = value { Some(*value) } else { None };
            Arc::new(values.iter().map(read).collect::<Decimal128Array>().with_data_type(data_type.clone()))
        }
        DataType::Utf8View | DataType::Utf8 | DataType::LargeUtf8 => {
            let read = |value: &'_ Value| if let Value::Text(value) = value { Some(value.clone()) } else { None };
            Arc::new(values.iter().map(read).collect::<StringViewArray>())
        }
        DataType::Binary => Arc::new(values.iter().map(bytes).collect::<BinaryArray>()),
        DataType::LargeBinary => Arc::new(values.iter().map(bytes).collect::<LargeBinaryArray>()),
        DataType::BinaryView => Arc::new(values.iter().map(bytes).collect::<BinaryViewArray>()),
        DataType::Date32 => times::<Date32Type>(values, data_type),
        DataType::Date64 => times::<Date64Type>(values, data_type),
        DataType::Time32(TimeUnit::Second) => times::<Time32SecondType>(values, data_type),
        DataType::Time32(_) => times::<Time32MillisecondType>(values, data_type),
        DataType::Time64(TimeUnit::Microsecond) => times::<Time64MicrosecondType>(values, data_type),
        DataType::Time64(_) => times::<Time64NanosecondType>(values, data_type),
        DataType::Timestamp(TimeUnit::Second, _) => times::<TimestampSecondType>(values, data_type),
        DataType::Timestamp(TimeUnit::Millisecond, _) => times::<TimestampMillisecondType>(values, data_type),
        DataType::Timestamp(TimeUnit::Microsecond, _) => times::<TimestampMicrosecondType>(values, data_type),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => times::<TimestampNanosecondType>(values, data_type),
        DataType::List(item) => lists(item, values),
        DataType::Struct(fields) => objects(fields, values),
        _ => nested(data_type, values),
    }
}

/// Lists of `item`, whose elements are one array.
fn lists(item: &FieldRef, values: &[Value]) -> ArrayRef {
    let lengths = values.iter().map(|value| value.list().len());
    let elements: Vec<Value> = values.iter().flat_map(Value::list).cloned().collect();
    let nulls = NullBuffer::from_iter(values.iter().map(|value| !value.is_null()));
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    Arc::new(ListArray::new(Arc::clone(item), OffsetBuffer::from_lengths(lengths), build(item.data_type(), &elements), nulls))
}

fn objects(fields: &Fields, values: &[Value]) -> ArrayRef {
    let nulls = NullBuffer::from_iter(values.iter().map(|value| !value.is_null()));
    let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
    let column = |(at, field): (usize, &FieldRef)| {
        let members: Vec<Value> = values.iter().map(|value| value.object().get(at).cloned().unwrap_or(Value::Null)).collect();
        build(field.data_type(), &members)
    };
    let columns = fields.iter().enumerate().map(column).collect();
    match StructArray::try_new_with_length(fields.clone(), columns, nulls, values.len()) {
        Ok(array) => Arc::new(array),
        Err(_) => new_null_array(&DataType::Struct(fields.clone()), values.len()),
    }
}

fn bytes(value: &Value) -> Option<&[u8]> {
    if let Value::Bytes(value) = value { Some(value) } else { None }
}

fn ints<T: ArrowPrimitiveType>(values: &[Value], data_type: &DataType) -> ArrayRef
where
    T::Native: TryFrom<i128>,
{
    let read = |value: &Value| if let Value::Int(value) = value { T::Native::try_from(*value).ok() } else { None };
    Arc::new(values.iter().map(read).collect::<PrimitiveArray<T>>().with_data_type(data_type.clone()))
}

fn times<T: ArrowPrimitiveType>(values: &[Value], data_type: &DataType) -> ArrayRef
where
    T::Native: TryFrom<i64>,
{
    let read = |value: &Value| if let Value::Time(value) = value { T::Native::try_from(*value).ok() } else { None };
    Arc::new(values.iter().map(read).collect::<PrimitiveArray<T>>().with_data_type(data_type.clone()))
}

fn nested(data_type: &DataType, values: &[Value]) -> ArrayRef {
    let null = new_null_array(data_type, 1);
    let rows: Vec<&dyn Array> =
        values.iter().map(|value| if let Value::Nested(row) = value { row.as_ref() } else { null.as_ref() }).collect();
    if rows.is_empty() {
        return new_null_array(data_type, 0);
    }
    concat(&rows).expect("rows of one type can be joined")
}

/// The definitions of functions read their arguments, whose types were checked, by these.
impl Value {
    pub(crate) fn text(&self) -> &str {
        if let Value::Text(text) = self { text } else { "" }
    }

    pub(crate) fn integer(&self) -> i128 {
        match self {
            Value::Int(value) | Value::Decimal(value) => *value,
            Value::Time(value) => i128::from(*value),
            _ => 0,
        }
    }

    pub(crate) fn list(&self) -> &[Value] {
        if let Value::List(items) = self { items } else { &[] }
    }

    pub(crate) fn object(&self) -> &[Value] {
        if let Value::Object(members) = self { members } else { &[] }
    }

    pub(crate) fn float(&self) -> f64 {
        if let Value::Float(value) = self { *value } else { 0.0 }
    }
}

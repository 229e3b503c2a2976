//! From columns that are made to arrays.

use super::column::{Column, Data};
use super::unsupported;
use arrow::array::{ArrayRef, ArrowPrimitiveType, BooleanArray, ListArray, PrimitiveArray, StringArray, StringViewArray, StructArray};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Decimal128Type, Decimal256Type, Fields, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use std::sync::Arc;
use tidegate_api::Result;

impl Column {
    /// The array.
    pub(super) fn finish(self) -> Result<ArrayRef> {
        let Column { field, mut nulls, data, .. } = self;
        let nulls = nulls.finish();
        let data_type = field.data_type();
        Ok(match data {
            Data::Bool(mut values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Data::Int { values, .. } => integers(data_type, values, nulls)?,
            Data::Unsigned(values) => Arc::new(PrimitiveArray::<UInt64Type>::new(values.into(), nulls)),
            Data::Float(values) => Arc::new(PrimitiveArray::<Float64Type>::new(values.into(), nulls)),
            Data::ShortFloat(values) => Arc::new(PrimitiveArray::<Float32Type>::new(values.into(), nulls)),
            Data::Decimal { values, .. } => {
                Arc::new(PrimitiveArray::<Decimal128Type>::new(values.into(), nulls).with_data_type(data_type.clone()))
            }
            Data::LongDecimal { values, .. } => {
                Arc::new(PrimitiveArray::<Decimal256Type>::new(values.into(), nulls).with_data_type(data_type.clone()))
            }
            Data::Text { offsets, values } => {
                // Checks all texts in one go, and makes views of them where they are.
                let texts = StringArray::try_new(OffsetBuffer::new(offsets.into()), Buffer::from_vec(values), nulls)?;
                Arc::new(StringViewArray::from(&texts))
            }
            Data::Binary(mut values) => Arc::new(values.finish()),
            Data::List { offsets, item } => {
                let item_field = Arc::clone(&item.field);
                Arc::new(ListArray::try_new(item_field, OffsetBuffer::new(offsets.into()), item.finish()?, nulls)?)
            }
            Data::Struct(children) => {
                let fields: Fields = children.iter().map(|child| Arc::clone(&child.field)).collect();
                let arrays = children.into_iter().map(Column::finish).collect::<Result<Vec<_>>>()?;
                Arc::new(StructArray::try_new_with_length(fields, arrays, nulls, self.length)?)
            }
        })
    }
}

/// Integers as the array of their type. Every value was checked against its range.
fn integers(data_type: &DataType, values: Vec<i64>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    fn same<T: ArrowPrimitiveType<Native = i64>>(data_type: &DataType, values: Vec<i64>, nulls: Option<NullBuffer>) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::new(values.into(), nulls).with_data_type(data_type.clone()))
    }
    fn narrow<T: ArrowPrimitiveType>(values: &[i64], nulls: Option<NullBuffer>) -> ArrayRef
    where
        T::Native: ArrowNativeType + TryFrom<i64>,
    {
        let values: Vec<T::Native> = values.iter().map(|value| T::Native::try_from(*value).unwrap_or_default()).collect();
        Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
    }
    Ok(match data_type {
        DataType::Int64 => same::<Int64Type>(data_type, values, nulls),
        DataType::Timestamp(TimeUnit::Second, _) => same::<TimestampSecondType>(data_type, values, nulls),
        DataType::Timestamp(TimeUnit::Millisecond, _) => same::<TimestampMillisecondType>(data_type, values, nulls),
        DataType::Timestamp(TimeUnit::Microsecond, _) => same::<TimestampMicrosecondType>(data_type, values, nulls),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => same::<TimestampNanosecondType>(data_type, values, nulls),
        DataType::Time64(TimeUnit::Microsecond) => same::<Time64MicrosecondType>(data_type, values, nulls),
        DataType::Time64(_) => same::<Time64NanosecondType>(data_type, values, nulls),
        DataType::Time32(TimeUnit::Second) => narrow::<Time32SecondType>(&values, nulls),
        DataType::Time32(_) => narrow::<Time32MillisecondType>(&values, nulls),
        DataType::Date32 => narrow::<Date32Type>(&values, nulls),
        DataType::Int8 => narrow::<Int8Type>(&values, nulls),
        DataType::Int16 => narrow::<Int16Type>(&values, nulls),
        DataType::Int32 => narrow::<Int32Type>(&values, nulls),
        DataType::UInt8 => narrow::<UInt8Type>(&values, nulls),
        DataType::UInt16 => narrow::<UInt16Type>(&values, nulls),
        DataType::UInt32 => narrow::<UInt32Type>(&values, nulls),
        other => return Err(unsupported("this format", "?", other)),
    })
}

//! The loops that the functions' kernels share.

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Datum, PrimitiveArray, PrimitiveBuilder, StringViewArray, StringViewBuilder,
};
use arrow::buffer::BooleanBuffer;
use arrow::error::ArrowError;
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

use crate::node::KernelFn;

/// A text argument: one for all rows, or one for each.
pub(crate) enum Texts<'a> {
    One(Option<&'a str>),
    Each(&'a StringViewArray),
}

impl<'a> Texts<'a> {
    pub(crate) fn of(value: &'a ColumnarValue) -> Result<Texts<'a>> {
        match value {
            ColumnarValue::Array(array) => match array.as_string_view_opt() {
                Some(texts) => Ok(Texts::Each(texts)),
                None => exec_err!("expected text"),
            },
            ColumnarValue::Scalar(ScalarValue::Utf8View(text)) => Ok(Texts::One(text.as_deref())),
            ColumnarValue::Scalar(_) => exec_err!("expected text"),
        }
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<&'a str> {
        match self {
            Texts::One(text) => *text,
            Texts::Each(texts) => (!texts.is_null(row)).then(|| texts.value(row)),
        }
    }
}

/// An integer argument.
pub(crate) enum Integers<'a> {
    One(Option<i64>),
    Each(&'a PrimitiveArray<arrow::datatypes::Int64Type>),
}

impl<'a> Integers<'a> {
    pub(crate) fn of(value: &'a ColumnarValue) -> Result<Integers<'a>> {
        match value {
            ColumnarValue::Array(array) => match array.as_primitive_opt() {
                Some(values) => Ok(Integers::Each(values)),
                None => exec_err!("expected int64"),
            },
            ColumnarValue::Scalar(ScalarValue::Int64(value)) => Ok(Integers::One(*value)),
            ColumnarValue::Scalar(_) => exec_err!("expected int64"),
        }
    }

    #[inline]
    pub(crate) fn get(&self, row: usize) -> Option<i64> {
        match self {
            Integers::One(value) => *value,
            Integers::Each(values) => (!values.is_null(row)).then(|| values.value(row)),
        }
    }
}

fn array(value: ArrayRef) -> Result<ColumnarValue> {
    Ok(ColumnarValue::Array(value))
}

/// Text to text; `write` appends to an empty buffer that is used again for every row.
pub(crate) fn text_to_text(write: impl Fn(&str, &mut String) + Send + Sync + 'static) -> KernelFn {
    Arc::new(move |args, rows| {
        let texts = Texts::of(&args[0])?;
        let mut builder = StringViewBuilder::with_capacity(rows);
        let mut buffer = String::new();
        for row in 0..rows {
            match texts.get(row) {
                Some(text) => {
                    buffer.clear();
                    write(text, &mut buffer);
                    builder.append_value(&buffer);
                }
                None => builder.append_null(),
            }
        }
        array(Arc::new(builder.finish()))
    })
}

/// Text to a part of itself, or to null.
pub(crate) fn text_to_part(part: impl Fn(&str) -> Option<&str> + Send + Sync + 'static) -> KernelFn {
    Arc::new(move |args, rows| {
        let texts = Texts::of(&args[0])?;
        let mut builder = StringViewBuilder::with_capacity(rows);
        for row in 0..rows {
            builder.append_option(texts.get(row).and_then(&part));
        }
        array(Arc::new(builder.finish()))
    })
}

/// Text to bool.
pub(crate) fn text_to_bool(test: impl Fn(&str) -> bool + Send + Sync + 'static) -> KernelFn {
    Arc::new(move |args, rows| {
        let texts = Texts::of(&args[0])?;
        let nulls = match &args[0] {
            ColumnarValue::Array(array) => array.nulls().cloned(),
            ColumnarValue::Scalar(ScalarValue::Utf8View(Some(_))) => None,
            ColumnarValue::Scalar(_) => Some(arrow::buffer::NullBuffer::new_null(rows)),
        };
        let values = BooleanBuffer::collect_bool(rows, |row| texts.get(row).is_some_and(&test));
        array(Arc::new(BooleanArray::new(values, nulls)))
    })
}

/// A primitive to another, for every value, whatever stands under a null.
pub(crate) fn primitive<I, O>(map: impl Fn(I::Native) -> O::Native + Send + Sync + 'static) -> KernelFn
where
    I: ArrowPrimitiveType,
    O: ArrowPrimitiveType,
{
    Arc::new(move |args, _| {
        let values = args[0].to_array(1)?;
        let mapped: PrimitiveArray<O> = match values.as_primitive_opt::<I>() {
            Some(values) => values.unary(&map),
            None => return exec_err!("expected {}, found {}", I::DATA_TYPE, values.data_type()),
        };
        answer(&args[0], Arc::new(mapped))
    })
}

/// As [`primitive`], where `None` is a failure of a value that is not null.
pub(crate) fn try_primitive<I, O>(map: impl Fn(I::Native) -> Option<O::Native> + Send + Sync + 'static) -> KernelFn
where
    I: ArrowPrimitiveType,
    O: ArrowPrimitiveType,
{
    Arc::new(move |args, _| {
        let values = args[0].to_array(1)?;
        let failed = || arrow::error::ArrowError::ComputeError("a row failed".to_string());
        let mapped: PrimitiveArray<O> = match values.as_primitive_opt::<I>() {
            Some(values) => values.try_unary(|value| map(value).ok_or_else(failed))?,
            None => return exec_err!("expected {}, found {}", I::DATA_TYPE, values.data_type()),
        };
        answer(&args[0], Arc::new(mapped))
    })
}

/// The result as an array or, for a scalar argument, as a scalar.
pub(crate) fn answer(arg: &ColumnarValue, result: ArrayRef) -> Result<ColumnarValue> {
    match arg {
        ColumnarValue::Array(_) => Ok(ColumnarValue::Array(result)),
        ColumnarValue::Scalar(_) => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)),
    }
}

/// The kernel whose result keeps the given type, for types that carry a zone or a scale.
pub(crate) fn retyped(kernel: KernelFn, ty: arrow::datatypes::DataType) -> KernelFn {
    Arc::new(move |args, rows| match kernel(args, rows)? {
        ColumnarValue::Array(array) if *array.data_type() != ty => {
            let data = array.to_data().into_builder().data_type(ty.clone()).build()?;
            Ok(ColumnarValue::Array(arrow::array::make_array(data)))
        }
        ColumnarValue::Scalar(value) if value.data_type() != ty => {
            let data = value.to_array()?.to_data().into_builder().data_type(ty.clone()).build()?;
            Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&arrow::array::make_array(data), 0)?))
        }
        other => Ok(other),
    })
}

/// Two texts to bool by one of Arrow's search kernels, which keep a constant pattern a constant.
pub(crate) fn text_test(
    args: &[ColumnarValue],
    rows: usize,
    test: impl Fn(&dyn Datum, &dyn Datum) -> std::result::Result<BooleanArray, ArrowError>,
) -> Result<ColumnarValue> {
    let result = match (&args[0], &args[1]) {
        (ColumnarValue::Array(text), ColumnarValue::Array(part)) => test(text, part)?,
        (ColumnarValue::Array(text), ColumnarValue::Scalar(part)) => test(text, &part.to_scalar()?)?,
        // Arrow gives one row for two scalars; a text that is the same in all rows is rare enough to be repeated.
        (text @ ColumnarValue::Scalar(_), part) => test(&text.to_array(rows)?, &part.to_array(rows)?)?,
    };
    array(Arc::new(result))
}

/// Text to a primitive, where `None` is a failure.
pub(crate) fn try_text_to_primitive<O: ArrowPrimitiveType>(read: impl Fn(&str) -> Option<O::Native> + Send + Sync + 'static) -> KernelFn {
    Arc::new(move |args, rows| {
        let texts = Texts::of(&args[0])?;
        let mut builder = PrimitiveBuilder::<O>::with_capacity(rows);
        for row in 0..rows {
            match texts.get(row) {
                None => builder.append_null(),
                Some(text) => match read(text) {
                    Some(value) => builder.append_value(value),
                    None => return exec_err!("a row failed"),
                },
            }
        }
        array(Arc::new(builder.finish()))
    })
}

/// A primitive to text; `write` appends to an empty buffer that is used again for every row.
pub(crate) fn primitive_to_text<I: ArrowPrimitiveType>(write: impl Fn(I::Native, &mut String) + Send + Sync + 'static) -> KernelFn {
    Arc::new(move |args, rows| {
        let values = args[0].to_array(rows)?;
        let Some(values) = values.as_primitive_opt::<I>() else {
            return exec_err!("expected {}, found {}", I::DATA_TYPE, values.data_type());
        };
        let mut builder = StringViewBuilder::with_capacity(rows);
        let mut buffer = String::new();
        for (row, value) in values.values().iter().enumerate() {
            if values.is_null(row) {
                builder.append_null();
            } else {
                buffer.clear();
                write(*value, &mut buffer);
                builder.append_value(&buffer);
            }
        }
        array(Arc::new(builder.finish()))
    })
}

/// Calls `$make::<T>(…)` with the timestamp type `T` of a unit.
macro_rules! for_unit {
    ($unit:expr, $make:ident $(, $more:ty)? ; $arg:expr) => {
        match $unit {
            arrow::datatypes::TimeUnit::Second => $crate::functions::kernels::$make::<arrow::datatypes::TimestampSecondType $(, $more)?>($arg),
            arrow::datatypes::TimeUnit::Millisecond => {
                $crate::functions::kernels::$make::<arrow::datatypes::TimestampMillisecondType $(, $more)?>($arg)
            }
            arrow::datatypes::TimeUnit::Microsecond => {
                $crate::functions::kernels::$make::<arrow::datatypes::TimestampMicrosecondType $(, $more)?>($arg)
            }
            arrow::datatypes::TimeUnit::Nanosecond => {
                $crate::functions::kernels::$make::<arrow::datatypes::TimestampNanosecondType $(, $more)?>($arg)
            }
        }
    };
}
pub(crate) use for_unit;

/// Timestamps to timestamps of the same unit, each of which can fail.
pub(crate) fn try_same<T: ArrowPrimitiveType>(map: impl Fn(T::Native) -> Option<T::Native> + Send + Sync + 'static) -> KernelFn {
    try_primitive::<T, T>(map)
}

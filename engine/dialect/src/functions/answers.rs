//! The calls that the functions' plain forms become: a definition for the reference evaluator and a kernel, of one closure.

use super::args::Args;
use super::kernels;
use super::rows::{In, Reading, drive, drive_by};
use crate::compile::flat::lists;
use crate::node::{KernelFn, Node};
use crate::types::list_of;
use crate::value::Value;
use arrow::array::{
    Array, BinaryBuilder, BooleanBuilder, Decimal128Array, Float64Array, Float64Builder, Int64Array, PrimitiveArray, StringViewBuilder,
    UInt64Array, make_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Date32Type, Float64Type, Int64Type};
use datafusion_common::Result as DataFusionResult;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

/// A value, null, or why the row is bad.
pub(crate) type Answer<T> = Result<Option<T>, String>;

/// What a function may return for a `T`.
pub(crate) trait IntoAnswer<T> {
    /// Whether it can be a bad row.
    const FAILS: bool;
    fn answer(self) -> Answer<T>;
}

impl<T> IntoAnswer<T> for T {
    const FAILS: bool = false;
    #[inline(always)]
    fn answer(self) -> Answer<T> {
        Ok(Some(self))
    }
}

impl<T> IntoAnswer<T> for Option<T> {
    const FAILS: bool = false;
    #[inline(always)]
    fn answer(self) -> Answer<T> {
        Ok(self)
    }
}

impl<T> IntoAnswer<T> for Result<T, String> {
    const FAILS: bool = true;
    #[inline(always)]
    fn answer(self) -> Answer<T> {
        self.map(Some)
    }
}

impl<T> IntoAnswer<T> for Result<Option<T>, String> {
    const FAILS: bool = true;
    #[inline(always)]
    fn answer(self) -> Answer<T> {
        self
    }
}

fn array(array: impl Array + 'static) -> DataFusionResult<ColumnarValue> {
    Ok(ColumnarValue::Array(Arc::new(array)))
}

/// `values` as another type of the same layout, such as a timestamp.
fn relabel(values: impl Array + 'static, ty: &DataType) -> DataFusionResult<ColumnarValue> {
    if values.data_type() == ty {
        return array(values);
    }
    let data = values.to_data().into_builder().data_type(ty.clone()).build()?;
    Ok(ColumnarValue::Array(make_array(data)))
}

impl Args<'_> {
    fn node<T, O: IntoAnswer<T> + 'static>(
        self,
        ty: DataType,
        function: impl Fn(In<'_>) -> O + Send + Sync + 'static,
        value: impl Fn(T) -> Value + Send + Sync + 'static,
        kernel: Option<KernelFn>,
    ) -> Node {
        let row = move |args: &[Value]| Ok(function(In::Values(args)).answer()?.map_or(Value::Null, &value));
        self.call(ty, O::FAILS, row, kernel)
    }

    /// The call whose rows are these int64.
    pub(super) fn into_int<O: IntoAnswer<i64> + 'static>(self, function: impl Fn(In<'_>) -> O + Send + Sync + Clone + 'static) -> Node {
        let row = function.clone();
        let kernel: KernelFn = Arc::new(move |args, rows| array(ints(args, rows, &row)?));
        self.node(DataType::Int64, function, |value| Value::Int(value.into()), Some(kernel))
    }

    /// The call whose rows are these ticks of a timestamp, date or time of day.
    pub(super) fn into_time<O: IntoAnswer<i64> + 'static>(
        self,
        ty: DataType,
        function: impl Fn(In<'_>) -> O + Send + Sync + Clone + 'static,
    ) -> Node {
        let (row, result) = (function.clone(), ty.clone());
        let kernel: KernelFn = Arc::new(move |args, rows| {
            let ticks = ints(args, rows, &row)?;
            if result != DataType::Date32 {
                return relabel(ticks, &result);
            }
            // Whatever makes dates keeps them within their years.
            array(ticks.unary::<_, Date32Type>(|days| days as i32))
        });
        self.node(ty, function, Value::Time, Some(kernel))
    }

    /// The call whose rows are these integers (int64, uint64) or digits of a decimal; the function keeps to the type's range.
    pub(super) fn into_wide<O: IntoAnswer<i128> + 'static>(
        self,
        ty: DataType,
        function: impl Fn(In<'_>) -> O + Send + Sync + Clone + 'static,
    ) -> Node {
        let (row, result) = (function.clone(), ty.clone());
        let kernel: KernelFn = Arc::new(move |args, rows| {
            let mut values = Vec::with_capacity(rows);
            drive(args, rows, |input| {
                values.push(input.map_or(Ok(None), |input| row(input).answer())?);
                Ok(())
            })?;
            match &result {
                DataType::UInt64 => array(values.into_iter().map(|value| value.map(|value| value as u64)).collect::<UInt64Array>()),
                DataType::Int64 => array(values.into_iter().map(|value| value.map(|value| value as i64)).collect::<Int64Array>()),
                _ => relabel(values.into_iter().collect::<Decimal128Array>(), &result),
            }
        });
        let decimal = matches!(ty, DataType::Decimal128(..));
        self.node(ty, function, move |value| if decimal { Value::Decimal(value) } else { Value::Int(value) }, Some(kernel))
    }

    /// The call whose rows are these float64.
    pub(super) fn into_float<O: IntoAnswer<f64> + 'static>(self, function: impl Fn(In<'_>) -> O + Send + Sync + Clone + 'static) -> Node {
        let row = function.clone();
        let kernel: KernelFn = Arc::new(move |args, rows| {
            let mut values = Float64Builder::with_capacity(rows);
            drive(args, rows, |input| {
                values.append_option(input.map_or(Ok(None), |input| row(input).answer())?);
                Ok(())
            })?;
            array(values.finish())
        });
        self.node(DataType::Float64, function, Value::Float, Some(kernel))
    }

    /// The call whose rows are these bools.
    pub(super) fn into_bool<O: IntoAnswer<bool> + 'static>(self, function: impl Fn(In<'_>) -> O + Send + Sync + Clone + 'static) -> Node {
        let row = function.clone();
        let kernel: KernelFn = Arc::new(move |args, rows| {
            let mut values = BooleanBuilder::with_capacity(rows);
            drive(args, rows, |input| {
                values.append_option(input.map_or(Ok(None), |input| row(input).answer())?);
                Ok(())
            })?;
            array(values.finish())
        });
        self.node(DataType::Boolean, function, Value::Bool, Some(kernel))
    }

    /// The call whose rows are the texts that the function appends to an empty buffer.
    pub(super) fn into_text<O: IntoAnswer<()> + 'static>(
        self,
        function: impl Fn(In<'_>, &mut String) -> O + Send + Sync + Clone + 'static,
    ) -> Node {
        self.text_by(Reading::Typed, function)
    }

    /// As [`Args::into_text`], for a function that reads its arguments by [`In::any`].
    pub(super) fn into_text_of_any<O: IntoAnswer<()> + 'static>(
        self,
        function: impl Fn(In<'_>, &mut String) -> O + Send + Sync + Clone + 'static,
    ) -> Node {
        self.text_by(Reading::Whole, function)
    }

    fn text_by<O: IntoAnswer<()> + 'static>(
        self,
        reading: Reading,
        function: impl Fn(In<'_>, &mut String) -> O + Send + Sync + Clone + 'static,
    ) -> Node {
        let write = function.clone();
        let kernel: KernelFn = Arc::new(move |args, rows| {
            let mut values = StringViewBuilder::with_capacity(rows);
            let mut buffer = String::new();
            drive_by(reading, args, rows, |input| {
                buffer.clear();
                match input.map_or(Ok(None), |input| write(input, &mut buffer).answer())? {
                    Some(()) => values.append_value(&buffer),
                    None => values.append_null(),
                }
                Ok(())
            })?;
            array(values.finish())
        });
        let row = move |args: &[Value]| {
            let mut out = String::new();
            Ok(function(In::Values(args), &mut out).answer()?.map_or(Value::Null, |()| Value::Text(out)))
        };
        self.call(DataType::Utf8View, O::FAILS, row, Some(kernel))
    }

    /// The call whose rows are parts of its arguments, or null.
    pub(super) fn into_part(self, function: impl for<'r> Fn(In<'r>) -> Option<&'r str> + Send + Sync + Clone + 'static) -> Node {
        let part = function.clone();
        let kernel: KernelFn = Arc::new(move |args, rows| {
            let mut values = StringViewBuilder::with_capacity(rows);
            drive(args, rows, |input| {
                values.append_option(input.and_then(&part));
                Ok(())
            })?;
            array(values.finish())
        });
        let row = move |args: &[Value]| Ok(function(In::Values(args)).map_or(Value::Null, |part| Value::Text(part.to_string())));
        self.call(DataType::Utf8View, false, row, Some(kernel))
    }

    /// The call whose rows are the bytes that the function appends to an empty buffer.
    pub(super) fn into_bytes<O: IntoAnswer<()> + 'static>(
        self,
        function: impl Fn(In<'_>, &mut Vec<u8>) -> O + Send + Sync + Clone + 'static,
    ) -> Node {
        let write = function.clone();
        let kernel: KernelFn = Arc::new(move |args, rows| {
            let mut values = BinaryBuilder::with_capacity(rows, 0);
            let mut buffer = Vec::new();
            drive(args, rows, |input| {
                buffer.clear();
                match input.map_or(Ok(None), |input| write(input, &mut buffer).answer())? {
                    Some(()) => values.append_value(&buffer),
                    None => values.append_null(),
                }
                Ok(())
            })?;
            array(values.finish())
        });
        let row = move |args: &[Value]| {
            let mut out = Vec::new();
            Ok(function(In::Values(args), &mut out).answer()?.map_or(Value::Null, |()| Value::Bytes(out)))
        };
        self.call(DataType::Binary, O::FAILS, row, Some(kernel))
    }

    /// The call whose rows are lists of these three float64.
    pub(super) fn into_triple(self, function: impl Fn(In<'_>) -> Answer<[f64; 3]> + Send + Sync + Clone + 'static) -> Node {
        let ty = list_of(DataType::Float64);
        let (row, result) = (function.clone(), ty.clone());
        let kernel: KernelFn = Arc::new(move |args, rows| {
            let (mut numbers, mut present) = (Vec::with_capacity(rows * 3), Vec::with_capacity(rows));
            drive(args, rows, |input| {
                let found = input.map_or(Ok(None), &row)?;
                present.push(found.is_some());
                numbers.extend(found.into_iter().flatten());
                Ok(())
            })?;
            let offsets = OffsetBuffer::from_lengths(present.iter().map(|present| if *present { 3 } else { 0 }));
            let nulls = Some(NullBuffer::from(present)).filter(|nulls| nulls.null_count() > 0);
            Ok(ColumnarValue::Array(lists(offsets, Arc::new(Float64Array::from(numbers)), nulls, &result)?))
        });
        self.node(ty, function, |numbers: [f64; 3]| Value::List(numbers.map(Value::Float).to_vec()), Some(kernel))
    }

    /// The call whose rows are these values of `ty`, evaluated row by row.
    pub(super) fn into_value<O: IntoAnswer<Value> + 'static>(
        self,
        ty: DataType,
        function: impl Fn(In<'_>) -> O + Send + Sync + 'static,
    ) -> Node {
        self.node(ty, function, |value| value, None)
    }

    /// The call of one float64 whose kernel is a loop without branches.
    pub(super) fn float_map(self, map: fn(f64) -> f64) -> Node {
        let row = move |args: &[Value]| Ok(Value::Float(map(args[0].float())));
        self.call(DataType::Float64, false, row, Some(kernels::primitive::<Float64Type, Float64Type>(map)))
    }
}

fn ints<O: IntoAnswer<i64>>(args: &[ColumnarValue], rows: usize, function: &impl Fn(In<'_>) -> O) -> DataFusionResult<Int64Array> {
    let mut values = PrimitiveArray::<Int64Type>::builder(rows);
    drive(args, rows, |input| {
        values.append_option(input.map_or(Ok(None), |input| function(input).answer())?);
        Ok(())
    })?;
    Ok(values.finish())
}

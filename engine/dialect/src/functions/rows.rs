//! The values of one row as most functions see them ([`In`]), whichever evaluator asks: what a function does with them is said
//! once, and `answers.rs` makes the definition and the kernel of it.
//!
//! A function is called only where no argument is null. What it returns says whether it can fail: a plain value cannot, an
//! `Option` may be null, a `Result` makes bad rows.

use crate::value::{Value, build};
use arrow::array::{Array, ArrayRef, AsArray, StringViewArray, new_null_array};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, Float64Type};
use datafusion_common::{Result as DataFusionResult, exec_datafusion_err};
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

/// The most bytes that a function makes of a row where they are not bounded by what it read.
const MOST_BYTES: usize = 16 << 20;

/// Refuses a text or binary of more than 16 MiB, to be asked before it is made.
pub(super) fn room(bytes: usize) -> Result<(), String> {
    if bytes > MOST_BYTES { Err("the result would be longer than 16 MiB".to_string()) } else { Ok(()) }
}

/// An argument of a batch.
pub(crate) enum Column<'a> {
    /// The same in all rows.
    One(Value),
    Text(&'a StringViewArray),
    Bool(&'a BooleanBuffer),
    /// int64, timestamps and times of day.
    Int(ScalarBuffer<i64>),
    /// Dates.
    Days(ScalarBuffer<i32>),
    Unsigned(ScalarBuffer<u64>),
    Float(ScalarBuffer<f64>),
    Decimal(ScalarBuffer<i128>),
    Binary(&'a ArrayRef),
    /// Of any type, read by [`In::any`].
    Whole(&'a ArrayRef),
}

/// How a function reads its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// By the accessor of its type.
    Typed,
    /// As arrays.
    Whole,
}

impl<'a> Column<'a> {
    fn of(value: &'a ColumnarValue, reading: Reading) -> DataFusionResult<Column<'a>> {
        let array = match value {
            ColumnarValue::Scalar(value) => return Ok(Column::One(Value::read(value.to_array()?.as_ref(), 0))),
            ColumnarValue::Array(array) => array,
        };
        if reading == Reading::Whole {
            return Ok(Column::Whole(array));
        }
        fn buffer<T: ArrowNativeType>(array: &ArrayRef) -> ScalarBuffer<T> {
            let data = array.to_data();
            ScalarBuffer::new(data.buffers()[0].clone(), data.offset(), data.len())
        }
        Ok(match array.data_type() {
            DataType::Utf8View => Column::Text(array.as_string_view()),
            DataType::Boolean => Column::Bool(array.as_boolean().values()),
            DataType::Int64 | DataType::Timestamp(..) | DataType::Time64(_) => Column::Int(buffer(array)),
            DataType::Date32 => Column::Days(buffer(array)),
            DataType::UInt64 => Column::Unsigned(buffer(array)),
            DataType::Float64 => Column::Float(buffer(array)),
            DataType::Decimal128(..) => Column::Decimal(buffer(array)),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Column::Binary(array),
            _ => Column::Whole(array),
        })
    }
}

/// The arguments of one row, none of them null. The accessors are for arguments whose type was settled when the call was bound.
#[derive(Clone, Copy)]
pub(crate) enum In<'a> {
    /// Of the reference evaluator.
    Values(&'a [Value]),
    /// Of a batch.
    Row(&'a [Column<'a>], usize),
}

macro_rules! cell {
    ($self:ident, $at:ident, $value:pat => $of_value:expr, $($column:pat, $row:ident => $of_column:expr),+; $otherwise:expr) => {
        match $self {
            In::Values(values) => match &values[$at] {
                $value => $of_value,
                _ => $otherwise,
            },
            In::Row(columns, row) => match &columns[$at] {
                $($column => { let $row = row; $of_column })+
                Column::One($value) => $of_value,
                _ => $otherwise,
            },
        }
    };
}

impl<'a> In<'a> {
    /// How many arguments there are.
    #[inline]
    pub(super) fn len(self) -> usize {
        match self {
            In::Values(values) => values.len(),
            In::Row(columns, _) => columns.len(),
        }
    }

    #[inline]
    pub(super) fn text(self, at: usize) -> &'a str {
        cell!(self, at, Value::Text(text) => text, Column::Text(texts), row => texts.value(row); "")
    }

    /// The bytes of a binary or of a text.
    #[inline]
    pub(super) fn bytes(self, at: usize) -> &'a [u8] {
        match self {
            In::Values(values) => bytes_of(&values[at]),
            In::Row(columns, row) => match &columns[at] {
                Column::One(value) => bytes_of(value),
                Column::Text(texts) => texts.value(row).as_bytes(),
                Column::Binary(array) => match array.data_type() {
                    DataType::Binary => array.as_binary::<i32>().value(row),
                    DataType::LargeBinary => array.as_binary::<i64>().value(row),
                    _ => array.as_binary_view().value(row),
                },
                _ => &[],
            },
        }
    }

    /// An int64, or the ticks of a time.
    #[inline]
    pub(super) fn int(self, at: usize) -> i64 {
        self.wide(at) as i64
    }

    /// An integer of any type, the digits of a decimal, or the ticks of a time.
    #[inline]
    pub(super) fn wide(self, at: usize) -> i128 {
        match self {
            In::Values(values) => values[at].integer(),
            In::Row(columns, row) => match &columns[at] {
                Column::Int(values) => values[row].into(),
                Column::One(value) => value.integer(),
                Column::Decimal(values) => values[row],
                Column::Unsigned(values) => values[row].into(),
                Column::Days(values) => values[row].into(),
                _ => 0,
            },
        }
    }

    #[inline]
    pub(super) fn float(self, at: usize) -> f64 {
        cell!(self, at, Value::Float(value) => *value, Column::Float(values), row => values[row]; 0.0)
    }

    #[inline]
    pub(super) fn bool(self, at: usize) -> bool {
        cell!(self, at, Value::Bool(value) => *value, Column::Bool(values), row => values.value(row); false)
    }

    /// An argument that may be left out.
    #[inline]
    pub(super) fn text_or(self, at: usize, otherwise: &'static str) -> &'a str {
        if at < self.len() { self.text(at) } else { otherwise }
    }

    #[inline]
    pub(super) fn int_or(self, at: usize, otherwise: i64) -> i64 {
        if at < self.len() { self.int(at) } else { otherwise }
    }

    /// An element of a list of float64: null, or none at all if the list is shorter.
    pub(super) fn element(self, at: usize, index: usize) -> Option<Option<f64>> {
        let of_value = |value: &Value| value.list().get(index).map(|value| (!value.is_null()).then(|| value.float()));
        match self {
            In::Values(values) => of_value(&values[at]),
            In::Row(columns, row) => match &columns[at] {
                Column::One(value) => of_value(value),
                Column::Whole(array) => {
                    let lists = array.as_list_opt::<i32>()?;
                    let (start, end) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
                    let elements = lists.values().as_primitive_opt::<Float64Type>()?;
                    let place = start.checked_add(index).filter(|place| *place < end)?;
                    Some(elements.is_valid(place).then(|| elements.value(place)))
                }
                _ => None,
            },
        }
    }

    /// An argument of any type, as an array and the row in it; `ty` is its type.
    pub(super) fn any(self, at: usize, ty: &DataType) -> (ArrayRef, usize) {
        match self {
            In::Values(values) => (build(ty, &values[at..=at]), 0),
            In::Row(columns, row) => match &columns[at] {
                Column::One(value) => (build(ty, std::slice::from_ref(value)), 0),
                Column::Whole(array) => (Arc::clone(array), row),
                _ => (new_null_array(ty, 1), 0),
            },
        }
    }
}

fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        Value::Text(text) => text.as_bytes(),
        _ => &[],
    }
}

/// Calls `each` for every row: with the arguments, or with `None` where one of them is null.
pub(super) fn drive(args: &[ColumnarValue], rows: usize, each: impl FnMut(Option<In<'_>>) -> Result<(), String>) -> DataFusionResult<()> {
    drive_by(Reading::Typed, args, rows, each)
}

pub(super) fn drive_by(
    reading: Reading,
    args: &[ColumnarValue],
    rows: usize,
    mut each: impl FnMut(Option<In<'_>>) -> Result<(), String>,
) -> DataFusionResult<()> {
    let columns = args.iter().map(|arg| Column::of(arg, reading)).collect::<DataFusionResult<Vec<_>>>()?;
    let nulls = args.iter().fold(None, |nulls: Option<NullBuffer>, arg| match arg {
        ColumnarValue::Array(array) => NullBuffer::union(nulls.as_ref(), array.logical_nulls().as_ref()),
        ColumnarValue::Scalar(value) if value.is_null() => Some(NullBuffer::new_null(rows)),
        ColumnarValue::Scalar(_) => nulls,
    });
    for row in 0..rows {
        let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        each(valid.then_some(In::Row(&columns, row))).map_err(|message| exec_datafusion_err!("{message}"))?;
    }
    Ok(())
}

//! A column being made: takes texts from CSV and JSON, typed values from the binary formats, and answers an array.
//!
//! Every call appends exactly one value, null where something does not fit, so that the columns of a batch stay level and a bad
//! record is taken out at the end. A field inside of a struct or list that may not be null gets an empty value instead, since
//! such an array could not be made otherwise; its record is bad in any case.

use super::cells::{
    Cell, Faults, boolean, decimal, float, fraction_digits, from_hex, integer, short_float, shortened, timestamp, unsigned,
};
use super::times::{Zone, date, per_second, time_of_day};
use super::unsupported;
use crate::base64;
use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryBuilder, BooleanArray, BooleanBufferBuilder, ListArray, NullBufferBuilder, PrimitiveArray,
    StringViewBuilder, StructArray,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::kernels::cast_utils::parse_decimal;
use arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Decimal128Type, Decimal256Type, FieldRef, Fields, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type, i256,
};
use std::sync::Arc;
use tidegate_api::{BadReason, Result, types};

/// How bytes are written in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BytesAs {
    Hex,
    Base64,
    /// As they are.
    Raw,
}

/// What the integers of a column mean.
#[derive(Debug, Clone, Copy)]
pub(super) enum Meaning {
    Number,
    Date,
    Time(TimeUnit),
    Timestamp(TimeUnit, Zone),
}

/// The values of a column.
pub(super) enum Data {
    Bool(BooleanBufferBuilder),
    /// Everything that 64 bits with a sign can hold, with its smallest and largest value.
    Int {
        values: Vec<i64>,
        least: i64,
        most: i64,
        meaning: Meaning,
    },
    Unsigned(Vec<u64>),
    Float(Vec<f64>),
    ShortFloat(Vec<f32>),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: i8,
    },
    LongDecimal {
        values: Vec<i256>,
        precision: u8,
        scale: i8,
    },
    Text(StringViewBuilder),
    Binary(BinaryBuilder),
    List {
        offsets: Vec<i32>,
        item: Box<Column>,
    },
    Struct(Vec<Column>),
}

/// A column being made.
pub(super) struct Column {
    field: FieldRef,
    /// Its name for messages, with those of what it is inside of.
    path: String,
    nested: bool,
    bytes_as: BytesAs,
    nulls: NullBufferBuilder,
    pub(super) data: Data,
    length: usize,
    scratch: Vec<u8>,
}

/// Whether a [`Column`] of this type can be made, and holds one value a row.
pub(super) fn is_scalar(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(_, zone) => Zone::of(zone.as_deref()).is_some(),
        DataType::Boolean
        | DataType::Utf8View
        | DataType::Binary
        | DataType::Date32
        | DataType::Decimal128(_, _)
        | DataType::Decimal256(_, _)
        | DataType::Float32
        | DataType::Float64
        | DataType::Time32(TimeUnit::Second | TimeUnit::Millisecond)
        | DataType::Time64(TimeUnit::Microsecond | TimeUnit::Nanosecond) => true,
        other => other.is_integer(),
    }
}

impl Column {
    /// A column for about so many rows. `format` is named if it cannot hold the type.
    pub(super) fn new(field: &FieldRef, capacity: usize, bytes_as: BytesAs, format: &str) -> Result<Self> {
        Column::at(field, field.name().clone(), false, capacity, bytes_as, format)
    }

    fn at(field: &FieldRef, path: String, nested: bool, capacity: usize, bytes_as: BytesAs, format: &str) -> Result<Self> {
        let int = |least: i64, most: i64, meaning| Data::Int { values: Vec::with_capacity(capacity), least, most, meaning };
        let number = |least: i64, most: i64| int(least, most, Meaning::Number);
        let time = |unit| int(0, 86_400 * per_second(unit) - 1, Meaning::Time(unit));
        let data = match field.data_type() {
            DataType::Boolean => Data::Bool(BooleanBufferBuilder::new(capacity)),
            DataType::Int8 => number(i8::MIN.into(), i8::MAX.into()),
            DataType::Int16 => number(i16::MIN.into(), i16::MAX.into()),
            DataType::Int32 => number(i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => number(i64::MIN, i64::MAX),
            DataType::UInt8 => number(0, u8::MAX.into()),
            DataType::UInt16 => number(0, u16::MAX.into()),
            DataType::UInt32 => number(0, u32::MAX.into()),
            DataType::UInt64 => Data::Unsigned(Vec::with_capacity(capacity)),
            DataType::Float32 => Data::ShortFloat(Vec::with_capacity(capacity)),
            DataType::Float64 => Data::Float(Vec::with_capacity(capacity)),
            DataType::Utf8View => Data::Text(StringViewBuilder::with_capacity(capacity)),
            DataType::Binary => Data::Binary(BinaryBuilder::with_capacity(capacity, capacity * 16)),
            DataType::Date32 => int(i32::MIN.into(), i32::MAX.into(), Meaning::Date),
            DataType::Time32(unit @ (TimeUnit::Second | TimeUnit::Millisecond)) => time(*unit),
            DataType::Time64(unit @ (TimeUnit::Microsecond | TimeUnit::Nanosecond)) => time(*unit),
            DataType::Decimal128(precision, scale) => {
                Data::Decimal { values: Vec::with_capacity(capacity), precision: *precision, scale: *scale }
            }
            DataType::Decimal256(precision, scale) => {
                Data::LongDecimal { values: Vec::with_capacity(capacity), precision: *precision, scale: *scale }
            }
            DataType::Timestamp(unit, name) => match Zone::of(name.as_deref()) {
                Some(zone) => int(i64::MIN, i64::MAX, Meaning::Timestamp(*unit, zone)),
                None => return Err(unsupported(format, &path, field.data_type())),
            },
            DataType::List(item) => {
                let mut offsets = Vec::with_capacity(capacity + 1);
                offsets.push(0);
                Data::List { offsets, item: Box::new(Column::at(item, format!("{path}[]"), true, capacity, bytes_as, format)?) }
            }
            DataType::Struct(fields) => {
                let child = |field: &FieldRef| Column::at(field, format!("{path}.{}", field.name()), true, capacity, bytes_as, format);
                Data::Struct(fields.iter().map(child).collect::<Result<_>>()?)
            }
            other => return Err(unsupported(format, &path, other)),
        };
        let nulls = NullBufferBuilder::new(capacity);
        Ok(Column { field: Arc::clone(field), path, nested, bytes_as, nulls, data, length: 0, scratch: Vec::new() })
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn name(&self) -> &str {
        self.field.name()
    }

    /// Whether a value of it holds others.
    pub(super) fn is_nested(&self) -> bool {
        matches!(self.data, Data::List { .. } | Data::Struct(_))
    }

    /// Appends null, without a fault.
    pub(super) fn append_null(&mut self) {
        let valid = self.nested && !self.field.is_nullable();
        self.append_empty(valid);
    }

    fn append_empty(&mut self, valid: bool) {
        match &mut self.data {
            Data::Bool(values) => values.append(false),
            Data::Int { values, .. } => values.push(0),
            Data::Unsigned(values) => values.push(0),
            Data::Float(values) => values.push(0.0),
            Data::ShortFloat(values) => values.push(0.0),
            Data::Decimal { values, .. } => values.push(0),
            Data::LongDecimal { values, .. } => values.push(i256::ZERO),
            Data::Text(values) => values.append_option(valid.then_some("")),
            Data::Binary(values) => values.append_option(valid.then_some(b"")),
            Data::List { offsets, item } => offsets.push(item.length as i32),
            Data::Struct(children) => children.iter_mut().for_each(Column::append_null),
        }
        self.nulls.append(valid);
        self.length += 1;
    }

    /// Notes that a value is missing, if one must be there.
    pub(super) fn note_missing(&self, record: usize, faults: &mut Faults) {
        if !self.field.is_nullable() {
            faults.add_fatal(record, BadReason::MissingValue, || format!("column `{}`: a value is missing", self.path));
        }
    }

    /// Appends null for a value that is missing.
    pub(super) fn append_missing(&mut self, record: usize, faults: &mut Faults) {
        self.note_missing(record, faults);
        self.append_null();
    }

    /// Notes that a value does not fit.
    pub(super) fn note_misfit(&self, record: usize, value: &[u8], faults: &mut Faults) {
        self.note(record, faults, BadReason::TypeMismatch, || {
            format!("column `{}`: `{}` is not a `{}`", self.path, shortened(value), types::name(self.field.data_type()))
        });
    }

    /// Appends null for a value that does not fit.
    pub(super) fn append_misfit(&mut self, record: usize, value: &[u8], faults: &mut Faults) {
        self.note_misfit(record, value, faults);
        self.append_null();
    }

    /// Appends null for a text that is not UTF-8.
    pub(super) fn append_not_text(&mut self, record: usize, faults: &mut Faults) {
        self.note(record, faults, BadReason::Malformed, || format!("column `{}`: the text is not UTF-8", self.path));
        self.append_null();
    }

    fn note(&self, record: usize, faults: &mut Faults, reason: BadReason, message: impl FnOnce() -> String) {
        if self.field.is_nullable() {
            faults.add(record, reason, message);
        } else {
            faults.add_fatal(record, reason, message);
        }
    }

    /// Ends a list or struct whose items or children have just been appended.
    pub(super) fn close(&mut self) {
        let end = match &self.data {
            Data::List { item, .. } => item.length,
            _ => 0,
        };
        self.close_at(true, end);
    }

    /// The same for content that was appended for many at a time: `end` is where that of a list ends.
    pub(super) fn close_at(&mut self, valid: bool, end: usize) {
        if let Data::List { offsets, .. } = &mut self.data {
            offsets.push(end as i32);
        }
        self.nulls.append(valid || (self.nested && !self.field.is_nullable()));
        self.length += 1;
    }

    /// Counts a value that was put into [`Column::data`].
    pub(super) fn count_one(&mut self) {
        self.nulls.append_non_null();
        self.length += 1;
    }

    /// Makes the column so long: what a record that broke off lacks is null, what it left half done is closed.
    pub(super) fn level(&mut self, length: usize) {
        if let Data::Struct(children) = &mut self.data {
            // Children may be ahead of the struct that they are in.
            let most = children.iter().map(Column::begun).max().unwrap_or(0).min(length);
            children.iter_mut().for_each(|child| child.level(most));
            if most > self.length && self.length < length {
                self.nulls.append(self.nested && !self.field.is_nullable());
                self.length += 1;
            }
        }
        if let Data::List { item, .. } = &mut self.data {
            let begun = item.begun();
            item.level(begun);
        }
        while self.length < length {
            self.append_null();
        }
    }

    /// How many values were begun, a struct that only some of its children have counted.
    fn begun(&self) -> usize {
        match &self.data {
            Data::Struct(children) => children.iter().map(Column::begun).max().unwrap_or(0).max(self.length),
            _ => self.length,
        }
    }

    /// Appends a text as it is read from CSV or JSON; the loop is over one type. `record_of` is the record of a cell.
    pub(super) fn append_cells<'a>(
        &mut self,
        count: usize,
        cell: impl Fn(usize) -> Cell<'a>,
        record_of: impl Fn(usize) -> usize,
        faults: &mut Faults,
    ) {
        let mut next = 0;
        while next < count {
            // Stops at what needs more than a value, and goes on behind it.
            next = self.append_plain(next, count, &cell);
            if next == count {
                break;
            }
            let record = record_of(next);
            match cell(next) {
                Cell::Null => self.append_missing(record, faults),
                Cell::Masked => self.append_null(),
                Cell::Nested(text) => self.append_misfit(record, text, faults),
                Cell::Text(text) if std::str::from_utf8(text).is_err() => self.append_not_text(record, faults),
                Cell::Text(text) => self.append_misfit(record, text, faults),
            }
            next += 1;
        }
    }

    /// Appends cells as long as they fit; answers the first that does not.
    fn append_plain<'a>(&mut self, from: usize, count: usize, cell: &impl Fn(usize) -> Cell<'a>) -> usize {
        let nullable = self.field.is_nullable();
        let (nulls, scratch) = (&mut self.nulls, &mut self.scratch);
        macro_rules! each {
            ($values:ident, $empty:expr, $parse:expr) => {{
                let mut at = from;
                while at < count {
                    match cell(at) {
                        Cell::Text(text) => match $parse(text) {
                            Some(value) => {
                                $values.push(value);
                                nulls.append_non_null();
                            }
                            None => break,
                        },
                        Cell::Null if nullable => {
                            $values.push($empty);
                            nulls.append_null();
                        }
                        _ => break,
                    }
                    at += 1;
                }
                at
            }};
        }
        let at = match &mut self.data {
            Data::Int { values, least, most, meaning } => {
                let range = *least..=*most;
                let fits = |value: &i64| range.contains(value);
                match *meaning {
                    Meaning::Number => each!(values, 0, |text| integer(text).filter(fits)),
                    Meaning::Date => each!(values, 0, |text| date(text).filter(fits)),
                    Meaning::Time(unit) => each!(values, 0, |text| time_of_day(text, unit).or_else(|| integer(text)).filter(fits)),
                    Meaning::Timestamp(unit, zone) => each!(values, 0, |text| timestamp(text, unit, zone)),
                }
            }
            Data::Unsigned(values) => each!(values, 0, unsigned),
            Data::Float(values) => each!(values, 0.0, float),
            Data::ShortFloat(values) => each!(values, 0.0, short_float),
            Data::Decimal { values, precision, scale } => {
                let (precision, scale) = (*precision, *scale);
                each!(values, 0, |text| decimal(text, precision, scale))
            }
            Data::LongDecimal { values, precision, scale } => {
                let (precision, scale) = (*precision, *scale);
                each!(values, i256::ZERO, |text| long_decimal(text, precision, scale))
            }
            Data::Bool(values) => {
                let mut at = from;
                while at < count {
                    let value = match cell(at) {
                        Cell::Text(text) => boolean(text),
                        Cell::Null if nullable => {
                            values.append(false);
                            nulls.append_null();
                            at += 1;
                            continue;
                        }
                        _ => None,
                    };
                    let Some(value) = value else { break };
                    values.append(value);
                    nulls.append_non_null();
                    at += 1;
                }
                at
            }
            Data::Text(values) => {
                let mut at = from;
                while at < count {
                    match cell(at) {
                        Cell::Text(text) => match std::str::from_utf8(text) {
                            Ok(text) => values.append_value(text),
                            Err(_) => break,
                        },
                        Cell::Null if nullable => values.append_null(),
                        _ => break,
                    }
                    at += 1;
                }
                at
            }
            Data::Binary(values) => {
                let mut at = from;
                while at < count {
                    match cell(at) {
                        Cell::Text(text) => {
                            scratch.clear();
                            let fits = match self.bytes_as {
                                BytesAs::Hex => from_hex(text, scratch),
                                BytesAs::Base64 => base64::decode(text, scratch),
                                BytesAs::Raw => {
                                    scratch.extend_from_slice(text);
                                    true
                                }
                            };
                            if !fits {
                                break;
                            }
                            values.append_value(&scratch);
                        }
                        Cell::Null if nullable => values.append_null(),
                        _ => break,
                    }
                    at += 1;
                }
                at
            }
            // Their cells are never texts.
            Data::List { .. } | Data::Struct(_) => from,
        };
        self.length += at - from;
        at
    }

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
            Data::Text(mut values) => Arc::new(values.finish()),
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

/// A decimal of more digits than 128 bits hold.
pub(super) fn long_decimal(text: &[u8], precision: u8, scale: i8) -> Option<i256> {
    // The kernel would round, so what has too many digits behind the point is kept from it.
    let short = fraction_digits(text)? <= i64::from(scale);
    let text = std::str::from_utf8(text).ok()?;
    parse_decimal::<Decimal256Type>(text, precision, scale).ok().filter(|_| short)
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

/// Columns for the fields that are decoded.
pub(super) fn columns(fields: &[FieldRef], capacity: usize, bytes_as: BytesAs, format: &str) -> Result<Vec<Column>> {
    fields.iter().map(|field| Column::new(field, capacity, bytes_as, format)).collect()
}

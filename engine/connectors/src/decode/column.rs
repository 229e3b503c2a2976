//! A column being made: takes texts from CSV and JSON, typed values from the binary formats, and answers an array.
//!
//! Every call appends exactly one value, null where something does not fit, so that the columns of a batch stay level and a bad
//! record is taken out at the end. A field inside of a struct or list that may not be null gets an empty value instead, since
//! such an array could not be made otherwise; its record is bad in any case.

use super::cells::{Faults, shortened};
use super::times::{Zone, per_second};
use super::{Wanted, unsupported};
use arrow::array::{BinaryBuilder, BooleanBufferBuilder, NullBufferBuilder};
use arrow::datatypes::{DataType, FieldRef, TimeUnit, i256};
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
    /// Texts one behind the other, known to be UTF-8, and where each ends.
    Text {
        offsets: Vec<i32>,
        values: Vec<u8>,
    },
    Binary(BinaryBuilder),
    List {
        offsets: Vec<i32>,
        item: Box<Column>,
    },
    Struct(Vec<Column>),
}

/// A column being made.
pub(super) struct Column {
    pub(super) field: FieldRef,
    /// Its name for messages, with those of what it is inside of.
    path: String,
    /// The name of the outermost of those.
    root: Arc<str>,
    nested: bool,
    pub(super) bytes_as: BytesAs,
    pub(super) nulls: NullBufferBuilder,
    pub(super) data: Data,
    pub(super) length: usize,
    pub(super) scratch: Vec<u8>,
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
    fn new(field: &FieldRef, capacity: usize, bytes_as: BytesAs, format: &str) -> Result<Self> {
        Column::at(field, field.name().clone(), None, capacity, bytes_as, format)
    }

    fn at(field: &FieldRef, path: String, inside: Option<&Arc<str>>, capacity: usize, bytes_as: BytesAs, format: &str) -> Result<Self> {
        let root = inside.map_or_else(|| Arc::from(path.as_str()), Arc::clone);
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
            DataType::Utf8View => {
                let mut offsets = Vec::with_capacity(capacity + 1);
                offsets.push(0);
                Data::Text { offsets, values: Vec::new() }
            }
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
                Data::List { offsets, item: Box::new(Column::at(item, format!("{path}[]"), Some(&root), capacity, bytes_as, format)?) }
            }
            DataType::Struct(fields) => {
                let child =
                    |field: &FieldRef| Column::at(field, format!("{path}.{}", field.name()), Some(&root), capacity, bytes_as, format);
                Data::Struct(fields.iter().map(child).collect::<Result<_>>()?)
            }
            other => return Err(unsupported(format, &path, other)),
        };
        let nulls = NullBufferBuilder::new(capacity);
        Ok(Column { field: Arc::clone(field), path, nested: inside.is_some(), root, bytes_as, nulls, data, length: 0, scratch: Vec::new() })
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
            Data::Text { offsets, values } => offsets.push(values.len() as i32),
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
            faults.add_fatal(record, BadReason::MissingValue, &self.root, || format!("column `{}`: a value is missing", self.path));
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

    /// Appends null for bytes that are no value of their type.
    pub(super) fn append_wrong(&mut self, what: &str, record: usize, faults: &mut Faults) {
        self.note(record, faults, BadReason::Malformed, || format!("column `{}`: {what}", self.path));
        self.append_null();
    }

    fn note(&self, record: usize, faults: &mut Faults, reason: BadReason, message: impl FnOnce() -> String) {
        if self.field.is_nullable() {
            faults.add(record, reason, &self.root, message);
        } else {
            faults.add_fatal(record, reason, &self.root, message);
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
}

/// What columns depend on beside their type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// The format's name, for messages.
    pub(super) format: &'static str,
    pub(super) bytes_as: BytesAs,
}

impl Kind {
    /// Columns for the fields that are decoded, for about so many rows.
    ///
    /// # Errors
    /// `Config` for a type that the format cannot hold.
    pub(super) fn columns(self, wanted: &Wanted, rows: usize) -> Result<Vec<Column>> {
        wanted.decoded().iter().map(|field| Column::new(field, rows, self.bytes_as, self.format)).collect()
    }
}

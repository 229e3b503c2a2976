//! From the text of a cell to a typed value: the one place where CSV fields and JSON scalars are parsed.
//!
//! A value fits its column exactly or the record is bad: no wrapping, no rounding, no lost digits. Integers may be written `3.0`
//! or `3e2` if they are whole, timestamps as ISO-8601 text (a zone in the text wins, then the column's, then UTC) or as
//! a whole number of the column's unit, dates as `2013-01-31`, binary as hexadecimal digits.

use arrow::array::timezone::Tz;
use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryBuilder, BooleanArray, BooleanBuilder, Decimal128Array, PrimitiveArray, PrimitiveBuilder,
    StringViewBuilder,
};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::compute::kernels::cast_utils::{Parser, parse_decimal, string_to_datetime};
use arrow::datatypes::{
    ArrowTimestampType, DataType, Date32Type, Decimal256Type, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use chrono::{TimeZone, Utc};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::{BadReason, Error, Result, types};

/// One cell of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    Null,
    Text(&'a str),
    /// Bytes that are not UTF-8.
    NotText,
}

/// Why a value does not fit its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellError {
    /// The label.
    pub reason: BadReason,
    /// What is wrong, naming the column.
    pub message: String,
}

/// The faults of a batch of records; the first of a record counts.
#[derive(Debug, Default)]
pub(super) struct Faults(BTreeMap<usize, CellError>);

impl Faults {
    pub(super) fn add(&mut self, record: usize, reason: BadReason, message: impl FnOnce() -> String) {
        self.0.entry(record).or_insert_with(|| CellError { reason, message: message() });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = (usize, CellError)> {
        self.0.into_iter()
    }

    /// The columns without the faulty records.
    pub(super) fn strip(&self, columns: Vec<ArrayRef>, records: usize) -> Result<Vec<ArrayRef>> {
        if self.is_empty() {
            return Ok(columns);
        }
        let good = BooleanArray::new(BooleanBuffer::collect_bool(records, |record| !self.0.contains_key(&record)), None);
        Ok(columns.iter().map(|column| filter(column, &good)).collect::<Result<_, _>>()?)
    }

    /// How many records of `records` have no fault.
    pub(super) fn good(&self, records: usize) -> usize {
        records - self.0.len()
    }
}

/// Whether [`parse`] can make this type.
pub(super) fn can_parse(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(_, zone) => zone.as_ref().is_none_or(|zone| zone.parse::<Tz>().is_ok()),
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

/// Parses a column; what does not fit is null in it and noted in `faults`.
pub(super) fn parse<'a>(field: &Field, records: usize, cell: impl Fn(usize) -> Cell<'a>, faults: &mut Faults) -> Result<ArrayRef> {
    let mut cells = Cells { field, records, cell, faults };
    Ok(match field.data_type() {
        DataType::Utf8View => cells.text(),
        DataType::Binary => cells.binary(),
        DataType::Boolean => cells.booleans(),
        DataType::Int8 => cells.integers::<Int8Type>(),
        DataType::Int16 => cells.integers::<Int16Type>(),
        DataType::Int32 => cells.integers::<Int32Type>(),
        DataType::Int64 => cells.integers::<Int64Type>(),
        DataType::UInt8 => cells.integers::<UInt8Type>(),
        DataType::UInt16 => cells.integers::<UInt16Type>(),
        DataType::UInt32 => cells.integers::<UInt32Type>(),
        DataType::UInt64 => cells.integers::<UInt64Type>(),
        DataType::Float32 => cells.primitives::<Float32Type>(Float32Type::parse),
        DataType::Float64 => cells.primitives::<Float64Type>(Float64Type::parse),
        DataType::Date32 => cells.primitives::<Date32Type>(Date32Type::parse),
        DataType::Time32(TimeUnit::Second) => cells.primitives::<Time32SecondType>(Time32SecondType::parse),
        DataType::Time32(TimeUnit::Millisecond) => cells.primitives::<Time32MillisecondType>(Time32MillisecondType::parse),
        DataType::Time64(TimeUnit::Microsecond) => cells.primitives::<Time64MicrosecondType>(Time64MicrosecondType::parse),
        DataType::Time64(TimeUnit::Nanosecond) => cells.primitives::<Time64NanosecondType>(Time64NanosecondType::parse),
        DataType::Decimal128(precision, scale) => cells.decimals(*precision, *scale),
        DataType::Decimal256(precision, scale) => {
            let (precision, scale) = (*precision, *scale);
            cells.primitives::<Decimal256Type>(|text| {
                let short = fraction_digits(text)? <= i64::from(scale);
                parse_decimal::<Decimal256Type>(text, precision, scale).ok().filter(|_| short)
            })
        }
        DataType::Timestamp(unit, zone) => match zone.as_deref() {
            None | Some("UTC" | "+00:00" | "Z") => cells.timestamps(*unit, &Utc),
            Some(zone) => cells.timestamps(*unit, &zone.parse::<Tz>()?),
        },
        other => return Err(Error::config(format!("column `{}`: text cannot be read as `{}`", field.name(), types::name(other)))),
    })
}

struct Cells<'f, F> {
    field: &'f Field,
    records: usize,
    cell: F,
    faults: &'f mut Faults,
}

impl<'a, F: Fn(usize) -> Cell<'a>> Cells<'_, F> {
    /// Hands every value to `append`: text, or `None` for null. `append` answers false for a value that does not fit, having appended null.
    fn each(&mut self, mut append: impl FnMut(Option<&'a str>) -> bool) {
        let field = self.field;
        for record in 0..self.records {
            match (self.cell)(record) {
                Cell::Text(text) => {
                    if !append(Some(text)) {
                        self.faults.add(record, BadReason::TypeMismatch, || {
                            format!("column `{}`: `{}` is not a `{}`", field.name(), shortened(text), types::name(field.data_type()))
                        });
                    }
                }
                Cell::Null => {
                    append(None);
                    if !field.is_nullable() {
                        self.faults.add(record, BadReason::MissingValue, || format!("column `{}`: a value is missing", field.name()));
                    }
                }
                Cell::NotText => {
                    append(None);
                    self.faults.add(record, BadReason::Malformed, || format!("column `{}`: the text is not UTF-8", field.name()));
                }
            }
        }
    }

    fn text(&mut self) -> ArrayRef {
        let mut builder = StringViewBuilder::with_capacity(self.records);
        self.each(|text| {
            builder.append_option(text);
            true
        });
        Arc::new(builder.finish())
    }

    fn binary(&mut self) -> ArrayRef {
        let mut builder = BinaryBuilder::with_capacity(self.records, self.records * 16);
        self.each(|text| {
            let bytes = text.map(from_hex);
            builder.append_option(bytes.as_ref().and_then(Option::as_deref));
            bytes.is_none_or(|bytes| bytes.is_some())
        });
        Arc::new(builder.finish())
    }

    fn booleans(&mut self) -> ArrayRef {
        let mut builder = BooleanBuilder::with_capacity(self.records);
        self.each(|text| {
            let value = text.map(boolean);
            builder.append_option(value.flatten());
            value.is_none_or(|value| value.is_some())
        });
        Arc::new(builder.finish())
    }

    fn builder_of<T: ArrowPrimitiveType>(&mut self, parse: impl Fn(&str) -> Option<T::Native>) -> PrimitiveArray<T> {
        let mut builder = PrimitiveBuilder::<T>::with_capacity(self.records);
        self.each(|text| match text {
            None => {
                builder.append_null();
                true
            }
            Some(text) => {
                let value = parse(text);
                builder.append_option(value);
                value.is_some()
            }
        });
        builder.finish()
    }

    fn primitives<T: ArrowPrimitiveType>(&mut self, parse: impl Fn(&str) -> Option<T::Native>) -> ArrayRef {
        let data_type = self.field.data_type().clone();
        Arc::new(self.builder_of::<T>(parse).with_data_type(data_type))
    }

    fn integers<T: Parser>(&mut self) -> ArrayRef
    where
        T::Native: TryFrom<i64>,
    {
        self.primitives::<T>(|text| T::parse(text).or_else(|| whole(text).and_then(|value| T::Native::try_from(value).ok())))
    }

    fn decimals(&mut self, precision: u8, scale: i8) -> ArrayRef {
        let array: Decimal128Array = self.builder_of(|text| decimal(text, precision, scale));
        Arc::new(array.with_data_type(DataType::Decimal128(precision, scale)))
    }

    fn timestamps<Z: TimeZone>(&mut self, unit: TimeUnit, zone: &Z) -> ArrayRef {
        match unit {
            TimeUnit::Second => self.timestamps_of::<TimestampSecondType, Z>(zone),
            TimeUnit::Millisecond => self.timestamps_of::<TimestampMillisecondType, Z>(zone),
            TimeUnit::Microsecond => self.timestamps_of::<TimestampMicrosecondType, Z>(zone),
            TimeUnit::Nanosecond => self.timestamps_of::<TimestampNanosecondType, Z>(zone),
        }
    }

    fn timestamps_of<T: ArrowTimestampType, Z: TimeZone>(&mut self, zone: &Z) -> ArrayRef {
        self.primitives::<T>(|text| timestamp(text, T::UNIT, zone))
    }
}

/// The beginning of a long text.
fn shortened(text: &str) -> String {
    const MOST: usize = 64;
    if text.len() <= MOST {
        return text.to_string();
    }
    let end = (0..=MOST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

fn boolean(text: &str) -> Option<bool> {
    const TRUE: [&str; 3] = ["true", "t", "1"];
    const FALSE: [&str; 3] = ["false", "f", "0"];
    if TRUE.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        Some(true)
    } else if FALSE.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        Some(false)
    } else {
        None
    }
}

/// An integer written with a fraction of zeros or an exponent, as some writers do.
fn whole(text: &str) -> Option<i64> {
    if !text.bytes().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return None;
    }
    i64::try_from(decimal(text, 38, 0)?).ok()
}

/// A timestamp as a whole number of its unit, or as ISO-8601 text.
fn timestamp<Z: TimeZone>(text: &str, unit: TimeUnit, zone: &Z) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().ok();
    }
    if !text.is_ascii() {
        return None;
    }
    let at = string_to_datetime(zone, text).ok()?;
    match unit {
        TimeUnit::Second => Some(at.timestamp()),
        TimeUnit::Millisecond => Some(at.timestamp_millis()),
        TimeUnit::Microsecond => Some(at.timestamp_micros()),
        TimeUnit::Nanosecond => at.timestamp_nanos_opt(),
    }
}

/// The parts of a decimal number: negative, digits before and after the point, exponent.
fn number_parts(text: &str) -> Option<(bool, &str, &str, i64)> {
    let (negative, rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match rest.find(['e', 'E']) {
        Some(at) => (&rest[..at], rest[at + 1..].parse::<i32>().ok()?),
        None => (rest, 0),
    };
    let (before, after) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let some = !before.is_empty() || !after.is_empty();
    (some && digits(before) && digits(after)).then_some((negative, before, after, i64::from(exponent)))
}

/// Significant digits behind the point, after applying the exponent.
fn fraction_digits(text: &str) -> Option<i64> {
    let (_, _, after, exponent) = number_parts(text)?;
    Some(after.trim_end_matches('0').len() as i64 - exponent)
}

/// The unscaled value of a decimal, if no digit is lost and none is too many.
fn decimal(text: &str, precision: u8, scale: i8) -> Option<i128> {
    let (negative, before, after, exponent) = number_parts(text)?;
    let after = after.trim_end_matches('0');
    // The digits as one integer, times ten to the power of `shift`, is the unscaled value.
    let mut unscaled: i128 = 0;
    for digit in before.bytes().chain(after.bytes()) {
        unscaled = unscaled.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
    }
    let mut shift = i64::from(scale) + exponent - after.len() as i64;
    while shift < 0 && unscaled != 0 {
        if unscaled % 10 != 0 {
            return None;
        }
        unscaled /= 10;
        shift += 1;
    }
    while shift > 0 && unscaled != 0 {
        unscaled = unscaled.checked_mul(10)?;
        shift -= 1;
    }
    let limit = 10i128.checked_pow(u32::from(precision))?;
    (unscaled < limit).then_some(if negative { -unscaled } else { unscaled })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    bytes.chunks_exact(2).map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_decimal_keeps_every_digit_or_is_refused() {
        assert_eq!(decimal("1.230", 10, 2), Some(123));
        assert_eq!(decimal("-0.5", 10, 2), Some(-50));
        assert_eq!(decimal("1.5e2", 10, 2), Some(15_000));
        assert_eq!(decimal("1500e-1", 10, 0), Some(150));
        assert_eq!(decimal(".5", 3, 1), Some(5));
        for wrong in ["1.234", "123456789", "1e40", "", "-", ".", "1.2.3", "0x1", "1e", "NaN"] {
            assert_eq!(decimal(wrong, 10, 2), None, "{wrong}");
        }
    }

    #[test]
    fn a_timestamp_takes_its_zone_from_the_text_then_from_the_column() {
        let copenhagen: Tz = "Europe/Copenhagen".parse().unwrap();
        let of = |text| timestamp(text, TimeUnit::Millisecond, &copenhagen);
        assert_eq!(of("2013-07-01T12:00:00Z"), Some(1_372_680_000_000));
        assert_eq!(of("2013-07-01T12:00:00+02:00"), Some(1_372_672_800_000));
        assert_eq!(of("2013-07-01 12:00:00"), Some(1_372_672_800_000));
        assert_eq!(timestamp("2013-07-01T12:00:00.5", TimeUnit::Millisecond, &Utc), Some(1_372_680_000_500));
        assert_eq!(timestamp("1969-12-31T23:59:59.999Z", TimeUnit::Millisecond, &Utc), Some(-1));
        assert_eq!(timestamp("9999-12-31", TimeUnit::Millisecond, &Utc), Some(253_402_214_400_000));
        assert_eq!(timestamp("-5", TimeUnit::Millisecond, &Utc), Some(-5));
        for wrong in ["", "2013-13-01T00:00:00Z", "2013-01-01T25:00:00Z", "yesterday", "2013-01-01T10:00:00é"] {
            assert_eq!(timestamp(wrong, TimeUnit::Millisecond, &Utc), None, "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn whole_numbers_survive_a_fraction_of_zeros(value in any::<i64>(), zeros in 0usize..4) {
            prop_assert_eq!(whole(&format!("{value}.{}", "0".repeat(zeros))), Some(value));
            prop_assert_eq!(whole(&format!("{value}.5")), None);
        }
    }
}

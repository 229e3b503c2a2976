//! From the text of a cell to a typed value, and what is noted when it does not fit.
//!
//! A value fits its column exactly or the record is bad: no wrapping, no rounding, no lost digits. Integers may be written `3.0`
//! or `3e2` if they are whole. The nearest float of a decimal text is its value; a text beyond the largest float does not fit.

use super::Wanted;
use super::times::{Zone, in_unit, moment};
use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use arrow::datatypes::TimeUnit;
use std::collections::BTreeMap;
use tidegate_api::{BadReason, BadRow, Result};

/// One cell of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    /// No value.
    Null,
    /// Nothing that was in the record: inside of something that is null.
    Masked,
    /// Text, which may turn out not to be UTF-8.
    Text(&'a [u8]),
    /// A list or an object where one value belongs.
    Nested(&'a [u8]),
}

/// Why a value does not fit its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellError {
    /// The label.
    pub reason: BadReason,
    /// The column at fault, if it is one: the name in the schema of what it is inside of.
    pub column: Option<String>,
    /// What is wrong, naming the column.
    pub message: String,
}

impl CellError {
    /// The record as a bad row.
    pub(crate) fn into_row(self, raw: Vec<u8>) -> BadRow {
        BadRow::new(self.reason, self.message, raw).in_column(self.column)
    }
}

#[derive(Debug)]
struct Fault {
    error: CellError,
    /// Whether null can stand for what did not fit.
    spares: bool,
}

/// The faults of a batch of records; the first of a record is told.
#[derive(Debug, Default)]
pub(super) struct Faults(BTreeMap<usize, Fault>);

impl Faults {
    /// Notes a fault of a record in a column. The column has null there, if it may.
    pub(super) fn add(&mut self, record: usize, reason: BadReason, column: &str, message: impl FnOnce() -> String) {
        self.note(record, reason, Some(column), true, message);
    }

    /// Notes a fault that null cannot stand for.
    pub(super) fn add_fatal(&mut self, record: usize, reason: BadReason, column: &str, message: impl FnOnce() -> String) {
        self.note(record, reason, Some(column), false, message);
    }

    /// Notes that nothing of a record can be read, so every column has null there.
    pub(super) fn add_broken(&mut self, record: usize, wanted: &Wanted, message: impl FnOnce() -> String) {
        let spares = wanted.decoded().iter().all(|field| field.is_nullable());
        self.note(record, BadReason::Malformed, None, spares, message);
    }

    /// The same for a record whose first values may have been read, and found not to fit.
    pub(super) fn replace_broken(&mut self, record: usize, wanted: &Wanted, message: String) {
        self.0.remove(&record);
        self.add_broken(record, wanted, || message);
    }

    fn note(&mut self, record: usize, reason: BadReason, column: Option<&str>, spares: bool, message: impl FnOnce() -> String) {
        let error = || CellError { reason, column: column.map(str::to_string), message: message() };
        let fault = self.0.entry(record).or_insert_with(|| Fault { error: error(), spares });
        fault.spares &= spares;
    }

    /// Takes out the faults after which a record can be kept, with null for what did not fit; answers those records, in order.
    pub(super) fn take_spared(&mut self) -> Vec<usize> {
        let spared: Vec<usize> = self.0.iter().filter(|(_, fault)| fault.spares).map(|(record, _)| *record).collect();
        self.0.retain(|_, fault| !fault.spares);
        spared
    }

    /// The records at fault, in order.
    pub(super) fn records(&self) -> impl Iterator<Item = usize> {
        self.0.keys().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many records are at fault.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn into_iter(self) -> impl Iterator<Item = (usize, CellError)> {
        self.0.into_iter().map(|(record, fault)| (record, fault.error))
    }

    /// The columns without the faulty records.
    pub(super) fn strip(&self, columns: Vec<ArrayRef>, records: usize) -> Result<Vec<ArrayRef>> {
        if self.is_empty() {
            return Ok(columns);
        }
        let good = BooleanArray::new(BooleanBuffer::collect_bool(records, |record| !self.0.contains_key(&record)), None);
        Ok(columns.iter().map(|column| filter(column as &dyn Array, &good)).collect::<Result<_, _>>()?)
    }

    /// How many records of `records` have no fault.
    pub(super) fn good(&self, records: usize) -> usize {
        records - self.0.len()
    }
}

/// The beginning of a long text.
pub(super) fn shortened(text: &[u8]) -> String {
    const MOST: usize = 64;
    let text = String::from_utf8_lossy(&text[..text.len().min(4 * MOST)]).into_owned();
    if text.len() <= MOST {
        return text;
    }
    let end = (0..=MOST).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

pub(super) fn boolean(text: &[u8]) -> Option<bool> {
    const TRUE: [&[u8]; 3] = [b"true", b"t", b"1"];
    const FALSE: [&[u8]; 3] = [b"false", b"f", b"0"];
    if TRUE.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        Some(true)
    } else if FALSE.iter().any(|word| word.eq_ignore_ascii_case(text)) {
        Some(false)
    } else {
        None
    }
}

/// Eight digits as a number, without a branch for each.
#[inline]
fn eight_digits(chunk: [u8; 8]) -> Option<u64> {
    let digits = u64::from_le_bytes(chunk) ^ ZEROS;
    if (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    // Pairs, then pairs of pairs, then both halves.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00FF_00FF_00FF_00FF;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_FFFF_0000_FFFF;
    Some(fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xFFFF_FFFF)
}

const ZEROS: u64 = 0x3030_3030_3030_3030;

/// At most 16 digits, which any 64-bit integer can hold.
#[inline]
fn few_digits(digits: &[u8]) -> Option<i64> {
    const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    let count = digits.len();
    let value = match (digits.first_chunk::<8>(), digits.last_chunk::<8>()) {
        (Some(first), Some(last)) if count <= 16 => {
            let more = count - 8;
            let head = eight_digits(*first)?;
            if more == 0 {
                head
            } else {
                // The last eight overlap the first; what was read already counts as zeros in front.
                let read = 8 * (8 - more) as u32;
                let tail = (u64::from_le_bytes(*last) >> read) << read | ZEROS & !(u64::MAX << read);
                head * POWERS[more] + eight_digits(tail.to_le_bytes())?
            }
        }
        (Some(_), _) => return None,
        (None, _) => match (digits.first_chunk::<4>(), digits.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                // Two halves that overlap, then zeros in front.
                let (low, high) = (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)));
                let front = 8 * (8 - count) as u32;
                let whole = low | high << (8 * (count - 4));
                eight_digits((whole << front | ZEROS & !(u64::MAX << front)).to_le_bytes())?
            }
            _ => {
                let mut value = 0;
                for byte in digits {
                    let digit = byte.wrapping_sub(b'0');
                    if digit > 9 {
                        return None;
                    }
                    value = value * 10 + u64::from(digit);
                }
                if digits.is_empty() {
                    return None;
                }
                value
            }
        },
    };
    i64::try_from(value).ok()
}

/// An integer as it is usually written.
#[inline]
pub(super) fn integer(text: &[u8]) -> Option<i64> {
    let plain = match text.split_first() {
        Some((b'-', digits)) => few_digits(digits).map(|value| -value),
        _ => few_digits(text),
    };
    plain.or_else(|| long_integer(text))
}

/// An integer of any form: many digits, a sign, a fraction of zeros, an exponent.
#[cold]
fn long_integer(text: &[u8]) -> Option<i64> {
    i64::try_from(decimal(text, 38, 0)?).ok()
}

/// The same for the largest unsigned type.
pub(super) fn unsigned(text: &[u8]) -> Option<u64> {
    u64::try_from(decimal(text, 38, 0)?).ok()
}

/// The nearest float.
pub(super) fn float(text: &[u8]) -> Option<f64> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    // A number too large is not infinite; only the word is.
    (value.is_finite() || !text.iter().any(u8::is_ascii_digit)).then_some(value)
}

/// The nearest short float.
pub(super) fn short_float(text: &[u8]) -> Option<f32> {
    let value: f32 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (value.is_finite() || !text.iter().any(u8::is_ascii_digit)).then_some(value)
}

/// A timestamp as a whole number of its unit, or as ISO-8601 text.
pub(super) fn timestamp(text: &[u8], unit: TimeUnit, zone: Zone) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !digits.is_empty() && digits.iter().all(u8::is_ascii_digit) {
        return integer(text);
    }
    match moment(text, zone) {
        Some((seconds, nanos)) => in_unit(seconds, nanos, unit),
        // Some writers print every number with a fraction or an exponent.
        None => long_integer(text),
    }
}

/// The parts of a decimal number: negative, digits before and after the point, exponent.
fn number_parts(text: &[u8]) -> Option<(bool, &[u8], &[u8], i64)> {
    let (negative, rest) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match rest.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&rest[..at], std::str::from_utf8(&rest[at + 1..]).ok()?.parse::<i32>().ok()?),
        None => (rest, 0),
    };
    let (before, after): (&[u8], &[u8]) = match mantissa.iter().position(|byte| *byte == b'.') {
        Some(at) => (&mantissa[..at], &mantissa[at + 1..]),
        None => (mantissa, &[]),
    };
    let digits = |part: &[u8]| part.iter().all(u8::is_ascii_digit);
    let some = !before.is_empty() || !after.is_empty();
    (some && digits(before) && digits(after)).then_some((negative, before, after, i64::from(exponent)))
}

fn without_zeros_behind(digits: &[u8]) -> &[u8] {
    let end = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    &digits[..end]
}

/// Significant digits behind the point, after applying the exponent.
pub(super) fn fraction_digits(text: &[u8]) -> Option<i64> {
    let (_, _, after, exponent) = number_parts(text)?;
    Some(without_zeros_behind(after).len() as i64 - exponent)
}

/// The unscaled value of a decimal, if no digit is lost and none is too many.
pub(super) fn decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let (negative, before, after, exponent) = number_parts(text)?;
    let after = without_zeros_behind(after);
    // The digits as one integer, times ten to the power of `shift`, is the unscaled value.
    let mut unscaled: i128 = 0;
    for digit in before.iter().chain(after) {
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

/// Appends the bytes that hexadecimal digits say; false, with nothing appended, if they say none.
pub(super) fn from_hex(text: &[u8], out: &mut Vec<u8>) -> bool {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let begun = out.len();
    for pair in text.chunks(2) {
        let byte = match pair {
            [high, low] => digit(*high).zip(digit(*low)).map(|(high, low)| (high * 16 + low) as u8),
            _ => None,
        };
        match byte {
            Some(byte) => out.push(byte),
            None => {
                out.truncate(begun);
                return false;
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_decimal_keeps_every_digit_or_is_refused() {
        assert_eq!(decimal(b"1.230", 10, 2), Some(123));
        assert_eq!(decimal(b"-0.5", 10, 2), Some(-50));
        assert_eq!(decimal(b"1.5e2", 10, 2), Some(15_000));
        assert_eq!(decimal(b"1500e-1", 10, 0), Some(150));
        assert_eq!(decimal(b".5", 3, 1), Some(5));
        for wrong in ["1.234", "123456789", "1e40", "", "-", ".", "1.2.3", "0x1", "1e", "NaN"] {
            assert_eq!(decimal(wrong.as_bytes(), 10, 2), None, "{wrong}");
        }
    }

    #[test]
    fn p005_a_number_of_a_timestamp_is_exact_or_refused() {
        let of = |text: &str| timestamp(text.as_bytes(), TimeUnit::Millisecond, Zone::Utc);
        assert_eq!(of("9007199254740993"), Some(9_007_199_254_740_993));
        assert_eq!(of("-5"), Some(-5));
        assert_eq!(of("1704067200000.0"), Some(1_704_067_200_000));
        assert_eq!(of("1.704067200000e12"), Some(1_704_067_200_000));
        for wrong in ["1704067200000.5", "9223372036854775808", "1e19", "--5", ""] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_float_too_large_is_not_infinite() {
        assert_eq!(float(b"1e400"), None);
        assert_eq!(short_float(b"1e39"), None);
        assert_eq!(float(b"-Infinity"), Some(f64::NEG_INFINITY));
        assert!(float(b"NaN").is_some_and(f64::is_nan));
        assert_eq!(float(b"1e-400"), Some(0.0));
    }

    proptest! {
        #[test]
        fn whole_numbers_survive_a_fraction_of_zeros(value in any::<i64>(), zeros in 0usize..4) {
            prop_assert_eq!(integer(format!("{value}.{}", "0".repeat(zeros)).as_bytes()), Some(value));
            prop_assert_eq!(integer(format!("{value}.5").as_bytes()), None);
            prop_assert_eq!(integer(value.to_string().as_bytes()), Some(value));
            prop_assert_eq!(unsigned((value as u64).to_string().as_bytes()), Some(value as u64));
        }

        #[test]
        fn short_digits_are_read_as_the_standard_library_does(text in "[0-9]{0,20}|[0-9:/ -]{1,20}") {
            let quick = few_digits(text.as_bytes());
            if let Some(value) = quick {
                prop_assert_eq!(text.parse::<i64>().ok(), Some(value));
            } else {
                prop_assert!(text.len() > 16 || text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()));
            }
        }
    }
}

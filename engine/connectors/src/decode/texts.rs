//! Texts of CSV and JSON into columns: a loop over values of one type, which stops at what needs more than a value.

use super::cells::{Cell, Faults, boolean, decimal, float, fraction_digits, from_hex, integer, short_float, timestamp, unsigned};
use super::column::{BytesAs, Column, Data, Meaning};
use super::times::{date, time_of_day};
use crate::base64;
use arrow::compute::kernels::cast_utils::parse_decimal;
use arrow::datatypes::{Decimal256Type, i256};

impl Column {
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
                Cell::Text(text) if std::str::from_utf8(text).is_err() => self.append_wrong("the text is not UTF-8", record, faults),
                Cell::Text(text) => self.append_misfit(record, text, faults),
            }
            next += 1;
        }
    }

    /// Appends integers and texts as long as they come and fit, the quickest way; answers the first that is something else.
    /// `number` and `text` answer the values of their kind; a text is known to be UTF-8.
    pub(super) fn append_known<'a>(
        &mut self,
        from: usize,
        count: usize,
        number: impl Fn(usize) -> Option<&'a [u8]>,
        text: impl Fn(usize) -> Option<&'a [u8]>,
    ) -> usize {
        let mut at = from;
        match &mut self.data {
            Data::Int { values, least, most, meaning: Meaning::Number } => {
                let range = *least..=*most;
                while at < count {
                    match number(at).and_then(integer) {
                        Some(value) if range.contains(&value) => values.push(value),
                        _ => break,
                    }
                    at += 1;
                }
            }
            Data::Text { offsets, values } => {
                while at < count {
                    match text(at) {
                        Some(text) if push_text(text, offsets, values) => at += 1,
                        _ => break,
                    }
                }
            }
            _ => {}
        }
        self.nulls.append_n_non_nulls(at - from);
        self.length += at - from;
        at
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
            Data::Text { offsets, values } => {
                let mut at = from;
                while at < count {
                    match cell(at) {
                        Cell::Text(text) if std::str::from_utf8(text).is_ok() && push_text(text, offsets, values) => {
                            nulls.append_non_null()
                        }
                        Cell::Null if nullable => {
                            offsets.push(values.len() as i32);
                            nulls.append_null();
                        }
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
}

/// Appends a text, if a column can hold so much.
#[inline]
fn push_text(text: &[u8], offsets: &mut Vec<i32>, values: &mut Vec<u8>) -> bool {
    match i32::try_from(values.len() + text.len()) {
        Ok(end) => {
            values.extend_from_slice(text);
            offsets.push(end);
            true
        }
        Err(_) => false,
    }
}

/// A decimal of more digits than 128 bits hold.
pub(super) fn long_decimal(text: &[u8], precision: u8, scale: i8) -> Option<i256> {
    // The kernel would round, so what has too many digits behind the point is kept from it.
    let short = fraction_digits(text)? <= i64::from(scale);
    let text = std::str::from_utf8(text).ok()?;
    parse_decimal::<Decimal256Type>(text, precision, scale).ok().filter(|_| short)
}

//! The patterns of `formatTime` and `parseTime`, in the letters of strftime

use crate::time::{Field, YEARS, Zone, checked_days_of, days_of, field_of, is_leap_year, per_second};
use arrow::datatypes::TimeUnit;
use std::fmt::Write;

pub(super) const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

pub(super) const MONTHS: [&str; 12] =
    ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Literal(String),
    Year,
    ShortYear,
    Month,
    Day,
    BareDay,
    DayOfYear,
    Hour,
    Hour12,
    HalfDay,
    Minute,
    Second,
    Fraction(usize),
    MonthName(bool),
    DayName(bool),
    DayOfWeek,
    IsoYear,
    IsoWeek,
    Offset(bool),
    Epoch,
}

/// A pattern in pieces.
#[derive(Debug)]
pub(super) struct Pattern(Vec<Piece>);

impl Pattern {
    /// Reads a pattern, or says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Pattern, String> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            push(&mut pieces, &rest[..at]);
            rest = &rest[at + 1..];
            let size = if rest.starts_with([':', '3', '6', '9']) { 2 } else { rest.chars().next().map_or(0, char::len_utf8) };
            let Some(letter) = rest.get(..size).filter(|letter| !letter.is_empty()) else {
                return Err(format!("`%{rest}` is not a part of a time, write `%%` for a percent sign"));
            };
            rest = &rest[size..];
            let piece = match letter {
                "Y" => Piece::Year,
                "y" => Piece::ShortYear,
                "m" => Piece::Month,
                "d" => Piece::Day,
                "e" => Piece::BareDay,
                "j" => Piece::DayOfYear,
                "H" => Piece::Hour,
                "I" => Piece::Hour12,
                "p" => Piece::HalfDay,
                "M" => Piece::Minute,
                "S" => Piece::Second,
                "f" | "6f" => Piece::Fraction(6),
                "3f" => Piece::Fraction(3),
                "9f" => Piece::Fraction(9),
                "b" => Piece::MonthName(false),
                "B" => Piece::MonthName(true),
                "a" => Piece::DayName(false),
                "A" => Piece::DayName(true),
                "u" => Piece::DayOfWeek,
                "G" => Piece::IsoYear,
                "V" => Piece::IsoWeek,
                "z" => Piece::Offset(false),
                ":z" => Piece::Offset(true),
                "s" => Piece::Epoch,
                "F" => {
                    pieces.extend([Piece::Year, Piece::Literal("-".into()), Piece::Month, Piece::Literal("-".into())]);
                    Piece::Day
                }
                "T" => {
                    pieces.extend([Piece::Hour, Piece::Literal(":".into()), Piece::Minute, Piece::Literal(":".into())]);
                    Piece::Second
                }
                "R" => {
                    pieces.extend([Piece::Hour, Piece::Literal(":".into())]);
                    Piece::Minute
                }
                "%" => Piece::Literal("%".into()),
                letter => return Err(format!("`%{letter}` is not a part of a time, write `%%` for a percent sign")),
            };
            pieces.push(piece);
        }
        push(&mut pieces, rest);
        Ok(Pattern(pieces))
    }

    /// A part that no text can be read by.
    pub(super) fn unreadable(&self) -> Option<&'static str> {
        self.0.iter().find_map(|piece| match piece {
            Piece::DayOfWeek => Some("%u"),
            Piece::IsoYear => Some("%G"),
            Piece::IsoWeek => Some("%V"),
            _ => None,
        })
    }

    /// The unit that holds what the pattern reads.
    pub(super) fn unit(&self) -> TimeUnit {
        let digits = self.0.iter().map(|piece| if let Piece::Fraction(digits) = piece { *digits } else { 0 }).max();
        match digits {
            Some(9) => TimeUnit::Nanosecond,
            Some(6) => TimeUnit::Microsecond,
            _ => TimeUnit::Millisecond,
        }
    }

    /// Appends a moment on the clock of a zone.
    pub(super) fn write(&self, value: i64, unit: TimeUnit, zone: Zone, out: &mut String) -> Result<(), String> {
        let rate = per_second(unit);
        let (seconds, ticks) = (value.div_euclid(rate), value.rem_euclid(rate));
        // The years below are a small part of this, which keeps what follows within int64.
        if seconds.unsigned_abs() > 1 << 40 {
            return Err(OUTSIDE.to_string());
        }
        let offset = zone.offset_at(seconds);
        let local = (seconds + offset) * 1_000;
        let field = |field| field_of(field, local);
        if !YEARS.contains(&field(Field::Year)) {
            return Err(OUTSIDE.to_string());
        }
        let nanos = ticks * (1_000_000_000 / rate);
        for piece in &self.0 {
            match piece {
                Piece::Literal(text) => out.push_str(text),
                Piece::Year => digits(out, field(Field::Year), 4),
                Piece::ShortYear => digits(out, field(Field::Year) % 100, 2),
                Piece::Month => digits(out, field(Field::Month), 2),
                Piece::Day => digits(out, field(Field::Day), 2),
                Piece::BareDay => digits(out, field(Field::Day), 1),
                Piece::DayOfYear => digits(out, field(Field::DayOfYear), 3),
                Piece::Hour => digits(out, field(Field::Hour), 2),
                Piece::Hour12 => digits(out, (field(Field::Hour) + 11) % 12 + 1, 2),
                Piece::HalfDay => out.push_str(if field(Field::Hour) < 12 { "AM" } else { "PM" }),
                Piece::Minute => digits(out, field(Field::Minute), 2),
                Piece::Second => digits(out, field(Field::Second), 2),
                Piece::Fraction(places) => digits(out, nanos / 10_i64.pow(9 - *places as u32), *places),
                Piece::MonthName(long) => name(out, &MONTHS, field(Field::Month), *long),
                Piece::DayName(long) => name(out, &DAYS, field(Field::DayOfWeek), *long),
                Piece::DayOfWeek => digits(out, field(Field::DayOfWeek), 1),
                Piece::IsoYear => digits(out, field(Field::IsoYear), 4),
                Piece::IsoWeek => digits(out, field(Field::Week), 2),
                Piece::Offset(colon) => {
                    let minutes = offset.abs() / 60;
                    out.push(if offset < 0 { '-' } else { '+' });
                    digits(out, minutes / 60, 2);
                    if *colon {
                        out.push(':');
                    }
                    digits(out, minutes % 60, 2);
                }
                Piece::Epoch => {
                    let _ = write!(out, "{seconds}");
                }
            }
        }
        Ok(())
    }

    /// The moment, in ticks of `unit`, that a text shows; without an offset of its own on the clock of `zone`.
    pub(super) fn read(&self, text: &str, unit: TimeUnit, zone: Zone) -> Result<i64, String> {
        let moment = self.parts(text).and_then(|parts| {
            let seconds = match (parts.epoch, parts.local()?) {
                (Some(epoch), _) => epoch,
                (None, local) => match parts.offset {
                    Some(offset) => local - offset,
                    None => zone.moment_of(local),
                },
            };
            let rate = per_second(unit);
            let fraction = parts.nanos / (1_000_000_000 / rate);
            seconds.checked_mul(rate)?.checked_add(fraction)
        });
        moment.ok_or_else(|| format!("`{text}` is not a time of the pattern"))
    }

    fn parts(&self, text: &str) -> Option<Parts> {
        let mut parts = Parts { month: 1, day: 1, ..Parts::default() };
        let mut rest = text;
        for piece in &self.0 {
            let mut number = |most: usize| take_digits(&mut rest, most);
            match piece {
                Piece::Literal(literal) => rest = rest.strip_prefix(literal.as_str())?,
                Piece::Year => parts.year = Some(number(4)?),
                Piece::ShortYear => {
                    // As POSIX has it: 69 to 99 are of the twentieth century.
                    let year = number(2)?;
                    parts.year = Some(if year < 69 { 2000 + year } else { 1900 + year });
                }
                Piece::Month => parts.month = number(2)?,
                Piece::Day => parts.day = number(2)?,
                Piece::BareDay => {
                    rest = rest.trim_start_matches(' ');
                    parts.day = take_digits(&mut rest, 2)?;
                }
                Piece::DayOfYear => parts.day_of_year = Some(number(3)?),
                Piece::Hour => parts.hour = number(2).filter(|hour| *hour <= 23)?,
                Piece::Hour12 => parts.hour12 = Some(number(2).filter(|hour| (1..=12).contains(hour))?),
                Piece::HalfDay => {
                    parts.afternoon = match rest.get(..2)?.to_ascii_uppercase().as_str() {
                        "AM" => false,
                        "PM" => true,
                        _ => return None,
                    };
                    rest = &rest[2..];
                }
                Piece::Minute => parts.minute = number(2).filter(|minute| *minute <= 59)?,
                Piece::Second => parts.second = number(2).filter(|second| *second <= 59)?,
                Piece::Fraction(places) => {
                    let before = rest.len();
                    let value = take_digits(&mut rest, *places)?;
                    parts.nanos = value * 10_i64.pow(9 - (before - rest.len()) as u32);
                }
                Piece::MonthName(long) => parts.month = take_name(&mut rest, &MONTHS, *long)?,
                Piece::DayName(long) => {
                    take_name(&mut rest, &DAYS, *long)?;
                }
                Piece::Offset(_) => parts.offset = Some(take_offset(&mut rest)?),
                Piece::Epoch => {
                    let negative = rest.strip_prefix('-').inspect(|positive| rest = positive).is_some();
                    let value = take_digits(&mut rest, 18)?;
                    parts.epoch = Some(if negative { -value } else { value });
                }
                Piece::DayOfWeek | Piece::IsoYear | Piece::IsoWeek => return None,
            }
        }
        rest.is_empty().then_some(parts)
    }
}

const OUTSIDE: &str = "the year is outside 1 to 9999";

/// What a text says of a time.
#[derive(Default)]
struct Parts {
    year: Option<i64>,
    month: i64,
    day: i64,
    day_of_year: Option<i64>,
    hour: i64,
    hour12: Option<i64>,
    afternoon: bool,
    minute: i64,
    second: i64,
    nanos: i64,
    offset: Option<i64>,
    epoch: Option<i64>,
}

impl Parts {
    /// Seconds of local time.
    fn local(&self) -> Option<i64> {
        let year = match (self.year, self.epoch) {
            (None, Some(_)) => return Some(0),
            (year, _) => year?,
        };
        let days = match self.day_of_year {
            Some(place) => day_of_year(year, place)?,
            None => checked_days_of(year, self.month, self.day)?,
        };
        let hour = self.hour12.map_or(self.hour, |hour| hour % 12 + if self.afternoon { 12 } else { 0 });
        Some(days * 86_400 + hour * 3_600 + self.minute * 60 + self.second)
    }
}

/// The day of a year, from 1.
fn day_of_year(year: i64, day: i64) -> Option<i64> {
    let most = if is_leap_year(year) { 366 } else { 365 };
    ((1..=most).contains(&day) && YEARS.contains(&year)).then(|| days_of(year, 1, 1) + day - 1)
}

fn push(pieces: &mut Vec<Piece>, literal: &str) {
    if !literal.is_empty() {
        pieces.push(Piece::Literal(literal.to_string()));
    }
}

/// Appends a number that is not negative, with leading zeros.
fn digits(out: &mut String, value: i64, places: usize) {
    let _ = write!(out, "{value:0places$}");
}

fn name(out: &mut String, names: &[&str], place: i64, long: bool) {
    let name = names[(place - 1) as usize];
    out.push_str(if long { name } else { &name[..3] });
}

fn take_digits(rest: &mut &str, most: usize) -> Option<i64> {
    let size = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let value = rest[..size].parse().ok()?;
    *rest = &rest[size..];
    Some(value)
}

/// The place, from 1, of the name that a text starts with, in any case.
fn take_name(rest: &mut &str, names: &[&str], long: bool) -> Option<i64> {
    for (place, name) in names.iter().enumerate() {
        let name = if long { name } else { &name[..3] };
        if rest.get(..name.len()).is_some_and(|start| start.eq_ignore_ascii_case(name)) {
            *rest = &rest[name.len()..];
            return Some(place as i64 + 1);
        }
    }
    None
}

fn take_offset(rest: &mut &str) -> Option<i64> {
    if let Some(behind) = rest.strip_prefix(['Z', 'z']) {
        *rest = behind;
        return Some(0);
    }
    let sign = if rest.starts_with('-') { -1 } else { 1 };
    *rest = rest.strip_prefix(['+', '-'])?;
    let two = |rest: &mut &str| {
        let before = rest.len();
        take_digits(rest, 2).filter(|_| before - rest.len() == 2)
    };
    let hours = two(rest).filter(|hours| *hours <= 23)?;
    let colon = rest.strip_prefix(':').inspect(|behind| *rest = behind).is_some();
    let minutes = if colon || rest.starts_with(|c: char| c.is_ascii_digit()) { two(rest)? } else { 0 };
    (minutes <= 59).then_some(sign * (hours * 3_600 + minutes * 60))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_a_pattern_writes_it_reads_back(seconds in -62_135_596_800_i64..253_402_300_799, nanos in 0i64..1_000_000_000, at in 0usize..3) {
            let (unit, letters) = [(TimeUnit::Millisecond, "%3f"), (TimeUnit::Microsecond, "%6f"), (TimeUnit::Nanosecond, "%9f")][at];
            let rate = per_second(unit);
            prop_assume!(seconds.checked_mul(rate).and_then(|ticks| ticks.checked_add(rate)).is_some());
            let value = seconds * rate + nanos / (1_000_000_000 / rate);
            for pattern in ["%A %d %B %Y %I:%M:%S.@ %p %z", "%j/%Y %T.@%:z", "%F %R:%S,@"] {
                let pattern = Pattern::parse(&pattern.replace('@', letters)).unwrap();
                let mut out = String::new();
                pattern.write(value, unit, Zone::Utc, &mut out).unwrap();
                prop_assert_eq!(pattern.read(&out, pattern.unit(), Zone::Utc), Ok(value), "{}", out);
            }
        }

        #[test]
        fn no_text_breaks_a_pattern(text in "\\PC{0,30}", pattern in "\\PC{0,12}|[%YmdHMSfjaAbBzspIey: 0-9T-]{0,16}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                let _ = pattern.read(&text, pattern.unit(), Zone::Utc);
            }
        }
    }

    #[test]
    fn times_at_the_ends_of_their_type_are_outside_of_the_years() {
        let pattern = Pattern::parse("%F %T").unwrap();
        for value in [i64::MIN, i64::MIN + 1, i64::MAX] {
            for unit in [TimeUnit::Second, TimeUnit::Millisecond] {
                assert_eq!(pattern.write(value, unit, Zone::Utc, &mut String::new()), Err(OUTSIDE.to_string()), "{value} {unit:?}");
            }
        }
    }
}

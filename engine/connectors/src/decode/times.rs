//! Dates and times from text, exactly: a fraction finer than the column's unit does not fit, a time outside of its range neither.

use arrow::array::timezone::Tz;
use arrow::compute::kernels::cast_utils::string_to_datetime;
use arrow::datatypes::TimeUnit;
use chrono::{DateTime, NaiveDateTime, Offset, TimeZone, Utc};

/// The zone of times that name none.
#[derive(Debug, Clone, Copy)]
pub(super) enum Zone {
    Utc,
    Named(Tz),
}

impl Zone {
    /// The zone of a column; without one its times are taken as they stand.
    pub(super) fn of(name: Option<&str>) -> Option<Zone> {
        match name {
            None | Some("UTC" | "+00:00" | "Z") => Some(Zone::Utc),
            Some(name) => name.parse().ok().map(Zone::Named),
        }
    }
}

/// Units of a second.
pub(super) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// Seconds and nanoseconds in a unit, if it can say them.
pub(super) fn in_unit(seconds: i64, nanos: u32, unit: TimeUnit) -> Option<i64> {
    let per = per_second(unit);
    let step = 1_000_000_000 / per;
    let part = i64::from(nanos);
    if part % step != 0 {
        return None;
    }
    // Multiplied from the end nearer to 1970, so that the first moment of a range before it is still reached.
    if seconds < 0 && part > 0 {
        return (seconds + 1).checked_mul(per)?.checked_add(part / step - per);
    }
    seconds.checked_mul(per)?.checked_add(part / step)
}

/// Two digits at a place.
fn two(text: &[u8], at: usize) -> Option<u32> {
    let pair = text.get(at..at + 2)?;
    let (tens, ones) = (pair[0].wrapping_sub(b'0'), pair[1].wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| u32::from(tens) * 10 + u32::from(ones))
}

fn is_leap(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Days from 1970 to a date of the proleptic Gregorian calendar.
fn days(year: i32, month: u32, day: u32) -> Option<i64> {
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap(year) => 29,
        2 => 28,
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        _ => return None,
    };
    if day == 0 || day > length {
        return None;
    }
    // Years begin in March here, so that the leap day is the last.
    let shifted = i64::from(year) - i64::from(month <= 2);
    let era = shifted.div_euclid(400);
    let of_era = shifted.rem_euclid(400);
    let month = i64::from((month + 9) % 12);
    let of_year = (153 * month + 2) / 5 + i64::from(day) - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

/// A date at the beginning of a text, as days from 1970, and how long it is. A year may have a sign and more than four digits.
fn date_at(text: &[u8]) -> Option<(i64, usize)> {
    let signed = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let mut at = signed;
    let mut year = 0i32;
    while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
        if at - signed == 6 {
            return None;
        }
        year = year * 10 + i32::from(digit);
        at += 1;
    }
    // More than four digits need a sign, so that they are not taken for something else.
    if at - signed < 4 || (signed == 0 && at > 4) {
        return None;
    }
    if text[0] == b'-' {
        year = -year;
    }
    let month = two(text, at + 1)?;
    let day = two(text, at + 4)?;
    (text[at] == b'-' && text[at + 3] == b'-').then_some(())?;
    Some((days(year, month, day)?, at + 6))
}

/// A time of day at the beginning of a text, as seconds and nanoseconds, and how long it is. Seconds may be left out.
fn time_at(text: &[u8]) -> Option<(i64, u32, usize)> {
    let (hour, minute) = (two(text, 0)?, two(text, 3)?);
    if text[2] != b':' || hour > 23 || minute > 59 {
        return None;
    }
    let mut seconds = i64::from(hour * 3600 + minute * 60);
    if text.get(5) != Some(&b':') {
        return Some((seconds, 0, 5));
    }
    let second = two(text, 6)?;
    if second > 59 {
        return None;
    }
    seconds += i64::from(second);
    let (mut nanos, mut at) = (0u32, 8);
    if matches!(text.get(8), Some(b'.' | b',')) {
        at = 9;
        let mut worth = 100_000_000;
        while let Some(digit) = text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
            if worth == 0 && digit != 0 {
                return None;
            }
            nanos += u32::from(digit) * worth;
            worth /= 10;
            at += 1;
        }
        if at == 9 {
            return None;
        }
    }
    Some((seconds, nanos, at))
}

/// An offset from UTC, which must be all that is left: `Z`, `+02`, `+02:00`, `+0200`.
fn offset(text: &[u8]) -> Option<i64> {
    if matches!(text, b"Z" | b"z") {
        return Some(0);
    }
    let sign = match text.first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let hours = two(text, 1)?;
    let minutes = match text.len() {
        3 => 0,
        5 => two(text, 3)?,
        6 if text[3] == b':' => two(text, 4)?,
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * i64::from(hours * 3600 + minutes * 60))
}

/// A date such as `2013-01-31`, as days from 1970.
pub(super) fn date(text: &[u8]) -> Option<i64> {
    let (days, length) = date_at(text)?;
    (length == text.len()).then_some(days)
}

/// A time of day such as `12:30:00.5`, in a unit.
pub(super) fn time_of_day(text: &[u8], unit: TimeUnit) -> Option<i64> {
    let (seconds, nanos, length) = time_at(text)?;
    (length == text.len()).then(|| in_unit(seconds, nanos, unit)).flatten()
}

/// A moment such as `2013-01-31T12:30:00.5+01:00`, as seconds from 1970 and nanoseconds. `zone` is that of a text without one.
pub(super) fn moment(text: &[u8], zone: Zone) -> Option<(i64, u32)> {
    let (days, length) = date_at(text)?;
    let local = |seconds: i64, nanos: u32| match zone {
        Zone::Utc => Some((days * 86_400 + seconds, nanos)),
        Zone::Named(zone) => Some((in_zone(days * 86_400 + seconds, zone)?, nanos)),
    };
    if length == text.len() {
        return local(0, 0);
    }
    if !matches!(text[length], b'T' | b't' | b' ') {
        return None;
    }
    let rest = &text[length + 1..];
    let (seconds, nanos, length) = time_at(rest)?;
    if length == rest.len() {
        return local(seconds, nanos);
    }
    if let Some(offset) = offset(&rest[length..]) {
        return Some((days * 86_400 + seconds - offset, nanos));
    }
    // A zone by name.
    if !text.is_ascii() {
        return None;
    }
    let at: DateTime<Utc> = string_to_datetime(&Utc, std::str::from_utf8(text).ok()?).ok()?;
    Some((at.timestamp(), nanos))
}

/// The moment at which clocks of a zone show a time; the earlier one if they do so twice.
fn in_zone(local: i64, zone: Tz) -> Option<i64> {
    let shown: NaiveDateTime = DateTime::from_timestamp(local, 0)?.naive_utc();
    zone.offset_from_local_datetime(&shown).earliest().map(|offset| local - i64::from(offset.fix().local_minus_utc()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Datelike, NaiveDate};
    use proptest::prelude::*;

    fn millis(text: &str, zone: Zone) -> Option<i64> {
        let (seconds, nanos) = moment(text.as_bytes(), zone)?;
        in_unit(seconds, nanos, TimeUnit::Millisecond)
    }

    #[test]
    fn a_moment_takes_its_zone_from_the_text_then_from_the_column() {
        let copenhagen = Zone::of(Some("Europe/Copenhagen")).unwrap();
        assert_eq!(millis("2013-07-01T12:00:00Z", copenhagen), Some(1_372_680_000_000));
        assert_eq!(millis("2013-07-01T12:00:00+02:00", copenhagen), Some(1_372_672_800_000));
        assert_eq!(millis("2013-07-01 12:00:00", copenhagen), Some(1_372_672_800_000));
        assert_eq!(millis("2013-07-01T12:00:00.5", Zone::Utc), Some(1_372_680_000_500));
        assert_eq!(millis("2013-07-01T12:00-0130", Zone::Utc), Some(1_372_685_400_000));
        assert_eq!(millis("1969-12-31T23:59:59.999Z", Zone::Utc), Some(-1));
        assert_eq!(millis("9999-12-31", Zone::Utc), Some(253_402_214_400_000));
        let wrong = [
            "",
            "2013-13-01T00:00:00Z",
            "2013-02-29",
            "2013-01-01T25:00:00Z",
            "2013-01-01T10:00:60Z",
            "2013-01-01T10:00:00.",
            "2013-01-01T10:00:00.1234567891Z",
            "2013-01-01T",
            "2013-01-01T10",
            "2013-01-01T10:00:00+2",
            "13-01-01",
            "12013-01-01",
            "yesterday",
            "2013-01-01T10:00:00é",
        ];
        for text in wrong {
            assert_eq!(moment(text.as_bytes(), Zone::Utc), None, "{text}");
        }
    }

    #[test]
    fn a_fraction_finer_than_the_unit_does_not_fit() {
        let at = moment(b"2024-01-01T00:00:00.123456Z", Zone::Utc).unwrap();
        assert_eq!(in_unit(at.0, at.1, TimeUnit::Microsecond), Some(1_704_067_200_123_456));
        assert_eq!(in_unit(at.0, at.1, TimeUnit::Millisecond), None);
        assert_eq!(time_of_day(b"23:59:59.5", TimeUnit::Second), None);
        assert_eq!(time_of_day(b"23:59:59.500", TimeUnit::Millisecond), Some(86_399_500));
    }

    #[test]
    fn p027_a_time_outside_of_a_units_range_does_not_fit() {
        for text in ["0001-01-01T00:00:00Z", "1582-10-15T00:00:00Z", "2262-04-12T00:00:00Z", "9999-12-31T23:59:59Z"] {
            let (seconds, nanos) = moment(text.as_bytes(), Zone::Utc).unwrap();
            assert_eq!(in_unit(seconds, nanos, TimeUnit::Nanosecond), None, "{text}");
            assert!(in_unit(seconds, nanos, TimeUnit::Microsecond).is_some(), "{text}");
        }
        // The ends of the range themselves.
        assert_eq!(in_unit(-9_223_372_037, 145_224_192, TimeUnit::Nanosecond), Some(i64::MIN));
        assert_eq!(in_unit(9_223_372_036, 854_775_807, TimeUnit::Nanosecond), Some(i64::MAX));
        assert_eq!(in_unit(9_223_372_036, 854_775_808, TimeUnit::Nanosecond), None);
    }

    proptest! {
        #[test]
        fn dates_are_those_of_the_calendar(day in -3_650_000i32..3_650_000) {
            let calendar = NaiveDate::from_num_days_from_ce_opt(day + 719_163).unwrap();
            let year = calendar.year();
            let sign = if year < 0 { "-" } else if year > 9999 { "+" } else { "" };
            let text = format!("{sign}{:04}-{:02}-{:02}", year.abs(), calendar.month(), calendar.day());
            prop_assert_eq!(date(text.as_bytes()), Some(i64::from(day)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in prop::collection::vec(prop::sample::select(b"0123459-+:TZ. e\xff".to_vec()), 0..34)) {
            let _ = (date(&text), time_of_day(&text, TimeUnit::Microsecond), moment(&text, Zone::Utc));
        }
    }
}

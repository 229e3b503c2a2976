//! Calendar arithmetic: reading and printing points in time, truncation, fields. Proleptic Gregorian, UTC without leap seconds;
//! everything rounds towards the past, so times before 1970 behave like those after.

mod zone;

use arrow::datatypes::TimeUnit;
use chrono::{Datelike, NaiveDate};
use std::fmt::Write;
pub(crate) use zone::{Zone, zone_named, zone_of};

pub(crate) const DAY_MS: i64 = 86_400_000;

/// How many of `unit` make a second.
pub(crate) fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The more exact of two units.
pub(crate) fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    if per_second(a) >= per_second(b) { a } else { b }
}

/// Reads `2026-01-31`, `2026-01-31T12:30`, `…:15`, `….123456789`, with `T` or a blank, and `Z`, `+02:00` or nothing (UTC) behind.
/// The unit is the coarsest, from milliseconds on, that holds the digits.
pub(crate) fn parse_timestamp(text: &str) -> Option<(i64, TimeUnit)> {
    let text = text.trim();
    let date_end = text.get(1..)?.find(['T', 't', ' ']).map_or(text.len(), |at| at + 1);
    let date = NaiveDate::parse_from_str(&text[..date_end], "%Y-%m-%d").ok()?;
    let mut rest = text.get(date_end + 1..).unwrap_or("");
    if rest.is_empty() && date_end < text.len() {
        return None;
    }
    let mut offset = 0;
    if let Some(plain) = rest.strip_suffix(['Z', 'z']) {
        rest = plain;
    } else if let Some(at) = rest.rfind(['+', '-']) {
        let (hours, minutes) = rest[at + 1..].split_once(':').unwrap_or((&rest[at + 1..], "0"));
        offset = (two_digits(hours, 23)? * 60 + if minutes == "0" { 0 } else { two_digits(minutes, 59)? }) * 60;
        offset = if rest.as_bytes()[at] == b'-' { -offset } else { offset };
        rest = &rest[..at];
    }
    let mut seconds = 0;
    let mut fraction = "";
    if !rest.is_empty() {
        let mut parts = rest.split(':');
        seconds = two_digits(parts.next()?, 23)? * 3600 + two_digits(parts.next()?, 59)? * 60;
        if let Some(last) = parts.next() {
            let (whole, digits) = last.split_once('.').map_or((last, ""), |(whole, digits)| (whole, digits));
            if last.contains('.') && digits.is_empty() {
                return None;
            }
            seconds += two_digits(whole, 59)?;
            fraction = digits;
        }
        if parts.next().is_some() {
            return None;
        }
    }
    let (unit, places) = match fraction.len() {
        0..=3 => (TimeUnit::Millisecond, 3),
        4..=6 => (TimeUnit::Microsecond, 6),
        7..=9 => (TimeUnit::Nanosecond, 9),
        _ => return None,
    };
    let fraction = if fraction.is_empty() { 0 } else { format!("{fraction:0<places$}").parse::<u32>().ok()?.into() };
    let days = i64::from(date.num_days_from_ce()) - EPOCH_FROM_CE;
    let value = days.checked_mul(86_400)?.checked_add(seconds - offset)?.checked_mul(per_second(unit))?.checked_add(fraction)?;
    Some((value, unit))
}

const EPOCH_FROM_CE: i64 = 719_163;

fn two_digits(text: &str, most: i64) -> Option<i64> {
    let value = (text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse::<i64>().ok())??;
    (value <= most).then_some(value)
}

/// Reads `5s`, `100ms`, `1m`, `2h`, `1d`, `-5s` and sums such as `1h30m`, in milliseconds.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = text.trim().strip_prefix('-').map_or((1, text.trim()), |rest| (-1, rest));
    let mut total = 0i64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let amount = rest[..digits].parse::<i64>().ok()?;
        rest = &rest[digits..];
        let unit_end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let factor = match &rest[..unit_end] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => DAY_MS,
            _ => return None,
        };
        total = total.checked_add(amount.checked_mul(factor)?)?;
        rest = &rest[unit_end..];
    }
    Some(sign * total)
}

/// Year, month and day of a number of days since 1970, for every i64 that a timestamp can reach.
pub(crate) fn civil(days: i64) -> (i64, u32, u32) {
    // Counting from March makes the leap day the last of its year; 146,097 days are 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days since 1970 of a day in the calendar.
pub(crate) fn days_of(year: i64, month: u32, day: u32) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let shifted_month = i64::from(if month > 2 { month - 3 } else { month + 9 });
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Appends a point in time as ISO-8601 in UTC: three decimals, six or nine for the finer units.
pub(crate) fn write_iso(out: &mut String, value: i64, unit: TimeUnit) {
    let rate = per_second(unit);
    let (seconds, fraction) = (value.div_euclid(rate), value.rem_euclid(rate));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    write_date(out, days);
    let (fraction, places) = match unit {
        TimeUnit::Second => (0, 3),
        TimeUnit::Millisecond => (fraction, 3),
        TimeUnit::Microsecond => (fraction, 6),
        TimeUnit::Nanosecond => (fraction, 9),
    };
    let clock = [second / 36_000, second / 3_600 % 10, second % 3_600 / 600, second / 60 % 10, second % 60 / 10, second % 10];
    let digit = |at: usize| char::from(b'0' + clock[at] as u8);
    out.extend(['T', digit(0), digit(1), ':', digit(2), digit(3), ':', digit(4), digit(5), '.']);
    let mut scale = 10_i64.pow(places);
    for _ in 0..places {
        scale /= 10;
        out.push(char::from(b'0' + (fraction / scale % 10) as u8));
    }
    out.push('Z');
}

/// Appends `2026-01-31`; years beyond four digits have a sign.
pub(crate) fn write_date(out: &mut String, days: i64) {
    let (year, month, day) = civil(days);
    if (0..=9999).contains(&year) {
        let digits = [year / 1000, year / 100 % 10, year / 10 % 10, year % 10];
        out.extend(digits.map(|digit| char::from(b'0' + digit as u8)));
    } else {
        let _ = write!(out, "{year:+05}");
    }
    let two = |value: u32| [char::from(b'0' + (value / 10) as u8), char::from(b'0' + (value % 10) as u8)];
    out.push('-');
    out.extend(two(month));
    out.push('-');
    out.extend(two(day));
}

/// A calendar field of a point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
    DayOfWeek,
    DayOfYear,
    Quarter,
    /// Of ISO 8601: week 1 holds the year's first Thursday.
    Week,
    /// The year that the ISO week belongs to.
    IsoYear,
    Millisecond,
}

/// `field` of a moment given in milliseconds of local time.
pub(crate) fn field_of(field: Field, local_ms: i64) -> i64 {
    let (days, ms) = (local_ms.div_euclid(DAY_MS), local_ms.rem_euclid(DAY_MS));
    match field {
        Field::Year => civil(days).0,
        Field::Month => civil(days).1.into(),
        Field::Day => civil(days).2.into(),
        Field::Hour => ms / 3_600_000,
        Field::Minute => ms / 60_000 % 60,
        Field::Second => ms / 1_000 % 60,
        Field::DayOfWeek => (days + 3).rem_euclid(7) + 1,
        Field::DayOfYear => days - days_of(civil(days).0, 1, 1) + 1,
        Field::Quarter => i64::from((civil(days).1 - 1) / 3 + 1),
        Field::Week => (thursday(days) - days_of(civil(thursday(days)).0, 1, 1)) / 7 + 1,
        Field::IsoYear => civil(thursday(days)).0,
        Field::Millisecond => ms % 1_000,
    }
}

/// The Thursday of the week, from Monday to Sunday, that holds a day: its year is the week's.
fn thursday(days: i64) -> i64 {
    days - (days + 3).rem_euclid(7) + 3
}

/// The years that dates and times made by the dialect keep to.
pub(crate) const YEARS: std::ops::RangeInclusive<i64> = 1..=9_999;

pub(crate) fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// How many days a month has, from 1 to 12.
pub(crate) fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970 of a day that exists in the years 1 to 9999.
pub(crate) fn checked_days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let real = YEARS.contains(&year) && (1..=12).contains(&month) && (1..=i64::from(days_in_month(year, month as u32))).contains(&day);
    real.then(|| days_of(year, month as u32, day as u32))
}

/// A distance in the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Days(i64),
    Months(i64),
}

/// A day moved in the calendar; a day that its month does not have becomes the month's last. `None` outside the years 1 to 9999.
pub(crate) fn step_days(days: i64, step: Step) -> Option<i64> {
    let moved = match step {
        Step::Days(by) => days.checked_add(by)?,
        Step::Months(by) => {
            let (year, month, day) = civil(days);
            let months = year.checked_mul(12)?.checked_add(i64::from(month) - 1)?.checked_add(by)?;
            let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u32 + 1);
            if !YEARS.contains(&year) {
                return None;
            }
            days_of(year, month, day.min(days_in_month(year, month)))
        }
    };
    // 4,000,000 days are 10,951 years: beyond them the calendar would be asked for nothing.
    (moved.unsigned_abs() < 4_000_000 && YEARS.contains(&civil(moved).0)).then_some(moved)
}

/// A moment in ticks moved in the calendar of a zone, its time of day kept.
pub(crate) fn step_in(step: Step, value: i64, unit: TimeUnit, zone: Zone) -> Option<i64> {
    let rate = per_second(unit);
    let (seconds, fraction) = (value.div_euclid(rate), value.rem_euclid(rate));
    let local = seconds.checked_add(zone.offset_at(seconds))?;
    let days = step_days(local.div_euclid(86_400), step)?;
    zone.moment_of(days * 86_400 + local.rem_euclid(86_400)).checked_mul(rate)?.checked_add(fraction)
}

/// A unit that `dateTrunc` rounds down to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Truncation {
    /// A fixed number of milliseconds since midnight of 1970 (of local time).
    Fixed(i64),
    Week,
    Month,
    Quarter,
    Year,
}

pub(crate) const TRUNCATIONS: [(&str, Truncation); 9] = [
    ("millisecond", Truncation::Fixed(1)),
    ("second", Truncation::Fixed(1_000)),
    ("minute", Truncation::Fixed(60_000)),
    ("hour", Truncation::Fixed(3_600_000)),
    ("day", Truncation::Fixed(DAY_MS)),
    ("week", Truncation::Week),
    ("month", Truncation::Month),
    ("quarter", Truncation::Quarter),
    ("year", Truncation::Year),
];

/// The start of what holds `value`, a moment of local time counted in `unit`; `None` where it lies before the smallest value.
pub(crate) fn truncate(to: Truncation, value: i64, unit: TimeUnit) -> Option<i64> {
    let rate = per_second(unit);
    let fixed = |ms: i64| {
        // A unit below the ticks' own size changes nothing.
        let ticks = if rate == 1 { ms / 1_000 } else { ms.checked_mul(rate / 1_000)? };
        if ticks <= 1 { Some(value) } else { value.checked_sub(value.rem_euclid(ticks)) }
    };
    let start_of = |days: i64| days.checked_mul(86_400)?.checked_mul(rate);
    let days = value.div_euclid(rate).div_euclid(86_400);
    let (year, month, _) = civil(days);
    match to {
        Truncation::Fixed(ms) => fixed(ms),
        Truncation::Week => start_of(days - (days + 3).rem_euclid(7)),
        Truncation::Month => start_of(days_of(year, month, 1)),
        Truncation::Quarter => start_of(days_of(year, (month - 1) / 3 * 3 + 1, 1)),
        Truncation::Year => start_of(days_of(year, 1, 1)),
    }
}

/// A moment in ticks as local milliseconds, rounded towards the past.
pub(crate) fn local_ms(value: i64, unit: TimeUnit, zone: Zone) -> i64 {
    let rate = per_second(unit);
    let (seconds, fraction) = (value.div_euclid(rate), value.rem_euclid(rate));
    let ms = if rate == 1 { 0 } else { fraction / (rate / 1_000) };
    (seconds.saturating_add(zone.offset_at(seconds))).saturating_mul(1_000).saturating_add(ms)
}

/// `truncate` on the clock of a zone.
pub(crate) fn truncate_in(to: Truncation, value: i64, unit: TimeUnit, zone: Zone) -> Option<i64> {
    if zone == Zone::Utc {
        return truncate(to, value, unit);
    }
    let rate = per_second(unit);
    let offset = zone.offset_at(value.div_euclid(rate));
    let local = value.checked_add(offset.checked_mul(rate)?)?;
    let start = truncate(to, local, unit)?;
    // Units up to the hour keep the offset of the moment itself, or an hour repeated in autumn would fold into the first.
    if let Truncation::Fixed(ms) = to
        && ms <= 3_600_000
    {
        return start.checked_sub(offset.checked_mul(rate)?);
    }
    let seconds = zone.moment_of(start.div_euclid(rate));
    seconds.checked_mul(rate)?.checked_add(start.rem_euclid(rate))
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::NaiveDateTime;

    fn iso(value: i64, unit: TimeUnit) -> String {
        let mut out = String::new();
        write_iso(&mut out, value, unit);
        out
    }

    #[test]
    fn days_and_calendar_agree_with_chrono_both_ways() {
        for days in (-800_000..800_000).step_by(37) {
            let date = NaiveDate::from_num_days_from_ce_opt((days + EPOCH_FROM_CE) as i32).unwrap();
            assert_eq!(civil(days), (date.year().into(), date.month(), date.day()));
            assert_eq!(days_of(date.year().into(), date.month(), date.day()), days);
        }
        for extreme in [i64::MIN / 86_400, i64::MAX / 86_400] {
            let (year, month, day) = civil(extreme);
            assert_eq!(days_of(year, month, day), extreme);
        }
    }

    #[test]
    fn what_is_printed_reads_back() {
        for value in [0, -1, 1_768_000_000_123, -62_135_596_800_000, 253_402_300_799_999] {
            assert_eq!(parse_timestamp(&iso(value, TimeUnit::Millisecond)), Some((value, TimeUnit::Millisecond)));
        }
        assert_eq!(iso(-1, TimeUnit::Nanosecond), "1969-12-31T23:59:59.999999999Z");
        assert_eq!(iso(5, TimeUnit::Second), "1970-01-01T00:00:05.000Z");
        assert_eq!(iso(i64::MAX, TimeUnit::Millisecond), "+292278994-08-17T07:12:55.807Z");
    }

    #[test]
    fn offsets_and_short_forms_are_read_and_nonsense_is_not() {
        assert_eq!(parse_timestamp("1970-01-01T02:00+02:00"), Some((0, TimeUnit::Millisecond)));
        assert_eq!(parse_timestamp("1970-01-02"), Some((DAY_MS, TimeUnit::Millisecond)));
        assert_eq!(parse_timestamp("1970-01-01 00:00:00.0000001"), Some((100, TimeUnit::Nanosecond)));
        for wrong in [
            "",
            "1970",
            "1970-13-01",
            "1970-01-01T",
            "1970-01-01T25:00",
            "1970-01-01T1:00",
            "1970-01-01T00:00:00.",
            "1970-01-01T00:00x",
            "x",
        ] {
            assert_eq!(parse_timestamp(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn durations_add_up() {
        assert_eq!(parse_duration("1h30m"), Some(5_400_000));
        assert_eq!(parse_duration("-250ms"), Some(-250));
        for wrong in ["", "5", "s", "5x", "5 s", "99999999999999999999d"] {
            assert_eq!(parse_duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_zone_keeps_its_own_days_and_hours() {
        let berlin = Zone::Named(chrono_tz::Europe::Berlin);
        let at = |text: &str| parse_timestamp(text).unwrap().0;
        let day = |text: &str| {
            iso(truncate_in(Truncation::Fixed(DAY_MS), at(text), TimeUnit::Millisecond, berlin).unwrap(), TimeUnit::Millisecond)
        };
        // The day the clocks go forward has 23 hours: it starts at +01:00 and ends at +02:00.
        assert_eq!(day("2026-03-29T12:00+02:00"), "2026-03-28T23:00:00.000Z");
        assert_eq!(day("2026-03-30T00:30+02:00"), "2026-03-29T22:00:00.000Z");
        let hour = |text: &str| {
            iso(truncate_in(Truncation::Fixed(3_600_000), at(text), TimeUnit::Millisecond, berlin).unwrap(), TimeUnit::Millisecond)
        };
        // The hour repeated in autumn stays two hours.
        assert_eq!(hour("2026-10-25T00:30Z"), "2026-10-25T00:00:00.000Z");
        assert_eq!(hour("2026-10-25T01:30Z"), "2026-10-25T01:00:00.000Z");
        assert_eq!(field_of(Field::Hour, local_ms(at("2026-07-01T22:30Z"), TimeUnit::Millisecond, berlin)), 0);
    }

    #[test]
    fn weeks_start_on_monday_before_1970_too() {
        for days in -30..30 {
            let date = NaiveDateTime::default().date() + chrono::Duration::days(days);
            assert_eq!(field_of(Field::DayOfWeek, days * DAY_MS), i64::from(date.weekday().number_from_monday()));
            assert_eq!(field_of(Field::DayOfYear, days * DAY_MS), i64::from(date.ordinal()));
            let monday = truncate(Truncation::Week, days * DAY_MS + 5, TimeUnit::Millisecond).unwrap();
            assert_eq!(field_of(Field::DayOfWeek, monday), 1);
            assert!((0..7).contains(&(days - monday / DAY_MS)));
        }
    }
}

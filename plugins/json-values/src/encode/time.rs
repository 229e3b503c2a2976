//! Dates and times as ISO-8601 text, in the proleptic Gregorian calendar.

use std::io::Write;
use tidegate_sdk::arrow::schema::TimeUnit;

const SECONDS_PER_DAY: i64 = 86_400;

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// `"2013-01-31"`.
pub(super) fn write_date(days: i64, out: &mut Vec<u8>) {
    out.push(b'"');
    date(days, out);
    out.push(b'"');
}

/// `"05:30:00"`.
pub(super) fn write_time(value: i64, unit: TimeUnit, out: &mut Vec<u8>) {
    out.push(b'"');
    let rate = per_second(unit);
    time(value.div_euclid(rate), value.rem_euclid(rate) * (1_000_000_000 / rate), out);
    out.push(b'"');
}

/// `"2013-01-31T05:30:00"`, with a `Z` if the value is an instant.
pub(super) fn write_timestamp(value: i64, unit: TimeUnit, zoned: bool, out: &mut Vec<u8>) {
    let rate = per_second(unit);
    let seconds = value.div_euclid(rate);
    out.push(b'"');
    date(seconds.div_euclid(SECONDS_PER_DAY), out);
    out.push(b'T');
    time(seconds.rem_euclid(SECONDS_PER_DAY), value.rem_euclid(rate) * (1_000_000_000 / rate), out);
    out.extend_from_slice(if zoned { b"Z\"" } else { b"\"" });
}

fn date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil(days);
    // Years outside of four digits have a sign, or a reader could not tell where they end.
    let written = if (0..=9999).contains(&year) { write!(out, "{year:04}") } else { write!(out, "{year:+05}") };
    written.and_then(|()| write!(out, "-{month:02}-{day:02}")).expect("memory takes it");
}

fn time(seconds: i64, nanos: i64, out: &mut Vec<u8>) {
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write!(out, "{hour:02}:{minute:02}:{second:02}").expect("memory takes it");
    let fraction = match nanos {
        0 => Ok(()),
        _ if nanos % 1_000_000 == 0 => write!(out, ".{:03}", nanos / 1_000_000),
        _ if nanos % 1_000 == 0 => write!(out, ".{:06}", nanos / 1_000),
        _ => write!(out, ".{nanos:09}"),
    };
    fraction.expect("memory takes it");
}

/// Year, month and day of a day counted from 1970-01-01. Years are counted from March, so that the leap day is their last.
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    const FROM_MARCH_OF_YEAR_0: i64 = 719_468;
    let shifted = days + FROM_MARCH_OF_YEAR_0;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts days one by one from a known date.
    #[test]
    fn every_day_of_eight_centuries_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..300_000 {
            assert_eq!(civil(days), (year, month, day), "day {days}");
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + i64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    fn stamp(value: i64, unit: TimeUnit, zoned: bool) -> String {
        let mut out = Vec::new();
        write_timestamp(value, unit, zoned, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn timestamps_have_the_digits_they_need() {
        assert_eq!(stamp(0, TimeUnit::Second, false), "\"1970-01-01T00:00:00\"");
        assert_eq!(stamp(1_357_016_400_000, TimeUnit::Millisecond, true), "\"2013-01-01T05:00:00Z\"");
        assert_eq!(stamp(-1, TimeUnit::Millisecond, false), "\"1969-12-31T23:59:59.999\"");
        assert_eq!(stamp(1_500, TimeUnit::Microsecond, false), "\"1970-01-01T00:00:00.001500\"");
        assert_eq!(stamp(1, TimeUnit::Nanosecond, true), "\"1970-01-01T00:00:00.000000001Z\"");
        assert_eq!(stamp(-62_135_596_800, TimeUnit::Second, false), "\"0001-01-01T00:00:00\"");
        assert_eq!(stamp(253_402_300_800, TimeUnit::Second, false), "\"+10000-01-01T00:00:00\"");
    }

    #[test]
    fn the_ends_of_the_range_are_written() {
        for unit in [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond] {
            for value in [i64::MIN, i64::MAX] {
                assert!(stamp(value, unit, true).ends_with("Z\""));
            }
        }
    }
}

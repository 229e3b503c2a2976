//! Instants from text, in the proleptic Gregorian calendar.

const MS_PER_MINUTE: i64 = 60_000;
const MS_PER_DAY: i64 = 86_400_000;

/// Milliseconds since 1970 from `2013-01-31`, `2013-01-31T05:30`, `2013-01-31 05:30:00.123`, each time with `Z` or an offset (`+01:00`, `-0530`, `+01`) behind it if
/// wanted; without one it is UTC. What is finer than a millisecond is cut off. `None` when it is no such text.
pub fn parse_ms(text: &str) -> Option<i64> {
    let mut rest = Rest(text.as_bytes());
    let year = rest.digits(4)?;
    rest.byte(b"-")?;
    let month = rest.digits(2)?;
    rest.byte(b"-")?;
    let day = rest.digits(2)?;
    if !(1..=12).contains(&month) || !(1..=days_of(year, month)).contains(&day) {
        return None;
    }
    let midnight = days_since_1970(year, month, day) * MS_PER_DAY;
    if rest.0.is_empty() {
        return Some(midnight);
    }
    rest.byte(b"T t")?;
    let (hour, minute) = rest.hour_and_minute()?;
    let mut millis = (hour * 60 + minute) * MS_PER_MINUTE;
    if rest.byte(b":").is_some() {
        let second = rest.digits(2).filter(|second| *second < 60)?;
        millis += second * 1000;
        if rest.byte(b".,").is_some() {
            millis += rest.fraction()?;
        }
    }
    Some(midnight + millis - rest.offset()? * MS_PER_MINUTE)
}

/// What is still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    /// Takes one byte if it is one of these.
    fn byte(&mut self, wanted: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        wanted.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    /// Takes exactly `count` digits.
    fn digits(&mut self, count: usize) -> Option<i64> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        taken.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0')))
    }

    fn hour_and_minute(&mut self) -> Option<(i64, i64)> {
        let hour = self.digits(2).filter(|hour| *hour < 24)?;
        self.byte(b":")?;
        Some((hour, self.digits(2).filter(|minute| *minute < 60)?))
    }

    /// One to nine digits behind the point, as milliseconds.
    fn fraction(&mut self) -> Option<i64> {
        let count = self.0.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if !(1..=9).contains(&count) {
            return None;
        }
        let nanos = self.digits(count)? * 10_i64.pow(9 - count as u32);
        Some(nanos / 1_000_000)
    }

    /// Minutes east of UTC, up to the end of the text.
    fn offset(mut self) -> Option<i64> {
        let Some(sign) = self.byte(b"Zz+-") else {
            return self.0.is_empty().then_some(0);
        };
        if matches!(sign, b'Z' | b'z') {
            return self.0.is_empty().then_some(0);
        }
        let hours = self.digits(2).filter(|hours| *hours < 24)?;
        let minutes = if self.0.is_empty() {
            0
        } else {
            let _ = self.byte(b":");
            self.digits(2).filter(|minutes| *minutes < 60)?
        };
        let minutes = hours * 60 + minutes;
        self.0.is_empty().then_some(if sign == b'-' { -minutes } else { minutes })
    }
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Counts years from March, so that the leap day is the last of its year.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 153 days are in five months from March on; 719,468 days lie between 1 March of year 0 and 1970.
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_instants() {
        for (text, ms) in [
            ("1970-01-01", 0),
            ("1969-12-31T23:59:59.999Z", -1),
            ("2000-02-29", 951_782_400_000),
            ("2013-01-01T05:00:00Z", 1_357_016_400_000),
            ("2013-01-01 05:00:00", 1_357_016_400_000),
            ("2013-01-01T06:00+01:00", 1_357_016_400_000),
            ("2013-01-01T00:00-0500", 1_357_016_400_000),
            ("2013-01-01T06:00:00.000000000+01", 1_357_016_400_000),
            ("2013-01-01T05:00:00.1239", 1_357_016_400_123),
            ("0000-03-01", -62_162_035_200_000),
            ("9999-12-31T23:59:59.999", 253_402_300_799_999),
        ] {
            assert_eq!(parse_ms(text), Some(ms), "{text}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut expected = days_since_1970(1899, 12, 31);
        for year in 1900..2101 {
            for month in 1..=12 {
                for day in 1..=days_of(year, month) {
                    expected += 1;
                    assert_eq!(days_since_1970(year, month, day), expected, "{year}-{month}-{day}");
                }
            }
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for text in [
            "",
            "2013",
            "2013-1-1",
            "2013-02-29",
            "1900-02-29",
            "2013-13-01",
            "2013-00-01",
            "2013-01-00",
            "2013-01-01T",
            "2013-01-01T24:00",
            "2013-01-01T05:60",
            "2013-01-01T05:00:60",
            "2013-01-01T05",
            "2013-01-01T05:00:00.",
            "2013-01-01T05:00:00.1234567890",
            "2013-01-01T05:00Zx",
            "2013-01-01T05:00+1",
            "2013-01-01x",
            "2013-01-01T05:00+25:00",
            "２013-01-01",
            "2013-01-01T05:00+01:00 ",
            "+013-01-01",
        ] {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }
}

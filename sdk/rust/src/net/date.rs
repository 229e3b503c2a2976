//! Dates as headers write them.

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The seconds since 1970 of a date such as `Wed, 21 Oct 2015 07:28:00 GMT`, the only form that may be sent.
pub(super) fn seconds(text: &str) -> Option<i64> {
    let mut words = text.split_whitespace().skip(1);
    let day: i64 = words.next()?.parse().ok()?;
    let month = words.next().and_then(|name| MONTHS.iter().position(|month| *month == name))? as i64;
    let year: i64 = words.next()?.parse().ok()?;
    let clock: Vec<i64> = words.next()?.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hour, minute, second] = clock.try_into().ok()?;
    let within = (1970..10_000).contains(&year) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    if !within || hour < 0 || minute < 0 || second < 0 || words.next() != Some("GMT") {
        return None;
    }
    // Years that begin in March, so that a leap day is the last of its year.
    let (year, month) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (month * 153 + 2) / 5 + day - 1 - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn dates_are_read_and_others_are_not() {
        for (text, expected) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Wed, 21 Oct 2015 07:28:00 GMT", Some(1_445_412_480)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
            ("Fri, 01 Mar 2024 00:00:00 GMT", Some(1_709_251_200)),
            ("Wed, 21 Oct 2015 07:28:00 CET", None),
            ("Wed, 21 Oct 2015 25:28:00 GMT", None),
            ("Wed, 21 Okt 2015 07:28:00 GMT", None),
            ("Wed, 21 Oct 99999999 07:28:00 GMT", None),
            ("Wed, 21 Oct 2015 -7:28:00 GMT", None),
            ("120", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}

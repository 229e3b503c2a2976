//! Time zones: what a clock shows at a moment, and the moment of what it shows.

use super::two_digits;
use arrow::datatypes::DataType;
use chrono::TimeZone;

/// A time zone of a column: UTC (the fast case), an offset or a name of the IANA database.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Zone {
    Utc,
    Fixed(i64),
    Named(chrono_tz::Tz),
}

/// The zone of a type; a time without a zone is UTC. `None` where the name is unknown.
pub(crate) fn zone_of(data_type: &DataType) -> Option<Zone> {
    let DataType::Timestamp(_, Some(name)) = data_type else { return Some(Zone::Utc) };
    zone_named(name)
}

/// The zone of a name: `UTC`, an offset such as `+02:00`, or a name of the IANA database.
pub(crate) fn zone_named(name: &str) -> Option<Zone> {
    if matches!(name, "UTC" | "Z" | "Etc/UTC" | "+00:00" | "GMT") {
        return Some(Zone::Utc);
    }
    if let Some(digits) = name.strip_prefix(['+', '-']) {
        let (hours, minutes) = digits.split_once(':').or_else(|| digits.split_at_checked(digits.len().min(2)))?;
        let seconds = (two_digits(hours, 23)? * 60 + if minutes.is_empty() { 0 } else { two_digits(minutes, 59)? }) * 60;
        return Some(Zone::Fixed(if name.starts_with('-') { -seconds } else { seconds }));
    }
    name.parse().ok().map(Zone::Named)
}

impl Zone {
    /// Seconds that the clock of this zone is ahead of UTC at a moment in seconds since 1970.
    pub(crate) fn offset_at(self, seconds: i64) -> i64 {
        use chrono::Offset;
        match self {
            Zone::Utc => 0,
            Zone::Fixed(offset) => offset,
            // Outside the years chrono knows there are no rules; the nearest known moment's apply.
            Zone::Named(zone) => {
                let known = seconds.clamp(-60_000_000_000, 250_000_000_000);
                let moment = chrono::DateTime::from_timestamp(known, 0).expect("the range is clamped to what chrono holds");
                i64::from(zone.offset_from_utc_datetime(&moment.naive_utc()).fix().local_minus_utc())
            }
        }
    }

    /// The moment, in seconds since 1970, when this zone's clock shows `local` (seconds): the earlier of two; where the clock
    /// jumped over it, the moment of the jump's end.
    pub(crate) fn moment_of(self, local: i64) -> i64 {
        match self {
            Zone::Utc => local,
            Zone::Fixed(offset) => local - offset,
            Zone::Named(_) => {
                let before = local - self.offset_at(local - 86_400);
                let after = local - self.offset_at(local + 86_400);
                [before.min(after), before.max(after)]
                    .into_iter()
                    .find(|moment| moment + self.offset_at(*moment) == local)
                    .unwrap_or(before.max(after))
            }
        }
    }
}

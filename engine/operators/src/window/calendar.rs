//! Days of a time zone, of 23, 24 or 25 hours, as days of 24 hours: windows are cut on a grid of equal days, and only their
//! bounds and the watermark are translated.

use super::arithmetic::{Windows, within_reach};
use chrono::{DateTime, MappedLocalTime, NaiveDateTime, Offset, TimeZone};
use chrono_tz::Tz;

/// A day of the grid.
pub(crate) const DAY_MS: i64 = 86_400_000;

/// The days of a time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Calendar {
    zone: Tz,
    /// When a day begins, after midnight.
    begins: i64,
}

impl Calendar {
    /// Days that begin `begins` milliseconds after midnight, which is less than a day.
    pub(crate) fn new(zone: Tz, begins: i64) -> Self {
        Calendar { zone, begins }
    }

    /// When a day begins: the first moment that its clock shows the hour, or a later one if it never does.
    fn start(self, day: i64) -> i64 {
        let local = day.saturating_mul(DAY_MS).saturating_add(self.begins);
        let Some(shown) = DateTime::from_timestamp_millis(local).map(|at| at.naive_utc()) else {
            return local;
        };
        self.instant(shown).unwrap_or(local)
    }

    fn instant(self, shown: NaiveDateTime) -> Option<i64> {
        let resolve = |shown: NaiveDateTime| match self.zone.from_local_datetime(&shown) {
            MappedLocalTime::Single(at) | MappedLocalTime::Ambiguous(at, _) => Some(at.timestamp_millis()),
            MappedLocalTime::None => None,
        };
        if let Some(at) = resolve(shown) {
            return Some(at);
        }
        // The clock was put forward over it. No zone has ever left out more than a day.
        let after = |minutes: i64| shown.checked_add_signed(chrono::TimeDelta::minutes(minutes));
        let minute = (1..=26 * 60).find(|minutes| after(*minutes).and_then(resolve).is_some())?;
        let before = after(minute - 1)?;
        (1..=60).filter_map(|seconds| before.checked_add_signed(chrono::TimeDelta::seconds(seconds))).find_map(resolve)
    }

    /// The day that a moment lies in.
    fn day_of(self, millis: i64) -> i64 {
        let Some(at) = DateTime::from_timestamp_millis(millis) else {
            return millis.div_euclid(DAY_MS);
        };
        let ahead = i64::from(self.zone.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc()) * 1000;
        let mut day = (millis + ahead - self.begins).div_euclid(DAY_MS);
        while self.start(day) > millis {
            day -= 1;
        }
        while self.start(day + 1) <= millis {
            day += 1;
        }
        day
    }

    fn knows(millis: i64) -> bool {
        DateTime::from_timestamp_millis(millis).is_some()
    }
}

/// The windows of a stage on the clock that they are cut by: milliseconds since 1970, or the days of a time zone.
///
/// What it calls a mark is a time on the grid, as the windows' bounds are; without a time zone, the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Grid {
    /// The windows, in marks.
    pub(crate) windows: Windows,
    calendar: Option<Calendar>,
}

impl Grid {
    /// Windows in milliseconds since 1970, or on a calendar.
    pub(crate) fn new(windows: Windows, calendar: Option<Calendar>) -> Self {
        Grid { windows, calendar }
    }

    /// The mark where the pane of a moment begins, unless the moment is too far from 1970.
    pub(crate) fn pane_of(&self, millis: i64) -> Option<i64> {
        match self.calendar {
            None => self.windows.pane_of(millis),
            Some(calendar) => {
                let known = within_reach(millis) && Calendar::knows(millis);
                known.then(|| calendar.day_of(millis) * DAY_MS).and_then(|mark| self.windows.pane_of(mark))
            }
        }
    }

    /// The moment of a mark.
    pub(crate) fn moment(&self, mark: i64) -> i64 {
        match self.calendar {
            None => mark,
            Some(calendar) => calendar.start(mark.div_euclid(DAY_MS)),
        }
    }

    /// The last mark that is not after a moment. Only marks at which windows may begin or end count.
    pub(crate) fn reached(&self, millis: i64) -> i64 {
        match self.calendar {
            None => millis,
            Some(calendar) => calendar.day_of(millis).saturating_mul(DAY_MS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn days(zone: &str, begins: i64) -> Grid {
        let calendar = Calendar::new(zone.parse().unwrap(), begins);
        Grid::new(Windows::new(DAY_MS, DAY_MS, 0), Some(calendar))
    }

    fn hours(grid: &Grid, date: &str) -> (String, i64) {
        let noon = format!("{date}T12:00:00Z").parse::<DateTime<chrono::Utc>>().unwrap().timestamp_millis();
        let pane = grid.pane_of(noon).unwrap();
        let (from, to) = (grid.moment(pane), grid.moment(grid.windows.pane_end(pane)));
        (DateTime::from_timestamp_millis(from).unwrap().to_rfc3339(), (to - from) / 3_600_000)
    }

    #[test]
    fn p060_days_have_23_and_25_hours_where_clocks_change() {
        let copenhagen = days("Europe/Copenhagen", 0);
        assert_eq!(hours(&copenhagen, "2024-03-30"), ("2024-03-29T23:00:00+00:00".into(), 24));
        assert_eq!(hours(&copenhagen, "2024-03-31"), ("2024-03-30T23:00:00+00:00".into(), 23));
        assert_eq!(hours(&copenhagen, "2024-10-27"), ("2024-10-26T22:00:00+00:00".into(), 25));
        assert_eq!(hours(&copenhagen, "2024-10-28"), ("2024-10-27T23:00:00+00:00".into(), 24));
        // A day that begins at six sees the change in the day before.
        assert_eq!(hours(&days("Europe/Copenhagen", 6 * 3_600_000), "2024-03-31"), ("2024-03-31T04:00:00+00:00".into(), 24));
        assert_eq!(hours(&days("Europe/Copenhagen", 6 * 3_600_000), "2024-03-30"), ("2024-03-30T05:00:00+00:00".into(), 23));
    }

    #[test]
    fn a_midnight_that_never_was_is_the_next_moment() {
        // In Sao Paulo clocks went from 23:59:59 to 01:00.
        assert_eq!(hours(&days("America/Sao_Paulo", 0), "2018-11-04"), ("2018-11-04T03:00:00+00:00".into(), 23));
        // Apia left out the thirtieth of December.
        let apia = days("Pacific/Apia", 0);
        assert_eq!(hours(&apia, "2011-12-29"), ("2011-12-29T10:00:00+00:00".into(), 24));
        assert_eq!(hours(&apia, "2011-12-30"), ("2011-12-30T10:00:00+00:00".into(), 24));
    }

    proptest! {
        #[test]
        fn a_moment_lies_in_its_day_and_days_follow_each_other(
            millis in -5_000_000_000_000i64..5_000_000_000_000, zone in 0usize..5, begins in 0i64..24,
        ) {
            let zone = ["Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu", "Pacific/Apia", "Australia/Lord_Howe"][zone];
            let grid = days(zone, begins * 3_600_000);
            let mark = grid.reached(millis);
            prop_assert_eq!(grid.pane_of(millis), Some(mark));
            prop_assert!(grid.moment(mark) <= millis && millis < grid.moment(mark + DAY_MS));
            prop_assert_eq!(grid.reached(grid.moment(mark)), mark);
            prop_assert_eq!(grid.reached(grid.moment(mark) - 1) < mark, true);
        }

        #[test]
        fn far_times_are_told_apart(millis in any::<i64>()) {
            let grid = days("Europe/Berlin", 0);
            prop_assert!(grid.reached(millis) <= grid.reached(i64::MAX / 1000).max(grid.reached(millis)));
            let _ = grid.pane_of(millis);
        }
    }
}

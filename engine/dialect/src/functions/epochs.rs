//! Dates and timestamps made of numbers, and numbers made of them

use super::Function;
use super::args::Shape;
use super::calendar::OUT_OF_RANGE;
use crate::time::{Zone, checked_days_of, parse_timestamp, per_second};
use crate::types::Class;
use arrow::datatypes::{DataType, TimeUnit};

macro_rules! epoch {
    ($name:literal, $unit:expr, $what:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, "(time) -> int64"),
            doc: concat!(
                "A timestamp, date or epoch milliseconds as ",
                $what,
                " since 1970-01-01T00:00Z, rounded towards the past. What int64 does not hold makes a bad row."
            ),
            examples: &$examples,
            arity: (1, 1),
            bind: |mut args| {
                let from = args.time(0)?.unit;
                Ok(args.into_int(move |row| rescaled(row.int(0), from, $unit)))
            },
        }
    };
}

macro_rules! from_epoch {
    ($name:literal, $unit:expr, $result:literal, $what:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, "(integer) -> ", $result),
            doc: concat!("The timestamp so many ", $what, " after 1970-01-01T00:00Z."),
            examples: &$examples,
            arity: (1, 1),
            bind: |mut args| {
                args.take(&[Shape::Integer])?;
                Ok(args.into_time(DataType::Timestamp($unit, None), |row| row.int(0)))
            },
        }
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "makeDate",
        signature: "makeDate(year, month, day) -> date",
        doc: "The date of three integers; a day that does not exist, or a year outside 1 to 9999, makes a bad row.",
        examples: &[("makeDate(2026, 1, 31) == ts'2026-01-31'", "true"), ("makeDate(2026, 2, 29)", "error")],
        arity: (3, 3),
        bind: |mut args| {
            args.take(&[Shape::Integer])?;
            Ok(args.into_time(DataType::Date32, |row| {
                checked_days_of(row.int(0), row.int(1), row.int(2)).ok_or_else(|| "there is no such day".to_string())
            }))
        },
    },
    Function {
        name: "makeTimestamp",
        signature: "makeTimestamp(year, month, day, hour, minute, second, zone?) -> timestamp_ms",
        doc: "The timestamp of six integers on the clock of `zone` (a constant, by default UTC). An hour that the clock repeats is its first; one that it skips is the moment of the jump's end. A day or time of day that does not exist, or a year outside 1 to 9999, makes a bad row.",
        examples: &[
            ("makeTimestamp(2026, 1, 31, 12, 30, 0)", "ts'2026-01-31T12:30Z'"),
            ("makeTimestamp(2026, 1, 31, 12, 30, 0, 'Europe/Berlin')", "ts'2026-01-31T11:30Z'"),
            ("makeTimestamp(2026, 1, 31, 24, 0, 0)", "error"),
        ],
        arity: (6, 7),
        bind: |mut args| {
            let (name, zone) = match args.len() {
                7 => args.zone(6).map(|(name, zone)| (Some(name), zone))?,
                _ => (None, Zone::Utc),
            };
            args.nodes.truncate(6);
            args.take(&[Shape::Integer])?;
            Ok(args.into_time(DataType::Timestamp(TimeUnit::Millisecond, name), move |row| {
                let clock = [(row.int(3), 23), (row.int(4), 59), (row.int(5), 59)];
                let days = checked_days_of(row.int(0), row.int(1), row.int(2));
                match days.filter(|_| clock.iter().all(|(value, most)| (0..=*most).contains(value))) {
                    Some(days) => Ok(zone.moment_of(days * 86_400 + clock[0].0 * 3_600 + clock[1].0 * 60 + clock[2].0) * 1_000),
                    None => Err("there is no such time".to_string()),
                }
            }))
        },
    },
    epoch!("epochSeconds", TimeUnit::Second, "seconds", [("epochSeconds(ts'1970-01-01T00:01:00.9Z')", "60"), ("epochSeconds(-1)", "-1")]),
    epoch!("epochMillis", TimeUnit::Millisecond, "milliseconds", [("epochMillis(ts'1970-01-01T00:00:01.5Z')", "1500")]),
    epoch!("epochMicros", TimeUnit::Microsecond, "microseconds", [("epochMicros(ts'1970-01-01T00:00:01.5Z')", "1500000")]),
    epoch!(
        "epochNanos",
        TimeUnit::Nanosecond,
        "nanoseconds",
        [("epochNanos(ts'1970-01-01T00:00:01Z')", "1000000000"), ("epochNanos(ts'9999-12-31')", "error")]
    ),
    Function {
        name: "epochMs",
        signature: "epochMs(text or time) -> int64",
        doc: "Milliseconds since 1970-01-01T00:00Z, rounded towards the past, of an ISO 8601 text with a zone (`Z` or an offset) or, as `epochMillis`, of a time. Text without a zone could mean any moment of a day: like all that is no timestamp, it makes a bad row.",
        examples: &[
            ("epochMs('1970-01-01T00:00:01.500Z')", "1500"),
            ("epochMs('2026-01-31T12:00:00+02:00')", "1769853600000"),
            ("epochMs(ts'1970-01-01T00:00:01Z')", "1000"),
            ("epochMs('1969-12-31T23:59:59.999999999Z')", "-1"),
            ("epochMs('2026-01-31T12:00:00')", "error"),
            ("epochMs('2026-01-31')", "error"),
        ],
        arity: (1, 1),
        bind: |mut args| {
            if args.class(0) == Class::Text {
                return Ok(args.into_int(|row| zoned_millis(row.text(0))));
            }
            let from = args.time(0)?.unit;
            Ok(args.into_int(move |row| rescaled(row.int(0), from, TimeUnit::Millisecond)))
        },
    },
    from_epoch!("fromEpochSeconds", TimeUnit::Second, "timestamp_s", "seconds", [("fromEpochSeconds(60)", "ts'1970-01-01T00:01:00Z'")]),
    from_epoch!(
        "fromEpochMillis",
        TimeUnit::Millisecond,
        "timestamp_ms",
        "milliseconds",
        [("fromEpochMillis(-1)", "ts'1969-12-31T23:59:59.999Z'")]
    ),
    from_epoch!(
        "fromEpochMicros",
        TimeUnit::Microsecond,
        "timestamp_us",
        "microseconds",
        [("fromEpochMicros(1)", "ts'1970-01-01T00:00:00.000001Z'")]
    ),
    from_epoch!(
        "fromEpochNanos",
        TimeUnit::Nanosecond,
        "timestamp_ns",
        "nanoseconds",
        [("fromEpochNanos(1)", "ts'1970-01-01T00:00:00.000000001Z'")]
    ),
];

/// The moment that a timestamp with a zone names, in milliseconds.
fn zoned_millis(text: &str) -> Result<i64, String> {
    let (value, unit) = parse_timestamp(text).ok_or_else(|| format!("`{text}` is not an ISO 8601 timestamp"))?;
    // A date has two `-` of its own, and stands before the first `T` or blank.
    let clock = text.trim().split_once(['T', 't', ' ']).map_or("", |(_, clock)| clock);
    if !clock.contains(['Z', 'z', '+', '-']) {
        return Err(format!("`{text}` has no zone, write `Z` or an offset such as `+02:00` behind it"));
    }
    rescaled(value, unit, TimeUnit::Millisecond)
}

/// Ticks of one unit in another, rounded towards the past.
pub(super) fn rescaled(value: i64, from: TimeUnit, to: TimeUnit) -> Result<i64, String> {
    let (from, to) = (per_second(from), per_second(to));
    if to <= from {
        return Ok(value.div_euclid(from / to));
    }
    value.checked_mul(to / from).ok_or_else(|| OUT_OF_RANGE.to_string())
}

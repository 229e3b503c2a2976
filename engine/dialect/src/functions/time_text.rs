//! Times and text: patterns, zones, names

use super::Function;
use super::args::{Args, Clock, Shape};
use super::epochs::rescaled;
use super::time_pattern::{DAYS, MONTHS, Pattern};
use crate::Diagnostic;
use crate::node::Node;
use crate::time::{Field, Zone, field_of, local_ms, parse_timestamp, per_second};
use crate::types::Class;
use arrow::datatypes::{DataType, TimeUnit};
use std::sync::Arc;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "formatTime",
        signature: "formatTime(time, pattern, zone?) -> string",
        doc: "The time as text, on the clock of `zone` (a constant) or, without it, of the time's own zone, or UTC. The pattern, a constant, has: `%Y` year (4 digits), `%y` year (2), `%m` month, `%d` day, `%e` day without zero, `%j` day of the year, `%H` hour, `%I` hour of 12, `%p` AM or PM, `%M` minute, `%S` second, `%f` fraction of a second (6 digits; `%3f`, `%6f`, `%9f` that many), `%b` and `%B` name of the month (short, long), `%a` and `%A` name of the day, `%u` day of the week from 1 for Monday, `%G` and `%V` ISO year and week, `%z` offset (`+0200`), `%:z` (`+02:00`), `%s` epoch seconds, `%F` for `%Y-%m-%d`, `%T` for `%H:%M:%S`, `%R` for `%H:%M`, `%%` a percent sign. A year outside 1 to 9999 makes a bad row.",
        examples: &[
            ("formatTime(ts'2026-01-31T12:05:09.123Z', '%d.%m.%Y %H:%M:%S.%3f')", "'31.01.2026 12:05:09.123'"),
            ("formatTime(ts'2026-07-01T10:00Z', '%F %R %:z', 'Europe/Berlin')", "'2026-07-01 12:00 +02:00'"),
            ("formatTime(ts'2026-01-31', '%a %e %b, week %V')", "'Sat 31 Jan, week 05'"),
            ("formatTime(0, '%I %p')", "'12 AM'"),
        ],
        arity: (2, 3),
        bind: |mut args| {
            let pattern = pattern(&args, 1)?;
            let zone = if args.len() == 3 { Some(args.zone(2)?.1) } else { None };
            args.nodes.truncate(1);
            let clock = args.time(0)?;
            let zone = zone.unwrap_or(clock.zone);
            Ok(args.into_text(move |row, out: &mut String| pattern.write(row.int(0), clock.unit, zone, out)))
        },
    },
    Function {
        name: "parseTime",
        signature: "parseTime(text, pattern, zone?) -> timestamp",
        doc: "The time that a text shows by a pattern, as for `formatTime`, without `%u`, `%G` and `%V`. The text must follow the pattern to its end; numbers may leave out leading zeros where a character that is no digit follows; names are read in any case; white space stands for itself. Without `%z`, `%:z` (either reads `Z`, `+02:00`, `+0200`, `+02`) or `%s` the text shows the clock of `zone` (a constant, by default UTC). Parts left out are the first of the year, midnight, zero. The result is in milliseconds, with `%f` or `%6f` in microseconds, with `%9f` in nanoseconds, and in `zone` if that is given. What does not follow the pattern or does not exist makes a bad row.",
        examples: &[
            ("parseTime('31.01.2026 12:05', '%d.%m.%Y %H:%M')", "ts'2026-01-31T12:05Z'"),
            ("parseTime('2026-07-01 12:00:00.250', '%F %T.%3f', 'Europe/Berlin')", "ts'2026-07-01T10:00:00.250Z'"),
            ("parseTime('2026-01-31T12:00:00+02:00', '%FT%T%:z')", "ts'2026-01-31T10:00Z'"),
            ("parseTime('Jan 5, 2026', '%b %d, %Y')", "ts'2026-01-05'"),
            ("parseTime('30.02.2026', '%d.%m.%Y')", "error"),
            ("parseTime('2026', '%Y-%m')", "error"),
        ],
        arity: (2, 3),
        bind: |mut args| {
            let pattern = pattern(&args, 1)?;
            if let Some(unread) = pattern.unreadable() {
                return Err(args.refuse(1, format!("`{unread}` is only for `formatTime`")));
            }
            let (name, zone) = if args.len() == 3 { args.zone(2).map(|(name, zone)| (Some(name), zone))? } else { (None, Zone::Utc) };
            args.nodes.truncate(1);
            args.take(&[Shape::Text])?;
            let unit = pattern.unit();
            Ok(args.into_time(DataType::Timestamp(unit, name), move |row| pattern.read(row.text(0), unit, zone)))
        },
    },
    Function {
        name: "isoToEpoch",
        signature: "isoToEpoch(text) -> int64",
        doc: "ISO-8601 text, as a ts'…' literal has it, as epoch milliseconds, rounded towards the past. Anything else makes a bad row.",
        examples: &[
            ("isoToEpoch('1970-01-01T00:00:01.5Z')", "1500"),
            ("isoToEpoch('1970-01-01T02:00+02:00')", "0"),
            ("isoToEpoch('yesterday')", "error"),
        ],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Text])?;
            Ok(args.into_int(|row| match parse_timestamp(row.text(0)) {
                Some((value, unit)) => rescaled(value, unit, TimeUnit::Millisecond),
                None => Err(format!("`{}` is not a time", row.text(0))),
            }))
        },
    },
    Function {
        name: "toZone",
        signature: "toZone(time, zone) -> timestamp",
        doc: "The same moment with the clock of `zone`, a constant: fields, `dateTrunc` and `formatTime` follow it. Epoch milliseconds become timestamp_ms, dates timestamp_s.",
        examples: &[
            ("hourOf(toZone(ts'2026-07-01T10:00Z', 'Europe/Berlin'))", "12"),
            ("toZone(ts'2026-07-01T10:00Z', '+02:00')", "ts'2026-07-01T10:00Z'"),
        ],
        arity: (2, 2),
        bind: |mut args| {
            let (name, _) = args.zone(1)?;
            args.nodes.truncate(1);
            let unit = args.time(0)?.unit;
            Ok(args.into_time(DataType::Timestamp(unit, Some(name)), |row| row.int(0)))
        },
    },
    Function {
        name: "utc",
        signature: "utc(time) -> timestamp",
        doc: "The same moment with the clock of UTC; `toZone(time, 'UTC')`.",
        examples: &[("hourOf(utc(toZone(ts'2026-07-01T10:00Z', 'Europe/Berlin')))", "10")],
        arity: (1, 1),
        bind: |mut args| {
            let unit = args.time(0)?.unit;
            Ok(args.into_time(DataType::Timestamp(unit, Some("UTC".into())), |row| row.int(0)))
        },
    },
    Function {
        name: "inZone",
        signature: "inZone(time, zone) -> timestamp",
        doc: "The moment when the clock of `zone`, a constant, shows what the time's own clock, or UTC, shows: for times that were read without their zone. An hour that the clock repeats is its first; one that it skips is the moment of the jump's end. Out of range it makes a bad row.",
        examples: &[("inZone(ts'2026-07-01T12:00Z', 'Europe/Berlin')", "ts'2026-07-01T10:00Z'")],
        arity: (2, 2),
        bind: |mut args| {
            let (name, zone) = args.zone(1)?;
            args.nodes.truncate(1);
            let Clock { unit, zone: own } = args.time(0)?;
            let rate = per_second(unit);
            Ok(args.into_time(DataType::Timestamp(unit, Some(name)), move |row| {
                let (seconds, fraction) = (row.int(0).div_euclid(rate), row.int(0).rem_euclid(rate));
                // Beyond this the clocks of named zones have no rules, and additions might leave int64.
                if seconds.unsigned_abs() > 1 << 60 {
                    return Err("time is out of range".to_string());
                }
                let moment = zone.moment_of(seconds + own.offset_at(seconds));
                moment.checked_mul(rate).and_then(|ticks| ticks.checked_add(fraction)).ok_or_else(|| "time is out of range".to_string())
            }))
        },
    },
    Function {
        name: "zoneOffset",
        signature: "zoneOffset(time, zone?) -> int64",
        doc: "How many seconds the clock of `zone` (a constant), or of the time's own zone, is ahead of UTC at that moment.",
        examples: &[
            ("zoneOffset(ts'2026-07-01', 'Europe/Berlin')", "7200"),
            ("zoneOffset(ts'2026-01-01', 'Europe/Berlin')", "3600"),
            ("zoneOffset(0)", "0"),
        ],
        arity: (1, 2),
        bind: |mut args| {
            let zone = if args.len() == 2 { Some(args.zone(1)?.1) } else { None };
            args.nodes.truncate(1);
            let clock = args.time(0)?;
            let (zone, rate) = (zone.unwrap_or(clock.zone), per_second(clock.unit));
            Ok(args.into_int(move |row| zone.offset_at(row.int(0).div_euclid(rate))))
        },
    },
    Function {
        name: "dayName",
        signature: "dayName(time) -> string",
        doc: "The English name of the day of the week, on the clock of the time's own zone, or UTC.",
        examples: &[("dayName(ts'2026-01-31')", "'Saturday'")],
        arity: (1, 1),
        bind: |args| name(args, Field::DayOfWeek, &DAYS),
    },
    Function {
        name: "monthName",
        signature: "monthName(time) -> string",
        doc: "The English name of the month, on the clock of the time's own zone, or UTC.",
        examples: &[("monthName(ts'2026-01-31')", "'January'")],
        arity: (1, 1),
        bind: |args| name(args, Field::Month, &MONTHS),
    },
    Function {
        name: "toTimestamp",
        signature: "toTimestamp(value) -> timestamp",
        doc: "ISO-8601 text, as a ts'…' literal has it, as timestamp_us in UTC; epoch milliseconds as timestamp_ms; a date as its midnight; a timestamp stays what it is. Text that is not a time, or has more than six decimals of a second that are not zero, makes a bad row.",
        examples: &[
            ("toTimestamp('2026-01-31T12:00:00.000001+02:00')", "ts'2026-01-31T10:00:00.000001Z'"),
            ("toTimestamp(1000)", "ts'1970-01-01T00:00:01Z'"),
            ("toTimestamp('soon')", "error"),
        ],
        arity: (1, 1),
        bind: |args| to_timestamp(args, Otherwise::Bad),
    },
    Function {
        name: "tryToTimestamp",
        signature: "tryToTimestamp(value) -> timestamp",
        doc: "As `toTimestamp`, but null for a text that is not a time.",
        examples: &[("tryToTimestamp('soon')", "null"), ("tryToTimestamp('2026-01-31')", "ts'2026-01-31'")],
        arity: (1, 1),
        bind: |args| to_timestamp(args, Otherwise::Null),
    },
    Function {
        name: "toDate",
        signature: "toDate(value) -> date",
        doc: "The day of a timestamp or of epoch milliseconds, on the clock of the time's own zone, or UTC; the day that ISO-8601 text shows, whatever its offset; a date stays what it is. Text that is not a time makes a bad row.",
        examples: &[
            ("toDate('2026-01-31T23:00:00-05:00')", "makeDate(2026, 1, 31)"),
            ("toDate(ts'2026-01-31T12:00Z')", "makeDate(2026, 1, 31)"),
            ("toDate('2026-02-30')", "error"),
        ],
        arity: (1, 1),
        bind: |args| to_date(args, Otherwise::Bad),
    },
    Function {
        name: "tryToDate",
        signature: "tryToDate(value) -> date",
        doc: "As `toDate`, but null for a text that is not a time.",
        examples: &[("tryToDate('2026-02-30')", "null"), ("tryToDate('2026-01-31')", "makeDate(2026, 1, 31)")],
        arity: (1, 1),
        bind: |args| to_date(args, Otherwise::Null),
    },
];

/// What a cast makes of a value that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Otherwise {
    Bad,
    Null,
}

impl Otherwise {
    /// The answer for a value, if it fits.
    pub(super) fn answer<T>(self, found: Option<T>, reason: impl FnOnce() -> String) -> Result<Option<T>, String> {
        match (found, self) {
            (None, Otherwise::Bad) => Err(reason()),
            (found, _) => Ok(found),
        }
    }
}

fn pattern(args: &Args<'_>, at: usize) -> Result<Arc<Pattern>, Diagnostic> {
    Pattern::parse(args.constant_text(at)?).map(Arc::new).map_err(|message| args.refuse(at, message))
}

fn name(mut args: Args<'_>, field: Field, names: &'static [&'static str]) -> Result<Node, Diagnostic> {
    let clock = args.time(0)?;
    Ok(args.into_text(move |row, out: &mut String| {
        let place = field_of(field, local_ms(row.int(0), clock.unit, clock.zone)) - 1;
        out.push_str(names[place as usize]);
    }))
}

fn to_timestamp(mut args: Args<'_>, otherwise: Otherwise) -> Result<Node, Diagnostic> {
    match args.class(0) {
        Class::Text | Class::Null => {
            args.take(&[Shape::Text])?;
            Ok(args.into_time(DataType::Timestamp(TimeUnit::Microsecond, None), move |row| {
                let found = parse_timestamp(row.text(0)).and_then(|(value, unit)| {
                    let exact = unit != TimeUnit::Nanosecond || value % 1_000 == 0;
                    rescaled(value, unit, TimeUnit::Microsecond).ok().filter(|_| exact)
                });
                otherwise.answer(found, || format!("`{}` is not a time", row.text(0)))
            }))
        }
        Class::Timestamp(..) => Ok(args.nodes.remove(0)),
        _ => {
            let unit = args.time(0)?.unit;
            Ok(args.into_time(DataType::Timestamp(unit, None), |row| row.int(0)))
        }
    }
}

fn to_date(mut args: Args<'_>, otherwise: Otherwise) -> Result<Node, Diagnostic> {
    match args.class(0) {
        Class::Text | Class::Null => {
            args.take(&[Shape::Text])?;
            Ok(args.into_time(DataType::Date32, move |row| {
                let text = row.text(0).trim();
                let date = text.get(..10).and_then(parse_timestamp).filter(|_| parse_timestamp(text).is_some());
                let days = date.map(|(ms, _)| ms.div_euclid(crate::time::DAY_MS));
                otherwise.answer(days, || format!("`{}` is not a date", row.text(0)))
            }))
        }
        Class::Date => Ok(args.nodes.remove(0)),
        _ => {
            let clock = args.time(0)?;
            Ok(args.into_time(DataType::Date32, move |row| {
                let days = local_ms(row.int(0), clock.unit, clock.zone).div_euclid(crate::time::DAY_MS);
                let seconds = row.int(0).div_euclid(per_second(clock.unit));
                // Milliseconds of seconds beyond this are saturated, and dates end long before.
                let found = Some(days).filter(|days| i32::try_from(*days).is_ok() && seconds.abs() < 1 << 50);
                otherwise.answer(found, || "time is out of the range of dates".to_string())
            }))
        }
    }
}

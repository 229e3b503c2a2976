//! Calendar arithmetic: moving times, distances, starts and ends

use super::args::{Args, Clock, Shape};
use super::epochs::rescaled;
use super::rows::In;
use super::{Function, date_trunc};
use crate::Diagnostic;
use crate::node::Node;
use crate::time::{
    Step, Truncation, Zone, checked_days_of, civil, days_in_month, finer, is_leap_year, per_second, step_days, step_in, truncate,
    truncate_in,
};
use crate::types::Class;
use arrow::datatypes::{DataType, TimeUnit};

/// A unit of `dateAdd` and `dateDiff`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    /// So many nanoseconds, whatever the calendar says.
    Fixed(i64),
    Days(i64),
    Months(i64),
}

const UNITS: [(&str, Unit); 11] = [
    ("nanosecond", Unit::Fixed(1)),
    ("microsecond", Unit::Fixed(1_000)),
    ("millisecond", Unit::Fixed(1_000_000)),
    ("second", Unit::Fixed(1_000_000_000)),
    ("minute", Unit::Fixed(60_000_000_000)),
    ("hour", Unit::Fixed(3_600_000_000_000)),
    ("day", Unit::Days(1)),
    ("week", Unit::Days(7)),
    ("month", Unit::Months(1)),
    ("quarter", Unit::Months(3)),
    ("year", Unit::Months(12)),
];

pub(super) const OUT_OF_RANGE: &str = "time is out of range";

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "dateAdd",
        signature: "dateAdd(unit, n, time) -> type of time",
        doc: "The time moved by `n` units, back for a negative `n`. The unit is a constant: nanosecond, microsecond, millisecond, second, minute, hour, day, week, month, quarter, year. Days and longer units keep the time of day on the clock of the time's own zone, or UTC; a day that the month does not have becomes its last. A timestamp takes the finer unit that its ticks need, a date takes days and longer units only, an integer is epoch milliseconds. A result outside the type, or for days and longer units outside the years 1 to 9999, makes a bad row.",
        examples: &[
            ("dateAdd('month', 1, ts'2026-01-31')", "ts'2026-02-28'"),
            ("dateAdd('hour', -1, ts'2026-01-31T00:30Z')", "ts'2026-01-30T23:30Z'"),
            ("dateAdd('year', 1, ts'2024-02-29')", "ts'2025-02-28'"),
            ("dateAdd('day', 1, toZone(ts'2026-03-28T12:00Z', 'Europe/Berlin')) - ts'2026-03-28T12:00Z'", "82800000"),
            ("dateAdd('day', 1, makeDate(2026, 1, 31))", "makeDate(2026, 2, 1)"),
            ("dateAdd('second', 1, 1000)", "2000"),
            ("dateAdd('year', 9000, ts'2026-01-31')", "error"),
        ],
        arity: (3, 3),
        bind: add,
    },
    Function {
        name: "dateDiff",
        signature: "dateDiff(unit, from, to) -> int64",
        doc: "How many whole units lie between two times, negative if `to` is the earlier one. Units as for `dateAdd`; days and longer ones are counted on the clock of the first time's zone. What int64 does not hold makes a bad row.",
        examples: &[
            ("dateDiff('day', ts'2026-01-30T12:00Z', ts'2026-02-01T11:00Z')", "1"),
            ("dateDiff('month', ts'2026-01-31', ts'2026-03-01')", "1"),
            ("dateDiff('year', ts'2026-01-31', ts'2020-01-31')", "-6"),
            ("dateDiff('second', ts'2026-01-31', ts'2026-01-31T00:01:30.5Z')", "90"),
            ("dateDiff('millisecond', 1000, ts'1970-01-01T00:00:02Z')", "1000"),
        ],
        arity: (3, 3),
        bind: diff,
    },
    Function {
        name: "startOf",
        signature: "startOf(unit, time) -> type of time",
        doc: "The same as `dateTrunc`.",
        examples: &[("startOf('day', ts'2026-01-31T12:34Z')", "ts'2026-01-31'")],
        arity: (2, 2),
        bind: date_trunc::FUNCTION.bind,
    },
    Function {
        name: "endOf",
        signature: "endOf(unit, time) -> type of time",
        doc: "The last tick, or for a date the last day, of the unit that holds the time; units and zones as for `dateTrunc`. An integer is taken and given as epoch milliseconds. An end outside the type, or for days and longer units outside the years 1 to 9999, makes a bad row.",
        examples: &[
            ("endOf('month', ts'2026-02-10T12:00Z')", "ts'2026-02-28T23:59:59.999Z'"),
            ("endOf('year', makeDate(2024, 2, 1))", "makeDate(2024, 12, 31)"),
            ("endOf('hour', 0)", "3599999"),
        ],
        arity: (2, 2),
        bind: end_of,
    },
    Function {
        name: "dateBin",
        signature: "dateBin(width, time, origin?) -> type of time",
        doc: "The start of the interval that holds the time, of intervals of `width` milliseconds (a positive constant, such as dur'15m') from `origin` (a constant time, by default 1970-01-01) on in both directions. An integer is taken and given as epoch milliseconds.",
        examples: &[
            ("dateBin(dur'15m', ts'2026-01-31T12:34:56Z')", "ts'2026-01-31T12:30Z'"),
            ("dateBin(dur'1d', ts'2026-01-31T12:34:56Z', ts'2026-01-01T06:00Z')", "ts'2026-01-31T06:00Z'"),
            ("dateBin(10, -1)", "-10"),
        ],
        arity: (2, 3),
        bind: bin,
    },
    Function {
        name: "lastDayOfMonth",
        signature: "lastDayOfMonth(time) -> date",
        doc: "The last day of the month that holds the time, on the clock of its own zone, or UTC. Outside the years 1 to 9999 it makes a bad row.",
        examples: &[("lastDayOfMonth(ts'2024-02-10T12:00Z')", "makeDate(2024, 2, 29)")],
        arity: (1, 1),
        bind: |mut args| {
            let clock = args.time(0)?;
            Ok(args.into_time(DataType::Date32, move |row| {
                let (year, month, _) = civil(local_days(row.int(0), clock));
                checked_days_of(year, month.into(), days_in_month(year, month).into()).ok_or_else(|| OUT_OF_RANGE.to_string())
            }))
        },
    },
    Function {
        name: "daysInMonth",
        signature: "daysInMonth(time) -> int64",
        doc: "How many days the month has that holds the time, on the clock of its own zone, or UTC.",
        examples: &[("daysInMonth(ts'2024-02-10')", "29"), ("daysInMonth(ts'2026-04-10')", "30")],
        arity: (1, 1),
        bind: |mut args| {
            let clock = args.time(0)?;
            Ok(args.into_int(move |row| {
                let (year, month, _) = civil(local_days(row.int(0), clock));
                i64::from(days_in_month(year, month))
            }))
        },
    },
    Function {
        name: "isLeapYear",
        signature: "isLeapYear(year) -> bool",
        doc: "Whether a year, an integer such as `year(time)` gives, has a 29th of February.",
        examples: &[("isLeapYear(2024)", "true"), ("isLeapYear(1900)", "false"), ("isLeapYear(2000)", "true")],
        arity: (1, 1),
        bind: |mut args| {
            args.take(&[Shape::Integer])?;
            Ok(args.into_bool(|row| is_leap_year(row.int(0))))
        },
    },
    Function {
        name: "isWeekend",
        signature: "isWeekend(time) -> bool",
        doc: "Whether the day is a Saturday or a Sunday, on the clock of the time's own zone, or UTC.",
        examples: &[("isWeekend(ts'2026-01-31')", "true"), ("isWeekend(ts'2026-02-02')", "false")],
        arity: (1, 1),
        bind: |mut args| {
            let clock = args.time(0)?;
            Ok(args.into_bool(move |row| (local_days(row.int(0), clock) + 3).rem_euclid(7) >= 5))
        },
    },
    Function {
        name: "microsecond",
        signature: "microsecond(time) -> int64",
        doc: "The microsecond of the second, from 0 to 999999; of a timestamp, a date or epoch milliseconds.",
        examples: &[("microsecond(ts'2026-01-31T17:45:09.512345Z')", "512345"), ("microsecond(-1)", "999000")],
        arity: (1, 1),
        bind: |mut args| {
            let rate = per_second(args.time(0)?.unit);
            Ok(args.into_int(move |row| (row.int(0).rem_euclid(rate) as i128 * 1_000_000 / i128::from(rate)) as i64))
        },
    },
];

/// The day, on the zone's clock, of a moment.
fn local_days(value: i64, clock: Clock) -> i64 {
    let seconds = value.div_euclid(per_second(clock.unit));
    seconds.saturating_add(clock.zone.offset_at(seconds)).div_euclid(86_400)
}

/// The unit whose ticks hold a number of nanoseconds.
fn unit_for(nanos: i64) -> TimeUnit {
    match nanos {
        nanos if nanos % 1_000_000_000 == 0 => TimeUnit::Second,
        nanos if nanos % 1_000_000 == 0 => TimeUnit::Millisecond,
        nanos if nanos % 1_000 == 0 => TimeUnit::Microsecond,
        _ => TimeUnit::Nanosecond,
    }
}

/// Makes a time argument at least as fine as `unit`; the type it has then, which is that of the result.
fn refine(args: &mut Args<'_>, at: usize, unit: TimeUnit) -> Result<(DataType, Clock), Diagnostic> {
    if let Class::Timestamp(own, zone) = args.class(at) {
        args.convert(at, &DataType::Timestamp(finer(own, unit), zone));
    }
    let clock = args.time(at)?;
    if per_second(unit) > per_second(clock.unit) {
        return Err(args.wrong(at, "a timestamp for a unit as fine as this"));
    }
    Ok((args.ty(at).clone(), clock))
}

fn add(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    let unit = args.word(0, "unit", &UNITS)?;
    args.nodes.remove(0);
    args.integer(0)?;
    let failed = || OUT_OF_RANGE.to_string();
    let step = move |n: i64| match unit {
        Unit::Fixed(_) => None,
        Unit::Days(factor) => n.checked_mul(factor).map(Step::Days),
        Unit::Months(factor) => n.checked_mul(factor).map(Step::Months),
    };
    if args.class(1) == Class::Date {
        if matches!(unit, Unit::Fixed(_)) {
            return Err(args.refuse(1, "a date has no time of day, use `toTimestamp` for one"));
        }
        return Ok(
            args.into_time(DataType::Date32, move |row| step(row.int(0)).and_then(|step| step_days(row.int(1), step)).ok_or_else(failed))
        );
    }
    let nanos = if let Unit::Fixed(nanos) = unit { nanos } else { 1_000_000_000 };
    let (ty, clock) = refine(&mut args, 1, unit_for(nanos))?;
    let ticks = i128::from(nanos) * i128::from(per_second(clock.unit)) / 1_000_000_000;
    let moved = move |row: In<'_>| {
        let moved = match unit {
            Unit::Fixed(_) => i64::try_from(i128::from(row.int(1)) + i128::from(row.int(0)) * ticks).ok(),
            _ => step(row.int(0)).and_then(|step| step_in(step, row.int(1), clock.unit, clock.zone)),
        };
        moved.ok_or_else(failed)
    };
    Ok(of_type(args, ty, moved))
}

/// The call in the type of its time argument, which is int64 for epoch milliseconds.
fn of_type(args: Args<'_>, ty: DataType, ticks: impl Fn(In<'_>) -> Result<i64, String> + Send + Sync + Clone + 'static) -> Node {
    if ty == DataType::Int64 { args.into_int(ticks) } else { args.into_time(ty, ticks) }
}

fn diff(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    let unit = args.word(0, "unit", &UNITS)?;
    args.nodes.remove(0);
    let (a, b) = (args.time(0)?, args.time(1)?);
    let nanos = |value: i64, clock: Clock| i128::from(value) * i128::from(1_000_000_000 / per_second(clock.unit));
    let local = move |value: i64, clock: Clock| {
        let offset = a.zone.offset_at(value.div_euclid(per_second(clock.unit)));
        nanos(value, clock) + i128::from(offset) * 1_000_000_000
    };
    Ok(args.into_int(move |row| {
        let (from, to) = (row.int(0), row.int(1));
        let whole = match unit {
            Unit::Fixed(size) => (nanos(to, b) - nanos(from, a)) / i128::from(size),
            Unit::Days(days) => (local(to, b) - local(from, a)) / (DAY_NANOS * i128::from(days)),
            Unit::Months(months) => months_between(local(from, a), local(to, b)) / i128::from(months),
        };
        i64::try_from(whole).map_err(|_| "integer overflow: the distance does not fit in int64".to_string())
    }))
}

const DAY_NANOS: i128 = 86_400_000_000_000;

/// Whole months between two moments of local time in nanoseconds.
fn months_between(from: i128, to: i128) -> i128 {
    let place = |nanos: i128| {
        // No timestamp is further than 2^63 seconds from 1970.
        let (year, month, day) = civil(nanos.div_euclid(DAY_NANOS) as i64);
        (i128::from(year) * 12 + i128::from(month), (day, nanos.rem_euclid(DAY_NANOS)))
    };
    let ((from_month, from_rest), (to_month, to_rest)) = (place(from), place(to));
    let months = to_month - from_month;
    match months.signum() {
        1 if to_rest < from_rest => months - 1,
        -1 if to_rest > from_rest => months + 1,
        _ => months,
    }
}

fn end_of(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    let to = args.word(0, "unit", &crate::time::TRUNCATIONS)?;
    args.nodes.remove(0);
    let failed = || OUT_OF_RANGE.to_string();
    let step = match to {
        Truncation::Fixed(ms) => Step::Days(i64::from(ms == crate::time::DAY_MS)),
        Truncation::Week => Step::Days(7),
        Truncation::Month => Step::Months(1),
        Truncation::Quarter => Step::Months(3),
        Truncation::Year => Step::Months(12),
    };
    if args.class(0) == Class::Date {
        return Ok(args.into_time(DataType::Date32, move |row| {
            let start = truncate(to, row.int(0) * 86_400, TimeUnit::Second).map(|start| start.div_euclid(86_400));
            match step {
                Step::Days(0) => Ok(row.int(0)),
                step => start.and_then(|start| step_days(start, step)).map(|next| next - 1).ok_or_else(failed),
            }
        }));
    }
    let clock = args.time(0)?;
    let (ty, rate) = (args.ty(0).clone(), per_second(clock.unit));
    let end = move |row: In<'_>| {
        let start = truncate_in(to, row.int(0), clock.unit, clock.zone)?;
        let next = match (to, step) {
            (Truncation::Fixed(ms), Step::Days(0)) => start.checked_add((i128::from(ms) * i128::from(rate) / 1_000).max(1) as i64)?,
            (_, step) => step_in(step, start, clock.unit, clock.zone)?,
        };
        next.checked_sub(1)
    };
    Ok(of_type(args, ty, move |row| end(row).ok_or_else(failed)))
}

fn bin(mut args: Args<'_>) -> Result<Node, Diagnostic> {
    let width = match args.constant_integer(0) {
        Some(width) if width > 0 => width as i64,
        _ => return Err(args.refuse(0, "the width is a positive constant integer of milliseconds, such as dur'15m'")),
    };
    let origin = match args.len() {
        3 => {
            let clock = args.time(2)?;
            match args.nodes[2].as_literal() {
                Some(value) if !value.is_null() => Some((value.integer() as i64, clock.unit)),
                _ => return Err(args.refuse(2, "the origin is a constant time")),
            }
        }
        _ => None,
    };
    args.nodes.truncate(2);
    args.nodes.remove(0);
    if args.class(0) == Class::Date && width % crate::time::DAY_MS != 0 {
        return Err(args.refuse(0, "a date has no time of day, use `toTimestamp` or a width of whole days"));
    }
    let date = args.class(0) == Class::Date;
    let (ty, clock) = match date {
        true => (DataType::Date32, Clock { unit: TimeUnit::Second, zone: Zone::Utc }),
        false => refine(&mut args, 0, unit_for((width % 1_000) * 1_000_000))?,
    };
    let rate = per_second(clock.unit);
    let ticks = i128::from(width) * i128::from(rate) / 1_000;
    let origin = match origin {
        Some((value, unit)) => match rescaled(value, unit, clock.unit) {
            Ok(origin) => i128::from(origin),
            Err(message) => return Err(args.refuse(0, message)),
        },
        None => 0,
    };
    let start = move |value: i64| {
        let from_origin = i128::from(value) - origin;
        i64::try_from(i128::from(value) - from_origin.rem_euclid(ticks)).map_err(|_| OUT_OF_RANGE.to_string())
    };
    match date {
        true => Ok(args.into_time(ty, move |row| {
            let days = start(row.int(0) * 86_400)?.div_euclid(86_400);
            if i32::try_from(days).is_ok() { Ok(days) } else { Err(OUT_OF_RANGE.to_string()) }
        })),
        false => Ok(of_type(args, ty, move |row| start(row.int(0)))),
    }
}

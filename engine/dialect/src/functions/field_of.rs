//! Calendar fields: `year`, `month`, `day`, `hourOf`, `week` and their like

use super::{Args, Function, kernels};
use crate::Diagnostic;
use crate::binder::as_timestamp;
use crate::node::Node;
use crate::time::{Field, Zone, field_of, local_ms, zone_of};
use crate::types::Class;
use crate::value::Value;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};

macro_rules! field {
    ($name:literal, $field:expr, $doc:literal, $examples:expr) => {
        Function {
            name: $name,
            signature: concat!($name, "(time) -> int64"),
            doc: concat!($doc, " on the clock of the time's own zone, or UTC; of a timestamp, a date or epoch milliseconds."),
            examples: &$examples,
            arity: (1, 1),
            bind: |args| bind(args, $field),
        }
    };
}

pub(super) const FUNCTIONS: &[Function] = &[
    field!("year", Field::Year, "The year", [("year(ts'2026-01-31')", "2026"), ("year(-1)", "1969")]),
    field!("month", Field::Month, "The month, from 1 to 12,", [("month(ts'2026-12-31')", "12")]),
    field!("day", Field::Day, "The day of the month, from 1,", [("day(ts'2024-02-29T23:59Z')", "29")]),
    field!("hourOf", Field::Hour, "The hour, from 0 to 23,", [("hourOf(ts'2026-01-31T17:45Z')", "17"), ("hourOf(-1)", "23")]),
    field!("minute", Field::Minute, "The minute, from 0 to 59,", [("minute(ts'2026-01-31T17:45Z')", "45")]),
    field!("second", Field::Second, "The second, from 0 to 59,", [("second(ts'2026-01-31T17:45:09.5Z')", "9")]),
    field!("dayOfWeek", Field::DayOfWeek, "The day of the week, from 1 for Monday to 7,", [("dayOfWeek(ts'1970-01-01')", "4")]),
    field!("dayOfYear", Field::DayOfYear, "The day of the year, from 1,", [("dayOfYear(ts'2024-12-31')", "366")]),
    field!("quarter", Field::Quarter, "The quarter of the year, from 1 to 4,", [("quarter(ts'2026-05-31')", "2")]),
    field!(
        "week",
        Field::Week,
        "The week of the year by ISO 8601 (week 1 holds the first Thursday, weeks start on Monday), from 1 to 53,",
        [("week(ts'2026-01-31')", "5"), ("week(ts'2027-01-01')", "53")]
    ),
    field!("isoYear", Field::IsoYear, "The year that the ISO week belongs to,", [("isoYear(ts'2027-01-01')", "2026")]),
    field!(
        "millisecond",
        Field::Millisecond,
        "The millisecond of the second, from 0 to 999,",
        [("millisecond(ts'2026-01-31T17:45:09.512Z')", "512"), ("millisecond(-1)", "999")]
    ),
    field!("hour", Field::Hour, "The same as `hourOf`: the hour, from 0 to 23,", [("hour(ts'2026-01-31T17:45Z')", "17")]),
    field!("yearOf", Field::Year, "The same as `year`: the year", [("yearOf(ts'2026-01-31')", "2026")]),
    field!("monthOf", Field::Month, "The same as `month`: the month, from 1 to 12,", [("monthOf(ts'2026-12-31')", "12")]),
    field!("dayOf", Field::Day, "The same as `day`: the day of the month, from 1,", [("dayOf(ts'2024-02-29T23:59Z')", "29")]),
    field!("minuteOf", Field::Minute, "The same as `minute`: the minute, from 0 to 59,", [("minuteOf(ts'2026-01-31T17:45Z')", "45")]),
    field!(
        "dayOfWeekOf",
        Field::DayOfWeek,
        "The same as `dayOfWeek`: the day of the week, from 1 for Monday to 7 for Sunday,",
        [("dayOfWeekOf(ts'2026-02-01')", "7"), ("dayOfWeekOf(-1)", "3")]
    ),
    field!("dayOfMonth", Field::Day, "The same as `day`: the day of the month, from 1,", [("dayOfMonth(ts'2026-01-31')", "31")]),
];

fn bind(mut args: Args<'_>, field: Field) -> Result<Node, Diagnostic> {
    let operand = args.nodes.remove(0);
    args.nodes.push(as_timestamp(operand));
    let (kernel, unit, zone) = match args.class(0) {
        Class::Signed | Class::Unsigned | Class::Null => {
            args.integer(0)?;
            let map = move |value: i64| field_of(field, local_ms(value, TimeUnit::Millisecond, Zone::Utc));
            (kernels::primitive::<Int64Type, Int64Type>(map), TimeUnit::Millisecond, Zone::Utc)
        }
        Class::Timestamp(unit, _) => {
            let Some(zone) = zone_of(args.ty(0)) else {
                return Err(args.wrong(0, "a time in a known zone"));
            };
            let map = move |value: i64| field_of(field, local_ms(value, unit, zone));
            (kernels::for_unit!(unit, primitive, Int64Type; map), unit, zone)
        }
        Class::Bool | Class::Text | Class::Float | Class::Decimal(..) | Class::Date | Class::Plain | Class::Other => {
            return Err(args.wrong(0, "a timestamp, a date or epoch milliseconds"));
        }
    };
    let row = move |args: &[Value]| Ok(Value::Int(field_of(field, local_ms(args[0].integer() as i64, unit, zone)).into()));
    Ok(args.call(DataType::Int64, false, row, Some(kernel)))
}

//! `dateTrunc`

use super::{Args, Function, kernels};
use crate::time::{TRUNCATIONS, truncate, truncate_in, zone_of};
use crate::types::Class;
use crate::value::Value;
use arrow::datatypes::{DataType, Date32Type, Int64Type, TimeUnit};
use tidegate_api::nearest;

pub(super) const FUNCTION: Function = Function {
    name: "dateTrunc",
    signature: "dateTrunc(unit, time) -> type of time",
    doc: "The start of the unit (a constant: millisecond, second, minute, hour, day, week, month, quarter, year) that holds the time, on the clock of the time's own zone, or UTC. Weeks start on Monday. A timestamp or a date stays one; an integer is taken and given as epoch milliseconds.",
    examples: &[
        ("dateTrunc('hour', ts'2026-01-31T12:34:56Z')", "ts'2026-01-31T12:00:00Z'"),
        ("dateTrunc('month', ts'2026-01-31T12:34:56Z')", "ts'2026-01-01'"),
        ("dateTrunc('week', ts'1969-12-31')", "ts'1969-12-29'"),
        ("dateTrunc('minute', 61001)", "60000"),
    ],
    arity: (2, 2),
    bind: |mut args| {
        let name = args.constant_text(0)?;
        let Some((_, to)) = TRUNCATIONS.iter().find(|(known, _)| *known == name).copied() else {
            let hint = nearest::hint(name, TRUNCATIONS.iter().map(|(known, _)| *known));
            return Err(args.refuse(0, format!("unknown unit `{name}`{hint}")));
        };
        args.nodes.remove(0);
        let ty = args.ty(0).clone();
        let failed = || "time is out of range".to_string();
        match args.class(0) {
            Class::Signed | Class::Unsigned | Class::Null => {
                args.integer(0)?;
                let map = move |value: i64| truncate(to, value, TimeUnit::Millisecond);
                let row = move |args: &[Value]| Ok(Value::Int(map(args[0].integer() as i64).ok_or_else(failed)?.into()));
                Ok(Args::call(args, DataType::Int64, true, row, Some(kernels::try_primitive::<Int64Type, Int64Type>(map))))
            }
            Class::Date => {
                let map = move |days: i32| truncate(to, i64::from(days) * 86_400, TimeUnit::Second)?.div_euclid(86_400).try_into().ok();
                let row = move |args: &[Value]| {
                    let days: i32 = map(args[0].integer() as i32).ok_or_else(failed)?;
                    Ok(Value::Time(days.into()))
                };
                Ok(Args::call(args, ty, true, row, Some(kernels::try_primitive::<Date32Type, Date32Type>(map))))
            }
            Class::Timestamp(unit, _) => {
                let Some(zone) = zone_of(&ty) else {
                    return Err(args.wrong(0, "a time in a known zone"));
                };
                let map = move |value: i64| truncate_in(to, value, unit, zone);
                let row = move |args: &[Value]| Ok(Value::Time(map(args[0].integer() as i64).ok_or_else(failed)?));
                let kernel = kernels::for_unit!(unit, try_same; map);
                Ok(Args::call(args, ty.clone(), true, row, Some(kernels::retyped(kernel, ty))))
            }
            Class::Bool | Class::Text | Class::Float | Class::Decimal(..) | Class::Plain | Class::Other => {
                Err(args.wrong(0, "a timestamp, a date or epoch milliseconds"))
            }
        }
    },
};

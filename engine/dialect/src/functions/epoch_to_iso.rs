//! `epochToIso`

use super::{Args, Function, kernels};
use crate::binder::as_timestamp;
use crate::node::Node;
use crate::time::write_iso;
use crate::types::Class;
use crate::value::Value;
use arrow::datatypes::{DataType, Int64Type, TimeUnit};

pub(super) const FUNCTION: Function = Function {
    name: "epochToIso",
    signature: "epochToIso(time) -> string",
    doc: "A timestamp, a date or epoch milliseconds as ISO-8601 text in UTC, with three decimals of a second (six for microseconds, nine for nanoseconds).",
    examples: &[
        ("epochToIso(0)", "'1970-01-01T00:00:00.000Z'"),
        ("epochToIso(ts'2026-01-31T12:00+02:00')", "'2026-01-31T10:00:00.000Z'"),
        ("epochToIso(-1)", "'1969-12-31T23:59:59.999Z'"),
    ],
    arity: (1, 1),
    bind: |mut args| {
        let operand = args.nodes.remove(0);
        let operand: Node = as_timestamp(operand);
        args.nodes.push(operand);
        match args.class(0) {
            Class::Signed | Class::Unsigned | Class::Null => {
                args.integer(0)?;
                let kernel = kernels::primitive_to_text::<Int64Type>(|value, out| write_iso(out, value, TimeUnit::Millisecond));
                Ok(Args::call(args, DataType::Utf8View, false, |args: &[Value]| Ok(iso(args, TimeUnit::Millisecond)), Some(kernel)))
            }
            Class::Timestamp(unit, _) => {
                let kernel = kernels::for_unit!(unit, primitive_to_text; move |value: i64, out: &mut String| write_iso(out, value, unit));
                Ok(Args::call(args, DataType::Utf8View, false, move |args: &[Value]| Ok(iso(args, unit)), Some(kernel)))
            }
            Class::Bool | Class::Text | Class::Float | Class::Decimal(..) | Class::Date | Class::Plain | Class::Other => {
                Err(args.wrong(0, "a timestamp, a date or epoch milliseconds"))
            }
        }
    },
};

fn iso(args: &[Value], unit: TimeUnit) -> Value {
    let mut out = String::new();
    write_iso(&mut out, args[0].integer() as i64, unit);
    Value::Text(out)
}

//! `toNumber`

use super::{Args, Function, kernels};
use crate::types::Class;
use crate::value::Value;
use arrow::datatypes::{DataType, Float64Type};

pub(super) const FUNCTION: Function = Function {
    name: "toNumber",
    signature: "toNumber(value) -> number",
    doc: "Text as float64, in decimal notation with white space around it ignored; a bool as 0 or 1 and a timestamp or date as epoch milliseconds, in int64. A number stays what it is, type and all. Text that is not a number, the empty text included, and a number too large for float64 make a bad row; `toInt` reads integers exactly.",
    examples: &[
        ("toNumber(' 1.5e3 ')", "1500.0"),
        ("toNumber(7)", "7"),
        ("toNumber(true)", "1"),
        ("toNumber(ts'1970-01-01T00:00:01Z')", "1000"),
        ("toNumber(null)", "null"),
        ("toNumber('')", "error"),
        ("toNumber('NaN')", "error"),
    ],
    arity: (1, 1),
    bind: |mut args| match args.class(0) {
        Class::Signed | Class::Unsigned | Class::Float | Class::Decimal(..) => Ok(args.nodes.remove(0)),
        Class::Text | Class::Null => {
            args.text(0)?;
            let row = |args: &[Value]| match read(args[0].text()) {
                Some(value) => Ok(Value::Float(value)),
                None => Err(format!("`{}` is not a number", args[0].text())),
            };
            Ok(Args::call(args, DataType::Float64, true, row, Some(kernels::try_text_to_primitive::<Float64Type>(read))))
        }
        Class::Bool | Class::Timestamp(..) | Class::Date => super::to_int::exact(args),
        Class::Plain | Class::Other => Err(args.wrong(0, "text, a bool, a time or a number")),
    },
};

pub(super) fn read(text: &str) -> Option<f64> {
    let text = text.trim();
    // Rust reads `inf` and `NaN` too; here they are not numbers.
    let digits = text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'));
    if !digits {
        return None;
    }
    text.parse::<f64>().ok().filter(|value| value.is_finite())
}

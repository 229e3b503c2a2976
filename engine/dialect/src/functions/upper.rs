//! `upper`

use super::{Args, Function, kernels};
use crate::value::Value;
use arrow::datatypes::DataType;

pub(super) const FUNCTION: Function = Function {
    name: "upper",
    signature: "upper(text) -> string",
    doc: "The text in upper case, by Unicode's rules, independent of any language.",
    examples: &[("upper('äpfel ß')", "'ÄPFEL SS'"), ("upper('')", "''"), ("upper(null)", "null")],
    arity: (1, 1),
    bind: |mut args| {
        args.text(0)?;
        let row = |args: &[Value]| Ok(Value::Text(args[0].text().to_uppercase()));
        Ok(Args::call(args, DataType::Utf8View, false, row, Some(kernels::text_to_text(write))))
    },
};

fn write(text: &str, out: &mut String) {
    if text.is_ascii() {
        out.push_str(text);
        out.make_ascii_uppercase();
    } else {
        out.push_str(&text.to_uppercase());
    }
}

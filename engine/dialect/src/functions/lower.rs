//! `lower`

use super::{Args, Function, kernels};
use crate::value::Value;
use arrow::datatypes::DataType;

pub(super) const FUNCTION: Function = Function {
    name: "lower",
    signature: "lower(text) -> string",
    doc: "The text in lower case, by Unicode's rules, independent of any language.",
    examples: &[("lower('ÄPFEL 7')", "'äpfel 7'"), ("lower('')", "''"), ("lower(null)", "null")],
    arity: (1, 1),
    bind: |mut args| {
        args.text(0)?;
        let row = |args: &[Value]| Ok(Value::Text(args[0].text().to_lowercase()));
        Ok(Args::call(args, DataType::Utf8View, false, row, Some(kernels::text_to_text(write))))
    },
};

fn write(text: &str, out: &mut String) {
    if text.is_ascii() {
        out.push_str(text);
        out.make_ascii_lowercase();
    } else {
        out.push_str(&text.to_lowercase());
    }
}

//! `trim`

use super::{Args, Function, kernels};
use crate::value::Value;
use arrow::datatypes::DataType;

pub(super) const FUNCTION: Function = Function {
    name: "trim",
    signature: "trim(text) -> string",
    doc: "The text without the white space (of Unicode) at both ends.",
    examples: &[("trim('  a b \\n')", "'a b'"), ("trim('   ')", "''"), ("trim(null)", "null")],
    arity: (1, 1),
    bind: |mut args| {
        args.text(0)?;
        let row = |args: &[Value]| Ok(Value::Text(args[0].text().trim().to_string()));
        Ok(Args::call(args, DataType::Utf8View, false, row, Some(kernels::text_to_part(|text| Some(text.trim())))))
    },
};

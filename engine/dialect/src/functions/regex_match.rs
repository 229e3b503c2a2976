//! `regexMatch`

use super::{Args, Function, kernels};
use crate::value::Value;
use arrow::datatypes::DataType;
use regex::Regex;

pub(super) const FUNCTION: Function = Function {
    name: "regexMatch",
    signature: "regexMatch(text, pattern) -> bool",
    doc: "Whether the pattern, a constant, matches somewhere in the text; `^` and `$` tie it to the ends. Patterns are those of Rust's `regex`: linear time, without look-around and back-references.",
    examples: &[
        ("regexMatch('user-17', r'\\d+')", "true"),
        ("regexMatch('user-17', '^[0-9]+$')", "false"),
        ("regexMatch(null, 'a')", "null"),
    ],
    arity: (2, 2),
    bind: |mut args| {
        args.text(0)?;
        let pattern = pattern(&args, 1)?;
        args.nodes.truncate(1);
        let kernel_pattern = pattern.clone();
        let kernel = kernels::text_to_bool(move |text| kernel_pattern.is_match(text));
        let row = move |args: &[Value]| Ok(Value::Bool(pattern.is_match(args[0].text())));
        Ok(Args::call(args, DataType::Boolean, false, row, Some(kernel)))
    },
};

/// A constant argument as a regular expression.
pub(super) fn pattern(args: &Args<'_>, at: usize) -> Result<Regex, crate::Diagnostic> {
    super::pattern::compile(args.constant_text(at)?).map_err(|reason| args.refuse(at, reason))
}

//! `replace`

use super::kernels::Texts;
use super::{Args, Function};
use crate::value::Value;
use arrow::array::StringViewBuilder;
use arrow::datatypes::DataType;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

pub(super) const FUNCTION: Function = Function {
    name: "replace",
    signature: "replace(text, part, by) -> string",
    doc: "The text with every `part`, from left to right, replaced. An empty part replaces nothing.",
    examples: &[("replace('a-b-c', '-', '+')", "'a+b+c'"), ("replace('aaa', 'aa', 'b')", "'ba'"), ("replace('abc', '', 'x')", "'abc'")],
    arity: (3, 3),
    bind: |mut args| {
        for at in 0..3 {
            args.text(at)?;
        }
        let row = |args: &[Value]| Ok(Value::Text(replaced(args[0].text(), args[1].text(), args[2].text())));
        Ok(Args::call(args, DataType::Utf8View, false, row, Some(Arc::new(kernel))))
    },
};

fn replaced(text: &str, part: &str, by: &str) -> String {
    if part.is_empty() { text.to_string() } else { text.replace(part, by) }
}

fn kernel(args: &[ColumnarValue], rows: usize) -> datafusion_common::Result<ColumnarValue> {
    let (texts, parts, by) = (Texts::of(&args[0])?, Texts::of(&args[1])?, Texts::of(&args[2])?);
    let mut builder = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        match (texts.get(row), parts.get(row), by.get(row)) {
            (Some(text), Some(part), Some(_)) if part.is_empty() || !text.contains(part) => builder.append_value(text),
            (Some(text), Some(part), Some(by)) => builder.append_value(replaced(text, part, by)),
            (_, _, _) => builder.append_null(),
        }
    }
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}

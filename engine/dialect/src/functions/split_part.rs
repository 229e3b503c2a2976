//! `splitPart`

use super::kernels::{Integers, Texts};
use super::{Args, Function};
use crate::value::Value;
use arrow::array::StringViewBuilder;
use arrow::datatypes::DataType;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

pub(super) const FUNCTION: Function = Function {
    name: "splitPart",
    signature: "splitPart(text, separator, n) -> string",
    doc: "The `n`th part (the first is 1, the last is -1) of the text cut at every separator; null where there is none. An empty separator cuts nothing.",
    examples: &[
        ("splitPart('https://a.example/x/y', '/', 4)", "'x'"),
        ("splitPart('a,b,c', ',', -1)", "'c'"),
        ("splitPart('a,b', ',', 3)", "null"),
        ("splitPart('a,b', ',', 0)", "null"),
        ("splitPart('abc', '', 1)", "'abc'"),
    ],
    arity: (3, 3),
    bind: |mut args| {
        args.text(0)?;
        args.text(1)?;
        args.integer(2)?;
        let row = |args: &[Value]| {
            let found = part(args[0].text(), args[1].text(), args[2].integer() as i64);
            Ok(found.map_or(Value::Null, |found| Value::Text(found.to_string())))
        };
        Ok(Args::call(args, DataType::Utf8View, false, row, Some(Arc::new(kernel))))
    },
};

fn part<'a>(text: &'a str, separator: &str, n: i64) -> Option<&'a str> {
    let nth = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX).checked_sub(1)?;
    if separator.is_empty() {
        return (nth == 0).then_some(text);
    }
    if n > 0 { text.split(separator).nth(nth) } else { text.rsplit(separator).nth(nth) }
}

fn kernel(args: &[ColumnarValue], rows: usize) -> datafusion_common::Result<ColumnarValue> {
    let (texts, separators, places) = (Texts::of(&args[0])?, Texts::of(&args[1])?, Integers::of(&args[2])?);
    let mut builder = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        builder.append_option(match (texts.get(row), separators.get(row), places.get(row)) {
            (Some(text), Some(separator), Some(n)) => part(text, separator, n),
            (_, _, _) => None,
        });
    }
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}

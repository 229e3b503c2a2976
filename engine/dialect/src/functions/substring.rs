//! `substring`

use super::kernels::{Integers, Texts};
use super::{Args, Function};
use crate::value::Value;
use arrow::array::StringViewBuilder;
use arrow::datatypes::DataType;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

pub(super) const FUNCTION: Function = Function {
    name: "substring",
    signature: "substring(text, start, length?) -> string",
    doc: "The characters from position `start` (the first is 1), at most `length` of them. Positions outside the text are empty; a negative length gives the empty text.",
    examples: &[
        ("substring('2026-01-31T12:00', 1, 10)", "'2026-01-31'"),
        ("substring('Größe', 3)", "'öße'"),
        ("substring('abc', 0, 2)", "'a'"),
        ("substring('abc', 7, 2)", "''"),
        ("substring('abc', 1, -1)", "''"),
    ],
    arity: (2, 3),
    bind: |mut args| {
        args.text(0)?;
        for at in 1..args.len() {
            args.integer(at)?;
        }
        let row = |args: &[Value]| {
            let length = args.get(2).map(|length| length.integer() as i64);
            Ok(Value::Text(part(args[0].text(), args[1].integer() as i64, length).to_string()))
        };
        Ok(Args::call(args, DataType::Utf8View, false, row, Some(Arc::new(kernel))))
    },
};

/// The characters at positions `start` to `start + length`, those that exist.
fn part(text: &str, start: i64, length: Option<i64>) -> &str {
    let skipped = start.saturating_sub(1);
    let end = length.map(|length| skipped.saturating_add(length.max(0)).max(0) as usize);
    let skipped = skipped.max(0) as usize;
    let end = end.map(|end| end.max(skipped));
    if text.is_ascii() {
        let from = skipped.min(text.len());
        return &text[from..end.map_or(text.len(), |end| end.min(text.len()))];
    }
    let mut places = text.char_indices().map(|(at, _)| at);
    let from = places.nth(skipped).unwrap_or(text.len());
    let to = match end {
        None => text.len(),
        Some(end) if end == skipped => from,
        Some(end) => places.nth(end - skipped - 1).unwrap_or(text.len()),
    };
    &text[from..to]
}

fn kernel(args: &[ColumnarValue], rows: usize) -> datafusion_common::Result<ColumnarValue> {
    let (texts, starts) = (Texts::of(&args[0])?, Integers::of(&args[1])?);
    let lengths = args.get(2).map(Integers::of).transpose()?;
    let mut builder = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        let length = lengths.as_ref().map(|lengths| lengths.get(row));
        builder.append_option(match (texts.get(row), starts.get(row), length) {
            (Some(text), Some(start), None) => Some(part(text, start, None)),
            (Some(text), Some(start), Some(Some(length))) => Some(part(text, start, Some(length))),
            (_, _, _) => None,
        });
    }
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}

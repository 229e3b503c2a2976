//! `concat`, and `+` between texts

use super::kernels::Texts;
use super::rows::room;
use super::{Args, Function, find};
use crate::Diagnostic;
use crate::node::Node;
use crate::types::{Class, item_of};
use crate::value::Value;
use arrow::array::StringViewBuilder;
use arrow::datatypes::DataType;
use datafusion_common::exec_datafusion_err;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::ops::Range;
use std::sync::Arc;

pub(super) const FUNCTION: Function = Function {
    name: "concat",
    signature: "concat(value, ...) -> string",
    doc: "The values one after the other; what is not text is written as `toString` does. Lists become one list of all their elements. Null if one of the values is null. More than 16 MiB of text, or a million elements, make a bad row.",
    examples: &[
        ("concat([1, 2], [], [3.5])", "[1, 2, 3.5]"),
        ("concat('a', 'b', 'c')", "'abc'"),
        ("concat('id-', 7)", "'id-7'"),
        ("concat('a', null)", "null"),
        ("'a' + 'b'", "'ab'"),
    ],
    arity: (1, 64),
    bind: |mut args| {
        if (0..args.len()).any(|at| item_of(args.ty(at)).is_some()) {
            return super::list_make::join_lists(args);
        }
        for at in 0..args.len() {
            if args.class(at) != Class::Text {
                args.nodes[at] = super::to_string::written(&args, at)?;
            }
            args.text(at)?;
        }
        let row = |args: &[Value]| {
            room(args.iter().map(|arg| arg.text().len()).sum())?;
            Ok(Value::Text(args.iter().map(Value::text).collect()))
        };
        // A text joined with itself again and again doubles every time.
        Ok(Args::call(args, DataType::Utf8View, true, row, Some(Arc::new(kernel))))
    },
};

/// Texts joined by `+`.
pub(crate) fn join(text: &str, span: Range<usize>, nodes: Vec<Node>) -> Result<Node, Diagnostic> {
    let function = find("concat").expect("the function is in the list");
    (FUNCTION.bind)(Args::new(text, function, span, nodes))
}

fn kernel(args: &[ColumnarValue], rows: usize) -> datafusion_common::Result<ColumnarValue> {
    let texts = args.iter().map(Texts::of).collect::<datafusion_common::Result<Vec<_>>>()?;
    let mut builder = StringViewBuilder::with_capacity(rows);
    let mut buffer = String::new();
    'rows: for row in 0..rows {
        buffer.clear();
        for text in &texts {
            match text.get(row) {
                Some(text) => {
                    room(buffer.len() + text.len()).map_err(|message| exec_datafusion_err!("{message}"))?;
                    buffer.push_str(text);
                }
                None => {
                    builder.append_null();
                    continue 'rows;
                }
            }
        }
        builder.append_value(&buffer);
    }
    Ok(ColumnarValue::Array(Arc::new(builder.finish())))
}

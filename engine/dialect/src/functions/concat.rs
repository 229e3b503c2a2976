//! `concat`, and `+` between texts

use super::kernels::Texts;
use super::{Args, Function, find};
use crate::Diagnostic;
use crate::node::Node;
use crate::types::Class;
use crate::value::Value;
use arrow::array::StringViewBuilder;
use arrow::datatypes::DataType;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::ops::Range;
use std::sync::Arc;

pub(super) const FUNCTION: Function = Function {
    name: "concat",
    signature: "concat(value, ...) -> string",
    doc: "The values one after the other; what is not text is written as `toString` does. Null if one of them is null.",
    examples: &[("concat('a', 'b', 'c')", "'abc'"), ("concat('id-', 7)", "'id-7'"), ("concat('a', null)", "null"), ("'a' + 'b'", "'ab'")],
    arity: (1, 64),
    bind: |mut args| {
        for at in 0..args.len() {
            if args.class(at) != Class::Text {
                args.nodes[at] = super::to_string::written(&args, at)?;
            }
            args.text(at)?;
        }
        let row = |args: &[Value]| Ok(Value::Text(args.iter().map(Value::text).collect()));
        Ok(Args::call(args, DataType::Utf8View, false, row, Some(Arc::new(kernel))))
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
                Some(text) => buffer.push_str(text),
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

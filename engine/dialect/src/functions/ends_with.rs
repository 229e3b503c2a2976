//! `endsWith`

use super::{Args, Function};
use crate::value::Value;
use arrow::compute::kernels::comparison;
use arrow::datatypes::DataType;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

pub(super) const FUNCTION: Function = Function {
    name: "endsWith",
    signature: "endsWith(text, part) -> bool",
    doc: "Whether the text ends with `part`.",
    examples: &[("endsWith('stream', 'eam')", "true"), ("endsWith('a', '')", "true")],
    arity: (2, 2),
    bind: |mut args| {
        args.text(0)?;
        args.text(1)?;
        let row = |args: &[Value]| Ok(Value::Bool(args[0].text().ends_with(args[1].text())));
        Ok(Args::call(args, DataType::Boolean, false, row, Some(Arc::new(kernel))))
    },
};

fn kernel(args: &[ColumnarValue], rows: usize) -> datafusion_common::Result<ColumnarValue> {
    super::kernels::text_test(args, rows, |text, part| comparison::ends_with(text, part))
}

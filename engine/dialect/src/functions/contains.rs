//! `contains`

use super::{Args, Function};
use crate::types::item_of;
use crate::value::Value;
use arrow::compute::kernels::comparison;
use arrow::datatypes::DataType;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

pub(super) const FUNCTION: Function = Function {
    name: "contains",
    signature: "contains(text or list, part) -> bool",
    doc: "Whether the text holds `part` somewhere, every text the empty one; or whether an element of the list equals `part`, as `part in list` asks.",
    examples: &[
        ("contains('stream', 'rea')", "true"),
        ("contains([1, null, 2.5], 1)", "true"),
        ("contains('100%', '%')", "true"),
        ("contains(null, 'a')", "null"),
    ],
    arity: (2, 2),
    bind: |mut args| {
        if item_of(args.ty(0)).is_some() {
            return super::list_search::within(args);
        }
        args.text(0)?;
        args.text(1)?;
        let row = |args: &[Value]| Ok(Value::Bool(args[0].text().contains(args[1].text())));
        Ok(Args::call(args, DataType::Boolean, false, row, Some(Arc::new(kernel))))
    },
};

fn kernel(args: &[ColumnarValue], rows: usize) -> datafusion_common::Result<ColumnarValue> {
    super::kernels::text_test(args, rows, |text, part| comparison::contains(text, part))
}

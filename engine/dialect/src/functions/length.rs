//! `length`

use super::kernels::Texts;
use super::{Args, Function};
use crate::types::item_of;
use crate::value::Value;
use arrow::array::{Array, Int64Array};
use arrow::datatypes::DataType;
use datafusion_expr_common::columnar_value::ColumnarValue;
use std::sync::Arc;

pub(super) const FUNCTION: Function = Function {
    name: "length",
    signature: "length(text or list) -> int64",
    doc: "The number of characters of a text (Unicode code points, not bytes), or of elements of a list.",
    examples: &[("length([1, null])", "2"), ("length('Größe')", "5"), ("length('')", "0"), ("length(null)", "null")],
    arity: (1, 1),
    bind: |mut args| {
        if item_of(args.ty(0)).is_some() {
            return super::list_parts::size(args);
        }
        args.text(0)?;
        let row = |args: &[Value]| Ok(Value::Int(args[0].text().chars().count() as i128));
        Ok(Args::call(args, DataType::Int64, false, row, Some(Arc::new(kernel))))
    },
};

fn kernel(args: &[ColumnarValue], rows: usize) -> datafusion_common::Result<ColumnarValue> {
    let texts = Texts::of(&args[0])?;
    let count = |row| texts.get(row).map_or(0, |text: &str| text.chars().count() as i64);
    let nulls = match &args[0] {
        ColumnarValue::Array(array) => array.nulls().cloned(),
        ColumnarValue::Scalar(_) => texts.get(0).is_none().then(|| arrow::buffer::NullBuffer::new_null(rows)),
    };
    let counts: Vec<i64> = (0..rows).map(count).collect();
    Ok(ColumnarValue::Array(Arc::new(Int64Array::new(counts.into(), nulls))))
}

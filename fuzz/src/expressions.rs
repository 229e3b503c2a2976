//! Expressions: parsed, typed, and evaluated over a few awkward rows.

use arrow::array::{
    ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray, UInt64Array,
};
use std::sync::{Arc, OnceLock};
use tidegate_api::EventTime;

/// Text as an expression over columns of every kind. A mistake must have a place inside the text; what binds must evaluate every row
/// or name it bad.
pub fn expressions(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let rows = rows();
    match tidegate_dialect::bind(text, rows.schema_ref()) {
        Err(mistake) => {
            let shown = mistake.to_string();
            assert!(!shown.is_empty(), "a mistake without words in {text:?}");
        }
        Ok(typed) => {
            let found = typed.compile().evaluate(rows, EventTime(1_700_000_000_000_000));
            assert_eq!(found.values.len(), rows.num_rows(), "in {text:?}");
        }
    }
}

fn rows() -> &'static RecordBatch {
    static ROWS: OnceLock<RecordBatch> = OnceLock::new();
    ROWS.get_or_init(|| {
        let texts = [Some("a"), Some(""), None, Some("Größe 12"), Some("{\"a\":[1,{\"b\":null}]}")];
        let columns: [(&str, ArrayRef); 7] = [
            ("i", Arc::new(Int64Array::from(vec![Some(0), Some(i64::MIN), None, Some(i64::MAX), Some(7)]))),
            ("u", Arc::new(UInt64Array::from(vec![Some(0), Some(u64::MAX), None, Some(1), Some(7)]))),
            ("f", Arc::new(Float64Array::from(vec![Some(-0.0), Some(f64::NAN), None, Some(f64::INFINITY), Some(0.5)]))),
            ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true), Some(false)]))),
            ("s", Arc::new(StringViewArray::from_iter(texts))),
            ("t", Arc::new(TimestampMillisecondArray::from(vec![Some(0), Some(i64::MIN), None, Some(i64::MAX), Some(-1)]))),
            ("d", Arc::new(Decimal128Array::from(vec![Some(0), Some(-1), None, Some(i128::from(i64::MAX)), Some(150)]))),
        ];
        RecordBatch::try_from_iter(columns).unwrap_or_else(|error| unreachable!("columns of one length: {error}"))
    })
}

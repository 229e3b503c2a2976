use super::*;
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_sdk::arrow::array::builder::{ListBuilder, StringBuilder};
use tidegate_sdk::arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float64Array, Int64Array, NullArray,
    RecordBatchOptions, StringArray, StructArray, Time32MillisecondArray, TimestampMillisecondArray, UInt8Array, UInt64Array,
};
use tidegate_sdk::arrow::buffer::i256;
use tidegate_sdk::arrow::schema::Field;

fn lines(rows: &RecordBatch) -> Vec<String> {
    let mut bytes = Vec::new();
    let take = |piece: &[u8]| {
        assert_eq!(piece.last(), Some(&b'\n'), "pieces are whole lines");
        bytes.extend_from_slice(piece);
        Ok(())
    };
    Encoder::new(&rows.schema()).unwrap().encode(rows, take).unwrap();
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

fn one(column: impl tidegate_sdk::arrow::array::Array + 'static) -> Vec<Value> {
    let rows = RecordBatch::try_from_iter_with_nullable([("c", Arc::new(column) as ArrayRef, true)]).unwrap();
    lines(&rows).iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["c"].clone()).collect()
}

#[test]
fn a_row_is_an_object_with_every_column_in_order() {
    let rows = RecordBatch::try_from_iter_with_nullable([
        ("b", Arc::new(Int64Array::from(vec![Some(1), None])) as ArrayRef, true),
        ("a \"quoted\"", Arc::new(StringArray::from(vec![None, Some("x\ny")])) as ArrayRef, true),
    ])
    .unwrap();
    assert_eq!(lines(&rows), [r#"{"b":1,"a \"quoted\"":null}"#, r#"{"b":null,"a \"quoted\"":"x\ny"}"#]);
}

#[test]
fn integers_keep_all_their_digits() {
    assert_eq!(one(Int64Array::from(vec![i64::MIN, i64::MAX])), [json!(i64::MIN), json!(i64::MAX)]);
    assert_eq!(one(UInt64Array::from(vec![u64::MAX])), [json!(u64::MAX)]);
    assert_eq!(one(UInt8Array::from(vec![255])), [json!(255)]);
}

#[test]
fn floats_come_back_as_they_were_and_what_is_no_number_is_null() {
    let values = [0.1, -0.0, 1e300, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY];
    let written = one(Float64Array::from(values.to_vec()));
    for (value, written) in values.iter().zip(&written).take(4) {
        assert_eq!(written.as_f64(), Some(*value));
    }
    assert_eq!(written[4..], [Value::Null, Value::Null]);
}

#[test]
fn decimals_bytes_and_times_are_text() {
    let decimals = Decimal128Array::from(vec![Some(12345), Some(-5), None]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(one(decimals), [json!("123.45"), json!("-0.05"), Value::Null]);
    let wide = Decimal256Array::from(vec![i256::from_i128(i128::MAX)]).with_precision_and_scale(76, 0).unwrap();
    assert_eq!(one(wide), [json!(i128::MAX.to_string())]);
    assert_eq!(one(BinaryArray::from(vec![&b"\x00\xff"[..], b""])), [json!("00ff"), json!("")]);
    assert_eq!(one(Date32Array::from(vec![15706, -1])), [json!("2013-01-01"), json!("1969-12-31")]);
    assert_eq!(one(Time32MillisecondArray::from(vec![19_800_250])), [json!("05:30:00.250")]);
    assert_eq!(one(TimestampMillisecondArray::from(vec![1_357_016_400_000])), [json!("2013-01-01T05:00:00")]);
}

#[test]
fn lists_structs_booleans_and_nulls_nest() {
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value([Some("a"), None]);
    lists.append_null();
    lists.append_value([] as [Option<&str>; 0]);
    let lists: ArrayRef = Arc::new(lists.finish());
    assert_eq!(
        one(lists.as_ref().slice(0, 3).as_any().downcast_ref::<tidegate_sdk::arrow::array::ListArray>().unwrap().clone()),
        [json!(["a", null]), Value::Null, json!([])]
    );
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true, false, true]));
    let nothing: ArrayRef = Arc::new(NullArray::new(3));
    let nested = StructArray::from(vec![
        (Arc::new(Field::new("flag", DataType::Boolean, true)), flags),
        (Arc::new(Field::new("list", lists.data_type().clone(), true)), lists),
        (Arc::new(Field::new("none", DataType::Null, true)), nothing),
    ]);
    assert_eq!(
        one(nested.slice(1, 2)),
        [json!({"flag": false, "list": null, "none": null}), json!({"flag": true, "list": [], "none": null})]
    );
}

#[test]
fn rows_without_columns_are_empty_objects() {
    let schema = Arc::new(Schema::empty());
    let rows = RecordBatch::try_new_with_options(schema, vec![], &RecordBatchOptions::new().with_row_count(Some(2))).unwrap();
    assert_eq!(lines(&rows), ["{}", "{}"]);
}

#[test]
fn many_rows_come_in_pieces_of_whole_lines() {
    let rows = RecordBatch::try_from_iter([("text", Arc::new(StringArray::from(vec!["x".repeat(100); 10_000])) as ArrayRef)]).unwrap();
    let mut pieces = 0;
    let count = |_: &[u8]| {
        pieces += 1;
        Ok(())
    };
    Encoder::new(&rows.schema()).unwrap().encode(&rows, count).unwrap();
    assert!(pieces >= 4);
    assert_eq!(lines(&rows).len(), 10_000);
}

#[test]
fn a_type_without_a_json_form_is_refused_by_name() {
    let schema = Schema::new(vec![Field::new("took", DataType::Duration(tidegate_sdk::arrow::schema::TimeUnit::Second), true)]);
    assert!(check(&schema).unwrap_err().to_string().starts_with("column `took` is Duration(s), which has no JSON form"));
}

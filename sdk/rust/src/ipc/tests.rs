use super::*;
use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, Decimal128Array, Int64Array, NullArray, RecordBatchOptions, StringArray, TimestampMillisecondArray,
};
use arrow_schema::Field;
use std::sync::Arc;

fn batch() -> RecordBatch {
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.values().append_value("a");
    lists.append(true);
    lists.append(false);
    lists.values().append_value("bc");
    lists.values().append_null();
    lists.append(true);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]))),
        ("t", Arc::new(StringArray::from(vec![Some("ä"), Some(""), None]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("d", Arc::new(Decimal128Array::from(vec![1, 2, i128::MAX]).with_precision_and_scale(38, 2).unwrap())),
        ("s", Arc::new(TimestampMillisecondArray::from(vec![-1, 0, 1]).with_timezone("UTC"))),
        ("l", Arc::new(lists.finish())),
        ("0", Arc::new(NullArray::new(3))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

#[test]
fn batches_and_schemas_come_back_as_they_went() {
    let batch = batch();
    let schema = Arc::new(decode_schema(&encode_schema(&batch.schema()).unwrap()).unwrap());
    assert_eq!(schema, batch.schema());
    let mut encoder = Encoder::new(schema.clone()).unwrap();
    for part in [batch.clone(), batch.slice(1, 2), batch.slice(3, 0)] {
        let message = encoder.encode(&part).unwrap();
        assert_eq!(decode(message.clone(), &schema).unwrap(), part);
        assert_eq!(decode_from_host(message, &schema).unwrap(), part);
    }
}

#[test]
fn a_batch_without_columns_keeps_its_row_count() {
    let schema = Arc::new(Schema::empty());
    let batch = RecordBatch::try_new_with_options(schema.clone(), vec![], &RecordBatchOptions::new().with_row_count(Some(7))).unwrap();
    let message = Encoder::new(schema.clone()).unwrap().encode(&batch).unwrap();
    assert_eq!(decode(message, &schema).unwrap().num_rows(), 7);
}

#[test]
fn torn_messages_are_errors() {
    let batch = batch();
    let message = Encoder::new(batch.schema()).unwrap().encode(&batch).unwrap();
    for length in [0, 7, 8, 40] {
        assert!(decode(message[..length].to_vec(), &batch.schema()).is_err(), "cut at {length}");
    }
    let schema = encode_schema(&batch.schema()).unwrap();
    assert_eq!(decode(schema, &batch.schema()).unwrap_err().to_string(), "not a record-batch message: its header says otherwise");
}

#[test]
fn a_batch_of_other_columns_is_refused_by_name() {
    let declared = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let mut encoder = Encoder::new(declared).unwrap();
    let text = RecordBatch::try_from_iter([("n", Arc::new(StringArray::from(vec!["1"])) as ArrayRef)]).unwrap();
    assert_eq!(encoder.encode(&text).unwrap_err().to_string(), "column `n` is declared as Int64 and was made as Utf8");
    let nulls = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![None, Some(1)])) as ArrayRef)]).unwrap();
    assert_eq!(encoder.encode(&nulls).unwrap_err().to_string(), "column `n` is declared without nulls and has 1");
    assert!(encoder.encode(&batch()).unwrap_err().to_string().contains("7 columns was made where 1 are declared"));
}

#[test]
fn views_are_refused_with_what_to_use() {
    let schema = Schema::new(vec![Field::new("t", DataType::Utf8View, true)]);
    assert_eq!(encode_schema(&schema).unwrap_err().to_string(), "column `t` has the type Utf8View: text crosses as `Utf8`");
}

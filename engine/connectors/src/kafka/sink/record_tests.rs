//! Rows as records, without a cluster.

use super::*;
use arrow::array::{BinaryArray, Int32Array, StringViewArray, TimestampMillisecondArray, UInt8Array, UInt64Array};
use arrow::datatypes::{Field, Schema};
use serde_json::{Value, json};
use std::path::Path;

const OPEN: Standing = Standing::Open(TopicFacts { partitions: 3, largest: 400 });

/// A record, with text for bytes.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    topic: String,
    partition: Option<i32>,
    key: Option<String>,
    value: Option<String>,
    headers: Vec<(String, Option<String>)>,
}

/// A refused row: its number, the column at fault, the message.
type Refused = (usize, Option<String>, String);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The records and the refused rows with column and message.
fn write(mut options: Value, rows: &RecordBatch, keys: Option<&[&str]>) -> (Vec<Shown>, Vec<Refused>) {
    options["brokers"] = json!("b:1");
    options["topic"] = options.get("topic").cloned().unwrap_or(json!("t"));
    let config = KafkaSinkConfig::parse(options.as_object().unwrap(), Path::new(".")).unwrap();
    let mode = keys.map_or(ChangeMode::Append, |keys| ChangeMode::Upsert { keys: keys.iter().map(ToString::to_string).collect() });
    let visible = rows.schema().fields().len() - usize::from(keys.is_some());
    let schema = rows.schema().project(&(0..visible).collect::<Vec<_>>()).unwrap();
    let topics = [("t", OPEN), ("u", OPEN), ("gone", Standing::Closed("does not exist".into()))];
    let topics = Arc::new(Topics::told(config.clone(), &topics));
    let mut serializer = Serializer::new(&config, &schema, &mode, topics, None).unwrap();
    let mut shown = Vec::new();
    let bad = serializer
        .write(rows, &mut |record| {
            shown.push(Shown {
                topic: record.topic.to_string(),
                partition: record.partition,
                key: record.key.map(text),
                value: record.value.map(text),
                headers: record.headers.iter().map(|(name, value)| ((*name).to_string(), value.map(text))).collect(),
            });
            Ok(())
        })
        .unwrap();
    (shown, bad.into_iter().map(|error| (error.row, error.column, error.message)).collect())
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let fields: Vec<_> = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

fn texts(values: Vec<Option<&str>>) -> ArrayRef {
    Arc::new(StringViewArray::from(values))
}

#[test]
fn a_row_becomes_key_value_headers_topic_and_partition() {
    let rows = batch(vec![
        ("k", texts(vec![Some("a"), None, Some("")])),
        ("v", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("h", Arc::new(BinaryArray::from(vec![Some(&b"x"[..]), None, Some(b"")]))),
        ("at", Arc::new(TimestampMillisecondArray::from(vec![Some(0), None, Some(1)]))),
        ("where", texts(vec![Some("u"), None, Some("t")])),
        ("p", Arc::new(Int32Array::from(vec![Some(2), Some(0), None]))),
    ]);
    let options = json!({ "keyColumns": "k", "headerColumns": ["h", "at"], "topicColumn": "where", "partitionColumn": "p" });
    let (shown, bad) = write(options, &rows, None);
    let record = |topic: &str, partition, key: Option<&str>, value: &str, h: Option<&str>, at: Option<&str>| Shown {
        topic: topic.into(),
        partition,
        key: key.map(Into::into),
        value: Some(value.into()),
        headers: vec![("h".into(), h.map(Into::into)), ("at".into(), at.map(Into::into))],
    };
    assert_eq!(bad, []);
    assert_eq!(
        shown,
        [
            record("u", Some(2), Some("a"), r#"{"k":"a","v":1}"#, Some("x"), Some("1970-01-01T00:00:00")),
            record("t", Some(0), None, r#"{"k":null,"v":2}"#, None, None),
            record("t", None, Some(""), r#"{"k":"","v":3}"#, Some(""), Some("1970-01-01T00:00:00.001")),
        ]
    );
}

#[test]
fn a_key_that_is_no_single_text_is_an_object_of_its_columns() {
    let rows = batch(vec![("k", texts(vec![Some("a"), None])), ("n", Arc::new(Int64Array::from(vec![1, i64::MAX])))]);
    let keys = |options| write(options, &rows, None).0.into_iter().map(|record| record.key.unwrap()).collect::<Vec<_>>();
    assert_eq!(keys(json!({ "keyColumns": "n" })), [r#"{"n":1}"#, r#"{"n":9223372036854775807}"#]);
    assert_eq!(keys(json!({ "keyColumns": ["n", "k"] })), [r#"{"n":1,"k":"a"}"#, r#"{"n":9223372036854775807,"k":null}"#]);
    assert_eq!(keys(json!({ "keyColumns": "n", "int64AsText": true }))[1], r#"{"n":"9223372036854775807"}"#);
}

#[test]
fn a_deletion_has_the_key_and_no_value_whatever_its_other_columns_hold() {
    let rows = batch(vec![
        ("id", texts(vec![Some("a"), Some("b"), None, Some("a")])),
        // A time that cannot be written as text matters only where it is written.
        ("at", Arc::new(TimestampMillisecondArray::from(vec![Some(1), Some(i64::MAX), Some(1), Some(i64::MAX)]))),
        (hidden::OP, Arc::new(UInt8Array::from(vec![hidden::UPSERT, hidden::DELETE, hidden::UPSERT, hidden::UPSERT]))),
    ]);
    let (shown, bad) = write(json!({}), &rows, Some(&["id"]));
    let found: Vec<_> = shown.iter().map(|record| (record.key.as_deref(), record.value.as_deref())).collect();
    assert_eq!(found, [(Some("a"), Some(r#"{"id":"a","at":"1970-01-01T00:00:00.001"}"#)), (Some("b"), None)]);
    assert_eq!(bad.iter().map(|(row, column, _)| (*row, column.as_deref())).collect::<Vec<_>>(), [(2, Some("id")), (3, Some("at"))]);
    assert!(bad[0].2.contains("null is no key"));
}

#[test]
fn rows_that_can_go_nowhere_are_refused_and_cost_nobody_else() {
    let long = "x".repeat(400);
    let rows = batch(vec![
        ("v", texts(vec![Some("1"), Some("2"), Some("3"), Some("4"), Some("5"), Some(&long), Some("7")])),
        ("where", texts(vec![Some("u"), Some("no such name"), Some("gone"), Some("t"), Some("u"), Some("t"), None])),
        ("p", Arc::new(UInt64Array::from(vec![Some(2), None, None, Some(3), Some(u64::MAX), Some(0), Some(1)]))),
    ]);
    let (shown, bad) = write(json!({ "topicColumn": "where", "partitionColumn": "p" }), &rows, None);
    let found: Vec<_> = shown.iter().map(|record| (record.topic.as_str(), record.partition, record.value.as_deref().unwrap())).collect();
    assert_eq!(found, [("u", Some(2), r#"{"v":"1"}"#), ("t", Some(1), r#"{"v":"7"}"#)]);
    let expected = [
        (1, Some("where"), "is no topic's name"),
        (2, Some("where"), "topic `gone` does not exist"),
        (3, Some("p"), "topic `t` has 3 partitions and none of number 3"),
        (4, Some("p"), "has 3 partitions"),
        (5, None, "takes 400 (`max.message.bytes`)"),
    ];
    assert_eq!(bad.len(), expected.len());
    for ((row, column, message), (at, at_fault, part)) in bad.iter().zip(expected) {
        assert_eq!((*row, column.as_deref()), (at, at_fault));
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_raw_value_is_the_one_column_beside_the_key() {
    let rows = batch(vec![
        ("k", texts(vec![Some("a"), Some("b"), Some("c")])),
        ("v", Arc::new(BinaryArray::from(vec![Some(&b"1"[..]), None, Some(b"")]))),
    ]);
    let (shown, bad) = write(json!({ "format": "raw", "keyColumns": "k" }), &rows, None);
    let found: Vec<_> = shown.iter().map(|record| (record.key.as_deref().unwrap(), record.value.as_deref().unwrap())).collect();
    assert_eq!((found, bad.len(), bad[0].0), (vec![("a", "1"), ("c", "")], 1, 1));
}

#[test]
fn a_batch_of_arrow_is_cut_until_the_topic_takes_it() {
    let one = batch(vec![("v", Arc::new(Int64Array::from(vec![1])))]);
    let mut encoder = crate::encode::ArrowMessages;
    let size = encoder.encode(&one).unwrap().bytes.len();
    let config = json!({ "brokers": "b:1", "topic": "t", "format": "arrow" });
    let config = KafkaSinkConfig::parse(config.as_object().unwrap(), Path::new(".")).unwrap();
    for (largest, refused) in [(size + OVERHEAD + 300, 0), (size, 1000)] {
        let open = Standing::Open(TopicFacts { partitions: 1, largest });
        let topics = Arc::new(Topics::told(config.clone(), &[("t", open)]));
        let mut serializer = Serializer::new(&config, &one.schema(), &ChangeMode::Append, topics, None).unwrap();
        let rows = batch(vec![("v", Arc::new(Int64Array::from_iter_values(0..1000)))]);
        let mut values = Vec::new();
        let bad = serializer
            .write(&rows, &mut |record| {
                let bytes = record.value.unwrap();
                assert!(record.largest() <= largest);
                let read = arrow::ipc::reader::StreamReader::try_new(bytes, None).unwrap();
                for batch in read {
                    values.extend(batch.unwrap().column(0).as_primitive::<Int64Type>().values().iter().copied());
                }
                Ok(())
            })
            .unwrap();
        assert_eq!(bad.len(), refused);
        assert_eq!(values, (0..(1000 - refused as i64)).collect::<Vec<_>>());
    }
}

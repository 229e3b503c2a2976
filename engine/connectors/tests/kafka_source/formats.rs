//! Every format, and schemas that nobody declared.

use crate::support::{Reading, Record, World, range, record, rows};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::{InlineSource, SourceRequest, SplitState, types};
use tidegate_connectors::encode::{ArrowMessages, MessageEncoder};

/// Reads all that a source which ends has.
fn read(source: &dyn InlineSource) -> RecordBatch {
    let request = SourceRequest::all().with_pinned(source.plan(&SourceRequest::all()).unwrap().pinned);
    let plan = source.plan(&request).unwrap();
    let found = source.discover(None).unwrap();
    let mut reading = Reading::open(source, request, found.added).unwrap();
    reading.until_all(SplitState::Finished);
    let batches: Vec<_> = reading.taken.values().flat_map(|taken| taken.batches.clone()).collect();
    arrow::compute::concat_batches(&plan.schema, &batches).unwrap()
}

/// The same number in every format.
fn zigzag(n: i64) -> Vec<u8> {
    varint(((n << 1) ^ (n >> 63)) as u64)
}

fn varint(mut n: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while n >= 0x80 {
        bytes.push(n as u8 | 0x80);
        n >>= 7;
    }
    bytes.push(n as u8);
    bytes
}

#[test]
#[ignore = "needs a broker"]
fn kafka_every_format_is_read() {
    let world = World::real();
    let folder = tempfile::tempdir().unwrap();
    let avro = folder.path().join("row.avsc");
    std::fs::write(&avro, r#"{"type":"record","name":"Row","fields":[{"name":"n","type":"long"}]}"#).unwrap();
    std::fs::write(folder.path().join("row.proto"), "syntax = \"proto3\"; package t; message Row { int64 n = 1; }").unwrap();
    let set =
        protox::Compiler::new([folder.path()]).unwrap().include_imports(true).open_file("row.proto").unwrap().encode_file_descriptor_set();
    let descriptor = folder.path().join("row.pb");
    std::fs::write(&descriptor, set).unwrap();

    let protobuf = |n: i64| [vec![0x08], varint(n as u64)].concat();
    type Encode<'a> = &'a dyn Fn(i64) -> Vec<u8>;
    let cases: [(&str, Value, Encode<'_>); 5] = [
        ("json", json!({}), &|n| format!("{{\"n\": {n}}}").into()),
        ("csv", json!({ "format": "csv", "delimiter": ";" }), &|n| n.to_string().into()),
        ("avro", json!({ "format": "avro", "avroSchema": avro, "schema": null }), &zigzag),
        ("protobuf", json!({ "format": "protobuf", "descriptor": descriptor, "message": "t.Row", "schema": null }), &protobuf),
        (
            "registry",
            json!({ "format": "protobuf", "framing": "registry", "descriptor": descriptor, "message": "t.Row", "schema": null }),
            // A zero, an id, and the path of the first message of the file.
            &|n| [vec![0, 0, 0, 0, 7, 0], protobuf(n)].concat(),
        ),
    ];
    for (name, options, encode) in cases {
        let topic = world.topic(name, 1);
        let records: Vec<Record> = (0..300).map(|n| record(encode(n))).collect();
        world.send(&topic, 0, &records);
        let mut all = json!({ "end": "latest" });
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        let rows = read(world.source(&topic, all).as_ref());
        assert_eq!(rows.column(0).as_primitive::<Int64Type>().values(), range(0..300).as_slice(), "{name}");
    }

    let topic = world.topic("raw", 1);
    world.send(&topic, 0, &[record("a line"), record("")]);
    let rows = read(world.source(&topic, json!({ "format": "raw", "schema": null, "end": "latest" })).as_ref());
    assert_eq!(rows.column(0).as_string_view().iter().collect::<Vec<_>>(), [Some("a line"), Some("")]);
}

/// A message of Arrow with the numbers of a range.
fn stream(numbers: std::ops::Range<i64>) -> Record {
    let schema = Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8View, true), Field::new("n", DataType::Int64, true)]));
    let texts: ArrayRef = Arc::new(numbers.clone().map(|n| Some(format!("{n}"))).collect::<StringViewArray>());
    let values: ArrayRef = Arc::new(numbers.map(Some).collect::<Int64Array>());
    let rows = RecordBatch::try_new(schema, vec![texts, values]).unwrap();
    record(ArrowMessages.encode(&rows).unwrap().bytes)
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_message_of_many_rows_is_handed_over_in_parts_that_can_be_gone_on_with() {
    let world = World::real();
    let topic = world.topic("arrow", 1);
    world.send(&topic, 0, &[stream(0..10), record("no stream"), stream(10..13), stream(13..30)]);
    let source = world.source(&topic, json!({ "format": "arrow", "end": "latest" }));
    let found = source.discover(None).unwrap();
    let request = SourceRequest::all().with_ordinals(true);
    let mut whole = Reading::open(source.as_ref(), request.clone(), found.added.clone()).unwrap();
    whole.request.max_rows = 4;
    whole.until_all(SplitState::Finished);
    let taken = whole.only();
    assert_eq!((taken.numbers(), taken.bad.len()), (range(0..30), 1));
    assert!(taken.ordinals.windows(2).all(|pair| pair[0] < pair[1]), "{:?}", taken.ordinals);
    assert!(taken.marks.iter().any(|(_, position)| position.to_string() == "0:4"), "{:?}", taken.marks);
    for (rows, position) in &taken.marks {
        let mut split = found.added[0].clone();
        split.position = Some(position.clone());
        let mut rest = Reading::open(source.as_ref(), request.clone(), vec![split]).unwrap();
        rest.request.max_rows = 5;
        rest.until_all(SplitState::Finished);
        assert_eq!(rest.only().numbers(), range(*rows as i64..30), "from {position}");
        assert_eq!(rest.only().ordinals, taken.ordinals[*rows..], "from {position}");
    }
}

#[test]
#[ignore = "needs a broker"]
fn kafka_a_schema_is_inferred_from_the_newest_messages_and_kept() {
    let world = World::real();
    let topic = world.topic("inferred", 3);
    // Old messages looked otherwise; aborted ones do not count, nor do tombstones and nonsense.
    world.send(&topic, 0, &(0..200).map(|n| record(format!("{{\"old\":{n}}}"))).collect::<Vec<_>>());
    world.send(&topic, 0, &(0..100).map(|n| record(format!("{{\n \"n\": {n},\n \"s\": \"x\" }}"))).collect::<Vec<_>>());
    world.transact(&topic, 1, &[record("{\"aborted\":1}")], false);
    world.send(&topic, 1, &[record("{\"n\":1.5}"), Record::default(), record("nonsense")]);
    let source = world.source(&topic, json!({ "schema": null, "inferSample": 100, "end": "latest" }));
    let plan = source.plan(&SourceRequest::all()).unwrap();
    let columns: Vec<_> = plan.schema.fields().iter().map(|field| (field.name().as_str(), types::name(field.data_type()))).collect();
    assert_eq!(columns, [("n", "float64".to_string()), ("s", "string".into())]);
    // What it was when the run began is kept, whatever is newest now.
    world.send(&topic, 2, &[record("{\"n\":\"text\"}")]);
    let pinned = SourceRequest::all().with_pinned(plan.pinned.clone());
    let later = world.source(&topic, json!({ "schema": null, "inferSample": 100 }));
    assert_eq!(later.plan(&pinned).unwrap().schema, plan.schema);
    assert_eq!(read(source.as_ref()).num_rows(), 301);

    let topic = world.topic("inferred-arrow", 1);
    world.send(&topic, 0, &[stream(0..3)]);
    let rows = read(world.source(&topic, json!({ "format": "arrow", "schema": null, "end": "latest" })).as_ref());
    assert_eq!((rows.num_rows(), rows.schema().field(0).name().as_str()), (3, "s"));

    let topic = world.topic("empty", 2);
    let error = world.source(&topic, json!({ "schema": null })).plan(&SourceRequest::all()).unwrap_err();
    assert!(error.to_string().contains(&format!("inferring a schema from `{topic}`: there is no message to look at")), "{error}");
}

#[test]
#[ignore = "needs a broker"]
fn kafka_columns_that_nobody_reads_are_not_decoded() {
    let world = World::real();
    let topic = world.topic("pruned", 1);
    world.send(&topic, 0, &rows(0..3));
    world.send(&topic, 0, &[record("{\"n\":3,\"other\":\"not a number\"}")]);
    let schema = json!([{ "name": "other", "type": "int64" }, { "name": "n", "type": "int64" }]);
    let source = world.source(&topic, json!({ "schema": schema, "end": "latest" }));
    let found = source.discover(None).unwrap();
    for (columns, rows) in [(vec!["n".to_string()], 4), (Vec::new(), 4), (vec!["other".to_string()], 3)] {
        let request = SourceRequest::all().with_columns(Some(columns.clone()));
        let mut reading = Reading::open(source.as_ref(), request, found.added.clone()).unwrap();
        reading.until_all(SplitState::Finished);
        assert_eq!(reading.only().rows(), rows, "{columns:?}");
        assert!(reading.only().batches.iter().all(|batch| batch.num_columns() == columns.len()));
    }
}

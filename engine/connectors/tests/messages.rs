//! Messages in, one batch out: what stands beside a payload, what becomes of tombstones and of messages that cannot be used.
//! Tests named after a number are situations that users of stream processors reported; `docs/cases.md` lists them.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Float64Type, Int32Type, Int64Type, Schema, SchemaRef, TimestampMillisecondType, UInt8Type,
};
use std::sync::Arc;
use tidegate_api::{BadReason, types};
use tidegate_connectors::decode::avro::{AvroFormat, AvroFraming};
use tidegate_connectors::decode::csv::CsvFormat;
use tidegate_connectors::decode::protobuf::{ProtobufFormat, ProtobufFraming};
use tidegate_connectors::decode::{DecodedMessages, Header, Message, MessageDecoder, MessageFormat, Meta, Tombstones, Wanted};
use tidegate_connectors::encode::{ArrowMessages, JsonMessages, MessageEncoder, TextOptions};

fn schema(columns: &[(&str, &str)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(name, kind)| Field::new(*name, types::parse(kind).unwrap(), true)).collect::<Vec<_>>()))
}

fn decode(format: MessageFormat, wanted: Wanted, messages: &[Message<'_>]) -> DecodedMessages {
    MessageDecoder::new(format, wanted, &[], Tombstones::Drop).unwrap().decode(messages).unwrap()
}

/// Payloads of JSON, at the offsets 0, 1, …
fn json(columns: &[(&str, &str)], payloads: &[&str]) -> DecodedMessages {
    let messages: Vec<Message<'_>> =
        payloads.iter().enumerate().map(|(offset, payload)| Message::new(Some(payload.as_bytes())).at(0, offset as i64)).collect();
    decode(MessageFormat::Json, Wanted::all(schema(columns)), &messages)
}

fn integers(batch: &RecordBatch, column: usize) -> Vec<Option<i64>> {
    batch.column(column).as_primitive::<Int64Type>().iter().collect()
}

fn numbers_of_bad(decoded: &DecodedMessages) -> Vec<usize> {
    decoded.bad.iter().map(|bad| bad.record).collect()
}

#[test]
fn p001_an_integer_too_large_for_its_column_is_bad_and_never_wrapped() {
    let decoded = json(&[("a", "uint8")], &["{\"a\":255}", "{\"a\":999}", "{\"a\":-1}"]);
    assert_eq!(decoded.rows.column(0).as_primitive::<UInt8Type>().values(), &[255]);
    assert_eq!(numbers_of_bad(&decoded), [1, 2]);
    assert!(decoded.bad.iter().all(|bad| bad.row.reason == BadReason::TypeMismatch));
}

#[test]
fn p003_an_integer_of_64_bits_without_a_sign_is_a_bad_row_not_the_end() {
    let decoded = json(&[("n", "int64")], &["{\"n\":1}", "{\"n\":9223372036854775808}", "{\"n\":2}"]);
    assert_eq!(integers(&decoded.rows, 0), [Some(1), Some(2)]);
    assert_eq!(numbers_of_bad(&decoded), [1]);
    assert_eq!(decoded.bad[0].row.raw, b"{\"n\":9223372036854775808}");
    assert_eq!(decoded.bad[0].row.position.as_deref(), Some("partition 0, offset 1"));
}

#[test]
fn p004_a_large_integer_in_a_float_column_is_its_nearest_float_whatever_stands_beside_it() {
    let alone = json(&[("f", "float64")], &["{\"f\":9007199254740993}"]);
    let beside = json(&[("f", "float64")], &["{\"f\":1.5}", "{\"f\":9007199254740993}"]);
    assert_eq!(alone.rows.column(0).as_primitive::<Float64Type>().value(0), 9_007_199_254_740_992.0);
    assert_eq!(beside.rows.column(0).as_primitive::<Float64Type>().value(1), 9_007_199_254_740_992.0);
}

#[test]
fn p005_numbers_of_times_are_exact_or_bad() {
    let payloads = ["{\"t\":9007199254740993}", "{\"t\":1.5}", "{\"t\":\"2024-01-01T00:00:00.0005Z\"}", "{\"t\":1704067200000.0}"];
    let decoded = json(&[("t", "timestamp_ms")], &payloads);
    assert_eq!(decoded.rows.column(0).as_primitive::<TimestampMillisecondType>().values(), &[9_007_199_254_740_993, 1_704_067_200_000]);
    assert_eq!(numbers_of_bad(&decoded), [1, 2]);
}

#[test]
fn p006_an_empty_text_is_no_decimal() {
    let decoded = json(&[("price", "decimal(10,2)")], &["{\"price\":\"\"}", "{\"price\":\"1.50\"}"]);
    assert_eq!(numbers_of_bad(&decoded), [0]);
    assert_eq!(decoded.rows.column(0).as_primitive::<Decimal128Type>().values(), &[150]);
}

#[test]
fn p008_a_key_may_repeat_and_the_last_one_counts() {
    let decoded = json(&[("a", "int64")], &["{\"x\":1,\"x\":2,\"a\":3}", "{\"a\":1,\"a\":2}", "{\"a\":\"x\",\"a\":4}"]);
    assert_eq!(integers(&decoded.rows, 0), [Some(3), Some(2), Some(4)]);
    assert_eq!(decoded.bad, []);
}

#[test]
fn p011_tombstones_are_left_out_and_counted_or_rows_of_nulls() {
    let messages = [
        Message::new(Some(b"{\"a\":1}")).with_key(Some(b"k1")),
        Message::new(None).with_key(Some(b"195087119")),
        Message::new(Some(b"broken")),
        Message::new(Some(b"{\"a\":2}")).with_key(None),
        Message::new(None),
    ];
    let wanted = Wanted::all(schema(&[("a", "int64")]));
    let mut decoder = MessageDecoder::new(MessageFormat::Json, wanted.clone(), &[Meta::Key], Tombstones::Drop).unwrap();
    let decoded = decoder.decode(&messages).unwrap();
    assert_eq!((integers(&decoded.rows, 0), decoded.tombstones), (vec![Some(1), Some(2)], 2));
    assert_eq!((numbers_of_bad(&decoded), decoded.message_of), (vec![2], vec![0, 3]));

    let mut decoder = MessageDecoder::new(MessageFormat::Json, wanted, &[Meta::Key], Tombstones::Nulls).unwrap();
    let decoded = decoder.decode(&messages).unwrap();
    assert_eq!(integers(&decoded.rows, 0), [Some(1), None, Some(2), None]);
    let keys: Vec<_> = decoded.rows.column(1).as_binary::<i32>().iter().collect();
    assert_eq!(keys, [Some(&b"k1"[..]), Some(b"195087119"), None, None]);
    assert_eq!((decoded.tombstones, decoded.message_of), (0, vec![0, 1, 3, 4]));

    let required = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false)]));
    let mut decoder = MessageDecoder::new(MessageFormat::Json, Wanted::all(required), &[], Tombstones::Nulls).unwrap();
    let decoded = decoder.decode(&messages).unwrap();
    assert_eq!(integers(&decoded.rows, 0), [Some(1), Some(2)]);
    assert_eq!(numbers_of_bad(&decoded), [1, 2, 4]);
}

#[test]
fn p012_a_header_without_a_value_is_kept_with_null() {
    let headers = [Header { key: "h1", value: None }, Header { key: "h2", value: Some(b"x") }, Header { key: "h2", value: Some(b"") }];
    let messages = [
        Message::new(Some(b"{\"a\":1}")).at(3, 41).with_timestamp(Some(-1)).with_headers(&headers),
        Message::new(Some(b"{\"a\":2}")).at(3, 42),
    ];
    let meta = [Meta::Headers, Meta::Partition, Meta::Offset, Meta::Timestamp];
    let mut decoder = MessageDecoder::new(MessageFormat::Json, Wanted::all(schema(&[("a", "int64")])), &meta, Tombstones::Drop).unwrap();
    let decoded = decoder.decode(&messages).unwrap();
    assert_eq!(decoded.rows.schema(), decoder.schema());
    let lists = decoded.rows.column(1).as_list::<i32>();
    assert_eq!((lists.value_length(0), lists.value_length(1), lists.null_count()), (3, 0, 0));
    let entries = lists.value(0);
    let keys: Vec<_> = entries.as_struct().column(0).as_string_view().iter().collect();
    let values: Vec<_> = entries.as_struct().column(1).as_binary::<i32>().iter().collect();
    assert_eq!(keys, [Some("h1"), Some("h2"), Some("h2")]);
    assert_eq!(values, [None, Some(&b"x"[..]), Some(b"")]);
    assert_eq!(decoded.rows.column(2).as_primitive::<Int32Type>().values(), &[3, 3]);
    assert_eq!(integers(&decoded.rows, 3), [Some(41), Some(42)]);
    let times: Vec<_> = decoded.rows.column(4).as_primitive::<TimestampMillisecondType>().iter().collect();
    assert_eq!(times, [Some(-1), None]);
}

#[test]
fn p029_a_poll_of_any_size_is_one_batch() {
    let payloads: Vec<String> = (0..20_000).map(|number| format!("{{\"a\":{number}}}")).collect();
    let payloads: Vec<&str> = payloads.iter().map(String::as_str).collect();
    let decoded = json(&[("a", "int64")], &payloads);
    assert_eq!(integers(&decoded.rows, 0), (0..20_000).map(Some).collect::<Vec<_>>());
}

#[test]
fn p031_every_bad_message_is_counted_once() {
    let payloads = ["{\"a\":1,\"b\":1}", "{\"a\":\"x\",\"b\":\"y\"}", "{", "{\"a\":2}", "{\"b\":[]}", "{\"a\":3}"];
    let decoded = json(&[("a", "int64"), ("b", "int64")], &payloads);
    assert_eq!(numbers_of_bad(&decoded), [1, 2, 4]);
    assert_eq!(decoded.rows.num_rows(), 3);
}

#[test]
fn p033_null_is_null_in_every_type() {
    let columns = [
        ("a", "int64"),
        ("b", "string"),
        ("c", "decimal(10,2)"),
        ("d", "timestamp_ms"),
        ("e", "list<int64>"),
        ("f", "struct<x: int64>"),
        ("g", "binary"),
    ];
    let decoded = json(&columns, &["{\"a\":null,\"b\":null,\"c\":null,\"d\":null,\"e\":null,\"f\":null,\"g\":null}", "{}"]);
    assert_eq!(decoded.bad, []);
    assert!(decoded.rows.columns().iter().all(|column| column.null_count() == 2));
}

#[test]
fn p135_nothing_is_left_out_in_silence() {
    let payloads = ["{\"a\":1}", "[]", "null", "7", "\"x\"", "", "{}"];
    let decoded = json(&[("a", "int64")], &payloads);
    assert_eq!(decoded.rows.num_rows() + decoded.bad.len(), payloads.len());
    assert_eq!(numbers_of_bad(&decoded), [1, 2, 3, 4, 5]);
}

#[test]
fn a_byte_order_mark_and_line_ends_around_a_message_do_not_matter() {
    let decoded = json(&[("a", "int64")], &["\u{feff}{\"a\":1}", "{\"a\":2}\r\n", "\n {\n\"a\"\n:3}"]);
    assert_eq!(integers(&decoded.rows, 0), [Some(1), Some(2), Some(3)]);
    let messages = [Message::new(Some("\u{feff}\"a\nb\",2\r\n".as_bytes())), Message::new(Some(b"x,1\ny,2")), Message::new(Some(b"x"))];
    let decoded = decode(MessageFormat::Csv(CsvFormat::default()), Wanted::all(schema(&[("s", "string"), ("a", "int64")])), &messages);
    assert_eq!(decoded.rows.column(0).as_string_view().iter().collect::<Vec<_>>(), [Some("a\nb")]);
    assert_eq!(numbers_of_bad(&decoded), [1, 2]);
    // A raw value is what it is.
    let messages = [Message::new(Some("\u{feff}\r\n".as_bytes())), Message::new(Some(b"\xff"))];
    let decoded = decode(MessageFormat::Raw, Wanted::all(schema(&[("v", "binary")])), &messages);
    assert_eq!(decoded.rows.column(0).as_binary::<i32>().iter().collect::<Vec<_>>(), [Some("\u{feff}\r\n".as_bytes()), Some(b"\xff")]);
    let decoded = decode(MessageFormat::Raw, Wanted::all(schema(&[("v", "string")])), &messages);
    assert_eq!(numbers_of_bad(&decoded), [1]);
}

#[test]
fn a_schema_that_the_format_cannot_hold_is_refused_by_name() {
    let refused = |format: MessageFormat, columns: &[(&str, &str)], meta: &[Meta]| {
        MessageDecoder::new(format, Wanted::all(schema(columns)), meta, Tombstones::Drop).err().unwrap().message().to_string()
    };
    assert!(refused(MessageFormat::Raw, &[("a", "int64")], &[]).contains("column `a`"));
    assert!(refused(MessageFormat::Csv(CsvFormat::default()), &[("l", "list<int64>")], &[]).contains("column `l`"));
    assert_eq!(refused(MessageFormat::Json, &[("key", "int64")], &[Meta::Key]), "`key` is both a column of the schema and one of `meta`");
    let avro = || AvroFormat::new(r#"{"type":"record","name":"r","fields":[{"name":"colour","type":"string"}]}"#, AvroFraming::Bare);
    assert_eq!(
        refused(MessageFormat::Avro(avro()), &[("color", "string")], &[]),
        "the Avro schema has no field `color`, did you mean `colour`?"
    );
    assert!(refused(MessageFormat::Avro(avro()), &[("colour", "list<int64>")], &[]).contains("column `colour`"));
}

const USER: &str = r#"{"type":"record","name":"user","fields":[
    {"name":"id","type":"long"},
    {"name":"name","type":["null","string"]},
    {"name":"tags","type":{"type":"map","values":"int"}},
    {"name":"next","type":["null","user"]},
    {"name":"price","type":{"type":"bytes","logicalType":"decimal","precision":38,"scale":2}}]}"#;

/// A user without a name, tags or successor, and of a price of three bytes.
fn avro_user(id: u8) -> Vec<u8> {
    vec![id * 2, 0, 0, 0, 6, 0xFF, 0xFF, 0x9C]
}

#[test]
fn avro_values_take_the_types_of_their_columns() {
    let mut named = vec![2, 2, 4, b'a', b'b'];
    // A map in two blocks, one of which says its length, and a user inside.
    named.extend([2, 2, b'x', 2, 1, 6, 2, b'y', 4, 0, 2]);
    named.extend(avro_user(9));
    named.extend([2, 100]);
    let plain = avro_user(1);
    let messages = [Message::new(Some(&plain)), Message::new(Some(&named)), Message::new(Some(&named[..7])), Message::new(Some(b""))];
    let columns = [("price", "decimal(20,3)"), ("id", "int32"), ("name", "string"), ("tags", "list<struct<key: string, value: int64>>")];
    let format = MessageFormat::Avro(AvroFormat::new(USER, AvroFraming::Bare));
    let decoded = decode(format, Wanted::all(schema(&columns)), &messages);
    assert_eq!(numbers_of_bad(&decoded), [2, 3]);
    assert_eq!(decoded.rows.column(0).as_primitive::<Decimal128Type>().values(), &[-1_000, 1_000]);
    assert_eq!(decoded.rows.column(1).as_primitive::<Int32Type>().values(), &[1, 1]);
    assert_eq!(decoded.rows.column(2).as_string_view().iter().collect::<Vec<_>>(), [None, Some("ab")]);
    let tags = decoded.rows.column(3).as_list::<i32>();
    assert_eq!((tags.value_length(0), tags.value_length(1)), (0, 2));
    assert_eq!(tags.value(1).as_struct().column(1).as_primitive::<Int64Type>().values(), &[1, 2]);
}

#[test]
fn lengths_and_counts_that_avro_messages_claim_are_not_believed() {
    let long = |value: i64| {
        let mut zigzag = (value << 1 ^ value >> 63) as u64;
        let mut bytes = Vec::new();
        while zigzag > 0x7F {
            bytes.push(zigzag as u8 | 0x80);
            zigzag >>= 7;
        }
        bytes.push(zigzag as u8);
        bytes
    };
    let nulls = r#"{"type":"record","name":"r","fields":[{"name":"l","type":{"type":"array","items":"null"}},{"name":"a","type":"long"}]}"#;
    let nested = r#"{"type":"record","name":"r","fields":[{"name":"next","type":["null","r"]},{"name":"a","type":"long"}]}"#;
    let claims: [Vec<u8>; 4] =
        [long(i64::MAX), long(i64::MIN), [long(-5), long(i64::MIN)].concat(), [long(2), long(2), long(2), long(1 << 40)].concat()];
    for claim in &claims {
        let messages = [Message::new(Some(claim))];
        for columns in [vec![("a", "int64")], vec![("l", "list<string>")]] {
            let format = MessageFormat::Avro(AvroFormat::new(nulls, AvroFraming::Bare));
            assert_eq!(numbers_of_bad(&decode(format, Wanted::all(schema(&columns)), &messages)), [0]);
        }
        let format = MessageFormat::Avro(AvroFormat::new(USER, AvroFraming::Bare));
        let text = [vec![2, 2], claim.clone()].concat();
        assert_eq!(numbers_of_bad(&decode(format, Wanted::all(schema(&[("name", "string")])), &[Message::new(Some(&text))])), [0]);
    }
    let deep = vec![2; 1_000_000];
    let format = MessageFormat::Avro(AvroFormat::new(nested, AvroFraming::Bare));
    let decoded = decode(format, Wanted::all(schema(&[("a", "int64")])), &[Message::new(Some(&deep))]);
    assert!(decoded.bad[0].row.message.starts_with("values are nested deeper than 128 levels"), "{}", decoded.bad[0].row.message);
}

#[test]
fn a_broken_avro_message_is_rescued_as_a_whole() {
    let good = avro_user(1);
    let messages = [Message::new(Some(&good)), Message::new(Some(&good[..4]))];
    let format = MessageFormat::Avro(AvroFormat::new(USER, AvroFraming::Bare));
    let decoded = decode(format, Wanted::all(schema(&[("id", "int64")])).rescuing(true), &messages);
    assert_eq!(integers(&decoded.rows, 0), [Some(1), None]);
    assert_eq!(decoded.rows.column(1).as_string_view().iter().collect::<Vec<_>>(), [None, Some("\u{2}\0\0\0")]);
    assert_eq!((decoded.rescued, decoded.bad), (1, vec![]));
}

#[test]
fn the_header_of_an_avro_message_tells_its_schema() {
    let messages = |header: &[u8]| [header, &avro_user(1)].concat();
    let right = messages(&[0, 0, 0, 0, 7]);
    let wrong = messages(&[0, 0, 0, 0, 8]);
    let format = MessageFormat::Avro(AvroFormat::registry([(7, USER.to_string())]));
    let payloads = [Message::new(Some(&right)), Message::new(Some(&wrong)), Message::new(Some(b"\0\0"))];
    let decoded = decode(format, Wanted::all(schema(&[("id", "int64")])), &payloads);
    assert_eq!(numbers_of_bad(&decoded), [1, 2]);
    assert_eq!(decoded.bad[0].row.message, "the message was written with schema 8, which is not known");
    let other = messages(&[0xC3, 0x01, 1, 2, 3, 4, 5, 6, 7, 8]);
    let format = MessageFormat::Avro(AvroFormat::new(USER, AvroFraming::SingleObject));
    let decoded = decode(format, Wanted::all(schema(&[("id", "int64")])), &[Message::new(Some(&other))]);
    assert_eq!(decoded.bad[0].row.message, "the message was written with another schema");
}

const SHOP: &str = r#"
syntax = "proto3";
package shop;
import "google/protobuf/wrappers.proto";
enum Kind { UNKNOWN = 0; BOOK = 1; }
message Item { string name = 1; int64 price = 2; Item part = 3; }
message Order {
  int64 id = 1;
  optional int64 maybe = 2;
  Item item = 3;
  repeated sint32 numbers = 4;
  map<string, int64> stock = 5;
  Kind kind = 6;
  google.protobuf.Int64Value wrapped = 7;
  oneof choice { string left = 8; int64 right = 9; bytes other = 10; }
}
"#;

fn shop() -> ProtobufFormat {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.proto"), SHOP).unwrap();
    let set =
        protox::Compiler::new([folder.path()]).unwrap().include_imports(true).open_file("shop.proto").unwrap().encode_file_descriptor_set();
    let error = ProtobufFormat::new(&set, "shop.Odrer", ProtobufFraming::Bare).unwrap_err();
    assert_eq!(error.message(), "the descriptor set has no message `shop.Odrer`, did you mean `shop.Order`?");
    assert!(ProtobufFormat::new(b"nonsense", "shop.Order", ProtobufFraming::Bare).is_err());
    ProtobufFormat::new(&set, "shop.Order", ProtobufFraming::Bare).unwrap()
}

#[test]
fn protobuf_fields_come_in_any_order_and_number() {
    let columns = [
        ("id", "int64"),
        ("maybe", "int64"),
        ("item", "struct<name: string, price: int64>"),
        ("numbers", "list<int64>"),
        ("stock", "list<struct<key: string, value: int64>>"),
        ("kind", "string"),
        ("wrapped", "int64"),
        ("left", "string"),
        ("right", "int64"),
    ];
    // Twice an id, a message in two parts, packed and unpacked numbers, an unknown field, an unknown symbol, a choice made twice.
    let whole: Vec<u8> = [
        &[0x42, 1, b'l'][..],
        &[0x08, 5, 0x08, 6],
        &[0x1A, 3, 0x0A, 1, b'n', 0x1A, 2, 0x10, 7],
        &[0x22, 2, 1, 2, 0x20, 3],
        &[0x2A, 5, 0x0A, 1, b'k', 0x10, 9],
        &[0x30, 5],
        &[0x3A, 0],
        &[0x48, 4],
        &[0xF8, 0x07, 1],
    ]
    .concat();
    let messages = [Message::new(Some(&whole)), Message::new(Some(b"")), Message::new(Some(&[0x08])), Message::new(Some(&[0x1A, 0x7F, 1]))];
    let decoded = decode(MessageFormat::Protobuf(shop()), Wanted::all(schema(&columns)), &messages);
    assert_eq!(numbers_of_bad(&decoded), [2, 3]);
    assert!(decoded.bad.iter().all(|bad| bad.row.reason == BadReason::Malformed));
    let rows = &decoded.rows;
    assert_eq!(integers(rows, 0), [Some(6), Some(0)]);
    assert_eq!(integers(rows, 1), [None, None]);
    let item = rows.column(2).as_struct();
    assert_eq!((item.column(0).as_string_view().value(0), item.column(1).as_primitive::<Int64Type>().value(0)), ("n", 7));
    assert!(item.is_null(1));
    let numbers = rows.column(3).as_list::<i32>();
    assert_eq!(numbers.value(0).as_primitive::<Int64Type>().values(), &[-1, 1, -2]);
    assert_eq!((numbers.value_length(1), numbers.is_null(1)), (0, false));
    assert_eq!(rows.column(4).as_list::<i32>().value(0).as_struct().column(1).as_primitive::<Int64Type>().values(), &[9]);
    assert_eq!(rows.column(5).as_string_view().iter().collect::<Vec<_>>(), [Some("5"), Some("UNKNOWN")]);
    assert_eq!(integers(rows, 6), [Some(0), None]);
    assert_eq!(rows.column(7).as_string_view().iter().collect::<Vec<_>>(), [None, None]);
    assert_eq!(integers(rows, 8), [Some(4), None]);
}

#[test]
fn lengths_that_protobuf_messages_claim_are_not_believed() {
    let columns = [("id", "int64"), ("item", "struct<name: string>"), ("numbers", "list<int64>")];
    let huge = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F];
    let mut groups = [0xA3, 0x06].repeat(100_000);
    groups.push(0);
    for payload in [
        [&[0x1A][..], &huge].concat(),
        [&[0x22][..], &huge].concat(),
        [&[0x7A][..], &huge].concat(),
        groups,
        vec![0x0F],
        vec![0],
        vec![0x0D, 1],
    ] {
        let decoded = decode(MessageFormat::Protobuf(shop()), Wanted::all(schema(&columns)), &[Message::new(Some(&payload))]);
        assert_eq!(numbers_of_bad(&decoded), [0]);
    }
}

#[test]
fn a_damaged_arrow_message_costs_itself() {
    let rows = json(&[("a", "int64"), ("s", "string")], &["{\"a\":1,\"s\":\"a text longer than twelve\"}", "{\"a\":2}"]).rows;
    let stream = ArrowMessages.encode(&rows).unwrap().bytes;
    let wanted = Wanted::all(rows.schema());
    for length in (0..stream.len()).step_by(7) {
        let messages = [Message::new(Some(&stream)), Message::new(Some(&stream[..length])), Message::new(Some(&stream))];
        let decoded = decode(MessageFormat::Arrow, wanted.clone(), &messages);
        assert!(decoded.rows.num_rows() >= 4 && decoded.message_of.iter().filter(|message| **message != 1).count() == 4, "{length}");
    }
    // Every byte as large as it can be: lengths, counts and offsets among them.
    for at in 0..stream.len() {
        let mut damaged = stream.clone();
        damaged[at] = 0xFF;
        let decoded = decode(MessageFormat::Arrow, wanted.clone(), &[Message::new(Some(&damaged))]);
        assert!(decoded.rows.num_rows() < 1 << 20);
    }
}

#[test]
fn p023_a_decimal_is_text_with_all_its_digits_in_every_row() {
    let rows = json(&[("d", "decimal(10,2)")], &["{\"d\":10}", "{\"d\":10.5}", "{\"d\":\"-0.05\"}"]).rows;
    let encoded = JsonMessages::new(TextOptions::default()).encode(&rows).unwrap();
    let texts: Vec<&[u8]> = encoded.iter().collect();
    assert_eq!(texts, [&b"{\"d\":\"10.00\"}"[..], b"{\"d\":\"10.50\"}", b"{\"d\":\"-0.05\"}"]);
}

#[test]
fn p025_times_of_the_first_and_the_last_year_are_kept_or_refused() {
    for unit in ["timestamp_s", "timestamp_ms", "timestamp_us"] {
        let payloads = ["{\"t\":\"0001-01-01T00:00:00Z\"}", "{\"t\":\"9999-12-31T23:59:59Z\"}", "{\"t\":\"0000-01-01T00:00:00Z\"}"];
        let rows = json(&[("t", unit)], &payloads).rows;
        let encoded = JsonMessages::new(TextOptions::default()).encode(&rows).unwrap();
        assert_eq!(encoded.refused, []);
        let texts: Vec<String> = encoded.iter().map(|text| String::from_utf8(text.to_vec()).unwrap()).collect();
        let expected: Vec<String> = payloads.iter().map(|payload| payload.replace('Z', "")).collect();
        assert_eq!(texts, expected);
    }
    let decoded = json(&[("t", "timestamp_ns")], &["{\"t\":\"0001-01-01T00:00:00Z\"}", "{\"t\":\"9999-12-31T23:59:59.999Z\"}"]);
    assert_eq!(numbers_of_bad(&decoded), [0, 1]);
}

#[test]
fn p024_a_number_has_the_declared_type_however_it_is_written() {
    let decoded =
        json(&[("n", "decimal(20,3)")], &["{\"n\":1}", "{\"n\":1.5}", "{\"n\":\"2\"}", "{\"n\":3e0}", "{\"n\":12345678901234567.891}"]);
    assert_eq!(decoded.rows.column(0).data_type(), &DataType::Decimal128(20, 3));
    let values = decoded.rows.column(0).as_primitive::<Decimal128Type>().values().to_vec();
    assert_eq!(values, [1_000, 1_500, 2_000, 3_000, 12_345_678_901_234_567_891]);
}

#[test]
fn bytes_are_base64_in_json() {
    let decoded = json(&[("b", "binary")], &["{\"b\":\"AP8=\"}", "{\"b\":\"AP8\"}", "{\"b\":\"no base64!\"}"]);
    let bytes: &BinaryArray = decoded.rows.column(0).as_binary();
    assert_eq!(bytes.iter().collect::<Vec<_>>(), [Some(&[0, 255][..]), Some(&[0, 255])]);
    assert_eq!(numbers_of_bad(&decoded), [2]);
}

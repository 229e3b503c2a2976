//! What `cargo xtask fuzz` runs on arbitrary bytes. A fault is a panic: of a decoder, or of a promise that is checked here.

use crate::decode::avro::{AvroContainer, AvroFormat, AvroFraming};
use crate::decode::csv::{CsvDecoder, CsvFormat};
use crate::decode::json::{JsonDecoder, Paths};
use crate::decode::protobuf::{ProtobufFormat, ProtobufFraming};
use crate::decode::{Decoded, Decoder, Message, MessageDecoder, MessageFormat, Tombstones, Wanted};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;
use tidegate_api::types;

/// A column of every kind, of which the first byte of an input chooses some.
const COLUMNS: [(&str, &str); 10] = [
    ("a", "int64"),
    ("b", "float64"),
    ("s", "string"),
    ("d", "decimal(38,9)"),
    ("t", "timestamp_us"),
    ("x", "binary"),
    ("l", "list<struct<a: int64, s: string>>"),
    ("o", "struct<a: int8, l: list<string>>"),
    ("f", "bool"),
    ("day", "date"),
];

fn columns(nested: bool) -> SchemaRef {
    let fields = COLUMNS.iter().filter_map(|(name, kind)| {
        let data_type = types::parse(kind).ok()?;
        (nested || !data_type.is_nested()).then(|| Field::new(*name, data_type, true))
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The columns that a byte chooses, and whether rows are rescued.
fn wanted(schema: SchemaRef, choice: u8) -> Wanted {
    let known = Arc::clone(&schema);
    let wanted = Wanted::some(schema, |name| known.index_of(name).is_ok_and(|index| (choice >> (index % 8)) & 1 == 1));
    if choice & 3 == 3 { wanted.rescuing(choice & 4 == 4) } else { wanted }
}

fn check(decoded: &Decoded) {
    assert_eq!(decoded.rows.num_rows() + decoded.bad.len(), decoded.records, "every record is a row or bad");
    assert!(decoded.bad.windows(2).all(|pair| pair[0].record < pair[1].record), "bad records are in order");
    for column in decoded.rows.columns() {
        assert!(column.to_data().validate_full().is_ok(), "a column that is not valid");
    }
}

/// Decodes a stream as a caller does, so many records at a time.
fn decode(decoder: &mut dyn Decoder, input: &[u8], max_rows: usize) -> Vec<Decoded> {
    let mut all = Vec::new();
    let Ok(Some(mut at)) = decoder.begin(input, true) else { return all };
    while at < input.len() {
        let Ok(decoded) = decoder.decode(&input[at..], true, max_rows) else { return all };
        check(&decoded);
        assert!(decoded.records <= max_rows, "more records than were asked for");
        assert!(decoded.consumed > 0 || decoded.records > 0, "the end of a stream is never reached");
        at += decoded.consumed;
        all.push(decoded);
    }
    all
}

fn shown(all: &[Decoded]) -> String {
    // Printed, since one NaN is not another.
    all.iter().map(|decoded| format!("{:?} {:?} {}\n", decoded.rows, decoded.bad, decoded.rescued)).collect()
}

/// JSON lines: both paths must answer the same. The lines are read twice, so that layouts are known the second time.
///
/// # Panics
/// If a promise is broken.
pub fn json(input: &[u8]) {
    let Some((choice, text)) = input.split_first() else { return };
    let wanted = wanted(columns(true), *choice);
    let twice = [text, b"\n", text].concat();
    let [fast, full] = [Paths::Fast, Paths::Full].map(|paths| {
        let Ok(mut decoder) = JsonDecoder::with_paths(wanted.clone(), paths) else { return String::new() };
        shown(&decode(&mut decoder, &twice, 1 + usize::from(choice % 7)))
    });
    assert_eq!(fast, full, "the two paths differ");
    messages(MessageFormat::Json, wanted, text);
}

/// CSV, with a header and without.
///
/// # Panics
/// If a promise is broken.
pub fn csv(input: &[u8]) {
    let Some((choice, text)) = input.split_first() else { return };
    for header in [true, false] {
        let format = CsvFormat { header, null_values: vec![String::new(), "NA".into()], ..CsvFormat::default() };
        let Ok(mut decoder) = CsvDecoder::new(format.clone(), wanted(columns(false), *choice)) else { continue };
        let all = decode(&mut decoder, text, 1 + usize::from(choice % 7));
        let Ok(mut whole) = CsvDecoder::new(format.clone(), wanted(columns(false), *choice)) else { continue };
        let at_once = decode(&mut whole, text, usize::MAX);
        let count = |all: &[Decoded]| {
            all.iter().map(|decoded| (decoded.rows.num_rows(), decoded.bad.len())).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
        };
        assert_eq!(count(&all), count(&at_once), "the number of records depends on how many are asked for");
        messages(MessageFormat::Csv(format), wanted(columns(false), *choice), text);
    }
}

/// Hands payloads, cut where a byte says, to a message decoder.
fn messages(format: MessageFormat, wanted: Wanted, input: &[u8]) {
    let cut = input.first().map_or(0, |first| usize::from(*first).min(input.len()));
    let messages = [Message::new(Some(&input[..cut])), Message::new(None), Message::new(Some(&input[cut..])), Message::new(Some(input))];
    let Ok(mut decoder) = MessageDecoder::new(format, wanted, &[], Tombstones::Drop) else { return };
    if let Ok(decoded) = decoder.decode(&messages) {
        assert_eq!(decoded.rows.num_rows() + decoded.bad.len() + decoded.tombstones, messages.len(), "every message is accounted for");
        for column in decoded.rows.columns() {
            assert!(column.to_data().validate_full().is_ok(), "a column that is not valid");
        }
    }
}

/// Avro with every kind of type; a record that holds itself and lists of nothing among them.
const AVRO: &str = r#"{"type":"record","name":"r","fields":[
    {"name":"a","type":"long"},{"name":"b","type":["null","double","float"]},{"name":"s","type":["string","null"]},
    {"name":"d","type":{"type":"bytes","logicalType":"decimal","precision":38,"scale":9}},
    {"name":"t","type":{"type":"long","logicalType":"timestamp-millis"}},{"name":"x","type":["bytes",{"type":"fixed","name":"f","size":3}]},
    {"name":"nothing","type":{"type":"array","items":"null"}},{"name":"next","type":["null","r"]},
    {"name":"l","type":{"type":"array","items":{"type":"record","name":"i","fields":[{"name":"a","type":"int"},{"name":"s","type":{"type":"enum","name":"e","symbols":["A","B"]}}]}}},
    {"name":"o","type":{"type":"record","name":"o","fields":[{"name":"a","type":"int"},{"name":"l","type":{"type":"array","items":["null","string"]}}]}},
    {"name":"f","type":"boolean"},{"name":"day","type":{"type":"int","logicalType":"date"}},{"name":"m","type":{"type":"map","values":"r"}}]}"#;

/// Avro messages and container files.
///
/// # Panics
/// If a promise is broken.
pub fn avro(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    messages(MessageFormat::Avro(AvroFormat::new(AVRO, AvroFraming::Bare)), wanted(columns(true), *choice), bytes);
    // A file of our schema around the bytes, so that more than headers is tried.
    let mut file = b"Obj\x01\x02\x16avro.schema".to_vec();
    let mut length = (AVRO.len() as u64) << 1;
    while length > 0x7F {
        file.push(length as u8 | 0x80);
        length >>= 7;
    }
    file.push(length as u8);
    file.extend_from_slice(AVRO.as_bytes());
    file.push(0);
    file.extend_from_slice(&[7; 16]);
    file.extend_from_slice(bytes);
    for file in [bytes, &file] {
        let [few, all] = [1 + usize::from(choice % 7), usize::MAX].map(|max_rows| {
            let Ok(mut decoder) = AvroContainer::new(wanted(columns(true), *choice)) else { return (0, 0) };
            let decoded = decode(&mut decoder, file, max_rows);
            decoded.iter().fold((0, 0), |(rows, bad), one| (rows + one.rows.num_rows(), bad + one.bad.len()))
        });
        assert_eq!(few, all, "the number of records depends on how many are asked for");
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = crate::decode::avro::schema_of(text);
    }
}

/// Protobuf messages. The descriptor set is that of a message whose fields are named as the columns here, numbered from 1.
///
/// # Panics
/// If a promise is broken.
pub fn protobuf(input: &[u8]) {
    let Some((choice, bytes)) = input.split_first() else { return };
    let fields = vec![
        Field::new("a", DataType::Int64, true),
        Field::new("s", DataType::Utf8View, true),
        Field::new("l", DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true))), true),
        Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), true),
        Field::new("kind", DataType::Utf8View, true),
    ];
    let Ok(format) = ProtobufFormat::new(&descriptor_set(), "fuzz.Row", ProtobufFraming::Bare) else { return };
    messages(MessageFormat::Protobuf(format.clone()), wanted(Arc::new(Schema::new(fields)), *choice), bytes);
    if let Ok(schema) = format.schema() {
        messages(MessageFormat::Protobuf(format), wanted(schema, *choice), bytes);
    }
    let _ = ProtobufFormat::new(bytes, "fuzz.Row", ProtobufFraming::Bare);
}

/// The descriptor set of
/// ```proto
/// syntax = "proto3"; package fuzz; import "google/protobuf/timestamp.proto";
/// enum Kind { NONE = 0; }
/// message Inner { sint32 a = 1; Inner inner = 2; }
/// message Row { int64 a = 1; optional string s = 2; repeated sint64 l = 3; google.protobuf.Timestamp at = 4; Kind kind = 5;
///               repeated string names = 6; map<string, double> m = 7; oneof one { bytes x = 8; fixed32 y = 9; } }
/// ```
fn descriptor_set() -> Vec<u8> {
    use prost_reflect::prost::Message as _;
    use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
    use prost_reflect::prost_types::{
        DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto, FileDescriptorSet,
        MessageOptions, OneofDescriptorProto,
    };
    let field = |name: &str, number: i32, label: Label, kind: Type, of: Option<&str>| FieldDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        label: Some(label.into()),
        r#type: Some(kind.into()),
        type_name: of.map(str::to_string),
        ..FieldDescriptorProto::default()
    };
    let message =
        |name: &str, field: Vec<FieldDescriptorProto>| DescriptorProto { name: Some(name.into()), field, ..DescriptorProto::default() };
    let one = Label::Optional;
    let many = Label::Repeated;
    let timestamp = FileDescriptorProto {
        name: Some("google/protobuf/timestamp.proto".into()),
        package: Some("google.protobuf".into()),
        syntax: Some("proto3".into()),
        message_type: vec![message(
            "Timestamp",
            vec![field("seconds", 1, one, Type::Int64, None), field("nanos", 2, one, Type::Int32, None)],
        )],
        ..FileDescriptorProto::default()
    };
    let mut entry = message("MEntry", vec![field("key", 1, one, Type::String, None), field("value", 2, one, Type::Double, None)]);
    entry.options = Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() });
    let mut optional = field("s", 2, one, Type::String, None);
    (optional.proto3_optional, optional.oneof_index) = (Some(true), Some(1));
    let (mut x, mut y) = (field("x", 8, one, Type::Bytes, None), field("y", 9, one, Type::Fixed32, None));
    (x.oneof_index, y.oneof_index) = (Some(0), Some(0));
    let mut row = message(
        "Row",
        vec![
            field("a", 1, one, Type::Int64, None),
            optional,
            field("l", 3, many, Type::Sint64, None),
            field("at", 4, one, Type::Message, Some(".google.protobuf.Timestamp")),
            field("kind", 5, one, Type::Enum, Some(".fuzz.Kind")),
            field("names", 6, many, Type::String, None),
            field("m", 7, many, Type::Message, Some(".fuzz.Row.MEntry")),
            x,
            y,
        ],
    );
    row.nested_type = vec![entry];
    row.oneof_decl = ["one", "_s"].map(|name| OneofDescriptorProto { name: Some(name.into()), options: None }).into();
    let none = EnumValueDescriptorProto { name: Some("NONE".into()), number: Some(0), options: None };
    let file = FileDescriptorProto {
        name: Some("fuzz.proto".into()),
        package: Some("fuzz".into()),
        syntax: Some("proto3".into()),
        dependency: vec!["google/protobuf/timestamp.proto".into()],
        message_type: vec![row],
        enum_type: vec![EnumDescriptorProto { name: Some("Kind".into()), value: vec![none], ..EnumDescriptorProto::default() }],
        ..FileDescriptorProto::default()
    };
    FileDescriptorSet { file: vec![timestamp, file] }.encode_to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_descriptor_set_is_one() {
        let format = ProtobufFormat::new(&descriptor_set(), "fuzz.Row", ProtobufFraming::Bare).unwrap();
        assert_eq!(format.schema().unwrap().fields().len(), 9);
        assert!(crate::decode::avro::schema_of(AVRO).is_err(), "a record that holds itself is no column");
        for column in COLUMNS {
            let declared = Arc::new(Schema::new(vec![Field::new(column.0, types::parse(column.1).unwrap(), true)]));
            let format = AvroFormat::new(AVRO, AvroFraming::Bare);
            MessageDecoder::new(MessageFormat::Avro(format), Wanted::all(declared), &[], Tombstones::Drop).unwrap();
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_fed_breaks_a_promise(input in prop::collection::vec(any::<u8>(), 0..200)) {
            json(&input);
            csv(&input);
            avro(&input);
            protobuf(&input);
        }

        #[test]
        fn small_numbers_reach_further_into_binary_formats(input in prop::collection::vec(prop::sample::select(vec![0u8, 1, 2, 3, 4, 6, 8, 0x0A, 0x12, 0x1A, 0x22, 0x2A, 0x32, 0x3A, b'a', 0x7F, 0x80, 0xFF]), 0..60)) {
            avro(&input);
            protobuf(&input);
        }
    }
}

//! What goes into a format comes out of it unchanged: integers to their last digit, decimals of 38 digits, times of the years 1 to
//! 9999 in every unit, with a zone and without, texts of any characters, bytes, lists and structs, null and empty.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Decimal256Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, ListArray, RecordBatch, StringViewArray, StructArray, Time32MillisecondArray, Time32SecondArray,
    Time64MicrosecondArray, Time64NanosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array, UInt64Array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Fields, Int64Type, Schema, SchemaRef, i256};
use proptest::prelude::*;
use std::sync::Arc;
use tidegate_connectors::decode::avro::{AvroContainer, AvroFormat, AvroFraming};
use tidegate_connectors::decode::csv::{CsvDecoder, CsvFormat};
use tidegate_connectors::decode::json::JsonDecoder;
use tidegate_connectors::decode::protobuf::{ProtobufFormat, ProtobufFraming};
use tidegate_connectors::decode::{Decoder, Message, MessageDecoder, MessageFormat, Tombstones, Wanted};
use tidegate_connectors::encode::{
    ArrowMessages, AvroEncoder, AvroHeader, AvroMessages, CsvEncoder, CsvMessages, Encoder, JsonEncoder, JsonMessages, MessageEncoder,
    ProtobufMessages, RawMessages, TextOptions,
};

/// Seconds from 1970 to the first moment of the year 1, and to the last of the year 9999.
const YEARS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z]{0,8}", "[\u{0}-\u{20}\"\\\\,;\r\n'{}é€\u{1F600}]{0,20}", "\\PC{0,30}", Just("\u{feff}".to_string())]
}

fn wide(extremes: [i64; 3]) -> impl Strategy<Value = i64> {
    prop_oneof![prop::sample::select(extremes.to_vec()), any::<i64>()]
}

fn digits(most: u32) -> impl Strategy<Value = i128> {
    let limit = 10i128.pow(most) - 1;
    prop_oneof![Just(limit), Just(-limit), Just(0), -limit..=limit, -1000i128..1000]
}

/// One row of every type that pipelines have.
#[derive(Debug, Clone)]
struct Row {
    flag: Option<bool>,
    integers: (Option<i8>, Option<i16>, Option<i32>, Option<i64>),
    unsigned: (Option<u8>, Option<u16>, Option<u32>, Option<u64>),
    floats: (Option<f32>, Option<f64>),
    decimals: (Option<i128>, Option<i128>, Option<i128>),
    text: Option<String>,
    bytes: Option<Vec<u8>>,
    day: Option<i32>,
    seconds: Option<i64>,
    part: u32,
    clock: Option<i64>,
    items: Option<Vec<Option<i64>>>,
    inner: Option<(Option<i64>, Option<String>)>,
}

fn row() -> impl Strategy<Value = Row> {
    let floats = (
        prop::option::of(any::<f32>()),
        prop::option::of(prop_oneof![
            any::<f64>(),
            prop::sample::select(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, f64::MIN_POSITIVE, f64::MAX])
        ]),
    );
    let integers = (
        any::<Option<i8>>(),
        any::<Option<i16>>(),
        any::<Option<i32>>(),
        prop::option::of(wide([i64::MIN, i64::MAX, 1_234_567_890_123_456_789])),
    );
    let unsigned =
        (any::<Option<u8>>(), any::<Option<u16>>(), any::<Option<u32>>(), prop::option::of(prop_oneof![Just(u64::MAX), any::<u64>()]));
    let decimals = (prop::option::of(digits(38)), prop::option::of(digits(10)), prop::option::of(digits(38)));
    let seconds = prop_oneof![Just(*YEARS.start()), Just(*YEARS.end()), YEARS];
    let inner = (any::<Option<i64>>(), prop::option::of(text()));
    (
        (any::<Option<bool>>(), integers, unsigned, floats, decimals),
        (prop::option::of(text()), prop::option::of(prop::collection::vec(any::<u8>(), 0..20)), prop::option::of(-719_162i32..=2_932_896)),
        (prop::option::of(seconds), 0u32..1_000_000_000, prop::option::of(0i64..86_400_000_000_000)),
        (prop::option::of(prop::collection::vec(any::<Option<i64>>(), 0..4)), prop::option::of(inner)),
    )
        .prop_map(|((flag, integers, unsigned, floats, decimals), (text, bytes, day), (seconds, part, clock), (items, inner))| Row {
            flag,
            integers,
            unsigned,
            floats,
            decimals,
            text,
            bytes,
            day,
            seconds,
            part,
            clock,
            items,
            inner,
        })
}

/// The rows as a batch of a column of every type.
fn batch(rows: &[Row]) -> RecordBatch {
    macro_rules! column {
        ($array:ty, $get:expr) => {
            Arc::new(rows.iter().map($get).collect::<$array>()) as ArrayRef
        };
    }
    let utc = || Some(Arc::<str>::from("UTC"));
    // A nanosecond reaches from 1677 to 2262 only.
    let near = |row: &Row| row.seconds.map(|seconds| seconds % 9_000_000_000);
    let decimal = |of: fn(&Row) -> Option<i128>, precision, scale| {
        let array = rows.iter().map(of).collect::<Decimal128Array>().with_precision_and_scale(precision, scale).unwrap();
        Arc::new(array) as ArrayRef
    };
    let long: Decimal256Array =
        rows.iter().map(|row| row.decimals.2.map(|value| i256::from_i128(value) * i256::from_i128(1_000))).collect();
    let inner_fields = Fields::from(vec![Field::new("x", DataType::Int64, true), Field::new("y", DataType::Utf8View, true)]);
    let inner = StructArray::new(
        inner_fields,
        vec![
            column!(Int64Array, |row| row.inner.as_ref().and_then(|inner| inner.0)),
            column!(StringViewArray, |row| row.inner.as_ref().and_then(|inner| inner.1.as_deref())),
        ],
        Some(rows.iter().map(|row| row.inner.is_some()).collect::<NullBuffer>()),
    );
    let items = ListArray::from_iter_primitive::<Int64Type, _, _>(rows.iter().map(|row| row.items.clone()));
    let structs = ListArray::new(
        Arc::new(Field::new_list_field(inner.data_type().clone(), true)),
        OffsetBuffer::from_lengths(rows.iter().map(|_| 1)),
        Arc::new(inner.clone()),
        None,
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("flag", column!(BooleanArray, |row| row.flag)),
        ("i8", column!(Int8Array, |row| row.integers.0)),
        ("i16", column!(Int16Array, |row| row.integers.1)),
        ("i32", column!(Int32Array, |row| row.integers.2)),
        ("i64", column!(Int64Array, |row| row.integers.3)),
        ("u8", column!(UInt8Array, |row| row.unsigned.0)),
        ("u16", column!(UInt16Array, |row| row.unsigned.1)),
        ("u32", column!(UInt32Array, |row| row.unsigned.2)),
        ("u64", column!(UInt64Array, |row| row.unsigned.3)),
        ("f32", column!(Float32Array, |row| row.floats.0)),
        ("f64", column!(Float64Array, |row| row.floats.1)),
        ("d38", decimal(|row| row.decimals.0, 38, 9)),
        ("d10", decimal(|row| row.decimals.1, 10, 2)),
        ("d60", Arc::new(long.with_precision_and_scale(60, 20).unwrap())),
        ("text", column!(StringViewArray, |row| row.text.as_deref())),
        ("bytes", column!(BinaryArray, |row| row.bytes.as_deref())),
        ("day", column!(Date32Array, |row| row.day)),
        ("t0", column!(Time32SecondArray, |row| row.clock.map(|nanos| (nanos / 1_000_000_000) as i32))),
        ("t3", column!(Time32MillisecondArray, |row| row.clock.map(|nanos| (nanos / 1_000_000) as i32))),
        ("t6", column!(Time64MicrosecondArray, |row| row.clock.map(|nanos| nanos / 1_000))),
        ("t9", column!(Time64NanosecondArray, |row| row.clock)),
        ("s0", column!(TimestampSecondArray, |row| row.seconds)),
        ("s3", column!(TimestampMillisecondArray, |row| row.seconds.map(|at| at * 1_000 + i64::from(row.part / 1_000_000)))),
        ("s6", column!(TimestampMicrosecondArray, |row| row.seconds.map(|at| at * 1_000_000 + i64::from(row.part / 1_000)))),
        ("s9", column!(TimestampNanosecondArray, |row| near(row).map(|at| at * 1_000_000_000 + i64::from(row.part)))),
        (
            "z3",
            Arc::new(
                rows.iter().map(|row| row.seconds.map(|at| at * 1_000)).collect::<TimestampMillisecondArray>().with_timezone_opt(utc()),
            ),
        ),
        (
            "z6",
            Arc::new(
                rows.iter()
                    .map(|row| row.seconds.map(|at| at * 1_000_000 + i64::from(row.part / 1_000)))
                    .collect::<TimestampMicrosecondArray>()
                    .with_timezone("Europe/Copenhagen"),
            ),
        ),
        ("items", Arc::new(items)),
        ("inner", Arc::new(inner)),
        ("structs", Arc::new(structs)),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

/// Without the columns that a format cannot hold.
fn without(rows: &RecordBatch, left_out: impl Fn(&Field) -> bool) -> RecordBatch {
    let kept: Vec<usize> = (0..rows.num_columns()).filter(|index| !left_out(rows.schema_ref().field(*index))).collect();
    rows.project(&kept).unwrap()
}

/// Everything that a stream of bytes holds.
fn read(decoder: &mut dyn Decoder, schema: &SchemaRef, bytes: &[u8]) -> RecordBatch {
    let mut at = decoder.begin(bytes, true).unwrap().unwrap();
    let mut batches = Vec::new();
    while at < bytes.len() {
        let decoded = decoder.decode(&bytes[at..], true, 3).unwrap();
        assert_eq!(decoded.bad, []);
        assert!(decoded.consumed > 0 || decoded.records > 0, "a call inside of a block answers records");
        at += decoded.consumed;
        batches.push(decoded.rows);
    }
    concat_batches(schema, &batches).unwrap()
}

/// What an encoder makes of rows and a decoder of that.
fn through_messages(format: MessageFormat, encoder: &mut dyn MessageEncoder, rows: &RecordBatch) -> RecordBatch {
    let encoded = encoder.encode(rows).unwrap();
    assert_eq!(encoded.refused, []);
    let messages: Vec<Message<'_>> = encoded.iter().map(|message| Message::new(Some(message))).collect();
    let mut decoder = MessageDecoder::new(format, Wanted::all(rows.schema()), &[], Tombstones::Drop).unwrap();
    let decoded = decoder.decode(&messages).unwrap();
    assert_eq!(decoded.bad, []);
    decoded.rows
}

/// Equal, and as debug text too: of two NaN that is all that can be said.
fn same(left: &RecordBatch, right: &RecordBatch) {
    assert_eq!(left.schema(), right.schema());
    for (index, field) in left.schema_ref().fields().iter().enumerate() {
        assert_eq!(format!("{:?}", left.column(index)), format!("{:?}", right.column(index)), "column `{}`", field.name());
    }
}

const PROTO: &str = r#"
syntax = "proto3";
package test;
import "google/protobuf/timestamp.proto";
message Inner { optional int64 x = 1; optional string y = 2; }
message Row {
  optional bool flag = 1;
  optional sint32 i8 = 2; optional int32 i16 = 3; optional sfixed32 i32 = 4; optional sint64 i64 = 5;
  optional uint32 u8 = 6; optional fixed32 u16 = 7; optional uint32 u32 = 8; optional fixed64 u64 = 9;
  optional float f32 = 10; optional double f64 = 11;
  optional string d38 = 12; optional string d10 = 13; optional string d60 = 14;
  optional string text = 15; optional bytes bytes = 16;
  optional int32 day = 17;
  optional int32 t0 = 18; optional string t3 = 19; optional int64 t6 = 20; optional string t9 = 21;
  optional int64 s0 = 22; google.protobuf.Timestamp s3 = 23; google.protobuf.Timestamp s6 = 24; optional fixed64 unused = 25;
  google.protobuf.Timestamp z3 = 26; optional string z6 = 27; optional sfixed64 s9 = 28;
  Inner inner = 29; repeated int64 items = 130; repeated Inner structs = 131;
}
"#;

fn protobuf(framing: ProtobufFraming) -> ProtobufFormat {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("row.proto"), PROTO).unwrap();
    let set =
        protox::Compiler::new([folder.path()]).unwrap().include_imports(true).open_file("row.proto").unwrap().encode_file_descriptor_set();
    ProtobufFormat::new(&set, "test.Row", framing).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn every_type_passes_through_json(rows in prop::collection::vec(row(), 1..8), as_text in any::<bool>()) {
        let rows = batch(&rows);
        let options = TextOptions { int64_as_text: as_text, epoch_ms: false };
        same(&through_messages(MessageFormat::Json, &mut JsonMessages::new(options), &rows), &rows);
        let mut encoder = JsonEncoder::new(rows.schema(), options);
        encoder.write(&rows).unwrap();
        let bytes = encoder.finish().unwrap();
        same(&read(&mut JsonDecoder::new(Wanted::all(rows.schema())).unwrap(), &rows.schema(), &bytes), &rows);
        // The text is JSON to others too.
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            prop_assert!(serde_json::from_slice::<serde_json::Value>(line).unwrap().is_object());
        }
    }

    #[test]
    fn every_type_that_csv_has_passes_through_it(rows in prop::collection::vec(row(), 1..8)) {
        let rows = without(&batch(&rows), |field| field.data_type().is_nested());
        same(&through_messages(MessageFormat::Csv(CsvFormat::default()), &mut CsvMessages::new(rows.schema(), TextOptions::default()).unwrap(), &rows), &rows);
        let mut encoder = CsvEncoder::new(rows.schema(), TextOptions::default(), true).unwrap();
        encoder.write(&rows).unwrap();
        let bytes = encoder.finish().unwrap();
        let mut decoder = CsvDecoder::new(CsvFormat::default(), Wanted::all(rows.schema())).unwrap();
        same(&read(&mut decoder, &rows.schema(), &bytes), &rows);
    }

    #[test]
    fn every_type_passes_through_avro(rows in prop::collection::vec(row(), 1..8), deflate in any::<bool>()) {
        let rows = batch(&rows);
        let mut encoder = AvroEncoder::new(&rows.schema(), deflate).unwrap();
        encoder.write(&rows).unwrap();
        encoder.write(&rows).unwrap();
        let bytes = encoder.finish().unwrap();
        let twice = concat_batches(&rows.schema(), [&rows, &rows]).unwrap();
        same(&read(&mut AvroContainer::new(Wanted::all(rows.schema())).unwrap(), &rows.schema(), &bytes), &twice);
        for (header, framing) in [(AvroHeader::Bare, AvroFraming::Bare), (AvroHeader::SingleObject, AvroFraming::SingleObject)] {
            let mut encoder = AvroMessages::new(&rows.schema(), header).unwrap();
            let format = AvroFormat::new(encoder.schema_json(), framing);
            same(&through_messages(MessageFormat::Avro(format), &mut encoder, &rows), &rows);
        }
        let mut encoder = AvroMessages::new(&rows.schema(), AvroHeader::Registry(7)).unwrap();
        let format = AvroFormat::registry([(7, encoder.schema_json().to_string())]);
        same(&through_messages(MessageFormat::Avro(format), &mut encoder, &rows), &rows);
    }

    #[test]
    fn every_type_passes_through_arrow(rows in prop::collection::vec(row(), 1..8)) {
        let rows = batch(&rows);
        same(&through_messages(MessageFormat::Arrow, &mut ArrowMessages, &rows), &rows);
    }

    #[test]
    fn raw_values_are_what_they_are(values in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6)) {
        let rows = RecordBatch::try_from_iter([("value", Arc::new(BinaryArray::from_iter_values(&values)) as ArrayRef)]).unwrap();
        same(&through_messages(MessageFormat::Raw, &mut RawMessages::new(&rows.schema()).unwrap(), &rows), &rows);
    }
}

#[test]
fn every_type_passes_through_protobuf() {
    let formats = [protobuf(ProtobufFraming::Bare), protobuf(ProtobufFraming::Registry)];
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases: 150, ..ProptestConfig::default() });
    let run = runner.run(&prop::collection::vec(row(), 1..8), |mut rows| {
        for row in &mut rows {
            // Lists cannot be null, and hold no null.
            row.items = Some(row.items.take().unwrap_or_default().into_iter().flatten().map(Some).collect());
            row.inner.get_or_insert((None, None));
        }
        let rows = batch(&rows);
        for format in &formats {
            let mut encoder = ProtobufMessages::new(&rows.schema(), format, 9).unwrap();
            same(&through_messages(MessageFormat::Protobuf(format.clone()), &mut encoder, &rows), &rows);
        }
        Ok(())
    });
    run.unwrap();
}

//! Decoders against the rules they promise, and against each other however the input is cut.

use super::csv::{CsvDecoder, CsvFormat};
use super::json::JsonDecoder;
use super::{Decoded, Decoder, Wanted, infer};
use crate::encode::{CsvEncoder, Encoder, JsonEncoder, TextOptions};
use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimestampMillisecondType, UInt8Type};
use proptest::prelude::*;
use std::sync::Arc;
use tidegate_api::{BadReason, types};

fn schema(columns: &[(&str, &str)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(name, kind)| Field::new(*name, types::parse(kind).unwrap(), true)).collect::<Vec<_>>()))
}

/// Decodes everything, handing over `step` more bytes whenever more are needed, `max_rows` records at a time.
fn decode_all(decoder: &mut dyn Decoder, input: &[u8], step: usize, max_rows: usize) -> Decoded {
    let mut end = 0;
    let mut at = loop {
        if let Some(header) = decoder.begin(&input[..end], end == input.len()).unwrap() {
            break header;
        }
        assert!(end < input.len(), "the beginning is never whole");
        end = (end + step).min(input.len());
    };
    let (mut batches, mut bad, mut records) = (Vec::new(), Vec::new(), 0);
    let schema = decoder.decode(&[], true, 1).unwrap().rows.schema();
    while at < input.len() {
        end = end.max(at);
        let decoded = decoder.decode(&input[at..end], end == input.len(), max_rows).unwrap();
        if decoded.consumed == 0 {
            assert!(end < input.len(), "the end is never reached");
            end = (end + step).min(input.len());
        }
        assert!(decoded.records <= max_rows);
        assert_eq!(decoded.rows.num_rows() + decoded.bad.len(), decoded.records);
        batches.push(decoded.rows);
        bad.extend(decoded.bad.into_iter().map(|mut row| {
            row.record += records;
            row.offset += at;
            row
        }));
        records += decoded.records;
        at += decoded.consumed;
    }
    Decoded { rows: concat_batches(&schema, &batches).unwrap(), bad, rescued: 0, records, consumed: at }
}

fn csv(columns: &[(&str, &str)], text: &str) -> Decoded {
    let mut decoder = CsvDecoder::new(CsvFormat::default(), Wanted::all(schema(columns))).unwrap();
    decode_all(&mut decoder, text.as_bytes(), 1 << 20, 1 << 20)
}

fn json(columns: &[(&str, &str)], text: &str) -> Decoded {
    let mut decoder = JsonDecoder::new(Wanted::all(schema(columns))).unwrap();
    decode_all(&mut decoder, text.as_bytes(), 1 << 20, 1 << 20)
}

fn texts(batch: &RecordBatch, column: usize) -> Vec<Option<&str>> {
    batch.column(column).as_string_view().iter().collect()
}

fn integers(batch: &RecordBatch, column: usize) -> Vec<Option<i64>> {
    batch.column(column).as_primitive::<Int64Type>().iter().collect()
}

fn reasons(decoded: &Decoded) -> Vec<(usize, BadReason)> {
    decoded.bad.iter().map(|bad| (bad.record, bad.row.reason)).collect()
}

#[test]
fn quotes_protect_delimiters_line_ends_and_quotes() {
    let text = "\u{feff}a,b\r\n\"x,y\",1\r\n\"two\r\nlines\",2\r\n\"say \"\"hi\"\"\",3\r\nin \"the\" middle,4\n\n\"\",5\n,6\n\"tail\"ed,7";
    let decoded = csv(&[("a", "string"), ("b", "int64")], text);
    let expected = [Some("x,y"), Some("two\r\nlines"), Some("say \"hi\""), Some("in \"the\" middle"), Some(""), None, Some("tailed")];
    assert_eq!(texts(&decoded.rows, 0), expected);
    assert_eq!(integers(&decoded.rows, 1), (1..=7).map(Some).collect::<Vec<_>>());
    assert!(decoded.bad.is_empty());
}

#[test]
fn columns_are_matched_by_name_and_others_are_not_decoded() {
    let decoded = csv(&[("c", "int64"), ("a", "string")], "a,b,c\nx,not a number,1\n");
    assert_eq!(integers(&decoded.rows, 0), [Some(1)]);
    assert_eq!(texts(&decoded.rows, 1), [Some("x")]);
    let mut decoder = CsvDecoder::new(CsvFormat::default(), Wanted::all(schema(&[("colour", "string")]))).unwrap();
    let error = decoder.begin(b"a,color\n", true).unwrap_err();
    assert_eq!(error.message(), "the header has no column `colour`, did you mean `color`?");
}

#[test]
fn a_bad_record_costs_only_itself() {
    let text = "a,b\n1,1\n2,256\n3\n4,4,4\nx,5\n9223372036854775808,6\n1.5,7\n3e2,8\n\"9";
    let decoded = csv(&[("a", "int64"), ("b", "uint8")], text);
    assert_eq!(integers(&decoded.rows, 0), [Some(1), Some(300)]);
    assert_eq!(decoded.rows.column(1).as_primitive::<UInt8Type>().values(), &[1, 8]);
    let (malformed, mismatch) = (BadReason::Malformed, BadReason::TypeMismatch);
    assert_eq!(
        reasons(&decoded),
        [(1, mismatch), (2, malformed), (3, malformed), (4, mismatch), (5, mismatch), (6, mismatch), (8, malformed)]
    );
    assert_eq!(decoded.bad[0].row.raw, b"2,256");
    assert_eq!(decoded.bad[0].offset, 8);
    assert_eq!(decoded.bad[0].row.message, "column `b`: `256` is not a `uint8`");
    assert_eq!(decoded.records, 9);
}

#[test]
fn text_that_is_not_utf8_makes_its_record_bad() {
    let mut decoder = CsvDecoder::new(CsvFormat::default(), Wanted::all(schema(&[("a", "string")]))).unwrap();
    let decoded = decode_all(&mut decoder, b"a\nx\n\xff\ny\n", 3, 10);
    assert_eq!(texts(&decoded.rows, 0), [Some("x"), Some("y")]);
    assert_eq!(reasons(&decoded), [(1, BadReason::Malformed)]);
}

#[test]
fn null_values_are_null_in_every_type_and_a_required_column_refuses_them() {
    let format = CsvFormat { null_values: vec!["NA".into(), String::new()], ..CsvFormat::default() };
    let fields = vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Utf8View, false)];
    let mut decoder = CsvDecoder::new(format, Wanted::all(Arc::new(Schema::new(fields)))).unwrap();
    let decoded = decode_all(&mut decoder, b"a,b\nNA,x\n\"NA\",y\n3,NA\n4,\"NA\"\n", 100, 10);
    assert_eq!(integers(&decoded.rows, 0), [None, None, Some(4)]);
    assert_eq!(texts(&decoded.rows, 1), [Some("x"), Some("y"), Some("NA")]);
    assert_eq!(reasons(&decoded), [(2, BadReason::MissingValue)]);
}

#[test]
fn without_a_header_the_columns_are_the_schemas() {
    let format = CsvFormat { header: false, delimiter: b';', ..CsvFormat::default() };
    let declared = schema(&[("a", "int64"), ("b", "string"), ("c", "int64")]);
    let mut decoder = CsvDecoder::new(format, Wanted::some(declared, |column| column != "a")).unwrap();
    let decoded = decode_all(&mut decoder, b"1;x;3\n4;y;6\n", 2, 10);
    assert_eq!(texts(&decoded.rows, 0), [Some("x"), Some("y")]);
    assert_eq!(integers(&decoded.rows, 1), [Some(3), Some(6)]);
}

#[test]
fn json_numbers_are_exact_or_bad() {
    let text = "{\"a\":9007199254740993,\"b\":255}\n{\"a\":1,\"b\":999}\n\n{\"a\":1.5,\"b\":1}\n{\"a\":\"12\",\"b\":2.0,\"c\":[]}\n{\"a\":-9223372036854775808}\n{\"a\":9223372036854775808}";
    let decoded = json(&[("a", "int64"), ("b", "uint8")], text);
    assert_eq!(integers(&decoded.rows, 0), [Some(9_007_199_254_740_993), Some(12), Some(i64::MIN)]);
    assert_eq!(decoded.rows.column(1).as_primitive::<UInt8Type>().iter().collect::<Vec<_>>(), [Some(255), Some(2), None]);
    let mismatch = BadReason::TypeMismatch;
    assert_eq!(reasons(&decoded), [(1, mismatch), (2, mismatch), (5, mismatch)]);
    assert_eq!(decoded.bad[0].row.raw, b"{\"a\":1,\"b\":999}");
    assert_eq!(decoded.records, 6);
}

#[test]
fn a_broken_line_of_json_costs_only_itself() {
    let lines = [
        "{\"a\":1}",
        "{\"a\":",
        "not json",
        "{\"a\":2} {\"a\":3}",
        "5",
        "[1]",
        "null",
        "{\"a\":{\"b\":1}}",
        "  {\"a\":4}  ",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":5}}",
        "{\"a\":6}",
    ];
    let decoded = json(&[("a", "int64")], &lines.join("\n"));
    assert_eq!(integers(&decoded.rows, 0), [Some(1), Some(4), Some(6)]);
    assert_eq!(decoded.bad.iter().map(|bad| bad.record).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 9, 10]);
    for bad in &decoded.bad {
        assert_eq!(bad.row.raw, lines[bad.record].as_bytes());
    }
}

#[test]
fn json_nested_too_deep_costs_only_its_line() {
    let nested = |open: &str, close: &str, levels: usize, core: &str| format!("{}{core}{}", open.repeat(levels), close.repeat(levels));
    let brackets = format!("{{\"a\":2,\"s\":\"{}\"}}", "[\\\"{".repeat(1_000));
    let lines = [
        "{\"a\":1}".to_string(),
        format!("{{\"a\":{}}}", nested("[", "]", 30_000, "")),
        format!("{{\"a\":{}", "[".repeat(30_000)),
        format!("{{\"a\":{}}}", nested("{\"a\":", "}", 150_000, "1")),
        format!("{{\"other\":{}}}", nested("[{\"a\":", "}]", 30_000, "1")),
        brackets,
        format!("{{\"a\":3,\"other\":{}}}", nested("[", "]", 127, "")),
        format!("{{\"a\":3,\"other\":{}}}", nested("[", "]", 128, "")),
        format!("{{\"a\":4,\"other\":[{}]}}", vec!["[]"; 1_000].join(",")),
    ];
    for columns in [vec![("a", "int64")], vec![("a", "int64"), ("s", "string")], vec![("a", "int64"), ("other", "list<list<int64>>")]] {
        let decoded = json(&columns, &lines.join("\n"));
        assert_eq!(decoded.rows.num_rows() + decoded.bad.len(), lines.len());
        for line in [1, 2, 3, 4, 7] {
            let bad = decoded.bad.iter().find(|bad| bad.record == line).unwrap();
            assert_eq!(bad.row.reason, BadReason::Malformed);
            assert_eq!(bad.row.message, "values are nested deeper than 128 levels");
        }
        if columns.len() == 1 {
            assert_eq!(integers(&decoded.rows, 0), [Some(1), Some(2), Some(3), Some(4)]);
        }
    }
    let decoded = json(&[("a", "list<int64>")], &lines[1]);
    assert_eq!(reasons(&decoded), [(0, BadReason::Malformed)]);
}

#[test]
fn a_batch_of_bad_lines_alone_needs_no_stack() {
    let text = "broken\n".repeat(100_000);
    let decoded = json(&[("a", "int64")], &text);
    assert_eq!((decoded.rows.num_rows(), decoded.bad.len()), (0, 100_000));
}

#[test]
fn json_has_lists_structs_timestamps_and_decimals() {
    let columns =
        [("l", "list<int64>"), ("s", "struct<x: string, y: float64>"), ("t", "timestamp_ms"), ("d", "decimal(10,2)"), ("f", "bool")];
    let text = "{\"l\":[1,2],\"s\":{\"x\":\"é\",\"y\":0.5},\"t\":\"2013-01-01T10:00:00Z\",\"d\":1.25,\"f\":true}\n\
                {\"l\":null,\"t\":1357034400000,\"d\":\"3\",\"f\":\"false\"}\n{\"d\":0.125}\n{\"l\":[\"x\"]}\n";
    let decoded = json(&columns, text);
    assert_eq!(decoded.rows.num_rows(), 2);
    assert_eq!(decoded.rows.column(2).as_primitive::<TimestampMillisecondType>().values(), &[1_357_034_400_000, 1_357_034_400_000]);
    assert_eq!(decoded.rows.column(0).as_list::<i32>().value(0).as_primitive::<Int64Type>().values(), &[1, 2]);
    assert_eq!(decoded.rows.column(1).as_struct().column(0).as_string_view().value(0), "é");
    assert_eq!(reasons(&decoded), [(2, BadReason::TypeMismatch), (3, BadReason::TypeMismatch)]);
}

#[test]
fn a_line_is_checked_even_if_nobody_reads_its_columns() {
    let declared = schema(&[("a", "string"), ("b", "int64")]);
    let mut decoder = JsonDecoder::new(Wanted::some(Arc::clone(&declared), |_| false)).unwrap();
    let decoded = decode_all(&mut decoder, b"{\"a\":\"x\"}\nbroken\n{}\n", 4, 2);
    assert_eq!((decoded.rows.num_rows(), decoded.rows.num_columns(), decoded.bad.len()), (2, 0, 1));
    let mut decoder = CsvDecoder::new(CsvFormat::default(), Wanted::some(declared, |_| false)).unwrap();
    let decoded = decode_all(&mut decoder, b"a,b\nx,1\nbroken\ny,2\n", 4, 2);
    assert_eq!((decoded.rows.num_rows(), decoded.rows.num_columns(), decoded.bad.len()), (2, 0, 1));
}

#[test]
fn a_schema_is_guessed_from_a_sample() {
    let format = CsvFormat { null_values: vec!["NA".into(), String::new()], ..CsvFormat::default() };
    let text = "i,f,t,d,b,s,zip,n\n1,1,2013-01-01T10:00:00Z,2013-01-01,true,x,01234,NA\nNA,2.5,2013-01-01 11:00:00,NA,false,1,02345,\n";
    let guessed = infer::csv(&format, text.as_bytes(), true, 100).unwrap();
    let names: Vec<String> = guessed.fields().iter().map(|field| types::name(field.data_type())).collect();
    assert_eq!(names, ["int64", "float64", "timestamp_ms", "date", "bool", "string", "string", "string"]);
    let text = "{\"a\":1,\"b\":\"x\",\"c\":[1],\"d\":null}\n{\"a\":2.5,\"b\":null}\nbroken\n{\"a\":";
    let guessed = infer::json(text.as_bytes(), false, 100).unwrap();
    let names: Vec<String> = guessed.fields().iter().map(|field| types::name(field.data_type())).collect();
    assert_eq!(names, ["float64", "string", "list<int64>", "string"]);
    assert!(infer::csv(&format, b"", true, 100).unwrap_err().to_string().contains("schema"));
    assert!(infer::json(b"[]\n", true, 100).unwrap_err().to_string().contains("schema"));
}

proptest! {
    #[test]
    fn rows_survive_encoding_and_any_cut(
        rows in prop::collection::vec((any::<Option<i64>>(), prop::option::of("[a-zé,\"\r\n 1]{0,6}")), 0..30),
        step in 1usize..50,
        max_rows in 1usize..10,
    ) {
        let made = schema(&[("a", "int64"), ("b", "string")]);
        let a: Int64Array = rows.iter().map(|row| row.0).collect();
        let b: StringViewArray = rows.iter().map(|row| row.1.as_deref()).collect();
        let batch = RecordBatch::try_new(Arc::clone(&made), vec![Arc::new(a), Arc::new(b)]).unwrap();
        let mut encoder = CsvEncoder::new(Arc::clone(&made), TextOptions::default(), true).unwrap();
        encoder.write(&batch).unwrap();
        let text = encoder.finish().unwrap();
        let mut decoder = CsvDecoder::new(CsvFormat::default(), Wanted::all(Arc::clone(&made))).unwrap();
        let decoded = decode_all(&mut decoder, &text, step, max_rows);
        prop_assert_eq!(&decoded.rows, &batch);
        prop_assert!(decoded.bad.is_empty());

        let mut encoder = JsonEncoder::new(Arc::clone(&made), TextOptions { int64_as_text: step % 2 == 0, epoch_ms: false });
        encoder.write(&batch).unwrap();
        let text = encoder.finish().unwrap();
        prop_assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), rows.len());
        let mut decoder = JsonDecoder::new(Wanted::all(made)).unwrap();
        let decoded = decode_all(&mut decoder, &text, step, max_rows);
        prop_assert_eq!(&decoded.rows, &batch);
    }

    #[test]
    fn any_bytes_decode_the_same_however_they_are_cut(
        input in prop::collection::vec(prop::sample::select(b"a1,\"\r\n{}:[] \xff".to_vec()), 0..60),
        step in 1usize..20,
        max_rows in 1usize..5,
    ) {
        let declared = schema(&[("a", "string"), ("b", "int64")]);
        let format = CsvFormat { header: false, ..CsvFormat::default() };
        let make = || -> [Box<dyn Decoder>; 2] {
            [Box::new(CsvDecoder::new(format.clone(), Wanted::all(Arc::clone(&declared))).unwrap()), Box::new(JsonDecoder::new(Wanted::all(Arc::clone(&declared))).unwrap())]
        };
        for (mut whole, mut cut) in make().into_iter().zip(make()) {
            let whole = decode_all(whole.as_mut(), &input, 1000, 1000);
            let cut = decode_all(cut.as_mut(), &input, step, max_rows);
            prop_assert_eq!(whole.rows, cut.rows);
            prop_assert_eq!(whole.bad, cut.bad);
            prop_assert_eq!(whole.records, cut.records);
        }
    }
}

#[test]
fn a_text_column_takes_scalars_as_their_text() {
    let decoded = json(&[("a", "string")], "{\"a\":\"a text longer than twelve bytes\"}\n{\"a\":7}\n{\"a\":true}\n{}\n");
    assert_eq!(texts(&decoded.rows, 0), [Some("a text longer than twelve bytes"), Some("7"), Some("true"), None]);
    assert_eq!(decoded.rows.column(0).null_count(), 1);
}

#[test]
fn p015_a_byte_order_mark_before_a_quoted_field_does_not_split_the_row() {
    for (text, first) in [("\u{feff}\"a,b\",c\n", "a,b"), ("\u{feff}\"a\nb\",c\n", "a\nb")] {
        for step in 1..text.len() {
            let format = CsvFormat { header: false, ..CsvFormat::default() };
            let mut decoder = CsvDecoder::new(format, Wanted::all(schema(&[("x", "string"), ("y", "string")]))).unwrap();
            let decoded = decode_all(&mut decoder, text.as_bytes(), step, 10);
            assert_eq!((texts(&decoded.rows, 0), texts(&decoded.rows, 1)), (vec![Some(first)], vec![Some("c")]));
        }
    }
}

#[test]
fn p016_a_csv_record_is_one_however_long_wide_and_cut_it_is() {
    let names: Vec<String> = (0..200).map(|column| format!("c{column}")).collect();
    let declared: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "string")).collect();
    let long = "line1\nline2 ".repeat(500);
    let fields: Vec<String> = (0..200).map(|column| if column == 150 { format!("\"{long}\"") } else { column.to_string() }).collect();
    let text = format!("{}\n{}\n{}\n", names.join(","), fields.join(","), fields.join(","));
    for step in [1, 7, 1_000, 1_023, 1_024, 100_000] {
        let mut decoder =
            CsvDecoder::new(CsvFormat::default(), Wanted::some(schema(&declared), |name| name == "c150" || name == "c199")).unwrap();
        let decoded = decode_all(&mut decoder, text.as_bytes(), step, 1);
        assert_eq!(texts(&decoded.rows, 0), [Some(long.as_str()), Some(long.as_str())]);
        assert_eq!(texts(&decoded.rows, 1), [Some("199"), Some("199")]);
    }
}

#[test]
fn p017_a_line_end_of_two_bytes_may_be_cut_anywhere() {
    let text = "a,b\r\n1,x\r\n2,\"y\r\n\"\r\n3,z\r\n";
    for step in 1..text.len() {
        let mut decoder = CsvDecoder::new(CsvFormat::default(), Wanted::all(schema(&[("a", "int64"), ("b", "string")]))).unwrap();
        let decoded = decode_all(&mut decoder, text.as_bytes(), step, 1);
        assert_eq!(texts(&decoded.rows, 1), [Some("x"), Some("y\r\n"), Some("z")], "{step}");
        assert_eq!(decoded.bad, []);
    }
}

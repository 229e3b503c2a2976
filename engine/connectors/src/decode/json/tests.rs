//! The two paths against each other, and both against `serde_json`.

use super::super::{Decoded, Decoder, Wanted};
use super::{JsonDecoder, Paths};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Float64Type, Int64Type, Schema, SchemaRef};
use proptest::prelude::*;
use std::sync::Arc;
use tidegate_api::{BadReason, types};

fn schema(columns: &[(&str, &str)]) -> SchemaRef {
    Arc::new(Schema::new(columns.iter().map(|(name, kind)| Field::new(*name, types::parse(kind).unwrap(), true)).collect::<Vec<_>>()))
}

fn decode(wanted: Wanted, paths: Paths, text: &[u8]) -> Decoded {
    let mut decoder = JsonDecoder::with_paths(wanted, paths).unwrap();
    decoder.decode(text, true, usize::MAX).unwrap()
}

/// Both paths must answer the same; this is the answer.
fn both(wanted: &Wanted, text: &[u8]) -> Decoded {
    let fast = decode(wanted.clone(), Paths::Fast, text);
    let full = decode(wanted.clone(), Paths::Full, text);
    assert_eq!(fast.bad, full.bad);
    // Printed, since one NaN is not another.
    assert_eq!(format!("{:?}", fast.rows), format!("{:?}", full.rows));
    assert_eq!((fast.records, fast.consumed, fast.rescued), (full.records, full.consumed, full.rescued));
    assert_eq!(fast.rows.num_rows() + fast.bad.len(), fast.records);
    full
}

fn all(columns: &[(&str, &str)], text: &str) -> Decoded {
    both(&Wanted::all(schema(columns)), text.as_bytes())
}

fn integers(batch: &RecordBatch, column: usize) -> Vec<Option<i64>> {
    batch.column(column).as_primitive::<Int64Type>().iter().collect()
}

fn texts(batch: &RecordBatch, column: usize) -> Vec<Option<&str>> {
    batch.column(column).as_string_view().iter().collect()
}

/// Lines of one layout in front, so that it is known when the others come.
fn after_machine_lines(lines: &[&str]) -> String {
    let mut text = String::new();
    for number in 0..10 {
        text += &format!("{{\"a\":{number},\"s\":\"text {number}\",\"b\":true}}\n");
    }
    text + &lines.join("\n") + "\n"
}

#[test]
fn what_departs_from_the_layout_is_read_all_the_same() {
    let lines = [
        r#"{"a":10,"s":"x","b":false}"#,
        r#"{"a":10,"s":"x","b":false} "#,
        r#"{"a": 11,"s":"x","b":false}"#,
        r#"{"a":12,"s":"x\u00e9\n","b":false}"#,
        r#"{"a":13,"s":"é","b":null}"#,
        r#"{"a":null,"s":null,"b":1}"#,
        r#"{"s":"x","a":14}"#,
        r#"{"a":1,"s":"x","b":false,"a":15}"#,
        r#"{"a":1.6e1,"s":17,"b":"true"}"#,
        r#"{"\u0061":18}"#,
        r#"{}"#,
    ];
    let decoded = all(&[("a", "int64"), ("s", "string"), ("b", "bool")], &after_machine_lines(&lines));
    assert_eq!(decoded.bad, []);
    let a: Vec<_> = integers(&decoded.rows, 0)[10..].to_vec();
    assert_eq!(a, [Some(10), Some(10), Some(11), Some(12), Some(13), None, Some(14), Some(15), Some(16), Some(18), None]);
    let s: Vec<_> = texts(&decoded.rows, 1)[10..].to_vec();
    assert_eq!(s, [Some("x"), Some("x"), Some("x"), Some("xé\n"), Some("é"), None, Some("x"), Some("x"), Some("17"), None, None]);
}

#[test]
fn what_is_broken_is_broken_on_both_paths() {
    let lines = [
        r#"{"a":01,"s":"x","b":false}"#,
        r#"{"a":1.,"s":"x","b":false}"#,
        r#"{"a":-,"s":"x","b":false}"#,
        r#"{"a":+1,"s":"x","b":false}"#,
        r#"{"a":1,"s":"x","b":fals}"#,
        r#"{"a":1,"s":"x,"b":false}"#,
        r#"{"a":1,"s":"x\q","b":false}"#,
        r#"{"a":1,"s":"\ud800","b":false}"#,
        r#"{"a":1,"s":"\udc00\ud800","b":false}"#,
        r#"{"a":1,"s":"x","b":false"#,
        r#"{"a":1,"s":"x","b":false}}"#,
        r#"{"a":1,"s":"x","b":false,}"#,
        r#"{"a":1,"s":"x" "b":false}"#,
        r#"{"a":NaN,"s":"x","b":false}"#,
        "{\"a\":1,\"s\":\"a\ttab\",\"b\":false}",
        r#"["a",1]"#,
    ];
    for columns in [vec![("a", "int64"), ("s", "string"), ("b", "bool")], vec![("a", "int64")], vec![("zz", "string")]] {
        let decoded = all(&columns, &after_machine_lines(&lines));
        let reasons: Vec<_> = decoded.bad.iter().map(|bad| (bad.record, bad.row.reason)).collect();
        let expected: Vec<_> = (10..10 + lines.len()).map(|record| (record, BadReason::Malformed)).collect();
        assert_eq!(reasons, expected, "{columns:?}");
    }
}

#[test]
fn invalid_utf8_makes_a_line_bad_wherever_it_stands() {
    let mut text = after_machine_lines(&[]).into_bytes();
    for line in [&b"{\"a\":1,\"s\":\"\xff\",\"b\":true}\n"[..], b"{\"a\":1,\"s\":\"\xc3\",\"b\":true}\n", b"{\"\xff\":1}\n"] {
        text.extend_from_slice(line);
    }
    for columns in [[("a", "int64")], [("s", "string")]] {
        let decoded = both(&Wanted::all(schema(&columns)), &text);
        assert_eq!(decoded.bad.iter().map(|bad| bad.record).collect::<Vec<_>>(), [10, 11, 12]);
        assert!(decoded.bad.iter().all(|bad| bad.row.reason == BadReason::Malformed));
    }
}

#[test]
fn a_rescued_row_keeps_its_text_and_what_fits() {
    let wanted = Wanted::all(schema(&[("a", "int64"), ("s", "string")])).rescuing(true);
    let text = "{\"a\":1,\"s\":\"x\"}\n{\"a\":\"many\",\"s\":\"y\"}\nbroken\n";
    let decoded = both(&wanted, text.as_bytes());
    assert_eq!(decoded.bad, []);
    assert_eq!(decoded.rescued, 2);
    assert_eq!(integers(&decoded.rows, 0), [Some(1), None, None]);
    assert_eq!(texts(&decoded.rows, 1), [Some("x"), Some("y"), None]);
    assert_eq!(texts(&decoded.rows, 2), [None, Some("{\"a\":\"many\",\"s\":\"y\"}"), Some("broken")]);
    // Nobody reads the text: the rows stay all the same.
    let wanted = Wanted::all(schema(&[("a", "int64"), ("s", "string")])).rescuing(false);
    let decoded = both(&wanted, text.as_bytes());
    assert_eq!((decoded.rows.num_rows(), decoded.rows.num_columns()), (3, 2));
}

#[test]
fn a_row_that_lacks_what_is_required_is_not_rescued() {
    let declared = Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, false), Field::new("b", DataType::Int64, true)]));
    let text = b"{\"a\":1,\"b\":\"x\"}\n{\"a\":\"x\",\"b\":1}\n{\"b\":1}\nbroken\n";
    let decoded = both(&Wanted::all(declared).rescuing(true), text);
    assert_eq!(decoded.rows.num_rows(), 1);
    assert_eq!(decoded.bad.iter().map(|bad| bad.record).collect::<Vec<_>>(), [1, 2, 3]);
}

#[test]
fn p022_a_nested_value_of_the_wrong_type_costs_its_row() {
    let text = "{\"a\":[1],\"s\":{\"b\":1}}\n{\"a\":[\"x\"]}\n{\"s\":{\"b\":\"x\"}}\n{\"a\":{}}\n{\"s\":[1]}\n{\"a\":[[1]]}\n{\"a\":[null,2],\"s\":{}}\n{\"a\":3}\n";
    let decoded = all(&[("a", "list<int64>"), ("s", "struct<b: int64>")], text);
    assert_eq!(decoded.bad.iter().map(|bad| bad.record).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 7]);
    assert_eq!(decoded.bad[0].row.message, "column `a[]`: `x` is not a `int64`");
    assert_eq!(decoded.bad[1].row.message, "column `s.b`: `x` is not a `int64`");
    let list = decoded.rows.column(0).as_list::<i32>();
    assert_eq!(list.value(1).as_primitive::<Int64Type>().iter().collect::<Vec<_>>(), [None, Some(2)]);
    assert!(decoded.rows.column(1).is_valid(1));
}

#[test]
fn nested_fields_that_must_be_there_are_checked_where_their_parent_is() {
    let inner = DataType::Struct(vec![Field::new("x", DataType::Int64, false), Field::new("y", DataType::Utf8View, true)].into());
    let item = DataType::List(Arc::new(Field::new_list_field(inner.clone(), false)));
    let declared = Arc::new(Schema::new(vec![Field::new("s", inner, true), Field::new("l", item, true)]));
    let text = "{\"s\":{\"x\":1},\"l\":[{\"x\":2,\"y\":\"\\u00e9\"},{\"x\":3}]}\n{\"s\":null}\n{\"s\":{\"y\":\"z\"}}\n{\"l\":[null]}\n{\"l\":[{\"x\":\"?\"}]}\n{}\n";
    let decoded = both(&Wanted::all(declared), text.as_bytes());
    assert_eq!(decoded.bad.iter().map(|bad| bad.record).collect::<Vec<_>>(), [2, 3, 4]);
    assert_eq!(decoded.rows.num_rows(), 3);
    assert_eq!(decoded.bad[0].row.reason, BadReason::MissingValue);
}

#[test]
fn layouts_that_never_repeat_are_given_up_and_found_again() {
    let mut text = String::new();
    for number in 0..5_000 {
        text += &format!("{{\"k{number}\":1,\"a\":{number}}}\n");
    }
    for number in 5_000..20_000 {
        text += &format!("{{\"a\":{number},\"b\":1}}\n");
    }
    let decoded = all(&[("a", "int64")], &text);
    assert_eq!(integers(&decoded.rows, 0), (0..20_000).map(Some).collect::<Vec<_>>());
}

/// A value of JSON as text.
fn json_value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_filter("finite", |number| number.is_finite()).prop_map(|number| format!("{number:e}")),
        "-?[0-9]{1,22}(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,2})?",
        Just("null".to_string()),
        Just("true".to_string()),
        Just("false".to_string()),
        "[a-zé \u{1F600}]{0,20}".prop_map(|text| format!("\"{text}\"")),
        r#""(\\n|\\u00e9|\\ud83d\\ude00|\\ud800|\\"|x| ){0,6}""#,
        "[0-9T:Z+.-]{1,24}".prop_map(|text| format!("\"{text}\"")),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec(("[abs]", inner), 0..3).prop_map(|members| {
                let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\" :{value}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

/// An object as text, of few keys, so that layouts repeat now and then.
fn json_line() -> impl Strategy<Value = String> {
    let member = (prop::sample::select(vec!["a", "b", "s", "l", "o", "t", "other", "\\u0061"]), json_value());
    let object = prop::collection::vec(member, 0..6).prop_map(|members| {
        let members: Vec<_> = members.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    });
    let machine = (any::<i64>(), "[a-z]{0,30}", json_value())
        .prop_map(|(a, s, b)| format!("{{\"a\":{a},\"s\":\"{s}\",\"b\":{b},\"t\":\"2024-01-01T00:00:00Z\"}}"));
    prop_oneof![3 => machine, 2 => object]
}

/// What may happen to bytes on their way.
fn damaged(line: &mut Vec<u8>, damage: &[(prop::sample::Index, u8, u8)]) {
    for (place, kind, byte) in damage {
        if line.is_empty() {
            return;
        }
        let at = place.index(line.len());
        match kind % 4 {
            0 => line[at] = *byte,
            1 => line.insert(at, *byte),
            2 => {
                line.remove(at);
            }
            _ => line.truncate(at),
        }
    }
    line.retain(|byte| *byte != b'\n');
}

const COLUMNS: [(&str, &str); 6] = [
    ("a", "int64"),
    ("b", "float64"),
    ("s", "string"),
    ("l", "list<struct<a: int64, s: string>>"),
    ("o", "struct<a: int64, b: list<string>>"),
    ("t", "timestamp_ms"),
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn both_paths_answer_the_same(
        lines in prop::collection::vec((json_line(), prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), prop::sample::select(b"\"\\{}[]:,0e.-t \x01\xff\xc3\xa9".to_vec())), 0..2), 0u8..4), 0..40),
        kept in 0u8..64,
        rescue in any::<bool>(),
    ) {
        let mut text = Vec::new();
        for (line, damage, luck) in lines {
            let mut line = line.into_bytes();
            if luck == 0 {
                damaged(&mut line, &damage);
            }
            text.extend_from_slice(&line);
            text.push(b'\n');
        }
        let declared = schema(&COLUMNS);
        let mut wanted = Wanted::some(Arc::clone(&declared), |name| kept >> declared.index_of(name).unwrap() & 1 == 1);
        if rescue {
            wanted = wanted.rescuing(true);
        }
        both(&wanted, &text);
    }

    #[test]
    fn values_are_those_that_serde_json_reads(line in json_line(), damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), any::<u8>()), 0..2)) {
        let mut line = line.into_bytes();
        damaged(&mut line, &damage);
        prop_assume!(!line.trim_ascii().is_empty());
        let decoded = both(&Wanted::all(schema(&[("a", "int64"), ("b", "float64"), ("s", "string")])), &line);
        let malformed = decoded.bad.iter().any(|bad| bad.row.reason == BadReason::Malformed);
        let oracle = serde_json::from_slice::<serde_json::Value>(&line);
        // Its numbers end where floats do, which is no rule of JSON.
        let too_large = oracle.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
        prop_assume!(!too_large);
        prop_assert_eq!(!malformed, oracle.as_ref().is_ok_and(serde_json::Value::is_object), "{:?}", decoded.bad);
        if let (Ok(oracle), [] ) = (oracle, &decoded.bad[..]) {
            let a = decoded.rows.column(0).as_primitive::<Int64Type>();
            match &oracle["a"] {
                serde_json::Value::Null => prop_assert!(a.is_null(0)),
                serde_json::Value::Number(number) => match number.as_i64() {
                    Some(number) => prop_assert_eq!(a.value(0), number),
                    None => prop_assert_eq!(a.value(0) as f64, number.as_f64().unwrap()),
                },
                other => prop_assert_eq!(other.as_str().unwrap().parse::<f64>().unwrap(), a.value(0) as f64),
            }
            let b = decoded.rows.column(1).as_primitive::<Float64Type>();
            match &oracle["b"] {
                serde_json::Value::Null => prop_assert!(b.is_null(0)),
                serde_json::Value::Number(number) => {
                    // It is exact to the last bit only with a feature of its own.
                    let number = number.as_f64().unwrap();
                    prop_assert!((b.value(0) - number).abs() <= number.abs() * 1e-15);
                }
                other => prop_assert_eq!(other.as_str().unwrap().parse::<f64>().unwrap().to_bits(), b.value(0).to_bits()),
            }
            let s = decoded.rows.column(2).as_string_view();
            match &oracle["s"] {
                serde_json::Value::Null => prop_assert!(s.is_null(0)),
                serde_json::Value::String(text) => prop_assert_eq!(s.value(0), text),
                serde_json::Value::Bool(value) => prop_assert_eq!(s.value(0), value.to_string()),
                _ => {}
            }
        }
    }

    #[test]
    fn any_bytes_are_read_the_same(text in prop::collection::vec(prop::sample::select(b"{}[]\":,\\ua0e1.-ntrfls \n\x00\x80\xc3".to_vec()), 0..80)) {
        let declared = schema(&COLUMNS);
        both(&Wanted::all(declared), &text);
    }
}

use crate::{JsonFlatten, UNREADABLE};
use std::sync::Arc;
use tidegate_sdk::Error;
use tidegate_sdk::arrow::array::types::{Float64Type, Int64Type, TimestampMillisecondType};
use tidegate_sdk::arrow::array::{ArrayRef, Int64Array, LargeStringArray, RecordBatch, StringArray, cast::AsArray};
use tidegate_sdk::testing::{TransformHarness, metric};

const FIELDS: &str = r#"[
    {"path": "user.id", "name": "user", "type": "int64"},
    {"path": "user.tags[1]", "name": "tag", "type": "string"},
    {"path": "ok", "name": "ok", "type": "bool"},
    {"path": "price", "name": "price", "type": "float64"},
    {"path": "at", "name": "at", "type": "timestamp_ms"}
]"#;

const TEXTS: [Option<&str>; 7] = [
    Some(r#"{"user": {"id": 9007199254740993, "tags": ["a", "b"]}, "ok": true, "price": 1.5, "at": "2013-01-01T05:00:00Z"}"#),
    None,
    Some(r#"{"user": {"id": -1, "tags": ["a"]}, "ok": null, "at": 1357016400000}"#),
    Some("no json"),
    Some(r#"{"user": {"id": "7", "tags": 3}, "ok": "yes", "price": 2}"#),
    Some("[]"),
    Some(r#"{"user": {"id": 3, "tags": ["x", {"y": 1}]}}"#),
];

fn events() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> =
        vec![("n", Arc::new(Int64Array::from_iter_values(0..7))), ("payload", Arc::new(StringArray::from(TEXTS.to_vec())))];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn config(more: &str) -> String {
    format!(r#"{{"column": "payload", "fields": {FIELDS}{more}}}"#)
}

fn open(config: &str) -> Result<TransformHarness<JsonFlatten>, Error> {
    TransformHarness::open(config, events().schema())
}

fn ints(rows: &RecordBatch, column: &str) -> Vec<Option<i64>> {
    rows.column_by_name(column).unwrap().as_primitive::<Int64Type>().iter().collect()
}

#[test]
fn paths_become_typed_columns_behind_what_was_there() {
    let mut step = open(&config("")).unwrap();
    assert_eq!(step.reads(), ["payload"]);
    let output = step.run(&events()).unwrap();
    assert!(output.bad.is_empty());
    let names: Vec<_> = output.rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["n", "payload", "user", "tag", "ok", "price", "at"]);
    assert_eq!((output.rows.column(0), output.rows.column(1)), (events().column(0), events().column(1)));
    assert_eq!(ints(&output.rows, "user"), [Some(9_007_199_254_740_993), None, Some(-1), None, None, None, Some(3)]);
    let tags: Vec<_> = output.rows.column(3).as_string::<i32>().iter().collect();
    assert_eq!(tags, [Some("b"), None, None, None, None, None, Some(r#"{"y": 1}"#)]);
    let oks: Vec<_> = output.rows.column(4).as_boolean().iter().collect();
    assert_eq!(oks, [Some(true), None, None, None, None, None, None]);
    let prices: Vec<_> = output.rows.column(5).as_primitive::<Float64Type>().iter().collect();
    assert_eq!(prices, [Some(1.5), None, None, None, Some(2.0), None, None]);
    let times: Vec<_> = output.rows.column(6).as_primitive::<TimestampMillisecondType>().iter().collect();
    assert_eq!(times, [Some(1_357_016_400_000), None, Some(1_357_016_400_000), None, None, None, None]);
    assert_eq!(metric(UNREADABLE), Some(3.0), "no JSON, `user.id` and `ok`");
}

#[test]
fn bad_rows_say_what_is_wrong_with_them() {
    let output = open(&config(r#", "onError": "bad""#)).unwrap().run(&events()).unwrap();
    assert_eq!(ints(&output.rows, "n"), [Some(0), Some(1), Some(2), Some(5), Some(6)], "missing values and nulls are no mistakes");
    let [json, value] = output.bad.as_slice() else { panic!("{:?}", output.bad) };
    assert_eq!((json.row, json.column.as_deref()), (3, Some("payload")));
    assert!(json.message.starts_with("`no json` is no JSON: expected ident"), "{}", json.message);
    assert_eq!((value.row, value.message.as_str()), (4, "`user.id` is `\"7\"`, which is no int64"));
    assert_eq!(metric(UNREADABLE), None);
}

#[test]
fn any_cut_of_the_rows_gives_the_same() {
    for config in [config(""), config(r#", "onError": "bad", "prefix": "p_""#)] {
        let mut step = open(&config).unwrap();
        let whole = step.run(&events()).unwrap();
        for rows in [1, 2, 3] {
            assert_eq!(step.run_in_cuts(&events(), rows).unwrap(), whole);
        }
        assert_eq!(step.run(&events().slice(0, 0)).unwrap().rows.num_rows(), 0);
    }
}

#[test]
fn a_field_may_take_the_place_of_the_text_and_long_text_is_read_too() {
    let column: ArrayRef = Arc::new(LargeStringArray::from(vec![r#"{"a": 1}"#]));
    let rows = RecordBatch::try_from_iter_with_nullable([("j", column, true)]).unwrap();
    let config =
        r#"{"column": "j", "fields": [{"path": "a", "name": "j", "type": "int64"}, {"path": "a", "name": "k", "type": "string"}]}"#;
    let output = TransformHarness::<JsonFlatten>::open(config, rows.schema()).unwrap().run(&rows).unwrap();
    assert_eq!(ints(&output.rows, "j"), [Some(1)]);
    assert_eq!(output.rows.column(1).as_string::<i32>().value(0), "1");
    assert_eq!(output.rows.num_columns(), 2);
}

#[test]
fn mistakes_name_what_is_wrong_and_what_is_near() {
    let mistake = |config: &str| match open(config) {
        Err(Error::Config(message)) => message,
        Err(other) => panic!("{other:?} is no config error"),
        Ok(_) => panic!("{config} was taken"),
    };
    let one = |column: &str, path: &str, name: &str, rest: &str| {
        format!(r#"{{"column": "{column}", "fields": [{{"path": "{path}", "name": "{name}", "type": "int64"}}]{rest}}}"#)
    };
    assert_eq!(mistake(&one("paylaod", "a", "a", "")), "the input has no column `paylaod`, did you mean `payload`?");
    assert_eq!(mistake(&one("n", "a", "a", "")), "column `n` is Int64, and JSON is text; `cast` it to string before");
    assert_eq!(mistake(&one("payload", "a", "n", "")), "the input has a column `n` already; give the field another name, or set `prefix`");
    assert_eq!(mistake(&one("payload", "a", "", "")), "the field with the path `a` has an empty name");
    assert!(mistake(&one("payload", "a[", "a", "")).starts_with("path `a[`: "));
    assert_eq!(mistake(&one("payload", "a", "a", r#", "onerror": "bad""#)), "unknown key `onerror`, did you mean `onError`?");
    assert_eq!(mistake(r#"{"column": "payload", "fields": []}"#), "`fields` is empty; name what to take out of the JSON");
    let twice = r#"{"path": "a", "name": "x", "type": "bool"}"#;
    assert_eq!(mistake(&format!(r#"{{"column": "payload", "fields": [{twice}, {twice}]}}"#)), "`fields` has the name `x` twice");
    let unknown = r#"{"column": "payload", "fields": [{"path": "a", "name": "x", "type": "int32"}]}"#;
    assert!(mistake(unknown).starts_with("unknown value `int32`, one of `int64`"));
}

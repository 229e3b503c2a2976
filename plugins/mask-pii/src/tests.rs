use crate::MaskPii;
use crate::mask::{HASH_DIGITS, REDACTED};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tidegate_sdk::Error;
use tidegate_sdk::arrow::array::{Array, ArrayRef, Int64Array, LargeStringArray, RecordBatch, StringArray, cast::AsArray};
use tidegate_sdk::testing::TransformHarness;

fn flights() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("origin", Arc::new(StringArray::from(vec!["JFK", "EWR", "JFK", "LGA"]))),
        ("tailnum", Arc::new(StringArray::from(vec![Some("N14228"), None, Some("N14228"), Some("")]))),
        ("delay", Arc::new(Int64Array::from(vec![Some(2), Some(-4), None, Some(11)]))),
        ("pilot", Arc::new(LargeStringArray::from(vec![Some("Zoë"), Some("Max"), None, Some("Zoë")]))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn open(config: &str) -> Result<TransformHarness<MaskPii>, Error> {
    TransformHarness::open(config, flights().schema())
}

fn mistake(config: &str) -> String {
    match open(config) {
        Err(Error::Config(message)) => message,
        Err(other) => panic!("{other:?} is no config error"),
        Ok(_) => panic!("{config} was taken"),
    }
}

/// The definition: hexadecimal SHA-256 of salt and value, cut.
fn expected(salt: &str, value: &str) -> String {
    let digest = Sha256::digest(format!("{salt}{value}"));
    let all: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    all[..HASH_DIGITS].to_owned()
}

#[test]
fn hashes_replace_the_column_in_its_place_and_nothing_else() {
    let mut step = open(r#"{"columns": ["tailnum"], "salt": "s"}"#).unwrap();
    assert_eq!(step.reads(), ["tailnum"]);
    let output = step.run(&flights()).unwrap();
    assert!(output.bad.is_empty());
    assert_eq!(output.rows.schema(), flights().schema());
    for carried in [0, 2, 3] {
        assert_eq!(output.rows.column(carried), flights().column(carried));
    }
    let hashes: Vec<Option<String>> = output.rows.column(1).as_string::<i32>().iter().map(|hash| hash.map(str::to_owned)).collect();
    let hash = |value| Some(expected("s", value));
    assert_eq!(hashes, [hash("N14228"), None, hash("N14228"), hash("")]);
}

#[test]
fn a_known_hash_never_changes() {
    let output = open(r#"{"columns": ["tailnum"]}"#).unwrap().run(&flights()).unwrap();
    // SHA-256 of the empty text begins so, in every book.
    assert_eq!(output.rows.column(1).as_string::<i32>().value(3), "e3b0c44298fc1c149afbf4c8996fb924");
}

#[test]
fn long_text_columns_stay_long_and_columns_come_in_the_order_of_the_input() {
    let mut step = open(r#"{"columns": ["pilot", "origin"], "mode": "redact"}"#).unwrap();
    assert_eq!(step.reads(), ["pilot", "origin"]);
    let output = step.run(&flights()).unwrap();
    assert_eq!(output.rows.schema(), flights().schema());
    assert!(output.rows.column(0).as_string::<i32>().iter().all(|value| value == Some(REDACTED)));
    let pilots: Vec<_> = output.rows.column(3).as_string::<i64>().iter().collect();
    assert_eq!(pilots, [Some(REDACTED), Some(REDACTED), None, Some(REDACTED)]);
}

#[test]
fn any_cut_of_the_rows_gives_the_same() {
    for config in [r#"{"columns": ["tailnum", "pilot"]}"#, r#"{"columns": ["tailnum"], "mode": "redact"}"#] {
        let mut step = open(config).unwrap();
        let whole = step.run(&flights()).unwrap();
        for rows in [1, 3] {
            assert_eq!(step.run_in_cuts(&flights(), rows).unwrap(), whole);
        }
        assert_eq!(open(config).unwrap().run(&flights().slice(0, 0)).unwrap().rows.num_rows(), 0);
    }
}

#[test]
fn more_values_than_are_remembered_hash_the_same() {
    let values: Vec<String> = (0..40_000).map(|n| format!("N{}", n % 20_000)).collect();
    let column: ArrayRef = Arc::new(StringArray::from(values.clone()));
    let rows = RecordBatch::try_from_iter_with_nullable([("tailnum", column, true)]).unwrap();
    let mut step = TransformHarness::<MaskPii>::open(r#"{"columns": ["tailnum"]}"#, rows.schema()).unwrap();
    let output = step.run(&rows).unwrap();
    let hashes = output.rows.column(0).as_string::<i32>();
    for (row, value) in values.iter().enumerate().step_by(997) {
        assert_eq!(hashes.value(row), expected("", value));
    }
    assert_eq!(hashes.null_count(), 0);
}

#[test]
fn mistakes_name_what_is_wrong_and_what_is_near() {
    assert_eq!(mistake(r#"{"columns": ["tailnmu"]}"#), "`columns` names `tailnmu`, which the input does not have, did you mean `tailnum`?");
    assert_eq!(mistake(r#"{"columns": ["delay"]}"#), "column `delay` is Int64, and only text can be masked; `cast` it to string before");
    assert_eq!(mistake(r#"{"columns": []}"#), "`columns` is empty; name the columns to mask");
    assert_eq!(mistake(r#"{"columns": ["pilot", "pilot"]}"#), "`columns` names `pilot` twice");
    assert_eq!(mistake(r#"{"columns": ["pilot"], "mode": "hush"}"#), "unknown value `hush`, one of `hash`, `redact` is wanted");
    assert_eq!(mistake(r#"{"column": ["pilot"]}"#), "unknown key `column`, did you mean `columns`?");
    assert_eq!(mistake(r#"{"mode": "hash"}"#), "key `columns` is missing");
    assert!(mistake(r#"{"columns": ["pilot"], "mode": "redact", "salt": "x"}"#).starts_with("`salt` is for"));
}

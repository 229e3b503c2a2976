//! The harness projects, carries and checks as the engine does.

use crate::{Cents, cents};
use std::sync::Arc;
use tidegate_sdk::arrow::array::{
    ArrayRef, Int64Array, RecordBatch, StringArray, cast::AsArray, types::Int64Type,
};
use tidegate_sdk::testing::TransformHarness;

fn prices() -> RecordBatch {
    let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
    let texts = [Some("12.50"), None, Some("a lot"), Some("3")];
    let price: ArrayRef = Arc::new(StringArray::from_iter(texts));
    RecordBatch::try_from_iter_with_nullable([("id", id, false), ("price", price, true)]).unwrap()
}

#[test]
fn a_column_is_added_and_a_bad_row_costs_itself() {
    let rows = prices();
    let config = r#"{"column": "price"}"#;
    let mut harness = TransformHarness::<Cents>::open(config, rows.schema()).unwrap();
    assert_eq!(harness.reads(), ["price"]);
    let output = harness.run(&rows).unwrap();
    let made = output
        .rows
        .column_by_name("cents")
        .unwrap()
        .as_primitive::<Int64Type>();
    assert_eq!(made, &Int64Array::from(vec![Some(1250), None, Some(300)]));
    assert_eq!(output.bad.len(), 1);
    assert_eq!(output.bad[0].row, 2);
    assert_eq!(
        output.bad[0].message,
        "`a lot` is no amount such as `12.50`"
    );
}

#[test]
fn any_cut_into_batches_gives_the_same_rows() {
    let rows = prices();
    let config = r#"{"column": "price"}"#;
    let mut harness = TransformHarness::<Cents>::open(config, rows.schema()).unwrap();
    let whole = harness.run(&rows).unwrap();
    for size in 1..4 {
        assert_eq!(
            harness.run_in_cuts(&rows, size).unwrap(),
            whole,
            "cuts of {size}"
        );
    }
}

#[test]
fn amounts_are_exact_or_none() {
    assert_eq!(cents("0.07"), Some(7));
    assert_eq!(cents("92233720368547758.07"), Some(i64::MAX));
    for no_amount in [
        "",
        ".50",
        "1.",
        "1.5",
        "1.500",
        "-1",
        "1e3",
        "92233720368547758.08",
    ] {
        assert_eq!(cents(no_amount), None, "{no_amount}");
    }
}

#[test]
fn mistakes_are_named() {
    let mistake = |config| {
        let opened = TransformHarness::<Cents>::open(config, prices().schema());
        opened.err().unwrap().to_string()
    };
    assert!(mistake(r#"{"column": "prise"}"#).contains("did you mean `price`?"));
    assert!(mistake(r#"{"column": "id"}"#).contains("only text is read as an amount"));
    assert!(mistake(r#"{"colum": "price"}"#).contains("did you mean `column`?"));
}

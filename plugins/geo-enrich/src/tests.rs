use crate::{GeoEnrich, UNKNOWN};
use std::sync::Arc;
use tidegate_sdk::Error;
use tidegate_sdk::arrow::array::types::{Float64Type, Int64Type};
use tidegate_sdk::arrow::array::{ArrayRef, Int64Array, LargeStringArray, RecordBatch, StringArray, cast::AsArray};
use tidegate_sdk::testing::{TransformHarness, metric};

const TABLE: &str = "\\ufeffiata,city,lat,alt,note\\r\\nJFK,\\\"New York, NY\\\",40.639751,13,\\nEWR,Newark,40.6925,18,\\n\\nXXX,NA,NA,-5,\\n,nowhere,1,2,\\n";

fn flights() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("origin", Arc::new(StringArray::from(vec![Some("JFK"), Some("LGA"), None, Some("EWR"), Some("jfk"), Some("XXX")]))),
        ("delay", Arc::new(Int64Array::from_iter_values(0..6))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

fn config(more: &str) -> String {
    format!(r#"{{"column": "origin", "table": "{TABLE}", "nulls": ["NA"]{more}}}"#)
}

fn open(config: &str) -> Result<TransformHarness<GeoEnrich>, Error> {
    TransformHarness::open(config, flights().schema())
}

#[test]
fn columns_of_the_table_follow_those_of_the_input() {
    let mut step = open(&config(r#", "add": ["lat", "city", "alt", "note"], "prefix": "from_""#)).unwrap();
    assert_eq!(step.reads(), ["origin"]);
    let output = step.run(&flights()).unwrap();
    assert!(output.bad.is_empty());
    let names: Vec<_> = output.rows.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["origin", "delay", "from_lat", "from_city", "from_alt", "from_note"]);
    assert_eq!((output.rows.column(0), output.rows.column(1)), (flights().column(0), flights().column(1)));
    let lats: Vec<_> = output.rows.column(2).as_primitive::<Float64Type>().iter().collect();
    assert_eq!(lats, [Some(40.639751), None, None, Some(40.6925), None, None]);
    let cities: Vec<_> = output.rows.column(3).as_string::<i32>().iter().collect();
    assert_eq!(cities, [Some("New York, NY"), None, None, Some("Newark"), None, None]);
    let alts: Vec<_> = output.rows.column(4).as_primitive::<Int64Type>().iter().collect();
    assert_eq!(alts, [Some(13), None, None, Some(18), None, Some(-5)]);
    assert_eq!(output.rows.column(5).null_count(), 6, "a column without values is text without values");
    assert_eq!(metric(UNKNOWN), Some(2.0), "`LGA` and `jfk`; a null is no code");
}

#[test]
fn an_unknown_code_is_a_bad_row_if_wanted() {
    let output = open(&config(r#", "add": ["lat"], "onUnknown": "bad""#)).unwrap().run(&flights()).unwrap();
    let delays: Vec<_> = output.rows.column(1).as_primitive::<Int64Type>().values().to_vec();
    assert_eq!(delays, [0, 2, 3, 5]);
    let bad: Vec<_> = output.bad.iter().map(|error| (error.row, error.column.as_deref(), error.message.as_str())).collect();
    assert_eq!(bad, [(1, Some("origin"), "the table has no `iata` `LGA`"), (4, Some("origin"), "the table has no `iata` `jfk`")]);
}

#[test]
fn any_cut_of_the_rows_gives_the_same() {
    for config in [config(r#", "add": ["lat", "city"]"#), config(r#", "add": ["alt"], "onUnknown": "bad""#)] {
        let mut step = open(&config).unwrap();
        let whole = step.run(&flights()).unwrap();
        for rows in [1, 2, 4] {
            assert_eq!(step.run_in_cuts(&flights(), rows).unwrap(), whole);
        }
        assert_eq!(step.run(&flights().slice(0, 0)).unwrap().rows.num_rows(), 0);
    }
}

#[test]
fn another_key_and_long_text() {
    let column: ArrayRef = Arc::new(LargeStringArray::from(vec!["Newark", "New York, NY"]));
    let rows = RecordBatch::try_from_iter_with_nullable([("city", column, true)]).unwrap();
    let config = format!(r#"{{"column": "city", "table": "{TABLE}", "key": "city", "add": ["iata"]}}"#);
    let output = TransformHarness::<GeoEnrich>::open(&config, rows.schema()).unwrap().run(&rows).unwrap();
    let codes: Vec<_> = output.rows.column(1).as_string::<i32>().iter().collect();
    assert_eq!(codes, [Some("EWR"), Some("JFK")]);
}

#[test]
fn mistakes_name_what_is_wrong_and_what_is_near() {
    let mistake = |config: &str| match open(config) {
        Err(Error::Config(message)) => message,
        Err(other) => panic!("{other:?} is no config error"),
        Ok(_) => panic!("{config} was taken"),
    };
    let of = |table: &str| mistake(&format!(r#"{{"column": "origin", "table": "{table}", "add": ["lat"]}}"#));
    assert_eq!(of(""), "`table` is empty; it is the table itself, CSV text with a header: `table = \"${file:airports.csv}\"`");
    assert!(of("data/airports.csv").contains("it is the table itself, not its place"));
    assert_eq!(of(r"iata,lats\nJFK,1"), "`add` names `lat`, which `table` does not have, did you mean `lats`?");
    assert_eq!(of(r"iat,lat\nJFK,1"), "`key` names `iata`, which `table` does not have, did you mean `iat`?");
    assert_eq!(of(r"iata,lat,lat\nJFK,1,2"), "`table` has two columns `lat`");
    assert_eq!(of(r"iata,lat\nJFK"), "row 1 of `table` has 1 fields, and its header has 2");
    assert_eq!(of(r"iata,lat\nJFK,1\nEWR,2\nJFK,3"), "`table` has the `iata` `JFK` a second time in row 3");
    assert_eq!(of(r#"iata,lat\nJFK,\"1"#), "row 1 of `table`: a field begins with a quote that is never closed");
    assert_eq!(of(r"iata,lat\n,1"), "no row of `table` has a `iata`");
    assert_eq!(mistake(&config(r#", "add": []"#)), "`add` is empty; name the columns of the table to add");
    assert_eq!(mistake(&config(r#", "add": ["lat", "lat"]"#)), "`add` names `lat` twice");
    assert_eq!(
        mistake(r#"{"column": "origni", "table": "iata,lat\nJFK,1", "add": ["lat"]}"#),
        "the input has no column `origni`, did you mean `origin`?"
    );
    assert_eq!(
        mistake(r#"{"column": "delay", "table": "iata,lat\nJFK,1", "add": ["lat"]}"#),
        "column `delay` is Int64, and a code is text; `cast` it to string before"
    );
    assert_eq!(
        mistake(r#"{"column": "origin", "table": "iata,delay\nJFK,1", "add": ["delay"]}"#),
        "the input has a column `delay` already; set `prefix`"
    );
}

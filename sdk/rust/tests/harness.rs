//! The harness plays the host's part: every way in which a transform's columns, carried columns and bad rows are put together.

#![cfg(feature = "arrow")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use serde::Deserialize;
use std::sync::Arc;
use tidegate_sdk::arrow::array::{BooleanArray, Int64Array, RecordBatch, StringArray, cast::AsArray, types::Int64Type};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema, SchemaRef};
use tidegate_sdk::testing::{self, TransformHarness};
use tidegate_sdk::{Error, Info, Processed, Result, RowError, Scope, Transform, TransformPlan, log};

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
enum Shape {
    Replace,
    Add,
    Filter,
    Free,
    Lossy,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    shape: Shape,
    #[serde(default)]
    carry: Option<Vec<String>>,
}

/// Doubles `n`; a negative one is a bad row. As a filter it keeps even ones.
struct Double(Shape);

impl Transform for Double {
    type Config = Config;

    fn info() -> Info {
        Info::new("double", "0.1.0")
    }

    fn bind(config: &Config, input: &Schema) -> Result<TransformPlan> {
        let plan = match config.shape {
            Shape::Filter => TransformPlan::filter(output(config.shape)),
            Shape::Free => TransformPlan::free(output(config.shape)),
            Shape::Replace | Shape::Add | Shape::Lossy => TransformPlan::rowwise(output(config.shape)),
        };
        let plan = plan.reading(input, ["n"])?;
        match &config.carry {
            None => Ok(plan),
            Some(carry) => plan.carrying(input, carry.iter().map(String::as_str)),
        }
    }

    fn open(config: Config, _: &Scope, input: &SchemaRef) -> Result<Self> {
        assert_eq!(input.fields().len(), 1, "only `n` crosses");
        log::info("opened");
        Ok(Double(config.shape))
    }

    fn process(&mut self, rows: &RecordBatch) -> Result<Processed> {
        let numbers = rows.column(0).as_primitive::<Int64Type>();
        let doubled: Int64Array = numbers.iter().map(|n| n.map(|n| n * 2)).collect();
        let bad = |row: usize| RowError { row: row as u64, column: Some("n".into()), message: "negative".into() };
        let bad: Vec<RowError> = (0..numbers.len()).filter(|row| numbers.value(*row) < 0).map(bad).collect();
        let schema = Arc::new(output(self.0));
        let made: RecordBatch = match self.0 {
            Shape::Replace | Shape::Add => RecordBatch::try_new(schema, vec![Arc::new(doubled)])?,
            Shape::Lossy => RecordBatch::try_new(schema, vec![Arc::new(doubled.slice(0, doubled.len().saturating_sub(1)))])?,
            Shape::Filter => {
                let keep: BooleanArray = numbers.iter().map(|n| Some(n.is_some_and(|n| n % 2 == 0))).collect();
                RecordBatch::try_new(schema, vec![Arc::new(keep), Arc::new(doubled)])?
            }
            Shape::Free => {
                let twice: Int64Array = numbers.iter().filter(|n| n.is_none_or(|n| n >= 0)).flat_map(|n| [n, n]).collect();
                RecordBatch::try_new(schema, vec![Arc::new(twice)])?
            }
        };
        Ok(Processed { rows: vec![made], bad })
    }
}

fn output(shape: Shape) -> Schema {
    let number = |name: &str| Field::new(name, DataType::Int64, true);
    Schema::new(match shape {
        Shape::Replace | Shape::Free | Shape::Lossy => vec![number("n")],
        Shape::Add => vec![number("doubled")],
        Shape::Filter => vec![Field::new("keep", DataType::Boolean, false), number("doubled")],
    })
}

fn batch() -> RecordBatch {
    let schema = Schema::new(vec![
        Field::new("a", DataType::Utf8, true),
        Field::new("n", DataType::Int64, true),
        Field::new("z", DataType::Utf8, true),
    ]);
    let a = StringArray::from(vec![Some("p"), Some("q"), None, Some("s"), Some("t")]);
    let n = Int64Array::from(vec![Some(2), Some(-1), None, Some(3), Some(4)]);
    let z = StringArray::from(vec!["v", "w", "x", "y", "z"]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(a), Arc::new(n), Arc::new(z)]).unwrap()
}

fn harness(config: &str) -> TransformHarness<Double> {
    TransformHarness::open(config, batch().schema()).unwrap()
}

fn names(batch: &RecordBatch) -> Vec<&str> {
    batch.schema_ref().fields().iter().map(|field| field.name().as_str()).collect()
}

fn numbers(batch: &RecordBatch, name: &str) -> Vec<Option<i64>> {
    batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().iter().collect()
}

#[test]
fn a_replaced_column_keeps_its_place_and_a_bad_row_costs_itself() {
    let mut step = harness(r#"{"shape": "replace"}"#);
    assert_eq!(step.reads(), ["n"]);
    let output = step.run(&batch()).unwrap();
    assert_eq!(names(&output.rows), ["a", "n", "z"]);
    assert_eq!(numbers(&output.rows, "n"), [Some(4), None, Some(6), Some(8)]);
    assert_eq!(output.bad, [RowError { row: 1, column: Some("n".into()), message: "negative".into() }]);
    assert_eq!(testing::logs(), [(log::Level::Info, "opened".to_owned())]);
}

#[test]
fn a_new_column_follows_the_carried_ones() {
    let output = harness(r#"{"shape": "add"}"#).run(&batch()).unwrap();
    assert_eq!(names(&output.rows), ["a", "n", "z", "doubled"]);
    let output = harness(r#"{"shape": "add", "carry": ["z"]}"#).run(&batch()).unwrap();
    assert_eq!(names(&output.rows), ["z", "doubled"]);
}

#[test]
fn a_filter_drops_rows_of_made_and_carried_columns_alike() {
    let output = harness(r#"{"shape": "filter"}"#).run(&batch()).unwrap();
    assert_eq!(names(&output.rows), ["a", "n", "z", "doubled"]);
    assert_eq!(numbers(&output.rows, "doubled"), [Some(4), Some(8)]);
    let z: Vec<_> = output.rows.column_by_name("z").unwrap().as_string::<i32>().iter().flatten().collect();
    assert_eq!(z, ["v", "z"]);
}

#[test]
fn a_free_transform_makes_all_there_is() {
    let output = harness(r#"{"shape": "free"}"#).run(&batch()).unwrap();
    assert_eq!(names(&output.rows), ["n"]);
    assert_eq!(numbers(&output.rows, "n"), [Some(2), Some(2), None, None, Some(3), Some(3), Some(4), Some(4)]);
}

#[test]
fn any_cut_gives_the_same_rows() {
    for shape in ["replace", "add", "filter", "free"] {
        let mut step = harness(&format!(r#"{{"shape": "{shape}"}}"#));
        let whole = step.run(&batch()).unwrap();
        for rows in [1, 2, 5] {
            assert_eq!(step.run_in_cuts(&batch(), rows).unwrap(), whole, "{shape} in cuts of {rows}");
        }
    }
}

#[test]
fn a_missing_column_is_a_config_error_with_the_nearest_name() {
    let schema = Arc::new(Schema::new(vec![Field::new("N", DataType::Int64, true)]));
    let error = TransformHarness::<Double>::open(r#"{"shape": "add"}"#, schema).err().unwrap();
    assert_eq!(error, Error::Config("the input has no column `n`, did you mean `N`?".into()));
}

#[test]
#[should_panic(expected = "another number of rows")]
fn a_row_wise_transform_that_loses_a_row_is_caught() {
    let _ = harness(r#"{"shape": "lossy"}"#).run(&batch());
}

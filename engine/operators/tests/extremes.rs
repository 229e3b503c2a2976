//! The largest and the smallest values pass through every step that passes columns on, unchanged to the last digit.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{
    Array, ArrayRef, Decimal128Array, Decimal256Array, Int64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt64Array,
};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{Field, Schema, i256};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::{
    Epoch, EventTime, Flow, Generation, Operator, OperatorCtx, OperatorFactory, Output, PieceId, RestoredPiece, RunId, RunIdentity,
    StepCtx, types,
};
use tidegate_operators::{BindCtx, Bound, BoundNode, StreamType, parse_step};

/// 0001-01-01T00:00:00 and 9999-12-31T23:59:59, in seconds from 1970.
const FIRST_YEAR: i64 = -62_135_596_800;
const LAST_YEAR: i64 = 253_402_300_799;

/// 38 nines.
const DIGITS_38: i128 = 99_999_999_999_999_999_999_999_999_999_999_999_999;

/// Rows of extremes, a null in the last one, and `id`, `at` and `one` beside them to tell, time and group them by.
fn extremes() -> RecordBatch {
    let digits_76 = i256::from_string(&"9".repeat(76)).unwrap();
    let decimals = |scale: i8| {
        let values = vec![Some(DIGITS_38), Some(-DIGITS_38), Some(12_345_678_901_234_567_890_123_456_789_012_345_678), Some(1), None];
        Decimal128Array::from(values).with_precision_and_scale(38, scale).unwrap()
    };
    let times = |units: i64| vec![Some(FIRST_YEAR * units), Some(LAST_YEAR * units + units - 1), Some(-1), Some(0), None];
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..5))),
        ("at", Arc::new(TimestampMillisecondArray::from(vec![0; 5]))),
        ("one", Arc::new(StringViewArray::from(vec!["one"; 5]))),
        ("int", Arc::new(Int64Array::from(vec![Some(i64::MIN), Some(i64::MAX), Some(i64::MAX - 1), Some(-9_007_199_254_740_993), None]))),
        (
            "digits_19",
            Arc::new(Int64Array::from(vec![
                Some(1_234_567_890_123_456_789),
                Some(-9_223_372_036_854_775_807),
                Some(9_007_199_254_740_993),
                Some(0),
                None,
            ])),
        ),
        ("unsigned", Arc::new(UInt64Array::from(vec![Some(u64::MAX), Some(u64::MAX - 1), Some(1 << 63), Some(0), None]))),
        ("whole", Arc::new(decimals(0))),
        ("money", Arc::new(decimals(9))),
        ("fraction", Arc::new(decimals(38))),
        (
            "long",
            Arc::new(
                Decimal256Array::from(vec![Some(digits_76), Some(digits_76.wrapping_neg()), Some(i256::ONE), Some(i256::ZERO), None])
                    .with_precision_and_scale(76, 10)
                    .unwrap(),
            ),
        ),
        ("seconds", Arc::new(TimestampSecondArray::from(times(1)))),
        ("millis", Arc::new(TimestampMillisecondArray::from(times(1_000)))),
        ("micros", Arc::new(TimestampMicrosecondArray::from(times(1_000_000)))),
        ("micros_utc", Arc::new(TimestampMicrosecondArray::from(times(1_000_000)).with_timezone("UTC"))),
        // Nanoseconds of 64 bits end in 1677 and 2262.
        ("nanos", Arc::new(TimestampNanosecondArray::from(vec![Some(i64::MIN), Some(i64::MAX), Some(-1), Some(0), None]))),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, column)| column).collect()).unwrap()
}

/// The columns whose values are extreme.
fn tested(rows: &RecordBatch) -> Vec<String> {
    rows.schema().fields().iter().skip(3).map(|field| field.name().clone()).collect()
}

/// Those of them that can be compared; decimals of more than 38 digits cannot.
fn compared(rows: &RecordBatch) -> Vec<String> {
    tested(rows).into_iter().filter(|column| column != "long").collect()
}

fn bind(step: &Value, rows: &RecordBatch) -> Bound {
    let bound = parse_step(step).and_then(|step| step.bind(&[StreamType::append(rows.schema())], &BindCtx::new()));
    bound.unwrap_or_else(|problems| panic!("{step}: {problems:?}"))
}

fn run_identity() -> RunIdentity {
    RunIdentity::new("p", RunId::new("r"), Generation(1), "s")
}

/// What an inline step makes of the rows, which must not be bad.
fn through(step: &Value, rows: &RecordBatch) -> RecordBatch {
    let bound = bind(step, rows);
    let BoundNode::Step(factory) = &bound.node else { panic!("{step} is not an inline step") };
    let mut out = Output::default();
    factory.open(StepCtx::new(run_identity(), 0, 1)).unwrap().apply(rows.clone(), EventTime(0), &mut out).unwrap();
    assert!(out.bad.is_empty() && out.filtered == 0, "{step}: {:?}", out.bad);
    concat_batches(&bound.output.schema, &out.batches).unwrap()
}

/// Holds a column of the output to one of the input.
fn same(step: &Value, made: &RecordBatch, column: &str, rows: &RecordBatch, original: &str) {
    let (made, original) = (made.column_by_name(column), rows.column_by_name(original).unwrap());
    assert_eq!(made, Some(original), "{step} changed `{column}`");
}

#[test]
fn inline_steps_pass_extremes_on() {
    let rows = extremes();
    let columns = tested(&rows);
    let every = |step: &Value| columns.iter().for_each(|column| same(step, &through(step, &rows), column, &rows, column));
    every(&json!({ "op": "select", "columns": columns }));
    every(&json!({ "op": "drop", "columns": ["one"] }));
    every(&json!({ "op": "filter", "expression": "id >= 0 && one == 'one'" }));
    every(&json!({ "op": "applyExpression", "column": "other", "expression": "id" }));
    for column in &columns {
        let data_type = types::name(rows.schema().field_with_name(column).unwrap().data_type());
        let renamed = json!({ "op": "rename", "mapping": { column: "renamed" } });
        same(&renamed, &through(&renamed, &rows), "renamed", &rows, column);
        every(&json!({ "op": "cast", "column": column, "type": data_type }));
        every(&json!({ "op": "applyExpression", "column": column, "expression": column }));
        let copied = json!({ "op": "applyExpression", "column": "copy", "expression": column });
        same(&copied, &through(&copied, &rows), "copy", &rows, column);
    }
    for column in &compared(&rows) {
        // A filter that compares a value with itself reads it, and lets it pass; null equals nothing.
        let kept = json!({ "op": "filter", "expression": format!("{column} == null || {column} == {column}") });
        same(&kept, &through(&kept, &rows), column, &rows, column);
    }
}

fn open(factory: &Arc<dyn OperatorFactory>) -> Box<dyn Operator> {
    factory.open(OperatorCtx::new(run_identity()).with_batch_rows(2)).unwrap()
}

/// What an operator makes of the rows: half of them, a snapshot, and the rest by another that has restored it.
fn through_operator(step: &Value, rows: &RecordBatch) -> RecordBatch {
    let bound = bind(step, rows);
    let BoundNode::Operator { factory, .. } = &bound.node else { panic!("{step} is no operator") };
    let mut out = Output::default();
    let mut operator = open(factory);
    operator.on_batch(0, rows.slice(0, 2), &mut out).unwrap();
    let pieces = operator.snapshot(Epoch(1)).unwrap().into_iter().enumerate().map(|(number, piece)| {
        let (name, vnodes, data) = piece.into_new().unwrap().expect("nothing was named, so nothing can be kept");
        RestoredPiece { id: PieceId(number.to_string()), name, vnodes, data }
    });
    let mut restored = open(factory);
    restored.restore(pieces.collect()).unwrap();
    restored.on_batch(0, rows.slice(2, rows.num_rows() - 2), &mut out).unwrap();
    while restored.on_watermark(EventTime(i64::MAX), &mut out).unwrap() == Flow::More {}
    while restored.on_drain(&mut out).unwrap() == Flow::More {}
    assert!(out.bad.is_empty() && out.late.is_empty(), "{step}: {:?}", out.bad);
    concat_batches(&bound.output.schema, &out.batches).unwrap()
}

#[test]
fn a_window_passes_extremes_on_as_groups_and_as_extremes() {
    let rows = extremes();
    for column in compared(&rows) {
        let step = json!({ "op": "windowedAggregate", "timeColumn": "at", "windowMs": 10_000, "groupBy": [&column, "id"], "aggs": [
            { "op": "min", "column": &column, "alias": "least" }, { "op": "max", "column": &column, "alias": "most" },
        ] });
        let made = through_operator(&step, &rows);
        assert_eq!(made.num_rows(), rows.num_rows(), "{step}");
        let order = arrow::compute::sort_to_indices(made.column_by_name("id").unwrap(), None, None).unwrap();
        let in_order: Vec<ArrayRef> = made.columns().iter().map(|column| take(column, &order, None).unwrap()).collect();
        let made = RecordBatch::try_new(made.schema(), in_order).unwrap();
        for name in [column.as_str(), "least", "most"] {
            same(&step, &made, name, &rows, &column);
        }
    }
}

#[test]
fn a_window_over_all_extremes_finds_the_smallest_and_the_largest() {
    let rows = extremes();
    for column in compared(&rows) {
        let step = json!({ "op": "windowedAggregate", "timeColumn": "at", "windowMs": 10_000, "groupBy": ["one"], "aggs": [
            { "op": "min", "column": &column, "alias": "least" }, { "op": "max", "column": &column, "alias": "most" },
        ] });
        let made = through_operator(&step, &rows);
        let values = rows.column_by_name(&column).unwrap();
        let options = arrow::compute::SortOptions { descending: false, nulls_first: false };
        let order = arrow::compute::sort_to_indices(values, Some(options), None).unwrap();
        let sorted = take(values, &order, None).unwrap();
        // The null is last.
        assert_eq!(made.column_by_name("least"), Some(&sorted.slice(0, 1)), "{step}");
        assert_eq!(made.column_by_name("most"), Some(&sorted.slice(sorted.len() - 2, 1)), "{step}");
    }
}

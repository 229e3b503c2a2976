//! Rows, scripts and tables for the tests of steps that keep state per key.

use crate::testing::{Act, Job, Made, shown};
use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray, UInt8Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit, UInt8Type};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::{BadReason, hidden};

/// One row of the tests' schema.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Row {
    pub(crate) t: Option<i64>,
    pub(crate) k: Option<i64>,
    pub(crate) s: Option<String>,
    pub(crate) v: Option<i64>,
    pub(crate) f: Option<f64>,
    /// It removes the row of equal keys, where rows update each other.
    pub(crate) gone: bool,
}

/// A row with a time, a key and a value.
pub(crate) fn row(t: i64, k: i64, v: i64) -> Row {
    Row { t: Some(t), k: Some(k), v: Some(v), ..Row::default() }
}

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("k", DataType::Int64, true),
        Field::new("s", DataType::Utf8View, true),
        Field::new("v", DataType::Int64, true),
        Field::new("f", DataType::Float64, true),
    ]))
}

/// The same with `_op`.
pub(crate) fn updating() -> SchemaRef {
    let fields = schema().fields().iter().cloned().chain([Arc::new(hidden::op_field())]).collect::<Vec<_>>();
    Arc::new(Schema::new(fields))
}

pub(crate) fn batch(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.t).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.k).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.s.as_deref()).collect::<StringViewArray>()),
        Arc::new(rows.iter().map(|row| row.v).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| row.f).collect::<Float64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

pub(crate) fn updates(rows: &[Row]) -> RecordBatch {
    let mut columns = batch(rows).columns().to_vec();
    let ops = rows.iter().map(|row| if row.gone { hidden::DELETE } else { hidden::UPSERT });
    columns.push(Arc::new(UInt8Array::from_iter_values(ops)));
    RecordBatch::try_new(updating(), columns).unwrap()
}

/// The cells of a row as the harness shows them.
pub(crate) fn cells(row: &Row) -> String {
    let batch = batch(std::slice::from_ref(row));
    batch.columns().iter().map(|column| shown(column, 0)).collect::<Vec<_>>().join(" ")
}

/// -0.0 and the many NaNs are one value each.
pub(crate) fn normal(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

/// The key of a row, by some columns.
pub(crate) fn key_of(row: &Row, by: &[&str]) -> String {
    let cell = |column: &str| match column {
        "t" => format!("{:?}", row.t),
        "k" => format!("{:?}", row.k),
        "s" => format!("{:?}", row.s),
        "v" => format!("{:?}", row.v),
        "f" => format!("{:?}", row.f.map(normal)),
        other => panic!("the tests have no column `{other}`"),
    };
    by.iter().map(|column| cell(column)).collect::<Vec<_>>().join("|")
}

/// Upsert rows applied in order, by their keys. A row that removes what is not there is a mistake.
pub(crate) fn table(made: &Made, keys: &[&str]) -> BTreeMap<String, String> {
    let mut table = BTreeMap::new();
    for batch in &made.batches {
        let keys: Vec<usize> = keys.iter().map(|key| batch.schema_ref().index_of(key).unwrap()).collect();
        let ops = batch.column_by_name(hidden::OP).unwrap().as_primitive::<UInt8Type>().clone();
        for row in 0..batch.num_rows() {
            let key: Vec<String> = keys.iter().map(|index| shown(batch.column(*index), row)).collect();
            let names = batch.schema_ref().fields().iter().zip(batch.columns());
            let visible = names.filter(|(field, _)| !hidden::is_hidden(field.name()));
            let cells: Vec<String> = visible.map(|(_, column)| shown(column, row)).collect();
            match ops.value(row) {
                hidden::DELETE => assert!(table.remove(&key.join(" ")).is_some(), "`{}` is removed and was not there", key.join(" ")),
                _ => {
                    table.insert(key.join(" "), cells.join(" "));
                }
            }
        }
    }
    table
}

/// Rows that were bad on their way in.
pub(crate) fn bad_input(made: &Made) -> usize {
    made.bad.iter().filter(|bad| bad.reason != BadReason::Overflow).count()
}

/// A script over the tests' rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Line {
    Rows(Vec<Row>),
    Watermark(i64),
    Snapshot,
    Crash(usize),
}

/// Plays a script.
pub(crate) fn play(job: &mut Job, lines: &[Line], batch: fn(&[Row]) -> RecordBatch, paranoid: bool) {
    let acts: Vec<Act> = lines
        .iter()
        .map(|line| match line {
            Line::Rows(rows) => Act::Rows(0, batch(rows)),
            Line::Watermark(millis) => Act::Watermark(*millis),
            Line::Snapshot => Act::Snapshot,
            Line::Crash(tasks) => Act::Crash(*tasks),
        })
        .collect();
    job.run(&acts, paranoid);
}

/// The same rows in batches of at most `rows`.
pub(crate) fn recut(lines: &[Line], rows: usize) -> Vec<Line> {
    let cut = |line: &Line| match line {
        Line::Rows(all) => all.chunks(rows).map(|part| Line::Rows(part.to_vec())).collect(),
        other => vec![other.clone()],
    };
    lines.iter().flat_map(cut).collect()
}

/// The rows of a script in order.
pub(crate) fn all_rows(lines: &[Line]) -> Vec<Row> {
    let rows = |line: &Line| if let Line::Rows(rows) = line { rows.clone() } else { Vec::new() };
    lines.iter().flat_map(rows).collect()
}

/// Rows with nulls, extremes, and few enough values that they meet.
pub(crate) fn rows() -> impl Strategy<Value = Vec<Row>> {
    let value = prop_oneof![5 => -4i64..5, 1 => prop_oneof![Just(i64::MAX), Just(i64::MIN), Just(i64::MAX - 1)]];
    let float = prop_oneof![
        6 => (-4i32..4).prop_map(|halves| f64::from(halves) / 2.0),
        1 => prop_oneof![Just(-0.0), Just(f64::NAN), Just(-f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY)],
    ];
    let text = prop_oneof![Just(String::new()), "[ab]", "a text longer than twelve bytes [ab]"];
    let row = (
        prop::option::weighted(0.95, -60i64..60),
        prop::option::weighted(0.9, -3i64..4),
        prop::option::weighted(0.8, text),
        prop::option::weighted(0.8, value),
        prop::option::weighted(0.8, float),
        prop::bool::weighted(0.2),
    )
        .prop_map(|(t, k, s, v, f, gone)| Row { t, k, s, v, f, gone });
    prop::collection::vec(row, 0..25)
}

/// Scripts whose watermarks rise, with crashes at any task count.
pub(crate) fn lines() -> impl Strategy<Value = Vec<Line>> {
    let line = prop_oneof![
        6 => rows().prop_map(Line::Rows),
        3 => (0i64..25).prop_map(Line::Watermark),
        2 => Just(Line::Snapshot),
        1 => (1usize..6).prop_map(Line::Crash),
    ];
    prop::collection::vec(line, 0..16).prop_map(|mut lines| {
        let mut watermark = -70;
        for line in &mut lines {
            if let Line::Watermark(by) = line {
                watermark += *by;
                *by = watermark;
            }
        }
        lines
    })
}

/// The aggregates that [`aggregated`] recomputes.
pub(crate) fn aggs() -> serde_json::Value {
    serde_json::json!([
        { "op": "count", "alias": "rows" },
        { "op": "count", "column": "v", "alias": "values" },
        { "op": "sum", "column": "v", "alias": "sum" },
        { "op": "max", "column": "f", "alias": "greatest" },
        { "op": "min", "column": "s", "alias": "least" },
        { "op": "count", "alias": "few", "filter": "v > 0" },
    ])
}

/// What [`aggs`] come to over some rows, as text; a sum beyond int64 is null.
pub(crate) fn aggregated<'a>(rows: impl IntoIterator<Item = &'a Row>) -> String {
    let rows: Vec<&Row> = rows.into_iter().collect();
    let values: Vec<i64> = rows.iter().filter_map(|row| row.v).collect();
    let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
    let sum = i64::try_from(sum).ok().filter(|_| !values.is_empty());
    let total = |a: &f64, b: &f64| a.partial_cmp(b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()));
    let greatest = rows.iter().filter_map(|row| row.f).map(normal).max_by(total);
    let text = |value: Option<String>| value.unwrap_or("-".into());
    [
        rows.len().to_string(),
        values.len().to_string(),
        text(sum.map(|sum| sum.to_string())),
        text(greatest.map(|greatest| format!("{greatest:?}"))),
        text(rows.iter().filter_map(|row| row.s.as_ref()).min().map(|least| format!("{least:?}"))),
        values.iter().filter(|value| **value > 0).count().to_string(),
    ]
    .join(" ")
}

/// The cells of the columns `by` of a row, as a step emits them.
pub(crate) fn group_cells(row: &Row, by: &[&str]) -> String {
    let text = |value: Option<String>| value.unwrap_or("-".into());
    let cell = |column: &str| match column {
        "k" => text(row.k.map(|k| k.to_string())),
        "s" => text(row.s.as_ref().map(|s| format!("{s:?}"))),
        "f" => text(row.f.map(|f| format!("{:?}", normal(f)))),
        other => panic!("the tests do not group by `{other}`"),
    };
    by.iter().map(|column| cell(column)).collect::<Vec<_>>().join(" ")
}

/// A group and its aggregates in one line.
pub(crate) fn line(group: &str, aggregates: &str) -> String {
    if group.is_empty() { aggregates.to_string() } else { format!("{group} {aggregates}") }
}

//! Reported situations of aggregates, each under its number in `docs/cases.md`, whole and across a snapshot and a restore.

use super::harness::{Act, Job, Row};
use crate::parse_step;
use crate::step::{BindCtx, StreamType};
use crate::testing;
use arrow::array::{ArrayRef, Decimal128Array, RecordBatch, TimestampMillisecondArray};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::BadReason;

/// One window of all rows with these aggregates per key.
fn aggregates(aggs: Value) -> Value {
    json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 1000, "groupBy": ["k"], "aggs": aggs })
}

fn integer(v: Option<i64>) -> Row {
    Row { t: Some(0), k: Some(1), v, ..Row::default() }
}

fn float(f: f64) -> Row {
    Row { t: Some(0), k: Some(1), f: Some(f), ..Row::default() }
}

/// The results of a stage over rows that come one by one; the same with a crash and a restore after each.
fn results(step: &Value, rows: &[Row]) -> Vec<String> {
    let acts: Vec<Act> = rows.iter().map(|row| Act::Rows(vec![row.clone()])).collect();
    let run = |paranoid: bool| {
        let mut job = Job::new(step, 1, 100);
        job.run(&acts, paranoid);
        assert!(job.made.bad.is_empty(), "{:?}", job.made.bad);
        job.made.rows()
    };
    let whole = run(false);
    assert_eq!(run(true), whole, "a restore changed the result");
    whole
}

#[test]
fn p125_p126_a_sum_that_outgrows_its_type_is_a_bad_output_row_and_one_that_returns_is_exact() {
    let step = aggregates(json!([{ "op": "sum", "column": "v", "alias": "sum" }]));
    let beyond = [integer(Some(i64::MAX)), integer(Some(i64::MAX)), integer(Some(1))];
    let acts: Vec<Act> = beyond.iter().map(|row| Act::Rows(vec![row.clone()])).collect();
    for paranoid in [false, true] {
        let mut job = Job::new(&step, 1, 100);
        job.run(&acts, paranoid);
        assert!(job.made.rows().is_empty());
        assert_eq!(job.made.bad.iter().map(|bad| bad.reason).collect::<Vec<_>>(), [BadReason::Overflow]);
        assert!(job.made.bad[0].message.contains("18446744073709551615"), "{}", job.made.bad[0].message);
    }
    let back = [integer(Some(i64::MAX)), integer(Some(i64::MAX)), integer(Some(-i64::MAX))];
    assert_eq!(results(&step, &back), [format!("0 1000 1 {}", i64::MAX)]);
}

#[test]
fn p127_extremes_do_not_depend_on_the_order_of_nan_and_signed_zeros() {
    let step = aggregates(json!([{ "op": "min", "column": "f", "alias": "min" }, { "op": "max", "column": "f", "alias": "max" }]));
    for pair in [[f64::NAN, 2.0], [0.0, -0.0], [f64::NEG_INFINITY, f64::NAN]] {
        let [one, other] = pair.map(float);
        assert_eq!(results(&step, &[one.clone(), other.clone()]), results(&step, &[other, one]), "{pair:?}");
    }
    assert_eq!(results(&step, &[float(f64::NAN), float(2.0)]), ["0 1000 1 2.0 NaN"]);
}

#[test]
fn p128_p129_p134_aggregates_of_nothing_are_null_and_their_count_is_zero() {
    let step = aggregates(json!([
        { "op": "avg", "column": "v", "alias": "avg" },
        { "op": "sum", "column": "v", "alias": "sum" },
        { "op": "avg", "column": "v", "alias": "none", "filter": "false" },
        { "op": "count", "column": "v", "alias": "n" },
    ]));
    assert_eq!(results(&step, &[integer(None), integer(None)]), ["0 1000 1 - - - 0"]);
    assert_eq!(results(&step, &[5, 4, 3, 2, 1].map(|v| integer(Some(v)))), ["0 1000 1 3.0 15 - 5"]);
    let with_null = [Some(5), Some(4), Some(3), Some(2), Some(1), None].map(integer);
    assert_eq!(results(&step, &with_null), ["0 1000 1 3.0 15 - 5"]);
}

#[test]
fn p133_a_count_of_a_column_leaves_nulls_out() {
    let step = aggregates(json!([{ "op": "count", "column": "v", "alias": "n" }, { "op": "count", "alias": "rows" }]));
    assert_eq!(results(&step, &[Some(1), None, Some(2)].map(integer)), ["0 1000 1 2 3"]);
}

#[test]
fn p136_the_average_of_integers_is_a_float() {
    let step = aggregates(json!([{ "op": "avg", "column": "v", "alias": "avg" }]));
    assert_eq!(results(&step, &[Some(1), Some(2)].map(integer)), ["0 1000 1 1.5"]);
}

#[test]
fn p107_both_zeros_are_one_group_and_so_are_all_nans() {
    let step = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 1000, "groupBy": ["f"], "aggs": [{ "op": "count", "alias": "n" }] });
    let other_nan = f64::from_bits(f64::NAN.to_bits() | 1);
    assert_eq!(results(&step, &[0.0, -0.0, f64::NAN, other_nan].map(float)), ["0 1000 0.0 2", "0 1000 NaN 2"]);
}

#[test]
fn p125_p126_a_sum_of_decimals_beyond_38_digits_is_a_bad_output_row_and_one_that_returns_is_exact() {
    let step =
        json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 1000, "aggs": [{ "op": "sum", "column": "d", "alias": "sum" }] });
    let most = 10i128.pow(38) - 1;
    let batch = |value: i128| {
        let decimals = Decimal128Array::from(vec![value]).with_precision_and_scale(38, 3).unwrap();
        let columns: [(&str, ArrayRef); 2] = [("t", Arc::new(TimestampMillisecondArray::from(vec![0]))), ("d", Arc::new(decimals))];
        RecordBatch::try_from_iter(columns).unwrap()
    };
    let run = |values: &[i128], paranoid: bool| {
        let mut job = testing::Job::new(testing::bind(&step, &[StreamType::append(batch(0).schema())], false), 1, 100);
        let acts: Vec<testing::Act> = values.iter().map(|value| testing::Act::Rows(0, batch(*value))).collect();
        job.run(&acts, paranoid);
        (job.made.rows(), job.made.bad.iter().map(|bad| bad.reason).collect::<Vec<_>>())
    };
    for paranoid in [false, true] {
        assert_eq!(run(&[most, most], paranoid), (vec![], vec![BadReason::Overflow]));
        assert_eq!(run(&[most, 1000], paranoid), (vec![], vec![BadReason::Overflow]));
        assert_eq!(run(&[most, most, 1000], paranoid), (vec![], vec![BadReason::Overflow]));
        let back = run(&[most, most, 1000, -most], paranoid);
        assert_eq!(back, (vec![], vec![BadReason::Overflow]), "most and one more is still beyond");
        let back = run(&[most, most, 1000, -most, -1000], paranoid);
        assert_eq!(back, (vec!["0 1000 99999999999999999999999999999999999.999".to_string()], vec![]));
    }
}

#[test]
fn p135_an_aggregate_refuses_a_type_it_cannot_take_and_leaves_nothing_out_in_silence() {
    for op in ["sum", "avg", "varPop", "boolAnd", "bitXor", "median"] {
        let step = aggregates(json!([{ "op": op, "column": "s", "alias": "a" }, { "op": "count", "alias": "n" }]));
        let input = StreamType::append(super::harness::schema());
        let found = parse_step(&step).unwrap().bind(&[input], &BindCtx::new()).map(|_| ()).unwrap_err();
        let found = found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        assert!(found.contains("aggs") && found.contains('s') && found.contains("string"), "{op}: {found}");
    }
}

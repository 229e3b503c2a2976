//! The step against an oracle that reads the whole input row by row.

use crate::lean::testing::*;
use crate::parse_step;
use crate::step::{BindCtx, BoundNode, StreamType};
use crate::testing::{Job, bind};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tidegate_api::{BadReason, ChangeMode, hidden};

const BY: [&[&str]; 4] = [&[], &["k"], &["s"], &["k", "f"]];

fn step(n: usize, by: &[&str], order: Option<&str>) -> Value {
    json!({ "op": "lastN", "n": n, "groupBy": by, "aggs": aggs(), "orderBy": order })
}

fn without_null(mut step: Value) -> Value {
    step.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    step
}

/// The last `n` of each group, in order of arrival or by time.
fn expected(rows: &[Row], n: usize, by: &[&str], unique: Option<&[&str]>, timed: bool) -> Vec<String> {
    let mut kept: Vec<Row> = Vec::new();
    for row in rows {
        if let Some(unique) = unique {
            kept.retain(|other| key_of(other, unique) != key_of(row, unique));
        }
        if unique.is_none() || !row.gone {
            kept.push(row.clone());
        }
    }
    if timed {
        kept.retain(|row| row.t.is_some());
        kept.sort_by_key(|row| row.t);
    }
    let mut groups: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    kept.into_iter().for_each(|row| groups.entry(group_cells(&row, by)).or_default().push(row));
    let mut made: Vec<String> =
        groups.iter().map(|(group, rows)| line(group, &aggregated(&rows[rows.len().saturating_sub(n)..]))).collect();
    made.sort();
    made
}

fn found(job: &Job, by: &[&str]) -> Vec<String> {
    let mut rows: Vec<String> = table(&job.made, by).into_values().collect();
    rows.sort();
    rows
}

fn updating_by(unique: &[&str]) -> StreamType {
    StreamType { schema: updating(), mode: ChangeMode::Upsert { keys: unique.iter().map(|key| (*key).to_string()).collect() } }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_last_rows_of_every_group_are_aggregated(
        lines in lines(), n in 1usize..5, by in 0usize..4, tasks in 1usize..5, batch_rows in 1usize..40, paranoid in any::<bool>(), cut in 1usize..30,
    ) {
        let step = without_null(step(n, BY[by], None));
        let mut job = Job::new(bind(&step, &[StreamType::append(schema())], false), tasks, batch_rows);
        let lines = recut(&lines, cut);
        play(&mut job, &lines, batch, paranoid);
        prop_assert_eq!(found(&job, BY[by]), expected(&all_rows(&lines), n, BY[by], None, false));
        prop_assert_eq!((job.made.filtered, bad_input(&job.made)), (0, 0));
    }

    #[test]
    fn by_a_column_the_order_of_arrival_does_not_matter(
        lines in lines(), n in 1usize..5, by in 0usize..4, tasks in 1usize..5, paranoid in any::<bool>(), cut in 1usize..30, reverse in any::<bool>(),
    ) {
        let mut rows = all_rows(&lines);
        rows.iter_mut().enumerate().for_each(|(at, row)| row.t = row.t.map(|_| (at as i64 * 7919) % 10_007));
        let wanted = expected(&rows, n, BY[by], None, true);
        let filtered = rows.iter().filter(|row| row.t.is_none()).count() as u64;
        if reverse {
            rows.reverse();
        }
        let mut job = Job::new(bind(&step(n, BY[by], Some("t")), &[StreamType::append(schema())], false), tasks, 9);
        play(&mut job, &recut(&[Line::Rows(rows)], cut), batch, paranoid);
        prop_assert_eq!(found(&job, BY[by]), wanted);
        prop_assert_eq!(job.made.filtered, filtered);
    }

    #[test]
    fn a_row_that_updates_another_takes_its_place_and_is_the_newest(
        lines in lines(), n in 1usize..5, by in 0usize..4, unique in 0usize..3, tasks in 1usize..5, batch_rows in 1usize..40,
        paranoid in any::<bool>(),
    ) {
        let unique = [&["k"][..], &["s"], &["k", "s"]][unique];
        let step = without_null(step(n, BY[by], None));
        let mut job = Job::new(bind(&step, &[updating_by(unique)], false), tasks, batch_rows);
        play(&mut job, &lines, updates, paranoid);
        prop_assert_eq!(found(&job, BY[by]), expected(&all_rows(&lines), n, BY[by], Some(unique), false));
        prop_assert_eq!(bad_input(&job.made), 0);
    }
}

fn average(n: usize) -> Value {
    json!({ "op": "lastN", "n": n, "groupBy": ["k"], "aggs": [{ "op": "avg", "column": "v", "alias": "avg" }] })
}

#[test]
fn p140_only_the_last_rows_of_a_group_are_kept() {
    let mut job = Job::new(bind(&average(10), &[StreamType::append(schema())], false), 1, 1000);
    for part in 0..60 {
        job.batch(0, &batch(&(0..1000).map(|v| row(0, 1, part * 1000 + v)).collect::<Vec<_>>()));
    }
    let snapshot = job.snapshot();
    assert!(snapshot.len() <= 3, "{} pieces for ten rows", snapshot.len());
    assert_eq!(found(&job, &["k"]), ["1 59994.5"]);
}

#[test]
fn a_winner_that_is_outbid_counts_once() {
    // Closing prices per seller: `s` is the auction, whose best bid changes.
    let bid = |auction: &str, seller: i64, price: i64| Row { s: Some(auction.into()), ..row(0, seller, price) };
    let mut job = Job::new(bind(&average(2), &[updating_by(&["s"])], false), 3, 100);
    job.batch(0, &updates(&[bid("a", 1, 10), bid("b", 1, 20)]));
    job.batch(0, &updates(&[bid("a", 1, 30)]));
    assert_eq!(found(&job, &["k"]), ["1 25.0"]);
    job.batch(0, &updates(&[bid("c", 1, 50)]));
    assert_eq!(found(&job, &["k"]), ["1 40.0"]);
    job.batch(0, &updates(&[Row { gone: true, ..bid("c", 1, 50) }]));
    assert_eq!(found(&job, &["k"]), ["1 25.0"], "the one before comes back");
    job.batch(0, &updates(&[bid("a", 2, 30), Row { gone: true, ..bid("b", 1, 20) }]));
    assert_eq!(found(&job, &["k"]), ["2 30.0"], "a group without rows is removed");
}

#[test]
fn a_row_on_which_a_filter_fails_is_bad_and_one_that_goes_is_not() {
    let step = json!({ "op": "lastN", "n": 2, "aggs": [{ "op": "count", "alias": "n", "filter": "v + 9223372036854775800 > 0" }] });
    let mut job = Job::new(bind(&step, &[updating_by(&["k"])], false), 1, 100);
    job.batch(0, &updates(&[row(0, 1, 1), row(0, 2, 100)]));
    assert_eq!((job.made.bad.len(), job.made.bad[0].reason), (1, BadReason::Expression));
    job.batch(0, &updates(&[Row { gone: true, ..row(0, 1, 100) }]));
    assert_eq!((job.made.bad.len(), found(&job, &[]).len()), (1, 0));
}

#[test]
fn a_sum_that_does_not_fit_is_null_and_a_bad_row_tells_it() {
    let step = json!({ "op": "lastN", "n": 2, "groupBy": "k", "aggs": [{ "op": "sum", "column": "v", "alias": "sum" }] });
    let mut job = Job::new(bind(&step, &[StreamType::append(schema())], false), 1, 100);
    job.batch(0, &batch(&[row(0, 7, i64::MAX), row(0, 7, 1), row(0, 8, 1)]));
    assert_eq!(found(&job, &["k"]), ["7 -", "8 1"]);
    assert_eq!(job.made.bad[0].message, "`sum` is `9223372036854775808`, which `int64` cannot hold (group k=7)");
}

#[test]
fn keys_are_those_of_the_group() {
    let mut job = Job::new(bind(&average(2), &[StreamType::append(schema())], true), 1, 100);
    job.batch(0, &batch(&[row(0, 7, 1)]));
    let key = job.made.batches[0].column_by_name(hidden::KEY).unwrap();
    assert_eq!(crate::testing::shown(key, 0), "02080000000700000000000000");
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    let mistakes = |step: Value| {
        let bound = parse_step(&step).and_then(|def| def.bind(&[StreamType::append(schema())], &BindCtx::new()));
        bound.map_or_else(|problems| problems.iter().map(ToString::to_string).collect(), |_| Vec::new())
    };
    assert_eq!(
        mistakes(json!({ "op": "lastN", "n": 20000, "orderby": "t" })),
        [
            "n: expected a number of rows from 1 to 10000, found `20000`",
            "aggs: `aggs` is missing; it says what to compute, such as `[{ op = \"count\", alias = \"rows\" }]`",
            "orderby: unknown key `orderby`, did you mean `orderBy`?",
        ]
    );
    assert_eq!(
        mistakes(json!({ "op": "lastN", "n": 1, "orderBy": "x", "groupBy": ["kk"], "aggs": [{ "op": "sum", "column": "s" }] })),
        [
            "orderBy: there is no column `x`",
            "groupBy.0: there is no column `kk`, did you mean `k`?",
            "aggs.0.column: `sum` has no meaning over values of type `string`",
        ]
    );
}

#[test]
fn it_reads_what_it_needs_and_the_plan_says_what_is_kept() {
    let bound = bind(&average(10), &[StreamType::append(schema())], false);
    assert_eq!((bound.required)(&Default::default()), [["k", "v"].map(str::to_string).into()]);
    assert_eq!(
        bound.details,
        "last 10 in order of arrival per k: avg = avg(v); groups are kept for ever, so state grows with every new one"
    );
    let bound = bind(&average(10), &[updating_by(&["s"])], false);
    assert_eq!((bound.required)(&Default::default()), [["_op", "k", "s", "v"].map(str::to_string).into()]);
    assert!(bound.details.ends_with("in one task, since an update by s may move a row to another group"));
    let BoundNode::Operator { keys, .. } = bound.node else { panic!("not an operator") };
    assert_eq!(keys, [[""; 0]]);
    assert_eq!(bound.output.mode, ChangeMode::Upsert { keys: vec!["k".into()] });
}

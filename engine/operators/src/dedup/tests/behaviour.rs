//! Single behaviours, each named after what a user would see; reported situations carry their numbers of `docs/cases.md`.

use crate::lean::testing::*;
use crate::step::{BoundNode, StreamType};
use crate::testing::{Job, bind};
use arrow::array::{Array, AsArray, RecordBatch};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tidegate_api::{BadReason, Counter, EventTime, Generation, Operator, OperatorCtx, Output, RunId, RunIdentity, StatePiece, hidden};

fn job(step: &Value, tasks: usize) -> Job {
    Job::new(bind(step, &[StreamType::append(schema())], false), tasks, 100)
}

fn first(ttl: i64) -> Value {
    json!({ "op": "deduplicate", "keys": "k", "timeColumn": "t", "ttlMs": ttl })
}

fn open(step: &Value, gauge: &Counter) -> Box<dyn Operator> {
    let BoundNode::Operator { factory, .. } = bind(step, &[StreamType::append(schema())], false).node else { panic!("not an operator") };
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "stage");
    factory.open(OperatorCtx::new(run).with_state_bytes(gauge.clone())).unwrap()
}

#[test]
fn the_first_row_of_a_key_passes_and_later_ones_do_not() {
    let mut job = job(&json!({ "op": "deduplicate", "keys": ["k"] }), 2);
    job.batch(0, &batch(&[row(1, 1, 10), row(2, 1, 11), row(3, 2, 12), row(0, 1, 13)]));
    job.batch(0, &batch(&[row(9, 2, 14)]));
    assert_eq!(job.made.rows(), ["1 1 - 10 -", "3 2 - 12 -"]);
    assert_eq!(job.made.filtered, 3);
}

#[test]
fn a_key_passes_again_once_its_time_to_live_is_over() {
    let mut job = job(&first(10), 1);
    job.batch(0, &batch(&[row(0, 1, 1), row(9, 1, 2), row(10, 1, 3), row(19, 1, 4), row(20, 1, 5)]));
    assert_eq!(job.made.rows(), ["0 1 - 1 -", "10 1 - 3 -", "20 1 - 5 -"]);
}

#[test]
fn a_row_further_behind_the_watermark_than_keys_are_remembered_is_late() {
    let mut job = job(&first(10), 1);
    job.watermark(EventTime::from_millis(30));
    job.batch(0, &batch(&[row(19, 1, 1), row(20, 2, 2), row(25, 1, 3)]));
    assert_eq!((job.made.late, job.made.rows()), (1, vec!["20 2 - 2 -".to_string(), "25 1 - 3 -".to_string()]));
}

#[test]
fn the_last_row_replaces_the_one_before_and_a_batch_passes_only_its_newest() {
    let mut job = job(&json!({ "op": "deduplicate", "keys": ["k"], "keep": "last", "timeColumn": "t" }), 1);
    job.batch(0, &batch(&[row(5, 1, 1), row(9, 1, 2), row(7, 1, 3), row(1, 2, 4)]));
    assert_eq!(job.made.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
    job.batch(0, &batch(&[row(8, 1, 5)]));
    assert_eq!(job.made.batches.len(), 1, "an older row changes nothing");
    job.batch(0, &batch(&[row(9, 1, 6)]));
    let table = table(&job.made, &["k"]);
    assert_eq!(table.values().cloned().collect::<Vec<_>>(), ["9 1 - 6 -", "1 2 - 4 -"]);
}

#[test]
fn without_a_time_the_last_to_come_counts() {
    let mut job = job(&json!({ "op": "deduplicate", "keys": ["k"], "keep": "last" }), 3);
    job.batch(0, &batch(&[row(5, 1, 1), row(9, 1, 2), row(7, 1, 3)]));
    assert_eq!(table(&job.made, &["k"]).values().cloned().collect::<Vec<_>>(), ["7 1 - 3 -"]);
}

#[test]
fn a_row_without_time_is_bad_and_so_is_one_too_far_from_1970() {
    let mut job = job(&first(10), 1);
    job.batch(0, &batch(&[Row { k: Some(1), ..Row::default() }, row(i64::MAX, 2, 0), row(i64::MIN, 2, 0), row(3, 3, 0)]));
    let reasons: Vec<BadReason> = job.made.bad.iter().map(|bad| bad.reason).collect();
    assert_eq!(reasons, [BadReason::MissingValue, BadReason::TypeMismatch, BadReason::TypeMismatch]);
    assert_eq!(job.made.bad[0].message, "the time column `t` is null");
    assert_eq!(job.made.rows(), ["3 3 - 0 -"]);
}

#[test]
fn times_at_the_ends_of_the_range_order_rows_all_the_same() {
    let mut job = job(&json!({ "op": "deduplicate", "keys": ["k"], "keep": "last", "timeColumn": "t" }), 1);
    job.batch(0, &batch(&[row(i64::MIN, 1, 1), row(i64::MAX, 1, 2), row(i64::MAX - 1, 1, 3)]));
    assert_eq!(table(&job.made, &["k"]).into_values().collect::<Vec<_>>(), [format!("{} 1 - 2 -", i64::MAX)]);
}

#[test]
fn keys_name_rows_by_key_and_a_key_that_is_forgotten_by_time_too() {
    let keys = |step: Value, rows: &[Row]| -> Vec<Vec<u8>> {
        let mut job = Job::new(bind(&step, &[StreamType::append(schema())], true), 2, 100);
        job.batch(0, &batch(rows));
        let made = job.made.batches.iter().flat_map(|batch| {
            let keys = batch.column_by_name(hidden::KEY).unwrap().as_binary::<i32>().clone();
            (0..keys.len()).map(move |row| keys.value(row).to_vec()).collect::<Vec<_>>()
        });
        made.collect()
    };
    let rows = [row(0, 7, 1), row(50, 7, 2)];
    let seven = [2, 8, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(keys(json!({ "op": "deduplicate", "keys": "k" }), &rows), [seven]);
    assert_eq!(keys(json!({ "op": "deduplicate", "keys": "k", "keep": "last" }), &rows), [seven]);
    let timed = keys(first(10), &rows);
    assert!(timed[0].starts_with(&seven) && timed.iter().collect::<BTreeSet<_>>().len() == 2);
}

#[test]
fn a_snapshot_refers_to_what_did_not_change() {
    let mut operator = open(&json!({ "op": "deduplicate", "keys": "k" }), &Counter::new());
    let mut out = Output::default();
    let mut sizes = Vec::new();
    for epoch in 0..4u64 {
        let from = if epoch == 2 { 1000 } else { epoch as i64 * 1000 };
        operator.on_batch(0, batch(&(0..1000).map(|k| row(0, from + k, 0)).collect::<Vec<_>>()), &mut out).unwrap();
        let pieces = operator.snapshot(tidegate_api::Epoch(epoch)).unwrap();
        let new = pieces.iter().filter(|piece| !matches!(piece, StatePiece::Kept(_))).count();
        sizes.push((pieces.len() - new, new));
        operator.pieces_named(tidegate_api::Epoch(epoch), (0..new).map(|n| tidegate_api::PieceId(format!("{epoch}/{n}"))).collect());
    }
    // The first is written in ranges, so that they can be written anew one by one.
    let ranges = sizes[0].1;
    assert_eq!(sizes, [(0, ranges), (ranges, 1), (ranges + 1, 0), (ranges + 1, 1)]);
}

#[test]
fn p106_p107_keys_of_nan_and_both_zeros_are_one_each_also_at_the_edges_of_batches() {
    let values = [f64::NAN, 0.0, -0.0, f64::from_bits(0x7ff8_0000_0000_0001), f64::INFINITY, -f64::NAN, f64::NEG_INFINITY];
    let mut rows: Vec<Row> = values.iter().enumerate().map(|(at, f)| Row { v: Some(at as i64), f: Some(*f), ..Row::default() }).collect();
    rows.extend([Row { v: Some(7), ..Row::default() }, Row { v: Some(8), ..Row::default() }]);
    for cut in [1, 2, 9] {
        for paranoid in [false, true] {
            let mut job = job(&json!({ "op": "deduplicate", "keys": "f" }), 2);
            play(&mut job, &recut(&[Line::Rows(rows.clone())], cut), batch, paranoid);
            let mut expected = ["- - - 0 NaN", "- - - 1 0.0", "- - - 4 inf", "- - - 6 -inf", "- - - 7 -"].map(str::to_string).to_vec();
            expected.sort();
            assert_eq!(job.made.rows(), expected, "cut by {cut}");
        }
    }
}

#[test]
fn p138_p143_keys_that_come_once_leave_nothing_behind_and_may_come_again() {
    let gauge = Counter::new();
    let mut operator = open(&first(1000), &gauge);
    let mut out = Output::default();
    operator.on_watermark(EventTime::from_millis(0), &mut out).unwrap();
    let empty = gauge.get();
    let mut most = 0;
    for second in 0..50i64 {
        let rows: Vec<Row> = (0..1000).map(|k| row(second * 1000 + k, second * 1000 + k, 0)).collect();
        operator.on_batch(0, batch(&rows), &mut out).unwrap();
        operator.on_watermark(EventTime::from_millis(second * 1000 + 999), &mut out).unwrap();
        most = most.max(gauge.get());
    }
    assert!(most < 400_000, "{most} bytes for keys of a few seconds");
    operator.on_watermark(EventTime::from_millis(100_000), &mut out).unwrap();
    assert_eq!(gauge.get(), empty, "the dictionary went with the keys");
    let passed = |out: &mut Output| out.batches.drain(..).map(|batch| batch.num_rows()).sum::<usize>();
    assert_eq!(passed(&mut out), 50_000);
    operator.on_batch(0, batch(&[row(100_000, 5, 0), row(100_001, 5, 0)]), &mut out).unwrap();
    assert_eq!(passed(&mut out), 1);
}

#[test]
fn p147_the_plan_says_whether_state_is_bounded() {
    let details = |step: Value| bind(&step, &[StreamType::append(schema())], false).details;
    assert_eq!(
        details(json!({ "op": "deduplicate", "keys": ["k", "s"] })),
        "first row per k, s; keys are remembered for ever, so state grows with every new one; `ttlMs` bounds it"
    );
    assert_eq!(
        details(json!({ "op": "deduplicate", "keys": "k", "keep": "last", "timeColumn": "t", "ttl": "1h" })),
        "last row per k by t; a key is remembered for 1h of t"
    );
}

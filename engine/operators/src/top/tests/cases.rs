//! Reported situations of ranks, each under its number in `docs/cases.md`.

use super::behaviour::{emitted, job};
use crate::lean::testing::*;
use crate::step::StreamType;
use crate::testing::{Job, bind};
use serde_json::json;
use tidegate_api::ChangeMode;

/// Rows that update each other by `s`; the first two by `v` of all.
fn first_two() -> Job {
    let step = json!({ "op": "topN", "orderBy": "v", "n": 2 });
    let mode = ChangeMode::Upsert { keys: vec!["s".into()] };
    Job::new(bind(&step, &[StreamType { schema: updating(), mode }], false), 1, 100)
}

fn named(v: i64) -> Row {
    Row { s: Some(v.to_string()), ..row(0, 0, v) }
}

fn without(v: i64) -> Row {
    Row { gone: true, ..named(v) }
}

fn values(job: &Job) -> Vec<String> {
    table(&job.made, &["rank"]).into_values().map(|row| row.split(' ').nth(4).unwrap().to_string()).collect()
}

#[test]
fn p109_a_row_that_was_pushed_out_and_then_removed_leaves_no_ghost() {
    for snapshot in [false, true] {
        let mut job = first_two();
        for rows in [[named(5)], [named(4)], [named(6)], [without(4)], [without(6)]] {
            job.batch(0, &updates(&rows));
            if snapshot {
                let saved = job.snapshot();
                job.restore(&saved, 1);
            }
        }
        assert_eq!(values(&job), ["5"]);
    }
}

#[test]
fn p111_removing_a_row_behind_the_last_rank_and_then_the_first_moves_the_right_one_up() {
    let mut job = first_two();
    job.batch(0, &updates(&[named(9), named(8), named(7), named(6)]));
    emitted(&mut job);
    job.batch(0, &updates(&[without(7)]));
    assert!(emitted(&mut job).is_empty(), "nothing that was told has changed");
    job.batch(0, &updates(&[without(9)]));
    assert_eq!(emitted(&mut job), ["+ 1 0 0 \"8\" 8 -", "+ 2 0 0 \"6\" 6 -"]);
}

#[test]
fn p113_a_row_that_moves_to_another_rank_replaces_what_was_there_and_nothing_is_removed_after_it() {
    let mut job = job(&json!({ "op": "topN", "orderBy": "v", "direction": "asc", "n": 2 }));
    job.batch(0, &batch(&[Row { s: Some("3L".into()), ..row(0, 0, 16) }]));
    job.batch(0, &batch(&[Row { s: Some("2L".into()), ..row(0, 0, 11) }]));
    let table = table(&job.made, &["rank"]);
    assert_eq!(table.into_values().collect::<Vec<_>>(), ["1 0 0 \"2L\" 11 -", "2 0 0 \"3L\" 16 -"]);
    assert!(emitted(&mut job).iter().all(|change| change.starts_with('+')));
}

#[test]
fn p124_removing_what_never_came_removes_nothing() {
    let mut job = first_two();
    job.batch(0, &updates(&[without(1)]));
    job.batch(0, &updates(&[named(2), without(3), named(4), without(4)]));
    assert_eq!(emitted(&mut job), ["+ 1 0 0 \"2\" 2 -"]);
}

#[test]
fn p147_the_plan_says_what_is_kept() {
    let step = json!({ "op": "topN", "orderBy": "v", "n": 3, "groupBy": ["k"] });
    let details = |input: StreamType| bind(&step, &[input], false).details;
    assert_eq!(
        details(StreamType::append(schema())),
        "first 3 by v desc per k; groups are kept for ever, so state grows with every new one"
    );
    let mode = ChangeMode::Upsert { keys: vec!["s".into()] };
    assert_eq!(
        details(StreamType { schema: updating(), mode }),
        "first 3 by v desc per k; every row that comes in is kept, since any may move up; in one task, since an update by s may move a row \
         to another group"
    );
}

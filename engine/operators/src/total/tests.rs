//! The step against an oracle that reads the whole input row by row.

use crate::lean::testing::*;
use crate::parse_step;
use crate::step::{BindCtx, BoundNode, StreamType};
use crate::testing::{Job, bind};
use arrow::array::RecordBatch;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::testkit::ManualClock;
use tidegate_api::{
    BadReason, ChangeMode, Counter, EventTime, Flow, Generation, Operator, OperatorCtx, Output, RunId, RunIdentity, hidden,
};

const BY: [&[&str]; 4] = [&[], &["k"], &["s"], &["k", "f"]];

fn step(by: &[&str], more: Value) -> Value {
    let mut step = json!({ "op": "aggregate", "groupBy": by, "aggs": aggs() });
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

#[derive(Debug, Default)]
struct Expected {
    rows: Vec<String>,
    late: usize,
    bad: usize,
}

fn expected(lines: &[Line], by: &[&str], ttl: Option<i64>) -> Expected {
    let mut expected = Expected::default();
    let mut groups: BTreeMap<String, (i64, Vec<Row>)> = BTreeMap::new();
    let mut watermark = i64::MIN / 2;
    for line in lines {
        match line {
            Line::Watermark(millis) => watermark = watermark.max(*millis),
            Line::Snapshot | Line::Crash(_) => {}
            Line::Rows(rows) => {
                for row in rows {
                    let group = groups.entry(group_cells(row, by));
                    let Some(ttl) = ttl else {
                        group.or_default().1.push(row.clone());
                        continue;
                    };
                    let Some(t) = row.t else {
                        expected.bad += 1;
                        continue;
                    };
                    if t < watermark - ttl {
                        expected.late += 1;
                        continue;
                    }
                    let (latest, rows) = group.or_insert((t, Vec::new()));
                    if t >= *latest + ttl {
                        rows.clear();
                    }
                    *latest = t.max(*latest);
                    rows.push(row.clone());
                }
            }
        }
    }
    expected.rows = groups.into_iter().map(|(group, (_, rows))| self::line(&group, &aggregated(&rows))).collect();
    expected.rows.sort();
    expected
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
    fn groups_come_to_what_all_their_rows_do(
        lines in lines(), by in 0usize..4, ttl in prop::option::of(1i64..40), every in prop::option::of(1u64..30), tasks in 1usize..5,
        batch_rows in 1usize..40, paranoid in any::<bool>(), cut in 1usize..30,
    ) {
        let mut more = json!({});
        let map = more.as_object_mut().unwrap();
        if let Some(ttl) = ttl {
            map.insert("ttlMs".into(), json!(ttl));
            map.insert("timeColumn".into(), json!("t"));
        }
        if let Some(every) = every {
            map.insert("emit".into(), json!({ "everyRows": every }));
        }
        let mut job = Job::new(bind(&step(BY[by], more), &[StreamType::append(schema())], false), tasks, batch_rows);
        let lines = recut(&lines, cut);
        play(&mut job, &lines, batch, paranoid);
        let wanted = expected(&lines, BY[by], ttl);
        prop_assert_eq!(found(&job, BY[by]), wanted.rows);
        prop_assert_eq!((job.made.late, bad_input(&job.made)), (wanted.late, wanted.bad));
    }

    #[test]
    fn groups_are_told_once_when_the_input_ends(
        lines in lines(), by in 0usize..4, tasks in 1usize..5, batch_rows in 1usize..40, paranoid in any::<bool>(),
    ) {
        let bound = bind(&step(BY[by], json!({ "final": true })), &[StreamType::append(schema())], false);
        prop_assert_eq!(&bound.output.mode, &ChangeMode::Append);
        let mut job = Job::new(bound, tasks, batch_rows);
        play(&mut job, &lines, batch, paranoid);
        // Sums that do not fit are bad rows instead.
        let overflows = job.made.bad.len();
        let wanted = expected(&lines, BY[by], None).rows;
        let made = job.made.rows();
        prop_assert_eq!(made.len() + overflows, wanted.len());
        prop_assert!(made.iter().all(|row| wanted.contains(row)));
        prop_assert!(job.made.bad.iter().all(|bad| bad.reason == BadReason::Overflow));
    }

    #[test]
    fn rows_that_update_each_other_count_as_they_stand(
        lines in lines(), by in 0usize..4, unique in 0usize..3, tasks in 1usize..5, batch_rows in 1usize..40, paranoid in any::<bool>(),
    ) {
        let unique = [&["k"][..], &["s"], &["k", "s"]][unique];
        let mut job = Job::new(bind(&step(BY[by], json!({})), &[updating_by(unique)], false), tasks, batch_rows);
        play(&mut job, &lines, updates, paranoid);
        let mut kept: BTreeMap<String, Row> = BTreeMap::new();
        for row in all_rows(&lines) {
            match row.gone {
                true => kept.remove(&key_of(&row, unique)),
                false => kept.insert(key_of(&row, unique), row),
            };
        }
        let wanted = expected(&[Line::Rows(kept.into_values().collect())], BY[by], None).rows;
        prop_assert_eq!(found(&job, BY[by]), wanted);
    }
}

fn counts(more: Value) -> Value {
    let mut step = json!({ "op": "aggregate", "groupBy": ["k"], "aggs": [{ "op": "count", "alias": "n" }] });
    step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    step
}

fn open(step: &Value, ctx: impl FnOnce(OperatorCtx) -> OperatorCtx) -> Box<dyn Operator> {
    let BoundNode::Operator { factory, .. } = bind(step, &[StreamType::append(schema())], false).node else { panic!("not an operator") };
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "stage");
    factory.open(ctx(OperatorCtx::new(run))).unwrap()
}

#[test]
fn after_a_batch_the_groups_that_it_changed_are_told() {
    let mut job = Job::new(bind(&counts(json!({})), &[StreamType::append(schema())], false), 1, 100);
    job.batch(0, &batch(&[row(0, 1, 0), row(0, 2, 0), row(0, 1, 0)]));
    job.batch(0, &batch(&[row(0, 2, 0)]));
    let rows: Vec<usize> = job.made.batches.iter().map(RecordBatch::num_rows).collect();
    assert_eq!((rows, found(&job, &["k"])), (vec![2, 1], vec!["1 2".to_string(), "2 2".to_string()]));
}

#[test]
fn with_emit_they_are_told_after_so_many_rows_or_so_much_time() {
    let mut job = Job::new(bind(&counts(json!({ "emit": { "everyRows": 3 } })), &[StreamType::append(schema())], false), 1, 100);
    job.batch(0, &batch(&[row(0, 1, 0), row(0, 2, 0)]));
    assert!(job.made.batches.is_empty());
    job.batch(0, &batch(&[row(0, 1, 0)]));
    assert_eq!(found(&job, &["k"]), ["1 2", "2 1"]);

    let clock = Arc::new(ManualClock::default());
    let mut operator = open(&counts(json!({ "emit": { "every": "1s" } })), |ctx| ctx.with_clock(Arc::clone(&clock) as _));
    let mut out = Output::default();
    operator.on_batch(0, batch(&[row(0, 1, 0)]), &mut out).unwrap();
    assert_eq!(operator.on_time(&mut out).unwrap(), Flow::Done);
    assert!(out.batches.is_empty());
    clock.advance(Duration::from_secs(1));
    operator.on_time(&mut out).unwrap();
    assert_eq!(out.batches.len(), 1);
}

#[test]
fn a_group_begins_anew_after_its_time_to_live() {
    let step = counts(json!({ "timeColumn": "t", "ttlMs": 10 }));
    let mut job = Job::new(bind(&step, &[StreamType::append(schema())], false), 1, 100);
    job.batch(0, &batch(&[row(0, 1, 0), row(9, 1, 0), row(5, 1, 0), row(18, 1, 0)]));
    assert_eq!(found(&job, &["k"]), ["1 4"]);
    job.batch(0, &batch(&[row(28, 1, 0)]));
    assert_eq!(found(&job, &["k"]), ["1 1"]);
}

#[test]
fn p138_p143_groups_that_ended_leave_nothing_behind() {
    let gauge = Counter::new();
    let step = counts(json!({ "timeColumn": "t", "ttlMs": 1000 }));
    let mut operator = open(&step, |ctx| ctx.with_state_bytes(gauge.clone()));
    let mut out = Output::default();
    operator.on_watermark(EventTime::from_millis(0), &mut out).unwrap();
    let empty = gauge.get();
    for second in 0..20i64 {
        let rows: Vec<Row> = (0..1000).map(|k| row(second * 1000 + k, second * 1000 + k, 0)).collect();
        operator.on_batch(0, batch(&rows), &mut out).unwrap();
        operator.on_watermark(EventTime::from_millis(second * 1000 + 999), &mut out).unwrap();
        assert!(gauge.get() < 600_000, "{} bytes for groups of a few seconds", gauge.get());
    }
    operator.on_watermark(EventTime::from_millis(100_000), &mut out).unwrap();
    assert!(gauge.get() < empty + 10_000, "{} bytes of nothing, {empty} at first", gauge.get());
}

#[test]
fn keys_are_those_of_the_group() {
    let mut job = Job::new(bind(&counts(json!({})), &[StreamType::append(schema())], true), 1, 100);
    job.batch(0, &batch(&[row(0, 7, 1)]));
    let key = job.made.batches[0].column_by_name(hidden::KEY).unwrap();
    assert_eq!(crate::testing::shown(key, 0), "02080000000700000000000000");
}

fn mistakes(step: Value, input: StreamType) -> Vec<String> {
    let bound = parse_step(&step).and_then(|def| def.bind(&[input], &BindCtx::new()));
    bound.map_or_else(|problems| problems.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    let input = || StreamType::append(schema());
    assert_eq!(
        mistakes(counts(json!({ "final": true, "emit": { "everyRows": 0 }, "ttlMs": 5, "lateOutput": "late" })), input()),
        [
            "emit.everyRows: expected at least 1 row",
            "ttlMs: `final` tells every group when the input ends, and a group that was forgotten before cannot be told",
            "ttlMs: groups last by event time: name its column as `timeColumn`",
        ]
    );
    assert_eq!(
        mistakes(counts(json!({ "final": true, "emit": { "everyRows": 3, "everyMs": 3 }, "lateOutput": "late" })), input()),
        [
            "emit.everyRows: say one of `everyRows` and `everyMs`",
            "lateOutput: rows are late only for a step that forgets: give `ttlMs`, or leave `lateOutput` out"
        ]
    );
    assert_eq!(
        mistakes(counts(json!({ "final": true, "emit": { "everyRows": 3 } })), input()),
        ["emit: `final` tells groups once, when the input ends; leave one of the two out"]
    );
    assert_eq!(
        mistakes(json!({ "op": "aggregate", "groupBy": ["n"], "timeColumn": "s", "aggs": [{ "op": "count", "alias": "n" }] }), input()),
        [
            "timeColumn: `s` is of type `string`; an event time is a timestamp, or int64 milliseconds",
            "groupBy.0: there is no column `n`",
            "aggs.0.alias: the output has a column `n` already; give another `alias`",
        ]
    );
}

#[test]
fn what_has_no_meaning_over_updates_is_refused_with_the_way_out() {
    let refused = |more: Value| mistakes(counts(more), updating_by(&["s"]));
    for (more, key) in [
        (json!({ "final": true }), "final"),
        (json!({ "emit": { "everyRows": 5 } }), "emit"),
        (json!({ "timeColumn": "t", "ttlMs": 5 }), "ttlMs"),
        (json!({ "timeColumn": "t" }), "timeColumn"),
    ] {
        let found = refused(more);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with(&format!("{key}: the rows that come in replace earlier ones of equal `s`, which `{key}`")),
            "{found:?}"
        );
    }
    assert!(refused(json!({})).is_empty());
}

#[test]
fn p147_the_plan_says_whether_state_is_bounded() {
    let details = |more: Value, input: StreamType| bind(&counts(more), &[input], false).details;
    let append = || StreamType::append(schema());
    assert_eq!(
        details(json!({ "emit": { "everyMs": 500 } }), append()),
        "n = count(*) per k, told every 500ms; groups last for ever, so state grows with every new one; `ttlMs` bounds it"
    );
    assert_eq!(details(json!({ "timeColumn": "t", "ttl": "1h" }), append()), "n = count(*) per k; a group lasts for 1h of t");
    assert_eq!(
        details(json!({}), updating_by(&["k"])),
        "n = count(*) per k; every row that comes in is kept, and a group that changes is computed anew"
    );
}

#[test]
fn p115_a_value_that_went_and_came_again_counts_once() {
    let step = json!({ "op": "aggregate", "groupBy": ["k"], "aggs": [{ "op": "countDistinct", "column": "v", "alias": "values" }] });
    for paranoid in [false, true] {
        let mut job = Job::new(bind(&step, &[updating_by(&["s"])], false), 2, 100);
        let there = Row { s: Some("x".into()), ..row(0, 1, 7) };
        let gone = Row { gone: true, ..there.clone() };
        // Rows with values of their own keep the group alive while that of `x` is gone.
        let other = Row { s: Some("y".into()), ..row(0, 1, 8) };
        for (change, values) in [(&other, "1 1"), (&there, "1 2"), (&gone, "1 1"), (&there, "1 2"), (&there, "1 2")] {
            job.batch(0, &updates(std::slice::from_ref(change)));
            job.time();
            assert_eq!(found(&job, &["k"]), [values]);
            if paranoid {
                let snapshot = job.snapshot();
                job.restore(&snapshot, 3);
            }
        }
    }
}

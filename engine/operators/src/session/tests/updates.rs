//! Sessions that come out more than once, and sessions of the clock.

use super::oracle::{expected, so_far, step};
use crate::lean::testing::table;
use crate::parse_step;
use crate::step::{BindCtx, Bound, BoundNode, StreamType};
use crate::window::tests::harness::{Act, Job, Row, batch, row, schema};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::testkit::ManualClock;
use tidegate_api::{BadReason, ChangeMode, EventTime, Flow, Generation, Operator, OperatorCtx, Output, RunId, RunIdentity};

fn with(mut step: Value, keys: Value) -> Value {
    step.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    step
}

fn count(keys: Value) -> Value {
    let step =
        json!({ "op": "sessionAggregate", "timeColumn": "t", "gapMs": 10, "groupBy": ["k"], "aggs": [{ "op": "count", "alias": "n" }] });
    with(step, keys)
}

fn at(millis: i64) -> EventTime {
    EventTime::from_millis(millis)
}

fn bound(step: &Value) -> Bound {
    parse_step(step).unwrap().bind(&[StreamType::append(schema())], &BindCtx::new()).unwrap()
}

/// The table after all updates, grouped by these columns. Fails when a row is removed that is not there.
fn told(job: &Job, by: &[&str]) -> Vec<String> {
    let keys: Vec<&str> = ["windowStart", "windowEnd"].iter().chain(by).copied().collect();
    let mut rows: Vec<String> = table(&job.made, &keys).into_values().collect();
    rows.sort();
    rows
}

#[test]
fn a_late_row_makes_a_fired_session_longer_and_the_row_of_the_shorter_one_is_removed() {
    let mut job = Job::new(&count(json!({ "allowedLatenessMs": 20 })), 1, 100);
    job.rows(&[row(0, 1, 0), row(5, 2, 0)]);
    job.watermark(at(16));
    assert_eq!(job.made.rows(), ["0 10 1 1 0", "5 15 2 1 0"]);
    job.made.batches.clear();
    job.rows(&[row(8, 1, 0)]);
    job.watermark(at(16));
    // It is not over any more, and what is known of it is put right all the same.
    assert_eq!(job.made.rows(), ["0 10 1 0 1", "0 18 1 2 0"]);
    job.made.batches.clear();
    // Within its bounds: no row is removed.
    job.rows(&[row(3, 1, 0)]);
    job.watermark(at(19));
    assert_eq!(job.made.rows(), ["0 18 1 3 0"]);
    job.made.batches.clear();
    job.watermark(at(38));
    job.rows(&[row(8, 1, 0), row(7, 1, 0)]);
    job.watermark(at(39));
    assert_eq!((job.made.rows(), job.made.late), (vec!["0 18 1 4 0".to_string()], 1));
    job.made.batches.clear();
    // Given up: the same row is a session of its own now, or late.
    job.watermark(EventTime::MAX);
    assert!(job.made.batches.is_empty());
}

#[test]
fn two_fired_sessions_that_become_one_leave_one_row() {
    for orders in [[0, 15], [15, 0]] {
        let mut job = Job::new(&count(json!({ "allowedLatenessMs": 100 })), 1, 100);
        job.rows(&[row(orders[0], 1, 0)]);
        job.rows(&[row(orders[1], 1, 0)]);
        job.watermark(at(50));
        assert_eq!(told(&job, &["k"]), ["0 10 1 1", "15 25 1 1"]);
        job.made.batches.clear();
        job.rows(&[row(8, 1, 0)]);
        job.watermark(at(51));
        assert_eq!(job.made.rows(), ["0 10 1 0 1", "0 25 1 3 0", "15 25 1 0 1"]);
    }
}

#[test]
fn a_late_row_cuts_sessions_of_at_most_a_length_anew() {
    let mut job = Job::new(&count(json!({ "gapMs": 5, "maxMs": 10, "allowedLatenessMs": 100 })), 1, 100);
    job.rows(&[0, 4, 8, 12, 16].map(|t| row(t, 1, 0)));
    job.watermark(at(50));
    assert_eq!(told(&job, &["k"]), ["0 13 1 3", "12 21 1 2"]);
    job.rows(&[row(-3, 1, 0)]);
    job.watermark(at(51));
    assert_eq!(told(&job, &["k"]), ["-3 9 1 3", "8 21 1 3"]);
    job.watermark(EventTime::MAX);
    assert_eq!(told(&job, &["k"]), ["-3 9 1 3", "8 21 1 3"]);
}

#[test]
fn a_late_session_that_is_over_at_once_does_not_wait_for_time_to_go_on() {
    for keys in [json!({ "allowedLatenessMs": 50 }), json!({ "allowedLatenessMs": 50, "maxMs": 100, "emit": { "everyRows": 9 } })] {
        let mut job = Job::new(&count(keys), 1, 100);
        job.watermark(at(100));
        job.rows(&[row(60, 1, 0)]);
        job.time();
        assert_eq!(job.made.rows(), ["60 70 1 1 0"]);
    }
}

#[test]
fn a_cut_far_away_does_not_come_out_again() {
    let mut job = Job::new(&count(json!({ "gapMs": 5, "maxMs": 10, "allowedLatenessMs": 1000 })), 1, 100);
    job.rows(&[0, 4, 100, 104, 200].map(|t| row(t, 1, 0)));
    job.watermark(at(300));
    job.made.batches.clear();
    job.rows(&[row(102, 1, 0)]);
    job.watermark(at(301));
    assert_eq!(job.made.rows(), ["100 109 1 3 0"]);
}

#[test]
fn updates_name_their_keys_and_hold_the_watermark_back_as_long_as_they_may_come() {
    let bound = bound(&count(json!({ "allowedLateness": "20ms", "emit": { "everyRows": 3 } })));
    let keys = ["windowStart", "windowEnd", "k"].map(str::to_string).to_vec();
    assert_eq!(bound.output.mode, ChangeMode::Upsert { keys });
    assert_eq!(bound.details, "sessions with gaps of 10ms over t by k: n = count(*); kept for 20ms after firing; updates every 3 rows");
    let mut job = Job::new(&count(json!({ "allowedLatenessMs": 20 })), 1, 100);
    assert_eq!(job.output_watermark(at(100)), at(70));
    job.rows(&[row(65, 1, 0)]);
    assert_eq!(job.output_watermark(at(100)), at(65));
    assert_eq!(job.output_watermark(EventTime::MAX), EventTime::MAX);
    let plain = parse_step(&count(json!({ "allowedLatenessMs": 0 }))).unwrap().bind(&[StreamType::append(schema())], &BindCtx::new());
    assert_eq!(plain.unwrap().output.mode, ChangeMode::Append);
}

#[test]
fn early_results_come_after_so_many_rows_and_nothing_comes_twice() {
    let mut job = Job::new(&count(json!({ "emit": { "everyRows": 3 } })), 1, 100);
    job.rows(&[row(1, 1, 0), row(2, 2, 0)]);
    job.watermark(at(3));
    assert!(job.made.batches.is_empty());
    job.rows(&[row(4, 1, 0)]);
    job.time();
    assert_eq!(job.made.rows(), ["1 14 1 2 0", "2 12 2 1 0"]);
    job.made.batches.clear();
    job.rows(&[row(5, 2, 0)]);
    job.watermark(at(6));
    assert!(job.made.batches.is_empty(), "not due yet");
    job.watermark(at(16));
    assert_eq!(job.made.rows(), ["2 12 2 0 1", "2 15 2 2 0"], "1's session is over and known as it is");
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows().len(), 2);
}

#[test]
fn delayed_firing_makes_no_row_late_meanwhile() {
    let mut job = Job::new(&count(json!({ "firingDelayMs": 20 })), 1, 100);
    job.rows(&[row(0, 1, 0)]);
    job.watermark(at(30));
    job.rows(&[row(5, 1, 0)]);
    assert!(job.made.batches.is_empty());
    job.watermark(at(36));
    assert_eq!((job.made.rows(), job.made.late), (vec!["0 15 1 2".to_string()], 0));
}

/// One operator on a clock of its own.
fn operator(step: &Value, clock: &Arc<ManualClock>) -> Box<dyn Operator> {
    let BoundNode::Operator { factory, .. } = bound(step).node else { panic!("not an operator") };
    let ctx = OperatorCtx::new(RunIdentity::new("p", RunId::new("r"), Generation(1), "s"));
    factory.open(ctx.with_batch_rows(3).with_clock(Arc::clone(clock) as Arc<dyn tidegate_api::Clock>)).unwrap()
}

fn ticked(operator: &mut dyn Operator, out: &mut Output) {
    while operator.on_time(out).unwrap() == Flow::More {}
}

fn rows(out: &mut Output) -> Vec<String> {
    crate::testing::Made { batches: std::mem::take(&mut out.batches), ..Default::default() }.rows()
}

#[test]
fn sessions_of_the_clock_take_rows_when_they_come_and_fire_a_gap_after_the_last() {
    let step =
        json!({ "op": "sessionAggregate", "ingestTime": true, "gapMs": 10, "groupBy": ["k"], "aggs": [{ "op": "count", "alias": "n" }] });
    assert_eq!(parse_step(&step).unwrap().time_columns(), [None]);
    let clock = Arc::new(ManualClock::at(at(1003)));
    let (mut operator, mut out) = (operator(&step, &clock), Output::default());
    operator.on_batch(0, batch(&[row(1, 1, 0), Row { k: Some(2), ..Row::default() }]), &mut out).unwrap();
    clock.advance(Duration::from_millis(10));
    ticked(operator.as_mut(), &mut out);
    operator.on_batch(0, batch(&[row(1, 1, 0)]), &mut out).unwrap();
    assert!(out.batches.is_empty());
    clock.advance(Duration::from_millis(1));
    ticked(operator.as_mut(), &mut out);
    assert_eq!(rows(&mut out), ["1003 1013 2 1"]);
    // A clock that is put back makes no row late, and no session come twice.
    clock.jump_to(at(900));
    operator.on_batch(0, batch(&[row(1, 7, 0)]), &mut out).unwrap();
    ticked(operator.as_mut(), &mut out);
    assert!(out.batches.is_empty() && out.late.is_empty());
    while operator.on_watermark(EventTime::MAX, &mut out).unwrap() == Flow::More {}
    assert_eq!(rows(&mut out), ["1003 1023 1 2", "1014 1024 7 1"]);
    assert_eq!(operator.output_watermark(at(5)), EventTime::MIN);
}

#[test]
fn p068_after_the_idle_timeout_open_sessions_fire_and_a_held_up_task_is_not_idle() {
    let clock = Arc::new(ManualClock::at(at(0)));
    let (mut operator, mut out) = (operator(&count(json!({ "idleTimeoutMs": 5000 })), &clock), Output::default());
    let many: Vec<Row> = (0..7).map(|k| row(1, k, 0)).collect();
    operator.on_batch(0, batch(&many), &mut out).unwrap();
    ticked(operator.as_mut(), &mut out);
    // One long wait between two looks is the engine's, not the input's.
    clock.advance(Duration::from_secs(60));
    ticked(operator.as_mut(), &mut out);
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1));
        ticked(operator.as_mut(), &mut out);
    }
    assert!(out.batches.is_empty());
    clock.advance(Duration::from_secs(1));
    assert_eq!(operator.on_time(&mut out).unwrap(), Flow::More, "a portion of three");
    // A row that could only be part of what is being fired is late, one after it is not.
    operator.on_batch(0, batch(&[row(1, 3, 0), row(2, 3, 0)]), &mut out).unwrap();
    ticked(operator.as_mut(), &mut out);
    assert_eq!(rows(&mut out), (0..7).map(|k| format!("1 11 {k} 1")).collect::<Vec<_>>());
    assert_eq!(out.late.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    while operator.on_watermark(EventTime::MAX, &mut out).unwrap() == Flow::More {}
    assert_eq!(rows(&mut out), ["2 12 3 1"]);
}

#[test]
fn early_results_come_after_so_much_time_and_rows_in_between_are_not_forgotten() {
    let clock = Arc::new(ManualClock::at(at(0)));
    let (mut operator, mut out) = (operator(&count(json!({ "emit": { "every": "2s" } })), &clock), Output::default());
    let many: Vec<Row> = (0..5).map(|k| row(1, k, 0)).collect();
    operator.on_batch(0, batch(&many), &mut out).unwrap();
    clock.advance(Duration::from_millis(1999));
    ticked(operator.as_mut(), &mut out);
    assert!(out.batches.is_empty());
    clock.advance(Duration::from_millis(1));
    assert_eq!(operator.on_time(&mut out).unwrap(), Flow::More, "a portion of three");
    operator.on_batch(0, batch(&[row(2, 0, 0)]), &mut out).unwrap();
    ticked(operator.as_mut(), &mut out);
    assert_eq!(rows(&mut out), (0..5).map(|k| format!("1 11 {k} 1 0")).collect::<Vec<_>>());
    clock.advance(Duration::from_secs(2));
    ticked(operator.as_mut(), &mut out);
    assert_eq!(rows(&mut out), ["1 11 0 0 1", "1 12 0 2 0"]);
}

#[test]
fn a_session_whose_sum_does_not_fit_any_more_leaves_no_row_behind() {
    let step = json!({ "op": "sessionAggregate", "timeColumn": "t", "gapMs": 10, "groupBy": ["k"], "allowedLatenessMs": 100,
                       "aggs": [{ "op": "sum", "column": "v", "alias": "total" }] });
    for paranoid in [false, true] {
        let mut job = Job::new(&step, 1, 100);
        let acts = [
            Act::Rows(vec![row(0, 7, i64::MAX)]),
            Act::Watermark(20),
            Act::Rows(vec![row(0, 7, 1)]),
            Act::Watermark(21),
            Act::Watermark(22),
            Act::Rows(vec![row(0, 8, 1)]),
            Act::Watermark(23),
        ];
        job.run(&acts, paranoid);
        assert_eq!(told(&job, &["k"]), ["0 10 8 1"]);
        assert_eq!(job.made.bad.iter().filter(|bad| bad.reason == BadReason::Overflow).count(), 1, "told once");
    }
}

#[test]
fn what_was_told_leaves_with_the_sessions() {
    let mut job = Job::new(&count(json!({ "allowedLatenessMs": 40, "emit": { "everyRows": 500 } })), 1, 8192);
    for start in 0..50 {
        job.rows(&(0..2000).map(|i| row(start * 20, start * 2000 + i, 0)).collect::<Vec<_>>());
        job.watermark(at(start * 20 + 11));
    }
    job.watermark(at(10_000));
    assert_eq!(job.snapshot().len(), 1, "only the fired times are left");
    assert_eq!(told(&job, &["k"]).len(), 100_000);
}

fn some_rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (prop::option::weighted(0.97, -40i64..40), prop::option::of(-1i64..2), prop::option::of("[ab]"), -5i64..5)
        .prop_map(|(t, k, s, v)| Row { t, k, s, v: Some(v), f: Some(v as f64) });
    prop::collection::vec(row, 0..20)
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        5 => some_rows().prop_map(Act::Rows),
        3 => (0i64..20).prop_map(Act::Watermark),
        2 => Just(Act::Snapshot),
        1 => (1usize..6).prop_map(Act::Crash),
    ];
    prop::collection::vec(act, 0..14).prop_map(|mut acts| {
        let mut watermark = -50;
        for act in &mut acts {
            if let Act::Watermark(by) = act {
                watermark += *by;
                *by = watermark;
            }
        }
        acts
    })
}

/// What the watermark gives up, it gives up that much later.
fn shifted(acts: &[Act], lateness: i64) -> Vec<Act> {
    let shift = |act: &Act| match act {
        Act::Watermark(millis) => Act::Watermark(millis - lateness),
        Act::Rows(_) | Act::Snapshot | Act::Crash(_) => act.clone(),
    };
    acts.iter().map(shift).collect()
}

/// Two rows form one session at a watermark that only the first of them has ended by: the session is told when it has ended, not when it closes.
#[test]
fn rows_that_waited_apart_are_told_as_the_session_that_they_became() {
    let row = |t: i64| Row { t: Some(t), k: Some(0), s: None, v: Some(0), f: Some(0.0) };
    let mut job = Job::new(&with(step(8, Some(1), &["k"], true), json!({ "allowedLatenessMs": 1 })), 1, 1);
    job.rows(&[row(-21)]);
    job.rows(&[row(-20)]);
    for millis in [-20, -12] {
        job.watermark(at(millis));
        assert_eq!(told(&job, &["k"]), Vec::<String>::new(), "at {millis}");
    }
    job.watermark(at(-11));
    assert_eq!(told(&job, &["k"]).len(), 1);
}

const BY: [&[&str]; 4] = [&[], &["k"], &["s"], &["k", "s"]];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn the_table_after_all_updates_is_that_of_every_row_that_was_not_late(
        acts in acts(), gap in 1i64..20, longest in prop::option::of(1i64..50), lateness in 0i64..60, every in prop::option::of(1u64..30),
        by in 0usize..4, tasks in 1usize..4, batch in 1usize..20, paranoid in any::<bool>(),
    ) {
        prop_assume!(lateness > 0 || every.is_some());
        let expected = expected(&shifted(&acts, lateness), gap, longest, BY[by], true);
        let mut keys = json!({ "allowedLatenessMs": lateness });
        if let Some(every) = every {
            keys = with(keys, json!({ "emit": { "everyRows": every } }));
        }
        let mut job = Job::new(&with(step(gap, longest, BY[by], true), keys), tasks, batch);
        job.run(&acts, paranoid);
        prop_assert_eq!(told(&job, BY[by]), expected.rows);
        prop_assert_eq!(job.made.late, expected.late);
        prop_assert_eq!(job.made.bad.len(), expected.bad);
    }

    #[test]
    fn after_every_watermark_the_table_holds_every_session_that_is_over_and_nothing_that_is_wrong(
        acts in acts(), gap in 1i64..20, longest in prop::option::of(1i64..50), lateness in 1i64..60, tasks in 1usize..4, batch in 1usize..20,
    ) {
        let acts: Vec<Act> = acts.into_iter().filter(|act| matches!(act, Act::Rows(_) | Act::Watermark(_))).collect();
        let mut job = Job::new(&with(step(gap, longest, &["k"], true), json!({ "allowedLatenessMs": lateness })), tasks, batch);
        for (at_act, act) in acts.iter().enumerate() {
            match act {
                Act::Rows(rows) => job.rows(rows),
                Act::Watermark(millis) => {
                    job.watermark(at(*millis));
                    let (done, open) = so_far(&shifted(&acts[..=at_act], lateness), gap, longest, &["k"], true);
                    let told = told(&job, &["k"]);
                    let over = open.iter().filter(|(end, _)| end < millis).map(|(_, row)| row);
                    for row in done.rows.iter().chain(over) {
                        prop_assert!(told.contains(row), "{row} is missing at {millis}: {told:?}");
                    }
                    for row in &told {
                        let known = done.rows.contains(row) || open.iter().any(|(_, open)| open == row);
                        prop_assert!(known, "{row} is wrong at {millis}: {done:?} {open:?}");
                    }
                }
                Act::Snapshot | Act::Crash(_) => {}
            }
        }
    }
}

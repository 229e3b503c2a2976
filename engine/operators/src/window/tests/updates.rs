//! Windows that come out more than once, that grow, that follow a calendar or the clock.

use super::harness::{Act, Job, Row, batch, row, schema, shown};
use super::oracle::{expected, step};
use crate::parse_step;
use crate::step::{BindCtx, Bound, BoundNode, StreamType};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::testkit::ManualClock;
use tidegate_api::{ChangeMode, EventTime, Flow, Generation, Operator, OperatorCtx, Output, RunId, RunIdentity};

fn with(mut step: Value, keys: Value) -> Value {
    step.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    step
}

fn count(keys: Value) -> Value {
    let step = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 10, "groupBy": ["k"], "aggs": [{ "op": "count", "alias": "n" }] });
    with(step, keys)
}

fn at(millis: i64) -> EventTime {
    EventTime::from_millis(millis)
}

fn bound(step: &Value) -> Bound {
    parse_step(step).unwrap().bind(&[StreamType::append(schema())], &BindCtx::new()).unwrap()
}

/// The rows of a table after all updates: without the change kind, the first columns being the key.
fn table(job: &Job, keys: usize) -> Vec<String> {
    let mut table: BTreeMap<Vec<String>, String> = BTreeMap::new();
    for batch in &job.made.batches {
        for row in 0..batch.num_rows() {
            let mut cells: Vec<String> = batch.columns().iter().map(|column| shown(column, row)).collect();
            assert_eq!(cells.pop().unwrap(), "0", "every change is an upsert");
            table.insert(cells[..keys].to_vec(), cells.join(" "));
        }
    }
    let mut rows: Vec<String> = table.into_values().collect();
    rows.sort();
    rows
}

#[test]
fn a_late_row_within_the_allowed_lateness_updates_its_window_and_a_later_one_is_late() {
    let mut job = Job::new(&count(json!({ "allowedLatenessMs": 20 })), 1, 100);
    job.rows(&[row(1, 1, 0), row(2, 2, 0)]);
    job.watermark(at(10));
    assert_eq!(job.made.rows(), ["0 10 1 1 0", "0 10 2 1 0"]);
    job.made.batches.clear();
    // The watermark of 29 gives up nothing; that of 30 gives up the window once it has put it right.
    job.rows(&[row(3, 1, 0)]);
    job.watermark(at(29));
    assert_eq!(job.made.rows(), ["0 10 1 2 0"], "only the group that changed");
    job.rows(&[row(4, 3, 0)]);
    job.watermark(at(30));
    job.rows(&[row(5, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["0 10 1 2 0", "0 10 3 1 0"]);
    assert_eq!(job.made.late, 1);
}

#[test]
fn updates_name_their_keys_and_hold_the_watermark_back_as_long_as_they_may_come() {
    let bound = bound(&count(json!({ "allowedLateness": "20ms" })));
    let keys = ["windowStart", "windowEnd", "k"].map(str::to_string).to_vec();
    assert_eq!(bound.output.mode, ChangeMode::Upsert { keys });
    assert_eq!(bound.details, "tumbling 10ms over t by k: n = count(*); kept for 20ms after firing");
    let job = Job::new(&count(json!({ "allowedLatenessMs": 20 })), 1, 100);
    assert_eq!(job.output_watermark(at(30)), at(10));
    assert_eq!(job.output_watermark(at(29)), at(0));
    assert_eq!(job.output_watermark(EventTime::MAX), EventTime::MAX);
}

#[test]
fn early_results_come_after_so_many_rows_and_the_last_ones_when_the_window_fires() {
    let mut job = Job::new(&count(json!({ "emit": { "everyRows": 3 } })), 1, 100);
    job.rows(&[row(1, 1, 0), row(2, 2, 0)]);
    job.watermark(at(3));
    assert!(job.made.batches.is_empty());
    job.rows(&[row(4, 1, 0)]);
    job.watermark(at(4));
    assert_eq!(job.made.rows(), ["0 10 1 2 0", "0 10 2 1 0"]);
    job.made.batches.clear();
    job.rows(&[row(4, 2, 0), row(5, 2, 0), row(6, 2, 0)]);
    job.time();
    assert_eq!(job.made.rows(), ["0 10 2 4 0"], "only the group that changed");
    job.watermark(EventTime::MAX);
    assert_eq!(table(&job, 3), ["0 10 1 2", "0 10 2 4"]);
}

#[test]
fn a_window_grows_by_its_step_until_it_is_whole() {
    let mut job = Job::new(&count(json!({ "windowMs": 30, "stepMs": 10 })), 1, 100);
    job.rows(&[row(-1, 1, 0), row(5, 1, 0), row(25, 1, 0), row(25, 2, 0)]);
    job.watermark(at(10));
    assert_eq!(job.made.rows(), ["-30 0 1 1", "0 10 1 1"]);
    job.watermark(at(30));
    assert_eq!(job.made.rows(), ["-30 0 1 1", "0 10 1 1", "0 20 1 1", "0 30 1 2", "0 30 2 1"]);
    assert_eq!(job.output_watermark(at(29)), at(0));
    assert_eq!(job.output_watermark(at(30)), at(30));
}

const HOUR: i64 = 3_600_000;

#[test]
fn p060_windows_of_days_follow_the_clock_of_their_zone() {
    let step = count(json!({ "windowMs": 24 * HOUR, "timeZone": "Europe/Copenhagen" }));
    let millis = |text: &str| text.parse::<chrono::DateTime<chrono::Utc>>().unwrap().timestamp_millis();
    // The last Sunday of March 2024 has 23 hours, that of October 25.
    let days = [
        ("2024-03-30T23:00:00Z", "2024-03-31T22:00:00Z", 23),
        ("2024-07-01T22:00:00Z", "2024-07-02T22:00:00Z", 24),
        ("2024-10-26T22:00:00Z", "2024-10-27T23:00:00Z", 25),
    ];
    for paranoid in [false, true] {
        let mut job = Job::new(&step, 2, 100);
        let hours = |from: &str, hours: i64| (0..hours).map(|hour| row(millis(from) + hour * HOUR, 1, 0)).collect::<Vec<_>>();
        let rows: Vec<Row> = days.iter().flat_map(|(from, _, n)| hours(from, *n)).collect();
        job.run(&[Act::Rows(rows), Act::Watermark(millis("2024-05-01T00:00:00Z"))], paranoid);
        let mut expected: Vec<String> = days.iter().map(|(from, to, n)| format!("{} {} 1 {n}", millis(from), millis(to))).collect();
        expected.sort();
        assert_eq!(job.made.rows(), expected);
    }
    let mut job = Job::new(&step, 1, 100);
    job.rows(&[row(millis("2024-03-31T21:59:59Z"), 1, 0)]);
    job.watermark(at(millis("2024-03-31T22:00:00Z") - 1));
    assert!(job.made.batches.is_empty());
    assert_eq!(job.output_watermark(at(millis("2024-03-31T21:59:59Z"))), at(millis("2024-03-30T23:00:00Z")));
    job.watermark(at(millis("2024-03-31T22:00:00Z")));
    assert_eq!(job.made.batches.len(), 1);
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
fn windows_of_the_clock_take_rows_when_they_come_and_fire_when_their_time_is_over() {
    let step = json!({ "op": "windowedAggregate", "ingestTime": true, "windowMs": 10, "groupBy": ["k"], "aggs": [{ "op": "count", "alias": "n" }] });
    assert_eq!(parse_step(&step).unwrap().time_columns(), [None]);
    let clock = Arc::new(ManualClock::at(at(1003)));
    let (mut operator, mut out) = (operator(&step, &clock), Output::default());
    operator.on_batch(0, batch(&[row(1, 1, 0), Row { k: Some(2), ..Row::default() }]), &mut out).unwrap();
    clock.advance(Duration::from_millis(6));
    ticked(operator.as_mut(), &mut out);
    assert!(out.batches.is_empty());
    operator.on_batch(0, batch(&[row(1, 1, 0)]), &mut out).unwrap();
    clock.advance(Duration::from_millis(1));
    ticked(operator.as_mut(), &mut out);
    assert_eq!(rows(&mut out), ["1000 1010 1 2", "1000 1010 2 1"]);
    // A clock that is put back makes no row late, and no window come twice.
    clock.jump_to(at(900));
    operator.on_batch(0, batch(&[row(1, 7, 0)]), &mut out).unwrap();
    ticked(operator.as_mut(), &mut out);
    assert!(out.batches.is_empty() && out.late.is_empty());
    while operator.on_watermark(EventTime::MAX, &mut out).unwrap() == Flow::More {}
    assert_eq!(rows(&mut out), ["1010 1020 7 1"]);
    assert_eq!(operator.output_watermark(at(5)), EventTime::MIN);
}

#[test]
fn p068_after_the_idle_timeout_open_windows_fire_and_a_held_up_task_is_not_idle() {
    let clock = Arc::new(ManualClock::at(at(0)));
    let (mut operator, mut out) = (operator(&count(json!({ "idleTimeoutMs": 5000 })), &clock), Output::default());
    let many: Vec<Row> = (0..7).map(|k| row(1, k, 0)).collect();
    operator.on_batch(0, batch(&many), &mut out).unwrap();
    ticked(operator.as_mut(), &mut out);
    // One long wait between two looks is the engine's, not the input's.
    clock.advance(Duration::from_secs(60));
    ticked(operator.as_mut(), &mut out);
    assert!(out.batches.is_empty());
    for _ in 0..3 {
        clock.advance(Duration::from_secs(1));
        ticked(operator.as_mut(), &mut out);
    }
    assert!(out.batches.is_empty());
    clock.advance(Duration::from_secs(1));
    assert_eq!(operator.on_time(&mut out).unwrap(), Flow::More, "a portion of three");
    // A row of the window that is being fired is late, one after it is not.
    operator.on_batch(0, batch(&[row(2, 9, 0), row(12, 9, 0)]), &mut out).unwrap();
    ticked(operator.as_mut(), &mut out);
    assert_eq!(rows(&mut out), (0..7).map(|k| format!("0 10 {k} 1")).collect::<Vec<_>>());
    assert_eq!(out.late.iter().map(|batch| batch.num_rows()).sum::<usize>(), 1);
    while operator.on_watermark(EventTime::MAX, &mut out).unwrap() == Flow::More {}
    assert_eq!(rows(&mut out), ["10 20 9 1"]);
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
    clock.advance(Duration::from_secs(2));
    ticked(operator.as_mut(), &mut out);
    assert!(rows(&mut out).contains(&"0 10 0 2 0".to_string()));
}

fn some_rows() -> impl Strategy<Value = Vec<Row>> {
    let row = (prop::option::weighted(0.95, -40i64..40), prop::option::of(-1i64..2), prop::option::of("[ab]"), -5i64..5)
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_table_after_all_updates_is_that_of_every_row_that_was_not_late(
        acts in acts(), size in 1i64..30, part in 1i64..30, lateness in 0i64..40, every in prop::option::of(1u64..30),
        tasks in 1usize..4, batch in 1usize..20, paranoid in any::<bool>(),
    ) {
        prop_assume!(lateness > 0 || every.is_some());
        // What the watermark closes, it closes that much later.
        let shifted: Vec<Act> = acts.iter().map(|act| match act {
            Act::Watermark(millis) => Act::Watermark(millis - lateness),
            other => other.clone(),
        }).collect();
        let expected = expected(&shifted, size, part.min(size), 0, &["k", "s"]);
        let mut keys = json!({ "allowedLatenessMs": lateness });
        if let Some(every) = every {
            keys = with(keys, json!({ "emit": { "everyRows": every } }));
        }
        let mut job = Job::new(&with(step(size, part.min(size), 0, &["k", "s"]), keys), tasks, batch);
        job.run(&acts, paranoid);
        prop_assert_eq!(table(&job, 4), expected.rows);
        prop_assert_eq!(job.made.late, expected.late);
        prop_assert_eq!(job.made.late_windows, expected.late_windows);
    }

    #[test]
    fn growing_windows_equal_the_recomputed_ones(
        acts in acts(), step in 1i64..10, steps in 1i64..6, offset in -20i64..20, tasks in 1usize..4, batch in 1usize..20, paranoid in any::<bool>(),
    ) {
        let size = step * steps;
        let (mut open, mut late, mut late_windows, mut watermark) = (BTreeMap::<(i64, i64, Option<i64>), i64>::new(), 0, 0, i64::MIN);
        for act in &acts {
            match act {
                Act::Watermark(millis) => watermark = watermark.max(*millis),
                Act::Rows(rows) => for (t, k) in rows.iter().filter_map(|row| Some((row.t?, row.k))) {
                    let start = t - (t - offset).rem_euclid(size);
                    let all: Vec<i64> = (1..=steps).map(|n| start + n * step).filter(|end| *end > t).collect();
                    let due: Vec<i64> = all.iter().copied().filter(|end| *end > watermark).collect();
                    late += usize::from(due.is_empty());
                    late_windows += u64::from(!due.is_empty() && due.len() < all.len());
                    due.into_iter().for_each(|end| *open.entry((start, end, k)).or_default() += 1);
                },
                Act::Snapshot | Act::Crash(_) => {}
            }
        }
        let mut expected: Vec<String> =
            open.into_iter().map(|((start, end, k), n)| format!("{start} {end} {} {n}", k.map_or("-".into(), |k| k.to_string()))).collect();
        expected.sort();
        let mut job = Job::new(&count(json!({ "windowMs": size, "stepMs": step, "offsetMs": offset, "keyBy": ["k"] })), tasks, batch);
        job.run(&acts, paranoid);
        prop_assert_eq!(job.made.rows(), expected);
        prop_assert_eq!((job.made.late, job.made.late_windows), (late, late_windows));
    }
}

#[test]
fn rows_dealt_by_a_part_of_their_group_come_out_the_same() {
    let of = |keys: Value| {
        let step = with(step(20, 10, 0, &["k", "s"]), keys);
        let rows: Vec<Row> = (0..200)
            .map(|i| Row { t: Some(i), k: Some(i % 7), s: (i % 3 > 0).then(|| format!("{}", i % 3)), v: Some(i), f: None })
            .collect();
        let acts = [Act::Rows(rows.clone()), Act::Snapshot, Act::Watermark(77), Act::Crash(3), Act::Rows(rows)];
        let mut job = Job::new(&step, 2, 100);
        job.run(&acts, true);
        job.made.rows()
    };
    assert_eq!(of(json!({})), of(json!({ "keyBy": "s" })));
    assert_eq!(of(json!({})).into_iter().collect::<BTreeSet<_>>().len(), of(json!({ "keyBy": ["k"] })).len());
}

//! Single behaviours, each named after what a user would see, and reported situations under their numbers.

use crate::parse_step;
use crate::step::{BindCtx, StreamType};
use crate::window::tests::harness::{Act, Job, Row, batch, row, schema};
use arrow::array::RecordBatch;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tidegate_api::{ChangeMode, EventTime};

fn count(gap: i64) -> Value {
    json!({ "op": "sessionAggregate", "timeColumn": "t", "gapMs": gap, "groupBy": ["k"], "aggs": [{ "op": "count", "alias": "n" }] })
}

fn longest(gap: i64, longest: i64) -> Value {
    let mut step = count(gap);
    step.as_object_mut().unwrap().insert("maxMs".into(), json!(longest));
    step
}

fn at(millis: i64) -> EventTime {
    EventTime::from_millis(millis)
}

fn mistakes(step: &Value) -> Vec<String> {
    let made = parse_step(step).and_then(|def| def.bind(&[StreamType::append(schema())], &BindCtx::new()));
    made.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn an_event_exactly_one_gap_later_still_belongs_and_one_millisecond_more_does_not() {
    let mut job = Job::new(&count(10), 1, 100);
    job.rows(&[row(0, 1, 0), row(10, 1, 0), row(21, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["0 20 1 2", "21 31 1 1"]);
}

#[test]
fn a_session_fires_once_the_watermark_has_passed_its_end() {
    let mut job = Job::new(&count(10), 1, 100);
    job.rows(&[row(-5, 1, 0)]);
    job.watermark(at(5));
    assert!(job.made.batches.is_empty(), "a row at 5 would still belong");
    job.watermark(at(6));
    assert_eq!(job.made.rows(), ["-5 5 1 1"]);
}

#[test]
fn p052_sessions_that_touch_are_the_same_in_both_orders_of_row_and_watermark() {
    let run = |acts: &[Act]| {
        let mut job = Job::new(&count(2), 1, 100);
        job.run(acts, false);
        (job.made.rows(), job.made.late)
    };
    let one = run(&[Act::Rows(vec![row(1, 1, 0)]), Act::Watermark(3), Act::Rows(vec![row(3, 1, 0)])]);
    let other = run(&[Act::Rows(vec![row(1, 1, 0)]), Act::Rows(vec![row(3, 1, 0)]), Act::Watermark(3)]);
    assert_eq!(one, (vec!["1 5 1 2".to_string()], 0));
    assert_eq!(one, other);
}

#[test]
fn p053_a_late_event_is_late_and_not_part_of_the_next_session() {
    let mut job = Job::new(&count(5), 1, 100);
    job.rows(&[row(1, 1, 0), row(5, 1, 0)]);
    job.watermark(at(20));
    job.rows(&[row(22, 1, 0), row(2, 1, 0), row(14, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!((job.made.late, job.made.rows()), (2, vec!["1 10 1 2".to_string(), "22 27 1 1".to_string()]));
}

#[test]
fn p055_a_session_comes_out_once_and_a_row_between_two_makes_them_one() {
    let mut job = Job::new(&count(10), 1, 100);
    job.rows(&[row(0, 1, 0)]);
    job.rows(&[row(5, 1, 0)]);
    job.rows(&[row(30, 1, 0), row(35, 1, 0)]);
    assert!(job.made.batches.is_empty());
    job.rows(&[row(14, 1, 0)]);
    job.rows(&[row(22, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["0 45 1 6"]);
}

#[test]
fn a_row_behind_the_watermark_by_no_more_than_a_gap_is_taken() {
    let mut job = Job::new(&count(10), 1, 100);
    job.watermark(at(20));
    job.rows(&[row(10, 1, 0), row(9, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!((job.made.late, job.made.rows()), (1, vec!["10 20 1 1".to_string()]));
}

#[test]
fn a_session_longer_than_the_limit_is_cut_at_the_row_that_would_make_it_longer() {
    for order in [[0, 4, 8, 12, 16], [16, 12, 8, 4, 0]] {
        let mut job = Job::new(&longest(5, 10), 1, 100);
        for t in order {
            job.rows(&[row(t, 1, 0)]);
        }
        job.watermark(at(13));
        // 0, 4 and 8 are at most 10 apart; 12 is not.
        assert_eq!(job.made.rows(), ["0 13 1 3"]);
        job.watermark(EventTime::MAX);
        assert_eq!(job.made.rows(), ["0 13 1 3", "12 21 1 2"]);
    }
}

#[test]
fn rows_in_falling_order_cost_no_more_than_in_rising_order() {
    let mut job = Job::new(&count(1), 1, 8192);
    let rows: Vec<Row> = (0..60_000).rev().map(|i| row(i * 10, 1, 0)).collect();
    rows.chunks(8192).for_each(|rows| job.rows(rows));
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 60_000);
}

#[test]
fn of_rows_of_one_time_the_first_that_came_stays_the_first_when_sessions_are_bridged() {
    let step = json!({ "op": "sessionAggregate", "timeColumn": "t", "gapMs": 8, "aggs": [{ "op": "first", "column": "v" }, { "op": "last", "column": "v" }] });
    let mut job = Job::new(&step, 1, 100);
    job.rows(&[Row { t: Some(-44), ..Row::default() }, row(-55, 1, 0)]);
    job.rows(&[Row { t: Some(-47), ..Row::default() }, row(-55, 1, -1)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["-55 -36 0 -1"]);
}

#[test]
fn keys_seen_once_leave_no_state_behind() {
    let mut job = Job::new(&count(10), 1, 8192);
    for start in 0..50 {
        job.rows(&(0..2000).map(|i| row(start * 20, start * 2000 + i, 0)).collect::<Vec<_>>());
        job.watermark(at(start * 20 + 11));
    }
    let snapshot = job.snapshot();
    assert_eq!(snapshot.len(), 1, "only the fired times are left");
    assert_eq!(job.made.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 100_000);
}

#[test]
fn unchanged_sessions_are_kept_by_reference() {
    let mut job = Job::new(&count(10), 1, 100);
    job.rows(&[row(1, 1, 0), row(21, 2, 0)]);
    job.snapshot();
    assert_eq!((job.made.written, job.made.kept), (2, 0));
    let snapshot = job.snapshot();
    assert_eq!((job.made.written, job.made.kept), (2, 2));
    job.restore(&snapshot, 1);
    job.snapshot();
    // The fired times are written anew.
    assert_eq!(job.made.kept, 3);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["1 11 1 1", "21 31 2 1"]);
}

#[test]
fn vnodes_of_different_progress_meet_after_a_rescale() {
    let mut job = Job::new(&count(10), 2, 8192);
    job.rows(&(0..40).map(|k| row(2, k, 0)).collect::<Vec<_>>());
    job.watermark_of(0, at(20));
    let snapshot = job.snapshot();
    job.restore(&snapshot, 1);
    let fired = job.vnodes(&batch(&(0..40).map(|k| row(0, k, 0)).collect::<Vec<_>>())).iter().filter(|vnode| **vnode < 128).count();
    assert!(fired > 5 && fired < 35);
    // Late for those whose vnode has fired through 20, in time for the others.
    job.rows(&(0..40).map(|k| row(3, k, 0)).collect::<Vec<_>>());
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.late, fired);
    let rows = job.made.rows();
    let of = |end: &str| rows.iter().filter(|row| row.ends_with(end)).count();
    assert_eq!((of(" 1"), of(" 2"), rows.len()), (fired, 40 - fired, 40));
}

#[test]
fn what_comes_out_is_never_earlier_than_the_output_watermark_before() {
    for step in [count(7), longest(7, 20)] {
        let mut job = Job::new(&step, 1, 100);
        let mut held = EventTime::MIN;
        for tick in 0..200i64 {
            job.rows(&[row(tick * 11 % 29 + tick * 3, tick % 4, 0)]);
            let before = job.made.batches.len();
            job.watermark(at(tick * 3));
            for batch in &job.made.batches[before..] {
                for row in 0..batch.num_rows() {
                    let start: i64 = crate::testing::shown(batch.column(0), row).parse().unwrap();
                    assert!(at(start) >= held, "{start} after {held}");
                }
            }
            let next = job.output_watermark(at(tick * 3));
            assert!(next >= held);
            held = next;
        }
        assert_eq!(job.output_watermark(EventTime::MAX), EventTime::MAX);
    }
}

#[test]
fn keys_name_window_and_group_and_do_not_depend_on_batches_or_tasks() {
    let step = json!({ "op": "sessionAggregate", "timeColumn": "t", "gapMs": 2, "groupBy": ["k", "s"], "keyBy": "s",
                       "aggs": [{ "op": "count", "alias": "n" }] });
    let rows: Vec<Row> =
        (0..30).map(|i| Row { t: Some(i * i), k: Some(i % 3), s: (i % 2 == 0).then(|| "x".into()), ..Row::default() }).collect();
    let run = |tasks: usize, cut: usize| {
        let mut job = Job::with_keys(&step, tasks, cut, true);
        let acts: Vec<Act> = rows.chunks(cut).map(|rows| Act::Rows(rows.to_vec())).collect();
        job.run(&acts, cut == 7);
        job.made.rows()
    };
    let once = run(1, 30);
    assert_eq!(once, run(3, 7));
    assert_eq!(once, run(2, 1));
    let time = |millis: u8| format!("0809000000{millis:02x}0000000000000003");
    let key = format!("{}{}0208000000{:02x}00000000000000{}", time(4), time(6), 2, "050100000078");
    assert!(once.iter().any(|row| row.starts_with("4 6 2 \"x\"") && row.ends_with(&key)), "{once:?} {key}");
    let distinct: BTreeSet<&str> = once.iter().filter_map(|row| row.rsplit(' ').next()).collect();
    assert_eq!(distinct.len(), once.len());
}

#[test]
fn a_sum_beyond_int64_is_a_bad_row_that_names_session_and_group() {
    let step = json!({ "op": "sessionAggregate", "timeColumn": "t", "gapMs": 1000, "groupBy": ["k"],
                       "aggs": [{ "op": "sum", "column": "v", "alias": "total" }] });
    let mut job = Job::new(&step, 1, 100);
    job.rows(&[row(0, 7, i64::MAX), row(2, 7, i64::MAX), row(3, 8, 5)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["3 1003 8 5"]);
    assert_eq!(
        job.made.bad[0].message,
        "`total` is `18446744073709551614`, which `int64` cannot hold (session 1970-01-01T00:00:00Z to 1970-01-01T00:00:01.002Z, group k=7)"
    );
}

#[test]
fn every_mistake_is_reported_with_its_place() {
    assert_eq!(
        mistakes(
            &json!({ "op": "sessionAggregate", "gap": "0s", "maxMs": -1, "emit": {}, "groupBy": "k", "keyBy": "s", "aggs": [{ "op": "avg" }], "slideMs": 1 })
        ),
        [
            "timeColumn: `timeColumn` is missing",
            "gap: expected whole milliseconds, from 1 to 3162240000000 (100 years)",
            "maxMs: expected an integer of 0 or more, found `-1`",
            "emit.everyRows: say how often: `{ everyRows = 1000 }` or `{ everyMs = 5000 }`",
            "keyBy: `s` is not in `groupBy`; a group whose rows differ in it would be spread over several tasks, and come out in parts",
            "aggs.0.column: `avg` needs a `column`",
            "slideMs: unknown key `slideMs`",
        ]
    );
    let def = parse_step(&count(10)).unwrap();
    let input = StreamType { schema: schema(), mode: ChangeMode::Upsert { keys: vec!["k".into()] } };
    assert!(def.bind(&[input], &BindCtx::new()).unwrap_err()[0].message.contains("count again"));
}

#[test]
fn plan_shows_the_sessions_in_one_line() {
    let bound = parse_step(&longest(10_000, 3_600_000)).unwrap().bind(&[StreamType::append(schema())], &BindCtx::new()).unwrap();
    assert_eq!(bound.details, "sessions with gaps of 10s and at most 1h over t by k: n = count(*)");
}

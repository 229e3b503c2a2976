//! Reported situations of time and windows, each under its number in `docs/cases.md`.

use super::harness::{Act, Job, row};
use serde_json::{Value, json};
use tidegate_api::EventTime;

fn count(size: i64, slide: i64) -> Value {
    json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": size, "slideMs": slide, "groupBy": ["k"], "aggs": [{ "op": "count", "alias": "n" }] })
}

#[test]
fn p044_rows_behind_the_watermark_are_late_and_counted() {
    let mut job = Job::new(&count(10_000, 10_000), 1, 100);
    job.watermark(EventTime::from_millis(200_000));
    job.rows(&[row(50_000, 1, 0)]);
    job.watermark(EventTime::from_millis(250_000));
    job.watermark(EventTime::MAX);
    assert_eq!((job.made.late, job.made.batches.len()), (1, 0));
}

#[test]
fn p048_a_negative_time_lies_in_the_window_before_1970() {
    let mut job = Job::new(&count(5000, 5000), 1, 100);
    job.rows(&[row(-1, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["-5000 0 1 1"]);
}

#[test]
fn p049_times_before_1970_lie_in_their_minutes() {
    let half_past = -303_177_570_000; // 1960-05-24T00:00:30Z
    let mut job = Job::new(&count(60_000, 60_000), 1, 100);
    job.rows(&[row(half_past, 1, 0), row(half_past - 30_000, 1, 0), row(half_past + 29_999, 1, 0), row(half_past + 30_000, 1, 0)]);
    job.watermark(EventTime::MAX);
    let minute = half_past - 30_000;
    assert_eq!(job.made.rows(), [format!("{} {} 1 1", minute + 60_000, minute + 120_000), format!("{minute} {} 1 3", minute + 60_000)]);
}

#[test]
fn p050_windows_lie_where_they_lay_when_the_same_rows_come_again() {
    let rows: Vec<_> = (0..50).map(|i| row(i * 7 + 3, i % 2, 0)).collect();
    let run = |acts: &[Act]| {
        let mut job = Job::new(&count(20, 20), 1, 100);
        job.run(acts, false);
        job.made.rows()
    };
    let whole = run(&[Act::Rows(rows.clone())]);
    assert_eq!(whole, run(&[Act::Rows(rows[..20].to_vec()), Act::Snapshot, Act::Crash(2), Act::Rows(rows[20..].to_vec())]));
    assert!(whole.iter().all(|row| row.split(' ').next().unwrap().parse::<i64>().unwrap() % 20 == 0));
}

#[test]
fn p051_a_time_at_the_end_of_a_sliding_window_is_not_in_it_and_one_before_is() {
    let mut job = Job::new(&count(10, 5), 1, 100);
    job.rows(&[row(10, 1, 0), row(9, 2, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["0 10 2 1", "10 20 1 1", "5 15 1 1", "5 15 2 1"]);
}

#[test]
fn p064_a_row_that_is_too_old_costs_itself_and_not_the_rest_of_its_batch() {
    let mut job = Job::new(&count(10, 5), 1, 100);
    job.watermark(EventTime::from_millis(100));
    job.rows(&[row(1, 1, 0), row(101, 1, 0), row(2, 1, 0), row(120, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!((job.made.late, job.made.rows().len()), (2, 4));
}

#[test]
fn p139_a_window_that_emits_nothing_leaves_nothing_behind() {
    // The sum outgrows its type, so that the window fires without a row.
    let step = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 10, "groupBy": ["k"], "aggs": [{ "op": "sum", "column": "v", "alias": "sum" }] });
    let pieces = |windows: i64| {
        let mut job = Job::new(&step, 1, 100);
        for window in 0..windows {
            job.rows(&[row(window * 10, window, i64::MAX), row(window * 10 + 1, window, i64::MAX)]);
            job.snapshot();
        }
        job.watermark(EventTime::from_millis(100_000));
        assert_eq!((job.made.rows().len(), job.made.bad.len() as i64), (0, windows));
        job.snapshot().len()
    };
    assert_eq!(pieces(100), pieces(0), "no piece of state but how far time has come");
}

//! Single behaviours, each named after what a user would see.

use super::harness::{Act, Job, Row, batch, row};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampNanosecondArray, TimestampSecondArray};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::{BadReason, EventTime};

fn count(size: i64, slide: i64) -> Value {
    json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": size, "slideMs": slide, "groupBy": ["k"],
            "aggs": [{ "op": "count", "alias": "n" }] })
}

fn at(millis: i64) -> EventTime {
    EventTime::from_millis(millis)
}

#[test]
fn a_window_fires_when_the_watermark_reaches_its_end_and_not_before() {
    let mut job = Job::new(&count(10, 10), 1, 100);
    job.rows(&[row(0, 1, 0), row(9, 1, 0), row(10, 1, 0)]);
    job.watermark(EventTime(9_999));
    assert!(job.made.batches.is_empty());
    job.watermark(at(10));
    assert_eq!(job.made.rows(), ["0 10 1 2"]);
}

#[test]
fn a_row_one_millisecond_before_1970_lies_in_the_window_before_it() {
    let mut job = Job::new(&count(5000, 5000), 1, 100);
    job.rows(&[row(-1, 1, 0), row(0, 1, 0), row(-5000, 1, 0), row(-5001, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["-10000 -5000 1 1", "-5000 0 1 2", "0 5000 1 1"]);
}

#[test]
fn an_event_at_the_end_of_a_hopping_window_is_not_in_it() {
    let mut job = Job::new(&count(10, 5), 1, 100);
    job.rows(&[row(10, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["10 20 1 1", "5 15 1 1"]);
}

#[test]
fn a_late_row_is_dropped_once_and_the_rest_of_its_batch_stays() {
    let mut job = Job::new(&count(10, 10), 1, 100);
    job.watermark(at(20));
    job.rows(&[row(5, 1, 0), row(25, 1, 0), row(19, 2, 0), row(20, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!((job.made.late, job.made.rows()), (2, vec!["20 30 1 2".to_string()]));
}

#[test]
fn a_row_late_for_some_windows_counts_in_the_others() {
    let mut job = Job::new(&count(10, 5), 1, 100);
    job.rows(&[row(1, 1, 0)]);
    job.watermark(at(10));
    job.rows(&[row(7, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!((job.made.late, job.made.late_windows), (0, 1));
    assert_eq!(job.made.rows(), ["-5 5 1 1", "0 10 1 1", "5 15 1 1"]);
}

#[test]
fn windows_come_out_in_the_order_of_their_ends() {
    let mut job = Job::new(&count(30, 10), 1, 2);
    job.rows(&(0..20).map(|i| row(i * 7 % 60, i % 3, 0)).collect::<Vec<_>>());
    job.watermark(EventTime::MAX);
    let ends: Vec<i64> = job
        .made
        .batches
        .iter()
        .flat_map(|batch| {
            (0..batch.num_rows()).map(|row| super::harness::shown(batch.column(1), row).parse().unwrap()).collect::<Vec<i64>>()
        })
        .collect();
    assert!(ends.is_sorted());
    assert!(ends.len() > 10);
}

#[test]
fn far_apart_times_cost_nothing_in_between() {
    let mut job = Job::new(&count(1000, 1), 1, 8192);
    let century = 100 * 365 * 86_400_000;
    job.rows(&[row(-century, 1, 0), row(0, 1, 0), row(century, 1, 0)]);
    job.watermark(at(century + 10_000));
    assert_eq!(job.made.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 3000);
}

#[test]
fn a_time_too_far_for_a_window_is_a_bad_row_and_an_absent_one_too() {
    let mut job = Job::new(&count(10, 10), 1, 100);
    job.rows(&[row(i64::MAX, 1, 0), row(i64::MIN, 1, 7), Row { k: Some(4), ..Row::default() }, row(3, 1, 0)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["0 10 1 1"]);
    let reasons: Vec<BadReason> = job.made.bad.iter().map(|bad| bad.reason).collect();
    assert_eq!(reasons, [BadReason::TypeMismatch, BadReason::TypeMismatch, BadReason::MissingValue]);
    let raw = String::from_utf8(job.made.bad[2].raw.clone()).unwrap();
    assert!(raw.contains("\"k\":4") && raw.contains("\"t\":null"), "{raw}");
    assert_eq!(job.made.bad[2].message, "the time column `t` is null");
}

#[test]
fn a_sum_beyond_int64_is_a_bad_row_that_names_window_and_group() {
    let step = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 1000, "groupBy": ["k"],
                       "aggs": [{ "op": "sum", "column": "v", "alias": "total" }] });
    let mut job = Job::new(&step, 1, 100);
    // 128 bits carry the sum past the edge and back.
    job.rows(&[row(1, 7, i64::MAX), row(2, 7, i64::MAX), row(3, 8, i64::MAX), row(4, 8, 1), row(5, 8, -1)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["0 1000 8 9223372036854775807"]);
    assert_eq!(job.made.bad[0].reason, BadReason::Overflow);
    assert_eq!(
        job.made.bad[0].message,
        "`total` is `18446744073709551614`, which `int64` cannot hold (window 1970-01-01T00:00:00Z to 1970-01-01T00:00:01Z, group k=7)"
    );
}

#[test]
fn a_sum_of_nulls_is_null_and_an_average_skips_them() {
    let step = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 1000, "groupBy": ["k"],
                       "aggs": [{ "op": "sum", "column": "v" }, { "op": "avg", "column": "v" }, { "op": "count", "column": "v" }] });
    let mut job = Job::new(&step, 1, 100);
    let null = |k| Row { t: Some(1), k: Some(k), ..Row::default() };
    job.rows(&[row(1, 1, 5), row(1, 1, 4), row(1, 1, 3), row(1, 1, 2), row(1, 1, 1), null(1), null(2)]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["0 1000 1 15 3.0 5", "0 1000 2 - - 0"]);
}

#[test]
fn vnodes_of_different_progress_meet_after_a_rescale_and_none_fires_twice() {
    for (size, slide) in [(10, 10), (20, 10)] {
        let step = count(size, slide);
        let rows: Vec<Row> = (0..40).flat_map(|k| [row(2, k, 0), row(12, k, 0), row(22, k, 0)]).collect();
        let mut job = Job::new(&step, 2, 8192);
        job.rows(&rows);
        job.watermark_of(0, at(20));
        let snapshot = job.snapshot();
        job.restore(&snapshot, 1);
        // Late for the vnodes that have fired through 20 (in a tumbling window), in time for the others.
        let fired = job.vnodes(&batch(&(0..40).map(|k| row(0, k, 0)).collect::<Vec<_>>())).iter().filter(|vnode| **vnode < 128).count();
        assert!(fired > 5 && fired < 35);
        job.rows(&(0..40).map(|k| row(12, k, 0)).collect::<Vec<_>>());
        job.watermark(EventTime::MAX);
        let rows = job.made.rows();
        let of =
            |start: i64, n: i64| rows.iter().filter(|row| row.starts_with(&format!("{start} ")) && row.ends_with(&format!(" {n}"))).count();
        if slide == size {
            assert_eq!(job.made.late, fired);
            assert_eq!((of(0, 1), of(10, 1), of(10, 2), of(20, 1), rows.len()), (40, fired, 40 - fired, 40, 120));
        } else {
            // Windows -10..10, 0..20 have fired for some; 10..30 takes the row of either.
            assert_eq!((job.made.late, job.made.late_windows), (0, fired as u64));
            assert_eq!((of(-10, 1), of(0, 2), of(0, 3), of(10, 3), of(20, 1), rows.len()), (40, fired, 40 - fired, 40, 40, 160));
        }
        let distinct: std::collections::BTreeSet<&String> = rows.iter().collect();
        assert_eq!(distinct.len(), rows.len());
    }
}

#[test]
fn unchanged_panes_are_kept_by_reference() {
    let mut job = Job::new(&count(10, 10), 1, 100);
    job.rows(&[row(1, 1, 0), row(11, 1, 0), row(21, 1, 0)]);
    job.snapshot();
    assert_eq!((job.made.written, job.made.kept), (4, 0));
    job.rows(&[row(12, 1, 0)]);
    let snapshot = job.snapshot();
    assert_eq!((job.made.written, job.made.kept), (5, 3));
    // Also after a restore, when no other task has a part in them.
    job.restore(&snapshot, 1);
    job.snapshot();
    assert_eq!(job.made.kept, 6);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["0 10 1 1", "10 20 1 2", "20 30 1 1"]);
}

#[test]
fn the_output_watermark_is_held_back_to_the_earliest_window_still_to_come() {
    let job = Job::new(&count(10, 5), 1, 100);
    assert_eq!(job.output_watermark(at(20)), at(15));
    assert_eq!(job.output_watermark(EventTime(19_999)), at(10));
    assert_eq!(job.output_watermark(at(-1)), at(-10));
    assert_eq!(job.output_watermark(EventTime::MAX), EventTime::MAX);
    assert_eq!(job.output_watermark(EventTime::MIN), EventTime::MIN);
}

#[test]
fn what_comes_out_is_never_earlier_than_the_output_watermark_before() {
    let mut job = Job::new(&count(30, 7), 1, 100);
    let mut held = EventTime::MIN;
    for step in 0..60 {
        job.rows(&[row(step * 11 % 97 + step, 1, 0)]);
        let before = job.made.batches.len();
        job.watermark(at(step * 3));
        for batch in &job.made.batches[before..] {
            for row in 0..batch.num_rows() {
                let start: i64 = super::harness::shown(batch.column(0), row).parse().unwrap();
                assert!(at(start) >= held);
            }
        }
        held = job.output_watermark(at(step * 3));
    }
}

#[test]
fn keys_seen_once_leave_no_state_behind() {
    let mut job = Job::new(&count(10, 10), 1, 8192);
    for start in 0..50 {
        job.rows(&(0..2000).map(|i| row(start * 10, start * 2000 + i, 0)).collect::<Vec<_>>());
        job.watermark(at(start * 10 + 10));
    }
    let snapshot = job.snapshot();
    assert_eq!(snapshot.len(), 1, "only the fired times are left");
    assert_eq!(job.made.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 100_000);
}

#[test]
fn keys_name_window_and_group_and_do_not_depend_on_batches_or_tasks() {
    let step = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 10, "groupBy": ["k", "s"],
                       "aggs": [{ "op": "count", "alias": "n" }] });
    let rows: Vec<Row> =
        (0..30).map(|i| Row { t: Some(i), k: Some(i % 3), s: (i % 2 == 0).then(|| "x".into()), ..Row::default() }).collect();
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
    let key = format!("{}{}0208000000{:02x}00000000000000{}", time(0), time(10), 2, "050100000078");
    assert!(once.iter().any(|row| row.starts_with("0 10 2 \"x\"") && row.ends_with(&key)), "{once:?} {key}");
    let distinct: std::collections::BTreeSet<&str> = once.iter().filter_map(|row| row.rsplit(' ').next()).collect();
    assert_eq!(distinct.len(), once.len());
}

#[test]
fn times_of_every_unit_fall_into_the_same_windows() {
    use crate::step::{BindCtx, BoundNode, StreamType};
    use tidegate_api::{Generation, OperatorCtx, Output, RunId, RunIdentity};
    let seconds = [-1i64, 0, 59, 60, 119];
    let times: Vec<ArrayRef> = vec![
        Arc::new(TimestampSecondArray::from(seconds.to_vec())),
        Arc::new(Int64Array::from(seconds.map(|s| s * 1000).to_vec())),
        Arc::new(TimestampNanosecondArray::from(seconds.map(|s| s * 1_000_000_000).to_vec()).with_timezone("UTC")),
    ];
    let step = json!({ "op": "windowedAggregate", "timeColumn": "t", "window": "1m", "aggs": [{ "op": "count" }] });
    for times in times {
        let schema = Arc::new(Schema::new(vec![Field::new("t", times.data_type().clone(), true)]));
        let bound = crate::parse_step(&step).unwrap().bind(&[StreamType::append(Arc::clone(&schema))], &BindCtx::new()).unwrap();
        let BoundNode::Operator { factory, .. } = bound.node else { panic!("not an operator") };
        let mut operator = factory.open(OperatorCtx::new(RunIdentity::new("p", RunId::new("r"), Generation(1), "s"))).unwrap();
        let mut out = Output::default();
        operator.on_batch(0, RecordBatch::try_new(schema, vec![Arc::clone(&times)]).unwrap(), &mut out).unwrap();
        let _ = operator.on_watermark(EventTime::MAX, &mut out).unwrap();
        let made = crate::testing::Made { batches: out.batches, ..Default::default() };
        assert_eq!(made.rows(), ["-60000 0 1", "0 60000 2", "60000 120000 2"]);
        let zone = matches!(times.data_type(), DataType::Timestamp(TimeUnit::Nanosecond, _)).then(|| "UTC".into());
        assert_eq!(made.batches[0].schema().field(0).data_type(), &DataType::Timestamp(TimeUnit::Millisecond, zone));
    }
}

#[test]
fn an_aggregate_with_a_filter_takes_only_its_rows_and_the_others_take_all() {
    let step = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 1000, "groupBy": ["k"], "aggs": [
        { "op": "count", "alias": "all" },
        { "op": "count", "alias": "great", "filter": "v > 10" },
        { "op": "sum", "column": "v", "alias": "sum", "filter": "v > 10" },
        { "op": "max", "column": "v", "alias": "max", "filter": "div(100, v) < 50" },
    ] });
    let mut job = Job::new(&step, 1, 100);
    // The filter fails on a zero: that row is bad for all aggregates. A null is not true.
    job.rows(&[row(1, 1, 5), row(2, 1, 20), row(3, 1, 0), row(4, 2, 1), Row { t: Some(5), k: Some(2), ..Row::default() }]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["0 1000 1 2 1 20 20", "0 1000 2 2 0 - -"]);
    assert_eq!(job.made.bad.len(), 1);
    assert_eq!(job.made.bad[0].reason, BadReason::Expression);
    assert_eq!(String::from_utf8_lossy(&job.made.bad[0].raw), r#"{"t":"1970-01-01T00:00:00.003","k":1,"s":null,"v":0,"f":null}"#);
}

#[test]
fn a_delayed_window_takes_rows_until_it_fires_and_holds_the_watermark() {
    let mut step = count(10, 10);
    step.as_object_mut().unwrap().insert("firingDelayMs".into(), json!(5));
    let mut job = Job::new(&step, 1, 100);
    job.rows(&[row(3, 1, 0)]);
    job.watermark(EventTime::from_millis(14));
    assert!(job.made.rows().is_empty());
    assert_eq!(job.output_watermark(EventTime::from_millis(14)), EventTime(0));
    job.rows(&[row(4, 1, 0)]);
    job.watermark(EventTime::from_millis(15));
    assert_eq!((job.made.rows(), job.made.late), (vec!["0 10 1 2".to_string()], 0));
    assert_eq!(job.output_watermark(EventTime::from_millis(15)), EventTime::from_millis(10));
    job.rows(&[row(9, 1, 0), row(12, 1, 0)]);
    job.end();
    assert_eq!((job.made.rows().len(), job.made.late), (2, 1));
}

//! Splits apart against each split alone, with crashes, any task count and any cut.

use crate::parse_step;
use crate::step::{BindCtx, StreamType};
use crate::testing::{Act, Job, bind};
use crate::window::tests::harness::{Act as Alone, Row, batch, row, schema};
use crate::window::tests::oracle::{expected, step};
use crate::{session, window};
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Schema, SchemaRef};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::{EventTime, hidden};

fn with_origin() -> SchemaRef {
    let fields = schema().fields().iter().cloned().chain(hidden::split_fields().map(Arc::new)).collect::<Vec<_>>();
    Arc::new(Schema::new(fields))
}

/// Rows of a split, which had promised so much before them, and promises so much after them.
fn of_split(split: &str, rows: &[Row], [before, after]: [i64; 2]) -> RecordBatch {
    let mut columns = batch(rows).columns().to_vec();
    let splits: ArrayRef = Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(split, rows.len())));
    columns.push(splits);
    for promise in [before, after] {
        columns.push(Arc::new(Int64Array::from(vec![EventTime::from_millis(promise).0; rows.len()])));
    }
    RecordBatch::try_new(with_origin(), columns).unwrap()
}

/// A promise that no row of these tests is before.
const NOTHING: i64 = -1000;

fn apart(mut step: Value) -> Value {
    step["keyBy"] = json!(false);
    step
}

fn job(step: &Value, tasks: usize, batch_rows: usize, keyed: bool) -> Job {
    Job::new(bind(&apart(step.clone()), &[StreamType::append(with_origin())], keyed), tasks, batch_rows)
}

fn count() -> Value {
    json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 10, "groupBy": ["k"], "aggs": [{ "op": "count", "alias": "n" }] })
}

fn at(millis: i64) -> EventTime {
    EventTime::from_millis(millis)
}

#[test]
fn a_slow_split_makes_no_row_of_another_wait_and_none_late() {
    let mut job = job(&count(), 1, 100, false);
    job.batch(0, &of_split("a", &[row(1, 1, 0), row(25, 1, 0)], [NOTHING, 25]));
    job.time();
    // Nobody else has promised anything.
    assert_eq!(job.made.rows(), ["0 10 1 1"]);
    job.batch(0, &of_split("b", &[row(2, 1, 0)], [NOTHING, 2]));
    job.batch(0, &of_split("a", &[row(3, 1, 0)], [25, 25]));
    job.time();
    assert_eq!((job.made.rows().len(), job.made.late), (1, 1), "late for its own split, and the other's group is its own");
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows(), ["0 10 1 1", "0 10 1 1", "20 30 1 1"]);
}

#[test]
fn rows_are_judged_by_what_was_promised_before_them_however_they_are_put_together() {
    let parts = [
        of_split("a", &[row(1, 1, 0), row(30, 2, 0)], [NOTHING, 30]),
        of_split("a", &[row(2, 1, 0)], [30, 30]),
        of_split("b", &[row(2, 1, 0)], [NOTHING, 2]),
    ];
    for together in [false, true] {
        let mut job = job(&count(), 1, 100, false);
        match together {
            true => job.batch(0, &concat_batches(&with_origin(), &parts).unwrap()),
            false => parts.iter().for_each(|part| job.batch(0, part)),
        }
        job.watermark(EventTime::MAX);
        assert_eq!((job.made.rows(), job.made.late), (["0 10 1 1", "0 10 1 1", "30 40 2 1"].map(String::from).to_vec(), 1), "{together}");
    }
}

#[test]
fn keys_tell_splits_apart() {
    let mut job = job(&count(), 1, 100, true);
    job.batch(0, &of_split("in/a", &[row(1, 1, 0)], [NOTHING, 1]));
    job.batch(0, &of_split("in/b", &[row(1, 1, 0)], [NOTHING, 1]));
    job.watermark(EventTime::MAX);
    let rows = job.made.rows();
    let hex = |split: &str| format!("0904000000{}08", split.bytes().map(|byte| format!("{byte:02x}")).collect::<String>());
    assert!(rows[0].contains(&hex("in/a")) && rows[1].contains(&hex("in/b")), "{rows:?}");
}

#[test]
fn the_state_of_a_split_that_has_ended_leaves_when_all_have_gone_on() {
    let mut job = job(&count(), 1, 100, false);
    for split in 0..200 {
        job.batch(0, &of_split(&format!("part-{split}"), &[row(1, 1, 0), row(12, 1, 0)], [NOTHING, 12]));
    }
    assert_eq!(job.snapshot().len(), 401, "a pane and the time of each, and the time of all");
    job.watermark(at(20));
    let snapshot = job.snapshot();
    assert_eq!(snapshot.len(), 1);
    job.restore(&snapshot, 2);
    // What was given up is not begun anew.
    job.batch(0, &of_split("part-7", &[row(2, 1, 0)], [12, 12]));
    job.watermark(EventTime::MAX);
    assert_eq!((job.made.rows().len(), job.made.late), (400, 1));
}

#[test]
fn what_cannot_hold_is_refused_with_the_reason() {
    let refused = |step: Value| parse_step(&step).err().unwrap_or_default().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    for op in [window::INFO.op, session::INFO.op] {
        let step = json!({ "op": op, "timeColumn": "t", "windowMs": 10, "gapMs": 10, "keyBy": false, "emit": { "everyRows": 1 },
                           "aggs": [{ "op": "count" }] });
        assert!(refused(step).contains("keyBy: rows of two splits with the same window and groups would replace each other"));
    }
    let def = parse_step(&apart(count())).unwrap();
    assert!(def.keeps_splits_apart());
    let bound = def.bind(&[StreamType::append(schema())], &BindCtx::new()).unwrap();
    assert_eq!(bound.details, "tumbling 10ms over t by k: n = count(*); every split apart, on its own time");
    assert!((bound.required)(&["n".to_string()].into())[0].contains(hidden::SPLIT));
}

#[derive(Debug, Clone)]
enum Doing {
    /// Of a split: rows, and by how much its promise lags behind the latest of them.
    Rows(usize, Vec<Row>, i64),
    /// All splits together promise what the slowest does.
    Together,
    Snapshot,
    Crash(usize),
}

fn doings() -> impl Strategy<Value = Vec<Doing>> {
    let row = (prop::option::weighted(0.97, -40i64..40), prop::option::of(-1i64..2), prop::option::of("[ab]"), -5i64..5)
        .prop_map(|(t, k, s, v)| Row { t, k, s, v: Some(v), f: Some(v as f64) });
    let doing = prop_oneof![
        6 => (0usize..4, prop::collection::vec(row, 1..15), 0i64..20).prop_map(|(split, rows, lag)| Doing::Rows(split, rows, lag)),
        2 => Just(Doing::Together),
        2 => Just(Doing::Snapshot),
        1 => (1usize..6).prop_map(Doing::Crash),
    ];
    prop::collection::vec(doing, 0..20)
}

/// What the job is given, and what each split is by itself.
fn stories(doings: &[Doing]) -> (Vec<Act>, Vec<Vec<Alone>>) {
    let mut promised: BTreeMap<usize, i64> = BTreeMap::new();
    let (mut acts, mut alone) = (Vec::new(), vec![Vec::new(); 4]);
    for doing in doings {
        match doing {
            Doing::Rows(split, rows, lag) => {
                let latest = rows.iter().filter_map(|row| row.t).max().map_or(NOTHING, |latest| latest - lag);
                let own = promised.entry(*split).or_insert(NOTHING);
                let before = std::mem::replace(own, latest.max(*own));
                acts.push(Act::Rows(0, of_split(&format!("in/{split}"), rows, [before, *own])));
                alone[*split].extend([Alone::Rows(rows.clone()), Alone::Watermark(*own)]);
            }
            Doing::Together => {
                if promised.len() == 4
                    && let Some(slowest) = promised.values().min()
                {
                    acts.push(Act::Watermark(*slowest));
                }
            }
            Doing::Snapshot => acts.push(Act::Snapshot),
            Doing::Crash(tasks) => acts.push(Act::Crash(*tasks)),
        }
    }
    (acts, alone)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn every_split_comes_out_as_it_would_alone(
        doings in doings(), size in 1i64..30, part in 1i64..30, tasks in 1usize..5, batch in 1usize..20, paranoid in any::<bool>(),
    ) {
        let (acts, alone) = stories(&doings);
        let slide = part.min(size);
        let (mut rows, mut late, mut late_windows, mut bad) = (Vec::new(), 0, 0, 0);
        for split in &alone {
            let own = expected(split, size, slide, 0, &["k", "s"]);
            rows.extend(own.rows);
            late += own.late;
            late_windows += own.late_windows;
            bad += own.bad;
        }
        rows.sort();
        let mut job = job(&step(size, slide, 0, &["k", "s"]), tasks, batch, false);
        job.run(&acts, paranoid);
        prop_assert_eq!(job.made.rows(), rows);
        prop_assert_eq!((job.made.late, job.made.late_windows, job.made.bad.len()), (late, late_windows, bad));
    }
}

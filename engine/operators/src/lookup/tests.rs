//! The look-up against the whole input, with crashes and any task count; then its single promises.

use crate::parse_step;
use crate::step::{BindCtx, BoundNode, StreamType};
use crate::testing::{Act, Job, bind};
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray, UInt8Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::{ChangeMode, EventTime, OperatorCtx, Output, RunId, RunIdentity, Watermark, hidden};

pub(super) const STREAM: usize = 0;
pub(super) const TABLE: usize = 1;

fn time(name: &str) -> Field {
    Field::new(name, DataType::Timestamp(TimeUnit::Millisecond, None), true)
}

fn stream_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![time("t"), Field::new("k", DataType::Int64, true), Field::new("n", DataType::Int64, true)]))
}

/// The table's key is narrower than the stream's.
fn table_schema(upsert: bool) -> SchemaRef {
    let mut fields = vec![time("since"), Field::new("k", DataType::Int32, true), Field::new("n", DataType::Utf8View, true)];
    if upsert {
        fields.push(hidden::op_field());
    }
    Arc::new(Schema::new(fields))
}

/// Time, key, value.
pub(super) type Row = (Option<i64>, Option<i64>, i64);
/// Time, key, value; none is a delete.
pub(super) type Entry = (i64, Option<i32>, Option<i64>);

pub(super) fn stream(rows: &[Row]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.0).collect::<TimestampMillisecondArray>()),
        Arc::new(rows.iter().map(|row| row.1).collect::<Int64Array>()),
        Arc::new(rows.iter().map(|row| Some(row.2)).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(stream_schema(), columns).unwrap()
}

fn word(value: i64) -> String {
    // Some longer than a view holds in place.
    if value % 2 == 0 { format!("v{value}") } else { format!("a value longer than twelve bytes {value}") }
}

pub(super) fn table(entries: &[Entry]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(entries.iter().map(|entry| Some(entry.0)).collect::<TimestampMillisecondArray>()),
        Arc::new(entries.iter().map(|entry| entry.1).collect::<Int32Array>()),
        Arc::new(entries.iter().map(|entry| entry.2.map(word)).collect::<StringViewArray>()),
        Arc::new(UInt8Array::from_iter_values(entries.iter().map(|entry| if entry.2.is_some() { hidden::UPSERT } else { hidden::DELETE }))),
    ];
    RecordBatch::try_new(table_schema(true), columns).unwrap()
}

pub(super) fn inputs() -> [StreamType; 2] {
    let mode = ChangeMode::Upsert { keys: vec!["k".into()] };
    [StreamType::append(stream_schema()), StreamType { schema: table_schema(true), mode }]
}

pub(super) fn step(as_of: bool, inner: bool) -> Value {
    let mut step = json!({ "op": "lookupJoin", "joinKey": "k", "kind": if inner { "inner" } else { "left" } });
    if as_of {
        step["asOf"] = json!("since");
        step["timeColumn"] = json!("t");
    }
    step
}

fn job(as_of: bool, inner: bool, tasks: usize, batch_rows: usize) -> Job {
    Job::new(bind(&step(as_of, inner), &inputs(), false), tasks, batch_rows)
}

/// A joined row as the tests write it: time, key, value, the version's time and value.
pub(super) fn shown(row: &Row, found: Option<&Entry>) -> String {
    let number = |value: Option<i64>| value.map_or("-".to_string(), |value| value.to_string());
    let (since, name) = match found {
        Some((since, _, Some(value))) => (since.to_string(), format!("{:?}", word(*value))),
        _ => ("-".to_string(), "-".to_string()),
    };
    format!("{} {} {} {since} {name}", number(row.0), number(row.1), row.2)
}

#[derive(Debug, Clone)]
enum Story {
    Stream(Vec<Row>),
    Table(Vec<Entry>),
    Watermark(i64),
    Snapshot,
    Crash(usize),
}

fn stories() -> impl Strategy<Value = Vec<Story>> {
    let row = (prop::option::weighted(0.95, -20i64..40), prop::option::weighted(0.9, -2i64..3), any::<i64>());
    let entry = (-20i64..40, prop::option::weighted(0.9, -2i32..3), prop::option::weighted(0.8, 0i64..1000));
    let story = prop_oneof![
        5 => prop::collection::vec(row, 0..12).prop_map(Story::Stream),
        5 => prop::collection::vec(entry, 0..8).prop_map(Story::Table),
        3 => (0i64..15).prop_map(Story::Watermark),
        2 => Just(Story::Snapshot),
        1 => (1usize..6).prop_map(Story::Crash),
    ];
    prop::collection::vec(story, 0..16).prop_map(|mut stories| {
        let mut watermark = -25;
        for story in &mut stories {
            if let Story::Watermark(by) = story {
                watermark += *by;
                *by = watermark;
            }
        }
        stories
    })
}

fn acts(stories: &[Story]) -> Vec<Act> {
    let act = |story: &Story| match story {
        Story::Stream(rows) => Act::Rows(STREAM, stream(rows)),
        Story::Table(entries) => Act::Rows(TABLE, table(entries)),
        Story::Watermark(millis) => Act::Watermark(*millis),
        Story::Snapshot => Act::Snapshot,
        Story::Crash(tasks) => Act::Crash(*tasks),
    };
    stories.iter().map(act).collect()
}

/// What is joined when the whole input is known: rows, how many were late, how many had no time.
fn expected(stories: &[Story], as_of: bool, inner: bool) -> (Vec<String>, usize, usize) {
    let (mut rows, mut entries): (Vec<&Row>, Vec<&Entry>) = (Vec::new(), Vec::new());
    let (mut watermark, mut late, mut bad) = (i64::MIN, 0, 0);
    for story in stories {
        match story {
            Story::Watermark(millis) => watermark = *millis,
            Story::Stream(batch) => {
                for row in batch {
                    match row.0 {
                        None if as_of => bad += 1,
                        Some(time) if as_of && time < watermark => late += 1,
                        _ => rows.push(row),
                    }
                }
            }
            Story::Table(batch) => {
                for entry in batch {
                    if as_of && entry.0 < watermark { late += 1 } else { entries.push(entry) }
                }
            }
            Story::Snapshot | Story::Crash(_) => {}
        }
    }
    let find = |row: &Row| {
        let known = entries.iter().filter(|entry| row.1.is_some() && entry.1.map(i64::from) == row.1);
        let known = known.filter(|entry| !as_of || Some(entry.0) <= row.0);
        // The last of the greatest time; without times the last.
        known.max_by_key(|entry| if as_of { entry.0 } else { 0 }).filter(|entry| entry.2.is_some()).copied()
    };
    let joined = rows.into_iter().map(|row| (row, find(row))).filter(|(_, found)| !inner || found.is_some());
    let mut joined: Vec<String> = joined.map(|(row, found)| shown(row, found)).collect();
    joined.sort();
    (joined, late, bad)
}

proptest! {
    #[test]
    fn every_row_meets_its_version_whatever_happens(
        stories in stories(),
        as_of in any::<bool>(),
        inner in any::<bool>(),
        tasks in 1usize..5,
        batch_rows in 1usize..20,
        paranoid in any::<bool>(),
    ) {
        let mut job = job(as_of, inner, tasks, batch_rows);
        job.run(&acts(&stories), paranoid);
        let (rows, late, bad) = expected(&stories, as_of, inner);
        prop_assert_eq!(job.made.rows(), rows);
        prop_assert_eq!(job.made.late, late);
        prop_assert_eq!(job.made.bad.len(), bad);
    }
}

#[test]
fn the_stream_waits_for_the_table_once() {
    let mut job = job(false, false, 1, 100);
    assert!(job.holds(STREAM) && !job.holds(TABLE));
    job.batch(STREAM, &stream(&[(Some(1), Some(1), 10)]));
    job.batch(TABLE, &table(&[(0, Some(1), Some(2))]));
    assert!(job.made.rows().is_empty(), "a barrier let it through, and it waits");
    assert_eq!(job.output_watermark(EventTime(5)), EventTime::MIN);
    job.input_watermark(TABLE, Watermark::At(EventTime(3)));
    assert!(job.holds(STREAM), "the table is still being read");
    job.input_watermark(TABLE, Watermark::Idle);
    assert!(!job.holds(STREAM));
    job.time();
    assert_eq!(job.made.rows(), ["1 1 10 0 \"v2\""]);
    assert_eq!(job.output_watermark(EventTime(5)), EventTime(5));

    // From now on a row meets the table as it is.
    job.made.batches.clear();
    job.batch(TABLE, &table(&[(0, Some(1), Some(4))]));
    job.batch(STREAM, &stream(&[(Some(2), Some(1), 11)]));
    job.batch(TABLE, &table(&[(0, Some(1), None)]));
    job.batch(STREAM, &stream(&[(Some(3), Some(1), 12)]));
    assert_eq!(job.made.rows(), ["2 1 11 0 \"v4\"", "3 1 12 - -"]);

    let snapshot = job.snapshot();
    job.restore(&snapshot, 2);
    assert!(job.holds(STREAM), "the table's input has to say again that it is there");
}

#[test]
fn only_changes_are_written_until_they_are_many() {
    let mut job = job(false, false, 1, 100);
    let entries = |from: i32| (0..1000).map(|k| (0, Some(from + k), Some(1))).collect::<Vec<Entry>>();
    job.batch(TABLE, &table(&entries(0)));
    job.snapshot();
    job.snapshot();
    job.batch(TABLE, &table(&entries(1000)));
    job.snapshot();
    assert_eq!((job.made.written, job.made.kept), (2, 2));
    // The same thousand keys over and over: the pieces may hold no more than twice the table and a little.
    for _ in 0..100 {
        job.batch(TABLE, &table(&entries(0)));
        let snapshot = job.snapshot();
        assert!(snapshot.len() <= 72, "{}", snapshot.len());
    }
    let snapshot = job.snapshot();
    job.restore(&snapshot, 3);
    job.batch(STREAM, &stream(&[(None, Some(1999), 1), (None, Some(7), 2)]));
    job.end();
    assert_eq!(job.made.rows().len(), 2);
    assert!(job.made.rows().iter().all(|row| row.contains("longer")));
}

#[test]
fn state_is_bounded_by_the_table_and_not_by_the_stream() {
    let bound = bind(&step(true, false), &inputs(), false);
    let BoundNode::Operator { factory, .. } = bound.node else { panic!("not an operator") };
    let ctx = OperatorCtx::new(RunIdentity::new("p", RunId::new("r"), tidegate_api::Generation(1), "s"));
    let gauge = ctx.state_bytes.clone();
    let mut operator = factory.open(ctx).unwrap();
    let mut after_first = 0;
    for round in 0..200i64 {
        let mut out = Output::default();
        let rows: Vec<Row> = (0..500).map(|n| (Some(round * 10), Some(round * 500 + n), n)).collect();
        operator.on_batch(STREAM, stream(&rows), &mut out).unwrap();
        let entries: Vec<Entry> = (0..100).map(|k| (round * 10, Some(k), (round % 3 > 0).then_some(round))).collect();
        operator.on_batch(TABLE, table(&entries), &mut out).unwrap();
        while operator.on_watermark(EventTime::from_millis(round * 10 + 1), &mut out).unwrap() == tidegate_api::Flow::More {}
        operator.snapshot(tidegate_api::Epoch(round as u64)).unwrap();
        operator.pieces_named(tidegate_api::Epoch(round as u64), Vec::new());
        if round == 60 {
            after_first = gauge.get();
        }
    }
    assert!(gauge.get() < after_first * 2, "{} bytes after many rounds, {after_first} after a few", gauge.get());
}

#[test]
fn keys_are_the_rows_own() {
    let fields: Vec<Field> = stream_schema().fields().iter().map(|field| field.as_ref().clone()).chain([hidden::key_field()]).collect();
    let keyed = StreamType::append(Arc::new(Schema::new(fields)));
    let bound = bind(&step(false, false), &[keyed, inputs()[1].clone()], true);
    let names: Vec<&str> = bound.output.schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["t", "k", "n", "since", "n_right", "_key"]);
    let needed = [hidden::KEY.to_string(), "n_right".to_string()].into();
    let required: Vec<String> =
        (bound.required)(&needed).iter().map(|columns| columns.iter().cloned().collect::<Vec<_>>().join(",")).collect();
    assert_eq!(required, ["_key,k,n", "_op,k,n"], "the left `n` gives the right one its name");
}

#[test]
fn mistakes_are_named() {
    let problems = |step: Value, inputs: &[StreamType]| -> String {
        let found = match parse_step(&step) {
            Err(found) => found,
            Ok(def) => def.bind(inputs, &BindCtx::new()).unwrap_err(),
        };
        found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let both = inputs();
    for (step, part) in [
        (json!({ "op": "lookupJoin" }), "`joinKey` is missing"),
        (json!({ "op": "lookupJoin", "joinKey": "key" }), "there is no column `key`"),
        (json!({ "op": "lookupJoin", "leftKeys": ["k", "n"], "rightKeys": ["k"] }), "name as many"),
        (json!({ "op": "lookupJoin", "joinKey": "n" }), "never equal"),
        (json!({ "op": "lookupJoin", "joinKey": "k", "asOf": "since" }), "`timeColumn` is missing"),
        (json!({ "op": "lookupJoin", "joinKey": "k", "timeColumn": "t" }), "add `asOf`"),
        (json!({ "op": "lookupJoin", "joinKey": "k", "asOf": "n", "timeColumn": "t" }), "an event time is a timestamp"),
        (json!({ "op": "lookupJoin", "joinKey": "k", "kind": "full" }), "kind"),
        (json!({ "op": "lookupJoin", "joinKey": "k", "lateOutput": "late" }), "no row is ever late"),
    ] {
        let found = problems(step.clone(), &both);
        assert!(found.contains(part), "{step}: {found}");
    }
    let by_n = StreamType { schema: table_schema(true), mode: ChangeMode::Upsert { keys: vec!["n".into()] } };
    assert!(problems(step(false, false), &[both[0].clone(), by_n]).contains("look up by the former"));
    let updated = StreamType { schema: table_schema(true), mode: ChangeMode::Upsert { keys: vec!["k".into()] } };
    assert!(problems(step(false, false), &[updated, both[1].clone()]).contains("look up before"));
}

#[test]
fn late_rows_of_stream_and_table_say_whose_they_are() {
    let mut step = step(true, false);
    step["lateOutput"] = json!("late");
    assert_eq!(parse_step(&step).unwrap().late_output(), Some("late"));
    let BoundNode::Operator { factory, .. } = bind(&step, &inputs(), false).node else { panic!("not an operator") };
    let ctx = OperatorCtx::new(RunIdentity::new("p", RunId::new("r"), tidegate_api::Generation(1), "s"));
    let (mut operator, mut out) = (factory.open(ctx).unwrap(), Output::default());
    while operator.on_watermark(EventTime::from_millis(10), &mut out).unwrap() == tidegate_api::Flow::More {}
    operator.on_batch(STREAM, stream(&[(Some(9), Some(1), 7), (Some(10), Some(2), 8)]), &mut out).unwrap();
    operator.on_batch(TABLE, table(&[(10, Some(2), Some(2)), (8, Some(1), Some(4))]), &mut out).unwrap();
    let schema = factory.late_schema().unwrap();
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["t", "k", "n", "since", "k_right", "n_right", "_side"]);
    assert!(out.late.iter().all(|late| late.schema() == schema));
    let late = crate::testing::Made { batches: std::mem::take(&mut out.late), ..Default::default() };
    assert_eq!(late.rows(), ["- - - 8 1 \"v4\" \"right\"", "9 1 7 - - - \"left\""]);
    while operator.on_watermark(EventTime::MAX, &mut out).unwrap() == tidegate_api::Flow::More {}
    let joined = crate::testing::Made { batches: out.batches, ..Default::default() };
    assert_eq!(joined.rows(), ["10 2 8 10 \"v2\""]);
}

/// Times that far apart would meet in one microsecond, and be passed by no watermark.
#[test]
fn times_too_far_from_1970_are_bad_in_stream_and_table() {
    let BoundNode::Operator { factory, .. } = bind(&step(true, false), &inputs(), false).node else { panic!("not an operator") };
    let ctx = OperatorCtx::new(RunIdentity::new("p", RunId::new("r"), tidegate_api::Generation(1), "s"));
    let (mut operator, mut out) = (factory.open(ctx).unwrap(), Output::default());
    let rows = [i64::MAX, i64::MIN, -i64::MAX, 5].map(|at| (Some(at), Some(1), 7));
    operator.on_batch(STREAM, stream(&rows), &mut out).unwrap();
    operator.on_batch(TABLE, table(&[(i64::MIN + 9, Some(1), Some(2)), (4, Some(1), Some(4))]), &mut out).unwrap();
    let bad: Vec<(Option<usize>, &str)> = out.bad.iter().map(|row| (row.row, row.reason.label())).collect();
    assert_eq!(bad, [Some(0), Some(1), Some(2), Some(0)].map(|row| (row, "type_mismatch")));
    while operator.on_watermark(EventTime::MAX, &mut out).unwrap() == tidegate_api::Flow::More {}
    let joined = crate::testing::Made { batches: out.batches, ..Default::default() };
    assert_eq!(joined.rows(), ["5 1 7 4 \"v4\""]);
}

#[test]
fn a_restored_delete_still_covers_the_version_before_it() {
    let mut job = job(true, false, 1, 100);
    job.batch(STREAM, &stream(&[(Some(2), Some(0), 0)]));
    job.batch(TABLE, &table(&[(0, Some(0), None), (-1, Some(0), Some(0))]));
    job.watermark(EventTime::from_millis(0));
    let snapshot = job.snapshot();
    job.restore(&snapshot, 2);
    job.end();
    assert_eq!(job.made.rows(), ["2 0 0 - -"]);
}

#[test]
fn p118_a_version_that_was_deleted_matches_nothing() {
    for crash in [false, true] {
        let mut job = job(true, false, 1, 100);
        job.batch(TABLE, &table(&[(10, Some(1), Some(2)), (10, Some(2), Some(2))]));
        if crash {
            let snapshot = job.snapshot();
            job.restore(&snapshot, 2);
        }
        job.batch(TABLE, &table(&[(10, Some(1), None)]));
        job.batch(STREAM, &stream(&[(Some(12), Some(1), 0), (Some(12), Some(2), 0)]));
        job.end();
        assert_eq!(job.made.rows(), ["12 1 0 - -", "12 2 0 10 \"v2\""]);
    }
}

#[test]
fn p144_of_every_key_only_the_newest_version_behind_the_watermark_is_kept() {
    let bound = bind(&step(true, false), &inputs(), false);
    let BoundNode::Operator { factory, .. } = bound.node else { panic!("not an operator") };
    let ctx = OperatorCtx::new(RunIdentity::new("p", RunId::new("r"), tidegate_api::Generation(1), "s"));
    let gauge = ctx.state_bytes.clone();
    let mut operator = factory.open(ctx).unwrap();
    let mut out = Output::default();
    let mut most = 0;
    // A key that is never written again must not hold the others, nor lose its version.
    operator.on_batch(TABLE, table(&[(0, Some(-1), Some(6))]), &mut out).unwrap();
    for version in 1..20_000i64 {
        operator.on_batch(TABLE, table(&[(version, Some(1), Some(version))]), &mut out).unwrap();
        while operator.on_watermark(EventTime::from_millis(version), &mut out).unwrap() == tidegate_api::Flow::More {}
        if version == 2_000 {
            most = gauge.get();
        }
    }
    assert!(gauge.get() <= most + most / 10, "{} bytes after 20,000 versions of a key, {most} after 2,000", gauge.get());
    operator.on_batch(STREAM, stream(&[(Some(30_000), Some(-1), 0), (Some(19_999), Some(1), 1)]), &mut out).unwrap();
    while operator.on_watermark(EventTime::MAX, &mut out).unwrap() == tidegate_api::Flow::More {}
    let mut rows = crate::testing::Made { batches: out.batches, ..Default::default() }.rows();
    rows.sort();
    assert_eq!(rows, ["19999 1 1 19999 \"a value longer than twelve bytes 19999\"", "30000 -1 0 0 \"v6\""]);
}

//! What a join does that the oracle does not see: bounded calls, watermarks, keys of rows, late rows, conditions that fail.

use super::harness::{Row, batch, inputs, job, left, results, right, row, schema, step};
use crate::step::{BindCtx, BoundNode, StreamType};
use crate::testing::{self, Act};
use arrow::array::{ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::datatypes::{DataType, Schema};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::{BadReason, EventTime, Flow, Generation, Operator, OperatorCtx, OperatorFactory, Output, RunId, RunIdentity, hidden};

fn factory(step: &Value, inputs: &[StreamType], cx: &BindCtx) -> Arc<dyn OperatorFactory> {
    match crate::parse_step(step).unwrap().bind(inputs, cx).unwrap().node {
        BoundNode::Operator { factory, .. } => factory,
        BoundNode::Step(_) => panic!("a join is an operator"),
    }
}

fn open(step: &Value, batch_rows: usize) -> Box<dyn Operator> {
    let identity = RunIdentity::new("test", RunId::new("run"), Generation(1), "stage");
    factory(step, &inputs(), &BindCtx::new()).open(OperatorCtx::new(identity).with_batch_rows(batch_rows)).unwrap()
}

#[test]
fn a_hot_key_comes_out_in_portions_and_every_pair_once() {
    let mut operator = open(&step("inner", &["k"], -10, 10), 100);
    let rows = |from: i64, count: i64| batch(&(from..from + count).map(|v| row(0, 1, v)).collect::<Vec<_>>());
    let mut pairs: BTreeSet<(i64, i64)> = BTreeSet::new();
    let mut made = 0;
    let mut take = |out: &mut Output, most: usize| {
        assert!(out.batches.iter().all(|batch| batch.num_rows() <= 100));
        let emitted: usize = out.batches.iter().map(RecordBatch::num_rows).sum();
        assert!(emitted <= most, "{emitted} rows came out of one call");
        made += emitted;
        for batch in out.batches.drain(..) {
            let column = |index: usize| batch.column(index).as_primitive::<arrow::datatypes::Int64Type>().values().to_vec();
            pairs.extend(column(4).into_iter().zip(column(8)));
        }
    };
    let mut out = Output::default();
    // 300 times 400 pairs, and more rows come in before they are all found.
    for (input, from, count) in [(1, 0, 300), (0, 0, 400), (1, 300, 10), (0, 400, 3)] {
        operator.on_batch(input, rows(from, count), &mut out).unwrap();
        take(&mut out, 1700);
    }
    assert!(operator.snapshot(tidegate_api::Epoch(1)).is_err());
    let mut calls = 0;
    while operator.on_time(&mut out).unwrap() == Flow::More {
        take(&mut out, 100);
        calls += 1;
    }
    assert!(calls > 1000);
    assert_eq!((made, pairs.len()), (403 * 310, 403 * 310));
    assert!(operator.snapshot(tidegate_api::Epoch(1)).is_ok());
}

#[test]
fn few_rows_find_their_partners_among_many_however_often_those_were_passed_over() {
    for kind in ["inner", "full", "semi"] {
        let many: Vec<Row> = (0..3000).map(|k| row(k / 10, k, k)).collect();
        let mut acts = vec![left(&many)];
        for look in 0..14 {
            acts.push(right(&[row(200 + look, 1000 + look * 37, look), row(200 + look, 9000 + look, look)]));
            if look == 5 {
                acts.push(Act::Watermark(200));
            }
        }
        // Some of them are over, some are in chains, and most are neither.
        acts.push(Act::Watermark(250));
        acts.push(right(&[row(280, 2800, 100), row(280, 3, 101)]));
        acts.push(left(&[row(281, 9001, 7), row(281, 2800, 8)]));
        acts.push(Act::Watermark(i64::MAX / 1000));
        let made = results(&step(kind, &["k"], -120, 120), &acts);
        // The fourteen that were looked for, two for the key at the end, and one with a row of the right that waited.
        let (pairs, matched_right) = (17, 16);
        let unmatched = if kind == "full" { 3002 - pairs + 30 - matched_right } else { 0 };
        assert_eq!(made.len(), pairs + unmatched, "{kind}");
    }
}

#[test]
fn the_watermark_is_held_back_to_the_earliest_time_still_to_come_out() {
    let held = |kind: &str, lower: i64, upper: i64| {
        job(&step(kind, &["k"], lower, upper), 1, 10).output_watermark(EventTime::from_millis(1000)).as_millis()
    };
    assert_eq!(held("inner", -30, 20), 970);
    assert_eq!(held("left", 5, 20), 980);
    assert_eq!(held("semi", -30, 20), 980);
    assert_eq!(held("anti", -30, -20), 1000);
    let job = job(&step("inner", &["k"], -30, 20), 1, 10);
    assert_eq!(job.output_watermark(EventTime::MAX), EventTime::MAX);
    assert_eq!(job.output_watermark(EventTime::MIN), EventTime::MIN);
    // Rows of the same millisecond are not behind the watermark, so neither is what they give.
    assert_eq!(job.output_watermark(EventTime(1_000_900)), EventTime(970_000));
}

#[test]
fn no_row_comes_out_behind_the_watermark_that_went_before() {
    for kind in ["inner", "left", "right", "full", "semi", "anti"] {
        for (lower, upper) in [(-7, 3), (2, 9), (-9, -4)] {
            let mut job = job(&step(kind, &["k"], lower, upper), 2, 16);
            let mut forwarded = i64::MIN;
            for tick in 0..60 {
                for input in 0..2 {
                    let rows: Vec<Row> = (0..6).map(|n| row(tick + n * 7 % 5, n * (tick + input) % 4, n)).collect();
                    job.batch(input as usize, &batch(&rows));
                }
                job.watermark(EventTime::from_millis(tick));
                for made in job.made.batches.drain(..) {
                    for name in ["t", "t_right"] {
                        let Some(times) = made.column_by_name(name) else { continue };
                        let times = times.as_primitive::<arrow::datatypes::TimestampMillisecondType>();
                        assert!(times.iter().flatten().all(|time| time >= forwarded), "{kind} {lower} {upper} at {tick}");
                    }
                }
                forwarded = job.output_watermark(EventTime::from_millis(tick)).as_millis();
            }
        }
    }
}

fn with_keys(rows: &[Row], prefix: &str) -> RecordBatch {
    let plain = batch(rows);
    let keys: ArrayRef = Arc::new(BinaryArray::from_iter_values((0..rows.len()).map(|row| format!("{prefix}{row}").into_bytes())));
    let fields = plain.schema().fields().iter().cloned().chain([Arc::new(hidden::key_field())]).collect::<Vec<_>>();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), plain.columns().iter().cloned().chain([keys]).collect()).unwrap()
}

#[test]
fn a_joined_row_is_named_by_both_of_its_rows_and_a_left_row_by_itself() {
    let keyed = |kind: &str| {
        let (left, right) = (with_keys(&[row(0, 1, 1), row(0, 1, 1), row(0, 2, 1)], "L"), with_keys(&[row(0, 1, 5), row(0, 3, 5)], "R"));
        let inputs = [StreamType::append(left.schema()), StreamType::append(right.schema())];
        let mut keys: Vec<Vec<String>> = Vec::new();
        for tasks in [1, 3] {
            let mut job = testing::Job::new(testing::bind(&step(kind, &["k"], 0, 0), &inputs, true), tasks, 2);
            job.run(&[Act::Rows(0, left.clone()), Act::Snapshot, Act::Crash(2), Act::Rows(1, right.clone())], false);
            let mut made: Vec<String> = Vec::new();
            for batch in &job.made.batches {
                let column = batch.column_by_name(hidden::KEY).unwrap().as_binary::<i32>();
                made.extend(column.iter().flatten().map(|key| String::from_utf8_lossy(key).into_owned()));
            }
            made.sort();
            keys.push(made);
        }
        assert_eq!(keys[0], keys[1]);
        keys.swap_remove(0)
    };
    let bytes = |key: &str| format!("\u{6}\u{2}\0\0\0{key}");
    let null = "\0\0\0\0\0";
    let pairs = [format!("{}{}", bytes("L0"), bytes("R0")), format!("{}{}", bytes("L1"), bytes("R0"))];
    assert_eq!(keyed("inner"), pairs);
    let mut full = pairs.to_vec();
    full.extend([format!("{}{null}", bytes("L2")), format!("{null}{}", bytes("R1"))]);
    full.sort();
    assert_eq!(keyed("full"), full);
    assert_eq!(keyed("semi"), ["L0", "L1"]);
    assert_eq!(keyed("anti"), ["L2"]);
}

#[test]
fn late_rows_go_out_with_the_columns_of_both_inputs() {
    let mut step = step("full", &["k"], 0, 0);
    step["lateOutput"] = json!("late");
    let factory = factory(&step, &inputs(), &BindCtx::new());
    let late = factory.late_schema().unwrap();
    let names: Vec<&str> = late.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["t", "k", "s", "f", "v", "t_right", "k_right", "s_right", "f_right", "v_right", "_side"]);
    let identity = RunIdentity::new("test", RunId::new("run"), Generation(1), "stage");
    let mut operator = factory.open(OperatorCtx::new(identity)).unwrap();
    let mut out = Output::default();
    assert_eq!(operator.on_watermark(EventTime::from_millis(100), &mut out).unwrap(), Flow::Done);
    operator.on_batch(0, batch(&[row(100, 1, 1), row(99, 2, 2)]), &mut out).unwrap();
    operator.on_batch(1, batch(&[row(-5, 3, 3)]), &mut out).unwrap();
    let shown: Vec<String> = out
        .late
        .iter()
        .map(|batch| {
            assert_eq!(batch.schema(), late);
            batch.columns().iter().map(|column| testing::shown(column, 0)).collect::<Vec<_>>().join(" ")
        })
        .collect();
    assert_eq!(shown, ["99 2 - - 2 - - - - - \"left\"", "- - - - - -5 3 - - 3 \"right\""]);
    assert!(out.batches.is_empty());
}

#[test]
fn a_pair_on_which_the_condition_fails_is_no_pair_and_both_rows_stay() {
    let mut step = step("left", &["k"], 0, 0);
    step["condition"] = json!("v / v_right > 0 && div(v, v_right) >= 1");
    let acts = [left(&[row(0, 1, 4), row(0, 2, 9)]), right(&[row(0, 1, 0), row(0, 2, 3), row(0, 2, 0)])];
    let mut job = job(&step, 1, 10);
    job.run(&acts, true);
    assert_eq!(job.made.rows(), ["0 1 - - 4 - - - -", "0 2 - - 9 0 - - 3"]);
    let bad: Vec<_> = job.made.bad.iter().map(|bad| (bad.reason, bad.row, String::from_utf8_lossy(&bad.raw).into_owned())).collect();
    assert_eq!(
        bad,
        [
            (BadReason::Condition, None, "{\"v\":4,\"v_right\":0}".to_string()),
            (BadReason::Condition, None, "{\"v\":9,\"v_right\":0}".to_string()),
        ]
    );
    assert_eq!(job.made.bad[0].event_time, Some(EventTime(0)));
}

#[test]
fn times_out_of_range_and_null_times_are_bad_rows() {
    let mut job = job(&step("full", &["k"], -10, 10), 1, 10);
    let rows = [row(i64::MAX, 1, 1), row(i64::MIN, 1, 2), Row { k: Some(1), ..Row::default() }, row(-5, 1, 3)];
    job.run(&[left(&rows), right(&rows)], true);
    assert_eq!(job.made.rows(), ["-5 1 - - 3 -5 - - 3"]);
    let reasons: Vec<&str> = job.made.bad.iter().map(|bad| bad.reason.label()).collect();
    let of_one = ["type_mismatch", "type_mismatch", "missing_value"];
    assert_eq!(reasons, [of_one, of_one].concat());
}

#[test]
fn an_outer_row_comes_out_when_the_watermark_passes_its_bound_and_not_before() {
    let mut job = job(&step("left", &["k"], -10, 10), 1, 10);
    job.batch(0, &batch(&[row(100, 1, 1)]));
    job.watermark(EventTime::from_millis(110));
    assert!(job.made.batches.is_empty());
    job.watermark(EventTime::from_millis(111));
    assert_eq!(job.made.rows(), ["100 1 - - 1 - - - -"]);
    job.watermark(EventTime::MAX);
    assert_eq!(job.made.rows().len(), 1);
    // Nothing can ever equal a null key, so its row does not wait.
    let mut job = super::harness::job(&step("left", &["k"], -10, 10), 1, 10);
    job.batch(0, &batch(&[Row { t: Some(0), v: Some(1), ..Row::default() }]));
    assert_eq!(job.made.rows(), ["0 - - - 1 - - - -"]);
}

#[test]
fn only_the_columns_that_are_read_are_kept_and_made() {
    let step = step("inner", &["k"], 0, 0);
    let bound = crate::parse_step(&step).unwrap().bind(&inputs(), &BindCtx::new()).unwrap();
    let needed = BTreeSet::from(["v_right".to_string(), "s".to_string()]);
    let required = (bound.required)(&needed);
    let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    // The left `v` stays, or the right one would be called so.
    assert_eq!(required, [set(&["k", "s", "t", "v"]), set(&["k", "t", "v"])]);
    let narrow = |names: &BTreeSet<String>| {
        let fields: Vec<_> = schema().fields().iter().filter(|field| names.contains(field.name())).cloned().collect();
        StreamType::append(Arc::new(Schema::new(fields)))
    };
    let narrow = [narrow(&required[0]), narrow(&required[1])];
    let factory = factory(&step, &narrow, &BindCtx::new().with_needed(needed));
    let made: Vec<String> = factory.output_schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(made, ["s", "v_right"]);
    let signature = factory.signature();
    assert_eq!(signature.parameters["leftColumns"], json!([{ "column": "s", "type": "string" }]));
    assert_eq!(signature.parameters["rightColumns"], json!([{ "column": "v", "type": "int64" }]));
}

#[test]
fn a_right_row_without_a_partner_shows_its_key_in_the_left_column() {
    let step =
        json!({ "op": "streamJoin", "leftKeys": ["k", "s"], "rightKeys": ["v", "s"], "timeColumn": "t", "windowMs": 5, "kind": "right" });
    let other = Row { t: Some(3), v: Some(8), s: Some("x".into()), k: Some(1), ..Row::default() };
    assert_eq!(results(&step, &[right(&[other])]), ["- 8 \"x\" - - 3 1 -"]);
}

#[test]
fn texts_that_were_filtered_out_before_are_let_go() {
    // One batch of texts of which a thousandth is taken.
    let rows: Vec<Row> = (0..1000).map(|n| Row { s: Some("x".repeat(1000)), ..row(0, n, n) }).collect();
    let few = batch(&rows).slice(500, 1);
    let mut operator = open(&step("inner", &["k"], 0, 1000), 100);
    operator.on_batch(0, few, &mut Output::default()).unwrap();
    let piece = operator.snapshot(tidegate_api::Epoch(1)).unwrap().swap_remove(0);
    let tidegate_api::StatePiece::New { data, .. } = piece else { panic!("nothing was written before") };
    assert!(data.len() < 8000, "a row of 1000 bytes takes {}", data.len());
}

#[test]
fn output_types_say_what_may_be_null() {
    let nullable = |kind: &str| {
        let fields = |_: &str| {
            let fields: Vec<_> = schema().fields().iter().map(|field| field.as_ref().clone().with_nullable(false)).collect();
            StreamType::append(Arc::new(Schema::new(fields)))
        };
        let bound = crate::parse_step(&step(kind, &["k"], 0, 0)).unwrap().bind(&[fields("l"), fields("r")], &BindCtx::new()).unwrap();
        let of = |name: &str| bound.output.schema.field_with_name(name).ok().map(|field| field.is_nullable());
        assert_eq!(bound.output.schema.field_with_name("s").unwrap().data_type(), &DataType::Utf8View);
        (of("v"), of("v_right"))
    };
    assert_eq!(nullable("inner"), (Some(false), Some(false)));
    assert_eq!(nullable("left"), (Some(false), Some(true)));
    assert_eq!(nullable("right"), (Some(true), Some(false)));
    assert_eq!(nullable("full"), (Some(true), Some(true)));
    assert_eq!(nullable("semi"), (Some(false), None));
}

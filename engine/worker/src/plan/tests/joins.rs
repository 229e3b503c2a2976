//! Joins as they are planned: two ports, one dataset at both, late rows of two schemas, times behind another operator.

use super::running::{bids, scripted};
use super::*;
use arrow::array::{Array, AsArray};
use arrow::datatypes::{Int64Type, TimestampMillisecondType};
use serde_json::json;
use tidegate_api::testkit::Collector;
use tidegate_api::{RunId, hidden};
use tidegate_epochs::MemoryStore;
use tidegate_runtime::graph::{PipeEnd, late_schema};
use tidegate_runtime::{Ending, Job, JobConfig, JobControl};

const SELLERS: &[(&str, &str)] = &[("id", "int32"), ("name", "string"), ("city", "string"), ("dateTime", "timestamp_ms")];

fn join(more: Value) -> Value {
    let mut step = json!({ "op": "streamJoin", "joinKey": "auction", "timeColumn": "dateTime", "windowMs": 10_000 });
    for (key, value) in more.as_object().unwrap() {
        step[key] = value.clone();
    }
    step
}

fn with_sellers(more: Value) -> Pipeline {
    let mut step = json!({ "op": "streamJoin", "leftKeys": "bidder", "rightKeys": "id", "timeColumn": "dateTime", "windowMs": 10_000 });
    for (key, value) in more.as_object().unwrap() {
        step[key] = value.clone();
    }
    let (pipeline, _) = Pipeline::of_bids();
    let select = json!({ "op": "select", "columns": ["auction", "city"] });
    pipeline.source("sellers", Probe::new(SELLERS)).stage("joined", &["events", "sellers"], "out", json!([step, select]))
}

#[test]
fn each_input_is_exchanged_by_its_own_key_and_asked_for_what_is_read() {
    let planned = with_sellers(json!({})).planned();
    let left = edge(&planned, "source/events", "stage/joined");
    assert_eq!((left.input, names(&left.schema)), (0, vec!["auction", "bidder", "dateTime"]));
    assert_eq!(left.routing, Routing::Hash(vec![1]));
    let right = edge(&planned, "source/sellers", "stage/joined");
    assert_eq!((right.input, names(&right.schema)), (1, vec!["id", "city", "dateTime"]));
    assert_eq!(right.routing, Routing::Hash(vec![0]));
    assert_eq!(columns(&planned, "sellers"), ["id", "city", "dateTime"]);
    assert_eq!(names(&edge(&planned, "stage/joined", "sink/out").schema), ["auction", "city"]);
    assert_eq!(
        planned.sources.iter().map(|source| source.time.as_ref().map(|time| time.column.to_string())).collect::<Vec<_>>(),
        [Some("dateTime".to_string()), Some("dateTime".to_string())]
    );
    assert!(planned.render_text().contains("inner on bidder = id within -10s to 10s of dateTime"), "{}", planned.render_text());
}

#[test]
fn a_name_that_a_clash_made_stays_when_columns_are_pruned() {
    let (pipeline, _) = Pipeline::of_bids();
    let select = json!({ "op": "select", "columns": ["price_right"] });
    let planned = pipeline.stage("pairs", &["events", "events"], "out", json!([join(json!({})), select])).planned();
    for port in [0, 1] {
        let edge = planned.graph.edges.iter().find(|edge| edge.to == "stage/pairs" && edge.input == port).unwrap();
        assert_eq!(names(&edge.schema), ["auction", "price", "dateTime"]);
    }
    assert_eq!(names(&edge(&planned, "stage/pairs", "sink/out").schema), ["price_right"]);
}

#[test]
fn late_rows_of_both_inputs_share_a_schema() {
    let planned = with_sellers(json!({ "lateOutput": "late", "rightPrefix": "seller_" })).sink("late").mistakes();
    assert_eq!(planned.len(), 1, "the select behind it names a column that is called otherwise: {planned:?}");
    let planned = with_sellers(json!({ "lateOutput": "late" })).sink("late").planned();
    let edge = edge(&planned, "stage/joined", "sink/late");
    let left = BIDS.iter().map(|(name, _)| (*name).to_string());
    let expected: Vec<String> =
        left.chain(["id", "name", "city", "dateTime_right", "_side", "_stage", "_watermark"].map(String::from)).collect();
    assert_eq!(names(&edge.schema), expected);
    let Some(late) = &node(&planned, "stage/joined").late else { panic!("late rows go nowhere") };
    assert!(matches!(late.to[0], PipeEnd::Edge(id) if id == edge.id));
    let NodeKind::Operator(operator) = &node(&planned, "stage/joined").kind else { panic!("a join is an operator") };
    assert_eq!(edge.schema, late_schema(&operator.factory.late_schema().unwrap()));
    // Rows from the future do not have those columns: they are counted.
    assert!(planned.graph.edges.iter().all(|edge| edge.to != "sink/late" || edge.from == "stage/joined"));
}

#[test]
fn rows_carry_keys_of_both_inputs_when_a_sink_wants_them() {
    let (pipeline, _) = Pipeline::of_bids();
    let planned = pipeline
        .sink_of("keyed", SinkPlan::new(Guarantee::Idempotent).with_keys(true))
        .stage("pairs", &["events", "events"], "keyed", json!([join(json!({ "kind": "full" }))]))
        .planned();
    for edge in planned.graph.edges.iter().filter(|edge| edge.to == "stage/pairs") {
        assert_eq!(edge.schema.fields().last().unwrap().name(), hidden::KEY);
    }
    assert_eq!(edge(&planned, "stage/pairs", "sink/keyed").schema.fields().last().unwrap().name(), hidden::KEY);
}

#[test]
fn a_time_that_is_computed_behind_an_operator_can_be_joined_by() {
    let (pipeline, _) = Pipeline::of_bids();
    let dearest = json!([
        { "op": "windowedAggregate", "timeColumn": "dateTime", "windowMs": 10_000, "aggs": [{ "op": "max", "column": "price", "alias": "price" }] },
        { "op": "applyExpression", "column": "dateTime", "expression": "windowEnd - 1" },
    ]);
    let step = json!({ "op": "streamJoin", "joinKey": "price", "timeColumn": "dateTime", "windowMs": 10_000, "rightRename": { "dateTime": "at" } });
    let planned =
        pipeline.stage("dearest", &["events"], "dearest", dearest).stage("found", &["events", "dearest"], "out", json!([step])).planned();
    assert_eq!(edge(&planned, "stage/dearest", "stage/found").input, 1);
}

#[test]
fn a_join_must_have_two_inputs_that_do_not_update() {
    let (pipeline, _) = Pipeline::of_bids();
    assert_eq!(
        pipeline.stage("one", &["events"], "out", json!([join(json!({}))])).mistakes(),
        ["stages.0.inputs: `streamJoin` needs 2 inputs, the stage has 1"]
    );
}

/// Left price, right price and both times of the pairs of one auction at most this far apart.
fn pairs_of_itself(within: i64) -> Vec<(i64, i64, i64, i64)> {
    let rows: Vec<_> = (0..2).flat_map(bids).filter(|row| row.kind == "bid").collect();
    let mut pairs = Vec::new();
    for left in &rows {
        for right in rows.iter().filter(|right| right.auction == left.auction && right.price > left.price) {
            if (right.at - left.at).abs() <= within {
                pairs.push((left.price, right.price, left.at, right.at));
            }
        }
    }
    pairs.sort_unstable();
    pairs
}

#[test]
fn a_stream_is_joined_with_itself_by_any_number_of_tasks() {
    let expected = pairs_of_itself(2000);
    assert!(expected.len() > 100);
    for parallelism in [1, 3] {
        let out = Collector::new();
        let mut pipeline = Pipeline::new()
            .dataset("events", Dataset::reading(Arc::new(scripted())))
            .dataset("out", Dataset::writing(out.sink()))
            .stage("bids", &["events"], "bids", json!([{ "op": "filter", "expression": "type == \"bid\"" }]))
            .stage("pairs", &["bids", "bids"], "out", json!([join(json!({ "windowMs": 2000, "condition": "price_right > price" }))]));
        pipeline.settings.parallelism = parallelism;
        let planned = pipeline.planned();
        let job = Job::prepare(planned.graph, JobConfig::new("p", RunId::new("r"), "test"), Arc::new(MemoryStore::new())).unwrap();
        let outcome = job.run(&JobControl::new()).unwrap();
        assert!(matches!(outcome.end, Ending::Ended { .. }), "{:?}", outcome.end);
        let mut made = Vec::new();
        for batch in out.visible() {
            let ints = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().values().to_vec();
            let times = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<TimestampMillisecondType>().values().to_vec();
            let (left, right, at, right_at) = (ints("price"), ints("price_right"), times("dateTime"), times("dateTime_right"));
            made.extend((0..batch.column(0).len()).map(|row| (left[row], right[row], at[row], right_at[row])));
        }
        made.sort_unstable();
        assert_eq!(made, expected);
    }
}

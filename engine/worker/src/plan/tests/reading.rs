//! What sources are asked: columns, conditions, keys, and their time.

use super::*;
use serde_json::json;
use std::time::Duration;
use tidegate_api::{EqualTo, OnBadData, hidden};

fn bids() -> Value {
    json!({ "op": "filter", "expression": "type == \"bid\"" })
}

fn is_bid() -> EqualTo {
    EqualTo { column: "type".to_string(), values: vec![json!("bid")] }
}

#[test]
fn a_source_makes_only_the_columns_that_are_read() {
    let (pipeline, asked) = Pipeline::of_bids();
    let planned = pipeline.stage("counts", &["events"], "out", json!([bids(), count_per("auction", "dateTime")])).planned();
    assert_eq!(columns(&planned, "events"), ["type", "auction", "dateTime"]);
    let edge = edge(&planned, "source/events", "stage/counts");
    assert_eq!(names(&edge.schema), ["auction", "dateTime"], "the filter's column stays behind");
    assert_eq!(edge.routing, Routing::Hash(vec![0]));
    // The first question is for everything; the last one is what runs.
    assert_eq!(asked.lock().unwrap().first().unwrap().columns, None);
    assert_eq!(*asked.lock().unwrap().last().unwrap(), request(&planned, "events"));
}

#[test]
fn a_column_that_is_overwritten_or_dropped_is_not_read() {
    let (pipeline, _) = Pipeline::of_bids();
    let steps = json!([
        { "op": "applyExpression", "column": "price", "expression": "bidder * 2" },
        { "op": "applyExpression", "column": "wasted", "expression": "upper(channel)" },
        { "op": "rename", "mapping": { "auction": "id" } },
        { "op": "select", "columns": ["price", "id"] }
    ]);
    let planned = pipeline.stage("s", &["events"], "out", steps).planned();
    assert_eq!(columns(&planned, "events"), ["auction", "bidder"]);
    assert_eq!(names(&edge(&planned, "source/events", "sink/out").schema), ["price", "id"], "in the order of the select");
}

#[test]
fn a_sink_gets_every_column_in_the_order_of_its_stage() {
    let (pipeline, _) = Pipeline::of_bids();
    let planned = pipeline.stage("s", &["events"], "out", json!([])).planned();
    assert_eq!(request(&planned, "events").columns, None);
    assert_eq!(names(&edge(&planned, "source/events", "sink/out").schema), BIDS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
}

#[test]
fn rows_that_only_count_still_have_a_column() {
    let (pipeline, _) = Pipeline::of_bids();
    let steps = json!([{ "op": "select", "columns": [{ "name": "one", "expression": "1" }] }]);
    let planned = pipeline.stage("s", &["events"], "out", steps).planned();
    assert_eq!(columns(&planned, "events"), ["auction"], "the first that is cheap to read");
}

#[test]
fn one_source_read_twice_is_opened_once_with_the_columns_of_both() {
    let (pipeline, _) = Pipeline::of_bids();
    let planned = pipeline
        .sink("other")
        .stage("a", &["events"], "out", json!([{ "op": "select", "columns": ["auction"] }]))
        .stage("b", &["events"], "other", json!([count_per("bidder", "dateTime")]))
        .planned();
    assert_eq!(planned.graph.nodes.iter().filter(|node| matches!(node.kind, NodeKind::Source(_))).count(), 1);
    assert_eq!(columns(&planned, "events"), ["auction", "bidder", "dateTime"]);
    assert_eq!(names(&edge(&planned, "source/events", "sink/out").schema), ["auction"]);
    assert_eq!(names(&edge(&planned, "source/events", "stage/b").schema), ["bidder", "dateTime"]);
}

#[test]
fn a_condition_that_the_source_applies_is_neither_tested_nor_read() {
    let mut probe = Probe::new(BIDS);
    probe.applies = vec!["type".to_string()];
    let pipeline = Pipeline::new().source("events", probe).sink("out");
    let planned = pipeline.stage("counts", &["events"], "out", json!([bids(), count_per("auction", "dateTime")])).planned();
    assert_eq!(request(&planned, "events").equals, [is_bid()]);
    assert_eq!(columns(&planned, "events"), ["auction", "dateTime"]);
    assert!(labels(node(&planned, "source/events")).is_empty());
    let source = &planned.sources[0];
    assert_eq!(source.applied, [is_bid()]);
    assert_eq!((source.idle_filters[0].stage.as_str(), source.idle_filters[0].label.as_str()), ("counts", "0:filter"));
}

#[test]
fn a_filter_that_says_more_than_its_condition_tests_on() {
    let mut probe = Probe::new(BIDS);
    probe.applies = vec!["type".to_string()];
    let pipeline = Pipeline::new().source("events", probe).sink("out");
    let steps = json!([{ "op": "filter", "expression": "type == \"bid\" && price > 100" }, { "op": "select", "columns": ["auction"] }]);
    let planned = pipeline.stage("s", &["events"], "out", steps).planned();
    assert_eq!(request(&planned, "events").equals, [is_bid()]);
    assert_eq!(columns(&planned, "events"), ["type", "auction", "price"]);
    assert_eq!(labels(node(&planned, "source/events"))[0], "0:filter");
    assert!(planned.sources[0].idle_filters.is_empty());
}

#[test]
fn several_readers_offer_what_any_of_them_lets_pass() {
    let mut probe = Probe::new(BIDS);
    probe.applies = vec!["type".to_string()];
    let planned = Pipeline::new()
        .source("events", probe)
        .sink("out")
        .sink("other")
        .stage("a", &["events"], "out", json!([bids(), { "op": "select", "columns": ["auction"] }]))
        .stage(
            "b",
            &["events"],
            "other",
            json!([{ "op": "filter", "expression": "type == \"auction\"" }, { "op": "select", "columns": ["bidder"] }]),
        )
        .planned();
    assert_eq!(request(&planned, "events").equals, [EqualTo { column: "type".to_string(), values: vec![json!("bid"), json!("auction")] }]);
    assert_eq!(request(&planned, "events").apart.as_deref(), Some("type"), "nobody sees bids and auctions");
    assert_eq!(columns(&planned, "events"), ["type", "auction", "bidder"], "each reader still tells its own rows apart");
    assert!(planned.sources[0].idle_filters.is_empty());
}

#[test]
fn values_that_a_reader_sees_together_are_not_apart() {
    for filters in
        [["type == \"bid\"", "type == \"bid\""], ["type == \"bid\"", "type in [\"bid\", \"auction\"]"], ["type == \"bid\"", "price > 3"]]
    {
        let pipeline = Pipeline::new().source("events", Probe::new(BIDS)).sink("out").sink("other");
        let steps = |filter: &str| json!([{ "op": "filter", "expression": filter }, { "op": "select", "columns": ["auction"] }]);
        let planned =
            pipeline.stage("a", &["events"], "out", steps(filters[0])).stage("b", &["events"], "other", steps(filters[1])).planned();
        assert_eq!(request(&planned, "events").apart, None, "{filters:?}");
    }
}

#[test]
fn a_reader_without_the_condition_keeps_it_from_being_offered() {
    let mut probe = Probe::new(BIDS);
    probe.applies = vec!["type".to_string()];
    let planned = Pipeline::new()
        .source("events", probe)
        .sink("out")
        .sink("other")
        .stage("a", &["events"], "out", json!([bids(), { "op": "select", "columns": ["auction"] }]))
        .stage("b", &["events"], "other", json!([{ "op": "select", "columns": ["bidder"] }]))
        .planned();
    assert!(request(&planned, "events").equals.is_empty());
}

#[test]
fn a_source_that_changes_its_mind_leaves_the_filter_in_place() {
    let mut probe = Probe::new(BIDS);
    probe.applies = vec!["type".to_string()];
    probe.fickle = true;
    let pipeline = Pipeline::new().source("events", probe).sink("out");
    let planned = pipeline.stage("counts", &["events"], "out", json!([bids(), count_per("auction", "dateTime")])).planned();
    assert_eq!(columns(&planned, "events"), ["type", "auction", "dateTime"]);
    assert_eq!(labels(node(&planned, "source/events")), ["0:filter"]);
    assert!(planned.sources[0].applied.is_empty());
}

#[test]
fn keys_are_made_only_where_a_sink_wants_them() {
    let wanting = SinkPlan::new(Guarantee::Idempotent).with_keys(true);
    let probe = || Pipeline::new().source("events", Probe::new(BIDS));
    let stateless = json!([{ "op": "select", "columns": ["auction"] }]);
    let planned = probe().sink_of("out", wanting.clone()).stage("s", &["events"], "out", stateless.clone()).planned();
    assert!(request(&planned, "events").ordinals);
    assert_eq!(names(&edge(&planned, "source/events", "sink/out").schema), ["auction", hidden::KEY]);
    let planned = probe().sink("out").stage("s", &["events"], "out", stateless).planned();
    assert!(!request(&planned, "events").ordinals);
    // A window makes keys of its own: the rows it reads need none.
    let planned = probe().sink_of("out", wanting).stage("s", &["events"], "out", json!([count_per("auction", "dateTime")])).planned();
    assert!(!request(&planned, "events").ordinals);
    assert!(names(&edge(&planned, "stage/s", "sink/out").schema).contains(&hidden::KEY));
}

#[test]
fn the_first_event_time_step_names_the_time_of_its_source_through_renames() {
    let (mut pipeline, _) = Pipeline::of_bids();
    pipeline.settings.out_of_orderness = Duration::from_secs(7);
    let planned = pipeline
        .stage(
            "renamed",
            &["events"],
            "mid",
            json!([{ "op": "rename", "mapping": { "dateTime": "at" } }, { "op": "drop", "columns": ["type"] }]),
        )
        .stage("counts", &["mid"], "out", json!([count_per("auction", "at")]))
        .planned();
    let time = planned.sources[0].time.as_ref().unwrap();
    assert_eq!((time.column.as_ref(), time.out_of_orderness), ("dateTime", Duration::from_secs(7)));
}

#[test]
fn a_declared_time_overrides_the_defaults_and_is_read_for_it() {
    let (pipeline, _) = Pipeline::of_bids();
    let planned = pipeline
        .options("events", |options| {
            options.time =
                Some(TimeOptions { idle_timeout: Some(Duration::from_secs(1)), splits_in_order: true, ..time("expires").unwrap() });
        })
        .stage("s", &["events"], "out", json!([{ "op": "select", "columns": ["auction"] }]))
        .planned();
    let time = planned.sources[0].time.as_ref().unwrap();
    assert_eq!((time.column.as_ref(), time.idle_timeout, time.splits_in_order), ("expires", Some(Duration::from_secs(1)), true));
    assert_eq!(columns(&planned, "events"), ["auction", "expires"]);
    assert_eq!(names(&edge(&planned, "source/events", "sink/out").schema), ["auction"]);
}

#[test]
fn a_stage_behind_a_window_does_not_rename_the_time_of_the_source() {
    let (pipeline, _) = Pipeline::of_bids();
    let planned = pipeline
        .stage("counts", &["events"], "mid", json!([count_per("auction", "dateTime")]))
        .stage("totals", &["mid"], "out", json!([count_as("m", "n", "windowStart")]))
        .planned();
    assert_eq!(planned.sources[0].time.as_ref().unwrap().column.as_ref(), "dateTime");
    assert_eq!(names(&edge(&planned, "stage/counts", "stage/totals").schema), ["windowStart", "n"], "the group is not read any more");
}

#[test]
fn a_source_of_changes_always_gives_its_key_and_every_reader_knows_it() {
    let mut probe = Probe::new(&[("v", "int64"), ("id", "int64"), ("t", "string"), (hidden::OP, "uint8")]);
    probe.mode = ChangeMode::Upsert { keys: vec!["id".to_string()] };
    let asked = Arc::clone(&probe.asked);
    let pipeline = Pipeline::new().source("rows", probe).sink("out").sink("sums");
    let sums = json!([{ "op": "aggregate", "groupBy": "t", "aggs": [{ "op": "sum", "column": "v", "alias": "total" }] }]);
    let planned = pipeline
        .stage("narrow", &["rows"], "out", json!([{ "op": "select", "columns": ["id"] }]))
        .stage("sums", &["rows"], "sums", sums.clone())
        .planned();
    // Never asked for by name: a source gives it because rows replace each other.
    assert!(asked.lock().unwrap().iter().all(|request| request.columns.iter().flatten().all(|column| column != hidden::OP)));
    assert_eq!(columns(&planned, "rows"), ["v", "id", "t", hidden::OP]);
    let edge_to_sink = edge(&planned, "source/rows", "sink/out");
    assert_eq!(names(&edge_to_sink.schema), ["id", hidden::OP]);
    assert_eq!(edge_to_sink.routing, Routing::Hash(vec![0]), "a key's changes stay in order");
    assert_eq!(node(&planned, "stage/sums").parallelism, 1, "an update may move a row to another group");
    assert!(planned.render_text().contains("rows: upsert by id"));

    let mut probe = Probe::new(&[("v", "int64"), ("id", "int64"), (hidden::OP, "uint8")]);
    probe.mode = ChangeMode::Upsert { keys: vec!["id".to_string()] };
    let filter = json!([{ "op": "filter", "expression": "v > 1" }]);
    let mistakes = Pipeline::new().source("rows", probe).sink("out").stage("s", &["rows"], "out", filter).mistakes();
    assert!(mistakes[0].contains("tests `v`, which is no key"), "{mistakes:?}");
}

#[test]
fn a_source_may_not_use_the_names_of_the_engine() {
    let select = json!([{ "op": "select", "columns": ["v"] }]);
    let of = |columns: &[(&str, &str)], mode: ChangeMode| {
        let mut probe = Probe::new(columns);
        probe.mode = mode;
        Pipeline::new().source("rows", probe).sink("out").stage("s", &["rows"], "out", select.clone()).mistakes().join("; ")
    };
    let upsert = |key: &str| ChangeMode::Upsert { keys: vec![key.to_string()] };
    assert!(of(&[("v", "int64"), (hidden::KEY, "binary")], ChangeMode::Append).contains("a column `_key`, a name that is reserved"));
    assert!(of(&[(hidden::SPLIT, "string"), ("v", "int64"), (hidden::OP, "uint8")], upsert("v")).contains("`_split`"));
    assert!(of(&[("v", "int64")], upsert("v")).contains("says what each does"));
    assert!(of(&[("v", "int64"), (hidden::OP, "uint8")], upsert("w")).contains("by `w`, which is no column"));
}

fn changing(name: &str, pipeline: Pipeline) -> Pipeline {
    let mut probe = Probe::new(&[("v", "int64"), ("id", "int64"), (hidden::OP, "uint8")]);
    probe.mode = ChangeMode::Upsert { keys: vec!["id".to_string()] };
    pipeline.source(name, probe)
}

#[test]
fn a_row_that_replaces_another_is_never_just_left_out() {
    let stage = |on_bad: OnBadData, steps: Value| {
        let mut pipeline = changing("rows", Pipeline::new()).sink("out");
        pipeline.settings.on_bad = on_bad;
        pipeline.stage("s", &["rows"], "out", steps)
    };
    let divided = json!([{ "op": "applyExpression", "column": "q", "expression": "100 / v" }]);
    stage(OnBadData::Fail, divided.clone()).planned();
    for steps in [divided, json!([{ "op": "cast", "column": "v", "type": "string" }])] {
        let mistakes = stage(OnBadData::Drop, steps).mistakes().join("; ");
        assert!(mistakes.contains("the one that it replaces or deletes would stay"), "{mistakes}");
    }
    let harmless = json!([{ "op": "filter", "expression": "id > 1" }, { "op": "rename", "mapping": { "v": "w" } }]);
    stage(OnBadData::Drop, harmless).planned();
}

#[test]
fn rows_that_replace_each_other_meet_only_in_one_order() {
    let two = || changing("more", changing("rows", Pipeline::new())).sink("out");
    let mistakes = two().stage("s", &["rows", "more"], "out", json!([{ "op": "union" }])).mistakes().join("; ");
    assert!(mistakes.contains("which of two comes last would be chance"), "{mistakes}");
    let half = |test: &str| json!([{ "op": "filter", "expression": test }]);
    let halves = changing("rows", Pipeline::new()).sink("out").stage("low", &["rows"], "low", half("id < 5"));
    halves.stage("high", &["rows"], "high", half("id >= 5")).stage("s", &["low", "high"], "out", json!([{ "op": "union" }])).planned();
}

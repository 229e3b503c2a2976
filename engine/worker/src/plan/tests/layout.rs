//! Nodes, tasks, pipes and routings.

use super::*;
use serde_json::json;
use tidegate_api::hidden;
use tidegate_runtime::graph::PipeEnd;

#[test]
fn a_stateless_pipeline_is_a_source_a_pipe_and_a_forward_edge() {
    let (pipeline, _) = Pipeline::of_bids();
    let planned = pipeline
        .stage("dear", &["events"], "mid", json!([{ "op": "filter", "expression": "price > 100" }]))
        .stage("euros", &["mid"], "out", json!([{ "op": "applyExpression", "column": "price", "expression": "price * 0.908" }]))
        .planned();
    assert_eq!(planned.graph.nodes.len(), 2);
    assert_eq!(labels(node(&planned, "source/events")), ["0:filter", "0:applyExpression"]);
    assert_eq!(edge(&planned, "source/events", "sink/out").routing, Routing::Forward);
    assert_eq!(node(&planned, "sink/out").parallelism, 2);
}

#[test]
fn what_several_stages_read_is_made_once() {
    let (pipeline, _) = Pipeline::of_bids();
    let planned = pipeline
        .sink("other")
        .stage("shared", &["events"], "mid", json!([{ "op": "filter", "expression": "price > 100" }]))
        .stage("a", &["mid"], "out", json!([{ "op": "select", "columns": ["auction"] }]))
        .stage("b", &["mid"], "other", json!([{ "op": "select", "columns": ["bidder"] }]))
        .planned();
    let source = node(&planned, "source/events");
    assert_eq!(labels(source), ["0:filter"]);
    assert_eq!(source.main.to.len(), 2);
    assert!(source.main.to.iter().all(|end| matches!(end, PipeEnd::Pipe(_))));
}

#[test]
fn a_source_of_few_tasks_spreads_its_batches_and_a_grouped_stage_spreads_its_keys() {
    let mut probe = Probe::new(BIDS);
    probe.max_parallelism = Some(1);
    let one = SinkPlan::new(Guarantee::ExactlyOnce).with_max_parallelism(1);
    let mut pipeline = Pipeline::new().source("events", probe).sink("all").sink_of("counts", one);
    pipeline.settings.parallelism = 4;
    let planned = pipeline
        .stage("all", &["events"], "all", json!([]))
        .stage("counts", &["events"], "counts", json!([count_per("auction", "dateTime")]))
        .planned();
    assert_eq!(node(&planned, "source/events").parallelism, 1);
    assert_eq!(edge(&planned, "source/events", "sink/all").routing, Routing::Forward);
    assert_eq!(node(&planned, "stage/counts").parallelism, 4);
    assert!(matches!(edge(&planned, "source/events", "stage/counts").routing, Routing::Hash(_)));
    assert_eq!(node(&planned, "sink/counts").parallelism, 1);
    assert_eq!(edge(&planned, "stage/counts", "sink/counts").routing, Routing::RoundRobin);
}

#[test]
fn an_ungrouped_aggregate_runs_in_one_task() {
    let (pipeline, _) = Pipeline::of_bids();
    let step = json!({ "op": "windowedAggregate", "timeColumn": "dateTime", "windowMs": 1000, "aggs": [{ "op": "count", "alias": "n" }] });
    let planned = pipeline.stage("total", &["events"], "out", json!([step])).planned();
    assert_eq!(node(&planned, "stage/total").parallelism, 1);
    assert_eq!(edge(&planned, "source/events", "stage/total").routing, Routing::RoundRobin);
    assert_eq!(edge(&planned, "stage/total", "sink/out").routing, Routing::Forward);
}

#[test]
fn merged_inputs_meet_in_the_columns_that_are_read() {
    let (pipeline, _) = Pipeline::of_bids();
    let planned = pipeline
        .source("more", Probe::new(BIDS))
        .stage("s", &["events", "more"], "mid", json!([{ "op": "filter", "expression": "price > 100" }]))
        .stage("counts", &["mid"], "out", json!([count_per("auction", "dateTime")]))
        .planned();
    for source in ["events", "more"] {
        assert_eq!(columns(&planned, source), ["auction", "price", "dateTime"]);
        let edge = edge(&planned, &format!("source/{source}"), "stage/counts");
        assert_eq!((edge.input, names(&edge.schema)), (0, vec!["auction", "dateTime"]));
    }
    assert_eq!(planned.sources.iter().filter(|source| source.time.is_some()).count(), 2);
}

#[test]
fn a_dataset_read_twice_by_a_stage_has_two_ways_into_it() {
    let (pipeline, _) = Pipeline::of_bids();
    let planned = pipeline.stage("s", &["events", "events"], "out", json!([])).planned();
    assert_eq!(planned.graph.nodes.len(), 2);
    assert_eq!(planned.graph.edges.len(), 2);
}

#[test]
fn an_intermediate_dataset_that_publishes_is_written_once_more() {
    let (pipeline, _) = Pipeline::of_bids();
    let published = Dataset::writing(Arc::new(Fixed(SinkPlan::new(Guarantee::ExactlyOnce)))).with_publishes(true);
    let planned = pipeline
        .dataset("mid", published)
        .stage("s", &["events"], "mid", json!([{ "op": "drop", "columns": ["channel"] }]))
        .stage("counts", &["mid"], "out", json!([count_per("auction", "dateTime")]))
        .planned();
    assert_eq!(names(&edge(&planned, "source/events", "sink/mid").schema).len(), BIDS.len() - 1);
    assert_eq!(names(&edge(&planned, "source/events", "stage/counts").schema), ["auction", "dateTime"]);
    assert_eq!(planned.outputs.len(), 2);
}

#[test]
fn rows_with_keys_are_dealt_out_by_them_when_the_sink_says_so() {
    let by_key = SinkPlan::new(Guarantee::Idempotent).with_keys(true).with_distribution(tidegate_api::Distribution::ByKey);
    let planned = Pipeline::new()
        .source("events", Probe::new(BIDS))
        .sink_of("out", by_key)
        .stage("s", &["events"], "out", json!([{ "op": "select", "columns": ["auction"] }]))
        .planned();
    let edge = edge(&planned, "source/events", "sink/out");
    assert_eq!(names(&edge.schema)[1], hidden::KEY);
    assert_eq!(edge.routing, Routing::Hash(vec![1]));
}

fn apart() -> Value {
    let mut step = count_per("auction", "dateTime");
    step["keyBy"] = json!(false);
    step
}

#[test]
fn state_per_split_is_dealt_out_by_split_and_only_then_do_rows_say_where_they_come_from() {
    let (pipeline, _) = Pipeline::of_bids();
    let filter = json!({ "op": "filter", "expression": "price > 100" });
    let planned = pipeline
        .sink("other")
        .stage("before", &["events"], "mid", json!([filter]))
        .stage("apart", &["mid"], "out", json!([apart()]))
        .stage("together", &["mid"], "other", json!([count_per("bidder", "dateTime")]))
        .planned();
    let by_split = edge(&planned, "source/events", "stage/apart");
    assert_eq!(names(&by_split.schema), ["auction", "dateTime", "_split", "_promised", "_promises"]);
    assert_eq!(by_split.routing, Routing::Hash(vec![2]));
    assert_eq!(names(&edge(&planned, "source/events", "stage/together").schema), ["bidder", "dateTime"]);
    let made = edge(&planned, "stage/apart", "sink/out");
    assert!(!names(&made.schema).iter().any(|name| hidden::is_hidden(name)));
    let text = planned.render_text();
    assert!(text.contains("hash(_split)") && text.contains("every split apart, on its own time"), "{text}");

    let (pipeline, _) = Pipeline::of_bids();
    let planned = pipeline.stage("together", &["events"], "out", json!([count_per("auction", "dateTime")])).planned();
    let NodeKind::Source(source) = &node(&planned, "source/events").kind else { panic!("`events` is a source") };
    assert!(!source.emit_splits);
}

#[test]
fn state_per_split_behind_another_stateful_step_is_refused() {
    let (pipeline, _) = Pipeline::of_bids();
    let mut step = apart();
    step["timeColumn"] = json!("windowStart");
    let mistakes = pipeline
        .stage("first", &["events"], "counts", json!([count_per("auction", "dateTime")]))
        .stage("on", &["counts"], "mid", json!([]))
        .stage("second", &["mid"], "out", json!([step]))
        .mistakes();
    assert_eq!(
        mistakes,
        [
            "stages.2.steps.0.keyBy: the rows of `mid` are made by stage `first` out of many, and come from no split; leave `keyBy = false` out \
          here, or let this step read the source itself"
        ]
    );
}

//! Bad rows, guarantees, and the plan as text.

use super::*;
use serde_json::json;
use tidegate_api::{OnBadData, bad};
use tidegate_runtime::graph::BadRoute;

fn with_dead_letters(options: &mut DatasetOptions) {
    options.on_bad = Some(OnBadData::DeadLetter);
    options.dead_letter = Some("rejected".to_string());
}

#[test]
fn dead_letters_of_every_node_go_to_their_dataset() {
    let (pipeline, _) = Pipeline::of_bids();
    let planned = pipeline
        .sink("rejected")
        .options("events", with_dead_letters)
        .stage("counts", &["events"], "out", json!([{ "op": "filter", "expression": "price / 2 > 1" }, count_per("auction", "dateTime")]))
        .planned();
    for from in ["source/events", "stage/counts", "sink/out"] {
        let edge = edge(&planned, from, "sink/rejected");
        assert_eq!(edge.schema, bad::dead_letter_schema());
        assert!(matches!(node(&planned, from).bad, BadRoute::Edge(id) if id == edge.id));
    }
    let NodeKind::Sink(rejected) = &node(&planned, "sink/rejected").kind else { panic!("not a sink") };
    assert_eq!(rejected.on_bad, OnBadData::Fail, "a dead-letter sink has no dead letter of its own");
    assert!(node(&planned, "source/events").main.steps.iter().all(|step| step.on_bad == OnBadData::DeadLetter));
}

#[test]
fn a_stage_whose_sources_disagree_follows_the_settings() {
    let (mut pipeline, _) = Pipeline::of_bids();
    pipeline.settings.on_bad = OnBadData::Drop;
    let planned = pipeline
        .sink("rejected")
        .options("events", with_dead_letters)
        .source("more", Probe::new(BIDS))
        .options("more", |options| options.on_bad = Some(OnBadData::Fail))
        .stage("s", &["events", "more"], "out", json!([count_per("auction", "dateTime")]))
        .planned();
    let NodeKind::Operator(operator) = &node(&planned, "stage/s").kind else { panic!("not an operator") };
    assert_eq!(operator.on_bad, OnBadData::Drop);
    assert!(matches!(node(&planned, "source/events").bad, BadRoute::Edge(_)));
    assert!(matches!(node(&planned, "stage/s").bad, BadRoute::Nowhere));
}

#[test]
fn sources_that_disagree_share_the_dead_letters_of_the_settings() {
    let (mut pipeline, _) = Pipeline::of_bids();
    pipeline.settings.on_bad = OnBadData::DeadLetter;
    pipeline.settings.dead_letter = Some("rejected".to_string());
    let planned = pipeline
        .sink("rejected")
        .options("events", |options| options.on_bad = Some(OnBadData::Drop))
        .source("more", Probe::new(BIDS))
        .options("more", |options| options.on_bad = Some(OnBadData::Fail))
        .stage("s", &["events", "more"], "out", json!([count_per("auction", "dateTime")]))
        .planned();
    assert!(matches!(node(&planned, "source/events").bad, BadRoute::Nowhere));
    assert_eq!(edge(&planned, "stage/s", "sink/rejected").schema, bad::dead_letter_schema());
}

#[test]
fn now_lowers_an_idempotent_output_and_marks_an_exactly_once_one() {
    let stage = json!([{ "op": "applyExpression", "column": "seen", "expression": "now()" }]);
    let plan_into = |guarantee| {
        let pipeline = Pipeline::new().source("events", Probe::new(BIDS)).sink_of("out", SinkPlan::new(guarantee));
        pipeline.stage("stamped", &["events"], "out", stage.clone()).planned().outputs.remove(0)
    };
    let marked = plan_into(Guarantee::ExactlyOnce);
    assert_eq!((marked.guarantee, marked.lowered_by.len()), (Guarantee::ExactlyOnce, 0));
    assert_eq!(marked.clocks, ["step 0 (`applyExpression`) of stage `stamped` uses `now()`"]);
    let lowered = plan_into(Guarantee::Idempotent);
    assert_eq!(lowered.guarantee, Guarantee::AtLeastOnce);
    assert!(lowered.lowered_by.iter().any(|reason| reason.contains("now()")));
}

#[test]
fn a_plan_reads_as_a_task_graph() {
    let mut probe = Probe::new(BIDS);
    probe.applies = vec!["type".to_string()];
    let planned = Pipeline::new()
        .source("events", probe)
        .sink("out")
        .sink("rejected")
        .sink_of("dear", SinkPlan::new(Guarantee::AtLeastOnce).with_max_parallelism(1))
        .options("events", with_dead_letters)
        .stage(
            "bids",
            &["events"],
            "bids",
            json!([{ "op": "filter", "expression": "type == \"bid\"" }, { "op": "drop", "columns": ["type"] }]),
        )
        .stage("counts", &["bids"], "out", json!([count_per("auction", "dateTime")]))
        .stage(
            "dear",
            &["bids"],
            "dear",
            json!([
                { "op": "filter", "expression": "price > 100" },
                { "op": "select", "columns": ["price", "auction"] }
            ]),
        )
        .planned();
    let text = planned.render_text();
    let window = text.lines().find(|line| line.starts_with("  counts 0:windowedAggregate")).unwrap_or_default();
    let expected = TEXT.replace("WINDOW", window.trim()).replace("DEAD LETTERS", DEAD_LETTERS);
    assert_eq!(text, expected, "the plan:\n{text}");
}

const DEAD_LETTERS: &str = "reason: string, stage: string, step: string, column: string, message: string, source: string, \
                            split: string, position: string, raw: binary, eventTime: timestamp_us";

const TEXT: &str = r#"source/events  2 tasks
  reads 3 of 7 columns: auction, price, dateTime
  it ends, can be read again
  leaves out rows itself: type == "bid"
  in place of: bids 0:filter
  time: dateTime, out of order by 0s, idle after 30s, late when 1h ahead
  bad rows: become dead letters
  | bids 1:drop  type
  +
    | counts narrow  auction, dateTime
    -> stage/counts  hash(auction)
       auction: int64, dateTime: timestamp_ms
  +
    | dear narrow  auction, price
    | dear 0:filter  price > 100
    | dear 1:select  price, auction
    -> sink/dear  round robin
       price: int64, auction: int64
  dead letters
    -> sink/rejected  round robin
       DEAD LETTERS

stage/counts  2 tasks
  WINDOW
  bad rows: become dead letters
  -> sink/out  forward
     windowStart: timestamp_ms, windowEnd: timestamp_ms, auction: int64, n: int64
  dead letters
    -> sink/rejected  round robin
       DEAD LETTERS

sink/dear  1 task
  takes: append
  columns: price: int64, auction: int64
  refused rows: become dead letters
  dead letters
    -> sink/rejected  forward
       DEAD LETTERS

sink/out  2 tasks
  takes: append
  columns: windowStart: timestamp_ms, windowEnd: timestamp_ms, auction: int64, n: int64
  refused rows: become dead letters
  dead letters
    -> sink/rejected  round robin
       DEAD LETTERS

sink/rejected  1 task
  takes: append
  columns: DEAD LETTERS
  refused rows: end the run

outputs
  dear: append, at-least-once
    because sink `dear` is at-least-once
  out: append, exactly-once
  rejected: append, dead letters, exactly-once
"#;

#[test]
fn a_mermaid_plan_names_every_node_and_edge_once() {
    let (pipeline, _) = Pipeline::of_bids();
    let steps = json!([{ "op": "filter", "expression": "type == \"bid\"" }, count_per("auction", "dateTime")]);
    let mermaid = pipeline.stage("counts", &["events"], "out", steps).planned().render_mermaid();
    let expected = [
        "flowchart LR",
        "  n0([\"<b>source/events</b> x2<br/>reads type, auction, dateTime<br/>counts 0:filter\"])",
        "  n1[\"<b>stage/counts</b> x2<br/>1:windowedAggregate\"]",
        "  n2[(\"<b>sink/out</b> x2\")]",
        "  n0 -->|\"hash(auction)<br/>auction, dateTime\"| n1",
        "  n1 -->|\"forward<br/>windowStart, windowEnd, auction, n\"| n2",
    ];
    assert_eq!(mermaid.lines().collect::<Vec<_>>(), expected);
}

//! `lookupJoin`, `unnest` and `union` in a plan.

use super::*;
use serde_json::json;

fn pipeline() -> Pipeline {
    Pipeline::of_bids().0
}

#[test]
fn a_table_from_the_streams_own_source_is_refused_unless_it_has_versions() {
    let stage = |step: serde_json::Value| {
        pipeline()
            .stage(
                "names",
                &["events"],
                "names",
                json!([{ "op": "select", "columns": ["auction", { "name": "since", "expression": "dateTime" }] }]),
            )
            .stage("look", &["events", "names"], "out", json!([step]))
    };
    let found = stage(json!({ "op": "lookupJoin", "joinKey": "auction" })).mistakes();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("stages.1.steps.0.op: `events` and `names` both come from `events`"), "{found:?}");
    let versions = json!({ "op": "lookupJoin", "joinKey": "auction", "asOf": "since", "timeColumn": "dateTime" });
    assert!(stage(versions).planned().render_text().contains("lookupJoin"));
}

#[test]
fn union_says_that_several_inputs_are_meant() {
    let found = pipeline().stage("one", &["events"], "out", json!([{ "op": "union" }])).mistakes();
    assert!(found.iter().any(|line| line.starts_with("stages.0.inputs: `union` needs two inputs")), "{found:?}");
    let halves = |second: serde_json::Value| {
        pipeline()
            .stage("a", &["events"], "a", json!([{ "op": "select", "columns": ["auction"] }]))
            .stage("b", &["events"], "b", json!([{ "op": "select", "columns": ["auction"] }]))
            .stage("both", &["a", "b"], "out", second)
    };
    assert!(halves(json!([{ "op": "union" }])).planned().render_text().contains("union"));
    let found = halves(json!([{ "op": "filter", "expression": "auction > 1" }, { "op": "union" }])).mistakes();
    assert!(found.iter().any(|line| line.contains("must be the first step")), "{found:?}");
}

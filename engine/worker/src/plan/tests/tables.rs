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

/// Bids, and a table that every start reads anew.
fn beside_a_table() -> Pipeline {
    let mut table = Probe::new(&[("channel", "string"), ("label", "string"), ("since", "timestamp_ms"), (hidden::OP, "uint8")]);
    table.mode = ChangeMode::Upsert { keys: vec!["channel".into()] };
    (table.reloads, table.max_parallelism) = (true, Some(1));
    pipeline().source("channels", table)
}

#[test]
fn a_table_that_is_read_anew_is_looked_up_and_says_so_in_the_plan() {
    let step = json!({ "op": "lookupJoin", "joinKey": "channel" });
    let planned = beside_a_table().stage("look", &["events", "channels"], "out", json!([step])).planned();
    assert!(planned.render_text().contains("every start reads the table anew"), "{}", planned.render_text());
    assert_eq!(node(&planned, "source/channels").parallelism, 1);
    let NodeKind::Operator(operator) = &node(&planned, "stage/look").kind else { panic!("no operator") };
    assert!(operator.factory.signature().parameters.contains_key("reloads"));
}

#[test]
fn a_table_that_is_read_anew_is_nothing_but_the_second_input_of_a_look_up() {
    let look = json!({ "op": "lookupJoin", "joinKey": "channel" });
    let refused = |pipeline: Pipeline, at: &str| {
        let found = pipeline.mistakes();
        let told = found.iter().any(|line| line.starts_with(at) && line.contains("nothing but the second input of a `lookupJoin`"));
        assert!(told, "{at}: {found:?}");
    };
    let filter = json!([{ "op": "filter", "expression": "label != 'x'" }]);
    refused(beside_a_table().stage("few", &["channels"], "out", filter.clone()), "stages.0.inputs.0");
    refused(beside_a_table().stage("look", &["channels", "events"], "out", json!([look])), "stages.0.inputs.0");
    let behind = beside_a_table().stage("few", &["channels"], "few", filter).stage("look", &["events", "few"], "out", json!([look]));
    refused(behind, "stages.0.inputs.0");
    let join = json!([{ "op": "streamJoin", "joinKey": "channel", "leftTime": "dateTime", "rightTime": "since", "windowMs": 5 }]);
    refused(beside_a_table().stage("both", &["events", "channels"], "out", join), "stages.0.inputs.1");
}

#[test]
fn a_table_that_is_read_anew_has_no_versions_and_no_time() {
    let versions = json!({ "op": "lookupJoin", "joinKey": "channel", "asOf": "since", "timeColumn": "dateTime" });
    let found = beside_a_table().stage("look", &["events", "channels"], "out", json!([versions])).mistakes();
    assert!(found.iter().any(|line| line.starts_with("stages.0.steps.0.asOf: the table is read as it stands")), "{found:?}");
    let step = json!({ "op": "lookupJoin", "joinKey": "channel" });
    let timed = beside_a_table().options("channels", |options| options.time = time("since"));
    let found = timed.stage("look", &["events", "channels"], "out", json!([step])).mistakes();
    assert!(found.iter().any(|line| line.starts_with("datasets.channels.time: ")), "{found:?}");
}

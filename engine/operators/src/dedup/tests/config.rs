//! Mistakes in the step's keys, all together and each at its place.

use crate::lean::testing::schema;
use crate::parse_step;
use crate::step::{BindCtx, BoundNode, StreamType};
use crate::testing::bind;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tidegate_api::ChangeMode;

fn mistakes(step: Value, mode: ChangeMode) -> Vec<String> {
    let bound = parse_step(&step).and_then(|def| def.bind(&[StreamType { schema: schema(), mode }], &BindCtx::new()));
    bound.map_or_else(|problems| problems.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

#[test]
fn every_mistake_in_the_keys_is_reported_with_its_place() {
    assert_eq!(
        mistakes(json!({ "op": "deduplicate", "keep": "lats", "ttlMs": 10, "timeColum": "t" }), ChangeMode::Append),
        [
            "keys: `keys` is missing; it names the columns that make rows the same",
            "keep: `lats` is none of `first`, `last`, did you mean `last`?",
            "ttlMs: keys are remembered by event time: name its column as `timeColumn`",
            "timeColum: unknown key `timeColum`, did you mean `timeColumn`?",
        ]
    );
    assert_eq!(
        mistakes(json!({ "op": "deduplicate", "keys": [], "lateOutput": "late" }), ChangeMode::Append),
        [
            "keys: name at least one column",
            "lateOutput: rows are late only for a step that forgets: give `ttlMs`, or leave `lateOutput` out"
        ]
    );
    assert_eq!(
        mistakes(json!({ "op": "deduplicate", "keys": ["kk", "v", "v"], "keep": "last", "timeColumn": "s" }), ChangeMode::Append),
        [
            "keys.0: there is no column `kk`, did you mean `k`?",
            "keys.2: `v` stands twice",
            "timeColumn: `s` is of type `string`; an event time is a timestamp, or int64 milliseconds",
        ]
    );
}

#[test]
fn rows_that_update_each_other_are_refused_with_the_way_out() {
    let found = mistakes(json!({ "op": "deduplicate", "keys": "k" }), ChangeMode::Upsert { keys: vec!["k".into()] });
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("op: the rows that come in replace earlier ones of equal `k`") && found[0].contains("leave the step out"));
}

#[test]
fn it_asks_for_what_its_output_needs_and_for_its_keys() {
    let required = |step: Value, needed: &[&str]| {
        let bound = bind(&step, &[StreamType::append(schema())], true);
        let needed: BTreeSet<String> = needed.iter().map(|name| (*name).to_string()).collect();
        (bound.required)(&needed).remove(0).into_iter().collect::<Vec<_>>().join(",")
    };
    assert_eq!(required(json!({ "op": "deduplicate", "keys": "k", "timeColumn": "t" }), &["v", "_key"]), "k,v");
    assert_eq!(required(json!({ "op": "deduplicate", "keys": "k", "keep": "last", "timeColumn": "t" }), &["v", "_op"]), "k,t,v");
    assert_eq!(required(json!({ "op": "deduplicate", "keys": "k", "timeColumn": "t", "ttlMs": 1 }), &[]), "k,t");
}

#[test]
fn only_a_time_to_live_makes_it_a_step_of_event_time() {
    let times = |step: Value| parse_step(&step).unwrap().time_columns();
    assert_eq!(times(json!({ "op": "deduplicate", "keys": "k", "keep": "last", "timeColumn": "t" })), [None]);
    assert_eq!(times(json!({ "op": "deduplicate", "keys": "k", "timeColumn": "t", "ttlMs": 1 })), [Some("t".to_string())]);
}

#[test]
fn the_signature_tells_what_may_read_the_state() {
    let signed = |step: Value| match bind(&step, &[StreamType::append(schema())], false).node {
        BoundNode::Operator { factory, .. } => factory.signature(),
        BoundNode::Step(_) => panic!("not an operator"),
    };
    let one = signed(json!({ "op": "deduplicate", "keys": "k" }));
    assert!(one.accepts(&signed(json!({ "op": "deduplicate", "keys": "k", "keep": "first" }))).is_ok());
    let refused = one.accepts(&signed(json!({ "op": "deduplicate", "keys": "k", "keep": "last" }))).unwrap_err();
    assert!(refused.message().contains("`keep` was `\"last\"` and is `\"first\"`"));
}

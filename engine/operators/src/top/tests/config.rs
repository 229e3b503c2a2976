//! Mistakes in the step's keys, all together and each at its place.

use crate::lean::testing::{schema, updating};
use crate::parse_step;
use crate::step::{BindCtx, BoundNode, StreamType};
use crate::testing::bind;
use arrow::datatypes::{DataType, Field, Schema};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::ChangeMode;

fn mistakes_over(step: Value, input: StreamType) -> Vec<String> {
    let bound = parse_step(&step).and_then(|def| def.bind(&[input], &BindCtx::new()));
    bound.map_or_else(|problems| problems.iter().map(ToString::to_string).collect(), |_| Vec::new())
}

fn mistakes(step: Value) -> Vec<String> {
    mistakes_over(step, StreamType::append(schema()))
}

#[test]
fn every_mistake_in_the_keys_is_reported_with_its_place() {
    assert_eq!(
        mistakes(json!({ "op": "topN", "direction": "down", "n": 0, "timeColumn": "t", "windowMs": 5, "orderby": "v" })),
        [
            "orderBy: `orderBy` is missing",
            "direction: `down` is none of `desc`, `asc`",
            "n: expected a number of rows from 1 to 10000, found `0`",
            "timeColumn: `timeColumn` needs `windowed = true`; without it ranks change as rows come",
            "windowMs: `windowMs` needs `windowed = true`; without it ranks change as rows come",
            "orderby: unknown key `orderby`, did you mean `orderBy`?",
        ]
    );
    assert_eq!(
        mistakes(json!({ "op": "topN", "orderBy": "v", "windowed": true, "timeColumn": "t" })),
        [
            "n: `n` is missing; it says how many rows of a group count",
            "windowMs: `windowMs` is missing; without `timeColumn` windows are those that the rows name"
        ]
    );
    assert_eq!(
        mistakes(json!({ "op": "topN", "orderBy": "v", "n": 1, "windowed": true, "window": "5s" })),
        ["window: a window of a length needs the `timeColumn` that it is cut from"]
    );
}

#[test]
fn every_mistake_against_the_schema_is_reported_with_its_place() {
    let fields: Vec<Field> = vec![
        Field::new("rank", DataType::Int64, true),
        Field::new("l", DataType::new_list(DataType::Int64, true), true),
        Field::new("v", DataType::Int64, true),
    ];
    let input = StreamType::append(Arc::new(Schema::new(fields)));
    assert_eq!(
        mistakes_over(json!({ "op": "topN", "orderBy": "l", "tieBy": ["v", "x"], "n": 1, "groupBy": ["vv", "l"] }), input),
        [
            "orderBy: `l` is of type `list<int64>`, which has no order",
            "tieBy.1: there is no column `x`",
            "op: the output has a `rank` of its own; rename the column `rank` first",
            "groupBy.0: there is no column `vv`, did you mean `v`?",
            "groupBy.1: `l` is of type `list<int64>`, which cannot be a group",
        ]
    );
    let windowed = mistakes(json!({ "op": "topN", "orderBy": "v", "n": 1, "windowed": true }));
    assert_eq!(windowed.len(), 2);
    assert!(
        windowed[0].starts_with("windowed: there is no timestamp `windowStart` among the columns that come in: rank behind a window step")
    );
}

#[test]
fn an_update_that_could_leave_a_closed_window_is_refused_with_the_way_out() {
    let step = |time: &str| json!({ "op": "topN", "orderBy": "v", "n": 1, "windowed": true, "timeColumn": time, "windowMs": 10 });
    let input = || StreamType { schema: updating(), mode: ChangeMode::Upsert { keys: vec!["k".into(), "t".into()] } };
    assert!(mistakes_over(step("t"), input()).is_empty());
    let other = StreamType { mode: ChangeMode::Upsert { keys: vec!["k".into()] }, ..input() };
    let found = mistakes_over(step("t"), other);
    assert!(
        found[0].starts_with("windowed: the rows that come in replace earlier ones of equal `k`")
            && found[0].contains("rank without `windowed`")
    );
}

#[test]
fn rows_go_by_their_groups_and_to_one_task_where_updates_may_move_them() {
    let keys = |step: Value, input: StreamType| match bind(&step, &[input], false).node {
        BoundNode::Operator { keys, .. } => keys,
        BoundNode::Step(_) => panic!("not an operator"),
    };
    let step = json!({ "op": "topN", "orderBy": "v", "n": 1, "groupBy": ["k"] });
    assert_eq!(keys(step.clone(), StreamType::append(schema())), [["k"]]);
    let by = |key: &str| StreamType { schema: updating(), mode: ChangeMode::Upsert { keys: vec![key.into(), "s".into()] } };
    assert_eq!(keys(step.clone(), by("k")), [["k"]]);
    assert_eq!(keys(step, by("v")), [[""; 0]]);
}

#[test]
fn it_asks_for_what_its_output_needs_and_for_what_it_ranks_by() {
    let step = json!({ "op": "topN", "orderBy": "v", "tieBy": "t", "n": 1, "groupBy": ["k"] });
    let required = |input: StreamType| {
        let bound = bind(&step, &[input], false);
        assert_eq!(bound.output.mode, ChangeMode::Upsert { keys: vec!["k".into(), "rank".into()] });
        let needed: BTreeSet<String> = ["rank", "f", "_op"].map(str::to_string).into();
        (bound.required)(&needed).remove(0).into_iter().collect::<Vec<_>>().join(",")
    };
    assert_eq!(required(StreamType::append(schema())), "f,k,t,v");
    let mode = ChangeMode::Upsert { keys: vec!["s".into()] };
    assert_eq!(required(StreamType { schema: updating(), mode }), "_op,f,k,s,t,v");
}

#[test]
fn groups_and_rank_come_first_and_windows_before_them() {
    let names = |step: Value| {
        let bound = bind(&step, &[StreamType::append(schema())], true);
        bound.output.schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>().join(",")
    };
    assert_eq!(names(json!({ "op": "topN", "orderBy": "v", "n": 1, "groupBy": ["s", "k"] })), "s,k,rank,t,v,f,_op,_key");
    assert_eq!(
        names(json!({ "op": "topN", "orderBy": "v", "n": 1, "windowed": true, "timeColumn": "t", "windowMs": 10 })),
        "windowStart,windowEnd,rank,t,k,s,v,f,_key"
    );
}

#[test]
fn the_signature_tells_what_may_read_the_state() {
    let signed = |step: Value| match bind(&step, &[StreamType::append(schema())], false).node {
        BoundNode::Operator { factory, .. } => factory.signature(),
        BoundNode::Step(_) => panic!("not an operator"),
    };
    let step = |n: u64, tie: &str| json!({ "op": "topN", "orderBy": "v", "n": n, "tieBy": tie });
    assert!(signed(step(2, "t")).accepts(&signed(step(2, "t"))).is_ok());
    assert!(signed(step(2, "t")).accepts(&signed(step(3, "t"))).unwrap_err().message().contains("`n` was `3` and is `2`"));
    assert!(signed(step(2, "t")).accepts(&signed(step(2, "k"))).is_err());
}

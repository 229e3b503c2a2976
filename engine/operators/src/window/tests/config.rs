//! Mistakes in the step's keys, all together and each at its place.

use super::harness::schema;
use crate::parse_step;
use crate::step::{BindCtx, BoundNode, StreamType};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tidegate_api::ChangeMode;

fn mistakes(step: Value) -> Vec<String> {
    match parse_step(&step) {
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
        Ok(def) => match def.bind(&[StreamType::append(schema())], &BindCtx::new()) {
            Err(problems) => problems.iter().map(ToString::to_string).collect(),
            Ok(_) => Vec::new(),
        },
    }
}

#[test]
fn every_mistake_in_the_keys_is_reported_with_its_place() {
    let found = mistakes(json!({ "op": "windowedAggregate", "timeColum": "t", "windowMs": 0, "slideMs": 5,
        "aggs": [{ "op": "sum" }, { "op": "percentile", "column": "v", "p": 2 }, { "op": "cuont", "filtre": "x" }, { "op": "argMax", "column": "v" }],
        "keyBy": "v" }));
    assert_eq!(
        found,
        [
            "timeColumn: `timeColumn` is missing",
            "windowMs: expected whole milliseconds, from 1 to 3162240000000 (100 years)",
            "keyBy: `v` is not in `groupBy`; a group whose rows differ in it would be spread over several tasks, and come out in parts",
            "aggs.0.column: `sum` needs a `column`",
            "aggs.1.p: `p` lies from 0 to 1, such as 0.95",
            "aggs.2.op: unknown aggregation `cuont`, did you mean `count`?",
            "aggs.2.filtre: unknown key `filtre`, did you mean `filter`?",
            "aggs.3.by: `argMax` needs a `by`: the column that decides which row's value is taken",
            "timeColum: unknown key `timeColum`, did you mean `timeColumn`?",
        ]
    );
}

#[test]
fn every_mistake_against_the_schema_is_reported_with_its_place() {
    let found = mistakes(json!({ "op": "windowedAggregate", "timeColumn": "s", "windowMs": 10, "groupBy": ["kk", "v", "v"],
        "aggs": [{ "op": "sum", "column": "s" }, { "op": "count", "alias": "v" }, { "op": "max", "column": "x" }] }));
    assert_eq!(
        found,
        [
            "timeColumn: `s` is of type `string`; an event time is a timestamp, or int64 milliseconds",
            "groupBy.0: there is no column `kk`, did you mean `k`?",
            "groupBy.2: `v` stands twice",
            "aggs.0.column: `sum` has no meaning over values of type `string`",
            "aggs.1.alias: the output has a column `v` already; give another `alias`",
            "aggs.2.column: there is no column `x`",
        ]
    );
}

#[test]
fn windows_that_cannot_be_are_refused_with_the_reason() {
    let with = |keys: Value| {
        let mut step = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 10, "aggs": [{ "op": "count" }] });
        step.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        mistakes(step)
    };
    let day = 86_400_000_i64;
    let far = with(json!({ "windowMs": 11 * day, "slideMs": 1 }));
    assert_eq!(
        far,
        ["slideMs: windows of 11d that start every 1ms put every row into 950400000 of them, and 50000 is the most: windows fire one \
             after the other, and no epoch ends in between; let them start further apart"]
    );
    assert!(with(json!({ "windowMs": 11 * day, "slideMs": 11 * day / 50_000 })).is_empty());
    assert_eq!(with(json!({ "slideMs": 11 })), ["slideMs: windows of 10ms that start every 11ms would leave out rows between them"]);
    assert_eq!(with(json!({ "stepMs": 3 })), ["stepMs: windows of 10ms cannot grow by 3ms: it does not divide them"]);
    assert_eq!(with(json!({ "step": "5ms", "slideMs": 5 })), ["slideMs: windows either slide or grow; keep `slideMs` or `stepMs`"]);
    assert_eq!(
        with(json!({ "windowMs": day, "stepMs": 1000 })),
        ["stepMs: windows of 1d that grow by 1s are 86400 each, and 50000 is the most; let them grow by more at a time"]
    );
    assert_eq!(
        with(json!({ "windowMs": day, "timeZone": "Europe/Berln" })),
        ["timeZone: there is no time zone `Europe/Berln`; zones are named as `Europe/Berlin` or `UTC`"]
    );
    assert!(with(json!({ "timeZone": "UTC" }))[0].starts_with("timeZone: a time zone is for windows of whole days"));
    assert!(with(json!({ "windowMs": 7 * day, "stepMs": day, "timeZone": "Asia/Kathmandu", "offsetMs": 4 * day + 1 })).is_empty());
    assert_eq!(
        with(json!({ "ingestTime": true, "allowedLatenessMs": 5, "idleTimeout": "1s" })),
        [
            "timeColumn: with `ingestTime` rows are put into windows by the clock; leave `timeColumn` out",
            "allowedLatenessMs: with `ingestTime` no row is ever late; leave this out",
            "idleTimeout: with `ingestTime` windows fire by the clock, rows or not; leave this out",
        ]
    );
    assert_eq!(with(json!({ "emit": {} })), ["emit.everyRows: say how often: `{ everyRows = 1000 }` or `{ everyMs = 5000 }`"]);
    assert_eq!(
        with(json!({ "emit": { "everyRows": 0, "evry": 1 } })),
        ["emit.everyRows: expected an integer of 1 or more", "emit.evry: unknown key `evry`, did you mean `every`?"]
    );
    assert!(with(json!({ "allowedLatenessMs": 0, "emit": { "everyMs": 1 } })).is_empty());
    let unchanged = with(json!({ "ingestTime": false }));
    assert!(unchanged.is_empty(), "{unchanged:?}");
}

#[test]
fn upsert_rows_are_refused_because_they_would_count_again() {
    let def = parse_step(&json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 10, "aggs": [{ "op": "count" }] })).unwrap();
    let input = StreamType { schema: schema(), mode: ChangeMode::Upsert { keys: vec!["k".into()] } };
    assert!(def.bind(&[input], &BindCtx::new()).unwrap_err()[0].message.contains("count again"));
}

#[test]
fn it_asks_for_the_columns_it_reads_and_for_all_when_late_rows_are_wanted() {
    let mut step = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": 10, "groupBy": "k", "aggs": [{ "op": "count" }] });
    let required = |step: &Value| {
        let bound = parse_step(step).unwrap().bind(&[StreamType::append(schema())], &BindCtx::new()).unwrap();
        (bound.required)(&BTreeSet::new()).remove(0).into_iter().collect::<Vec<_>>().join(",")
    };
    assert_eq!(required(&step), "k,t");
    step.as_object_mut().unwrap().insert("lateOutput".into(), json!("late"));
    assert_eq!(required(&step), "f,k,s,t,v");
    let def = parse_step(&step).unwrap();
    assert_eq!(def.late_output(), Some("late"));
    assert_eq!(def.time_columns(), [Some("t".to_string())]);
}

#[test]
fn the_signature_tells_what_may_read_the_state() {
    let signed = |window: i64, alias: &str| {
        let step = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": window, "groupBy": "k", "aggs": [{ "op": "count", "alias": alias }] });
        match crate::testing::bind(&step, &[StreamType::append(schema())], false).node {
            BoundNode::Operator { factory, .. } => factory.signature(),
            BoundNode::Step(_) => panic!("not an operator"),
        }
    };
    assert!(signed(10, "a").accepts(&signed(10, "b")).is_ok());
    let refused = signed(10, "a").accepts(&signed(20, "a")).unwrap_err();
    assert!(refused.message().contains("`windowMs` was `20` and is `10`"));
}

#[test]
fn plan_shows_the_windows_in_one_line() {
    let step = json!({ "op": "windowedAggregate", "timeColumn": "t", "window": "10s", "slide": "2s", "groupBy": ["k"], "aggs": [{ "op": "sum", "column": "v", "alias": "total" }] });
    let bound = parse_step(&step).unwrap().bind(&[StreamType::append(schema())], &BindCtx::new()).unwrap();
    assert_eq!(bound.details, "hopping 10s every 2s over t by k: total = sum(v)");
}

//! Mistakes that show over the inputs' types, and the names of the output.

use super::harness::{inputs, step};
use crate::step::{BindCtx, StreamType};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::ChangeMode;

fn mistakes(step: &Value, inputs: &[StreamType]) -> Vec<String> {
    match crate::parse_step(step).unwrap().bind(inputs, &BindCtx::new()) {
        Ok(bound) => panic!("bound: {bound:?}"),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

fn of(columns: &[(&str, DataType)]) -> StreamType {
    let fields: Vec<Field> = columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect();
    StreamType::append(Arc::new(Schema::new(fields)))
}

fn with(more: Value) -> Value {
    let mut step = step("inner", &["k"], 0, 0);
    more.as_object().unwrap().iter().for_each(|(key, value)| step[key] = value.clone());
    step
}

fn names(step: &Value, inputs: &[StreamType]) -> Vec<String> {
    let bound = crate::parse_step(step).unwrap().bind(inputs, &BindCtx::new()).unwrap();
    bound.output.schema.fields().iter().map(|field| field.name().clone()).collect()
}

const TIME: DataType = DataType::Timestamp(TimeUnit::Millisecond, None);

#[test]
fn unknown_columns_are_named_with_the_nearest_known() {
    let left = of(&[("key", DataType::Int64), ("time", TIME)]);
    let right = of(&[("key", DataType::Int64), ("time", DataType::Utf8View)]);
    let step = json!({ "op": "streamJoin", "joinKey": ["keys"], "leftTime": "tme", "rightTime": "time", "windowMs": 1 });
    assert_eq!(
        mistakes(&step, &[left, right]),
        [
            "leftTime: there is no column `tme`, did you mean `time`?",
            "rightTime: `time` is of type `string`; an event time is a timestamp, or int64 milliseconds",
            "joinKey: in the left input there is no column `keys`, did you mean `key`?",
            "joinKey: in the right input there is no column `keys`, did you mean `key`?",
        ]
    );
    let two = json!({ "op": "streamJoin", "joinKey": ["k", "k"], "timeColumn": "t", "windowMs": 1 });
    assert_eq!(mistakes(&two, &inputs()), ["joinKey.1: `k` stands twice", "joinKey.1: `k` stands twice"]);
    assert_eq!(mistakes(&two, &inputs()[..1]), ["`streamJoin` takes two inputs, not 1"]);
}

#[test]
fn keys_that_are_never_equal_are_refused_with_the_fix() {
    let inputs = [of(&[("a", DataType::Int64), ("t", TIME)]), of(&[("b", DataType::Utf8View), ("t", TIME)])];
    let step = json!({ "op": "streamJoin", "leftKeys": "a", "rightKeys": "b", "timeColumn": "t", "windowMs": 1 });
    assert_eq!(
        mistakes(&step, &inputs),
        ["rightKeys: `a` of type `int64` on the left and `b` of type `string` on the right are never equal; give one of them the other's \
          type with `cast` before the join"]
    );
    let inputs = [of(&[("a", DataType::Int32), ("t", TIME)]), of(&[("b", DataType::Int64), ("t", TIME)])];
    let outer = json!({ "op": "streamJoin", "leftKeys": "a", "rightKeys": "b", "timeColumn": "t", "windowMs": 1, "kind": "full" });
    assert_eq!(
        mistakes(&outer, &inputs),
        [
            "leftKeys: a right row without a partner shows its key in the left column, and `a` of type `int32` cannot hold every `b` of type \
          `int64`; give both one type with `cast` before the join"
        ]
    );
}

#[test]
fn updates_are_refused_with_the_fix() {
    let mut inputs = inputs();
    inputs[1].mode = ChangeMode::Upsert { keys: vec!["k".into()] };
    assert_eq!(
        mistakes(&step("inner", &["k"], 0, 0), &inputs),
        [
            "op: the rows of the right input replace earlier ones of equal `k`, and a joined row is never taken back; join the rows before the \
          step that updates them"
        ]
    );
}

#[test]
fn conditions_are_typed_over_the_joined_row() {
    let ok = with(json!({ "condition": "v_right > v && s_right == \"x\"" }));
    assert_eq!(names(&ok, &inputs()).len(), 9);
    let found = |condition: &str| mistakes(&with(json!({ "condition": condition })), &inputs());
    assert!(found("v_rihgt > 1")[0].contains("v_right"), "{:?}", found("v_rihgt > 1"));
    assert!(found("v + 1")[0].contains("a condition is of type `bool`"));
    assert_eq!(found("t < now()"), ["condition: a condition cannot use `now()`: pairs would depend on when a run is restored"]);
    // A semi join gives left columns and may look at both.
    let semi = with(json!({ "condition": "v_right > v", "kind": "semi" }));
    assert_eq!(names(&semi, &inputs()), ["t", "k", "s", "f", "v"]);
}

#[test]
fn right_columns_get_names_of_their_own() {
    let left = of(&[("id", DataType::Int64), ("t", TIME), ("name", DataType::Utf8View)]);
    let right = of(&[("id", DataType::Int64), ("t", TIME), ("price", DataType::Int64)]);
    let inputs = [left, right];
    let with = |more: Value| {
        let mut step = json!({ "op": "streamJoin", "joinKey": "id", "timeColumn": "t", "windowMs": 1 });
        more.as_object().unwrap().iter().for_each(|(key, value)| step[key] = value.clone());
        step
    };
    assert_eq!(names(&with(json!({})), &inputs), ["id", "t", "name", "t_right", "price"]);
    assert_eq!(names(&with(json!({ "rightPrefix": "b_" })), &inputs), ["id", "t", "name", "b_t", "b_price"]);
    assert_eq!(names(&with(json!({ "rightRename": { "t": "at" } })), &inputs), ["id", "t", "name", "at", "price"]);
    assert_eq!(names(&with(json!({ "rightPrefix": "b_", "rightRename": { "t": "at" } })), &inputs), ["id", "t", "name", "at", "b_price"]);
    assert_eq!(
        mistakes(&with(json!({ "rightRename": { "price": "name", "prce": "x", "id": "y" } })), &inputs),
        [
            "rightRename.id: `id` is a key; the right input's keys are left out, since they equal the left's",
            "rightRename.prce: there is no column `prce`, did you mean `price`?",
            "rightRename: the right column `price` would be called `name`, as another column is; name it with `rightRename`",
        ]
    );
    assert_eq!(mistakes(&with(json!({ "rightRename": { "t": "_key" } })), &inputs), ["rightRename: the name `_key` is reserved"]);
}

#[test]
fn keys_of_both_inputs_are_asked_for_when_rows_carry_keys() {
    let required = |kind: &str| {
        let bound = crate::parse_step(&step(kind, &["k"], 0, 0)).unwrap().bind(&inputs(), &BindCtx::new()).unwrap();
        let asked = std::collections::BTreeSet::from(["v".to_string(), tidegate_api::hidden::KEY.to_string()]);
        (bound.required)(&asked).iter().map(|columns| columns.contains(tidegate_api::hidden::KEY)).collect::<Vec<_>>()
    };
    assert_eq!(required("inner"), [true, true]);
    assert_eq!(required("anti"), [true, false]);
    let problems = crate::parse_step(&step("inner", &["k"], 0, 0)).unwrap().bind(&inputs(), &BindCtx::new().with_keys(true)).unwrap_err();
    assert_eq!(problems[0].to_string(), "rows were to carry keys and come in without");
}

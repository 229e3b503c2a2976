//! Mistakes in the step's keys, and what they say.

use serde_json::{Value, json};

fn mistakes(step: Value) -> Vec<String> {
    match crate::parse_step(&step) {
        Ok(def) => panic!("read as {def:?}"),
        Err(problems) => problems.iter().map(ToString::to_string).collect(),
    }
}

fn with(more: Value) -> Value {
    let mut step = json!({ "op": "streamJoin", "joinKey": "k", "timeColumn": "t", "windowMs": 10 });
    for (key, value) in more.as_object().unwrap() {
        step[key] = value.clone();
        if value.is_null() {
            step.as_object_mut().unwrap().remove(key);
        }
    }
    step
}

#[test]
fn every_missing_key_is_named_with_what_may_stand_for_it() {
    assert_eq!(
        mistakes(json!({ "op": "streamJoin" })),
        [
            "joinKey: `joinKey` is missing; or name `leftKeys` and `rightKeys`",
            "timeColumn: `timeColumn` is missing; or name `leftTime` and `rightTime`",
            "windowMs: `windowMs` is missing; or name `lowerMs` and `upperMs`",
        ]
    );
    assert_eq!(
        mistakes(json!({ "op": "streamJoin", "leftKeys": "a", "rightTime": "t", "lowerMs": 3 })),
        [
            "rightKeys: `rightKeys` is missing beside `leftKeys`",
            "leftTime: `leftTime` is missing beside `rightTime`",
            "upperMs: `upperMs` is missing beside `lowerMs`",
        ]
    );
}

#[test]
fn what_is_said_twice_is_refused() {
    assert_eq!(
        mistakes(with(json!({ "leftKeys": "a", "rightTime": "b", "lowerMs": 3 }))),
        [
            "leftKeys: `joinKey` names it for both inputs; keep `joinKey`, or `leftKeys` and `rightKeys`",
            "rightTime: `timeColumn` names it for both inputs; keep `timeColumn`, or `leftTime` and `rightTime`",
            "lowerMs: `windowMs` says how far apart partners may be; keep it, or `lowerMs` and `upperMs`",
        ]
    );
    assert_eq!(
        mistakes(with(json!({ "windowMs": null, "lowerMs": 1, "lower": "1s", "upper": "2s" }))),
        ["lower: `lower` and `lowerMs` say the same thing; keep one"]
    );
}

#[test]
fn values_out_of_place_are_named() {
    assert_eq!(
        mistakes(with(json!({ "kind": "iner" }))),
        ["kind: `iner` is none of `inner`, `left`, `right`, `full`, `semi`, `anti`, did you mean `inner`?"]
    );
    assert_eq!(mistakes(with(json!({ "windowMs": -1 }))), ["windowMs: expected an integer of 0 or more, found `-1`"]);
    assert_eq!(
        mistakes(with(json!({ "windowMs": null, "lower": "1m", "upper": "-5s" }))),
        ["lowerMs: no time is both at least 1m and at most -5s later"]
    );
    assert_eq!(mistakes(with(json!({ "windowMs": i64::MAX }))).len(), 1);
    assert_eq!(mistakes(with(json!({ "windowMs": null, "lowerMs": i64::MIN, "upperMs": 0 }))).len(), 1);
    assert_eq!(mistakes(with(json!({ "window": "0.5ms", "windowMs": null }))).len(), 1);
    assert_eq!(mistakes(with(json!({ "joinKey": [] }))), ["joinKey: name at least one column"]);
    assert_eq!(
        mistakes(with(json!({ "joinKey": null, "leftKeys": ["a", "b"], "rightKeys": "c" }))),
        ["rightKeys: the left input has 2 key columns and the right one 1; name as many"]
    );
    assert_eq!(mistakes(with(json!({ "rightRename": { "a": 3 } }))), ["rightRename.a: expected a name, found `3`"]);
    assert_eq!(mistakes(with(json!({ "rightPrefx": "r" }))), ["rightPrefx: unknown key `rightPrefx`, did you mean `rightPrefix`?"]);
}

#[test]
fn bounds_may_be_written_as_text_with_a_sign() {
    let step = with(json!({ "windowMs": null, "lower": "-1.5s", "upper": "2m" }));
    let bound = crate::parse_step(&step).unwrap().bind(&super::harness::inputs(), &crate::BindCtx::new()).unwrap();
    assert_eq!(bound.details, "inner on k within -1500ms to 2m of t");
    let zero = crate::parse_step(&with(json!({ "windowMs": 0 }))).unwrap().bind(&super::harness::inputs(), &crate::BindCtx::new()).unwrap();
    assert_eq!(zero.details, "inner on k within 0ms to 0ms of t");
}

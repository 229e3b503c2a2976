//! Every mistake is reported, once, at its place, together with all others.

use super::*;
use serde_json::json;
use tidegate_api::OnBadData;

/// Asserts that each report is there once, by its path and a part of its message, and no other.
fn assert_reports(found: &[String], expected: &[(&str, &str)]) {
    for (path, part) in expected {
        let count = found.iter().filter(|line| line.starts_with(&format!("{path}: ")) && line.contains(part)).count();
        assert_eq!(count, 1, "`{path}: … {part} …` in\n{}", found.join("\n"));
    }
    assert_eq!(found.len(), expected.len(), "{}", found.join("\n"));
}

#[test]
fn columns_that_cannot_be_named_are_refused_where_they_are_made() {
    let (pipeline, _) = Pipeline::of_bids();
    let mut count = count_per("auction", "dateTime");
    count["aggs"][0]["alias"] = json!("");
    let found = pipeline
        .sink("second")
        .stage("nameless", &["events"], "out", json!([count]))
        .stage("unreadable", &["events"], "second", json!([{ "op": "rename", "mapping": { "price": "a\u{0}b" } }]))
        .mistakes();
    assert_reports(&found, &[("stages.0.steps.0", "has no name: \"\""), ("stages.1.steps.0", "control characters in its name: \"a\\0b\"")]);
}

#[test]
fn ten_mistakes_are_reported_together() {
    let (pipeline, _) = Pipeline::of_bids();
    let found = pipeline
        .sink("second")
        .sink("third")
        .source("slow", Probe::new(&[("at", "string"), ("n", "int64")]))
        .options("slow", |options| options.time = time("at"))
        .options("events", |options| options.on_bad = Some(OnBadData::DeadLetter))
        .stage("unknown-input", &["evnts"], "out", json!([]))
        .stage("unknown-column", &["events"], "second", json!([{ "op": "select", "columns": ["acution"] }]))
        .stage("unknown-step", &["events"], "third", json!([{ "op": "fliter", "expression": "true" }]))
        .stage("no-sink", &["slow"], "nowhere", json!([]))
        .stage("no-sink", &["events"], "third", json!([]))
        .stage(
            "wrong-type",
            &["events"],
            "mid",
            json!([{ "op": "filter", "expression": "price" }, { "op": "drop", "columns": ["nothing"] }]),
        )
        .stage("behind", &["mid"], "out2", json!([{ "op": "drop", "columns": ["also-nothing"] }]))
        .mistakes();
    assert_reports(
        &found,
        &[
            ("stages.0.inputs.0", "did you mean `events`"),
            ("stages.1.steps.0.columns.0", "auction"),
            ("stages.2.steps.0.op", "filter"),
            ("stages.3.output", "`nowhere`"),
            ("stages.4.id", "stage 3"),
            ("stages.4.output", "already produced by stage `unknown-step`"),
            ("stages.5.steps.0.expression", "bool"),
            ("stages.5.steps.1.columns.0", "nothing"),
            ("stages.6.output", "`out2`"),
            ("stages.6.steps.0.columns.0", "also-nothing"),
            ("datasets.slow.time.column", "cannot tell time"),
            ("datasets.events.onBadData", "deadLetter"),
        ],
    );
}

#[test]
fn a_circle_of_stages_is_named() {
    let (pipeline, _) = Pipeline::of_bids();
    let found =
        pipeline.stage("a", &["y"], "x", json!([])).stage("b", &["x"], "y", json!([])).stage("c", &["y"], "out", json!([])).mistakes();
    assert_reports(&found, &[("stages.0.inputs", "in a circle: b -> a -> b")]);
}

#[test]
fn two_heavy_steps_need_two_stages() {
    let (pipeline, _) = Pipeline::of_bids();
    let steps = json!([count_per("auction", "dateTime"), count_as("m", "auction", "windowStart")]);
    let found = pipeline.stage("s", &["events"], "out", steps).mistakes();
    assert_reports(&found, &[("stages.0.steps.1.op", "a stage has one heavy step")]);
}

#[test]
fn inputs_that_are_merged_must_have_the_same_rows() {
    let found = Pipeline::new()
        .source("a", Probe::new(&[("x", "int64"), ("y", "string")]))
        .source("b", Probe::new(&[("x", "int64"), ("y", "float64")]))
        .sink("out")
        .stage("s", &["a", "b"], "out", json!([]))
        .mistakes();
    assert_reports(&found, &[("stages.0.inputs.1", "column 2 is `y` string in one and `y` float64 in the other")]);
}

#[test]
fn a_time_that_a_step_computes_is_refused_where_it_is_asked_for() {
    let (pipeline, _) = Pipeline::of_bids();
    let steps = json!([{ "op": "applyExpression", "column": "later", "expression": "dateTime + 1000" }, count_per("auction", "later")]);
    let found = pipeline.stage("s", &["events"], "out", steps).mistakes();
    assert_reports(&found, &[("stages.0.steps.1.timeColumn", "`later` is computed by step 0 (`applyExpression`) of stage `s`")]);
}

#[test]
fn a_dataset_has_one_event_time() {
    let (pipeline, _) = Pipeline::of_bids();
    let found = pipeline
        .sink("other")
        .stage("a", &["events"], "out", json!([count_per("auction", "dateTime")]))
        .stage("b", &["events"], "other", json!([count_per("auction", "expires")]))
        .mistakes();
    assert_reports(&found, &[("stages.1.steps.0.timeColumn", "tells time by `dateTime` (the `timeColumn` of stage `a`)")]);
}

#[test]
fn a_declared_time_column_must_exist_and_agree() {
    let (pipeline, _) = Pipeline::of_bids();
    let pipeline = pipeline.options("events", |options| options.time = time("dateTiem"));
    let found = pipeline.stage("s", &["events"], "out", json!([])).mistakes();
    assert_reports(&found, &[("datasets.events.time.column", "did you mean `dateTime`?")]);
    let (pipeline, _) = Pipeline::of_bids();
    let pipeline = pipeline.options("events", |options| options.time = time("expires"));
    let found = pipeline.stage("s", &["events"], "out", json!([count_per("auction", "dateTime")])).mistakes();
    assert_reports(&found, &[("stages.0.steps.0.timeColumn", "tells time by `expires` (its `time.column`)")]);
}

#[test]
fn a_dead_letter_dataset_is_checked() {
    let dead_letters = |options: &mut DatasetOptions, target: &str| {
        options.on_bad = Some(OnBadData::DeadLetter);
        options.dead_letter = Some(target.to_string());
    };
    let pipeline = || Pipeline::of_bids().0.sink("rejected").stage("s", &["events"], "out", json!([]));
    let found = pipeline().options("events", |options| dead_letters(options, "rejcted")).mistakes();
    assert_reports(&found, &[("datasets.events.deadLetter", "did you mean `rejected`?")]);
    let found = pipeline().options("events", |options| dead_letters(options, "out")).mistakes();
    assert_reports(&found, &[("datasets.events.deadLetter", "`out` is a stage's output")]);
    let found = pipeline().options("events", |options| options.dead_letter = Some("rejected".to_string())).mistakes();
    assert_reports(&found, &[("datasets.events.deadLetter", "say `onBadData = \"deadLetter\"`")]);
}

#[test]
fn a_guarantee_below_what_is_required_is_refused_with_its_reason() {
    let mut probe = Probe::new(BIDS);
    probe.replayable = false;
    let found = Pipeline::new()
        .source("events", probe)
        .sink("out")
        .sink_of("log", SinkPlan::new(Guarantee::AtLeastOnce))
        .source("again", Probe::new(BIDS))
        .options("out", |options| options.require = Some(Guarantee::AtLeastOnce))
        .options("log", |options| options.require = Some(Guarantee::ExactlyOnce))
        .stage("a", &["events"], "out", json!([]))
        .stage("b", &["again"], "log", json!([]))
        .mistakes();
    assert_reports(
        &found,
        &[
            ("datasets.out.require", "`out` is at-most-once: source `events` cannot be read again"),
            ("datasets.log.require", "`log` is at-least-once: sink `log` is at-least-once"),
        ],
    );
}

#[test]
fn a_dataset_without_the_half_that_is_used_is_named() {
    let found = Pipeline::new()
        .sink("only-written")
        .source("only-read", Probe::new(BIDS))
        .source("events", Probe::new(BIDS))
        .sink("out")
        .stage("a", &["only-written"], "out", json!([]))
        .stage("b", &["events"], "only-read", json!([]))
        .mistakes();
    assert_reports(&found, &[("datasets.only-written", "no `connector`"), ("datasets.only-read", "no `sink`")]);
}

#[test]
fn what_a_host_could_not_resolve_is_not_reported_again() {
    let unknown_source = Pipeline::new().dataset("lost", Dataset::unresolved()).sink("out").stage("s", &["lost"], "out", json!([]));
    assert_eq!(unknown_source.mistakes(), Vec::<String>::new());
    let (pipeline, _) = Pipeline::of_bids();
    let unknown_sink = pipeline.dataset("gone", Dataset::unresolved()).stage("s", &["events"], "gone", json!([]));
    assert_eq!(unknown_sink.mistakes(), Vec::<String>::new());
    let (pipeline, _) = Pipeline::of_bids();
    let unknown_dead_letters = pipeline
        .dataset("lost", Dataset::unresolved())
        .options("events", |options| {
            options.on_bad = Some(OnBadData::DeadLetter);
            options.dead_letter = Some("lost".to_string());
        })
        .stage("s", &["events"], "out", json!([{ "op": "filter", "expression": "prise > 1" }]));
    let found = unknown_dead_letters.mistakes();
    assert_reports(&found, &[("stages.0.steps.0.expression", "price")]);
}

#[test]
fn steps_behind_a_mistake_are_judged_by_what_is_known_of_their_input() {
    let (pipeline, _) = Pipeline::of_bids();
    let steps = json!([
        { "op": "applyExpression", "column": "euro", "expression": "prise * 0.9" },
        { "op": "filter", "expression": "euro > 10 && lowr(channel) == 'x'" },
        { "op": "applyExpression", "column": "n", "expression": "length(euro, 1)" },
        { "op": "filter", "expresion": "n > 1" },
        { "op": "filter", "expression": "euro >" },
        { "op": "select", "columns": ["euro", "n", "auction", "bider"] },
        { "op": "filter", "expression": "euro == 'x' || bidder > 1 || whatever" },
        { "op": "filter", "expression": "auction && true" },
        { "op": "windowedAggregate", "timeColumn": "at", "windwoMs": 1, "windowMs": 1, "groupBy": ["auction"], "aggs": [{ "op": "cuont", "alias": "n" }] },
        { "op": "filter", "expression": "n > 1 && nonsense(n)" },
    ]);
    let found = pipeline.stage("s", &["events"], "out", steps).mistakes();
    assert_reports(
        &found,
        &[
            ("stages.0.steps.0.expression", "unknown column `prise`, did you mean `price`?"),
            ("stages.0.steps.1.expression", "unknown function `lowr`, did you mean `lower`?"),
            ("stages.0.steps.2.expression", "does not take 2 arguments"),
            ("stages.0.steps.3.expression", "`expression` is missing"),
            ("stages.0.steps.3.expresion", "unknown key `expresion`, did you mean `expression`?"),
            ("stages.0.steps.4.expression", "expected"),
            ("stages.0.steps.5.columns.3", "there is no column `bider`, did you mean `bidder`?"),
            ("stages.0.steps.7.expression", "`&&` takes bool, not int64"),
            ("stages.0.steps.8.windwoMs", "unknown key `windwoMs`"),
            ("stages.0.steps.8.aggs.0.op", "unknown aggregation `cuont`, did you mean `count`?"),
            ("stages.0.steps.9.expression", "unknown function `nonsense`"),
        ],
    );
}

#[test]
fn what_a_better_input_would_mend_is_not_reported() {
    let (pipeline, _) = Pipeline::of_bids();
    let uses = |time: &str| {
        json!([
            { "op": "filter", "expression": "a.b.c == 1 || d[0] == 'x' || length(e) > 1 || f" },
            { "op": "cast", "column": "g", "type": "decimal(10,2)" },
            { "op": "rename", "mapping": { "h": "i" } },
            { "op": "drop", "columns": ["j"] },
            { "op": "applyExpression", "column": "k", "expression": "dateTrunc('day', l) + m" },
            { "op": "unnest", "column": "o", "alias": "p" },
            { "op": "windowedAggregate", "timeColumn": time, "windowMs": 1000, "groupBy": ["q"], "aggs": [
                { "op": "sum", "column": "r", "alias": "s" }, { "op": "boolAnd", "column": "t", "alias": "u" },
                { "op": "percentile", "column": "v", "alias": "w", "p": 0.5, "filter": "x > 1 && y" } ] },
            { "op": "filter", "expression": "s > 1 && u && windowEnd > windowStart" },
        ])
    };
    let found = pipeline
        .sink("second")
        .stage("unread", &["events"], "mid", json!([{ "op": "pivot" }]))
        .stage("behind", &["mid"], "out", uses("z"))
        .stage("nowhere", &["evnts"], "second", uses("zz"))
        .mistakes();
    assert_reports(&found, &[("stages.0.steps.0.op", "unknown step `pivot`"), ("stages.2.inputs.0", "no stage produces `evnts`")]);
}

#[test]
fn inputs_of_a_step_that_cannot_be_read_are_not_compared() {
    let found = Pipeline::new()
        .source("a", Probe::new(&[("x", "int64"), ("t", "timestamp_ms")]))
        .source("b", Probe::new(&[("x", "int64"), ("y", "string"), ("t", "timestamp_ms")]))
        .sink("out")
        .sink("out2")
        .stage("s", &["a", "b"], "out", json!([{ "op": "streamJoin", "joinKey": "x" }, { "op": "filter", "expression": "nofn(y)" }]))
        .stage("t", &["a", "b"], "out2", json!([{ "op": "streamJon", "joinKey": "x" }]))
        .mistakes();
    assert!(found.iter().all(|line| !line.contains("do not have the same rows")), "{found:#?}");
    assert!(found.iter().any(|line| line.starts_with("stages.0.steps.1.expression: unknown function `nofn`")), "{found:#?}");
    assert!(found.iter().any(|line| line.starts_with("stages.1.steps.0.op: ") && line.contains("streamJoin")), "{found:#?}");
}

#[test]
fn a_dataset_that_could_not_be_resolved_is_judged_by_its_sketch() {
    let sketch = Probe::new(BIDS).schema;
    let found = Pipeline::new()
        .dataset("events", Dataset::unresolved().with_sketch(Some(sketch)))
        .sink("out")
        .stage("s", &["events"], "out", json!([{ "op": "filter", "expression": "prise > 1" }, { "op": "drop", "columns": ["actions"] }]))
        .mistakes();
    assert_reports(&found, &[("stages.0.steps.0.expression", "`price`"), ("stages.0.steps.1.columns.0", "`auction`")]);
}

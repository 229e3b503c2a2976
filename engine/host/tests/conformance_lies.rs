//! The conformance kit over components: honest ones pass it, and each of those that lie in one way is convicted of exactly that.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_api::SourceRequest;
use tidegate_conformance::Rule;
use tidegate_conformance::plugin::{Conformance, judge, judge_upgrade};
use tidegate_conformance::report::{Earned, Report};
use tidegate_host::{HostConfig, PluginHost, PluginSpec};

fn host() -> Arc<PluginHost> {
    // Compiled once for all tests; two that compile at the same time do not disturb each other.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    PluginHost::new(HostConfig::new().with_cache_dir(Some(cache))).unwrap()
}

fn built(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/guests/target/components/{name}.wasm"));
    assert!(path.exists(), "`{}` is missing; run `cargo xtask guests` first, or all tests with `cargo xtask test`", path.display());
    path
}

/// Judges a guest of the tests under a table `[conformance]`, in a folder of its own.
fn judged(guest: &str, mut table: Value) -> Report {
    let folder = tempfile::tempdir().unwrap();
    table["calls"] = json!(3000);
    let conformance = Conformance::parse(table.as_object().unwrap(), folder.path()).unwrap();
    judge(&host(), &PluginSpec::new(guest, built(guest)), &conformance).unwrap()
}

/// Convicted of this and nothing else.
fn convicted(report: &Report, rule: Rule) {
    let rules: Vec<Rule> = report.convictions.iter().map(|conviction| conviction.rule).collect();
    assert_eq!(rules, [rule], "{report}");
    assert!(!report.passed());
}

fn source(lie: &str) -> Report {
    judged("lying-source", json!({ "config": { "lie": lie }, "source-rows": 100 }))
}

/// A change feed of two splits.
fn feed(more: Value) -> Report {
    let mut config = json!({ "keys": 5, "rows": 43 });
    config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    judged("feed", json!({ "config": config, "source-rows": 100 }))
}

fn transform(lie: &str) -> Report {
    let input = json!([{ "name": "n", "type": "int64" }, { "name": "s", "type": "string" }]);
    judged("lying-transform", json!({ "config": { "lie": lie, "step": 3 }, "input": input }))
}

/// A sink into a directory that commands empty and read.
fn sink(guest: &str, mut config: Value, read_back: bool) -> Report {
    config["dir"] = json!("/out");
    let mut table = json!({
        "allow": { "dirs": ["out=/out:rw"] },
        "input": [{ "name": "n", "type": "int64" }],
        "reset": "rm -rf out && mkdir out",
    });
    if config.get("lie").is_none() {
        // Leftovers tell some lies before the rule that they break is asked about.
        table["leftovers"] = json!("ls out/.staged 2>/dev/null || true");
    }
    table["config"] = config;
    if read_back {
        table["read-back"] = json!("cat out/* 2>/dev/null || true");
    }
    judged(guest, table)
}

fn delivery(lie: &str, idempotent: bool) -> Report {
    sink("lying-delivery", json!({ "lie": lie, "idempotent": idempotent }), true)
}

#[test]
fn honest_components_earn_what_they_claim() {
    let reports = [
        judged("lying-source", json!({ "source-rows": 100 })),
        judged("lying-transform", json!({ "input": [{ "name": "n", "type": "int64" }, { "name": "s", "type": "string" }] })),
        feed(json!({})),
        sink("lying-sink", json!({}), true),
        sink("lying-delivery", json!({ "idempotent": true }), true),
        sink("lying-delivery", json!({}), true),
    ];
    for report in reports {
        assert!(report.passed(), "{report}");
        assert_eq!(report.earned, Earned::Guarantee(report.claimed.clone()), "{report}");
    }
}

#[test]
fn a_command_that_fails_convicts_nobody() {
    let table = json!({
        "config": { "dir": "/out" },
        "allow": { "dirs": ["out=/out:rw"] },
        "input": [{ "name": "n", "type": "int64" }],
        "reset": "rm -rf out && mkdir out",
        "read-back": "cat out/nothing-of-that-name",
        "calls": 10,
    });
    let folder = tempfile::tempdir().unwrap();
    let conformance = Conformance::parse(table.as_object().unwrap(), folder.path()).unwrap();
    let error = judge(&host(), &PluginSpec::new("lying-sink", built("lying-sink")), &conformance).unwrap_err().to_string();
    assert!(error.contains("`read-back`: ") && error.contains("cat out/nothing-of-that-name"), "{error}");
}

#[test]
fn without_read_back_a_sink_is_unproven() {
    let report = sink("lying-sink", json!({}), false);
    assert!(report.passed() && matches!(report.earned, Earned::Unproven(_)), "{report}");
    assert_eq!((report.to_json()["earned"].as_str(), report.claimed.as_str()), (Some("unproven"), "exactly-once"));
}

#[test]
fn a_position_that_skips_a_row() {
    let report = source("skips");
    convicted(&report, Rule::PositionSkips);
    assert_eq!(report.earned, Earned::Nothing);
    assert_eq!(report.to_json()["convictions"][0]["rule"], "position-skips-nothing");
    let page = include_str!("../../../docs/plugins/conformance.md");
    let shown: Vec<&str> = page.split("```text\n").nth(1).and_then(|rest| rest.split("\n```").next()).unwrap().lines().collect();
    let text = report.to_string();
    for line in shown {
        assert!(text.contains(line), "`{line}` is shown and not said: {text}");
    }
}

#[test]
fn a_position_that_repeats_a_row() {
    convicted(&source("repeats"), Rule::PositionRepeats);
}

#[test]
fn rows_that_differ_between_replays() {
    convicted(&source("replays"), Rule::ReplaySame);
}

#[test]
fn rows_of_one_key_from_two_splits() {
    convicted(&feed(json!({ "lie": "shared-keys" })), Rule::KeysApart);
}

#[test]
fn a_key_that_depends_on_the_wanted_columns() {
    convicted(&feed(json!({ "lie": "other-key" })), Rule::Pruning);
}

#[test]
fn kinds_that_there_are_not() {
    let report = feed(json!({ "lie": "odd-kind" }));
    // No call succeeds, so whatever needs many of them is convicted as well.
    assert_eq!(report.convictions[0].rule, Rule::CallsSucceed, "{report}");
    assert!(report.to_string().contains("a row's kind is 7") && report.earned == Earned::Nothing, "{report}");
    // What cannot even be planned is not judged.
    let source = host().load(&PluginSpec::new("feed", built("feed"))).unwrap();
    let source = source.source(&json!({ "keys": 5, "rows": 43, "lie": "no-key" })).unwrap();
    let error = source.plan(&SourceRequest::all()).unwrap_err().to_string();
    assert!(error.contains("no column is marked `tidegate.key`"), "{error}");
}

#[test]
fn rows_that_depend_on_the_number_of_tasks() {
    convicted(&source("tasks"), Rule::AnyTasks);
}

#[test]
fn a_watermark_that_goes_back() {
    convicted(&source("watermark-back"), Rule::WatermarkBack);
}

#[test]
fn a_watermark_above_later_rows() {
    convicted(&source("watermark-lies"), Rule::WatermarkTrue);
}

#[test]
fn a_plan_that_prunes_and_rows_that_do_not() {
    convicted(&source("pruning"), Rule::Pruning);
}

#[test]
fn a_late_notice_of_a_durable_position_that_is_obeyed() {
    convicted(&source("committed"), Rule::CommittedHarmless);
}

#[test]
fn splits_that_have_other_names_each_time() {
    convicted(&source("splits"), Rule::SplitsStable);
}

#[test]
fn an_unknown_key_that_is_ignored() {
    convicted(&source("lenient"), Rule::UnknownKeys);
}

#[test]
fn a_source_that_leaks() {
    convicted(&source("leaks"), Rule::NoLeak);
}

#[test]
fn a_newer_version_that_cannot_read_positions() {
    let folder = tempfile::tempdir().unwrap();
    let mut conformance = Conformance::new(folder.path());
    conformance.source_rows = 100;
    let old = PluginSpec::new("old", built("lying-source"));
    let new = PluginSpec::new("new", built("lying-source")).with_config(json!({ "lie": "new-positions" }));
    assert_eq!(judge_upgrade(&host(), &old, &old, &conformance).unwrap().conviction, None);
    let found = judge_upgrade(&host(), &old, &new, &conformance).unwrap().conviction.unwrap();
    assert_eq!(found.rule, Rule::UpgradePositions, "{found}");
}

#[test]
fn a_transform_that_depends_on_batch_cuts() {
    convicted(&transform("batch-cuts"), Rule::BatchCuts);
}

#[test]
fn a_transform_that_counts_over_batches() {
    convicted(&transform("counter"), Rule::Deterministic);
}

#[test]
fn a_transform_that_lies_about_which_row_is_which() {
    convicted(&transform("row-mapping"), Rule::RowMapping);
}

#[test]
fn a_transform_that_traps_on_the_least_number() {
    convicted(&transform("traps"), Rule::Extremes);
}

#[test]
fn a_transform_that_leaks() {
    convicted(&transform("leaks"), Rule::NoLeak);
}

#[test]
fn a_transform_that_traps_on_a_wrong_type_in_its_configuration() {
    convicted(&transform("hostile"), Rule::HostileConfig);
}

/// A sink of two phases that lies; it may still deliver every row at least once.
fn two_phase(lie: &str, rule: Rule, earned: Option<&str>) {
    let report = sink("lying-sink", json!({ "lie": lie }), true);
    convicted(&report, rule);
    assert_eq!(report.claimed, "exactly-once");
    assert_eq!(report.earned, earned.map_or(Earned::Nothing, |name| Earned::Guarantee(name.into())), "{report}");
}

#[test]
fn a_commit_that_is_not_idempotent() {
    two_phase("commit-again", Rule::CommitIdempotent, Some("at-least-once"));
}

#[test]
fn a_token_that_names_what_only_its_process_knows() {
    two_phase("local-token", Rule::TokenAnywhere, None);
}

#[test]
fn rows_that_are_visible_before_their_commit() {
    two_phase("early", Rule::NothingEarly, Some("at-least-once"));
}

#[test]
fn an_epoch_that_was_given_up_and_stays() {
    two_phase("abort-leaves", Rule::AbortUndoes, Some("at-least-once"));
}

#[test]
fn a_start_that_undoes_what_others_prepared() {
    two_phase("recover-others", Rule::RecoverSpares, None);
}

#[test]
fn an_epoch_without_rows_that_undoes_the_one_before() {
    two_phase("empty-epochs", Rule::EmptyEpochs, None);
}

#[test]
fn a_flush_that_keeps_a_row() {
    let report = delivery("flush-keeps", false);
    convicted(&report, Rule::FlushDelivers);
    assert_eq!(report.earned, Earned::Nothing);
}

#[test]
fn a_new_writer_that_removes_what_an_older_one_delivered() {
    let report = delivery("truncates", false);
    convicted(&report, Rule::CrashLosesNothing);
    assert_eq!(report.earned, Earned::Nothing);
}

#[test]
fn a_sink_that_makes_rows_up() {
    convicted(&delivery("invents", false), Rule::NothingInvented);
}

#[test]
fn a_sink_that_claims_to_be_idempotent_and_appends() {
    let report = delivery("appends", true);
    convicted(&report, Rule::ReplayOverwrites);
    assert_eq!(report.earned, Earned::Guarantee("at-least-once".into()));
}

#[test]
fn a_sink_that_leaks() {
    convicted(&delivery("leaks", false), Rule::NoLeak);
}

#[test]
fn a_sink_of_two_phases_that_leaks() {
    convicted(&sink("lying-sink", json!({ "lie": "leaks" }), true), Rule::NoLeak);
}

#[test]
fn a_newer_version_that_looks_for_tokens_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let table = json!({
        "allow": { "dirs": ["out=/out:rw", "new=/new:rw"] },
        "input": [{ "name": "n", "type": "int64" }],
        "reset": "rm -rf out new && mkdir out new",
    });
    let conformance = Conformance::parse(table.as_object().unwrap(), folder.path()).unwrap();
    let version = |dir: &str| PluginSpec::new(dir, built("lying-sink")).with_config(json!({ "dir": dir }));
    let same = judge_upgrade(&host(), &version("/out"), &version("/out"), &conformance).unwrap();
    assert!(same.passed() && same.kept.contains(&Rule::UpgradeTokens), "{same:?}");
    let found = judge_upgrade(&host(), &version("/out"), &version("/new"), &conformance).unwrap().conviction.unwrap();
    assert_eq!(found.rule, Rule::UpgradeTokens, "{found}");
}

//! The first-party plugins under the conformance kit, reached as a third party's are: through the commands of `[conformance]`.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::path::Path;
use tidegate_conformance::Rule;
use tidegate_conformance::plugin::{Conformance, judge};
use tidegate_conformance::report::{Earned, Report};
use tidegate_host::{HostConfig, PluginHost, PluginSpec};

/// Judges a plugin as its `plugin.toml` says, in a folder of its own, and expects it to earn what it claims.
fn earns(name: &str) -> Report {
    earns_with(name, |_| {})
}

fn earns_with(name: &str, change: impl FnOnce(&mut Value)) -> Report {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins");
    let path = plugins.join(format!("target/components/{name}.wasm"));
    assert!(path.exists(), "`{}` is missing; run `cargo xtask guests` first, or all tests with `cargo xtask test`", path.display());
    // Compiled once for all tests; two that compile at the same time do not disturb each other.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    let host = PluginHost::new(HostConfig::new().with_cache_dir(Some(cache))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(plugins.join(name).join("plugin.toml")).unwrap();
    let mut table = toml::from_str::<Value>(&text).unwrap()["conformance"].take();
    table["calls"] = json!(2000);
    change(&mut table);
    let conformance = Conformance::parse(table.as_object().unwrap(), folder.path()).unwrap();
    let report = judge(&host, &PluginSpec::new(name, path), &conformance).unwrap();
    assert!(report.passed(), "{report}");
    assert_eq!(report.earned, Earned::Guarantee(report.claimed.clone()), "{report}");
    report
}

fn passed(report: &Report, rule: Rule) -> bool {
    report.rules.iter().any(|(other, status)| *other == rule && status.name() == "passed")
}

#[test]
fn ticker_is_replayable() {
    let report = earns("ticker");
    assert_eq!(report.claimed, "replayable");
    for rule in [Rule::WatermarkTrue, Rule::WatermarkBack, Rule::PositionAdvances] {
        assert!(passed(&report, rule), "`{rule}` was not judged: {report}");
    }
    earns_with("ticker", |table| {
        table["config"] = json!({ "splits": 2 });
        table["source-rows"] = json!(100);
    });
}

#[test]
fn csv_dir_is_replayable_and_finds_new_files() {
    let report = earns("csv-dir");
    assert!(passed(&report, Rule::NewSplits), "{report}");
}

#[test]
fn jsonl_is_exactly_once() {
    let report = earns("jsonl");
    assert_eq!(report.claimed, "exactly-once");
    assert!(passed(&report, Rule::NothingLeft), "{report}");
    assert_eq!(report.to_json()["earned"], "exactly-once");
    // The table that the guide shows whole is enough, too.
    let page = include_str!("../../../docs/plugins/conformance.md");
    let shown = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut shown = toml::from_str::<Value>(shown).unwrap()["conformance"].take();
    earns_with("jsonl", |table| *table = std::mem::take(&mut shown));
}

#[test]
fn transforms_are_deterministic() {
    for name in ["mask-pii", "json-flatten", "geo-enrich"] {
        assert_eq!(earns(name).claimed, "deterministic");
    }
}

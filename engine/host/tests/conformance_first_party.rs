//! The first-party plugins under the conformance kit, reached as a third party's are: through the commands of `[conformance]`.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::path::Path;
use tidegate_conformance::Rule;
use tidegate_conformance::plugin::{Conformance, judge};
use tidegate_conformance::report::{Earned, Report};
use tidegate_host::{HostConfig, PluginHost, PluginSpec};

/// What stands for the outside of a plugin that talks to servers.
const SERVICE: &str = "conformance/serve.py";

/// Whether services can be run here; says so if not.
fn python() -> bool {
    let found = std::process::Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        // Not by `eprintln!`, which the test harness keeps to itself when a test passes.
        let line = "\nNOT TESTED on this machine: plugins that talk to servers, since there is no python3 to run those\n";
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
    }
    found
}

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
    if let Ok(service) = std::fs::read(plugins.join(name).join(SERVICE)) {
        std::fs::create_dir(folder.path().join("conformance")).unwrap();
        std::fs::write(folder.path().join(SERVICE), service).unwrap();
    }
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
    // And the one with a service is that of a plugin here.
    assert!(page.contains(&format!("```toml\n{}```", include_str!("../../../plugins/http-post/plugin.toml"))));
}

/// Judges a plugin whose service is this line, and gives the error.
fn with_service(line: &str) -> String {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/target/components");
    let host = PluginHost::new(HostConfig::new().with_cache_dir(None)).unwrap();
    let table = json!({ "service": line, "config": { "rows": "${rows}", "splits": 1, "intervalMs": 10, "startMs": 0 }, "calls": 10, "deadline": "5s" });
    let conformance = Conformance::parse(table.as_object().unwrap(), Path::new("")).unwrap();
    judge(&host, &PluginSpec::new("ticker", plugins.join("ticker.wasm")), &conformance).unwrap_err().to_string()
}

#[test]
fn a_service_that_fails_is_not_the_plugin_s_fault() {
    for (line, why) in [
        ("echo no more room >&2; exit 1", "before it printed a line; it said: no more room"),
        ("echo ready; cat", "its first line is to be one JSON object"),
        ("echo '{\"row\": 5}'; cat", "`config`: `${rows}`: the service names no `rows`, but `row`"),
        ("echo '{\"rows\": 5}'; echo a bug >&2; exit 3", "ended with exit status: 3 while the plugin was judged; it said: a bug"),
    ] {
        let error = with_service(line);
        assert!(error.contains(why), "{line}: {error}");
    }
}

#[test]
fn http_poll_is_replayable() {
    if python() {
        let report = earns("http-poll");
        assert_eq!(report.claimed, "replayable");
        assert!(passed(&report, Rule::PositionAdvances), "{report}");
        let ends = earns_with("http-poll", |table| table["config"]["watch"] = json!(false));
        assert_eq!(ends.claimed, "replayable");
        let changes = earns_with("http-poll", |table| table["config"]["replayable"] = json!(false));
        assert_eq!(changes.claimed, "not replayable");
    }
}

#[test]
fn tcp_lines_is_not_replayable_and_keeps_what_it_promises() {
    if python() {
        let report = earns("tcp-lines");
        assert_eq!(report.claimed, "not replayable");
        assert!(passed(&report, Rule::NoLeak) && passed(&report, Rule::Pruning), "{report}");
        assert!(!passed(&report, Rule::ReplaySame), "{report}");
    }
}

#[test]
fn http_post_is_idempotent_by_key_and_else_at_least_once() {
    if python() {
        assert_eq!(earns("http-post").claimed, "idempotent");
        for config in [json!({}), json!({ "acrossBatches": true }), json!({ "idempotencyKey": true })] {
            let report = earns_with("http-post", |table| {
                table["config"] = json!({ "url": "${url}/rows" });
                table["config"].as_object_mut().unwrap().extend(config.as_object().unwrap().clone());
            });
            assert_eq!(report.claimed, "at-least-once", "{config}");
        }
    }
}

#[test]
fn s3_jsonl_is_exactly_once() {
    if python() {
        let report = earns("s3-jsonl");
        assert_eq!(report.claimed, "exactly-once");
        assert!(passed(&report, Rule::NothingLeft), "{report}");
    }
}

#[test]
fn transforms_are_deterministic() {
    for name in ["mask-pii", "json-flatten", "geo-enrich"] {
        assert_eq!(earns(name).claimed, "deterministic");
    }
}

//! The first-party plugins under the conformance kit, reached as a third party's are: through the commands of `[conformance]`.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::path::Path;
use tidegate_conformance::Rule;
use tidegate_conformance::plugin::{Conformance, judge};
use tidegate_conformance::report::{Earned, Report};
use tidegate_host::{HostConfig, PluginHost, PluginSpec};

/// Judges a plugin in a folder of its own and expects it to earn what it claims.
fn earns(name: &str, mut table: Value) -> Report {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../plugins/target/components/{name}.wasm"));
    assert!(path.exists(), "`{}` is missing; run `cargo xtask guests` first, or all tests with `cargo xtask test`", path.display());
    // Compiled once for all tests; two that compile at the same time do not disturb each other.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    let host = PluginHost::new(HostConfig::new().with_cache_dir(Some(cache))).unwrap();
    let folder = tempfile::tempdir().unwrap();
    table["calls"] = json!(2000);
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
    let report = earns("ticker", json!({ "config": { "rows": 500, "splits": 3, "intervalMs": 10, "startMs": 0 } }));
    assert_eq!(report.claimed, "replayable");
    for rule in [Rule::WatermarkTrue, Rule::WatermarkBack, Rule::PositionAdvances] {
        assert!(passed(&report, rule), "`{rule}` was not judged: {report}");
    }
    earns("ticker", json!({ "config": { "splits": 2 }, "source-rows": 100 }));
}

#[test]
fn csv_dir_is_replayable_and_finds_new_files() {
    let report = earns(
        "csv-dir",
        json!({
            "config": { "dir": "/in", "columns": [{ "name": "n", "type": "int64" }, { "name": "s", "type": "string" }], "watch": true },
            "allow": { "dirs": ["in=/in"] },
            "reset": "rm -rf in && mkdir in",
            "seed": "for file in 1 2; do (echo n,s; seq -f '%g,\"quoted, text\"' 60; echo x,bad; seq -f '%g,b' 90) > in/$file.csv; done",
            "seed-more": "printf 'n,s\\n1,late\\n' > in/3.csv",
            "source-rows": 200,
            "wait": "0ms",
        }),
    );
    assert!(passed(&report, Rule::NewSplits), "{report}");
}

#[test]
fn jsonl_is_exactly_once() {
    // The table that the guide shows whole.
    let page = include_str!("../../../docs/plugins/conformance.md");
    let shown = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut table = toml::from_str::<Value>(shown).unwrap()["conformance"].take();
    table["leftovers"] = json!("find target/conformance -path '*/.*' -name '*.jsonl'");
    let report = earns("jsonl", table);
    assert_eq!(report.claimed, "exactly-once");
    assert!(passed(&report, Rule::NothingLeft), "{report}");
    assert_eq!(report.to_json()["earned"], "exactly-once");
}

#[test]
fn transforms_are_deterministic() {
    let columns = json!([{ "name": "origin", "type": "string" }, { "name": "n", "type": "int64" }, { "name": "x", "type": "float64" }]);
    earns("mask-pii", json!({ "config": { "columns": ["origin"] }, "input": columns }));
    let fields = json!([{ "path": "a", "name": "a", "type": "int64" }, { "path": "b[1]", "name": "b", "type": "timestamp_ms" }]);
    earns(
        "json-flatten",
        json!({ "config": { "column": "origin", "fields": fields, "prefix": "p_", "onError": "bad" }, "input": columns }),
    );
    let table = "faa,name,lat\nEWR,Newark,40.6\nnull,Nowhere,0\n";
    let config = json!({ "column": "origin", "table": table, "key": "faa", "add": ["lat", "name"], "prefix": "o_", "onUnknown": "bad" });
    earns("geo-enrich", json!({ "config": config, "input": columns }));
}

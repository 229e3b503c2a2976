//! The suite of sinks over components: `jsonl` passes it, and a component that claims two phases and does not keep them is convicted.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{Int64Array, RecordBatch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_conformance::sink::{SinkWorld, sink_contract};
use tidegate_host::{HostConfig, PluginHost, PluginSpec};

fn rows() -> [RecordBatch; 2] {
    let batch =
        |values: std::ops::Range<i64>| RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(values)) as _)]).unwrap();
    [batch(0..5), batch(5..7)]
}

/// A component's sink into a directory of its own; `value` reads a line back, `waits` says whether a hidden file waits for its commit.
fn world(host: &Arc<PluginHost>, path: &Path, config: &Value, value: fn(&str) -> i64, waits: fn(&str) -> bool) -> SinkWorld {
    let dir = Arc::new(tempfile::tempdir().unwrap());
    let allow = json!({ "dirs": [format!("{}=/out:rw", dir.path().display())] });
    let spec = PluginSpec::new("judged", path).with_allow(allow.as_object().unwrap()).unwrap();
    let plugin = host.load(&spec).unwrap();
    let (config, place, hidden) = (config.clone(), Arc::clone(&dir), Arc::clone(&dir));
    SinkWorld::new(
        move || plugin.sink(&config).unwrap(),
        move || {
            let files = files(place.path(), false);
            let values = files.iter().flat_map(|file| {
                let text = std::fs::read_to_string(file).unwrap();
                text.lines().map(value).collect::<Vec<_>>()
            });
            vec![RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(values)) as _)]).unwrap()]
        },
        move || files(hidden.path(), true).iter().filter(|file| waits(&file.file_name().unwrap().to_string_lossy())).count(),
    )
}

/// The files that readers see, or those that they do not.
fn files(folder: &Path, hidden: bool) -> Vec<PathBuf> {
    fn walk(folder: &Path, within_hidden: bool, wanted: bool, found: &mut Vec<PathBuf>) {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let is_hidden = within_hidden || path.file_name().unwrap().to_string_lossy().starts_with('.');
            if path.is_dir() {
                walk(&path, is_hidden, wanted, found);
            } else if is_hidden == wanted {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    walk(folder, false, hidden, &mut found);
    found
}

fn host() -> Arc<PluginHost> {
    // Compiled once for all tests; two that compile at the same time do not disturb each other.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    PluginHost::new(HostConfig::new().with_cache_dir(Some(cache))).unwrap()
}

fn built(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    assert!(path.exists(), "`{}` is missing; run `cargo xtask guests` first, or all tests with `cargo xtask test`", path.display());
    path
}

#[test]
fn jsonl_keeps_the_contract_of_transactional_sinks() {
    let (host, path) = (host(), built("plugins/target/components/jsonl.wasm"));
    let value = |line: &str| serde_json::from_str::<Value>(line).unwrap()["n"].as_i64().unwrap();
    // A mark that a commit was begun is no row.
    let waits = |name: &str| name.ends_with(".jsonl");
    sink_contract(&rows()[0].schema(), &rows(), || world(&host, &path, &json!({ "dir": "/out" }), value, waits));
}

#[test]
fn a_component_that_repeats_or_loses_rows_is_convicted() {
    let (host, path) = (host(), built("tests/guests/target/components/forgetful.wasm"));
    for (fault, rule) in [("repeats", "nothing-visible-before-commit"), ("loses", "visible-once")] {
        let config = json!({ "dir": "/out", "fault": fault });
        let judged = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            sink_contract(&rows()[0].schema(), &rows(), || world(&host, &path, &config, |line| line.parse().unwrap(), |_| true));
        }));
        let words = judged.unwrap_err().downcast_ref::<String>().unwrap().clone();
        assert!(words.contains(rule), "`{fault}`: {words}");
    }
}

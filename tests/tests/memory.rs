//! State past the memory limit: the same answers with disk, a clear end without.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use tidegate_tests::command;

/// The last bid of each bidder on each auction beside the auctions of these bids: ranks, joins and windows together.
fn pipeline(folder: &Path, name: &str, settings: &str) -> String {
    let text = format!(
        r#"
name = "{name}"
[settings]
parallelism = 2
batchRows = 500
checkpointEvery = "200ms"
stateDir = "state-{name}"
{settings}

[datasets.events]
connector = "nexmark"
events = 60000
partitions = 2
[datasets.last]
sink = "files"
path = "last-{name}"
format = "json"
changelog = true
[datasets.counts]
sink = "files"
path = "counts-{name}"
format = "json"

[[stages]]
inputs = ["events"]
output = "last"
steps = [
  {{ op = "filter", expression = 'type == "bid"' }},
  {{ op = "select", columns = ["auction", "bidder", "price", "dateTime"] }},
  {{ op = "deduplicate", keys = ["bidder", "auction"], keep = "last", timeColumn = "dateTime" }},
]

[[stages]]
inputs = ["events"]
output = "counts"
steps = [
  {{ op = "filter", expression = 'type == "bid"' }},
  {{ op = "windowedAggregate", timeColumn = "dateTime", windowMs = 60000, slideMs = 10000, groupBy = ["bidder"], aggs = [{{ op = "count", alias = "bids" }}, {{ op = "max", column = "price", alias = "highest" }}] }},
]
"#
    );
    let file = format!("{name}.toml");
    std::fs::write(folder.join(&file), text).unwrap();
    file
}

fn run(folder: &Path, file: &str) -> Output {
    Command::new(command()).args(["run", file]).current_dir(folder).output().unwrap()
}

fn lines(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            lines.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_string));
        }
    }
    lines.sort();
    lines
}

/// The table after all updates: of one key's rows the one with the latest time.
fn table(lines: &[String]) -> BTreeMap<(i64, i64), String> {
    let mut table: BTreeMap<(i64, i64), (String, String)> = BTreeMap::new();
    for line in lines {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let key = (row["bidder"].as_i64().unwrap(), row["auction"].as_i64().unwrap());
        let time = row["dateTime"].as_str().unwrap().to_string();
        let known = table.entry(key).or_default();
        if *known < (time.clone(), line.clone()) {
            *known = (time, line.clone());
        }
    }
    table.into_iter().map(|(key, (_, line))| (key, line)).collect()
}

#[test]
fn without_memory_the_answers_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (with, without) = (pipeline(folder.path(), "with", ""), pipeline(folder.path(), "without", "maxMemory = \"128KiB\""));
    for file in [&with, &without] {
        let output = run(folder.path(), file);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{told}");
        assert_eq!(told.contains("has come to the memory limit"), *file == without, "{told}");
    }
    let counts = lines(&folder.path().join("counts-with"));
    assert!(counts.len() > 1000, "{} windows", counts.len());
    assert_eq!(lines(&folder.path().join("counts-without")), counts);
    let last = |name: &str| table(&lines(&folder.path().join(format!("last-{name}"))));
    assert!(last("with").len() > 5000);
    assert_eq!(last("without"), last("with"));
    let spill = std::fs::read_dir(folder.path().join("state-without/spill")).unwrap();
    assert_eq!(spill.count(), 0, "files of state have no names");
}

#[test]
fn without_memory_and_disk_the_run_ends_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), "refused", "maxMemory = \"128KiB\"\nspill = false");
    let output = run(folder.path(), &file);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(71), "{told}");
    assert!(["maxMemory", "`spill`", "stage `"].iter().all(|part| told.contains(part)), "{told}");
}

//! P087: a task that did not exist before begins with what it is dealt. Started again with other numbers of tasks, after a death each time: sources that are plugins and sources that are files go on where they were,
//! sinks that are plugins and sinks that are files have every row once.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tidegate_tests::{command, plugin};

const TICKS: u64 = 30_000;
const FILES: u64 = 7;
const LINES: u64 = 2_000;
const DIFFERENT: u64 = FILES * LINES / 2;

/// Ticks of a plugin, and lines of files, each through state to a sink of the other kind and of its own.
fn write_pipeline(folder: &Path) -> PathBuf {
    let (ticker, jsonl) = (plugin("ticker"), plugin("jsonl"));
    let text = format!(
        r#"
name = "rescaled"
[plugins.ticker]
path = {ticker:?}
[plugins.jsonl]
path = {jsonl:?}
allow = {{ dirs = ["lines=/out:rw"] }}
[datasets.ticks]
connector = "plugin"
plugin = "ticker"
config = {{ rows = {TICKS}, splits = 5, intervalMs = 10 }}
[datasets.readings]
connector = "files"
path = "readings/*.csv"
schema = [{{ name = "at", type = "int64" }}, {{ name = "sensor", type = "int64" }}, {{ name = "value", type = "int64" }}]
[datasets.sums]
sink = "plugin"
plugin = "jsonl"
config = {{ dir = "/out" }}
require = "exactly-once"
[datasets.seen]
sink = "files"
path = "seen"
format = "json"
require = "exactly-once"
[datasets.ticked]
sink = "files"
path = "ticked"
format = "json"
[[stages]]
id = "sums"
inputs = ["ticks"]
output = "sums"
steps = [
  {{ op = "applyExpression", column = "bucket", expression = "value % 11" }},
  {{ op = "windowedAggregate", timeColumn = "ts", window = "5s", groupBy = ["bucket"], aggs = [
    {{ op = "count", alias = "ticks" }}, {{ op = "sum", column = "value", alias = "total" }} ] }},
]
[[stages]]
id = "seen"
inputs = ["readings"]
output = "seen"
steps = [{{ op = "deduplicate", keys = ["sensor", "value"], keep = "first" }}, {{ op = "select", columns = ["sensor", "value"] }}]
[[stages]]
id = "ticked"
inputs = ["ticks"]
output = "ticked"
steps = [{{ op = "filter", expression = "seq % 10 == 0" }}, {{ op = "select", columns = ["seq", "value"] }}]
"#
    );
    let readings = folder.join("readings");
    fs::create_dir(&readings).unwrap();
    fs::create_dir(folder.join("lines")).unwrap();
    for file in 0..FILES {
        let mut lines = "at,sensor,value\n".to_string();
        for line in 0..LINES {
            // Every pair stands in two files.
            let (number, value) = (file * LINES + line, (file * LINES + line) % DIFFERENT);
            let _ = writeln!(lines, "{number},{},{value}", value % 13);
        }
        fs::write(readings.join(format!("{file}.csv")), lines).unwrap();
    }
    let file = folder.join("p.toml");
    fs::write(&file, text).unwrap();
    file
}

/// Runs with so many tasks to the end, or until its second epoch is complete and then dies there.
fn run(folder: &Path, file: &Path, tasks: usize, dies: bool) {
    let pace = if dies { json!({ "ticks": TICKS / 40, "readings": FILES * LINES / 40 }) } else { json!({}) };
    let trial = json!({ "folder": folder, "every_ms": 100, "pace": pace, "pause": Value::Null, "settings": { "parallelism": tasks, "batchRows": 100 } });
    let mut command = Command::new(command());
    command.arg("run").arg(file).arg(format!("--trial={trial}")).arg("--takeover");
    if dies {
        command.args(["--pause-at", "after-mark:3"]);
    }
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut heard = String::new();
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap) {
        let is_there = line.contains("paused at");
        heard += &format!("{line}\n");
        if dies && is_there {
            child.kill().unwrap();
            child.wait().unwrap();
            return;
        }
    }
    let status = child.wait().unwrap();
    assert!(!dies && status.success(), "with {tasks} tasks: {status}\n{heard}");
}

/// Every output's rows, sorted.
fn rows(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut outputs = BTreeMap::new();
    for output in ["sums", "seen", "ticked"] {
        let (mut rows, mut folders) = (Vec::new(), vec![folder.join("out").join(output)]);
        while let Some(next) = folders.pop() {
            for path in fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()) {
                let hidden = path.file_name().unwrap().to_string_lossy().starts_with('.');
                if path.is_dir() && !hidden {
                    folders.push(path);
                } else if !path.is_dir() && !hidden {
                    rows.extend(fs::read_to_string(&path).unwrap().lines().map(str::to_string));
                }
            }
        }
        rows.sort();
        outputs.insert(output.to_string(), rows);
    }
    outputs
}

#[test]
fn any_number_of_tasks_goes_on_where_any_other_was() {
    let calm = tempfile::tempdir().unwrap();
    run(calm.path(), &write_pipeline(calm.path()), 2, false);
    let expected = rows(calm.path());
    assert_eq!(expected["ticked"].len() as u64, TICKS / 10);
    assert_eq!(expected["seen"].len() as u64, DIFFERENT);
    assert!(expected["sums"].len() > 500);

    let folder = tempfile::tempdir().unwrap();
    let file = write_pipeline(folder.path());
    for tasks in [1, 4, 3] {
        run(folder.path(), &file, tasks, true);
    }
    let before = rows(folder.path());
    run(folder.path(), &file, 1, false);
    let found = rows(folder.path());
    for (output, expected) in &expected {
        let so_far = before[output].len();
        assert!(so_far > 0 && so_far < expected.len(), "`{output}`: {so_far} rows at the last death");
        assert_eq!(&found[output], expected, "`{output}`");
    }
}

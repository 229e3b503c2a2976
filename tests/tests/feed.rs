//! A source whose rows replace each other, in a plugin: a change feed. It goes to outputs that keep rows by key and to one that writes every change, through
//! aggregates over what is current, and into a look-up as its table; killed in between and started again with other numbers of tasks.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tidegate_tests::{command, guest, plugin};

const SPLITS: i64 = 3;
const KEYS: i64 = 40;
const ROWS: i64 = 4_000;
const TICKS: i64 = 2_000;

fn write_pipeline(folder: &Path) -> PathBuf {
    let (feed, latest, ticker) = (guest("feed"), guest("latest"), plugin("ticker"));
    let text = format!(
        r#"
name = "feed"
[plugins.feed]
path = {feed:?}
[plugins.ticker]
path = {ticker:?}
[plugins.current]
path = {latest:?}
allow = {{ dirs = ["current=/out:rw"] }}
[plugins.sums]
path = {latest:?}
allow = {{ dirs = ["sums=/out:rw"] }}
[datasets.feed]
connector = "plugin"
plugin = "feed"
config = {{ splits = {SPLITS}, keys = {KEYS}, rows = {ROWS} }}
[datasets.ticks]
connector = "plugin"
plugin = "ticker"
config = {{ rows = {TICKS}, splits = 2, intervalMs = 10 }}
[datasets.current]
sink = "plugin"
plugin = "current"
config = {{ dir = "/out" }}
[datasets.sums]
sink = "plugin"
plugin = "sums"
config = {{ dir = "/out" }}
[datasets.changes]
sink = "files"
path = "changes"
format = "json"
changelog = true
require = "exactly-once"
[datasets.joined]
sink = "files"
path = "joined"
format = "json"
[[stages]]
id = "current"
inputs = ["feed"]
output = "current"
steps = [{{ op = "filter", expression = "id % 2 == 0" }}, {{ op = "rename", mapping = {{ value = "latest" }} }}, {{ op = "select", columns = ["id", "latest"] }}]
[[stages]]
id = "sums"
inputs = ["feed"]
output = "sums"
steps = [
  {{ op = "applyExpression", column = "bucket", expression = "value % 7" }},
  {{ op = "aggregate", groupBy = ["bucket"], aggs = [{{ op = "sum", column = "value", alias = "total" }}, {{ op = "count", alias = "rows" }}] }},
]
[[stages]]
id = "changes"
inputs = ["feed"]
output = "changes"
steps = [{{ op = "select", columns = ["id", "value", "at"] }}]
[[stages]]
id = "keyed"
inputs = ["ticks"]
output = "keyed"
steps = [{{ op = "applyExpression", column = "about", expression = "seq % {about}" }}]
[[stages]]
id = "joined"
inputs = ["keyed", "feed"]
output = "joined"
steps = [{{ op = "lookupJoin", leftKeys = "about", rightKeys = "id", kind = "inner" }}, {{ op = "select", columns = ["seq", "name"] }}]
"#,
        about = SPLITS * KEYS,
    );
    for output in ["current", "sums"] {
        fs::create_dir_all(folder.join(output)).unwrap();
    }
    let file = folder.join("p.toml");
    fs::write(&file, text).unwrap();
    file
}

/// Runs with so many tasks to the end, or until its third epoch is complete and then dies there.
fn run(folder: &Path, file: &Path, tasks: usize, dies: bool) {
    let pace = if dies { json!({ "feed": SPLITS * ROWS / 4, "ticks": TICKS / 4 }) } else { json!({}) };
    let settings = json!({ "parallelism": tasks, "batchRows": 100 });
    let trial = json!({ "folder": folder, "every_ms": 100, "pace": pace, "pause": Value::Null, "settings": settings });
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

/// What the feed says: every change but what was before an update, as id, value and time, and the value of every key at its end.
fn expected() -> (BTreeSet<String>, BTreeMap<i64, i64>) {
    let (mut changes, mut last) = (BTreeSet::new(), BTreeMap::new());
    for split in 0..SPLITS {
        for row in 0..ROWS {
            let (round, id) = (row / KEYS % 4, split * KEYS + row % KEYS);
            let deleted = round == 3 && (row % KEYS) % 3 == 0;
            if round == 1 {
                continue;
            }
            let (op, value) = if deleted { ("delete", Value::Null) } else { ("upsert", json!(row)) };
            changes.insert(json!([id, value, row * 1000, op]).to_string());
            if deleted {
                last.remove(&id)
            } else {
                last.insert(id, row)
            };
        }
    }
    (changes, last)
}

/// The lines of all files below a folder that a reader may see.
fn lines(folder: &Path) -> Vec<String> {
    let (mut lines, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = folders.pop() {
        for path in fs::read_dir(&next).unwrap().map(|entry| entry.unwrap().path()) {
            match path.file_name().unwrap().to_string_lossy().starts_with('.') {
                true => {}
                false if path.is_dir() => folders.push(path),
                false => lines.extend(fs::read_to_string(&path).unwrap().lines().map(str::to_string)),
            }
        }
    }
    lines.sort();
    lines
}

fn json_lines(folder: &Path) -> Vec<Value> {
    lines(folder).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn check(folder: &Path) {
    let out = folder.join("out");
    let (changes, last) = expected();
    let found = json_lines(&out.join("changes"));
    let millis = |row: &Value| match &row["at"] {
        Value::String(text) => text.parse::<chrono::NaiveDateTime>().unwrap().and_utc().timestamp_millis(),
        other => panic!("`{other}` is no time"),
    };
    let found: Vec<String> = found.iter().map(|row| json!([row["id"], row["value"], millis(row), row["op"]]).to_string()).collect();
    assert_eq!(found.len(), changes.len(), "every change is written once");
    assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), changes);

    let even = last.iter().filter(|(id, _)| *id % 2 == 0);
    let mut current: Vec<String> = even.map(|(id, value)| format!("id={id} latest={value}")).collect();
    current.sort();
    assert_eq!(lines(&out.join("current")), current);

    let mut buckets: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for value in last.values() {
        let (total, rows) = buckets.entry(value % 7).or_default();
        *total += value;
        *rows += 1;
    }
    let mut sums: Vec<String> =
        buckets.iter().map(|(bucket, (total, rows))| format!("bucket={bucket} total={total} rows={rows}")).collect();
    sums.sort();
    assert_eq!(lines(&out.join("sums")), sums);

    let joined: BTreeSet<(i64, String)> = json_lines(&out.join("joined"))
        .iter()
        .map(|row| (row["seq"].as_i64().unwrap(), row["name"].as_str().unwrap().to_string()))
        .collect();
    let known = (0..TICKS).filter_map(|seq| {
        let about = seq % (SPLITS * KEYS);
        last.contains_key(&about).then(|| (seq, format!("n{about}")))
    });
    assert_eq!(joined, known.collect());
}

#[test]
fn every_change_arrives_once_and_what_is_current_is_right_whatever_dies() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_pipeline(folder.path());
    for tasks in [2, 1, 3] {
        run(folder.path(), &file, tasks, true);
    }
    assert!(!lines(&folder.path().join("out/changes")).is_empty(), "the first lives came to something");
    run(folder.path(), &file, 2, false);
    check(folder.path());
}

#[test]
fn the_plan_says_how_its_rows_replace_each_other_and_what_cannot_take_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = write_pipeline(folder.path());
    let answer = Command::new(command()).arg("plan").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&answer.stdout).into_owned() + &String::from_utf8_lossy(&answer.stderr);
    assert!(answer.status.success(), "{said}");
    assert!(said.contains("rows: upsert by id") && said.contains("reads 4 of 4 columns: id, name, value, at"), "{said}");
    // A plugin between may compute, and leave rows out by their key, but not by what a later version changes.
    let original = fs::read_to_string(&file).unwrap();
    let through = |renamed: &str, kind: &str| {
        let step = format!(
            r#"{{ op = "rename", mapping = {{ {renamed} }} }}, {{ op = "wasm", plugin = "bids", config = {{ kind = "{kind}" }} }}"#
        );
        let text = original.replace(r#"{ op = "select", columns = ["id", "value", "at"] }"#, &step);
        fs::write(&file, format!("{text}\n[plugins.bids]\npath = {:?}\n", guest("bids"))).unwrap();
        let answer = Command::new(command()).arg("validate").arg(&file).output().unwrap();
        (answer.status.success(), String::from_utf8_lossy(&answer.stderr).into_owned())
    };
    for (renamed, kind) in [("value = \"price\"", "add"), ("id = \"auction\"", "filter")] {
        let (accepted, said) = through(renamed, kind);
        assert!(accepted, "{said}");
    }
    let (accepted, said) = through("value = \"auction\"", "filter");
    assert!(!accepted && said.contains("leaves rows out by `auction` too"), "{said}");
    // A window would count a row again whenever it changes.
    let window =
        r#"{ op = "windowedAggregate", timeColumn = "at", window = "5s", groupBy = ["id"], aggs = [{ op = "count", alias = "n" }] }"#;
    let text = original.replace(r#"{ op = "select", columns = ["id", "value", "at"] }"#, window);
    fs::write(&file, text).unwrap();
    let answer = Command::new(command()).arg("validate").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&answer.stderr);
    assert!(!answer.status.success() && said.contains("replace earlier ones of equal `id`"), "{said}");
}

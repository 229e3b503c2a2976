//! Real flights through real windows: every cut into batches and tasks gives the batch answer.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::Value;
use std::path::Path;
use std::process::Command;
use tidegate_tests::flights::{hourly_by_origin, unzipped};
use tidegate_tests::{command, root, shared};

/// One window's answer, as text, so that missing sums compare as themselves.
type Rows = Vec<String>;

fn pipeline(data: &Path, tasks: usize, batch_rows: usize, out_of_orderness: &str) -> String {
    format!(
        r#"
name = "flights-test"
[settings]
parallelism = {tasks}
batchRows = {batch_rows}
[datasets.flights]
connector = "files"
path = {data:?}
format = "csv"
nullValues = ["NA"]
schema = [
  {{ name = "dep_time", type = "int64" }}, {{ name = "dep_delay", type = "int64" }}, {{ name = "origin", type = "string" }},
  {{ name = "distance", type = "int64" }}, {{ name = "time_hour", type = "timestamp_ms" }},
]
time = {{ column = "time_hour", outOfOrderness = "{out_of_orderness}" }}
[datasets.hourly]
sink = "files"
path = "out"
format = "json"
timestamps = "epochMs"
[[stages]]
inputs = ["flights"]
output = "hourly"
steps = [
  {{ op = "windowedAggregate", timeColumn = "time_hour", window = "1h", groupBy = ["origin"], aggs = [
    {{ op = "count", alias = "flights" }}, {{ op = "count", column = "dep_time", alias = "departed" }},
    {{ op = "sum", column = "dep_delay", alias = "delay_sum" }}, {{ op = "max", column = "dep_delay", alias = "delay_max" }},
    {{ op = "sum", column = "distance", alias = "miles" }},
  ] }},
  {{ op = "applyExpression", column = "cancelled", expression = "flights - departed" }},
  {{ op = "select", columns = ["origin", "windowStart", "flights", "cancelled", "delay_sum", "delay_max", "miles"] }},
]
"#
    )
}

/// Runs a pipeline text in a folder of its own; its output rows, sorted, and what it said.
fn run(text: &str) -> (Rows, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pipeline.toml");
    std::fs::write(&file, text).unwrap();
    let output = Command::new(command()).arg("run").arg(&file).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let mut rows = Rows::new();
    for part in std::fs::read_dir(folder.path().join("out")).unwrap().map(|entry| entry.unwrap().path()) {
        if part.extension().is_some_and(|ending| ending == "json") {
            rows.extend(std::fs::read_to_string(part).unwrap().lines().map(row_of_json));
        }
    }
    rows.sort();
    (rows, said)
}

const COLUMNS: [&str; 7] = ["origin", "windowStart", "flights", "cancelled", "delay_sum", "delay_max", "miles"];

fn row_of_json(line: &str) -> String {
    let row: Value = serde_json::from_str(line).unwrap();
    let cell = |name: &str| match &row[name] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    COLUMNS.map(cell).join(",")
}

/// The answer by recomputing from the whole file.
fn oracle(data: &Path) -> Rows {
    hourly_by_origin(&unzipped(data))
}

fn compare_all_cuts(data: &Path, expected: &Rows, batches: &[usize]) {
    assert!(!expected.is_empty());
    for tasks in [1, 2, 4] {
        for batch_rows in batches {
            let (rows, said) = run(&pipeline(data, tasks, *batch_rows, "24h"));
            assert_eq!(rows.len(), expected.len(), "{tasks} tasks, batches of {batch_rows}: {said}");
            assert!(rows == *expected, "{tasks} tasks, batches of {batch_rows}: the rows differ");
            assert!(!said.contains("lateRows"), "{said}");
        }
    }
}

#[test]
fn hourly_windows_of_the_first_week_equal_the_oracle_for_every_cut() {
    let data = root().join("examples/flights/data/flights-week1.csv.gz");
    compare_all_cuts(&data, &oracle(&data), &[1, 7, 1000, 8192]);
}

#[test]
fn hourly_windows_of_the_whole_year_equal_the_independent_answer() {
    let Some(shared) = shared() else {
        // Users have no such folder; the first week above is theirs.
        eprintln!("the whole year is not on this machine; the first week is compared above");
        return;
    };
    let folder = shared.join("data/nycflights13");
    let text = unzipped(&folder.join("expected/hourly_by_origin.csv.gz"));
    let mut expected: Rows = text.lines().skip(1).map(str::to_string).collect();
    expected.sort();
    let data = folder.join("flights.csv.gz");
    assert!(oracle(&data) == expected, "the oracle of these tests agrees with the independent database");
    compare_all_cuts(&data, &expected, &[1, 7, 1000, 8192]);
}

#[test]
fn without_disorder_allowed_late_rows_are_counted_and_nothing_is_lost() {
    let data = root().join("examples/flights/data/flights-week1.csv.gz");
    let (rows, said) = run(&pipeline(&data, 2, 1000, "0s"));
    let absorbed: u64 = rows.iter().map(|row| row.split(',').nth(2).unwrap().parse::<u64>().unwrap()).sum();
    let late = said.lines().find_map(|line| line.strip_prefix("lateRows: ")).map_or(0, |count| count.parse::<u64>().unwrap());
    let all = unzipped(&data).lines().count() as u64 - 1;
    assert!(late > 0, "the file is not in order of event time, so some rows are late: {said}");
    assert_eq!(absorbed + late, all, "{said}");
}

//! What a person tries in the first ten minutes: looking at an input, and running a part of it.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tidegate_tests::command;

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).current_dir(folder).env("SECRET_PATH", "hidden-path").output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn rows(output: &Output) -> Vec<Value> {
    String::from_utf8_lossy(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn folder_with(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("p.toml"), text).unwrap();
    folder
}

/// A file that nobody has finished: no stages, and a mistake in a dataset that is not looked at.
const UNFINISHED: &str = r#"
[datasets.orders]
connector = "files"
path = "orders.csv"
[datasets.other]
connector = "nexmrk"
"#;

#[test]
fn an_input_is_looked_at_before_the_file_is_finished() {
    let folder = folder_with(UNFINISHED);
    std::fs::write(folder.path().join("orders.csv"), "id,at,price\n1,2024-01-01T00:00:00Z,2.5\n2,2024-01-01T00:00:01Z,3\n").unwrap();
    let output = tidegate(folder.path(), &["peek", "p.toml", "orders"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(rows(&output).len(), 2);
    assert_eq!(rows(&output)[1]["price"], 3.0);
    let said = said(&output);
    assert!(said.contains("2 rows of 1 splits, 0 bad"), "{said}");
    // What is shown can be pasted.
    let begin = said.find("schema = [").unwrap();
    let end = said.find("\n]").unwrap() + 2;
    let pasted = UNFINISHED.replace("path = \"orders.csv\"\n", &format!("path = \"orders.csv\"\n{}\n", &said[begin..end]));
    std::fs::write(folder.path().join("p.toml"), pasted).unwrap();
    let again = tidegate(folder.path(), &["peek", "p.toml", "orders", "--rows", "1"]);
    assert_eq!(rows(&again), rows(&output)[..1]);
    assert!(!folder.path().join(".tidegate").exists(), "nothing is left behind");
}

#[test]
fn what_cannot_be_read_is_shown_with_its_place() {
    let text = UNFINISHED.replace("path = \"orders.csv\"", "path = \"orders.csv\"\nschema = [{ name = \"id\", type = \"int64\" }]");
    let folder = folder_with(&text);
    std::fs::write(folder.path().join("orders.csv"), "id\n1\nx\n3\n").unwrap();
    let output = tidegate(folder.path(), &["peek", "p.toml", "orders"]);
    assert_eq!(rows(&output), [json!({ "id": 1 }), json!({ "id": 3 })]);
    let said = said(&output);
    assert!(
        said.contains("bad row (type_mismatch, column `id`) at orders.csv:row 1") && said.contains("2 rows of 1 splits, 1 bad"),
        "{said}"
    );
}

#[test]
fn a_look_at_the_wrong_thing_says_what_there_is() {
    let folder = folder_with(UNFINISHED);
    for (arguments, why) in [
        (&["peek", "p.toml"][..], "this file reads `orders`, `other`; say which to look at"),
        (&["peek", "p.toml", "ordres"], "there is no dataset `ordres`, did you mean `orders`?"),
        (&["peek", "p.toml", "other"], "p.toml:6: datasets.other.connector: unknown connector `nexmrk`, did you mean `nexmark`?"),
    ] {
        let output = tidegate(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(78), "{}", said(&output));
        assert!(said(&output).contains(why), "{}", said(&output));
    }
    let missing = tidegate(folder.path(), &["peek", "p.toml", "orders"]);
    assert_eq!(missing.status.code(), Some(69), "{}", said(&missing));
    let folder = folder_with(COUNTS);
    let written = tidegate(folder.path(), &["peek", "p.toml", "counts"]);
    assert!(said(&written).contains("stages write `counts`; `run --limit` shows what they make"), "{}", said(&written));
    let folder = folder_with(&UNFINISHED.replace("orders.csv", "${SECRET_PATH}"));
    let masked = tidegate(folder.path(), &["peek", "p.toml", "orders"]);
    assert!(said(&masked).contains("***") && !said(&masked).contains("hidden-path"), "{}", said(&masked));
}

#[test]
fn a_secret_that_the_file_shows_is_refused_before_anybody_is_asked() {
    let text = "[datasets.orders]\nconnector = \"kafka\"\nbrokers = \"127.0.0.1:1\"\ntopic = \"orders\"\nproperties = { \"sasl.password\" = \"hidden-one\" }\n";
    let output = tidegate(folder_with(text).path(), &["peek", "p.toml"]);
    assert_eq!(output.status.code(), Some(78), "{}", said(&output));
    assert!(said(&output).contains("p.toml:5: datasets.orders.properties.sasl.password: "), "{}", said(&output));
    assert!(!said(&output).contains("hidden-one"), "{}", said(&output));
}

#[test]
fn an_endless_input_is_looked_at_for_a_while() {
    let folder = folder_with("[datasets.events]\nconnector = \"nexmark\"\n");
    let output = tidegate(folder.path(), &["peek", "p.toml", "--rows", "3"]);
    assert_eq!((output.status.code(), rows(&output).len()), (Some(0), 3), "{}", said(&output));
}

/// An endless input, a window, and outputs that must not be touched.
const COUNTS: &str = r#"
name = "counts"
[settings]
stateDir = "state"
atEnd = "suspend"
[datasets.events]
connector = "nexmark"
[datasets.counts]
sink = "files"
path = "out"
format = "parquet"
require = "exactly-once"
[[stages]]
inputs = ["events"]
output = "counts"
steps = [
  { op = "filter", expression = 'type == "bid"' },
  { op = "windowedAggregate", timeColumn = "dateTime", windowMs = 1000, aggs = [{ op = "count", alias = "bids" }] },
]
"#;

#[test]
fn a_limit_shows_what_comes_of_the_first_rows_and_keeps_nothing() {
    let folder = folder_with(COUNTS);
    for _ in 0..2 {
        let output = tidegate(folder.path(), &["run", "p.toml", "--limit", "1000"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let bids: i64 = rows(&output).iter().map(|row| row["bids"].as_i64().unwrap()).sum();
        assert_eq!(bids, 920, "46 of 50 events are bids: {}", said(&output));
        assert!(said(&output).contains("1000 rows in"), "{}", said(&output));
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["p.toml"], "neither state nor outputs");
    let both = tidegate(folder.path(), &["run", "p.toml", "--limit", "5", "--fresh"]);
    assert_eq!(both.status.code(), Some(64), "{}", said(&both));
}

#[test]
fn lines_of_several_outputs_say_whose_they_are() {
    let more = r#"
[datasets.last]
sink = "blackhole"
[[stages]]
inputs = ["events"]
output = "last"
steps = [{ op = "filter", expression = 'type == "auction"' }, { op = "aggregate", groupBy = ["category"], aggs = [{ op = "count", alias = "n" }] }]
"#;
    let folder = folder_with(&format!("{COUNTS}{more}"));
    let output = tidegate(folder.path(), &["run", "p.toml", "--limit", "500"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = rows(&output);
    let of = |name: &str| rows.iter().filter_map(|row| row.get(name)).cloned().collect::<Vec<_>>();
    assert_eq!(of("counts").len() + of("last").len(), rows.len());
    assert_eq!(of("counts").iter().map(|row| row["bids"].as_i64().unwrap()).sum::<i64>(), 460);
    assert!(of("last").iter().all(|row| row["op"] == "upsert") && !of("last").is_empty(), "rows that replace each other say so: {rows:?}");
}

#[test]
fn a_pipeline_comes_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let text = COUNTS.replace("connector = \"nexmark\"", "connector = \"nexmark\"\nevents = 1000").replace("atEnd = \"suspend\"\n", "");
    let feed = |arguments: &[&str], text: &str| {
        let mut child = Command::new(command());
        child.args(arguments).current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let wrong = feed(&["validate", "-"], &text.replace("windowMs", "windwoMs"));
    assert!(said(&wrong).contains("-:18: stages.0.steps.1.windwoMs: unknown key"), "{}", said(&wrong));
    let output = feed(&["run", "-"], &text);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(folder.path().join("state").is_dir() && folder.path().join("out").is_dir(), "paths are relative to the working directory");
    let endless = Command::new(command()).args(["validate", "/dev/zero"]).output().unwrap();
    assert!(said(&endless).contains("it has more than 16777216 bytes"), "{}", said(&endless));
}

#[test]
fn lines_are_piped_through_a_pipeline() {
    let text = r#"
[datasets.lines]
connector = "stdin"
schema = [{ name = "word", type = "string" }]
[datasets.out]
sink = "stdout"
[[stages]]
inputs = ["lines"]
output = "out"
steps = [{ op = "aggregate", groupBy = ["word"], aggs = [{ op = "count", alias = "n" }], final = true }]
"#;
    let folder = folder_with(text);
    let feed = |arguments: &[&str], lines: &str| {
        let mut child = Command::new(command());
        child.args(arguments).current_dir(folder.path()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        // It may refuse to run before it reads.
        let _ = child.stdin.take().unwrap().write_all(lines.as_bytes());
        child.wait_with_output().unwrap()
    };
    let output = feed(&["run", "p.toml"], "{\"word\":\"a\"}\n{\"word\":\"b\"}\n{\"word\":\"a\"}\n");
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let mut counted = rows(&output);
    counted.sort_by_key(|row| row["word"].to_string());
    assert_eq!(counted, [json!({ "word": "a", "n": 2 }), json!({ "word": "b", "n": 1 })]);
    let plan = tidegate(folder.path(), &["plan", "p.toml"]);
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(plan.contains("out: append, at-most-once"), "{plan}");
    let twice = feed(&["run", "-"], text);
    assert!(said(&twice).contains("standard input cannot be read: the pipeline itself came from there"), "{}", said(&twice));
    let peeked = feed(&["peek", "p.toml"], "{\"word\":\"a\"}\n");
    assert_eq!(rows(&peeked), [json!({ "word": "a" })], "{}", said(&peeked));
}

#[test]
fn a_pipeline_is_begun_from_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("data")).unwrap();
    std::fs::write(folder.path().join("data/orders.jsonl"), "{\"id\": 1, \"price\": 2.5}\n{\"id\": 2, \"price\": 3.5}\n").unwrap();
    let output = tidegate(folder.path(), &["new", "--from", "data/orders.jsonl"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("wrote orders.toml; next: tidegate run orders.toml --limit 10"), "{}", said(&output));
    let run = tidegate(folder.path(), &["run", "orders.toml"]);
    assert_eq!(rows(&run), [json!({ "id": 1, "price": 2.5 }), json!({ "id": 2, "price": 3.5 })], "{}", said(&run));
    let again = tidegate(folder.path(), &["new", "--from", "data/orders.jsonl"]);
    assert_eq!(again.status.code(), Some(78));
    assert!(said(&again).contains("`orders.toml` is there already"), "{}", said(&again));
    let missing = tidegate(folder.path(), &["new", "--from", "data/nothing.csv"]);
    assert!(missing.status.code() == Some(69) && said(&missing).contains("nothing.csv"), "{}", said(&missing));
    assert!(!folder.path().join("nothing.toml").exists());
    assert_eq!(tidegate(folder.path(), &["new", "--from", "http://x"]).status.code(), Some(64));
}

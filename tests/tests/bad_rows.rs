//! Bad rows from one end to the other: each costs itself only, none is lost, and the counters add up.
//!
//! Random pipelines read random CSV files in which rows are bad in every way: lines that are none, cells that do not fit, expressions
//! and casts that fail, times that are missing, sums that overflow. Every cut into batches and tasks must give the same dead letters.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use tidegate::file::{FileHost, PipelineFile};
use tidegate::{ControlPlane, host::HostConfig, run_stream};
use tidegate_tests::command;

/// A small generator of numbers; equal seeds give equal pipelines.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A file of `rows` lines; some are bad.
fn csv(random: &mut Random, rows: u64) -> String {
    let mut text = String::from("id,at,x,y,s\n");
    for id in 0..rows {
        let at = if random.one_in(9) { String::new() } else { format!("2026-01-01T00:{:02}:{:02}Z", id / 60 % 60, id % 60) };
        let x = match random.below(12) {
            0 => "oops".to_string(),
            1 => "9223372036854775807".to_string(),
            _ => random.below(100).to_string(),
        };
        let y = random.below(6);
        let s = if random.one_in(7) { "\"not, a number\"".to_string() } else { random.below(50).to_string() };
        match random.below(15) {
            0 => writeln!(text, "{id},{at}"),
            _ => writeln!(text, "{id},{at},{x},{y},{s}"),
        }
        .unwrap();
    }
    text
}

/// Some of the steps that can fail, and perhaps a window behind them.
fn steps(random: &mut Random) -> String {
    let mut steps = String::new();
    let choices = [
        "{ op = \"filter\", expression = 'div(x, y) >= 0 && x != 13' },",
        "{ op = \"applyExpression\", column = \"z\", expression = 'x + 9223372036854775000' },",
        "{ op = \"cast\", column = \"s\", type = \"int64\" },",
        "{ op = \"rename\", mapping = { at = \"when\" } },\n{ op = \"rename\", mapping = { when = \"at\" } },",
    ];
    for choice in choices {
        if random.one_in(2) {
            steps.push_str(choice);
            steps.push('\n');
        }
    }
    if random.one_in(2) {
        steps.push_str(
            "{ op = \"windowedAggregate\", timeColumn = \"at\", window = \"10s\", groupBy = [\"y\"], aggs = [\n\
             { op = \"sum\", column = \"x\", alias = \"total\" }, { op = \"count\", alias = \"odd\", filter = 'div(12, y) == 4' },\n] },\n\
             { op = \"filter\", expression = 'div(100, total - 20) != 7' },\n",
        );
    }
    steps
}

fn pipeline(steps: &str, policy: &str, tasks: u64, batch_rows: u64) -> String {
    // A sink that nothing goes to is a mistake.
    let rejected = match steps.contains("\"rejected\"") || policy.contains("\"rejected\"") {
        true => "[datasets.rejected]\nsink = \"files\"\npath = \"rejected\"\nformat = \"json\"\nrequire = \"exactly-once\"",
        false => "",
    };
    format!(
        r#"
name = "bad-rows"
[settings]
parallelism = {tasks}
batchRows = {batch_rows}
heartbeatEvery = "20ms"
checkpointEvery = "30ms"
[datasets.rows]
connector = "files"
path = "in/*.csv"
schema = [
  {{ name = "id", type = "int64" }}, {{ name = "at", type = "timestamp_ms" }}, {{ name = "x", type = "int64" }},
  {{ name = "y", type = "int64" }}, {{ name = "s", type = "string" }},
]
time = {{ column = "at", outOfOrderness = "1d" }}
{policy}
[datasets.out]
sink = "files"
path = "out"
format = "json"
{rejected}
[[stages]]
id = "stage"
inputs = ["rows"]
output = "out"
steps = [
{steps}
]
"#
    )
}

/// Runs a pipeline text in a folder; its last record.
fn run(folder: &Path, text: &str) -> Value {
    for output in ["out", "rejected"] {
        let _ = std::fs::remove_dir_all(folder.join(output));
    }
    let file = PipelineFile::parse(text, "p.toml", "p", folder.to_path_buf(), Arc::new(|_| None)).unwrap();
    let file = Arc::new(file);
    let last = Arc::new(Mutex::new(Value::Null));
    let seen = Arc::clone(&last);
    let stop = Arc::new(AtomicBool::new(false));
    let on_record = Box::new(move |record: &Value| *seen.lock().unwrap() = record.clone());
    let host = FileHost::new(Arc::clone(&file), file.host_settings(), HostConfig::default(), stop, on_record);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let host: Arc<dyn ControlPlane> = Arc::new(host);
    runtime.block_on(run_stream(host, "b".into(), file.name().to_string(), json!({})));
    let record = last.lock().unwrap().clone();
    assert_eq!(record["reason"], "ended", "{record}\n{text}");
    record
}

fn lines(folder: &Path) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let files = entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    let texts: Vec<String> = files.map(|path| std::fs::read_to_string(path).unwrap()).collect();
    texts.iter().flat_map(|text| text.lines()).map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("`{value}` is no count"))
}

fn sum(reasons: &Value) -> u64 {
    reasons.as_object().unwrap().values().map(count).sum()
}

/// Bad rows by step and reason, as the counters have it.
type Bad = BTreeMap<(String, String), u64>;

/// Holds every counter of a record to the sums it must give.
fn check_counters(record: &Value) -> Bad {
    let mut bad = Bad::new();
    let metrics = &record["metrics"];
    for node in metrics["nodes"].as_array().unwrap() {
        let of = |key: &str| count(&node[key]);
        let own = sum(&node["badRows"]);
        match node["kind"].as_str().unwrap() {
            "source" => assert_eq!(of("rowsIn"), of("rowsOut") + of("filtered") + of("lateRows") + own, "{node}"),
            "operator" => {
                let left_out = of("filtered") + of("lateRows") + own - of("badOutputRows");
                assert_eq!(of("rowsIn"), of("absorbed") + left_out, "{node}");
            }
            "sink" => assert_eq!(of("rowsIn"), of("rowsOut") + own, "{node}"),
            other => panic!("what is a {other}?"),
        }
        let mut note = |step: &str, reasons: &Value| {
            for (reason, rows) in reasons.as_object().unwrap() {
                *bad.entry((step.to_string(), reason.clone())).or_default() += count(rows);
            }
        };
        note(if node["kind"] == "operator" { "window" } else { "" }, &node["badRows"]);
        for step in node["steps"].as_array().unwrap() {
            let of = |key: &str| count(&step[key]);
            assert_eq!(of("rowsIn"), of("rowsOut") + of("filtered") + sum(&step["badRows"]), "{step}");
            note(step["step"].as_str().unwrap(), &step["badRows"]);
        }
    }
    for edge in metrics["edges"].as_array().unwrap() {
        assert_eq!(edge["sent"], edge["received"], "{edge}");
    }
    assert_eq!(count(&metrics["badRows"]), bad.values().sum::<u64>());
    bad
}

fn raw(letter: &Value) -> String {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digits = letter["raw"].as_str().unwrap().trim_end_matches('=').chars().map(|digit| DIGITS.find(digit).unwrap() as u32);
    let (mut bytes, mut word, mut bits) = (Vec::new(), 0_u32, 0);
    for digit in digits {
        word = (word << 6 | digit) & 0xffff;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push((word >> bits) as u8);
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn counters_add_up_and_every_bad_row_is_one_dead_letter_however_the_input_is_cut() {
    let mut reasons: BTreeMap<String, u64> = BTreeMap::new();
    for seed in 1..=14_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        let mut rows = 0;
        for file in 0..1 + random.below(3) {
            let count = 20 + random.below(120);
            rows += count;
            std::fs::write(folder.path().join(format!("in/{file}.csv")), csv(&mut random, count)).unwrap();
        }
        let steps = steps(&mut random);
        let mut expected: Option<Vec<String>> = None;
        for _ in 0..3 {
            let (tasks, batch_rows) = (1 + random.below(4), [1, 3, 16, 8192][random.below(4) as usize]);
            let policy = "onBadData = \"deadLetter\"\ndeadLetter = \"rejected\"";
            let record = run(folder.path(), &pipeline(&steps, policy, tasks, batch_rows));
            assert_eq!(count(&record["metrics"]["rowsIn"]), rows, "every line was read");
            let counted = check_counters(&record);

            let letters = lines(&folder.path().join("rejected"));
            let mut found = Bad::new();
            for letter in &letters {
                let text = |key: &str| letter[key].as_str().unwrap_or_default().to_string();
                let step = text("step");
                let step = if step.ends_with(":windowedAggregate") { "window".to_string() } else { step };
                *found.entry((step.clone(), text("reason"))).or_default() += 1;
                *reasons.entry(text("reason")).or_default() += 1;
                assert!(!text("message").is_empty(), "{letter}");
                assert_eq!(letter["stage"].is_null(), step.is_empty(), "{letter}");
                match step.as_str() {
                    // Behind a window nobody knows the source any more.
                    "" => assert!(
                        text("source") == "rows" && text("split").ends_with(".csv") && text("position").contains("row "),
                        "{letter}"
                    ),
                    _ => assert!(raw(letter).starts_with('{'), "{letter}"),
                }
            }
            assert_eq!(found, counted, "seed {seed}");
            let mut letters: Vec<String> = letters
                .iter()
                .map(|letter| {
                    let fields = ["reason", "stage", "step", "column", "message", "source", "split", "eventTime"];
                    let fields: Vec<String> = fields.iter().map(|key| letter[*key].to_string()).collect();
                    format!("{} {}", fields.join(" "), raw(letter))
                })
                .collect();
            letters.sort();
            assert_eq!(*expected.get_or_insert_with(|| letters.clone()), letters, "seed {seed}, {tasks} tasks, batches of {batch_rows}");
        }
        let dropped = run(folder.path(), &pipeline(&steps, "onBadData = \"drop\"", 2, 16));
        let counted = check_counters(&dropped);
        assert_eq!(counted.values().sum::<u64>(), expected.unwrap().len() as u64, "seed {seed}: what is dropped is counted alike");
        assert!(lines(&folder.path().join("rejected")).is_empty());
    }
    for reason in ["malformed", "type_mismatch", "missing_value", "expression", "cast", "overflow"] {
        assert!(reasons.contains_key(reason), "no row was bad for the reason `{reason}`: {reasons:?}");
    }
}

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A folder with one file of rows and a pipeline over it.
fn folder_with(rows: &str, text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    std::fs::write(folder.path().join("in/a.csv"), rows).unwrap();
    std::fs::write(folder.path().join("p.toml"), text).unwrap();
    folder
}

#[test]
fn under_fail_the_first_bad_row_ends_the_run_and_is_named_with_its_place_and_the_remedy() {
    let rows = "id,at,x,y,s\n1,2026-01-01T00:00:00Z,1,1,a\n2,2026-01-01T00:00:00Z,oops,1,b\n";
    let folder = folder_with(rows, &pipeline("", "", 1, 8192));
    let output = tidegate(folder.path(), &["run", "p.toml"]);
    assert_eq!(output.status.code(), Some(65), "{}", said(&output));
    for part in ["source `rows`", "in/a.csv", "row 1", "type_mismatch", "`x`", "oops", "onBadData = \"drop\"", "deadLetter"] {
        assert!(said(&output).contains(part), "{part} is missing in: {}", said(&output));
    }

    let folder = folder_with("id,at,x,y,s\n7,,1,0,a\n", &pipeline("{ op = \"filter\", expression = 'div(x, y) > 0' },", "", 1, 8192));
    let output = tidegate(folder.path(), &["run", "p.toml"]);
    assert_eq!(output.status.code(), Some(65), "{}", said(&output));
    for part in ["stage `stage`", "step `0:filter`", "source `rows`", "in/a.csv", "expression", "\"id\":7", "onBadData = \"drop\""] {
        assert!(said(&output).contains(part), "{part} is missing in: {}", said(&output));
    }
}

#[test]
fn a_dead_letter_of_a_step_carries_its_time_split_and_row() {
    let rows = "id,at,x,y,s\n7,2026-01-01T00:00:09Z,9223372036854775807,1,a\n8,2026-01-01T00:00:10Z,1,1,b\n";
    let steps = "{ op = \"rename\", mapping = { at = \"when\" } },\n{ op = \"applyExpression\", column = \"z\", expression = 'x + 1' },";
    let policy = "onBadData = \"deadLetter\"\ndeadLetter = \"rejected\"";
    let folder = folder_with(rows, &pipeline(steps, policy, 2, 8192));
    let output = tidegate(folder.path(), &["run", "p.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let letters = lines(&folder.path().join("rejected"));
    assert_eq!(letters.len(), 1);
    let letter = &letters[0];
    assert_eq!(letter["reason"], "expression");
    assert_eq!((&letter["stage"], &letter["step"], &letter["column"]), (&json!("stage"), &json!("1:applyExpression"), &json!("z")));
    assert_eq!((&letter["source"], &letter["split"]), (&json!("rows"), &json!("in/a.csv")));
    assert_eq!(letter["eventTime"], "2026-01-01T00:00:09");
    assert_eq!(raw(letter), r#"{"id":7,"when":"2026-01-01T00:00:09","x":9223372036854775807,"y":1,"s":"a"}"#);
    assert_eq!(lines(&folder.path().join("out")).len(), 1);
}

#[test]
fn rows_from_too_far_in_the_future_go_where_late_rows_go() {
    let rows = "id,at,x,y,s\n1,2026-01-01T00:00:00Z,1,1,a\n2,9026-01-01T00:00:00Z,2,1,b\n3,9026-01-01T00:00:00Z,3,0,b\n4,2026-01-01T00:00:01Z,4,1,c\n";
    let steps = "{ op = \"filter\", expression = 'y != 0' },\n\
         { op = \"windowedAggregate\", timeColumn = \"at\", window = \"10s\", groupBy = [\"y\"], aggs = [{ op = \"sum\", column = \"x\", alias = \"total\" }], lateOutput = \"rejected\" },";
    let folder = folder_with(rows, &pipeline(steps, "", 2, 8192));
    let output = tidegate(folder.path(), &["run", "p.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(said(&output).contains("futureRows: 2"), "{}", said(&output));
    let windows = lines(&folder.path().join("out"));
    assert_eq!((windows.len(), &windows[0]["total"]), (1, &json!(5)), "they are in no window");
    let late = lines(&folder.path().join("rejected"));
    assert_eq!(late.len(), 1, "through the same steps, so the filter leaves one out: {late:?}");
    assert_eq!((&late[0]["id"], &late[0]["_stage"], &late[0]["_watermark"]), (&json!(2), &json!("rows"), &Value::Null));
}

#[test]
fn rescue_and_dead_letters_are_refused_where_they_cannot_be() {
    let refused = |policy: &str, edit: &dyn Fn(String) -> String, part: &str| {
        let folder = folder_with("id,at,x,y,s\n", &edit(pipeline("", policy, 1, 8192)));
        let output = tidegate(folder.path(), &["validate", "p.toml"]);
        assert_eq!(output.status.code(), Some(78), "{}", said(&output));
        assert!(said(&output).contains(part), "{part} is missing in: {}", said(&output));
    };
    let nexmark = |text: String| {
        let start = text.find("[datasets.rows]").unwrap();
        let end = text.find("[datasets.out]").unwrap();
        format!("{}[datasets.rows]\nconnector = \"nexmark\"\nevents = 5\nonBadData = \"rescue\"\n{}", &text[..start], &text[end..])
    };
    refused("", &nexmark, "that of `rows` cannot; use `deadLetter`");
    let own = |text: String| text.replace("path = \"rejected\"", "path = \"rejected\"\nonBadData = \"drop\"");
    refused("onBadData = \"deadLetter\"\ndeadLetter = \"rejected\"", &own, "leave `onBadData` out");
    let written = |text: String| text.replace("path = \"out\"", "path = \"out\"\nonBadData = \"rescue\"");
    refused("", &written, "this dataset is written");
}

#[test]
fn a_rescued_row_is_kept_with_its_text_whether_or_not_anybody_reads_it() {
    let rows = "id,at,x,y,s\n1,2026-01-01T00:00:00Z,1,1,a\n2,2026-01-01T00:00:01Z,oops,1,b\n";
    for (steps, read) in [("", true), ("{ op = \"select\", columns = [\"id\", \"x\"] },", false)] {
        let folder = folder_with(rows, &pipeline(steps, "onBadData = \"rescue\"", 1, 8192));
        let output = tidegate(folder.path(), &["run", "p.toml"]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let mut kept = lines(&folder.path().join("out"));
        kept.sort_by_key(|row| row["id"].as_i64());
        assert_eq!(kept.iter().map(|row| &row["x"]).collect::<Vec<_>>(), [&json!(1), &Value::Null]);
        if read {
            assert_eq!(kept[0]["_rescued_data"], Value::Null);
            assert!(kept[1]["_rescued_data"].as_str().unwrap().contains("oops"), "{kept:?}");
        }
    }
}

#[test]
fn rows_of_json_are_rescued_from_one_end_to_the_other() {
    let lines_in = [
        r#"{"id":1,"at":"2026-01-01T00:00:00Z","x":1,"y":{"deep":[1,2]},"s":"a"}"#,
        r#"{"id":2,"at":"2026-01-01T00:00:01Z","x":"oops","y":{"deep":[3]},"s":"b"}"#,
        r#"{"id":3,"at":"2026-01-01T00:00:02Z","x":9223372036854775808,"y":{"deep":["no"]},"s":"c"}"#,
        r#"{"id":4,"at":"2026-01-01T00:00:03Z","x":4"#,
        "no json at all",
        r#"{"at":"2026-01-01T00:00:04Z","x":5,"y":null,"s":5,"more":"ignored"}"#,
        r#"{"id":6,"at":"2026-01-01T00:00:05Z","x":6,"y":{"deep":[4]},"s":"f"}"#,
    ];
    // Whatever reads `_rescued_data`, the rows are the same and none is lost.
    for (steps, tasks) in
        [("", 1), ("{ op = \"filter\", expression = 'x == null || x > 0' },", 2), ("{ op = \"drop\", columns = [\"_rescued_data\"] },", 1)]
    {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("in")).unwrap();
        std::fs::write(folder.path().join("in/a.json"), lines_in.join("\n")).unwrap();
        let text = pipeline(steps, "onBadData = \"rescue\"", tasks, 2)
            .replace("in/*.csv", "in/*.json")
            .replace("{ name = \"y\", type = \"int64\" }", "{ name = \"y\", type = \"struct<deep: list<int64>>\" }");
        let record = run(folder.path(), &text);
        assert!(check_counters(&record).is_empty(), "nothing is bad: {record}");
        let mut kept = lines(&folder.path().join("out"));
        kept.sort_by_key(|row| row["id"].as_i64());
        let column = |name: &str| kept.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
        // Two lines are no records, one has no `id`.
        assert_eq!(column("id"), [json!(null), json!(null), json!(null), json!(1), json!(2), json!(3), json!(6)], "{steps}");
        assert_eq!(column("x")[3..], [json!(1), Value::Null, Value::Null, json!(6)]);
        assert_eq!(
            column("y")[3..],
            [json!({ "deep": [1, 2] }), json!({ "deep": [3] }), json!({ "deep": [null] }), json!({ "deep": [4] })]
        );
        if steps.contains("drop") {
            assert!(kept.iter().all(|row| row.get("_rescued_data").is_none()));
            continue;
        }
        assert_eq!(column("_rescued_data")[3..], [Value::Null, json!(lines_in[1]), json!(lines_in[2]), Value::Null]);
        let mut without_id: Vec<(Value, Value)> = kept[..3].iter().map(|row| (row["_rescued_data"].clone(), row["x"].clone())).collect();
        without_id.sort_by_key(|(text, _)| text.to_string());
        let broken = |line: &str| (json!(line), Value::Null);
        assert_eq!(without_id, [broken(lines_in[4]), broken(lines_in[3]), (Value::Null, json!(5))]);
    }
}

#[test]
fn a_dead_letter_of_a_decoder_names_the_column_at_fault() {
    let policy = "onBadData = \"deadLetter\"\ndeadLetter = \"rejected\"";
    let by_column = |folder: &Path| {
        let mut letters: Vec<(Value, Value)> =
            lines(&folder.join("rejected")).iter().map(|letter| (letter["position"].clone(), letter["column"].clone())).collect();
        letters.sort_by_key(|(position, _)| position.to_string());
        letters.into_iter().map(|(_, column)| column).collect::<Vec<_>>()
    };
    let rows = "id,at,x,y,s\n1,2026-01-01T00:00:00Z,oops,1,a\n2,never,1,1,b\n3,2026-01-01T00:00:00Z\n";
    let folder = folder_with(rows, &pipeline("", policy, 1, 8192));
    run(folder.path(), &pipeline("", policy, 1, 8192));
    assert_eq!(by_column(folder.path()), [json!("x"), json!("at"), Value::Null]);

    let json_of = |text: String| {
        text.replace("in/*.csv", "in/*.json")
            .replace("{ name = \"y\", type = \"int64\" }", "{ name = \"y\", type = \"struct<deep: list<int64>>\" }")
    };
    let rows = "{\"id\":1,\"y\":{\"deep\":[1,\"no\"]}}\n{\"id\":true}\n{\n";
    std::fs::write(folder.path().join("in/a.json"), rows).unwrap();
    run(folder.path(), &json_of(pipeline("", policy, 1, 8192)));
    assert_eq!(by_column(folder.path()), [json!("y"), json!("id"), Value::Null]);
}

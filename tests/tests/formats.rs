//! State that an earlier version wrote, and pipeline files that changed since.
//!
//! `fixtures/state-v1` is a pipeline killed between the manifest of its last epoch and the commit of its outputs: open windows, sessions, join
//! sides, seen keys, totals and ranks, and hidden parts with the tokens that commit them. It is restored by these tests for ever. A change of
//! a format gets a new folder beside it, made by `cargo test -p tidegate-tests --test formats -- --ignored write_the_fixture`.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tidegate_tests::{command, copy_tree, killed_at};

const OUTPUTS: [&str; 6] = ["totals", "paid", "customers", "visits", "spent", "largest"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures")
}

/// A copy of the fixture in which the pipeline file is changed by `edit`.
fn restored(edit: impl Fn(&str) -> String) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    copy_tree(&fixtures().join("state-v1"), folder.path());
    let file = folder.path().join("shop.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, edit(&text)).unwrap();
    folder
}

/// Drains at the end, so that everything comes out.
fn drains(text: &str) -> String {
    text.replace("atEnd = \"suspend\"", "atEnd = \"drain\"")
}

/// The input that the fixture has not read.
fn more_input(folder: &Path) {
    copy_tree(&fixtures().join("more"), folder);
}

/// Runs the file. The holder of the state ended long ago, on another machine.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let arguments = [&["run", "shop.toml", "--takeover"], arguments].concat();
    Command::new(command()).args(arguments).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn ran(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    said(&output)
}

/// The rows of every output that a reader sees, sorted.
fn rows(folder: &Path) -> BTreeMap<&'static str, Vec<String>> {
    let of = |output: &str| {
        let mut rows = Vec::new();
        for entry in std::fs::read_dir(folder.join("out").join(output)).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_file() && !path.file_name().unwrap().to_string_lossy().starts_with('.') {
                rows.extend(std::fs::read_to_string(path).unwrap().lines().map(str::to_string));
            }
        }
        rows.sort();
        rows
    };
    OUTPUTS.map(|output| (output, of(output))).into()
}

/// What a run gives that reads all of the input at once and keeps nothing in between.
fn from_scratch(edit: impl Fn(&str) -> String) -> BTreeMap<&'static str, Vec<String>> {
    let folder = restored(edit);
    for left in ["state", "out"] {
        std::fs::remove_dir_all(folder.path().join(left)).unwrap();
    }
    more_input(folder.path());
    ran(folder.path(), &[]);
    rows(folder.path())
}

#[test]
fn the_state_of_format_1_is_restored_with_everything_in_it() {
    let folder = restored(drains);
    assert!(rows(folder.path())["totals"].is_empty(), "what was pending is not visible yet");
    more_input(folder.path());
    ran(folder.path(), &[]);
    let (found, expected) = (rows(folder.path()), from_scratch(drains));
    for output in OUTPUTS {
        assert!(expected[output].len() >= 5, "`{output}` has {} rows", expected[output].len());
        assert_eq!(found[output], expected[output], "`{output}`");
    }
    // By another way altogether: every customer's orders, counted from the input.
    let mut orders: BTreeMap<String, u64> = BTreeMap::new();
    for file in ["orders/1.csv", "orders/2.csv"] {
        for line in std::fs::read_to_string(folder.path().join(file)).unwrap().lines().skip(1) {
            *orders.entry(line.split(',').nth(1).unwrap().to_string()).or_default() += 1;
        }
    }
    for output in ["totals", "visits"] {
        let mut counted: BTreeMap<String, u64> = BTreeMap::new();
        for row in &found[output] {
            let row: serde_json::Value = serde_json::from_str(row).unwrap();
            *counted.entry(row["customer"].as_str().unwrap().to_string()).or_default() += row["orders"].as_u64().unwrap();
        }
        assert_eq!(counted, orders, "`{output}`");
    }
    assert!(ran(folder.path(), &[]).contains("already complete"));
}

#[test]
fn the_fixture_holds_what_it_is_there_for() {
    let folder = restored(str::to_string);
    let output =
        Command::new(command()).args(["inspect", "state", "--verify", "--format", "json"]).current_dir(folder.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let lines: Vec<serde_json::Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for stage in OUTPUTS {
        let line = lines.iter().find(|line| line["stage"] == stage).unwrap_or_else(|| panic!("`{stage}` has no state"));
        assert!(line["stateBytes"].as_u64().unwrap() > 0 && line["format"] == 1, "{line}");
        let keys: Vec<&str> = line["sampleKeys"].as_array().unwrap().iter().map(|key| key.as_str().unwrap()).collect();
        let column = if stage == "paid" { ["id=", "order="] } else { ["customer=", "customer="] };
        assert!(!keys.is_empty() && keys.iter().all(|key| column.iter().any(|column| key.starts_with(column))), "{stage}: {keys:?}");
    }
    assert!(lines.iter().any(|line| line["pending"] == "totals"), "{lines:#?}");
    assert!(lines.iter().any(|line| line["split"] == "orders/1.csv" && line["status"] == "finished"), "{lines:#?}");
}

/// Changes after which every state fits, whatever else is different.
#[test]
fn edits_that_leave_the_meaning_of_state_alone_keep_all_of_it() {
    type Edit = fn(&str) -> String;
    let edits: [(&str, Edit); 6] = [
        ("more tasks", |text| text.replace("parallelism = 2", "parallelism = 3")),
        ("one task", |text| text.replace("parallelism = 2", "parallelism = 1")),
        ("epochs more often", |text| text.replace("checkpointEvery = \"1h\"", "checkpointEvery = \"200ms\"")),
        ("the stages in another order", |text| {
            let (head, stages) = text.split_once("[[stages]]").unwrap();
            let stages: Vec<&str> = stages.split("[[stages]]").collect();
            stages.into_iter().rev().fold(head.to_string(), |text, stage| format!("{text}[[stages]]{stage}\n"))
        }),
        ("a stage more", |text| {
            format!(
                "{text}\n[datasets.copy]\nsink = \"blackhole\"\n[[stages]]\nid = \"copy\"\ninputs = [\"orders\"]\noutput = \"copy\"\nsteps = [{{ op = \"windowedAggregate\", timeColumn = \"at\", window = \"1m\", aggs = [{{ op = \"count\", alias = \"n\" }}] }}]\n"
            )
        }),
        ("a step behind the state", |text| {
            text.replace(
                "{ op = \"select\", columns = [\"customer\"] }",
                "{ op = \"select\", columns = [\"customer\"] }, { op = \"filter\", expression = 'customer != \"nobody\"' }",
            )
        }),
    ];
    let expected = from_scratch(drains);
    for (what, edit) in edits {
        let folder = restored(|text| edit(&drains(text)));
        more_input(folder.path());
        ran(folder.path(), &[]);
        assert_eq!(rows(folder.path()), expected, "{what}");
    }
}

/// Changes that a state cannot follow: each with the stage it hits and a part of the reason.
const REFUSED: [(&str, &str, &str, &str); 7] = [
    ("window = \"30s\"", "window = \"40s\"", "totals", "`windowMs` was `30000` and is `40000`"),
    (
        "{ op = \"avg\", column = \"amount\", alias = \"mean\" }",
        "{ op = \"min\", column = \"amount\", alias = \"mean\" }",
        "totals",
        "`aggs` was",
    ),
    ("upper = \"20s\"", "upper = \"25s\"", "paid", "`upperMs` was `20000` and is `25000`"),
    ("keys = [\"customer\"], keep", "keys = [\"amount\"], keep", "customers", "`keys` was"),
    ("gap = \"15s\"", "gap = \"16s\"", "visits", "`gapMs` was `15000` and is `16000`"),
    ("n = 2, groupBy", "n = 3, groupBy", "largest", "`n` was `2` and is `3`"),
    ("id = \"spent\"", "id = \"spendings\"", "spent", "no such stage any more"),
];

#[test]
fn an_edit_that_state_cannot_follow_is_refused_with_stage_and_reason_and_writes_nothing() {
    for (old, new, stage, reason) in REFUSED {
        let folder = restored(|text| {
            assert!(text.contains(old), "{old}");
            drains(text).replace(old, new)
        });
        let before = tree(&folder.path().join("state"));
        let output = run(folder.path(), &[]);
        let text = said(&output);
        assert_eq!(output.status.code(), Some(78), "{text}");
        for part in [format!("the state of stage `{stage}` does not fit"), reason.to_string(), format!("--drop-state {stage}")] {
            assert!(text.contains(&part), "{part} is missing in {text}");
        }
        assert_eq!(tree(&folder.path().join("state")), before, "{new}");
        assert!(rows(folder.path()).values().all(Vec::is_empty), "{new}");
    }
}

#[test]
fn several_edits_are_refused_in_one_message() {
    let folder = restored(|text| drains(text).replace("gap = \"15s\"", "gap = \"16s\"").replace("upper = \"20s\"", "upper = \"25s\""));
    let text = said(&run(folder.path(), &[]));
    assert!(text.contains("stage `visits`") && text.contains("stage `paid`"), "{text}");
}

#[test]
fn dropping_the_state_of_one_stage_keeps_that_of_the_others() {
    let edit = |text: &str| drains(text).replace("gap = \"15s\"", "gap = \"16s\"");
    let folder = restored(edit);
    more_input(folder.path());
    let slip = run(folder.path(), &["--drop-state", "visit"]);
    assert!(said(&slip).contains("no stage `visit` has state to drop, did you mean `visits`?"), "{}", said(&slip));
    ran(folder.path(), &["--drop-state", "visits"]);
    let (found, expected) = (rows(folder.path()), from_scratch(edit));
    for output in OUTPUTS.into_iter().filter(|output| *output != "visits") {
        assert_eq!(found[output], expected[output], "`{output}`");
    }
    assert!(found["visits"].len() < expected["visits"].len() && !found["visits"].is_empty(), "sessions begin anew");
}

#[test]
fn a_source_that_was_being_read_cannot_go() {
    let folder = restored(|text| {
        drains(text)
            .replace("[\"orders\", \"payments\"]", "[\"orders\", \"receipts\"]")
            .replace("[datasets.payments]", "[datasets.receipts]")
    });
    let text = said(&run(folder.path(), &[]));
    assert!(text.contains("payments` was being read and is not in this pipeline any more"), "{text}");
}

/// Every file below a folder with its bytes.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

/// Writes the state and the outputs of the fixture, beside its pipeline file and its input.
#[test]
#[ignore = "writes the fixture of the current version; for a new version of a format only"]
fn write_the_fixture() {
    let folder = restored(str::to_string);
    for left in ["state", "out"] {
        let _ = std::fs::remove_dir_all(folder.path().join(left));
    }
    killed_at(&folder.path().join("shop.toml"), "after-manifest:1", &[]);
    for made in ["state", "out"] {
        let place = fixtures().join("state-v1").join(made);
        let _ = std::fs::remove_dir_all(&place);
        copy_tree(&folder.path().join(made), &place);
    }
}

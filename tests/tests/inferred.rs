//! A schema that nobody declared is inferred when a run begins, said, and kept: by every later start, whatever its sample says.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};
use tidegate_tests::command;

const PIPELINE: &str = r#"
name = "kept"
[settings]
parallelism = 1
atEnd = "suspend"
[datasets.rows]
connector = "files"
path = "in"
[datasets.out]
sink = "files"
path = "out"
[[stages]]
id = "stage"
inputs = ["rows"]
output = "out"
steps = []
"#;

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).current_dir(folder).output().unwrap()
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    std::fs::write(folder.path().join("in/b.csv"), "id,x\n1,2\n").unwrap();
    std::fs::write(folder.path().join("p.toml"), PIPELINE).unwrap();
    folder
}

fn rows(folder: &Path) -> Vec<Value> {
    let files = std::fs::read_dir(folder.join("out")).unwrap().map(|entry| entry.unwrap().path());
    let texts =
        files.filter(|path| path.extension().is_some_and(|ending| ending == "json")).map(|path| std::fs::read_to_string(path).unwrap());
    let mut rows: Vec<Value> =
        texts.flat_map(|text| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>()).collect();
    rows.sort_by_key(|row: &Value| row["id"].as_i64());
    rows
}

#[test]
fn a_later_start_goes_on_with_the_schema_that_the_first_has_inferred() {
    let folder = folder();
    let folder = folder.path();
    let first = tidegate(folder, &["run", "p.toml"]);
    assert_eq!(first.status.code(), Some(0), "{}", said(&first));
    let schema = r#"schema = [{ name = "id", type = "int64" }, { name = "x", type = "int64" }]"#;
    assert!(said(&first).contains(&format!("dataset `rows`: inferred {schema}")), "{}", said(&first));

    // It comes first in the order of names, so the sample is taken from it now.
    std::fs::write(folder.join("in/a.csv"), "id,x,y\n3,4.0,late\n").unwrap();
    let plan = tidegate(folder, &["plan", "p.toml"]);
    assert!(said(&plan).contains(&format!("as inferred when the run began: {schema}")), "{}", said(&plan));
    let second = tidegate(folder, &["run", "p.toml"]);
    assert_eq!(second.status.code(), Some(0), "{}", said(&second));
    assert!(!said(&second).contains("inferred"), "it is said once: {}", said(&second));
    assert_eq!(rows(folder), [json!({ "id": 1, "x": 2 }), json!({ "id": 3, "x": 4 })]);

    // Declared from now on, and read anew by a fresh run.
    let declared = PIPELINE.replace("path = \"in\"", "path = \"in\"\nschema = [{ name = \"x\", type = \"string\" }]");
    std::fs::write(folder.join("p.toml"), declared).unwrap();
    std::fs::write(folder.join("in/c.csv"), "x\nfree text\n").unwrap();
    let third = tidegate(folder, &["run", "p.toml"]);
    assert_eq!(third.status.code(), Some(0), "{}", said(&third));
    assert!(rows(folder).contains(&json!({ "x": "free text" })));

    std::fs::write(folder.join("p.toml"), PIPELINE).unwrap();
    for gone in ["in/b.csv", "in/c.csv"] {
        std::fs::remove_file(folder.join(gone)).unwrap();
    }
    let fresh = tidegate(folder, &["run", "--fresh", "p.toml"]);
    assert_eq!(fresh.status.code(), Some(0), "{}", said(&fresh));
    assert!(said(&fresh).contains("{ name = \"x\", type = \"float64\" }, { name = \"y\", type = \"string\" }"), "{}", said(&fresh));
}

#[test]
fn validate_and_plan_make_no_store_and_infer_what_a_run_would() {
    let folder = folder();
    let plan = tidegate(folder.path(), &["plan", "p.toml"]);
    assert!(said(&plan).contains("inferred, and kept for the whole run: schema = ["), "{}", said(&plan));
    assert_eq!(tidegate(folder.path(), &["validate", "p.toml"]).status.code(), Some(0));
    assert!(!folder.path().join(".tidegate").exists());
}

#[test]
fn a_file_without_a_column_of_the_kept_schema_is_refused_with_what_can_be_done() {
    let folder = folder();
    let folder = folder.path();
    assert_eq!(tidegate(folder, &["run", "p.toml"]).status.code(), Some(0));
    std::fs::write(folder.join("in/c.csv"), "id\n3\n").unwrap();
    let second = tidegate(folder, &["run", "p.toml"]);
    assert_eq!(second.status.code(), Some(78), "{}", said(&second));
    for part in ["c.csv", "no column `x`", "inferred when the run began", "declare a `schema`", "--fresh"] {
        assert!(said(&second).contains(part), "{part} is missing in: {}", said(&second));
    }
}

//! Transforms in Python and JavaScript, built by their own scripts and run by the command.
//!
//! A machine without Python or Node, or without their registries, cannot build them; then the test says so on stderr and checks what it can.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use serde_json::{Value, json};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tidegate_tests::{command, root};

/// What `build.sh` answers when it cannot install the compiler.
const CANNOT_INSTALL: i32 = 69;
/// More than one call's worth of rows.
const ROWS: i64 = 20_000;

struct Language {
    /// The folder in `sdk/`.
    name: &'static str,
    /// The example's file.
    plugin: &'static str,
    /// The programs without which nothing can be built, and an argument that each takes.
    needs: &'static [&'static [&'static str]],
    /// Runs the unit tests of the helper module.
    tests: &'static [&'static str],
}

const PYTHON: Language = Language {
    name: "python",
    plugin: "priced.py",
    needs: &[&["python3", "--version"], &["python3", "-m", "pip", "--version"], &["python3", "-c", "import venv, ensurepip"]],
    tests: &["python3", "-B", "-m", "unittest"],
};

const JAVASCRIPT: Language = Language {
    name: "javascript",
    plugin: "priced.mjs",
    needs: &[&["node", "--version"], &["npm", "--version"]],
    tests: &["node", "--test"],
};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The folder of this build in which tools, components and compiled code are kept between runs.
fn kept(name: &str) -> PathBuf {
    let folder = command().parent().and_then(Path::parent).unwrap().join("scripts").join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// All files from which a component is made, in an order that is always the same.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        match path.is_dir() {
            true if ["target", "node_modules", "__pycache__"].contains(&name.as_str()) => {}
            true => sources(&path, found),
            false if name.ends_with(".md") => {}
            false => found.push(path),
        }
    }
}

impl Language {
    fn folder(&self) -> PathBuf {
        root().join("sdk").join(self.name)
    }

    /// A name for the state of the sources.
    fn digest(&self) -> u64 {
        let mut files = Vec::new();
        sources(&self.folder(), &mut files);
        sources(&root().join("wit"), &mut files);
        let mut hasher = DefaultHasher::new();
        for file in files {
            hasher.write(file.strip_prefix(root()).unwrap().as_os_str().as_encoded_bytes());
            hasher.write(&fs::read(&file).unwrap());
        }
        hasher.finish()
    }

    /// What this machine lacks to build it.
    fn missing(&self) -> Option<String> {
        self.needs.iter().find_map(|need| match Command::new(need[0]).args(&need[1..]).output() {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(format!("`{}` fails: {}", need.join(" "), said(&output))),
            Err(error) => Some(format!("`{}` cannot be run: {error}", need[0])),
        })
    }

    /// The built example, or why this machine cannot build it.
    fn component(&self) -> Result<PathBuf, String> {
        let target = kept(self.name);
        let component = target.join(format!("priced-{:016x}.wasm", self.digest()));
        if component.exists() {
            return Ok(component);
        }
        if let Some(missing) = self.missing() {
            return Err(missing);
        }
        let source = self.folder().join("example").join(self.plugin);
        let script = self.folder().join("build.sh");
        let output = Command::new(script).arg(source).arg(&component).env("TARGET", &target).output().unwrap();
        if output.status.code() == Some(CANNOT_INSTALL) {
            return Err(said(&output));
        }
        assert!(output.status.success(), "{}: {}", self.name, said(&output));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), component.display().to_string(), "only the path stands on stdout");
        Ok(component)
    }

    /// The built example; `None` after saying loudly that there is none.
    fn built(&self) -> Option<PathBuf> {
        match self.component() {
            Ok(component) => Some(component),
            Err(reason) => {
                // Not by `eprintln!`, which the test harness keeps to itself when a test passes.
                let line = format!("\nNOT TESTED on this machine: plugins in {}, since they cannot be built: {reason}\n", self.name);
                std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
                None
            }
        }
    }

    /// The helper module's own tests, and then the example in a pipeline.
    fn test(&self) {
        let Some(component) = self.built() else { return };
        let tests = Command::new(self.tests[0]).args(&self.tests[1..]).current_dir(self.folder()).output().unwrap();
        assert!(tests.status.success(), "{}{}", String::from_utf8_lossy(&tests.stdout), said(&tests));
        runs_in_a_pipeline(&component);
        refuses_what_it_does_not_know(&component);
        does_what_its_readme_shows(&self.folder().join("README.md"), &component);
        earns_what_it_claims(&self.folder().join("example/plugin.toml"), &component);
    }
}

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).current_dir(folder).env("XDG_CACHE_HOME", kept("compiled")).output().unwrap()
}

/// Rows of each kind: nulls in each column, text of more than one byte a letter, an integer that is no float, and bad rows. Totals have
/// few enough digits to be read back exactly.
fn row(id: i64) -> Value {
    let item = (id % 5 != 1).then(|| format!("ü🌊{id}"));
    let quantity = match id {
        4 => Some((1 << 61) + 1),
        7777 => Some(-1),
        9999 => Some(i64::MAX),
        _ => (id % 7 != 3).then_some(id * 1009),
    };
    let price = (id % 11 != 4).then_some(id as f64 / 8.0 - 100.0);
    json!({ "id": id, "item": item, "quantity": quantity, "price": price })
}

/// What the example makes of a row; nothing of a bad one.
fn expected(id: i64) -> Option<Value> {
    let mut row = row(id);
    let (item, quantity, price) = (row["item"].as_str(), row["quantity"].as_i64(), row["price"].as_f64());
    if quantity.is_some_and(|quantity| !(0..1 << 62).contains(&quantity)) {
        return None;
    }
    let made = json!({
        "label": quantity.zip(item).map(|(quantity, item)| format!("{item}: {quantity} kg")),
        "doubled": quantity.map(|quantity| quantity * 2),
        "total": quantity.zip(price).map(|(quantity, price)| quantity as f64 * price),
    });
    row.as_object_mut().unwrap().extend(made.as_object().unwrap().clone());
    Some(row)
}

fn pipeline(component: &Path, config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..ROWS).map(|id| format!("{}\n", row(id))).collect();
    fs::write(folder.path().join("rows.json"), rows).unwrap();
    let text = format!(
        r#"name = "scripts"
[plugins.priced]
path = "{}"
config = {{ {config} }}
[datasets.rows]
connector = "files"
path = "rows.json"
format = "json"
schema = [
  {{ name = "id", type = "int64" }},
  {{ name = "item", type = "string" }},
  {{ name = "quantity", type = "int64" }},
  {{ name = "price", type = "float64" }},
]
onBadData = "deadLetter"
deadLetter = "bad"
[datasets.bad]
sink = "files"
path = "bad"
format = "json"
[datasets.out]
sink = "stdout"
[[stages]]
inputs = ["rows"]
output = "out"
steps = [{{ op = "wasm", plugin = "priced" }}]
"#,
        component.display()
    );
    fs::write(folder.path().join("p.toml"), text).unwrap();
    folder
}

fn runs_in_a_pipeline(component: &Path) {
    let folder = pipeline(component, "unit = \"kg\"");
    let output = tidegate(folder.path(), &["run", "p.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let rows = String::from_utf8(output.stdout).unwrap();
    let mut rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    rows.sort_by_key(|row| row["id"].as_i64());
    let wanted: Vec<Value> = (0..ROWS).filter_map(expected).collect();
    assert_eq!(rows.len(), wanted.len());
    for (row, wanted) in rows.iter().zip(&wanted) {
        assert_eq!(row, wanted);
    }
    let parts = fs::read_dir(folder.path().join("bad")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let bad: String = parts.map(|path| fs::read_to_string(path).unwrap()).collect();
    assert_eq!(bad.lines().count(), 2, "{bad}");
    for quantity in [-1, i64::MAX] {
        assert!(bad.contains(&format!("`{quantity}` is no quantity that can be doubled")), "{bad}");
    }
}

fn refuses_what_it_does_not_know(component: &Path) {
    let folder = pipeline(component, "unitt = \"kg\"");
    let output = tidegate(folder.path(), &["validate", "p.toml"]);
    assert_eq!(output.status.code(), Some(78), "{}", said(&output));
    assert!(said(&output).contains("there is no option `unitt`; the only one is `unit`"), "{}", said(&output));
}

/// The blocks of one language in a document.
fn blocks(document: &str, language: &str) -> Vec<String> {
    document.split(&format!("```{language}\n")).skip(1).map(|rest| rest.split("```").next().unwrap().to_string()).collect()
}

/// The first JSON block is what goes in, the second what comes out.
fn does_what_its_readme_shows(readme: &Path, component: &Path) {
    let text = fs::read_to_string(readme).unwrap();
    let [rows, shown] = blocks(&text, "json").try_into().unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rows.jsonl"), rows).unwrap();
    let output = tidegate(folder.path(), &["plugin", "run", component.to_str().unwrap(), "--input", "rows.jsonl", "--config", "unit=kg"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), shown);
}

/// By the kit. A call of an interpreter takes long, so it is not called as often as others are.
fn earns_what_it_claims(table: &Path, component: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["plugin", "test", component.to_str().unwrap(), "--plugin-toml", table.to_str().unwrap(), "--calls", "200"];
    let output = tidegate(folder.path(), &arguments);
    let report = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{report}{}", said(&output));
    assert!(report.contains("\nearned  deterministic\n"), "{report}");
}

#[test]
fn a_transform_in_python_runs_in_a_pipeline() {
    PYTHON.test();
}

#[test]
fn a_transform_in_javascript_runs_in_a_pipeline() {
    JAVASCRIPT.test();
}

//! P166, and the guide for plugin authors: each page's commands are typed, and each kind of plugin goes from nothing to rows of a pipeline.
//!
//! Crates are built in one target directory beside this build's own, where their dependencies are compiled already.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use tidegate_tests::{command, plugin, root};

/// Between the outputs of two commands.
const NEXT: &str = "\u{1}next\u{1}";

fn page(kind: &str) -> String {
    fs::read_to_string(root().join(format!("docs/plugins/{kind}.md"))).unwrap()
}

/// What a shell needs to find `tidegate` and this build's cargo.
fn prepared(command_line: &mut Command) -> &mut Command {
    let tidegate = command();
    let cargo = PathBuf::from(std::env::var_os("CARGO").unwrap());
    let own = [tidegate.parent().unwrap().to_owned(), cargo.parent().unwrap().to_owned()];
    let path = std::env::join_paths(own.into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap()))).unwrap();
    let target = tidegate.parent().and_then(Path::parent).unwrap().join("guests");
    let cache = tidegate.parent().and_then(Path::parent).unwrap().join("compiled");
    command_line.env("PATH", path).env("CARGO_TARGET_DIR", target).env("XDG_CACHE_HOME", cache);
    command_line.env_remove("RUSTFLAGS").env_remove("TIDEGATE_LOG").stdin(Stdio::null())
}

/// A page's commands with the output shown, and its pipeline file.
struct Session {
    commands: Vec<(String, Vec<String>)>,
    pipeline: String,
}

impl Session {
    fn of(page: &str) -> Session {
        let mut commands: Vec<(String, Vec<String>)> = Vec::new();
        let mut pipeline = String::new();
        let (mut fence, mut before) = (None, "");
        for line in page.lines() {
            match (fence, line.strip_prefix("```")) {
                // What stands below a file's name is a file of the template.
                (None, Some(_)) if before.starts_with("<!-- ") => fence = Some("a file"),
                (None, Some(language)) => fence = Some(language),
                (Some(_), Some(_)) => fence = None,
                (Some("console"), None) => match line.strip_prefix("$ ") {
                    Some(command) => commands.push((command.into(), Vec::new())),
                    None => commands.last_mut().unwrap().1.push(line.into()),
                },
                (Some("toml"), None) => pipeline.extend([line, "\n"]),
                _ => {}
            }
            before = line;
        }
        Session { commands, pipeline }
    }

    /// Types the commands into one shell, and compares what each prints. Answers the folder it was done in.
    fn run(&self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        // The page shows the pipeline file within the crate.
        fs::write(folder.path().join("pipeline.toml"), &self.pipeline).unwrap();
        let mut script = String::from("exec 2>&1\n");
        for (command, _) in &self.commands {
            script.push_str(&format!("{command}\nprintf '{NEXT}'\n"));
            if command.starts_with("cd ") {
                script.push_str("cp ../pipeline.toml .\n");
            }
        }
        let output = prepared(Command::new("sh").args(["-c", &script]).current_dir(folder.path())).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let mut printed = printed.split(NEXT);
        for (command, shown) in &self.commands {
            let printed: Vec<&str> = printed.next().unwrap().lines().collect();
            let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
            assert!(lines_match(&shown, &printed), "$ {command}\n--- shown\n{}\n--- printed\n{}", shown.join("\n"), printed.join("\n"));
        }
        folder
    }
}

/// Whether lines are those shown, where a line `…` stands for any number of lines.
fn lines_match(shown: &[&str], printed: &[&str]) -> bool {
    match shown {
        [] => printed.is_empty(),
        ["…", rest @ ..] => (0..=printed.len()).any(|skipped| lines_match(rest, &printed[skipped..])),
        [line, rest @ ..] => printed.first().is_some_and(|printed| line_matches(line, printed)) && lines_match(rest, &printed[1..]),
    }
}

/// Whether a line is the one shown, where `…` stands for any text.
fn line_matches(shown: &str, printed: &str) -> bool {
    match shown.split_once('…') {
        None => shown == printed,
        Some((before, rest)) => printed.strip_prefix(before).is_some_and(|left| {
            let cuts = left.char_indices().map(|(at, _)| at).chain([left.len()]);
            cuts.into_iter().any(|at| line_matches(rest, &left[at..]))
        }),
    }
}

/// The API that the page about sources reads, served as its reader does in another terminal.
struct Api {
    server: Child,
    /// Where it listens.
    at: String,
}

impl Api {
    /// Starts it; `None` after saying loudly that this machine cannot.
    fn start() -> Option<Api> {
        let script = root().join("sdk/templates/source/conformance/serve.py");
        let started = Command::new("python3").arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut server = match started {
            Ok(server) => server,
            Err(error) => {
                // Not by `eprintln!`, which the test harness keeps to itself when a test passes.
                let line = format!("\nNOT TESTED on this machine: docs/plugins/source.md, since `python3` cannot be run: {error}\n");
                std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
                return None;
            }
        };
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: serde_json::Value = serde_json::from_str(&line).unwrap();
        let at = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        Some(Api { server, at })
    }
}

impl Drop for Api {
    fn drop(&mut self) {
        self.server.kill().unwrap();
        self.server.wait().unwrap();
    }
}

#[test]
fn a_source_from_nothing() {
    let Some(api) = Api::start() else { return };
    // The page shows a port that its reader has chosen.
    let page = page("source");
    assert!(page.contains("python3 conformance/serve.py 8000\n"));
    Session::of(&page.replace("127.0.0.1:8000", &api.at)).run();
}

#[test]
fn a_transform_from_nothing() {
    let session = Session::of(&page("transform"));
    let folder = session.run();
    // The README shows the same in three commands. Its crate is there by now.
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let shown = readme.lines().filter(|line| line.starts_with("tidegate plugin "));
    let shown: Vec<&str> = shown.map(|line| line.split('#').next().unwrap().trim_end()).collect();
    assert_eq!(shown.len(), 3, "{shown:?}");
    assert_eq!(shown[0], session.commands[0].0);
    for line in &shown[1..] {
        let output = prepared(Command::new("sh").args(["-c", line]).current_dir(folder.path())).output().unwrap();
        assert!(output.status.success(), "{line}: {}", said(&output));
        assert!(!output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn a_transactional_sink_from_nothing() {
    Session::of(&page("sink")).run();
}

/// How a page shows a file.
fn shown(path: &Path) -> String {
    let name = path.strip_prefix(root()).unwrap().display().to_string();
    let language = match path.extension().and_then(|ending| ending.to_str()) {
        Some("rs") => "rust",
        Some("py") => "python",
        other => other.unwrap(),
    };
    format!("<!-- {name} -->\n```{language}\n{}```\n", fs::read_to_string(path).unwrap())
}

#[test]
fn each_page_shows_its_template_whole() {
    for kind in ["transform", "source", "sink"] {
        let page = page(kind);
        let template = root().join("sdk/templates").join(kind);
        let mut files = 0;
        for folder in ["src", "conformance"] {
            let Ok(entries) = fs::read_dir(template.join(folder)) else { continue };
            for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                assert!(page.contains(&shown(&path)), "docs/plugins/{kind}.md does not show {name} as it is");
                files += 1;
            }
        }
        assert_eq!(page.matches("```rust\n").count() + page.matches("```python\n").count(), files);
        if page.contains("plugin.toml -->") {
            assert!(page.contains(&shown(&template.join("plugin.toml"))), "docs/plugins/{kind}.md does not show plugin.toml as it is");
        }
    }
}

fn tidegate(folder: &Path, arguments: &[&str]) -> Output {
    prepared(Command::new(command()).args(arguments).current_dir(folder)).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_crate_s_component_metadata_names_a_world_that_it_has() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["transform", "source", "sink"] {
        let made = tidegate(folder.path(), &["plugin", "new", kind, "--kind", kind]);
        assert!(made.status.success(), "{}", said(&made));
        let dir = folder.path().join(kind);
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap());
        // `--locked`: the lock file that is shipped fits the crate under its own name.
        cargo.args(["metadata", "--format-version", "1", "--locked"]).current_dir(&dir);
        let output = prepared(&mut cargo).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let packages = metadata["packages"].as_array().unwrap();
        let package = packages.iter().find(|package| package["name"] == kind).unwrap();
        let target = &package["metadata"]["component"]["target"];
        let worlds = fs::read_to_string(dir.join(target["path"].as_str().unwrap()).join("worlds.wit")).unwrap();
        assert!(worlds.contains(&format!("world {} {{", target["world"].as_str().unwrap())));
        assert_eq!(target["world"], format!("{kind}-plugin"));
    }
    for file in fs::read_dir(root().join("wit")).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
        let unpacked = folder.path().join("sink/vendor/wit").join(file.file_name().unwrap());
        assert_eq!(fs::read(unpacked).unwrap(), fs::read(file).unwrap());
    }
}

#[test]
fn new_refuses_what_is_there_and_what_is_no_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("taken")).unwrap();
    for (name, why) in [("taken", "is there already"), ("Orders", "no name for a plugin"), ("serde", "a crate it depends on")] {
        let output = tidegate(folder.path(), &["plugin", "new", name, "--kind", "sink"]);
        assert_eq!(output.status.code(), Some(64), "{name}");
        assert!(said(&output).contains(why), "{}", said(&output));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn build_says_what_a_folder_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let output = tidegate(folder.path(), &["plugin", "build"]);
    assert_eq!(output.status.code(), Some(78));
    assert!(said(&output).contains("no `Cargo.toml`") && said(&output).contains("tidegate plugin new"), "{}", said(&output));
}

#[test]
fn inspect_answers_json_with_the_grants_that_could_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let file = plugin("jsonl").display().to_string();
    let output = tidegate(folder.path(), &["plugin", "inspect", &file, "--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["name"], "jsonl");
    assert_eq!(report["worlds"], serde_json::json!(["sink-plugin"]));
    assert_eq!(report["interface"], "tidegate:plugin@0.1.0");
    assert!(report["digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(report["bytes"].as_u64().unwrap(), fs::metadata(&file).unwrap().len());
    assert!(report["configSchema"]["properties"]["dir"].is_object());
    assert!(report["grants"]["couldUse"].as_array().unwrap().contains(&"dirs".into()), "{report}");
    let none = tidegate(folder.path(), &["plugin", "inspect", "none.wasm"]);
    assert_eq!(none.status.code(), Some(78));
    assert!(said(&none).contains("none.wasm"), "{}", said(&none));
}

#[test]
fn run_stops_an_endless_source_at_its_limit_and_uses_what_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let file = plugin("ticker").display().to_string();
    fs::write(folder.path().join("options.toml"), "startMs = 5\nsplits = 1\n").unwrap();
    let arguments = ["plugin", "run", &file, "--limit", "3", "--config-file", "options.toml", "--config", "intervalMs=10"];
    let output = tidegate(folder.path(), &arguments);
    assert!(output.status.success(), "{}", said(&output));
    let rows = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(rows.lines().count(), 3, "{rows}");
    assert!(rows.lines().nth(2).unwrap().contains("1970-01-01T00:00:00.025"), "{rows}");
    assert!(said(&output).contains("3 rows of 1 splits, 0 bad"), "{}", said(&output));
}

#[test]
fn run_names_mistakes_by_the_exit_codes_of_a_pipeline() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rows.jsonl"), "{\"a\":1}\n").unwrap();
    let (ticker, mask) = (plugin("ticker").display().to_string(), plugin("mask-pii").display().to_string());
    let cases: [(&[&str], i32, &str); 7] = [
        (&[&ticker, "--input", "rows.jsonl"], 64, "is a source and takes no `--input`"),
        (&[&mask], 64, "needs rows"),
        (&[&ticker, "--config", "row=1"], 78, "did you mean `rows`?"),
        (&[&ticker, "--allow", "claock"], 78, "clock"),
        (&[&ticker, "--secret", "token=NOT_SET"], 78, "`NOT_SET` is not set"),
        (&[&mask, "--input", "rows.jsonl", "--schema", "a int64"], 78, "--schema"),
        (&[&mask, "--input", "none.jsonl", "--config", "columns=[\"a\"]"], 69, "none.jsonl"),
    ];
    for (arguments, code, why) in cases {
        let output = tidegate(folder.path(), &[&["plugin", "run"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(why), "{arguments:?}: {}", said(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_declared_schema_is_taken_instead_of_an_inferred_one() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("rows.jsonl"), "{\"id\":\"7\",\"email\":\"a@b.c\"}\n").unwrap();
    let mask = plugin("mask-pii").display().to_string();
    let schema = "[{ name = \"id\", type = \"string\" }, { name = \"email\", type = \"string\" }]";
    let arguments = ["plugin", "run", &mask, "--input", "rows.jsonl", "--schema", schema, "--config", "columns=[\"email\"]"];
    let output = tidegate(folder.path(), &arguments);
    assert!(output.status.success(), "{}", said(&output));
    let rows = String::from_utf8(output.stdout).unwrap();
    assert!(rows.starts_with("{\"id\":\"7\",\"email\":\"") && !rows.contains("a@b.c"), "{rows}");
}

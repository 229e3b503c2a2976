//! Killed again and again, a pipeline writes the same rows as one that was left alone.
//!
//! One source feeds a stateful stage into `files`, a plain one into folders of `files`, and one into the `jsonl` component. Every kill is a SIGKILL that lands
//! after a new manifest, half of them at a named point of the protocol. `TIDEGATE_CHAOS_KILLS` sets how many; `cargo xtask
//! chaos` runs it at length.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tidegate_tests::{command, plugin};

/// Every point is hit this often, before kills at any moment begin.
const EACH_POINT: usize = 2;
const POINTS: [&str; 6] = ["prepare", "before-manifest", "after-manifest", "mid-commit", "before-mark", "mid-recover"];

fn pipeline(folder: &Path, rate: u64, events: u64) -> PathBuf {
    let jsonl = plugin("jsonl");
    let text = format!(
        r#"
name = "chaos"
[settings]
parallelism = 2
checkpointEvery = "100ms"
[plugins.jsonl]
path = {jsonl:?}
allow = {{ dirs = ["lines=/out:rw"] }}
[datasets.events]
connector = "nexmark"
events = {events}
partitions = 2
rate = {rate}
extra = false
[datasets.counts]
sink = "files"
path = "counts"
format = "json"
require = "exactly-once"
[datasets.bids]
sink = "plugin"
plugin = "jsonl"
config = {{ dir = "/out" }}
require = "exactly-once"
[datasets.folders]
sink = "files"
path = "folders"
format = "json"
partitionBy = ["bucket"]
require = "exactly-once"
[[stages]]
id = "per-auction"
inputs = ["events"]
output = "counts"
steps = [
  {{ op = "filter", expression = 'type == "bid"' }},
  {{ op = "windowedAggregate", timeColumn = "dateTime", window = "10s", groupBy = ["auction"], aggs = [
    {{ op = "count", alias = "bids" }}, {{ op = "sum", column = "price", alias = "total" }} ] }},
]
[[stages]]
id = "bids"
inputs = ["events"]
output = "bids"
steps = [
  {{ op = "filter", expression = 'type == "bid" && auction % 3 == 0' }},
  {{ op = "select", columns = ["auction", "bidder", "price", "dateTime"] }},
]
[[stages]]
id = "folders"
inputs = ["events"]
output = "folders"
steps = [
  {{ op = "filter", expression = 'type == "bid" && auction % 5 == 0' }},
  {{ op = "applyExpression", column = "bucket", expression = 'bidder % 7' }},
  {{ op = "select", columns = ["auction", "bidder", "bucket"] }},
]
"#
    );
    std::fs::create_dir_all(folder.join("lines")).unwrap();
    let file = folder.join("chaos.toml");
    std::fs::write(&file, text).unwrap();
    file
}

/// What a reader sees: every visible file by name. Names that begin with a dot are nobody's business.
fn visible(folder: &Path) -> BTreeMap<PathBuf, String> {
    fn walk(folder: &Path, files: &mut BTreeMap<PathBuf, String>) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.file_name().unwrap().to_string_lossy().starts_with('.') {
                continue;
            }
            if path.is_dir() {
                walk(&path, files);
            } else {
                files.insert(path.clone(), std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut files = BTreeMap::new();
    ["counts", "lines", "folders"].iter().for_each(|output| walk(&folder.join(output), &mut files));
    files
}

/// Whole lines, each a row; and what was visible before is there, unchanged.
fn check_visible(folder: &Path, before: &BTreeMap<PathBuf, String>) -> BTreeMap<PathBuf, String> {
    let now = visible(folder);
    for (path, text) in &now {
        assert!(text.ends_with('\n'), "`{}` is partial", path.display());
        for line in text.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "`{}` holds a partial row: {line}", path.display());
        }
    }
    for (path, text) in before {
        assert!(now.get(path) == Some(text), "`{}` was visible and has changed", path.display());
    }
    now
}

fn rows(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in visible(folder) {
        // The name of the folder: of the output, or of one of its partitions.
        let output = path.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
        rows.entry(output).or_default().extend(text.lines().map(str::to_string));
    }
    rows.values_mut().for_each(|rows| rows.sort());
    rows
}

/// The newest epoch that has a manifest.
fn newest_manifest(folder: &Path) -> Option<u64> {
    let runs = std::fs::read_dir(folder.join(".tidegate/chaos/manifests")).ok()?;
    let newest_run = runs.filter_map(|entry| Some(entry.ok()?.path())).max()?;
    let epochs = std::fs::read_dir(newest_run).ok()?.filter_map(|entry| entry.ok()?.file_name().to_string_lossy().parse::<u64>().ok());
    epochs.max()
}

struct Run {
    child: Child,
    said: mpsc::Receiver<String>,
}

fn start(file: &Path, pause_at: Option<&str>) -> Run {
    let mut run = Command::new(command());
    run.arg("run").arg(file).args(pause_at.map(|point| format!("--pause-at={point}")));
    let mut child = run.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let stderr = child.stderr.take().unwrap();
    let (tell, said) = mpsc::channel();
    #[allow(clippy::disallowed_methods, reason = "a pipe must be drained beside the process")]
    std::thread::spawn(move || {
        for line in BufReader::new(stderr).lines().map_while(Result::ok) {
            if tell.send(line).is_err() {
                return;
            }
        }
    });
    Run { child, said }
}

impl Run {
    /// Waits for a line that holds `text`, giving all lines so far.
    fn wait_for(&mut self, text: &str) -> Result<String, Vec<String>> {
        let mut lines = Vec::new();
        while let Ok(line) = self.said.recv_timeout(Duration::from_secs(120)) {
            if line.contains(text) {
                return Ok(line);
            }
            lines.push(line);
        }
        Err(lines)
    }

    /// SIGKILL.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn finish(mut self) {
        let mut lines = Vec::new();
        while let Ok(line) = self.said.recv() {
            lines.push(line);
        }
        assert!(self.child.wait().unwrap().success(), "{lines:#?}");
    }
}

#[test]
fn killed_again_and_again_it_writes_the_same_rows() {
    let kills: usize = std::env::var("TIDEGATE_CHAOS_KILLS").ok().map_or(EACH_POINT * POINTS.len() + 2, |kills| kills.parse().unwrap());
    // Half a second of throttled input for every kill, so that each leaves work for the next start.
    let (rate, events) = (20_000, 20_000 * (4 + kills as u64 / 2));

    let calm = tempfile::tempdir().unwrap();
    start(&pipeline(calm.path(), 0, events), None).finish();
    let expected = rows(calm.path());
    assert!(
        expected["counts"].len() > 100 && expected["lines"].len() > 1000 && expected["bucket=3"].len() > 100,
        "the pipeline writes something"
    );

    let folder = tempfile::tempdir().unwrap();
    let file = pipeline(folder.path(), rate, events);
    let mut seen = BTreeMap::new();
    let mut hit: BTreeMap<&str, usize> = BTreeMap::new();
    for kill in 0..kills {
        let before = newest_manifest(folder.path());
        let point = if kill < EACH_POINT * POINTS.len() { Some(POINTS[kill % POINTS.len()]) } else { None };
        match point {
            Some(point) => {
                // The second passing, so that at least one manifest of this start lies before the kill.
                let passing = if point == "mid-recover" { 1 } else { 2 };
                let mut run = start(&file, Some(&format!("{point}:{passing}")));
                match run.wait_for("paused at") {
                    Ok(line) => {
                        *hit.entry(point).or_default() += 1;
                        eprintln!("kill {}: {line}, newest manifest {:?}", kill + 1, newest_manifest(folder.path()));
                    }
                    Err(lines) => panic!("`{point}` was never reached: {lines:#?}"),
                }
                run.kill();
            }
            None => {
                let mut run = start(&file, None);
                let mut waited = Duration::ZERO;
                while newest_manifest(folder.path()) <= before.map(|epoch| epoch + 1) {
                    assert!(run.child.try_wait().unwrap().is_none(), "the run ended by itself before kill {}", kill + 1);
                    assert!(waited < Duration::from_secs(120), "no new manifest");
                    pause(Duration::from_millis(5));
                    waited += Duration::from_millis(5);
                }
                // Anywhere within the next epoch.
                pause(Duration::from_millis(7 * (kill as u64 % 13)));
                eprintln!("kill {}: at any moment, newest manifest {:?}", kill + 1, newest_manifest(folder.path()));
                run.kill();
            }
        }
        seen = check_visible(folder.path(), &seen);
    }
    start(&file, None).finish();
    check_visible(folder.path(), &seen);
    let last = newest_manifest(folder.path()).unwrap();
    assert!(last >= 20, "the run spans {last} epochs");
    if kills >= EACH_POINT * POINTS.len() {
        assert!(POINTS.iter().all(|point| hit.get(point) >= Some(&EACH_POINT)), "{hit:?}");
    }
    let found = rows(folder.path());
    assert!(found.keys().eq(expected.keys()), "{:?} and not {:?}", found.keys(), expected.keys());
    for (output, expected) in &expected {
        assert_eq!(found[output].len(), expected.len(), "rows of `{output}`");
        assert!(found[output] == *expected, "`{output}` differs");
    }
    // Another start has nothing to do, and says so.
    let mut again = start(&file, None);
    assert!(again.wait_for("already complete at epoch").is_ok());
    again.finish();
}

/// Waits for another process, which no clock of ours can hurry.
#[allow(clippy::disallowed_methods, reason = "the process watched has its own clock")]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

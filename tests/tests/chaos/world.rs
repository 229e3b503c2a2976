//! The pipelines that are disturbed, each in a folder of its own, and what their outputs hold.

use crate::mounts::{self, SmallDisk};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use tidegate_tests::places::Place;
use tidegate_tests::process::Run;
use tidegate_tests::{plugin, root};

/// A pipeline: its text, and what is to be known of it.
pub(crate) struct Pipeline {
    pub(crate) name: &'static str,
    /// The text, and the folder where its relative paths start; none for a folder of its own.
    text: String,
    /// Rows per source.
    rows: BTreeMap<&'static str, u64>,
    /// The outputs in which rows replace each other, by these columns.
    tables: BTreeMap<&'static str, Vec<&'static str>>,
    /// The outputs that may repeat rows.
    repeating: BTreeSet<&'static str>,
}

impl Pipeline {
    /// One whose outputs repeat nothing and replace nothing.
    pub(crate) fn new(name: &'static str, text: String, rows: BTreeMap<&'static str, u64>) -> Pipeline {
        Pipeline { name, text, rows, tables: BTreeMap::new(), repeating: BTreeSet::new() }
    }
}

/// How a start goes about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Milliseconds from epoch to epoch.
    pub(crate) every_ms: u64,
    /// Milliseconds from the end of one plugin's instance to that of another.
    pub(crate) trap_every_ms: Option<u64>,
    /// Attempts within one process.
    pub(crate) restarts: u64,
}

impl Default for Settings {
    /// A run that cannot go on is to say so soon.
    fn default() -> Settings {
        Settings { every_ms: 100, trap_every_ms: None, restarts: 1 }
    }
}

/// P083: one generator that three outputs read goes on for all of them. Three transactional sinks behind one source: plain files, folders of files, and a component.
fn sinks() -> Pipeline {
    let jsonl = plugin("jsonl");
    let text = format!(
        r#"
name = "sinks"
[plugins.jsonl]
path = {jsonl:?}
allow = {{ dirs = ["lines=/out:rw"] }}
[datasets.events]
connector = "nexmark"
events = 40000
partitions = 2
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
    Pipeline::new("sinks", text, [("events", 40_000)].into())
}

/// The flights example as it is, one of its outputs at-least-once.
fn flights() -> Pipeline {
    let text = fs::read_to_string(root().join("examples/flights/flights.toml")).unwrap();
    let data = root().join("examples/flights/data/flights-week1.csv.gz");
    let mask = plugin("mask-pii");
    let text = text.replace("data/flights-week1.csv.gz", data.to_str().unwrap());
    let text = text.replace("../../plugins/target/components/mask-pii.wasm", mask.to_str().unwrap());
    Pipeline { name: "flights", text, rows: [("flights", 6_000)].into(), tables: BTreeMap::new(), repeating: ["shown"].into() }
}

/// A Nexmark query of the examples, over fewer events and into files.
fn nexmark(name: &'static str, query: &str, events: u64, keys: &[&'static str]) -> Pipeline {
    let text = fs::read_to_string(root().join(format!("examples/nexmark/{query}.toml"))).unwrap();
    let changelog = if keys.is_empty() { "" } else { "\nchangelog = true" };
    let text = text.replace("events = 10000000", &format!("events = {events}"));
    let text = text.replace("sink = \"blackhole\"", &format!("sink = \"files\"\npath = \"out\"\nformat = \"json\"{changelog}"));
    assert!(text.contains(&format!("events = {events}")) && text.contains("path = \"out\""), "`{query}` is as this test knows it");
    let tables = if keys.is_empty() { BTreeMap::new() } else { [("out", keys.to_vec())].into() };
    Pipeline { name, text, rows: [("events", events)].into(), tables, repeating: BTreeSet::new() }
}

/// The one whose epochs are kept by a server.
pub(crate) fn of_a_server() -> Pipeline {
    nexmark("epochs in a bucket: q5", "q5", 30_000, &[])
}

pub(crate) fn pipelines() -> Vec<Pipeline> {
    vec![
        sinks(),
        flights(),
        nexmark("window: q5", "q5", 30_000, &[]),
        nexmark("join: q20", "q20", 30_000, &[]),
        nexmark("rank: q19", "q19", 20_000, &["auction", "rank"]),
    ]
}

/// One pipeline in a folder: undisturbed or disturbed.
pub(crate) struct World<'p> {
    pipeline: &'p Pipeline,
    folder: tempfile::TempDir,
    file: PathBuf,
    /// Seconds that the input lasts; without it as fast as it goes.
    lasts: Option<f64>,
    pub(crate) disks: Option<Disks>,
    /// Where a server keeps the epochs; without it they are in the folder.
    bucket: Option<Place>,
    settings: Settings,
}

/// The disks that epochs and outputs are on.
pub(crate) struct Disks {
    pub(crate) state: SmallDisk,
    pub(crate) out: SmallDisk,
}

impl<'p> World<'p> {
    pub(crate) fn new(pipeline: &'p Pipeline, lasts: Option<f64>) -> World<'p> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pipeline.toml");
        fs::write(&file, &pipeline.text).unwrap();
        fs::create_dir(folder.path().join("lines")).unwrap();
        let disks = (lasts.is_some() && mounts::are_possible())
            .then(|| Disks { state: SmallDisk::mount(&folder.path().join("state")), out: SmallDisk::mount(&folder.path().join("out")) });
        World { pipeline, folder, file, lasts, disks, bucket: None, settings: Settings::default() }
    }

    /// One whose epochs are kept by the server at `endpoint`.
    pub(crate) fn with_epochs_at(pipeline: &'p Pipeline, lasts: f64, endpoint: &str) -> World<'p> {
        World { bucket: Some(Place::s3_at(endpoint)), ..World::new(pipeline, Some(lasts)) }
    }

    pub(crate) fn with_settings(self, settings: Settings) -> World<'p> {
        World { settings, ..self }
    }

    fn out(&self) -> PathBuf {
        self.folder.path().join("out")
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// A start with further arguments; `hurry` reads as fast as it goes.
    pub(crate) fn start(&self, arguments: &[&str], hurry: bool) -> Run {
        let pace: BTreeMap<&str, f64> = match self.lasts {
            Some(seconds) if !hurry => self.pipeline.rows.iter().map(|(name, rows)| (*name, *rows as f64 / seconds)).collect(),
            Some(_) | None => BTreeMap::new(),
        };
        let Settings { every_ms, trap_every_ms, restarts } = self.settings;
        let mut settings = json!({ "parallelism": 2, "restarts": { "max": restarts, "within": "10m", "backoff": "10ms..10ms" } });
        if let Some(bucket) = &self.bucket {
            settings["stateUrl"] = bucket.name().into();
            settings["stateOptions"] = json!(bucket.options());
        }
        let trial = json!({
            "folder": self.folder.path(), "every_ms": every_ms, "pace": pace, "pause": Value::Null, "settings": settings, "trap_every_ms": trap_every_ms,
        });
        let mut all = vec![format!("--trial={trial}")];
        all.extend(arguments.iter().map(|argument| (*argument).to_string()));
        Run::start(&self.file, &all)
    }

    /// The newest epoch that has a manifest.
    pub(crate) fn newest_manifest(&self) -> Option<u64> {
        if let Some(bucket) = &self.bucket {
            // In the order of runs and epochs, which have leading zeros.
            let newest = bucket.store().list("manifests/").unwrap().into_iter().max()?;
            return newest.split('/').nth(2)?.parse().ok();
        }
        let runs = fs::read_dir(self.state().join("manifests")).ok()?;
        let newest_run = runs.filter_map(|entry| Some(entry.ok()?.path())).max()?;
        let epochs = fs::read_dir(newest_run).ok()?.filter_map(|entry| entry.ok()?.file_name().to_string_lossy().parse::<u64>().ok());
        epochs.max()
    }

    /// What a reader sees of outputs that do not repeat: every visible file by name.
    pub(crate) fn visible(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        walk(&self.out(), false, &mut files);
        // Standard output is no file whose bytes stay.
        files.retain(|path, _| path.extension().is_none_or(|ending| ending != "lines"));
        files
    }

    /// Every file of outputs and epochs, hidden ones too.
    pub(crate) fn everything(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        walk(&self.out(), true, &mut files);
        walk(&self.state(), true, &mut files);
        files.extend(self.bucket.iter().flat_map(Place::contents).map(|(key, bytes)| (Path::new("bucket").join(key), bytes)));
        files
    }

    /// Whole lines, each a row; and what was visible before is there, unchanged.
    pub(crate) fn check_visible(&self, before: &BTreeMap<PathBuf, Vec<u8>>) -> BTreeMap<PathBuf, Vec<u8>> {
        let now = self.visible();
        for (path, bytes) in &now {
            let text = std::str::from_utf8(bytes).unwrap();
            assert!(text.ends_with('\n'), "`{}` is partial", path.display());
            for line in text.lines() {
                assert!(serde_json::from_str::<Value>(line).is_ok(), "`{}` holds a partial row: {line}", path.display());
            }
        }
        for (path, bytes) in before {
            assert!(now.get(path) == Some(bytes), "`{}` was visible and has changed", path.display());
        }
        now
    }

    /// Every output's rows in order, or the table they lead to; of outputs that may repeat, each row once.
    pub(crate) fn rows(&self) -> BTreeMap<String, Vec<String>> {
        let mut files = BTreeMap::new();
        walk(&self.out(), false, &mut files);
        let mut by_output: BTreeMap<String, Vec<(u64, PathBuf, String)>> = BTreeMap::new();
        for (path, bytes) in files {
            let within = path.strip_prefix(self.out()).unwrap();
            let output = within.iter().next().unwrap().to_string_lossy().trim_end_matches(".lines").to_string();
            let folder = within.parent().unwrap().display().to_string();
            let text = String::from_utf8(bytes).unwrap();
            let epoch = epoch_of(&path);
            by_output.entry(output).or_default().push((epoch, path, text.lines().map(|line| format!("{folder}\t{line}\n")).collect()));
        }
        let mut all = BTreeMap::new();
        for (output, mut parts) in by_output {
            parts.sort();
            let lines: Vec<&str> = parts.iter().flat_map(|(_, _, text)| text.lines()).collect();
            let mut rows: Vec<String> = match self.pipeline.tables.get(output.as_str()) {
                Some(keys) => table(&lines, keys),
                None => lines.into_iter().map(str::to_string).collect(),
            };
            rows.sort();
            if self.pipeline.repeating.contains(output.as_str()) {
                rows.dedup();
            }
            all.insert(output, rows);
        }
        all
    }
}

/// Parts end in epoch, task and number.
fn epoch_of(path: &Path) -> u64 {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    name.rsplit('-').nth(2).and_then(|epoch| epoch.parse().ok()).unwrap_or(0)
}

fn table(lines: &[&str], keys: &[&str]) -> Vec<String> {
    let mut table = BTreeMap::new();
    for line in lines {
        let row: Value = serde_json::from_str(line.split_once('\t').unwrap().1).unwrap();
        let key: Vec<String> = keys.iter().map(|key| row[key].to_string()).collect();
        match row["op"].as_str().unwrap() {
            "delete" => table.remove(&key),
            _ => table.insert(key, (*line).to_string()),
        };
    }
    table.into_values().collect()
}

fn walk(folder: &Path, hidden: bool, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if !hidden && path.file_name().unwrap().to_string_lossy().starts_with('.') {
            continue;
        }
        if path.is_dir() {
            walk(&path, hidden, files);
        } else if let Ok(bytes) = fs::read(&path) {
            files.insert(path, bytes);
        }
    }
}

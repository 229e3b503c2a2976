//! The pipelines of the tests: flights into their hourly windows, and rows as they are; each in a folder of its own.

use crate::cluster::Cluster;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tidegate_tests::flights::hourly_row;
use tidegate_tests::process::{Run, pause, wait_until};

/// A pipeline that reads a topic and writes another.
pub(crate) struct Pipeline {
    pub(crate) input: String,
    pub(crate) output: String,
    /// Both datasets' keys that say where the cluster is and how it is spoken to.
    reached: String,
    /// The source's other keys, and the step's text.
    source: &'static str,
    steps: &'static str,
    folder: tempfile::TempDir,
    pub(crate) variables: Vec<(&'static str, String)>,
}

/// What is read of a flight, and its time.
const FLIGHTS: &str = r#"
schema = [
  { name = "origin", type = "string" }, { name = "dep_time", type = "int64" }, { name = "dep_delay", type = "int64" },
  { name = "distance", type = "int64" }, { name = "time_hour", type = "timestamp_ms" },
]
time = { column = "time_hour", outOfOrderness = "24h", idleTimeout = "1h" }
"#;

const HOURLY: &str = r#"
  { op = "windowedAggregate", timeColumn = "time_hour", window = "1h", groupBy = ["origin"], aggs = [
    { op = "count", alias = "flights" }, { op = "count", column = "dep_time", alias = "departed" },
    { op = "sum", column = "dep_delay", alias = "delay_sum" }, { op = "max", column = "dep_delay", alias = "delay_max" },
    { op = "sum", column = "distance", alias = "miles" },
  ] },
  { op = "applyExpression", column = "cancelled", expression = "flights - departed" },
"#;

const NUMBERS: &str = "schema = [{ name = \"n\", type = \"int64\" }]\n";

impl Pipeline {
    /// Flights into hourly windows by origin.
    pub(crate) fn hourly(cluster: &Cluster, partitions: i32) -> Pipeline {
        Pipeline::new(cluster, partitions, FLIGHTS, HOURLY)
    }

    /// Rows with a number `n`, as they are.
    pub(crate) fn numbers(cluster: &Cluster, partitions: i32) -> Pipeline {
        Pipeline::new(cluster, partitions, NUMBERS, "")
    }

    fn new(cluster: &Cluster, partitions: i32, source: &'static str, steps: &'static str) -> Pipeline {
        let (input, output) = (cluster.topic("flown", partitions), cluster.topic("told", 3));
        let reached = format!("brokers = {:?}", cluster.endpoint);
        Pipeline { input, output, reached, source, steps, folder: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    /// Spoken to in another way than plainly.
    pub(crate) fn reached_by(self, reached: String) -> Pipeline {
        Pipeline { reached, ..self }
    }

    /// With one property more.
    pub(crate) fn reached_also(self, property: &str) -> Pipeline {
        let reached = self.reached.replace("properties = { ", &format!("properties = {{ {property}, "));
        Pipeline { reached, ..self }
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// The file, with so many tasks and further keys of the source.
    pub(crate) fn write(&self, tasks: usize, of_source: &str) -> PathBuf {
        let Pipeline { input, output, reached, source, steps, .. } = self;
        // The name becomes a part of the transactional id, so no other test has it.
        let text = format!(
            r#"
name = {output:?}
[settings]
parallelism = {tasks}
checkpointEvery = "200ms"
stateDir = {:?}
restarts = {{ max = 1000, within = "1h", backoff = "50ms..500ms" }}
[datasets.rows]
connector = "kafka"
topic = {input:?}
format = "json"
{reached}
{of_source}
{source}
[datasets.told]
sink = "kafka"
topic = {output:?}
format = "json"
require = "exactly-once"
{reached}
[[stages]]
inputs = ["rows"]
output = "told"
steps = [{steps}]
"#,
            self.state()
        );
        let file = self.folder.path().join("pipeline.toml");
        fs::write(&file, text).unwrap();
        file
    }

    /// A start that takes over from whoever is there, and reads until it is stopped.
    pub(crate) fn start(&self, tasks: usize, arguments: &[&str]) -> Run {
        self.start_reading(tasks, "", arguments)
    }

    /// The same with further keys of the source.
    pub(crate) fn start_reading(&self, tasks: usize, of_source: &str, arguments: &[&str]) -> Run {
        let file = self.write(tasks, of_source);
        let arguments: Vec<String> = ["--takeover"].iter().chain(arguments).map(|argument| (*argument).to_string()).collect();
        Run::start_with(&file, &arguments, &self.variables)
    }

    /// The newest epoch that has a manifest.
    fn newest_manifest(&self) -> Option<u64> {
        let runs = fs::read_dir(self.state().join("manifests")).ok()?;
        let newest_run = runs.filter_map(|entry| Some(entry.ok()?.path())).max()?;
        let epochs = fs::read_dir(newest_run).ok()?.filter_map(|entry| entry.ok()?.file_name().to_string_lossy().parse::<u64>().ok());
        epochs.max()
    }

    /// Waits until a run has opened its generation and published two manifests of its own.
    pub(crate) fn wait_for_epochs(&self, run: &mut Run) {
        let enough = self.newest_manifest().map_or(2, |epoch| epoch + 3);
        wait_until(|| self.newest_manifest() >= Some(enough) || run.has_ended(), "no new manifest");
        assert!(!run.has_ended(), "it has ended by itself:\n{}", run.wait_for("no line says this").unwrap_err());
    }

    /// Waits until a reader of committed records sees so many rows.
    pub(crate) fn wait_for_rows(&self, cluster: &Cluster, rows: usize, run: &mut Run) {
        // Every look reads the whole topic, so not too often.
        let (step, mut looks) = (Duration::from_millis(300), 0);
        while !run.has_ended() && cluster.committed(&self.output).len() < rows {
            assert!(looks < 600, "of {rows} rows there are only {}", cluster.committed(&self.output).len());
            looks += 1;
            pause(step);
        }
        assert!(!run.has_ended(), "it has ended by itself:\n{}", run.wait_for("no line says this").unwrap_err());
    }

    /// The windows are in the output, each of them once and nothing else.
    pub(crate) fn check_hourly(&self, cluster: &Cluster, expected: &BTreeSet<String>) {
        check_hourly(cluster, &self.output, expected);
    }

    /// The numbers of the output, sorted.
    pub(crate) fn numbers_of(&self, cluster: &Cluster) -> Vec<i64> {
        let values = cluster.values(&self.output);
        let mut numbers: Vec<i64> =
            values.iter().map(|value| serde_json::from_str::<Value>(value).unwrap()["n"].as_i64().unwrap()).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// The windows are in a topic, each of them once and nothing else.
pub(crate) fn check_hourly(cluster: &Cluster, topic: &str, expected: &BTreeSet<String>) {
    let mut found: Vec<String> = cluster.values(topic).iter().map(|value| hourly_row(&serde_json::from_str(value).unwrap())).collect();
    found.sort();
    let all = found.len();
    let twice: Vec<&String> = found.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).take(5).collect();
    assert!(twice.is_empty(), "some of {all} windows are there twice, such as {twice:?}");
    let found: BTreeSet<String> = found.into_iter().collect();
    let missing: Vec<_> = expected.difference(&found).take(5).collect();
    let strange: Vec<_> = found.difference(expected).take(5).collect();
    assert!(missing.is_empty() && strange.is_empty(), "{all} windows and not {}: missing {missing:?}, strange {strange:?}", expected.len());
}

/// Rows with these numbers.
pub(crate) fn numbered(numbers: std::ops::Range<i64>) -> Vec<String> {
    numbers.map(|n| json!({ "n": n }).to_string()).collect()
}

/// The flights of a table as JSON, one object for each; what is `NA` there is null.
pub(crate) fn as_json(table: &str) -> Vec<String> {
    let mut lines = table.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let wanted = ["origin", "dep_time", "dep_delay", "distance", "time_hour"];
    let columns: Vec<(usize, &str)> = wanted.map(|name| (header.iter().position(|column| *column == name).unwrap(), name)).into();
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            let mut row = Map::new();
            for (at, name) in &columns {
                let value = match (cells[*at], *name) {
                    ("NA", _) => Value::Null,
                    (text, "origin" | "time_hour") => text.into(),
                    (number, _) => number.parse::<i64>().unwrap().into(),
                };
                row.insert((*name).to_string(), value);
            }
            Value::Object(row).to_string()
        })
        .collect()
}

/// A row so late that everything before it is over, and whose own window is never over.
pub(crate) fn closing() -> &'static str {
    r#"{"origin":"END","dep_time":null,"dep_delay":null,"distance":0,"time_hour":"2014-06-01T00:00:00Z"}"#
}

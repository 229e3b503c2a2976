//! Plugins at both ends: `csv-dir`, windows, `jsonl`. Killed as a process, and again and again only as instances of plugins.

use crate::deck::Deck;
use crate::world::{Pipeline, World};
use crate::{Settings, disturb_with, kills};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use tidegate_tests::flights::{Extent, Flights, hourly_row};
use tidegate_tests::plugin;

/// The flights, a file for each of some parts of them, and what their windows are.
struct Split {
    folder: tempfile::TempDir,
    rows: u64,
    hourly: BTreeSet<String>,
}

impl Split {
    /// By month or day.
    fn new() -> Split {
        let flights = Flights::largest();
        let column = match flights.extent {
            Extent::Year => 1,
            Extent::Week => 2,
        };
        Split::by(&flights.text, column, flights.hourly)
    }

    /// A file for each value of a column.
    fn by(text: &str, column: usize, hourly: BTreeSet<String>) -> Split {
        let folder = tempfile::tempdir().unwrap();
        let (header, rows) = text.split_once('\n').unwrap();
        let mut files: BTreeMap<&str, String> = BTreeMap::new();
        for row in rows.lines() {
            let file = files.entry(row.split(',').nth(column).unwrap()).or_insert_with(|| format!("{header}\n"));
            file.push_str(row);
            file.push('\n');
        }
        assert!(files.len() > 5, "several splits");
        for (name, text) in &files {
            fs::write(folder.path().join(format!("{name}.csv")), text).unwrap();
        }
        Split { folder, rows: rows.lines().count() as u64, hourly }
    }

    fn pipeline(&self) -> Pipeline {
        let (csv, jsonl, data) = (plugin("csv-dir"), plugin("jsonl"), self.folder.path().display());
        let text = format!(
            r#"
name = "both-ends"
[settings]
batchRows = 512
[plugins.csv]
path = {csv:?}
allow = {{ dirs = ["{data}=/in"] }}
[plugins.jsonl]
path = {jsonl:?}
allow = {{ dirs = ["lines=/out:rw"] }}
[datasets.flights]
connector = "plugin"
plugin = "csv"
config = {{ dir = "/in", nulls = ["NA"], columns = [
  {{ name = "dep_time", type = "int64" }}, {{ name = "dep_delay", type = "int64" }}, {{ name = "origin", type = "string" }},
  {{ name = "distance", type = "int64" }}, {{ name = "time_hour", type = "timestamp_ms" }},
] }}
time = {{ column = "time_hour", outOfOrderness = "24h" }}
[datasets.hourly]
sink = "plugin"
plugin = "jsonl"
config = {{ dir = "/out" }}
require = "exactly-once"
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
]
"#
        );
        Pipeline::new("plugins at both ends", text, [("flights", self.rows)].into())
    }

    /// The output is what the windows are, each row once.
    fn check(&self, world: &World) {
        let rows = world.rows();
        let found: Vec<String> = rows["hourly"].iter().map(|line| hourly(line)).collect();
        assert_eq!(found.len(), self.hourly.len(), "rows");
        assert!(found.iter().collect::<BTreeSet<_>>() == self.hourly.iter().collect(), "the windows differ");
    }
}

/// A row as the other program writes it.
fn hourly(line: &str) -> String {
    hourly_row(&serde_json::from_str(line.split_once('\t').unwrap().1).unwrap())
}

/// `TIDEGATE_CHAOS_KILLS` sets how many; half of them, as it is one pipeline of many.
#[test]
fn plugins_at_both_ends_survive_the_death_of_the_process() {
    let flights = Split::new();
    let faults = Deck::default().deal(kills(12).div_ceil(2), &[]);
    let pipeline = flights.pipeline();
    let (_, world) = disturb_with(&pipeline, &faults, None);
    flights.check(&world);
}

/// How often an instance ends, and how often an epoch begins, in milliseconds: there must be time for one between two ends.
const TRAP_EVERY: u64 = 150;
const EPOCH_EVERY: u64 = 40;

/// `TIDEGATE_CHAOS_TRAPS` sets how many.
#[test]
fn plugins_at_both_ends_survive_the_end_of_their_instances() {
    let wanted: usize = std::env::var("TIDEGATE_CHAOS_TRAPS").map_or(30, |traps| traps.parse().unwrap());
    let flights = Split::new();
    let pipeline = flights.pipeline();
    let seconds = (wanted as u64 * TRAP_EVERY * 3 / 2) as f64 / 1000.0;
    let settings = Settings { every_ms: EPOCH_EVERY, trap_every_ms: Some(TRAP_EVERY), restarts: 1_000_000 };
    let world = World::new(&pipeline, Some(seconds)).with_settings(settings);
    let said = world.start(&[], false).succeed();
    let ended: Vec<&str> = said.lines().filter(|line| line.contains("a chaos run ended an instance")).collect();
    eprintln!("{} instances ended", ended.len());
    assert!(ended.len() >= wanted, "only {} instances ended:\n{said}", ended.len());
    for call in ["reader.poll", "writer.write", "writer.flush", "writer.prepare", "commit"] {
        assert!(ended.iter().any(|line| line.contains(&format!("\"{call}\""))), "no instance ended in `{call}`");
    }
    flights.check(&world);
}

//! The pipeline: bids with the label of their channel, each once, into files.

use crate::base::Base;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;
use tidegate_tests::process::{Run, pause};

/// When the first event is, in milliseconds; each is one millisecond after the one before.
const START: i64 = 1_704_067_200_000;
const STEP: Duration = Duration::from_millis(20);

/// A pipeline in a folder of its own.
pub(crate) struct Shop {
    folder: tempfile::TempDir,
    url: String,
    table: String,
    more: String,
    /// The generator's options.
    events: String,
}

/// A bid as it was written: its number among the events, its channel, its label.
type Bid = (i64, String, Option<String>);

impl Shop {
    /// `more` are further keys of the table's dataset.
    pub(crate) fn new(base: &dyn Base, more: &str) -> Self {
        let shop = Shop {
            folder: tempfile::tempdir().unwrap(),
            url: base.url(),
            table: base.table().to_string(),
            more: more.to_string(),
            events: "rate = 4000".to_string(),
        };
        shop.write();
        shop
    }

    /// With so many events, as fast as they can be made.
    pub(crate) fn ending(mut self, events: u64) -> Self {
        self.events = format!("events = {events}");
        self.write();
        self
    }

    /// With types that are written down, so that a plan asks nobody.
    pub(crate) fn declared(mut self) -> Self {
        self.more.push_str("\nschema = [{ name = \"channel\", type = \"string\" }, { name = \"label\", type = \"string\" }]");
        self.write();
        self
    }

    fn write(&self) {
        let Shop { table, more, events, .. } = self;
        let file = format!(
            r#"
name = "labelled-bids"
[settings]
parallelism = 2
checkpointEvery = "200ms"
restarts = {{ max = 50, within = "10m", backoff = "100ms..1s" }}
[datasets.bids]
connector = "nexmark"
kinds = ["bid"]
extra = false
stepMs = 1
startMs = {START}
{events}
[datasets.channels]
connector = "table"
url = "${{DATABASE}}"
table = "{table}"
key = "channel"
{more}
[datasets.out]
sink = "files"
path = "out"
format = "json"
timestamps = "epochMs"
require = "exactly-once"
[[stages]]
id = "label"
inputs = ["bids", "channels"]
output = "out"
steps = [
  {{ op = "lookupJoin", joinKey = "channel" }},
  {{ op = "select", columns = ["dateTime", "channel", "label"] }},
]
"#
        );
        fs::write(self.folder.path().join("shop.toml"), file).unwrap();
    }

    pub(crate) fn start(&self) -> Run {
        Run::start_with(&self.folder.path().join("shop.toml"), &["--takeover".to_string()], &[("DATABASE", self.url.clone())])
    }

    /// What can be read, in the order of events.
    fn read(&self) -> Vec<Bid> {
        let mut bids = Vec::new();
        for entry in fs::read_dir(self.folder.path().join("out")).into_iter().flatten() {
            let path = entry.unwrap().path();
            // What is not committed yet stands in a folder beside.
            if !path.is_file() {
                continue;
            }
            let Ok(text) = fs::read_to_string(&path) else { continue };
            for line in text.lines() {
                let row: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{}: {error}: {line}", path.display()));
                let label = row["label"].as_str().map(str::to_string);
                bids.push((row["dateTime"].as_i64().unwrap() - START, row["channel"].as_str().unwrap().to_string(), label));
            }
        }
        bids.sort();
        bids
    }

    /// How many bids can be read.
    pub(crate) fn bids(&self) -> usize {
        self.read().len()
    }

    /// Waits until the newest bid of a channel has this label; how long that took.
    pub(crate) fn wait_for(&self, channel: &str, label: Option<&str>, otherwise: &str) -> Duration {
        let mut waited = Duration::ZERO;
        loop {
            let bids = self.read();
            let newest = bids.iter().rev().find(|(_, of, _)| of == channel);
            if newest.is_some_and(|(_, _, found)| found.as_deref() == label) {
                return waited;
            }
            assert!(waited < Duration::from_secs(60), "{otherwise}: the newest of {channel} is {newest:?}");
            pause(STEP);
            waited += STEP;
        }
    }

    /// Every bid is there once, and the labels of a channel came in exactly this order.
    pub(crate) fn judge(&self, channels: &[(&str, &[Option<&str>])]) {
        let labels = self.labels();
        for (channel, expected) in channels {
            let found: Vec<Option<&str>> = labels[*channel].iter().map(Option::as_deref).collect();
            assert_eq!(found, *expected, "{channel}");
        }
    }

    /// Every bid is there once, and the labels of a channel came in this order, some perhaps not at all.
    pub(crate) fn judge_order(&self, channel: &str, order: &[Option<&str>]) {
        let labels = &self.labels()[channel];
        let mut left = order.iter();
        for label in labels {
            assert!(left.any(|next| *next == label.as_deref()), "{channel}: {labels:?} is not in the order of {order:?}");
        }
    }

    /// The labels of every channel as they changed, in the order of events.
    fn labels(&self) -> BTreeMap<String, Vec<Option<String>>> {
        let bids = self.read();
        let numbers: Vec<i64> = bids.iter().map(|(number, ..)| *number).collect();
        let last = *numbers.last().expect("no bid was written");
        // Of fifty events the first four are a person and three auctions.
        let expected: Vec<i64> = (0..=last).filter(|number| number % 50 >= 4).collect();
        assert!(numbers == expected, "{} bids of {} up to event {last}: some are missing or there twice", numbers.len(), expected.len());
        let mut labels: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
        for (_, channel, label) in bids {
            let known = labels.entry(channel).or_default();
            if known.last() != Some(&label) {
                known.push(label);
            }
        }
        labels
    }
}

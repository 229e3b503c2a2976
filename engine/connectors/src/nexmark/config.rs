//! The options of the generator.

use super::layout::Kinds;
use crate::registry::OptionDef;
use serde_json::{Map, Value};
use tidegate_api::config::{Options, Problem};

pub(super) const OPTIONS: &[OptionDef] = &[
    OptionDef { name: "events", kind: "integer", default: "unbounded", doc: "how many events to make, of all kinds" },
    OptionDef { name: "seed", kind: "integer", default: "42", doc: "another seed, other events" },
    OptionDef { name: "stepMs", kind: "integer", default: "10", doc: "event time from one event to the next" },
    OptionDef { name: "startMs", kind: "integer", default: "1704067200000", doc: "event time of event 0" },
    OptionDef { name: "rate", kind: "integer", default: "0", doc: "events a second; 0 for as fast as asked" },
    OptionDef {
        name: "partitions",
        kind: "integer",
        default: "1",
        doc: "splits; the number of tasks that can read, and part of what the stream is",
    },
    OptionDef { name: "outOfOrderMs", kind: "integer", default: "0", doc: "move each event's time back by up to this much" },
    OptionDef { name: "extra", kind: "boolean", default: "true", doc: "pad `extra` to the standard sizes; else it is empty" },
    OptionDef { name: "kinds", kind: "list of person, auction, bid", default: "all", doc: "the kinds of events to make rows of" },
];

/// Beyond this many events nothing is made; an unbounded source at 100 M events a second lasts for centuries.
const MOST: u64 = 1 << 60;

/// What the generator makes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NexmarkConfig {
    /// How many events; `None` without end.
    pub events: Option<u64>,
    /// Decides all draws.
    pub seed: u64,
    /// Event time from one event to the next.
    pub step_ms: i64,
    /// Event time of event 0.
    pub start_ms: i64,
    /// Events a second; 0 for as fast as asked.
    pub rate: u64,
    /// Splits.
    pub partitions: u64,
    /// How far an event's time may lie behind its place.
    pub out_of_order_ms: i64,
    /// Whether `extra` is padded.
    pub extra: bool,
    pub(super) kinds: Kinds,
}

impl Default for NexmarkConfig {
    fn default() -> Self {
        NexmarkConfig {
            events: None,
            seed: 42,
            step_ms: 10,
            start_ms: 1_704_067_200_000,
            rate: 0,
            partitions: 1,
            out_of_order_ms: 0,
            extra: true,
            kinds: Kinds::ALL,
        }
    }
}

impl NexmarkConfig {
    /// Reads the options of a dataset.
    ///
    /// # Errors
    /// Every mistake, each at its key.
    pub fn parse(map: &Map<String, Value>) -> Result<Self, Vec<Problem>> {
        let mut options = Options::new(map);
        let default = NexmarkConfig::default();
        let config = NexmarkConfig {
            events: options.unsigned("events"),
            // Any 64 bits are a seed.
            seed: options.integer("seed").map_or(default.seed, i64::cast_unsigned),
            step_ms: millis(&mut options, "step", default.step_ms),
            start_ms: options.integer("startMs").unwrap_or(default.start_ms),
            rate: options.unsigned("rate").unwrap_or(default.rate),
            partitions: options.unsigned("partitions").unwrap_or(default.partitions),
            out_of_order_ms: millis(&mut options, "outOfOrder", default.out_of_order_ms),
            extra: options.boolean("extra").unwrap_or(default.extra),
            kinds: kinds(&mut options),
        };
        if config.partitions == 0 || config.partitions > 65_536 {
            options.problem("partitions", "expected 1 to 65536");
        }
        if config.events.is_some_and(|events| events > config.most()) {
            options.problem("events", format!("at most {} events fit the range of event time", config.most()));
        }
        let problems = options.finish();
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    /// One past the last event.
    pub(super) fn end(&self) -> u64 {
        self.events.unwrap_or(MOST).min(self.most())
    }

    /// How many events have a time within a third of the range, which leaves room for auctions' ends and displacement.
    fn most(&self) -> u64 {
        let room = (i64::MAX / 3).saturating_sub(self.start_ms).max(0).cast_unsigned();
        MOST.min(room / self.step_ms.max(1).cast_unsigned())
    }
}

fn millis(options: &mut Options<'_>, base: &str, default: i64) -> i64 {
    options.duration(base).map_or(default, |duration| i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).min(1 << 40))
}

fn kinds(options: &mut Options<'_>) -> Kinds {
    let Some(names) = options.strings("kinds") else { return Kinds::ALL };
    let mut kinds = Kinds::NONE;
    for name in &names {
        match Kinds::named(name) {
            Some(kind) => kinds = kinds.with(kind),
            None => {
                let hint = tidegate_api::nearest::hint(name, ["person", "auction", "bid"]);
                options.problem("kinds", format!("unknown kind `{name}`{hint}"));
            }
        }
    }
    if names.is_empty() {
        options.problem("kinds", "expected at least one of `person`, `auction`, `bid`");
    }
    kinds
}

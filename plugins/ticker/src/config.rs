//! What the pipeline file says: `config = { rows = 1000, splits = 4, intervalMs = 10, startMs = 0 }`.

use serde::Deserialize;
use tidegate_sdk::{Error, Result};

/// The configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(crate) struct Config {
    /// How many ticks there are in all; none: no end.
    pub(crate) rows: Option<u64>,
    /// How many splits they are dealt out to.
    pub(crate) splits: u64,
    /// Event time between ticks.
    pub(crate) interval_ms: i64,
    /// Event time of the first.
    pub(crate) start_ms: i64,
}

impl Default for Config {
    fn default() -> Self {
        Config { rows: None, splits: 1, interval_ms: 1000, start_ms: 0 }
    }
}

impl Config {
    /// What the types cannot say.
    pub(crate) fn check(&self) -> Result<()> {
        if !(1..=1024).contains(&self.splits) {
            return Err(Error::config(format!("`splits` is {}; 1 to 1024 are possible", self.splits)));
        }
        if self.interval_ms < 0 {
            return Err(Error::config(format!("`intervalMs` is {}; time does not run backwards", self.interval_ms)));
        }
        Ok(())
    }

    /// The event time of tick `seq`. Past the end of the calendar it stands still.
    pub(crate) fn time_ms(&self, seq: u64) -> i64 {
        let passed = self.interval_ms.saturating_mul(i64::try_from(seq).unwrap_or(i64::MAX));
        self.start_ms.saturating_add(passed)
    }
}

/// The JSON Schema of the configuration.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "rows": { "type": "integer", "minimum": 0, "description": "ticks in all; without it there is no end" },
    "splits": { "type": "integer", "minimum": 1, "maximum": 1024, "default": 1, "description": "splits the ticks are dealt out to" },
    "intervalMs": { "type": "integer", "minimum": 0, "default": 1000, "description": "event time between ticks" },
    "startMs": { "type": "integer", "default": 0, "description": "event time of the first tick" }
  }
}"#;

/// What `plugin inspect` shows.
pub(crate) const MANIFEST: &str = r#"{"description": "evenly spaced ticks, replayable from any position", "grants": {}}"#;

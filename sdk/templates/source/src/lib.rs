//! Reads the collections of an HTTP API page by page, in columns `collection`, `id`, `name` and `amount`.
//!
//! `GET URL/COLLECTION?limit=N&cursor=C` answers `{"items": [{"id": 1, "name": "tea", "amount": 2.5}],
//! "next": "C2"}`; the last page has no `next`, and may have more items later. A collection is a
//! split, and a page with the number of its items that were read is the position in it.

mod pages;

use pages::{Pages, Reading};
use serde::Deserialize;
use std::time::{Duration, Instant};
use tidegate_sdk::arrow::schema::{DataType, Field, Schema};
use tidegate_sdk::{
    Discovered, Info, PollRequest, Polled, Result, Scope, Source, SourcePlan, Split, SplitState,
    export_source,
};

/// `config = { url = "https://api.example.com/v1", collections = ["orders"] }` in the pipeline file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Config {
    url: String,
    collections: Vec<String>,
    #[serde(default = "page_rows")]
    page_rows: u32,
    #[serde(default = "interval_ms")]
    interval_ms: u32,
}

fn page_rows() -> u32 {
    500
}

fn interval_ms() -> u32 {
    10_000
}

const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["url", "collections"],
  "properties": {
    "url": { "type": "string", "description": "where the API stands; its origin is granted in `allow.http`" },
    "collections": { "type": "array", "items": { "type": "string" }, "description": "what to read" },
    "pageRows": { "type": "integer", "default": 500, "description": "the items of a page" },
    "intervalMs": { "type": "integer", "default": 10000, "description": "how long to wait at the end" }
  }
}"#;

const MANIFEST: &str = r#"{
  "description": "the collections of an HTTP API, page by page, with the secret `token`",
  "grants": { "http": ["https://HOST"] }
}"#;

struct Api {
    interval: Duration,
    pages: Pages,
    readings: Vec<Reading>,
}

impl Source for Api {
    type Config = Config;

    fn info() -> Info {
        Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))
            .with_config_schema(SCHEMA)
            .with_manifest(MANIFEST)
    }

    /// Called while planning: what rows there will be. There is no end to them.
    fn bind(config: &Config, _: &Scope, _: Option<&[String]>) -> Result<SourcePlan> {
        Pages::new(config)?;
        Ok(SourcePlan::new(schema()))
    }

    /// Called at every start, and again and again. The cursor has the collections that were named.
    fn discover(config: &Config, _: &Scope, cursor: Option<&[u8]>) -> Result<Discovered> {
        let mut named = String::from_utf8_lossy(cursor.unwrap_or_default()).into_owned();
        let mut added = Vec::new();
        for id in &config.collections {
            if !named.lines().any(|line| line == id) {
                named.push_str(id);
                named.push('\n');
                added.push(Split {
                    id: id.clone(),
                    details: Vec::new(),
                    position: None,
                });
            }
        }
        Ok(Discovered {
            added,
            gone: Vec::new(),
            cursor: Some(named.into_bytes()),
        })
    }

    fn open(config: Config, _: &Scope, _: Option<&[String]>) -> Result<Self> {
        Ok(Api {
            interval: Duration::from_millis(config.interval_ms.into()),
            pages: Pages::new(&config)?,
            readings: Vec::new(),
        })
    }

    /// Called with the splits of this task, at the positions that the last checkpoint has.
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        for split in splits {
            self.readings.push(Reading::new(split)?);
        }
        Ok(())
    }

    /// Called again and again: reads on in the split that has waited for the longest time.
    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let now = Instant::now();
        let next = self.readings.iter_mut().min_by_key(|reading| reading.due);
        let Some(reading) = next else {
            polled.retry_after = Some(Duration::from_secs(1));
            return Ok(polled);
        };
        if reading.due > now {
            polled.retry_after = Some(reading.due - now);
            return Ok(polled);
        }
        // One that fails is asked again behind the others. Busy and broken servers are `Retryable`,
        // with their `Retry-After`: the engine waits and polls again, and nothing was taken.
        reading.due = now;
        let (chunk, at_end) = reading.read(&self.pages, request)?;
        polled.chunks.push(chunk);
        if at_end {
            reading.due = now + self.interval;
            let state = (reading.id().to_owned(), SplitState::CaughtUp);
            polled.states.push(state);
        }
        Ok(polled)
    }
}

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("collection", DataType::Utf8, false),
        Field::new("id", DataType::Int64, false),
        Field::new("name", DataType::Utf8, true),
        Field::new("amount", DataType::Float64, true),
    ])
}

export_source!(Api);

#[cfg(test)]
mod tests;

//! What the pipeline file says: `config = { url = "https://api.example.com/rows", authorization = "apiToken", idempotencyKey = true }`.

use http_options::{Client, TIMEOUT_MS};
use serde::Deserialize;
use std::collections::BTreeMap;
use tidegate_sdk::net::Url;
use tidegate_sdk::{Error, Result};

/// The configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Config {
    /// Where to post.
    pub(crate) url: String,
    /// How the rows of a request are written.
    #[serde(default)]
    pub(crate) format: Format,
    /// The most rows of a request.
    #[serde(default = "max_rows")]
    pub(crate) max_rows: usize,
    /// About the most bytes of a request; one row may exceed it.
    #[serde(default = "max_bytes")]
    pub(crate) max_bytes: usize,
    /// Whether each row has a request of its own.
    #[serde(default)]
    pub(crate) per_row: bool,
    /// Whether a request may have rows of several batches.
    #[serde(default)]
    pub(crate) across_batches: bool,
    /// Whether requests have a key by which a server knows one that comes again.
    #[serde(default)]
    pub(crate) idempotency_key: bool,
    /// More headers.
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// The secret that is the value of the header `Authorization`.
    #[serde(default)]
    authorization: Option<String>,
    /// How long an answer may take.
    #[serde(default = "timeout_ms")]
    timeout_ms: u64,
}

/// How the rows of a request are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Format {
    /// One object per line.
    #[default]
    Lines,
    /// One array of objects.
    Array,
}

fn max_rows() -> usize {
    500
}

fn max_bytes() -> usize {
    1 << 20
}

fn timeout_ms() -> u64 {
    TIMEOUT_MS
}

/// The most that `maxBytes` may be: so much, and the batch that exceeds it, stands in memory twice.
const MOST_BYTES: usize = 32 << 20;

impl Config {
    /// What the types cannot say; the address and what makes requests to it.
    pub(crate) fn check(&self) -> Result<(Url, Client)> {
        if self.max_rows == 0 {
            return Err(Error::config("`maxRows` is 0, and a request has at least one row"));
        }
        if !(1..=MOST_BYTES).contains(&self.max_bytes) {
            return Err(Error::config(format!("`maxBytes` is {}, and 1 to {MOST_BYTES} are possible", self.max_bytes)));
        }
        let client = Client::new(&self.headers, self.authorization.as_deref(), self.timeout_ms, &["idempotency-key", "content-length"])?;
        Ok((Url::parse(&self.url).map_err(|error| error.context("`url`"))?, client))
    }

    /// The content type of a request, if `headers` has none.
    pub(crate) fn content_type(&self) -> Option<&'static str> {
        if self.headers.keys().any(|name| name.eq_ignore_ascii_case("content-type")) {
            return None;
        }
        Some(if self.format == Format::Lines && !self.per_row { "application/x-ndjson" } else { "application/json" })
    }
}

/// The JSON Schema of the configuration.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["url"],
  "properties": {
    "url": { "type": "string", "description": "where to post; its origin is granted in allow.http" },
    "format": { "enum": ["lines", "array"], "default": "lines", "description": "one JSON object per line, or one array" },
    "maxRows": { "type": "integer", "minimum": 1, "default": 500, "description": "the most rows of a request" },
    "maxBytes": { "type": "integer", "minimum": 1, "maximum": 33554432, "default": 1048576, "description": "about the most bytes of a request" },
    "perRow": { "type": "boolean", "default": false, "description": "whether each row has a request of its own, its body the bare object" },
    "acrossBatches": { "type": "boolean", "default": false, "description": "whether a request may have rows of several batches; rows that are refused then end the run" },
    "idempotencyKey": { "type": "boolean", "default": false, "description": "whether requests have an Idempotency-Key; with perRow the sink is idempotent" },
    "headers": { "type": "object", "additionalProperties": { "type": "string" }, "default": {}, "description": "more headers" },
    "authorization": { "type": "string", "description": "the secret that is the value of the header Authorization" },
    "timeoutMs": { "type": "integer", "minimum": 1, "default": 25000, "description": "how long an answer may take" }
  }
}"#;

/// What `plugin inspect` shows.
pub(crate) const MANIFEST: &str =
    r#"{"description": "rows posted to a URL, at least once or idempotent", "grants": {"http": ["https://HOST"]}}"#;

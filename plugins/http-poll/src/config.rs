//! What the pipeline file says: `config = { url = "https://api.example.com/rows", rows = "items", columns = [{ name = "id", type = "int64" }], nextField = "next", cursorParam = "after" }`.

use http_options::{Client, TIMEOUT_MS};
use json_values::{Step, parse_path};
use serde::Deserialize;
use std::collections::BTreeMap;
use text_values::ValueType;
use tidegate_sdk::net::Url;
use tidegate_sdk::{Error, Result};

/// The configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Config {
    /// The first page.
    pub(crate) url: String,
    /// How rows stand in a page.
    #[serde(default)]
    pub(crate) format: Format,
    /// Where the array of rows stands; none: the page is the array.
    #[serde(default)]
    rows: Option<String>,
    /// The columns to read.
    pub(crate) columns: Vec<Column>,
    /// Where a page names the next one.
    #[serde(default)]
    next_field: Option<String>,
    /// The parameter that takes what `nextField` has; none: that is the address of the next page.
    #[serde(default)]
    pub(crate) cursor_param: Option<String>,
    /// Whether the header `Link` names the next page.
    #[serde(default)]
    pub(crate) next_link: bool,
    /// Whether to ask again when all was read.
    #[serde(default)]
    pub(crate) watch: bool,
    /// How long to wait before asking again.
    #[serde(default = "interval_ms")]
    pub(crate) interval_ms: u64,
    /// What becomes of values that are not of their type.
    #[serde(default)]
    pub(crate) on_error: OnError,
    /// Whether the API gives the same rows for the same page.
    #[serde(default)]
    replayable: Option<bool>,
    /// The most bytes of a page.
    #[serde(default = "max_page_bytes")]
    pub(crate) max_page_bytes: usize,
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

/// How rows stand in a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Format {
    /// In an array.
    #[default]
    Array,
    /// One JSON text per line.
    Lines,
}

/// What becomes of a value that cannot be had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum OnError {
    /// A null.
    #[default]
    Null,
    /// Its row is a bad record.
    Bad,
}

/// A column.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    /// Its name.
    pub(crate) name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub(crate) value_type: ValueType,
    /// Where its value stands in a row; none: in the member of its name.
    #[serde(default)]
    path: Option<String>,
}

fn interval_ms() -> u64 {
    10_000
}

fn max_page_bytes() -> usize {
    8 << 20
}

fn timeout_ms() -> u64 {
    TIMEOUT_MS
}

/// The most that `maxPageBytes` may be: a page stands in memory twice while it is taken apart.
const MOST_PAGE_BYTES: usize = 64 << 20;

impl Column {
    /// Where its value stands in a row.
    pub(crate) fn steps(&self) -> Result<Vec<Step>> {
        match &self.path {
            Some(path) => parse_path(path),
            None => Ok(vec![Step::Key(self.name.clone())]),
        }
    }
}

impl Config {
    /// Where the rows stand in a page.
    pub(crate) fn rows(&self) -> Result<Option<Vec<Step>>> {
        self.rows.as_deref().map(parse_path).transpose()
    }

    /// Where a page names the next one.
    pub(crate) fn next_field(&self) -> Result<Option<Vec<Step>>> {
        self.next_field.as_deref().map(parse_path).transpose()
    }

    /// Whether there is more than one page.
    pub(crate) fn is_paged(&self) -> bool {
        self.next_link || self.next_field.is_some()
    }

    /// Whether a position read again gives the same rows: what the file says, or what is usual.
    pub(crate) fn is_replayable(&self) -> bool {
        self.replayable.unwrap_or_else(|| self.is_paged())
    }

    /// What the types cannot say; the address and what makes requests to it.
    pub(crate) fn check(&self) -> Result<(Url, Client)> {
        if self.columns.is_empty() {
            return Err(Error::config("`columns` is empty; name the columns to read"));
        }
        for (index, column) in self.columns.iter().enumerate() {
            column.steps()?;
            if self.columns[..index].iter().any(|other| other.name == column.name) {
                return Err(Error::config(format!("`columns` has the name `{}` twice", column.name)));
            }
        }
        self.rows()?;
        self.next_field()?;
        if self.next_link && self.next_field.is_some() {
            return Err(Error::config("`nextLink` and `nextField` both say where the next page is; leave one out"));
        }
        if self.cursor_param.is_some() && self.next_field.is_none() {
            return Err(Error::config("`cursorParam` is set, and `nextField` does not say where its value is"));
        }
        if self.format == Format::Lines && (self.rows.is_some() || self.next_field.is_some()) {
            return Err(Error::config("`format` is `lines`, where every line is a row, so `rows` and `nextField` name nothing"));
        }
        if !(1..=MOST_PAGE_BYTES).contains(&self.max_page_bytes) {
            return Err(Error::config(format!("`maxPageBytes` is {}, and 1 to {MOST_PAGE_BYTES} are possible", self.max_page_bytes)));
        }
        let client = Client::new(&self.headers, self.authorization.as_deref(), self.timeout_ms, &["if-none-match"])?;
        Ok((Url::parse(&self.url).map_err(|error| error.context("`url`"))?, client))
    }
}

/// The JSON Schema of the configuration.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["url", "columns"],
  "properties": {
    "url": { "type": "string", "description": "the first page; its origin is granted in allow.http" },
    "format": { "enum": ["array", "lines"], "default": "array", "description": "rows in a JSON array, or one per line" },
    "rows": { "type": "string", "description": "where the array stands in a page, as data.items; without it the page is the array" },
    "columns": {
      "type": "array",
      "minItems": 1,
      "items": {
        "type": "object",
        "additionalProperties": false,
        "required": ["name", "type"],
        "properties": {
          "name": { "type": "string" },
          "path": { "type": "string", "description": "where the value stands in a row: a.b[0].c; without it in the member of the name" },
          "type": { "enum": ["int64", "float64", "bool", "string", "timestamp_ms"] }
        }
      }
    },
    "nextField": { "type": "string", "description": "where a page names the next one; missing, null or empty: it is the last" },
    "cursorParam": { "type": "string", "description": "the parameter that takes the value of nextField; without it that is the next page's address" },
    "nextLink": { "type": "boolean", "default": false, "description": "whether the header Link names the next page with rel=next" },
    "watch": { "type": "boolean", "default": false, "description": "whether to ask again when all was read; without it the input ends" },
    "intervalMs": { "type": "integer", "minimum": 0, "default": 10000, "description": "how long to wait before asking again" },
    "onError": { "enum": ["null", "bad"], "default": "null", "description": "what is not of its type: null, or a bad record" },
    "replayable": { "type": "boolean", "description": "whether the API gives the same rows for the same page; without it true where there are pages" },
    "maxPageBytes": { "type": "integer", "minimum": 1, "maximum": 67108864, "default": 8388608, "description": "the most bytes of a page" },
    "headers": { "type": "object", "additionalProperties": { "type": "string" }, "default": {}, "description": "more headers" },
    "authorization": { "type": "string", "description": "the secret that is the value of the header Authorization" },
    "timeoutMs": { "type": "integer", "minimum": 1, "default": 25000, "description": "how long an answer may take" }
  }
}"#;

/// What `plugin inspect` shows.
pub(crate) const MANIFEST: &str = r#"{"description": "rows of an HTTP API, page by page or polled", "grants": {"http": ["https://HOST"]}}"#;

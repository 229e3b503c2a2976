//! What the pipeline file says: `config = { bucket = "lake", prefix = "flights/", region = "eu-central-1" }`.

use serde::Deserialize;
use std::time::Duration;
use tidegate_sdk::net::Url;
use tidegate_sdk::net::http::Timeouts;
use tidegate_sdk::{Error, Result, secrets};

/// The names of the secrets.
pub(crate) const ACCESS_KEY: &str = "accessKeyId";
pub(crate) const SECRET_KEY: &str = "secretAccessKey";

/// The configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Config {
    /// The bucket.
    pub(crate) bucket: String,
    /// What the names of all objects begin with: a folder, so to speak.
    #[serde(default)]
    pub(crate) prefix: String,
    /// The region that requests are signed for.
    #[serde(default = "region")]
    pub(crate) region: String,
    /// The server; none: Amazon's of the region.
    #[serde(default)]
    endpoint: Option<String>,
    /// Whether the bucket stands in the path of a request, and not in its host.
    #[serde(default = "path_style")]
    pub(crate) path_style: bool,
    /// The bytes of a part.
    #[serde(default = "part_bytes")]
    pub(crate) part_bytes: usize,
    /// How long an answer may take.
    #[serde(default = "timeout_ms")]
    timeout_ms: u64,
}

fn region() -> String {
    "us-east-1".into()
}

fn path_style() -> bool {
    true
}

/// Less is refused by every server, but for the last part.
const LEAST_PART: usize = 5 << 20;
/// A part stands in memory twice while it is sent.
const MOST_PART: usize = 64 << 20;

fn part_bytes() -> usize {
    8 << 20
}

fn timeout_ms() -> u64 {
    25_000
}

impl Config {
    /// What the types cannot say.
    pub(crate) fn check(&self) -> Result<()> {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
        if self.bucket.is_empty() || !self.bucket.bytes().all(plain) {
            return Err(Error::config(format!("`bucket` is `{}`; lower-case letters, digits, `-` and `.` are possible", self.bucket)));
        }
        // Names of different sinks must never begin alike.
        if !self.prefix.is_empty() && (!self.prefix.ends_with('/') || self.prefix.starts_with('/')) {
            return Err(Error::config(format!("`prefix` is `{}`; it ends with `/` and does not begin with one", self.prefix)));
        }
        if self.prefix.len() > 400 || self.prefix.bytes().any(|byte| byte < b' ') {
            return Err(Error::config("`prefix` has at most 400 bytes, and no control characters"));
        }
        if !(LEAST_PART..=MOST_PART).contains(&self.part_bytes) {
            return Err(Error::config(format!("`partBytes` is {}, and {LEAST_PART} to {MOST_PART} are possible", self.part_bytes)));
        }
        if self.timeout_ms == 0 {
            return Err(Error::config("`timeoutMs` is 0, and every answer takes longer"));
        }
        self.server()?;
        for name in [ACCESS_KEY, SECRET_KEY] {
            secrets::get(name)?;
        }
        Ok(())
    }

    /// The server, with the bucket in its name if it stands there.
    pub(crate) fn server(&self) -> Result<Url> {
        let amazon = || format!("https://s3.{}.amazonaws.com", self.region);
        let server = Url::parse(&self.endpoint.clone().unwrap_or_else(amazon)).map_err(|error| error.context("`endpoint`"))?;
        if server.target() != "/" {
            return Err(Error::config(format!("`endpoint` is `{server}`; it has no path")));
        }
        if self.path_style {
            return Ok(server);
        }
        let scheme = if server.is_secure() { "https" } else { "http" };
        Url::parse(&format!("{scheme}://{}.{}", self.bucket, server.authority()))
    }

    /// How long to wait for an answer.
    pub(crate) fn timeouts(&self) -> Timeouts {
        let patience = Duration::from_millis(self.timeout_ms);
        Timeouts { connect: patience.min(Timeouts::default().connect), first_byte: patience, between_bytes: patience }
    }
}

/// The JSON Schema of the configuration.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["bucket"],
  "properties": {
    "bucket": { "type": "string", "description": "the bucket" },
    "prefix": { "type": "string", "default": "", "description": "what the names of all objects begin with; ends with /" },
    "region": { "type": "string", "default": "us-east-1", "description": "the region that requests are signed for" },
    "endpoint": { "type": "string", "description": "the server; without it Amazon's of the region; its origin is granted in allow.http" },
    "pathStyle": { "type": "boolean", "default": true, "description": "whether the bucket stands in the path of a request, and not in its host" },
    "partBytes": { "type": "integer", "minimum": 5242880, "maximum": 67108864, "default": 8388608, "description": "the bytes of a part of an upload" },
    "timeoutMs": { "type": "integer", "minimum": 1, "default": 25000, "description": "how long an answer may take" }
  }
}"#;

/// What `plugin inspect` shows.
pub(crate) const MANIFEST: &str = r#"{"description": "newline JSON objects in an S3 bucket, exactly once", "grants": {"http": ["https://s3.REGION.amazonaws.com"], "clock": true}}"#;

//! What the pipeline file says: `config = { addresses = ["feed.example.com:9000"] }`.

use serde::Deserialize;
use std::time::Duration;
use tidegate_sdk::{Error, Result};

/// The configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Config {
    /// Hosts with ports.
    pub(crate) addresses: Vec<String>,
    /// The longest line.
    #[serde(default = "max_line_bytes")]
    pub(crate) max_line_bytes: usize,
    /// What becomes of a line without an end, when its connection ends.
    #[serde(default)]
    pub(crate) last_line: LastLine,
    /// Whether to connect again when a connection ends.
    #[serde(default = "reconnect")]
    pub(crate) reconnect: bool,
    /// How long to wait before connecting again; doubles while it fails.
    #[serde(default = "reconnect_ms")]
    reconnect_ms: u64,
    /// The longest such wait.
    #[serde(default = "max_reconnect_ms")]
    max_reconnect_ms: u64,
    /// How long a connection may take to be made.
    #[serde(default = "connect_timeout_ms")]
    connect_timeout_ms: u64,
}

/// What becomes of a line without an end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum LastLine {
    /// A bad record: nobody knows whether it is whole.
    #[default]
    Bad,
    /// A row.
    Row,
}

fn max_line_bytes() -> usize {
    64 << 10
}

fn reconnect() -> bool {
    true
}

fn reconnect_ms() -> u64 {
    200
}

fn max_reconnect_ms() -> u64 {
    30_000
}

fn connect_timeout_ms() -> u64 {
    2000
}

/// The most that `maxLineBytes` may be: each connection holds one line.
const MOST_LINE_BYTES: usize = 8 << 20;

/// Host and port of an address.
pub(crate) fn host_and_port(address: &str) -> Result<(&str, u16)> {
    let wrong = || Error::config(format!("`addresses` has `{address}`, and a host and a port are wanted, as in `feed.example.com:9000`"));
    let (host, port) = address.rsplit_once(':').ok_or_else(wrong)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let port = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    // An IPv6 address stands in brackets, or its last group would be taken for the port.
    if bare.is_empty() || (bare == host && host.contains(':')) || host.contains(['/', ' ', '\n']) || host.len() > 255 {
        return Err(wrong());
    }
    Ok((bare, port))
}

impl Config {
    /// What the types cannot say.
    pub(crate) fn check(&self) -> Result<()> {
        if self.addresses.is_empty() {
            return Err(Error::config("`addresses` is empty; name a host and port to read from"));
        }
        for (index, address) in self.addresses.iter().enumerate() {
            host_and_port(address)?;
            if self.addresses[..index].contains(address) {
                return Err(Error::config(format!("`addresses` has `{address}` twice")));
            }
        }
        if !(1..=MOST_LINE_BYTES).contains(&self.max_line_bytes) {
            return Err(Error::config(format!("`maxLineBytes` is {}, and 1 to {MOST_LINE_BYTES} are possible", self.max_line_bytes)));
        }
        if self.reconnect_ms == 0 || self.max_reconnect_ms < self.reconnect_ms {
            return Err(Error::config("`reconnectMs` is at least 1 and not more than `maxReconnectMs`"));
        }
        Ok(())
    }

    /// How long to wait before connecting again.
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(self.reconnect_ms)
    }

    /// The longest such wait.
    pub(crate) fn longest_pause(&self) -> Duration {
        Duration::from_millis(self.max_reconnect_ms)
    }

    /// How long a connection may take to be made.
    pub(crate) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }
}

/// The JSON Schema of the configuration.
pub(crate) const SCHEMA: &str = r#"{
  "type": "object",
  "additionalProperties": false,
  "required": ["addresses"],
  "properties": {
    "addresses": { "type": "array", "minItems": 1, "items": { "type": "string" }, "description": "hosts with ports, each granted in allow.tcp" },
    "maxLineBytes": { "type": "integer", "minimum": 1, "maximum": 8388608, "default": 65536, "description": "the longest line; a longer one is a bad record" },
    "lastLine": { "enum": ["bad", "row"], "default": "bad", "description": "what becomes of a line without an end, when its connection ends" },
    "reconnect": { "type": "boolean", "default": true, "description": "whether to connect again when a connection ends; without it the input ends" },
    "reconnectMs": { "type": "integer", "minimum": 1, "default": 200, "description": "how long to wait before connecting again; doubles while it fails" },
    "maxReconnectMs": { "type": "integer", "minimum": 1, "default": 30000, "description": "the longest such wait" },
    "connectTimeoutMs": { "type": "integer", "minimum": 0, "default": 2000, "description": "how long a connection may take to be made" }
  }
}"#;

/// What `plugin inspect` shows.
pub(crate) const MANIFEST: &str = r#"{"description": "lines that servers send over TCP, at most once", "grants": {"tcp": ["HOST:PORT"]}}"#;

#[cfg(test)]
mod tests {
    use super::host_and_port;

    #[test]
    fn addresses_are_hosts_with_ports() {
        assert_eq!(host_and_port("feed.example.com:9000"), Ok(("feed.example.com", 9000)));
        assert_eq!(host_and_port("[::1]:7"), Ok(("::1", 7)));
        for wrong in ["", "h", "h:", ":7", "h:0", "h:70000", "::1:7", "h/x:7", "[]:7", "a b:7"] {
            assert!(host_and_port(wrong).is_err(), "{wrong}");
        }
    }
}

//! Rows that were taken and are not delivered yet, and the requests that deliver them.

use crate::config::{Config, Format};
use http_options::Client;
use sha2::{Digest, Sha256};
use std::collections::VecDeque;
use tidegate_sdk::net::Url;
use tidegate_sdk::net::http::passes_by_itself;
use tidegate_sdk::{Error, Result, RowError, Scope, metrics};

/// Counts requests that were answered with success.
const REQUESTS: &str = "requests";

/// A row.
struct Row {
    /// Among the rows taken since the last flush.
    index: u64,
    /// Its line, without the end.
    json: Vec<u8>,
    /// Its deterministic key, where requests are to have keys.
    key: Option<Vec<u8>>,
}

/// Rows wait here until a server has said that it has them; only then they leave.
pub(crate) struct Pending {
    config: Config,
    url: Url,
    client: Client,
    /// What keys of other runs and operators differ by.
    namespace: Vec<u8>,
    rows: VecDeque<Row>,
    bytes: usize,
    taken: u64,
    bad: Vec<RowError>,
}

impl Pending {
    pub(crate) fn new(config: Config, scope: &Scope) -> Result<Self> {
        let (url, client) = config.check()?;
        let mut namespace = Vec::new();
        for part in [&scope.run_id, &scope.operator] {
            namespace.extend((part.len() as u64).to_le_bytes());
            namespace.extend(part.as_bytes());
        }
        Ok(Pending { config, url, client, namespace, rows: VecDeque::new(), bytes: 0, taken: 0, bad: Vec::new() })
    }

    /// Takes a row.
    pub(crate) fn push(&mut self, json: &[u8], key: Option<&[u8]>) {
        self.bytes += json.len();
        self.rows.push_back(Row { index: self.taken, json: json.to_vec(), key: key.map(<[u8]>::to_vec) });
        self.taken += 1;
    }

    /// Forgets the rows that wait.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.bad.clear();
        (self.bytes, self.taken) = (0, 0);
    }

    /// Sends requests as long as there are enough rows for a full one.
    pub(crate) fn send_full(&mut self) -> Result<()> {
        let most = if self.config.per_row { 1 } else { self.config.max_rows };
        while self.rows.len() >= most || self.bytes >= self.config.max_bytes {
            self.send_one()?;
        }
        Ok(())
    }

    /// Sends everything; gives the rows that were refused since the last call.
    pub(crate) fn flush(&mut self) -> Result<Vec<RowError>> {
        while !self.rows.is_empty() {
            self.send_one()?;
        }
        self.taken = 0;
        Ok(std::mem::take(&mut self.bad))
    }

    /// How many rows the next request has. Asked again before they are delivered, it says the same.
    fn next_count(&self) -> usize {
        if self.config.per_row {
            return 1;
        }
        let mut bytes = 0;
        let fitting = self.rows.iter().take(self.config.max_rows).take_while(|row| {
            bytes += row.json.len() + 1;
            bytes <= self.config.max_bytes
        });
        fitting.count().max(1)
    }

    fn send_one(&mut self) -> Result<()> {
        let count = self.next_count().min(self.rows.len());
        let rows: Vec<&Row> = self.rows.iter().take(count).collect();
        let mut request = self.client.request("POST", self.url.clone())?;
        if let Some(content_type) = self.config.content_type() {
            request = request.with_header("content-type", content_type);
        }
        if self.config.idempotency_key {
            request = request.with_header("idempotency-key", self.key_of(&rows));
        }
        let answer = request.with_body(self.body(&rows)).send()?;
        if answer.is_success() {
            metrics::count(REQUESTS, 1);
        } else {
            let status = answer.status;
            let error = answer.refusal();
            if !convicts(status) {
                return Err(error.context(format_args!("POST {}", self.url.origin())));
            }
            let message = if count == 1 { error.message().to_owned() } else { format!("{error} (a request of {count} rows)") };
            self.bad.extend(rows.iter().map(|row| RowError { row: row.index, column: None, message: message.clone() }));
        }
        for row in self.rows.drain(..count) {
            self.bytes -= row.json.len();
        }
        Ok(())
    }

    fn body(&self, rows: &[&Row]) -> Vec<u8> {
        let mut body = Vec::with_capacity(rows.iter().map(|row| row.json.len() + 1).sum::<usize>() + 2);
        match (rows, self.config.format) {
            ([row], _) if self.config.per_row => body.extend_from_slice(&row.json),
            (rows, Format::Lines) => rows.iter().for_each(|row| {
                body.extend_from_slice(&row.json);
                body.push(b'\n');
            }),
            (rows, Format::Array) => {
                for (at, row) in rows.iter().enumerate() {
                    body.push(if at == 0 { b'[' } else { b',' });
                    body.extend_from_slice(&row.json);
                }
                body.push(b']');
            }
        }
        body
    }

    /// Of all rows, not only of the first: a request that begins alike and has more rows must not be taken for one that was seen.
    fn key_of(&self, rows: &[&Row]) -> String {
        let mut digest = Sha256::new();
        digest.update(&self.namespace);
        for row in rows {
            let key = row.key.as_deref().unwrap_or_default();
            digest.update((key.len() as u64).to_le_bytes());
            digest.update(key);
        }
        digest.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Whether a status speaks about the rows of a request. What does not is about the address or who asks, and would cost every row.
fn convicts(status: u16) -> bool {
    (400..500).contains(&status) && !passes_by_itself(status) && !matches!(status, 401 | 403 | 404 | 405 | 407 | 410)
}

/// What a row without a key where one is wanted comes to.
pub(crate) fn no_keys() -> Error {
    Error::fatal("the host gave no keys, and `idempotencyKey` needs them")
}

//! Requests, one at a time: a request is sent whole, the answer's body is read as it comes.
//!
//! Redirects are not followed: an answer of 3xx is an answer. A request has a connection of its own.

use super::{Url, date};
use crate::{Error, Result};
use std::fmt;
use std::io::{self, Read};
use std::time::Duration;

/// How much of a body that says why is shown.
const SHOWN: usize = 300;

/// How long a request may wait for each step. The host's `limits.ioTimeout` is a bound to each, whatever stands here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For the connection, names and TLS included.
    pub connect: Duration,
    /// From the request's end to the answer's first byte.
    pub first_byte: Duration,
    /// From one piece of the body to the next.
    pub between_bytes: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts { connect: Duration::from_secs(10), first_byte: Duration::from_secs(25), between_bytes: Duration::from_secs(25) }
    }
}

/// A request.
#[derive(Clone)]
pub struct Request {
    /// `GET`, `POST` and so on, in capitals.
    pub method: &'static str,
    /// Where to.
    pub url: Url,
    /// In order. `Host` and `Content-Length` are made of the others.
    pub headers: Vec<(String, String)>,
    /// May be empty.
    pub body: Vec<u8>,
    /// How long to wait.
    pub timeouts: Timeouts,
}

impl Request {
    /// Without headers and body.
    pub fn new(method: &'static str, url: Url) -> Self {
        Request { method, url, headers: Vec::new(), body: Vec::new(), timeouts: Timeouts::default() }
    }

    /// With one more header.
    #[must_use]
    pub fn with_header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// With a body.
    #[must_use]
    pub fn with_body(mut self, body: Vec<u8>) -> Self {
        self.body = body;
        self
    }

    /// With other timeouts.
    #[must_use]
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// The value of a header, whatever the case of its name.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// Sends it and waits for the answer's head. Any status is an answer; see [`Response::refusal`].
    ///
    /// # Errors
    /// `Retryable` when the server was not reached or did not answer, `Config` when the host does not let the request leave.
    pub fn send(&self) -> Result<Response> {
        imp::send(self).map_err(|error| error.context(format_args!("{} {}", self.method, self.place())))
    }

    /// The address for a message: without the query, which may be long, or secret.
    fn place(&self) -> String {
        format!("{}{}", self.url.origin(), self.url.target().split('?').next().unwrap_or_default())
    }
}

/// Names of headers only: a value may be a secret.
impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        write!(f, "{} {} {names:?} and {} bytes", self.method, self.place(), self.body.len())
    }
}

/// An answer.
pub struct Response {
    /// The status.
    pub status: u16,
    headers: Vec<(String, String)>,
    body: Box<dyn Read>,
}

impl Response {
    /// An answer whose body is read from `body`.
    pub fn new(status: u16, headers: Vec<(String, String)>, body: impl Read + 'static) -> Self {
        Response { status, headers, body: Box::new(body) }
    }

    /// An answer for a test: this status, these headers, this body.
    pub fn of(status: u16, headers: &[(&str, &str)], body: impl Into<Vec<u8>>) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Response::new(status, headers, io::Cursor::new(body.into()))
    }

    /// The value of a header, whatever the case of its name; the first one if there are several.
    pub fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// The values of all headers of this name.
    pub fn headers<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.headers.iter().filter(move |(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body as it comes.
    pub fn body(&mut self) -> &mut dyn Read {
        &mut self.body
    }

    /// The whole body.
    ///
    /// # Errors
    /// `Retryable` when it breaks off, `Fatal` when it is longer than `limit`: nothing of it is kept then.
    pub fn bytes(mut self, limit: usize) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = self.body.by_ref().take(limit as u64 + 1).read_to_end(&mut bytes);
        read.map_err(|error| Error::retryable(format!("the answer broke off after {} bytes: {error}", bytes.len())))?;
        if bytes.len() > limit {
            return Err(Error::fatal(format!("the answer is longer than {limit} bytes")));
        }
        Ok(bytes)
    }

    /// The delay that `Retry-After` names: in seconds, or as a date, which is counted from the answer's own `Date`, since the clock here may be another, or not granted.
    pub fn retry_after(&self) -> Option<Duration> {
        let named = self.header("retry-after")?.trim();
        if let Ok(seconds) = named.parse() {
            return Some(Duration::from_secs(seconds));
        }
        let (until, now) = (date::seconds(named)?, date::seconds(self.header("date")?)?);
        Some(Duration::from_secs(u64::try_from(until - now).unwrap_or(0)))
    }

    /// What an answer that is no success means: `Retryable` for 408, 425, 429 and 5xx, `Config` for anything else, with the beginning of the body.
    pub fn refusal(mut self) -> Error {
        let mut said = Vec::new();
        // A body that breaks off takes nothing from the status.
        let _ = self.body.by_ref().take(SHOWN as u64).read_to_end(&mut said);
        let said = String::from_utf8_lossy(&said);
        let said: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut message = format!("the server answered with status {}", self.status);
        if let Some(location) = self.header("location").filter(|_| (300..400).contains(&self.status)) {
            message += &format!(" and sends to `{location}`; redirects are not followed, so name that address");
        }
        if !said.is_empty() {
            message += &format!(": {said}");
        }
        if passes_by_itself(self.status) {
            return Error::Retryable { message, after: self.retry_after() };
        }
        Error::config(message)
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "status {} with {:?}", self.status, self.headers)
    }
}

/// Whether a status says that the same request may be answered otherwise later.
pub fn passes_by_itself(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500..=599)
}

fn find<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

#[cfg(target_family = "wasm")]
use super::wasi_http as imp;

#[cfg(not(target_family = "wasm"))]
mod imp {
    use super::{Request, Response};
    use crate::Result;

    pub(super) fn send(request: &Request) -> Result<Response> {
        crate::testing::net::answer(request)
    }
}

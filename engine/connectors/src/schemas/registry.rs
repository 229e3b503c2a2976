//! A registry as tasks share it: what is known, who asks, and for how long it may be out of reach.

use super::http::{Answer, Http, step};
use super::known::Known;
use super::written;
use crate::decode::{Schemas, Written};
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tidegate_api::{Clock, Error, ErrorKind, Result, Retry};

/// The first pause after nobody answered, and the longest.
const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);
/// The longest pause that the registry itself may ask for.
const ASKED: Duration = Duration::from_secs(30);
/// Nobody has asked for so long that nobody knows how long it was out of reach.
const FORGOTTEN: Duration = Duration::from_secs(60);

/// A registry that did not answer.
#[derive(Debug, Clone)]
struct Trouble {
    since: Duration,
    seen: Duration,
    /// When it may be asked again.
    next: Duration,
    pause: Duration,
    why: String,
}

/// A schema to be registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Schema {
    /// `AVRO`, `JSON` or `PROTOBUF`.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

/// A registry.
pub(crate) struct Registry {
    http: Http,
    clock: Arc<dyn Clock>,
    budget: Duration,
    known: Mutex<Known>,
    /// Held by the one who asks, so that what several tasks need is asked for once.
    line: Mutex<Option<Trouble>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.http.fmt(f)
    }
}

/// The right to ask.
pub(super) struct Line<'r> {
    registry: &'r Registry,
    trouble: MutexGuard<'r, Option<Trouble>>,
}

impl Registry {
    pub(super) fn new(http: Http, clock: Arc<dyn Clock>, budget: Duration) -> Self {
        Registry { http, clock, budget, known: Mutex::default(), line: Mutex::default() }
    }

    /// Where it is, for messages.
    pub(crate) fn base(&self) -> &str {
        self.http.base()
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn line(&self) -> Line<'_> {
        Line { registry: self, trouble: self.line.lock().unwrap_or_else(PoisonError::into_inner) }
    }

    /// Repeats a question, with pauses, as long as the answer is to ask again; for those who may wait.
    ///
    /// # Errors
    /// Those of the question, at the latest when the budget is spent.
    pub(crate) fn patiently<T>(&self, mut ask: impl FnMut(&Self) -> Result<T>) -> Result<T> {
        loop {
            match ask(self) {
                Err(error) => match error.kind() {
                    ErrorKind::External { retry: Retry::After(pause) } => std::thread::park_timeout(pause),
                    _ => return Err(error),
                },
                done => return done,
            }
        }
    }

    /// The id of a schema under a subject, which is registered there if it is not and may be.
    ///
    /// # Errors
    /// `Config` with the registry's own words if it does not take the schema or does not have it; `External` if nobody answers.
    pub(crate) fn id_of(&self, subject: &str, schema: &Schema, registers: bool) -> Result<u32> {
        let path = format!("/subjects/{}{}", step(subject), if registers { "/versions" } else { "" });
        let body = match schema.kind {
            // Registries that know nothing else know no types either.
            "AVRO" => json!({ "schema": schema.text }),
            kind => json!({ "schema": schema.text, "schemaType": kind }),
        };
        let base = self.base();
        match self.line().ask(&path, Some(&body), || format!("subject `{subject}`"))? {
            Ok(found) => id_in(&found)
                .ok_or_else(|| Error::external(format!("`registry`: `{base}` answers for subject `{subject}` without an `id`"))),
            Err(Refused { code: code @ 40400..=40499, message }) => Err(Error::config(format!(
                "`registry`: subject `{subject}` of `{base}` does not have the schema of these rows ({code}): {message}; register it, or set \
                 `autoRegister = true`: {}",
                schema.text
            ))),
            Err(Refused { code, message }) => Err(Error::config(format!(
                "`registry`: subject `{subject}` of `{base}` does not take the schema of these rows ({code}): {message}"
            ))),
        }
    }
}

/// The id in an answer.
pub(super) fn id_in(answer: &Value) -> Option<u32> {
    answer.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok())
}

/// A registry's own reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) code: u64,
    pub(super) message: String,
}

impl Line<'_> {
    /// Where the registry is, for messages.
    pub(super) fn base(&self) -> &str {
        self.registry.base()
    }

    /// Asks for something.
    pub(super) fn get(&mut self, path: &str, what: impl FnOnce() -> String) -> Result<Result<Value, Refused>> {
        self.ask(path, None, what)
    }

    /// `what`: what is asked for, for messages.
    fn ask(&mut self, path: &str, body: Option<&Value>, what: impl FnOnce() -> String) -> Result<Result<Value, Refused>> {
        let now = self.registry.clock.monotonic();
        if let Some(trouble) = self.trouble.as_ref().filter(|trouble| now < trouble.next) {
            return Err(self.again(trouble, trouble.next.saturating_sub(now), what));
        }
        match self.registry.http.ask(path, body)? {
            Answer::Found(found) => {
                *self.trouble = None;
                Ok(Ok(found))
            }
            Answer::Refused { code, message } => {
                *self.trouble = None;
                Ok(Err(Refused { code, message }))
            }
            Answer::Away { why, wait } => Err(self.away(why, wait, what)),
        }
    }

    fn away(&mut self, why: String, wait: Option<Duration>, what: impl FnOnce() -> String) -> Error {
        let now = self.registry.clock.monotonic();
        let before = self.trouble.take().filter(|before| now.saturating_sub(before.seen) < FORGOTTEN);
        let since = before.as_ref().map_or(now, |before| before.since);
        let doubled = before.map_or(FIRST, |before| (before.pause * 2).min(LONGEST));
        let pause = wait.map_or(doubled, |wait| wait.clamp(FIRST, ASKED));
        let away = now.saturating_sub(since);
        if away.saturating_add(pause) > self.registry.budget {
            // Whoever begins anew has the whole budget again.
            return Error::external(format!(
                "the schema registry `{}` has not answered for {} s (asked for {}): {why}",
                self.registry.base(),
                away.as_secs(),
                what()
            ));
        }
        tracing::debug!(registry = self.registry.base(), why, "the schema registry does not answer");
        let trouble = Trouble { since, seen: now, next: now.saturating_add(pause), pause, why };
        let told = self.again(&trouble, pause, what);
        *self.trouble = Some(trouble);
        told
    }

    fn again(&self, trouble: &Trouble, pause: Duration, what: impl FnOnce() -> String) -> Error {
        let base = self.registry.base();
        Error::retryable(format!("the schema registry `{base}` does not answer (asked for {}): {}", what(), trouble.why), pause)
    }

    /// Whether somebody may ask now.
    fn is_open(&self) -> bool {
        let now = self.registry.clock.monotonic();
        self.trouble.as_ref().is_none_or(|trouble| now >= trouble.next)
    }
}

impl Schemas for Registry {
    fn find(&self, id: u32) -> Result<Option<Arc<Written>>> {
        // Ids are signed where they are made, and a registry takes a larger one for a question that it does not understand.
        if i32::try_from(id).is_err() {
            return Ok(None);
        }
        if let Some(known) = self.known().get(id, self.clock.monotonic()) {
            return Ok(known);
        }
        let mut line = self.line();
        // Another task may have asked in the meantime.
        if let Some(known) = self.known().get(id, self.clock.monotonic()) {
            return Ok(known);
        }
        let found = written::load(&mut line, id)?;
        let mut known = self.known();
        Ok(match found {
            None => {
                known.put_absent(id, self.clock.monotonic());
                None
            }
            Some((written, bytes)) => {
                let written = Arc::new(written);
                known.put(id, Arc::clone(&written), bytes);
                Some(written)
            }
        })
    }

    fn describe(&self, id: u32) -> String {
        let line = self.line();
        let answer = if line.is_open() { line.registry.http.ask(&format!("/schemas/ids/{id}/versions"), None).ok() } else { None };
        let Some(Answer::Found(Value::Array(places))) = answer else { return format!("schema {id}") };
        let place = |place: &Value| Some(format!("`{}` version {}", place.get("subject")?.as_str()?, place.get("version")?.as_u64()?));
        let places: Vec<String> = places.iter().filter_map(place).take(3).collect();
        if places.is_empty() { format!("schema {id}") } else { format!("schema {id} ({})", places.join(", ")) }
    }
}

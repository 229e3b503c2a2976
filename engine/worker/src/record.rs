//! The build's record: what a host stores and shows.

use serde_json::{Map, Value, json};
use tidegate_api::{Error, EventTime};

/// The record of one build. Fields the host put in stay; ours are written over them.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    fields: Map<String, Value>,
}

/// How a run ended without an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// All inputs ended.
    Ended,
    /// Somebody asked for a stop.
    Requested,
    /// There was nothing left to do: an earlier run had finished.
    Complete,
}

impl Ending {
    fn reason(self) -> &'static str {
        match self {
            Ending::Ended => "ended",
            Ending::Requested => "requested",
            Ending::Complete => "complete",
        }
    }
}

impl Record {
    /// A record over what the host gave.
    pub(crate) fn new(given: Value) -> Self {
        let fields = match given {
            Value::Object(fields) => fields,
            Value::Null => Map::new(),
            other => Map::from_iter([("given".to_string(), other)]),
        };
        Record { fields }
    }

    /// The record as it is stored.
    pub(crate) fn to_value(&self) -> Value {
        Value::Object(self.fields.clone())
    }

    fn set(&mut self, name: &str, value: impl Into<Value>) {
        self.fields.insert(name.to_string(), value.into());
    }

    /// The run has started.
    pub(crate) fn running(&mut self, outputs: Value, now: EventTime) {
        for stale in ["reason", "error", "errorKind", "exitCode", "finishedAt"] {
            self.fields.remove(stale);
        }
        self.set("status", "RUNNING");
        self.set("outputs", outputs);
        self.beat(json!({}), now);
    }

    /// The run is alive.
    pub(crate) fn beat(&mut self, metrics: Value, now: EventTime) {
        self.set("metrics", metrics);
        self.set("heartbeatAt", now.to_string());
    }

    /// Something the host's people should know.
    pub(crate) fn warn(&mut self, warning: &str) {
        self.set("warning", warning);
    }

    /// The run has ended without an error.
    pub(crate) fn stopped(&mut self, ending: Ending, now: EventTime) {
        self.set("status", "STOPPED");
        self.set("reason", ending.reason());
        self.set("finishedAt", now.to_string());
    }

    /// The run has failed.
    pub(crate) fn failed(&mut self, error: &Error, now: EventTime) {
        self.set("status", "FAILED");
        self.set("error", error.to_string());
        self.set("errorKind", error.kind().name());
        self.set("exitCode", error.kind().exit_code());
        self.set("finishedAt", now.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_gave_stays_and_a_new_start_forgets_the_old_end() {
        let mut record = Record::new(json!({ "owner": "me", "error": "old", "status": "FAILED" }));
        record.running(json!([]), EventTime(0));
        let value = record.to_value();
        assert_eq!((value["owner"].as_str(), value.get("error")), (Some("me"), None));
        assert_eq!(value["status"], "RUNNING");
        assert_eq!(value["heartbeatAt"], "1970-01-01T00:00:00Z");
    }

    #[test]
    fn a_failure_says_what_and_of_which_kind() {
        let mut record = Record::new(Value::Null);
        record.failed(&Error::config("wrong").context("stage `a`"), EventTime(1));
        let value = record.to_value();
        assert_eq!((value["status"].as_str(), value["error"].as_str()), (Some("FAILED"), Some("stage `a`: wrong")));
        assert_eq!(value["exitCode"], 78);
    }
}

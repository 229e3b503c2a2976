//! What a consumer's client says beside rows: errors, the end of a partition, the identities of topics, failed commits.
//!
//! The client tells two things in words only: at which offset a partition ended, in the text of that event, and which identity a topic
//! has, in a line of its log. Both are read here. If the words ever change, the numbers are missing and nothing is wrong: a position then
//! does not move over a gap at the end, and a topic that was made again is found out by offsets alone. The tests against a broker notice.

use super::client::{Cluster, Voice, is_refusal, is_silence};
use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::topic_partition_list::TopicPartitionList;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tidegate_api::{Error, ErrorKind};

/// How long a broker may leave a request unanswered. Shorter than the time after which a quiet split counts as idle, so that a broker
/// that hangs is found out before its partitions are taken for quiet ones.
const SOCKET_TIMEOUT_MS: &str = "20000";

/// The configuration of a client that reads: only committed rows, no offset that is not asked for, no topic that does not exist.
pub(super) fn consumer_config(cluster: &Cluster, group: Option<&str>) -> ClientConfig {
    let mut config = cluster.config();
    if cluster.property("socket.timeout.ms").is_none() {
        config.set("socket.timeout.ms", SOCKET_TIMEOUT_MS);
    }
    // The identity of topics is told in this part of the log.
    let debug = cluster.property("debug").map_or_else(|| "topic".to_string(), |asked| format!("{asked},topic"));
    config.set("debug", debug).set_log_level(RDKafkaLogLevel::Debug);
    if let Some(group) = group {
        config.set("group.id", group);
    }
    config
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("auto.offset.reset", "error")
        .set("enable.partition.eof", "true")
        .set("allow.auto.create.topics", "false");
    config
}

/// Hears one client.
#[derive(Debug)]
pub(super) struct Listener {
    voice: Voice,
    /// Whether the pipeline asked to see the client's own log.
    shows_log: bool,
    /// How often anything was heard.
    heard: AtomicU64,
    /// How often a topic got another identity.
    renamed: AtomicU64,
    /// Commits that are not answered.
    commits: AtomicUsize,
    state: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    ids: BTreeMap<String, String>,
    end: Option<i64>,
    detail: Option<String>,
    refusal: Option<KafkaError>,
    commits_fail: bool,
}

impl Listener {
    pub(super) fn new(cluster: &Cluster) -> Self {
        Listener {
            voice: cluster.context(),
            shows_log: cluster.property("debug").is_some(),
            heard: AtomicU64::new(0),
            renamed: AtomicU64::new(0),
            commits: AtomicUsize::new(0),
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, Heard> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes whenever something was heard, so that a caller can tell whether there may be more.
    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Changes whenever the identity of a topic became known or another.
    pub(super) fn renamed(&self) -> u64 {
        self.renamed.load(Ordering::Relaxed)
    }

    /// How many commits are not answered.
    pub(super) fn commits(&self) -> usize {
        self.commits.load(Ordering::Relaxed)
    }

    /// A commit is about to be sent.
    pub(super) fn commit_begins(&self) {
        self.commits.fetch_add(1, Ordering::Relaxed);
    }

    /// A commit was answered, or not sent.
    pub(super) fn commit_ends(&self) {
        // Whoever sends and whoever polls holds the lock of the client's owner.
        self.commits.store(self.commits().saturating_sub(1), Ordering::Relaxed);
    }

    /// The identity of a topic, as far as it was heard.
    pub(super) fn topic_id(&self, topic: &str) -> Option<String> {
        self.state().ids.get(topic).cloned()
    }

    /// The offset that the end of a partition was told with, just before the event itself.
    pub(super) fn take_end(&self) -> Option<i64> {
        self.state().end.take()
    }

    /// The words of the last error.
    pub(super) fn take_detail(&self) -> Option<String> {
        self.state().detail.take()
    }

    /// What the cluster forbids, if it has said so.
    pub(super) fn refusal(&self) -> Option<KafkaError> {
        self.state().refusal.clone()
    }

    /// An error of this client: one that says nothing by itself says what was heard last, and a refusal counts as one.
    pub(super) fn failed(&self, what: impl fmt::Display, error: &KafkaError) -> Error {
        match self.refusal().filter(|_| error.rdkafka_error_code().is_some_and(is_silence)) {
            Some(refusal) => {
                let failed = self.voice.failed(what, &refusal);
                let message = match self.voice.last() {
                    Some(last) if failed.kind() == ErrorKind::Config => format!("{}; the client says: {last}", failed.message()),
                    _ => failed.message().to_string(),
                };
                Error::new(failed.kind(), message)
            }
            None => self.voice.failed(what, error),
        }
    }

    /// The last that went wrong between client and brokers.
    pub(super) fn last(&self) -> Option<String> {
        self.voice.last()
    }
}

/// The offset in the event of a partition's end: `… reached end of partition at offset 12 (HighwaterMark 13)`.
fn end_offset(reason: &str) -> Option<i64> {
    let (_, rest) = reason.split_once("end of partition at offset ")?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Topic and identity in a line of the log: `Topic NAME changed id from OLD to NEW`, behind the name of a thread.
fn identity(line: &str) -> Option<(&str, &str)> {
    let (before, after) = line.split_once(" changed id from ")?;
    let (_, topic) = before.rsplit_once("Topic ")?;
    let (_, id) = after.split_once(" to ")?;
    let id = id.trim();
    (!topic.is_empty() && !id.is_empty()).then_some((topic, id))
}

impl ClientContext for Listener {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        if let Some((topic, id)) = identity(message) {
            let before = self.state().ids.insert(topic.to_string(), id.to_string());
            if before.as_deref() != Some(id) {
                self.renamed.fetch_add(1, Ordering::Relaxed);
            }
        }
        let is_wanted = match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning => true,
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info | RDKafkaLogLevel::Debug => self.shows_log,
        };
        if is_wanted {
            self.voice.log(level, facility, message);
        }
    }

    fn stats_raw(&self, _: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        let code = error.rdkafka_error_code();
        if code == Some(RDKafkaErrorCode::PartitionEOF) {
            self.state().end = end_offset(reason);
            return;
        }
        let mut state = self.state();
        state.detail = Some(reason.to_string());
        // The group is for those who watch; where reading begins by it, the question itself is refused.
        if code.is_some_and(|code| is_refusal(code) && code != RDKafkaErrorCode::GroupAuthorizationFailed) {
            state.refusal = Some(error.clone());
        }
        drop(state);
        self.voice.error(error, reason);
    }

    fn generate_oauth_token(&self, config: Option<&str>) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        self.heard.fetch_add(1, Ordering::Relaxed);
        self.voice.generate_oauth_token(config)
    }
}

impl ConsumerContext for Listener {
    fn commit_callback(&self, result: KafkaResult<()>, _: &TopicPartitionList) {
        self.heard.fetch_add(1, Ordering::Relaxed);
        self.commit_ends();
        let mut state = self.state();
        let failed_before = std::mem::replace(&mut state.commits_fail, result.is_err());
        drop(state);
        match result {
            // The next epoch commits later offsets; whoever watches the group sees it lag until then.
            Err(error) if !failed_before => tracing::warn!(%error, "committing offsets to the consumer group failed, and is repeated"),
            Err(error) => tracing::debug!(%error, "committing offsets to the consumer group failed again"),
            Ok(()) if failed_before => tracing::info!("offsets are committed to the consumer group again"),
            Ok(()) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::path::Path;
    use tidegate_api::config::Options;

    fn cluster(options: serde_json::Value) -> Cluster {
        let map = options.as_object().cloned().unwrap_or_default();
        let mut options = Options::new(&map);
        Cluster::read(&mut options, Path::new(""))
    }

    #[test]
    fn offsets_and_identities_are_found_in_words() {
        let reason = "Fetch from broker 1 reached end of partition at offset 12 (HighwaterMark 13)";
        assert_eq!(end_offset(reason), Some(12));
        for other in ["", "end of partition at offset ", "end of partition at offset -1", "offset 12"] {
            assert_eq!(end_offset(other), None, "{other}");
        }
        let line = "[thrd:main]: Topic a.Topic-b changed id from AAAAAAAAAAAAAAAAAAAAAA to q7Rz_9-AQ";
        assert_eq!(identity(line), Some(("a.Topic-b", "q7Rz_9-AQ")));
        for other in ["", "Topic x changed id from a", "changed id from a to b", "Topic  changed id from a to b"] {
            assert_eq!(identity(other), None, "{other}");
        }
    }

    #[test]
    fn a_topic_that_gets_another_identity_is_noticed_once() {
        let listener = Listener::new(&cluster(json!({ "brokers": "a:1" })));
        let say = |id: &str| listener.log(RDKafkaLogLevel::Debug, "METADATA", &format!("Topic t changed id from x to {id}"));
        say("one");
        say("one");
        assert_eq!((listener.topic_id("t").as_deref(), listener.renamed()), (Some("one"), 1));
        say("two");
        assert_eq!((listener.topic_id("t").as_deref(), listener.renamed()), (Some("two"), 2));
        assert_eq!(listener.topic_id("u"), None);
    }

    #[test]
    fn a_refusal_explains_what_merely_timed_out() {
        let listener = Listener::new(&cluster(json!({ "brokers": "a:1" })));
        let silence = KafkaError::MetadataFetch(RDKafkaErrorCode::OperationTimedOut);
        listener.error(KafkaError::Global(RDKafkaErrorCode::BrokerTransportFailure), "a:1/bootstrap: connection refused");
        let failed = listener.failed("asking", &silence);
        assert!(matches!(failed.kind(), ErrorKind::External { .. }));
        assert!(failed.message().ends_with("connection refused"), "{failed}");
        listener.error(KafkaError::Global(RDKafkaErrorCode::Authentication), "a:1/bootstrap: SASL authentication error: wrong password");
        let failed = listener.failed("asking", &silence);
        assert_eq!(failed.kind(), ErrorKind::Config);
        assert!(failed.message().ends_with("wrong password"), "{failed}");
    }

    #[test]
    fn the_end_of_a_partition_is_no_error() {
        let listener = Listener::new(&cluster(json!({ "brokers": "a:1" })));
        let reason = "Fetch from broker 1 reached end of partition at offset 7 (HighwaterMark 7)";
        listener.error(KafkaError::Global(RDKafkaErrorCode::PartitionEOF), reason);
        assert_eq!((listener.take_end(), listener.take_end(), listener.last()), (Some(7), None, None));
    }

    #[test]
    fn the_client_is_configured_as_promised_whatever_is_asked() {
        let config =
            consumer_config(&cluster(json!({ "brokers": "a:1", "properties": { "debug": "cgrp", "socket.timeout.ms": 50 } })), None);
        for (key, value) in [
            ("isolation.level", "read_committed"),
            ("auto.offset.reset", "error"),
            ("enable.auto.commit", "false"),
            ("allow.auto.create.topics", "false"),
            ("debug", "cgrp,topic"),
            ("socket.timeout.ms", "50"),
        ] {
            assert_eq!(config.get(key), Some(value), "{key}");
        }
        assert_eq!(config.get("group.id"), None);
    }
}

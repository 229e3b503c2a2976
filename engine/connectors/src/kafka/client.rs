//! What both halves know of a cluster: where it is, how it is spoken to, what its errors mean.

use crate::registry::OptionDef;
use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::config::Options;
use tidegate_api::nearest::hint;
use tidegate_api::{Error, ErrorKind, Retry};

/// How long a question to the cluster may take before it counts as not answered.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// The options of [`Cluster`].
pub(super) const BROKERS: OptionDef = OptionDef {
    name: "brokers",
    kind: "text or list of text",
    default: "",
    doc: "`host:port` of one or more brokers; the others are found",
};
pub(super) const PROPERTIES: OptionDef = OptionDef {
    name: "properties",
    kind: "table",
    default: "none",
    doc: "any property of librdkafka, such as `\"security.protocol\" = \"SASL_SSL\"`, but those by which a promise of this connector would \
          break; passwords and keys by reference only (`\"${VAR}\"`, `\"${file:PATH}\"`)",
};
pub(super) const TOKEN_FILE: OptionDef = OptionDef {
    name: "oauthTokenFile",
    kind: "path",
    default: "for OAUTHBEARER",
    doc: "a file that holds a JSON Web Token and nothing else; read again whenever the token is about to expire",
};

/// Properties that this connector decides, each with what to do instead.
const DECIDED: &[(&str, &str)] = &[
    ("bootstrap.servers", "say `brokers`"),
    ("metadata.broker.list", "say `brokers`"),
    ("group.id", "say `groupId`"),
    ("enable.auto.commit", "offsets are committed once their rows are durable"),
    ("enable.auto.offset.store", "offsets are committed once their rows are durable"),
    ("auto.offset.reset", "say `start`; an offset that is gone is an error"),
    ("isolation.level", "only committed records are read"),
    ("enable.partition.eof", "the connector needs it"),
    ("statistics.interval.ms", "nobody reads them, and they would pile up while reading pauses"),
    ("partition.assignment.strategy", "partitions are assigned by the engine"),
    ("transactional.id", "it is made of the names of pipeline and dataset"),
    ("enable.idempotence", "a sink never runs without"),
    ("acks", "a sink waits for all replicas in sync"),
    ("request.required.acks", "a sink waits for all replicas in sync"),
    ("enable.gapless.guarantee", "the connector decides"),
    ("message.send.max.retries", "the connector decides; see `delivery.timeout.ms`"),
    ("retries", "the connector decides; see `delivery.timeout.ms`"),
    ("enable.sasl.oauthbearer.unsecure.jwt", "a token that nobody signed proves nothing; say `oauthTokenFile`"),
    ("sasl.oauthbearer.config", "say `oauthTokenFile`"),
    ("sasl.oauthbearer.method", "a token comes from `oauthTokenFile`"),
    ("plugin.library.paths", "no library is loaded by a pipeline file"),
];

/// Properties whose values nobody else may see: they stand in a file by reference only.
pub(super) const SECRET: &[&str] = &[
    "sasl.password",
    "ssl.key.password",
    "ssl.key.pem",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.assertion.private.key.pem",
];

/// What people set, to tell the nearest of.
const KNOWN: &[&str] = &[
    "security.protocol",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.username",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.certificate.pem",
    "ssl.key.location",
    "ssl.keystore.location",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
    "client.id",
    "client.rack",
    "compression.type",
    "linger.ms",
    "batch.size",
    "message.max.bytes",
    "delivery.timeout.ms",
    "message.timeout.ms",
    "transaction.timeout.ms",
    "socket.timeout.ms",
    "fetch.min.bytes",
    "fetch.wait.max.ms",
    "fetch.message.max.bytes",
    "max.partition.fetch.bytes",
    "queued.max.messages.kbytes",
    "queued.min.messages",
    "broker.address.family",
    "debug",
];

/// A cluster, and how to speak to it.
#[derive(Clone)]
pub(super) struct Cluster {
    brokers: String,
    properties: BTreeMap<String, String>,
    token_file: Option<PathBuf>,
}

/// Without the values: some are secrets.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<_> = self.properties.keys().collect();
        f.debug_struct("Cluster").field("brokers", &self.brokers).field("properties", &keys).finish_non_exhaustive()
    }
}

impl Cluster {
    /// Reads `brokers`, `properties` and `oauthTokenFile`. Mistakes are left with `options`; what is answered then is of no use.
    pub(super) fn read(options: &mut Options<'_>, base_dir: &Path) -> Self {
        let brokers = options.strings("brokers").unwrap_or_default().join(",");
        if !options.has("brokers") {
            options.problem("brokers", "`brokers` is missing: `host:port` of one or more brokers");
        } else if brokers.split(',').any(|broker| broker.trim().is_empty()) {
            options.problem("brokers", "a broker is empty; write `host:port`");
        }
        let token_file = options.string("oauthTokenFile").map(|path| base_dir.join(path));
        let mut cluster = Cluster { brokers, properties: BTreeMap::new(), token_file };
        let Some(table) = options.table("properties") else { return cluster };
        let mut problems = Vec::new();
        for (key, value) in table {
            let text = match value {
                Value::String(text) => text.clone(),
                Value::Number(_) | Value::Bool(_) => value.to_string(),
                _ => {
                    problems.push((key, "expected text, a number or a boolean".to_string()));
                    continue;
                }
            };
            match judge(key, &text) {
                Some(problem) => problems.push((key, problem)),
                None => {
                    cluster.properties.insert(key.clone(), text);
                }
            }
        }
        let problems = problems.into_iter();
        options
            .problems(problems.map(|(key, message)| tidegate_api::config::Problem::new(vec!["properties".into(), key.clone()], message)));
        if cluster.wants_token() && cluster.token_file.is_none() {
            options.problem("properties", "OAUTHBEARER wants a token: say `oauthTokenFile = \"PATH\"`");
        }
        cluster
    }

    /// The brokers as they were given, for messages.
    pub(super) fn brokers(&self) -> &str {
        &self.brokers
    }

    fn wants_token(&self) -> bool {
        ["sasl.mechanism", "sasl.mechanisms"]
            .iter()
            .any(|key| self.properties.get(*key).is_some_and(|mechanism| mechanism == "OAUTHBEARER"))
    }

    /// A value that was set, whatever the default is.
    pub(super) fn property(&self, key: &str) -> Option<&str> {
        self.properties.get(key).map(String::as_str)
    }

    /// A configuration with everything that was given; what a caller sets afterwards is decided by the connector.
    pub(super) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        // A client that cannot connect says so at every try; the message that ends the run tells it once. Who asks for its own
        // account of what it does gets that.
        let level = if self.properties.contains_key("debug") { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Warning };
        config.set_log_level(level).set("bootstrap.servers", &self.brokers).set("client.id", "tidegate");
        // The client's own ten seconds are long for a broker that is back; nothing is gained by them against one that is not.
        config.set("reconnect.backoff.max.ms", "2000");
        for (key, value) in &self.properties {
            config.set(key, value);
        }
        config
    }

    /// The context that a client of this cluster is made with.
    pub(super) fn context(&self) -> Voice {
        Voice { last: Arc::default(), token_file: self.token_file.clone() }
    }
}

/// Why a property cannot be set to this.
fn judge(key: &str, value: &str) -> Option<String> {
    if let Some((_, instead)) = DECIDED.iter().find(|(decided, _)| *decided == key) {
        return Some(format!("`{key}` is not set here: {instead}"));
    }
    let mut config = ClientConfig::new();
    config.set(key, value);
    match config.create_native_config() {
        Ok(_) => None,
        Err(KafkaError::ClientConfig(_, reason, _, _)) if reason.starts_with("No such configuration property") => {
            let known = KNOWN.iter().chain(SECRET).copied();
            Some(format!("librdkafka has no property `{key}`{}", hint(key, known)))
        }
        // The value may be a secret, so it is not repeated; librdkafka's own words repeat it.
        Err(KafkaError::ClientConfig(..)) if SECRET.contains(&key) => Some(format!("`{key}` does not take this value")),
        Err(KafkaError::ClientConfig(_, reason, _, _)) => Some(reason),
        Err(error) => Some(error.to_string()),
    }
}

/// Hears what a client says beside its answers: the last error is what a question that timed out is explained with.
#[derive(Debug, Clone, Default)]
pub(super) struct Voice {
    last: Arc<Mutex<Option<String>>>,
    token_file: Option<PathBuf>,
}

impl Voice {
    /// The last that went wrong between client and brokers.
    pub(super) fn last(&self) -> Option<String> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An error of this cluster, with the last that was heard if it explains more.
    pub(super) fn failed(&self, what: impl fmt::Display, error: &KafkaError) -> Error {
        let failed = failed(what, error);
        match (self.last(), error.rdkafka_error_code()) {
            (Some(last), Some(code)) if is_silence(code) => {
                Error::new(failed.kind(), format!("{}; the client says: {last}", failed.message()))
            }
            _ => failed,
        }
    }
}

impl ClientContext for Voice {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::warn!(target: "kafka", facility, "{message}");
            }
            _ => tracing::debug!(target: "kafka", facility, "{message}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "kafka", %error, "{reason}");
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // That all brokers are down follows what is wrong with each, and says less.
        if last.is_none() || error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *last = Some(reason.to_string());
        }
    }

    fn generate_oauth_token(&self, _: Option<&str>) -> std::result::Result<OAuthToken, Box<dyn std::error::Error>> {
        let path = self.token_file.as_ref().ok_or("no `oauthTokenFile` was given")?;
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read `{}`: {error}", path.display()))?;
        Ok(token(text.trim()).map_err(|why| format!("`{}` holds no token that can be used: {why}", path.display()))?)
    }
}

impl ConsumerContext for Voice {}

/// Whom a JSON Web Token speaks for, and until when: `sub` and `exp` (RFC 7519).
fn token(text: &str) -> Result<OAuthToken, String> {
    use ::base64::Engine as _;
    let body = text.split('.').nth(1).ok_or("it has no three parts with dots between them")?;
    let body = ::base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(body).map_err(|_| "its second part is no base64url")?;
    let claims: Value = serde_json::from_slice(&body).map_err(|_| "its second part is no JSON")?;
    let seconds = claims["exp"].as_f64().ok_or("it has no `exp`")?;
    let subject = claims["sub"].as_str().ok_or("it has no `sub`")?;
    Ok(OAuthToken { token: text.to_string(), principal_name: subject.to_string(), lifetime_ms: (seconds * 1000.0) as i64 })
}

/// Whether a code only says that nothing was heard.
pub(super) fn is_silence(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode::{
        AllBrokersDown, BrokerTransportFailure, MessageTimedOut, OperationTimedOut, RequestTimedOut, Resolve, TimedOutQueue,
    };
    matches!(
        code,
        AllBrokersDown | BrokerTransportFailure | MessageTimedOut | OperationTimedOut | RequestTimedOut | Resolve | TimedOutQueue
    )
}

/// What an error of the client means to the engine: what nobody will mend by trying again is `Config`, a producer that was replaced is
/// `Fenced`, everything else `External`.
pub(super) fn failed(what: impl fmt::Display, error: &KafkaError) -> Error {
    use RDKafkaErrorCode as Code;
    let kind = match (error, error.rdkafka_error_code()) {
        (KafkaError::ClientConfig(..) | KafkaError::ClientCreation(_), _) => ErrorKind::Config,
        (_, Some(Code::ProducerFenced | Code::Fenced | Code::InvalidProducerEpoch | Code::FencedInstanceId)) => ErrorKind::Fenced,
        (_, Some(code)) if is_refusal(code) => ErrorKind::Config,
        _ => ErrorKind::External { retry: Retry::No },
    };
    Error::new(kind, format!("{what}: {}", why(error)))
}

/// Whether the cluster forbids what was asked, for as long as nobody changes it.
pub(super) fn is_refusal(code: RDKafkaErrorCode) -> bool {
    use RDKafkaErrorCode as Code;
    matches!(
        code,
        Code::Authentication
            | Code::SaslAuthenticationFailed
            | Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
            | Code::UnsupportedSASLMechanism
            | Code::IllegalSASLState
            | Code::InvalidTopic
            | Code::PolicyViolation
            | Code::UnsupportedVersion
            | Code::UnsupportedForMessageFormat
            | Code::InvalidTransactionTimeout
    )
}

/// The reason alone: the wrapping that every error of the client has says which call failed, which the caller says better.
fn why(error: &KafkaError) -> String {
    match (error, error.rdkafka_error_code()) {
        (KafkaError::Transaction(inner), _) => inner.to_string(),
        (KafkaError::ClientConfig(_, reason, key, _), _) => format!("{reason} (`{key}`)"),
        (_, Some(code)) => code.to_string(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(options: Value) -> (Cluster, Vec<String>) {
        let map = options.as_object().cloned().unwrap_or_default();
        let mut options = Options::new(&map);
        let cluster = Cluster::read(&mut options, Path::new("/base"));
        (cluster, options.finish().iter().map(ToString::to_string).collect())
    }

    #[test]
    fn brokers_and_properties_are_set_and_values_are_never_shown() {
        let (cluster, problems) = read(json!({
            "brokers": ["a:1", "b:2"],
            "properties": { "sasl.password": "hidden-one", "linger.ms": 7, "enable.ssl.certificate.verification": false },
        }));
        assert_eq!(problems, Vec::<String>::new());
        let config = cluster.config();
        assert_eq!(config.get("bootstrap.servers"), Some("a:1,b:2"));
        assert_eq!(config.get("linger.ms"), Some("7"));
        assert!(!format!("{cluster:?}{config:?}").contains("hidden-one"));
    }

    #[test]
    fn every_mistake_is_told_at_its_key() {
        let (_, problems) = read(json!({
            "brokers": "",
            "properties": { "enable.idempotence": false, "lingr.ms": 1, "linger.ms": "soon", "client.id": [] , "plugin.library.paths": "x.so" },
        }));
        let told = problems.join("\n");
        for part in [
            "brokers: a broker is empty",
            "properties.enable.idempotence: `enable.idempotence` is not set here: a sink never runs without",
            "properties.lingr.ms: librdkafka has no property `lingr.ms`, did you mean `linger.ms`?",
            "properties.linger.ms: ",
            "properties.client.id: expected text, a number or a boolean",
            "properties.plugin.library.paths: ",
        ] {
            assert!(told.contains(part), "{part} in\n{told}");
        }
        assert!(read(json!({})).1[0].contains("`brokers` is missing"));
    }

    #[test]
    fn a_secret_that_does_not_fit_is_not_repeated() {
        let (_, problems) = read(json!({ "brokers": "a:1", "properties": { "ssl.key.pem": "hidden-one" } }));
        assert!(!problems.join("").contains("hidden-one"), "{problems:?}");
    }

    #[test]
    fn tls_and_every_kind_of_sasl_are_compiled_in() {
        for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] {
            let (cluster, problems) = read(json!({
                "brokers": "localhost:1", "oauthTokenFile": "token",
                "properties": { "security.protocol": "SASL_SSL", "sasl.mechanism": mechanism, "sasl.username": "u", "sasl.password": "p" },
            }));
            assert_eq!(problems, Vec::<String>::new());
            let made: Result<rdkafka::consumer::BaseConsumer<Voice>, _> = cluster.config().create_with_context(cluster.context());
            assert!(made.is_ok(), "{mechanism}: {:?}", made.err());
        }
        let (_, problems) = read(json!({ "brokers": "a:1", "properties": { "sasl.mechanism": "OAUTHBEARER" } }));
        assert!(problems[0].contains("say `oauthTokenFile"), "{problems:?}");
    }

    #[test]
    fn a_token_says_whom_it_speaks_for_and_until_when() {
        // {"sub":"reader","exp":1700000000.5}
        let read = token("e30.eyJzdWIiOiJyZWFkZXIiLCJleHAiOjE3MDAwMDAwMDAuNX0.c2ln").unwrap();
        assert_eq!((read.principal_name.as_str(), read.lifetime_ms), ("reader", 1_700_000_000_500));
        for (text, why) in [("x", "three parts"), ("a.!.c", "base64url"), ("a.eA.c", "no JSON"), ("a.e30.c", "`exp`")] {
            assert!(token(text).err().unwrap().contains(why), "{text}");
        }
    }

    #[test]
    fn errors_are_sorted_by_what_mends_them() {
        let kind = |code| failed("x", &KafkaError::MessageProduction(code)).kind();
        assert_eq!(kind(RDKafkaErrorCode::TopicAuthorizationFailed), ErrorKind::Config);
        assert_eq!(kind(RDKafkaErrorCode::ProducerFenced), ErrorKind::Fenced);
        assert_eq!(kind(RDKafkaErrorCode::BrokerTransportFailure), ErrorKind::External { retry: Retry::No });
        assert_eq!(kind(RDKafkaErrorCode::UnknownTopicOrPartition), ErrorKind::External { retry: Retry::No });
    }
}

//! What a sink is told by its options.

use super::super::client::{BROKERS, Cluster, PROPERTIES, TOKEN_FILE};
use crate::decode::protobuf::{ProtobufFormat, ProtobufFraming};
use crate::encode::TextOptions;
use crate::registry::OptionDef;
use crate::schemas::{Half, REGISTRY_DOC, Registry, RegistryConfig};
use crate::stdout::text_options;
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::config::{Options, Problem};

/// The options of the sink.
pub(in super::super) const OPTIONS: &[OptionDef] = &[
    BROKERS,
    OptionDef {
        name: "topic",
        kind: "text",
        default: "or `topicColumn`",
        doc: "where rows go; beside `topicColumn`, where those without a topic go and where the mark of an exactly-once commit is kept",
    },
    OptionDef { name: "topicColumn", kind: "column", default: "none", doc: "names each row's topic; exactly-once wants `topic` beside it" },
    OptionDef {
        name: "format",
        kind: "json | csv | raw | arrow | avro | protobuf",
        default: "json",
        doc: "of the value: an object, a record without line end, the one column as it is, one IPC stream per batch, one Avro value, one message; without a header but with `registry`",
    },
    OptionDef {
        name: "keyColumns",
        kind: "list of columns",
        default: "the keys of rows that replace each other, else none",
        doc: "the record's key: one column of text or bytes as it is, otherwise a JSON object of them; they are in the value too, but for `raw`",
    },
    OptionDef {
        name: "headerColumns",
        kind: "list of columns",
        default: "none",
        doc: "become headers of their names, as bytes or text, and are not in the value",
    },
    OptionDef {
        name: "partitionColumn",
        kind: "column",
        default: "by key",
        doc: "an integer column with each row's partition, not in the value; null leaves it to the key",
    },
    OptionDef {
        name: "delivery",
        kind: "exactly-once | at-least-once",
        default: "exactly-once",
        doc: "exactly-once shows an epoch's rows by a transaction after the epoch, at-least-once at once",
    },
    OptionDef {
        name: "timestamps",
        kind: "iso | epochMs",
        default: "iso",
        doc: "json, csv, keys: timestamps as ISO-8601 text or as integers",
    },
    OptionDef { name: "int64AsText", kind: "boolean", default: "false", doc: "json, csv, keys: 64-bit integers as text" },
    OptionDef {
        name: "descriptor",
        kind: "path",
        default: "for protobuf",
        doc: "protobuf: the descriptor set that `protoc --include_imports --descriptor_set_out` writes",
    },
    OptionDef { name: "message", kind: "text", default: "for protobuf", doc: "protobuf: the full name of the message" },
    OptionDef { name: "registry", kind: "URL, or table", default: "none", doc: REGISTRY_DOC },
    PROPERTIES,
    TOKEN_FILE,
];

/// How often a row arrives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    ExactlyOnce,
    AtLeastOnce,
}

/// What a value is.
#[derive(Debug, Clone)]
pub(super) enum Format {
    Json,
    Csv,
    Raw,
    Arrow,
    Avro,
    Protobuf(Box<ProtobufFormat>),
}

/// What a sink writes, and where.
#[derive(Debug, Clone)]
pub(super) struct KafkaSinkConfig {
    pub(super) cluster: Cluster,
    pub(super) topic: Option<String>,
    pub(super) topic_column: Option<String>,
    pub(super) format: Format,
    pub(super) key_columns: Vec<String>,
    pub(super) header_columns: Vec<String>,
    pub(super) partition_column: Option<String>,
    pub(super) delivery: Delivery,
    pub(super) text: TextOptions,
    pub(super) registered: Option<Registered>,
}

/// Where the schema of values is registered.
#[derive(Debug, Clone)]
pub(super) struct Registered {
    pub(super) registry: Arc<Registry>,
    pub(super) subject: String,
    /// Whether a schema that is not there is put there.
    pub(super) registers: bool,
}

impl KafkaSinkConfig {
    /// Reads the options of a dataset; relative paths are under `base`.
    ///
    /// # Errors
    /// Every mistake, each at its key.
    pub(super) fn parse(map: &Map<String, Value>, base: &Path) -> Result<Self, Vec<Problem>> {
        let mut options = Options::new(map);
        let cluster = Cluster::read(&mut options, base);
        let delivery = options.choice("delivery", &[("exactly-once", Delivery::ExactlyOnce), ("at-least-once", Delivery::AtLeastOnce)]);
        let delivery = delivery.unwrap_or(Delivery::ExactlyOnce);
        let topic = options.string("topic");
        if let Some(why) = topic.as_deref().and_then(wrong_topic) {
            options.problem("topic", why);
        }
        let topic_column = options.string("topicColumn");
        match (options.has("topic"), options.has("topicColumn"), delivery) {
            (false, false, _) => options.problem("topic", "say `topic`, or `topicColumn` for a column that names each row's"),
            (false, true, Delivery::ExactlyOnce) => options.problem(
                "topicColumn",
                "exactly-once keeps the mark of its commits in a fixed topic: say `topic` too, which also takes rows without a topic, or `delivery = \"at-least-once\"`",
            ),
            (true, _, _) | (false, true, Delivery::AtLeastOnce) => {}
        }
        let is_registered = options.has("registry");
        let registry = RegistryConfig::read(&mut options, base, Half::Sink);
        let format = format(&mut options, base, is_registered);
        if is_registered && matches!(format, Format::Csv | Format::Raw | Format::Arrow) {
            options.problem("registry", "a registry has schemas of `json`, `avro` and `protobuf`, and of no other format");
        }
        let registered = registry.and_then(|RegistryConfig { registry, subject, registers }| {
            let subject = subject.or_else(|| topic.as_ref().map(|topic| format!("{topic}-value")));
            if subject.is_none() && topic_column.is_some() {
                options.problem("registry", "every row has its own topic: say `subject`, under which the schema of all is registered");
            }
            Some(Registered { registry, subject: subject?, registers })
        });
        let key_columns = options.strings("keyColumns").unwrap_or_default();
        let header_columns = options.strings("headerColumns").unwrap_or_default();
        for (key, columns) in [("keyColumns", &key_columns), ("headerColumns", &header_columns)] {
            if let Some(twice) = columns.iter().enumerate().find(|(index, column)| columns[..*index].contains(column)) {
                options.problem(key, format!("`{}` is named twice", twice.1));
            }
        }
        let partition_column = options.string("partitionColumn");
        let text = text_options(&mut options);
        let config = KafkaSinkConfig {
            cluster,
            topic,
            topic_column,
            format,
            key_columns,
            header_columns,
            partition_column,
            delivery,
            text,
            registered,
        };
        if delivery == Delivery::ExactlyOnce {
            let (transaction, message) = (config.transaction_timeout(), config.delivery_timeout());
            if message.is_some_and(|message| message > transaction) {
                options.problem(
                    "properties",
                    format!(
                        "`delivery.timeout.ms` is longer than `transaction.timeout.ms` ({} ms), by which all is delivered or given up",
                        transaction.as_millis()
                    ),
                );
            }
        }
        let problems = options.finish();
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }

    /// How long the brokers let a transaction be open.
    pub(super) fn transaction_timeout(&self) -> Duration {
        self.millis(&["transaction.timeout.ms"]).unwrap_or(Duration::from_secs(60))
    }

    /// How long a record may take to be acknowledged, if the options say.
    pub(super) fn delivery_timeout(&self) -> Option<Duration> {
        self.millis(&["delivery.timeout.ms", "message.timeout.ms"])
    }

    fn millis(&self, keys: &[&str]) -> Option<Duration> {
        keys.iter().find_map(|key| self.cluster.property(key)?.parse().ok()).map(Duration::from_millis)
    }

    /// A number among the properties.
    pub(super) fn number(&self, key: &str) -> Option<usize> {
        self.cluster.property(key)?.parse().ok()
    }
}

fn format(options: &mut Options<'_>, base: &Path, is_registered: bool) -> Format {
    #[derive(Clone, Copy)]
    enum Named {
        Plain(fn() -> Format),
        Protobuf,
    }
    let formats = [
        ("json", Named::Plain(|| Format::Json)),
        ("csv", Named::Plain(|| Format::Csv)),
        ("raw", Named::Plain(|| Format::Raw)),
        ("arrow", Named::Plain(|| Format::Arrow)),
        ("avro", Named::Plain(|| Format::Avro)),
        ("protobuf", Named::Protobuf),
    ];
    match options.choice("format", &formats).unwrap_or(formats[0].1) {
        Named::Plain(make) => {
            for key in ["descriptor", "message"] {
                if options.value(key).is_some() {
                    options.problem(key, format!("`{key}` is for the format `protobuf`"));
                }
            }
            make()
        }
        Named::Protobuf => protobuf(options, base, is_registered).map_or(Format::Json, |format| Format::Protobuf(Box::new(format))),
    }
}

fn protobuf(options: &mut Options<'_>, base: &Path, is_registered: bool) -> Option<ProtobufFormat> {
    let (path, message) = (options.require_string("descriptor"), options.require_string("message"));
    let (path, message) = (base.join(path?), message?);
    let framing = if is_registered { ProtobufFraming::Registry } else { ProtobufFraming::Bare };
    let made = std::fs::read(&path)
        .map_err(|error| ("descriptor", format!("`{}` cannot be read: {error}", path.display())))
        .and_then(|bytes| ProtobufFormat::new(&bytes, &message, framing).map_err(|error| ("message", error.message().to_string())));
    match made {
        Ok(format) => Some(format),
        Err((key, why)) => {
            options.problem(key, why);
            None
        }
    }
}

/// Why this can be no topic's name.
pub(super) fn wrong_topic(name: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() {
        Some("a topic's name is not empty".to_string())
    } else if name.len() > 249 {
        Some(format!("a topic's name has at most 249 characters, not {}", name.len()))
    } else if name == "." || name == ".." || !name.bytes().all(fits) {
        Some(format!("`{name}` is no topic's name: letters, digits, `.`, `_` and `-`"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(mut options: Value) -> Result<KafkaSinkConfig, String> {
        options["brokers"] = json!("localhost:9092");
        KafkaSinkConfig::parse(options.as_object().unwrap(), Path::new("."))
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
    }

    #[test]
    fn exactly_once_is_the_default_and_needs_a_fixed_topic() {
        assert_eq!(parse(json!({ "topic": "t" })).unwrap().delivery, Delivery::ExactlyOnce);
        assert!(parse(json!({ "topicColumn": "t" })).unwrap_err().contains("say `topic` too"));
        parse(json!({ "topicColumn": "t", "topic": "rest" })).unwrap();
        parse(json!({ "topicColumn": "t", "delivery": "at-least-once" })).unwrap();
        assert!(parse(json!({})).unwrap_err().contains("say `topic`, or `topicColumn`"));
    }

    #[test]
    fn every_mistake_is_told_at_its_key() {
        let told = parse(json!({
            "topic": "a b", "format": "protobuf", "keyColumns": ["a", "a"], "delivery": "twice", "registri": 1,
            "properties": { "delivery.timeout.ms": 120_000 },
        }))
        .unwrap_err();
        for part in [
            "topic: `a b` is no topic's name",
            "descriptor: `descriptor` is missing",
            "message: `message` is missing",
            "keyColumns: `a` is named twice",
            "delivery: `twice` is none of",
            "registri: unknown key",
            "properties: `delivery.timeout.ms` is longer than `transaction.timeout.ms` (60000 ms)",
        ] {
            assert!(told.contains(part), "{part} in\n{told}");
        }
        assert!(parse(json!({ "topic": "t", "message": "x" })).unwrap_err().contains("`message` is for the format `protobuf`"));
    }

    #[test]
    fn names_of_topics_are_those_that_brokers_take() {
        for name in ["a", "a.b_c-D9", &"x".repeat(249)] {
            assert_eq!(wrong_topic(name), None);
        }
        for name in ["", ".", "..", "a b", "a/b", "ä", "a\0b", &"x".repeat(250)] {
            assert!(wrong_topic(name).is_some(), "{name}");
        }
    }
}

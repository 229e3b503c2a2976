//! What the source reads: the options as they are used.

use super::client::Cluster;
use super::place::Partition;
use super::source_registered::registered;
use crate::decode::avro::{AvroFormat, AvroFraming};
use crate::decode::csv::CsvFormat;
use crate::decode::protobuf::ProtobufFraming;
use crate::decode::{MessageFormat, Meta, Tombstones, moment_millis};
use crate::registry::ConnectorCtx;
use crate::schemas::{Half, Registry, RegistryConfig};
use crate::shape;
use arrow::datatypes::SchemaRef;
use regex::Regex;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::config::{Options, Problem};

/// A number of milliseconds below this lies in 1970: whoever wrote it meant seconds.
const END_OF_1970: i64 = 31_536_000_000;
/// The longest name that a topic can have.
const LONGEST_TOPIC: usize = 249;

/// Which topics are read.
#[derive(Debug, Clone)]
pub(super) enum Topics {
    /// These.
    Named(Vec<String>),
    /// Those whose whole name matches.
    Matching { text: String, pattern: Regex },
}

/// Where reading begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Start {
    Earliest,
    Latest,
    /// Milliseconds since 1970.
    Timestamp(i64),
    Offsets(BTreeMap<Partition, i64>),
    Group,
}

/// Where the schema comes from if none is declared.
#[derive(Debug, Clone)]
pub(super) enum Undeclared {
    /// The format says it.
    Known(SchemaRef),
    /// It is inferred from so many messages.
    Sample(usize),
    /// It is the newest of a subject.
    Subject { registry: Arc<Registry>, subject: String, message: Option<String> },
}

/// What a source reads.
#[derive(Debug, Clone)]
pub(super) struct SourceConfig {
    pub(super) cluster: Cluster,
    pub(super) topics: Topics,
    pub(super) format: MessageFormat,
    pub(super) schema: Option<SchemaRef>,
    pub(super) undeclared: Undeclared,
    pub(super) tombstones: Tombstones,
    pub(super) meta: Vec<Meta>,
    pub(super) start: Start,
    /// Whether it ends at what there is when the run begins.
    pub(super) ends: bool,
    pub(super) group: String,
    /// Whether the group's name was made here.
    names_group: bool,
    pub(super) discover_every: Duration,
    pub(super) broker_timeout: Duration,
    pub(super) prefetch: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Json,
    Csv,
    Arrow,
    Avro,
    Protobuf,
    Raw,
}

const KINDS: [(&str, Kind); 6] = [
    ("json", Kind::Json),
    ("csv", Kind::Csv),
    ("arrow", Kind::Arrow),
    ("avro", Kind::Avro),
    ("protobuf", Kind::Protobuf),
    ("raw", Kind::Raw),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Framing {
    Bare,
    SingleObject,
    Registry,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StartKind {
    Earliest,
    Latest,
    Timestamp,
    Offsets,
    Group,
}

const STARTS: [(&str, StartKind); 5] = [
    ("earliest", StartKind::Earliest),
    ("latest", StartKind::Latest),
    ("timestamp", StartKind::Timestamp),
    ("offsets", StartKind::Offsets),
    ("group", StartKind::Group),
];

impl SourceConfig {
    /// Reads the options of a dataset.
    ///
    /// # Errors
    /// Every mistake, each at its key.
    pub(super) fn parse(map: &Map<String, Value>, cx: &ConnectorCtx) -> Result<Self, Vec<Problem>> {
        let mut options = Options::new(map);
        let cluster = Cluster::read(&mut options, &cx.base_dir);
        if cluster.property("allow.auto.create.topics").is_some() {
            options.problem(
                "properties",
                "`allow.auto.create.topics` is not set here: reading makes no topic, one that does not exist is an error",
            );
        }
        let topics = topics(&mut options);
        let schema = shape::schema(&mut options);
        let registry = RegistryConfig::read(&mut options, &cx.base_dir, Half::Source);
        let (format, undeclared) = if options.has("registry") {
            registered(&mut options, cx, registry, topics.as_ref())
        } else {
            format(&mut options, cx, schema.is_some())
        };
        let tombstones =
            options.choice("tombstones", &[("drop", Tombstones::Drop), ("nulls", Tombstones::Nulls)]).unwrap_or(Tombstones::Drop);
        let meta = meta(&mut options, schema.as_ref());
        let start = start(&mut options, topics.as_ref());
        let ends = options.choice("end", &[("latest", ())]).is_some();
        let group = options.string("groupId");
        if group.as_ref().is_some_and(String::is_empty) {
            options.problem("groupId", "expected the name of a consumer group");
        }
        let every = |options: &mut Options<'_>, key: &str, default: Duration| {
            let found = options.duration(key);
            if found == Some(Duration::ZERO) {
                let key = if options.has(key) { key.to_string() } else { format!("{key}Ms") };
                options.problem(&key, "expected at least one millisecond");
            }
            found.unwrap_or(default)
        };
        let discover_every = every(&mut options, "discoverEvery", Duration::from_secs(30));
        let broker_timeout = every(&mut options, "brokerTimeout", Duration::from_secs(60));
        let prefetch = options.size("prefetch").unwrap_or(64 << 20);
        if prefetch < 1 << 20 {
            options.problem("prefetch", "expected at least 1MiB");
        }
        let problems = options.finish();
        let (Some(topics), Some(format), Some(start), []) = (topics, format, start, problems.as_slice()) else {
            return Err(problems);
        };
        let names_group = group.is_none();
        let group = group.unwrap_or_else(|| default_group(&cx.pipeline));
        Ok(SourceConfig {
            cluster,
            topics,
            format,
            schema,
            undeclared,
            tombstones,
            meta,
            start,
            ends,
            group,
            names_group,
            discover_every,
            broker_timeout,
            prefetch,
        })
    }
}

impl SourceConfig {
    /// The group's name where a run knows its pipeline better than what built the source.
    pub(super) fn group_of(&self, pipeline: &str) -> Option<String> {
        Some(default_group(pipeline)).filter(|group| self.names_group && *group != self.group)
    }
}

fn default_group(pipeline: &str) -> String {
    format!("tidegate-{pipeline}")
}

/// Why a topic cannot have this name.
fn misnamed(topic: &str) -> Option<&'static str> {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match topic {
        "" => Some("a topic has a name"),
        "." | ".." => Some("no topic can have this name"),
        _ if topic.len() > LONGEST_TOPIC => Some("a topic's name has at most 249 characters"),
        _ if !topic.chars().all(is_legal) => Some("a topic's name is made of letters, digits, `.`, `_` and `-`"),
        _ => None,
    }
}

fn topics(options: &mut Options<'_>) -> Option<Topics> {
    let (topic, several, pattern) = (options.string("topic"), options.strings("topics"), options.string("pattern"));
    let given: Vec<&str> = ["topic", "topics", "pattern"].into_iter().filter(|key| options.has(key)).collect();
    match given.as_slice() {
        [] => {
            options.problem("topic", "`topic` is missing: say `topic`, `topics` or `pattern`");
            return None;
        }
        [_] => {}
        [first, second, ..] => {
            options.problem(second, format!("`{first}` and `{second}` stand together; keep one"));
            return None;
        }
    }
    if let Some(text) = pattern {
        return match Regex::new(&format!("^(?:{text})$")) {
            Ok(pattern) => Some(Topics::Matching { text, pattern }),
            Err(error) => {
                // The engine's own words show the whole pattern with what was put around it.
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ").to_string();
                options.problem("pattern", format!("no regular expression: {reason}"));
                None
            }
        };
    }
    let key = if topic.is_some() { "topic" } else { "topics" };
    let names: Vec<String> = topic.map(|name| vec![name]).or(several)?;
    if names.is_empty() {
        options.problem(key, "expected at least one topic");
        return None;
    }
    let mut seen = BTreeSet::new();
    for name in &names {
        if let Some(why) = misnamed(name) {
            options.problem(key, format!("`{name}`: {why}"));
        } else if !seen.insert(name) {
            options.problem(key, format!("`{name}` stands here twice"));
        }
    }
    Some(Topics::Named(names))
}

/// The format, and what the schema is without a declared one.
fn format(options: &mut Options<'_>, cx: &ConnectorCtx, is_declared: bool) -> (Option<MessageFormat>, Undeclared) {
    let kind = options.choice("format", &KINDS).unwrap_or(Kind::Json);
    let framings: &[(&str, Framing)] = match kind {
        Kind::Avro => &[("bare", Framing::Bare), ("singleObject", Framing::SingleObject)],
        Kind::Protobuf => &[("bare", Framing::Bare), ("registry", Framing::Registry)],
        Kind::Json | Kind::Csv | Kind::Arrow | Kind::Raw => &[("bare", Framing::Bare)],
    };
    let framing = options.choice("framing", framings).unwrap_or(Framing::Bare);
    let csv = shape::csv(options);
    let sample = shape::infer_sample(options);
    let is_registry = framing == Framing::Registry;
    let protobuf_framing = if is_registry { ProtobufFraming::Registry } else { ProtobufFraming::Bare };
    let protobuf = shape::protobuf(options, kind == Kind::Protobuf, protobuf_framing, &cx.base_dir);
    let avro = avro(options, kind == Kind::Avro, cx);
    if kind == Kind::Csv && !is_declared && !options.has("schema") {
        options.problem("schema", "messages of CSV have no header to take names from, declare a `schema`");
    }
    let mut undeclared = Undeclared::Sample(sample.max(1));
    let format = match kind {
        Kind::Json => Some(MessageFormat::Json),
        Kind::Csv => Some(MessageFormat::Csv(CsvFormat { header: false, ..csv })),
        Kind::Arrow => Some(MessageFormat::Arrow),
        Kind::Raw => {
            undeclared = Undeclared::Known(crate::decode::raw::schema());
            Some(MessageFormat::Raw)
        }
        Kind::Avro => avro.map(|(text, schema)| {
            undeclared = Undeclared::Known(schema);
            let framing = if framing == Framing::SingleObject { AvroFraming::SingleObject } else { AvroFraming::Bare };
            MessageFormat::Avro(AvroFormat::new(text, framing))
        }),
        Kind::Protobuf => protobuf.and_then(|format| match format.schema() {
            Ok(schema) => {
                undeclared = Undeclared::Known(schema);
                Some(MessageFormat::Protobuf(format))
            }
            // A declared schema may do without the field that no column can hold.
            Err(_) if is_declared => Some(MessageFormat::Protobuf(format)),
            Err(error) => {
                options.problem("message", error.message());
                None
            }
        }),
    };
    (format, undeclared)
}

/// The text of the schema that messages are written with, and its columns.
pub(super) fn avro(options: &mut Options<'_>, is_avro: bool, cx: &ConnectorCtx) -> Option<(String, SchemaRef)> {
    if !is_avro {
        if options.value("avroSchema").is_some() {
            options.problem("avroSchema", "`avroSchema` is for the format `avro`");
        }
        return None;
    }
    let path = cx.base_dir.join(options.require_string("avroSchema")?);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) => {
            options.problem("avroSchema", format!("`{}` cannot be read: {error}", path.display()));
            return None;
        }
    };
    match crate::decode::avro::schema_of(&text) {
        Ok(schema) => Some((text, schema)),
        Err(error) => {
            options.problem("avroSchema", format!("`{}`: {}", path.display(), error.message()));
            None
        }
    }
}

fn meta(options: &mut Options<'_>, schema: Option<&SchemaRef>) -> Vec<Meta> {
    let names = options.strings("meta").unwrap_or_default();
    let mut found: Vec<Meta> = Vec::new();
    for name in &names {
        let Some((_, meta)) = Meta::ALL.iter().find(|(known, _)| known == name) else {
            let hint = tidegate_api::nearest::hint(name, Meta::ALL.iter().map(|(known, _)| *known));
            options.problem("meta", format!("`{name}` is none of `key`, `partition`, `offset`, `timestamp`, `headers`{hint}"));
            continue;
        };
        if found.contains(meta) {
            options.problem("meta", format!("`{name}` stands here twice"));
        } else if schema.is_some_and(|schema| schema.index_of(name).is_ok()) {
            options.problem("meta", format!("`{name}` is a column of the `schema` too; rename one"));
        } else {
            found.push(*meta);
        }
    }
    found
}

fn start(options: &mut Options<'_>, topics: Option<&Topics>) -> Option<Start> {
    let kind = options.choice("start", &STARTS).unwrap_or(StartKind::Earliest);
    let (timestamp, offsets) = (options.value("startTimestamp"), options.table("startOffsets"));
    for (key, needs, name) in [("startTimestamp", StartKind::Timestamp, "timestamp"), ("startOffsets", StartKind::Offsets, "offsets")] {
        match (options.has(key), kind == needs) {
            (true, false) => options.problem(key, format!("`{key}` goes with `start = \"{name}\"`")),
            (false, true) => options.problem(key, format!("`{key}` is missing: `start = \"{name}\"` needs it")),
            (true, true) | (false, false) => {}
        }
    }
    match kind {
        StartKind::Earliest => Some(Start::Earliest),
        StartKind::Latest => Some(Start::Latest),
        StartKind::Group => Some(Start::Group),
        StartKind::Timestamp => match millis(timestamp?) {
            Ok(millis) => Some(Start::Timestamp(millis)),
            Err(why) => {
                options.problem("startTimestamp", why);
                None
            }
        },
        StartKind::Offsets => start_offsets(options, offsets?, topics?),
    }
}

/// A moment in milliseconds since 1970.
fn millis(value: &Value) -> Result<i64, String> {
    match value {
        Value::String(text) => match moment_millis(text) {
            Some(millis) if millis >= 0 => Ok(millis),
            Some(_) => Err(format!("`{text}` lies before 1970, when no message is stamped; say `start = \"earliest\"`")),
            None => Err(format!("`{text}` is no timestamp such as `2024-01-31T12:00:00Z`")),
        },
        Value::Number(number) => match number.as_i64() {
            Some(millis) if millis >= END_OF_1970 => Ok(millis),
            Some(0) => Err("0 is the beginning: say `start = \"earliest\"`".into()),
            Some(millis) if millis > 0 => {
                Err(format!("{millis} milliseconds lie in 1970; if these are seconds, write {millis}000, or a text"))
            }
            _ => Err(format!("`{number}` is no number of milliseconds since 1970")),
        },
        _ => Err("expected a text such as `2024-01-31T12:00:00Z`, or milliseconds since 1970".into()),
    }
}

fn start_offsets(options: &mut Options<'_>, table: &Map<String, Value>, topics: &Topics) -> Option<Start> {
    let only = match topics {
        Topics::Named(names) if names.len() == 1 => names.first(),
        Topics::Named(_) | Topics::Matching { .. } => None,
    };
    let mut problems = Vec::new();
    let mut offsets = BTreeMap::new();
    for (key, value) in table {
        let mut problem = |message: String| problems.push(Problem::new(vec!["startOffsets".into(), key.clone()], message));
        let bare = only.zip(key.parse::<i32>().ok().filter(|number| *number >= 0));
        let partition = match bare {
            Some((topic, number)) => Some(Partition::new(topic.clone(), number)),
            None => Partition::parse(key),
        };
        let is_read = |partition: &Partition| match topics {
            Topics::Named(names) => names.contains(&partition.topic),
            Topics::Matching { pattern, .. } => pattern.is_match(&partition.topic),
        };
        match (partition, value.as_i64().filter(|offset| *offset >= 0)) {
            (None, _) => problem(format!("`{key}` names no partition; write `TOPIC/NUMBER`")),
            (Some(partition), _) if !is_read(&partition) => problem(format!("topic `{}` is not read", partition.topic)),
            (Some(_), None) => problem(format!("`{value}` is no offset")),
            (Some(partition), Some(offset)) => {
                if offsets.insert(partition, offset).is_some() {
                    problem(format!("partition `{key}` stands here twice"));
                }
            }
        }
    }
    if table.is_empty() {
        problems.push(Problem::at("startOffsets", "expected an offset for every partition"));
    }
    options.problems(problems);
    Some(Start::Offsets(offsets))
}

#[cfg(test)]
#[path = "source_config_tests.rs"]
mod tests;

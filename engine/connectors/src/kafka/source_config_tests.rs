use super::*;
use serde_json::json;

fn parse(options: Value) -> Result<SourceConfig, Vec<Problem>> {
    let cx = ConnectorCtx::new("/base", "in").with_pipeline("flights");
    SourceConfig::parse(options.as_object().unwrap(), &cx)
}

/// The least that is right, with these options instead or beside.
fn with(options: Value) -> Result<SourceConfig, Vec<Problem>> {
    let mut all = json!({ "brokers": "a:1", "topic": "t" });
    let all_options = all.as_object_mut().unwrap();
    for (key, value) in options.as_object().unwrap() {
        match value {
            Value::Null => drop(all_options.remove(key)),
            value => drop(all_options.insert(key.clone(), value.clone())),
        }
    }
    parse(all)
}

fn mistakes(options: Value) -> String {
    let problems = with(options.clone()).err().unwrap_or_else(|| panic!("{options} was taken"));
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_least_is_enough() {
    let config = with(json!({})).unwrap();
    assert_eq!((config.start, config.ends, config.group.as_str()), (Start::Earliest, false, "tidegate-flights"));
    assert_eq!((config.discover_every, config.broker_timeout), (Duration::from_secs(30), Duration::from_secs(60)));
    assert!(matches!(config.format, MessageFormat::Json));
    assert!(matches!(config.undeclared, Undeclared::Sample(1000)));
    assert!(matches!(config.topics, Topics::Named(names) if names == ["t"]));
}

#[test]
fn p070_a_start_in_seconds_is_refused_with_what_was_meant() {
    let told = mistakes(json!({ "start": "timestamp", "startTimestamp": 1_760_000_000 }));
    assert!(told.contains("1760000000 milliseconds lie in 1970; if these are seconds, write 1760000000000"), "{told}");
    let at = |value: Value| with(json!({ "start": "timestamp", "startTimestamp": value })).unwrap().start;
    assert_eq!(at(json!(1_760_000_000_000i64)), Start::Timestamp(1_760_000_000_000));
    assert_eq!(at(json!("2025-10-09T08:53:20Z")), Start::Timestamp(1_760_000_000_000));
    assert_eq!(at(json!("2025-10-09T10:53:20+02:00")), Start::Timestamp(1_760_000_000_000));
    assert_eq!(at(json!("1970-01-01T00:00:01Z")), Start::Timestamp(1000));
}

#[test]
fn p191_a_group_of_ones_own_is_taken_with_any_start() {
    let config = with(json!({ "start": "group", "groupId": "mine" })).unwrap();
    assert_eq!((&config.start, config.group.as_str()), (&Start::Group, "mine"));
    // What was named stays, what was not follows the run.
    assert_eq!(config.group_of("other"), None);
    let config = with(json!({})).unwrap();
    assert_eq!((config.group_of("flights"), config.group_of("other").as_deref()), (None, Some("tidegate-other")));
}

#[test]
fn offsets_are_given_by_partition() {
    let start = |options| with(options).unwrap().start;
    let partition = |topic: &str, number| Partition::new(topic, number);
    let given = start(json!({ "start": "offsets", "startOffsets": { "0": 5, "t/1": 7 } }));
    assert_eq!(given, Start::Offsets([(partition("t", 0), 5), (partition("t", 1), 7)].into()));
    let given = start(json!({ "topic": null, "topics": ["a", "b"], "start": "offsets", "startOffsets": { "a/0": 0, "b/0": 1 } }));
    assert_eq!(given, Start::Offsets([(partition("a", 0), 0), (partition("b", 0), 1)].into()));
}

#[test]
fn every_mistake_is_told_at_its_key() {
    for (options, told) in [
        (json!({ "brokers": null }), "brokers: `brokers` is missing"),
        (json!({ "topic": null }), "topic: `topic` is missing: say `topic`, `topics` or `pattern`"),
        (json!({ "topics": ["u"] }), "topics: `topic` and `topics` stand together; keep one"),
        (json!({ "topic": "" }), "topic: ``: a topic has a name"),
        (json!({ "topic": "a b" }), "topic: `a b`: a topic's name is made of letters"),
        (json!({ "topic": "a\u{0}" }), "a topic's name is made of letters"),
        (json!({ "topic": ".." }), "no topic can have this name"),
        (json!({ "topic": "x".repeat(250) }), "at most 249 characters"),
        (json!({ "topic": null, "topics": [] }), "topics: expected at least one topic"),
        (json!({ "topic": null, "topics": ["a", "a"] }), "topics: `a` stands here twice"),
        (json!({ "topic": null, "pattern": "a(" }), "pattern: no regular expression: "),
        (json!({ "format": "jsn" }), "format: `jsn` is none of"),
        (json!({ "format": "csv" }), "schema: messages of CSV have no header"),
        (json!({ "format": "csv", "schema": [], "delimiter": "ab" }), "delimiter: expected one ASCII character"),
        (json!({ "schema": [] }), "schema: expected at least one column"),
        (json!({ "format": "avro" }), "avroSchema: `avroSchema` is missing"),
        (json!({ "format": "avro", "avroSchema": "no.avsc" }), "avroSchema: `/base/no.avsc` cannot be read"),
        (json!({ "avroSchema": "x" }), "avroSchema: `avroSchema` is for the format `avro`"),
        (json!({ "format": "protobuf" }), "descriptor: `descriptor` is missing"),
        (json!({ "message": "x" }), "message: `message` is for the format `protobuf`"),
        (json!({ "framing": "registry" }), "framing: `registry` is none of `bare`"),
        (json!({ "format": "avro", "framing": "registry" }), "framing: `registry` is none of `bare`, `singleObject`"),
        (json!({ "tombstones": "keep" }), "tombstones: `keep` is none of `drop`, `nulls`"),
        (json!({ "meta": ["kee"] }), "meta: `kee` is none of `key`, `partition`, `offset`, `timestamp`, `headers`, did you mean `key`?"),
        (json!({ "meta": ["key", "key"] }), "meta: `key` stands here twice"),
        (json!({ "meta": ["key"], "schema": [{ "name": "key", "type": "string" }] }), "meta: `key` is a column of the `schema` too"),
        (json!({ "start": "newest" }), "start: `newest` is none of"),
        (json!({ "start": "timestamp" }), "startTimestamp: `startTimestamp` is missing"),
        (json!({ "startTimestamp": 1 }), "startTimestamp: `startTimestamp` goes with `start = \"timestamp\"`"),
        (json!({ "start": "timestamp", "startTimestamp": "soon" }), "startTimestamp: `soon` is no timestamp"),
        (json!({ "start": "timestamp", "startTimestamp": "1969-12-31" }), "`1969-12-31` lies before 1970"),
        (json!({ "start": "timestamp", "startTimestamp": 0 }), "say `start = \"earliest\"`"),
        (json!({ "start": "timestamp", "startTimestamp": -5 }), "`-5` is no number of milliseconds"),
        (json!({ "start": "timestamp", "startTimestamp": 1.5 }), "`1.5` is no number of milliseconds"),
        (json!({ "start": "timestamp", "startTimestamp": [] }), "startTimestamp: expected a text"),
        (json!({ "start": "offsets" }), "startOffsets: `startOffsets` is missing"),
        (json!({ "start": "offsets", "startOffsets": {} }), "startOffsets: expected an offset for every partition"),
        (json!({ "start": "offsets", "startOffsets": { "x": 1 } }), "startOffsets.x: `x` names no partition"),
        (json!({ "start": "offsets", "startOffsets": { "u/0": 1 } }), "startOffsets.u/0: topic `u` is not read"),
        (json!({ "start": "offsets", "startOffsets": { "0": -1 } }), "startOffsets.0: `-1` is no offset"),
        (json!({ "start": "offsets", "startOffsets": { "0": 1, "t/0": 1 } }), "stands here twice"),
        (json!({ "end": "soon" }), "end: `soon` is none of `latest`"),
        (json!({ "groupId": "" }), "groupId: expected the name of a consumer group"),
        (json!({ "discoverEvery": "0s" }), "discoverEvery: expected at least one millisecond"),
        (json!({ "brokerTimeoutMs": 0 }), "brokerTimeoutMs: expected at least one millisecond"),
        (json!({ "prefetch": "1KiB" }), "prefetch: expected at least 1MiB"),
        (json!({ "registry": "x" }), "registry: `x` is no URL"),
        (json!({ "registry": "http://x", "format": "csv" }), "format: `csv` is none of `json`, `avro`, `protobuf`"),
        (json!({ "registry": "http://x", "framing": "bare" }), "framing: `bare` is none of `registry`"),
        (json!({ "registry": "http://x", "delimiter": ";" }), "delimiter: `delimiter` is for the format `csv`"),
        (
            json!({ "registry": { "url": "http://x", "subject": "s" }, "schema": [{ "name": "n", "type": "int64" }] }),
            "registry: `subject` says where the columns come from",
        ),
        (json!({ "registry": { "url": "http://x", "autoRegister": true } }), "registry.autoRegister: unknown key"),
        (json!({ "properties": { "group.id": "g" } }), "properties.group.id: `group.id` is not set here: say `groupId`"),
        (json!({ "properties": { "allow.auto.create.topics": true } }), "properties: `allow.auto.create.topics` is not set here"),
        (json!({ "properties": { "statistics.interval.ms": 1 } }), "properties.statistics.interval.ms: "),
        (json!({ "topik": "x" }), "topik: unknown key `topik`, did you mean `topic`?"),
    ] {
        let found = mistakes(options.clone());
        assert!(found.contains(told), "{options}: {told}\n{found}");
    }
}

#[test]
fn mistakes_are_told_together() {
    let told = mistakes(json!({ "format": "jsn", "meta": ["kee"], "start": "x", "prefetch": 1 }));
    assert_eq!(told.lines().count(), 4, "{told}");
}

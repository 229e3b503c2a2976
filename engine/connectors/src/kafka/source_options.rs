//! The options of the source, as `docs/connectors.md` shows them.

use super::client::{BROKERS, PROPERTIES, TOKEN_FILE};
use crate::registry::OptionDef;
use crate::schemas::REGISTRY_DOC;

pub(super) const SOURCE_OPTIONS: &[OptionDef] = &[
    BROKERS,
    OptionDef { name: "topic", kind: "text", default: "one of three", doc: "the topic; this, `topics` or `pattern`" },
    OptionDef { name: "topics", kind: "list of text", default: "one of three", doc: "several topics" },
    OptionDef {
        name: "pattern",
        kind: "regular expression",
        default: "one of three",
        doc: "every topic whose whole name matches, those made later too; names that begin with `__` are left out",
    },
    OptionDef {
        name: "format",
        kind: "json | csv | arrow | avro | protobuf | raw",
        default: "json",
        doc: "how a message is written: json is an object, csv a record without a header, arrow an IPC stream of any number of rows, avro and \
              protobuf a value, raw the payload as it is",
    },
    OptionDef {
        name: "schema",
        kind: "list of { name, type }",
        default: "inferred",
        doc: "the columns of the payload; what is not in it is not decoded. csv needs it",
    },
    OptionDef {
        name: "inferSample",
        kind: "integer",
        default: "1000",
        doc: "how many of the newest messages a schema is inferred from, when the run begins; it is then kept",
    },
    OptionDef { name: "delimiter", kind: "text", default: "`,`", doc: "csv: one character between fields" },
    OptionDef { name: "nullValues", kind: "list of text", default: "[\"\"]", doc: "csv: unquoted fields that are null" },
    OptionDef {
        name: "avroSchema",
        kind: "path",
        default: "for avro without `registry`",
        doc: "avro: a file with the schema that messages are written with; with `registry` the one that they are read as",
    },
    OptionDef {
        name: "descriptor",
        kind: "path",
        default: "for protobuf without `registry`",
        doc: "protobuf: the descriptor set that `protoc --include_imports --descriptor_set_out` writes",
    },
    OptionDef {
        name: "message",
        kind: "text",
        default: "for protobuf; with `registry` the first of its file",
        doc: "protobuf: the full name of the message",
    },
    OptionDef {
        name: "framing",
        kind: "bare | singleObject | registry",
        default: "bare",
        doc: "what stands before a value: nothing, the header of Avro's single-object encoding (avro), or that of a schema registry, whose \
              id is looked up in `registry`; without one it is not (protobuf)",
    },
    OptionDef {
        name: "tombstones",
        kind: "drop | nulls",
        default: "drop",
        doc: "messages without a payload: left out and counted as filtered, or rows of nulls beside their `meta` columns",
    },
    OptionDef {
        name: "meta",
        kind: "list of key, partition, offset, timestamp, headers",
        default: "none",
        doc: "what is known about a message beside its payload, as columns of these names",
    },
    OptionDef {
        name: "start",
        kind: "earliest | latest | timestamp | offsets | group",
        default: "earliest",
        doc: "where reading begins, decided once, before the first row of the first run ([more](#kafka-where-reading-begins-and-ends))",
    },
    OptionDef {
        name: "startTimestamp",
        kind: "timestamp, or integer of milliseconds",
        default: "for timestamp",
        doc: "the first message stamped then or later; the end where there is none",
    },
    OptionDef {
        name: "startOffsets",
        kind: "table",
        default: "for offsets",
        doc: "an offset for every partition: `{ \"TOPIC/0\" = 120, \"TOPIC/1\" = 95 }`; with one topic the numbers of the partitions do",
    },
    OptionDef { name: "end", kind: "latest", default: "none", doc: "read up to what was committed when the run began, and end there" },
    OptionDef {
        name: "groupId",
        kind: "text",
        default: "`tidegate-` and the pipeline's name",
        doc: "the consumer group that offsets are committed to once their rows are durable, for those who watch; nothing is read from it but \
              with `start = \"group\"`",
    },
    OptionDef {
        name: "discoverEvery",
        kind: "duration",
        default: "30s",
        doc: "how often new partitions, and topics of a `pattern`, are looked for; they are read from their beginning",
    },
    OptionDef {
        name: "brokerTimeout",
        kind: "duration",
        default: "60s",
        doc: "how long brokers may be out of reach before the run goes back to its newest epoch",
    },
    OptionDef {
        name: "prefetch",
        kind: "size",
        default: "64MiB",
        doc: "how much a task fetches ahead, over all its partitions; fetching pauses there",
    },
    OptionDef { name: "registry", kind: "URL, or table", default: "none", doc: REGISTRY_DOC },
    TOKEN_FILE,
    PROPERTIES,
];

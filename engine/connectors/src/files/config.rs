//! The options of both halves.

use super::compression::Compression;
use super::remote::Remote;
use crate::decode::csv::CsvFormat;
use crate::decode::protobuf::{ProtobufFormat, ProtobufFraming};
use crate::encode::TextOptions;
use crate::registry::OptionDef;
use crate::shape;
use crate::stdout::text_options;
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_api::config::{Options, Problem};

const STORE_OPTIONS: OptionDef = OptionDef {
    name: "storeOptions",
    kind: "table",
    default: "from the environment",
    doc: "how a bucket is reached: the options of [`stateOptions`](operations.md#state-in-a-bucket), such as `endpoint`, `region`, `accessKeyId` and `secretAccessKey`; what is left out comes from the provider's environment variables",
};

pub(super) const SOURCE_OPTIONS: &[OptionDef] = &[
    OptionDef {
        name: "path",
        kind: "text",
        default: "",
        doc: "a file, a directory, or a pattern such as `data/*.csv.gz`, here or in a bucket (`s3://BUCKET/data/*.csv.gz`, `gs://`, `az://`); names that begin with `.` or `_` are left out",
    },
    OptionDef {
        name: "format",
        kind: "json | csv | parquet | arrow | avro | protobuf | raw",
        default: "by ending",
        doc: "json is one object per line; arrow is IPC, file or stream; avro is object container files; protobuf is messages with their length before each; raw is lines as they are",
    },
    OptionDef {
        name: "compression",
        kind: "none | gz | zst",
        default: "by ending",
        doc: "of everything but parquet and avro, which compress themselves, and arrow files; all members of a `.gz` are read",
    },
    OptionDef {
        name: "schema",
        kind: "list of { name, type }",
        default: "inferred",
        doc: "the columns; those of the file that are not in it are not decoded",
    },
    OptionDef { name: "inferSample", kind: "integer", default: "1000", doc: "records of the first file from which a schema is inferred" },
    OptionDef { name: "header", kind: "boolean", default: "true", doc: "csv: whether the first line names the columns" },
    OptionDef { name: "delimiter", kind: "text", default: "`,`", doc: "csv: one character between fields" },
    OptionDef { name: "nullValues", kind: "list of text", default: "[\"\"]", doc: "csv: unquoted fields that are null" },
    OptionDef {
        name: "descriptor",
        kind: "path",
        default: "for protobuf",
        doc: "protobuf: the descriptor set that `protoc --include_imports --descriptor_set_out` writes",
    },
    OptionDef { name: "message", kind: "text", default: "for protobuf", doc: "protobuf: the full name of the message" },
    OptionDef {
        name: "order",
        kind: "name | modified",
        default: "name",
        doc: "in which order files are read; watched, those of one listing",
    },
    OptionDef {
        name: "watch",
        kind: "duration | boolean",
        default: "false",
        doc: "goes on for ever and looks for new files so often; `true` for every 10 s ([more](#watched-files))",
    },
    STORE_OPTIONS,
    OptionDef {
        name: "settle",
        kind: "duration",
        default: "5s, buckets 0s",
        doc: "watched: a file is read once it has not changed for so long",
    },
    OptionDef {
        name: "lateFiles",
        kind: "duration",
        default: "1h",
        doc: "watched: how much later than newer ones a file may appear where so many come that not all can be remembered",
    },
    OptionDef {
        name: "changed",
        kind: "error | read | skip",
        default: "error",
        doc: "watched: what becomes of a file that changes after it was found: an error, a new file, or nothing",
    },
    OptionDef {
        name: "missing",
        kind: "error | skip",
        default: "error",
        doc: "watched: what becomes of a file that is gone before it was read to its end",
    },
];

pub(super) const SINK_OPTIONS: &[OptionDef] = &[
    OptionDef {
        name: "path",
        kind: "text",
        default: "",
        doc: "a directory, made if it does not exist, or a prefix of a bucket (`s3://BUCKET/PREFIX`, `gs://`, `az://`)",
    },
    STORE_OPTIONS,
    OptionDef {
        name: "format",
        kind: "json | csv | parquet | arrow | avro",
        default: "json",
        doc: "json is one object per line; every csv part has a header; arrow is an IPC stream; avro compresses its blocks with deflate unless `compression` is `none`",
    },
    OptionDef { name: "compression", kind: "none | gz | zst | snappy", default: "none, parquet zst", doc: "snappy for parquet only" },
    OptionDef {
        name: "partitionBy",
        kind: "list of columns",
        default: "none",
        doc: "write into a folder `column=value/` for each value, outermost first; these columns are then not in the files themselves",
    },
    OptionDef { name: "rollBytes", kind: "size", default: "one part per epoch", doc: "begin another part after about so many bytes" },
    OptionDef {
        name: "rollEvery",
        kind: "duration",
        default: "one part per epoch",
        doc: "begin another part when one has been written to for so long; a part never outlasts its epoch, so more than `checkpointEvery` changes nothing",
    },
    OptionDef { name: "timestamps", kind: "iso | epochMs", default: "iso", doc: "csv, json: timestamps as ISO-8601 text or as integers" },
    OptionDef { name: "int64AsText", kind: "boolean", default: "false", doc: "csv, json: 64-bit integers as text" },
];

/// What is in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An object per line.
    Json,
    /// Delimited text.
    Csv,
    /// Apache Parquet.
    Parquet,
    /// Arrow IPC, file or stream.
    Arrow,
    /// Avro object container files.
    Avro,
    /// Protobuf messages, each with its length before it.
    Protobuf,
    /// Lines as they are.
    Raw,
}

const FORMATS: [(&str, Format); 8] = [
    ("json", Format::Json),
    ("jsonl", Format::Json),
    ("csv", Format::Csv),
    ("parquet", Format::Parquet),
    ("arrow", Format::Arrow),
    ("avro", Format::Avro),
    ("protobuf", Format::Protobuf),
    ("raw", Format::Raw),
];

impl Format {
    /// The format that a file's name says, the ending of a compression left out.
    pub(super) fn of(path: &Path) -> Option<Format> {
        let name = path.file_name()?.to_str()?;
        let name = Compression::strip(name);
        match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "json" | "jsonl" | "ndjson" => Some(Format::Json),
            "csv" => Some(Format::Csv),
            "parquet" => Some(Format::Parquet),
            "arrow" | "arrows" | "feather" | "ipc" => Some(Format::Arrow),
            "avro" => Some(Format::Avro),
            _ => None,
        }
    }

    pub(super) fn ending(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
            Format::Avro => "avro",
            Format::Protobuf => "pb",
            Format::Raw => "txt",
        }
    }
}

/// In which order files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Name,
    Modified,
}

/// What becomes of a file that changes after it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Changed {
    /// The run fails and names it.
    Error,
    /// It is another file, and read from its beginning.
    Read,
    /// What was read of it stays, and what is new in it is never read.
    Skip,
}

/// What becomes of a file that is gone before it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Missing {
    Error,
    Skip,
}

/// How new files are found while running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Watch {
    pub(super) every: Duration,
    /// How long a file must not have changed.
    pub(super) settle: Duration,
    /// The distance that what is not remembered keeps from the newest file.
    pub(super) late: Duration,
    pub(super) changed: Changed,
    pub(super) missing: Missing,
}

impl Watch {
    /// Of a run that was watched and is not any more: it takes what there is.
    pub(super) const LAST: Watch = Watch {
        every: Duration::MAX,
        settle: Duration::ZERO,
        late: Duration::from_secs(3600),
        changed: Changed::Error,
        missing: Missing::Error,
    };

    fn parse(options: &mut Options<'_>, remote: bool) -> Option<Watch> {
        const EVERY: Duration = Duration::from_secs(10);
        let every = match options.value("watch") {
            Some(Value::Bool(true)) => Some(EVERY),
            Some(Value::Bool(false)) => None,
            Some(Value::String(_)) | None => options.duration("watch"),
            Some(_) => {
                options.problem("watch", "expected a duration such as \"10s\", or `true` for every 10 s");
                None
            }
        };
        if every.is_some_and(|every| every < Duration::from_millis(1)) {
            options.problem("watch", "expected at least one millisecond");
        }
        let settle = options.duration("settle");
        let late = options.duration("lateFiles");
        let changed = options.choice("changed", &[("error", Changed::Error), ("read", Changed::Read), ("skip", Changed::Skip)]);
        let missing = options.choice("missing", &[("error", Missing::Error), ("skip", Missing::Skip)]);
        let Some(every) = every else {
            let given = [
                ("settle", settle.is_some()),
                ("lateFiles", late.is_some()),
                ("changed", changed.is_some()),
                ("missing", missing.is_some()),
            ];
            for (key, _) in given.into_iter().filter(|(_, given)| *given) {
                options.problem(key, format!("`{key}` is for watched files; set `watch` too, or remove it"));
            }
            return None;
        };
        Some(Watch {
            every,
            // An object is there as a whole or not at all.
            settle: settle.unwrap_or(if remote { Duration::ZERO } else { Duration::from_secs(5) }),
            late: late.unwrap_or(Duration::from_secs(3600)),
            changed: changed.unwrap_or(Changed::Error),
            missing: missing.unwrap_or(Missing::Error),
        })
    }
}

/// What a source reads.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FilesSourceConfig {
    pub(super) base: PathBuf,
    pub(super) path: String,
    pub(super) format: Option<Format>,
    pub(super) compression: Option<Compression>,
    pub(super) schema: Option<SchemaRef>,
    pub(super) infer_sample: usize,
    pub(super) csv: CsvFormat,
    pub(super) protobuf: Option<ProtobufFormat>,
    pub(super) order: Order,
    pub(super) watch: Option<Watch>,
    /// The bucket they are in.
    pub(super) remote: Option<Remote>,
}

/// A path, which must be local if nothing else is said.
fn path_of(options: &mut Options<'_>) -> String {
    let path = options.require_string("path").unwrap_or_default();
    if options.has("path") && path.is_empty() {
        options.problem("path", "expected a path");
    }
    path.strip_prefix("file://").map_or(path.clone(), str::to_string)
}

/// The bucket that a path is in, with its options.
fn remote_of(path: &str, options: &mut Options<'_>) -> Option<Remote> {
    if path.contains("://") {
        return Remote::parse(path, options);
    }
    if options.value("storeOptions").is_some() {
        options.problem("storeOptions", "`storeOptions` is for a `path` in a bucket, such as `s3://BUCKET/PREFIX`; remove it");
    }
    None
}

impl FilesSourceConfig {
    /// Reads the options of a dataset; relative paths are under `base`.
    ///
    /// # Errors
    /// Every mistake, each at its key.
    pub fn parse(map: &Map<String, Value>, base: &Path) -> Result<Self, Vec<Problem>> {
        let mut options = Options::new(map);
        let path = path_of(&mut options);
        let remote = remote_of(&path, &mut options);
        let format = options.choice("format", &FORMATS);
        let protobuf = shape::protobuf(&mut options, format == Some(Format::Protobuf), ProtobufFraming::Bare, base);
        let compression = options.choice(
            "compression",
            &[
                ("none", Compression::None),
                ("gz", Compression::Gz),
                ("gzip", Compression::Gz),
                ("zst", Compression::Zst),
                ("zstd", Compression::Zst),
            ],
        );
        let schema = shape::schema(&mut options);
        let csv = CsvFormat { header: options.boolean("header").unwrap_or(CsvFormat::default().header), ..shape::csv(&mut options) };
        let infer_sample = shape::infer_sample(&mut options);
        let order = options.choice("order", &[("name", Order::Name), ("modified", Order::Modified)]).unwrap_or(Order::Name);
        let watch = Watch::parse(&mut options, remote.is_some());
        // Older pipeline files say it; a file is a split here.
        let _ = options.value("partitions");
        let problems = options.finish();
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(FilesSourceConfig {
            base: base.to_path_buf(),
            path,
            format,
            compression,
            schema,
            infer_sample,
            csv,
            protobuf,
            order,
            watch,
            remote,
        })
    }
}

/// What a sink writes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FilesSinkConfig {
    /// Of a bucket the prefix in it.
    pub(super) directory: PathBuf,
    /// The bucket they go to.
    pub(super) remote: Option<Remote>,
    pub(super) format: Format,
    pub(super) compression: Option<Compression>,
    pub(super) partition_by: Vec<String>,
    pub(super) roll_bytes: Option<u64>,
    pub(super) roll_every: Option<Duration>,
    pub(super) text: TextOptions,
}

impl FilesSinkConfig {
    /// Reads the options of a dataset; relative paths are under `base`.
    ///
    /// # Errors
    /// Every mistake, each at its key.
    pub fn parse(map: &Map<String, Value>, base: &Path) -> Result<Self, Vec<Problem>> {
        let mut options = Options::new(map);
        let path = path_of(&mut options);
        let remote = remote_of(&path, &mut options);
        if remote.as_ref().is_some_and(Remote::is_pattern) {
            options.problem("path", "files are written below a prefix, which holds none of `*`, `?` and `[`");
        }
        let format = options.choice("format", &FORMATS[..6]).unwrap_or(Format::Json);
        let compression = options.choice(
            "compression",
            &[
                ("none", Compression::None),
                ("gz", Compression::Gz),
                ("gzip", Compression::Gz),
                ("zst", Compression::Zst),
                ("zstd", Compression::Zst),
                ("snappy", Compression::Snappy),
            ],
        );
        if compression == Some(Compression::Snappy) && format != Format::Parquet {
            options.problem("compression", "`snappy` is for parquet, use `gz` or `zst`");
        } else if format == Format::Avro && !matches!(compression, None | Some(Compression::None)) {
            options.problem("compression", "avro compresses its own blocks with deflate, leave it out or use `none`");
        }
        let roll_bytes = options.size("rollBytes");
        if roll_bytes == Some(0) {
            options.problem("rollBytes", "expected at least one byte");
        }
        let text = text_options(&mut options);
        let roll_every = options.duration("rollEvery");
        if roll_every == Some(Duration::ZERO) {
            let key = if options.has("rollEvery") { "rollEvery" } else { "rollEveryMs" };
            options.problem(key, "expected at least one millisecond");
        }
        let partition_by = options.strings("partitionBy").unwrap_or_default();
        let problems = options.finish();
        if !problems.is_empty() {
            return Err(problems);
        }
        let directory = remote.as_ref().map_or_else(|| base.join(path), |remote| PathBuf::from(remote.prefix()));
        Ok(FilesSinkConfig { directory, remote, format, compression, partition_by, roll_bytes, roll_every, text })
    }
}

//! The options of both halves.

use super::compression::Compression;
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

pub(super) const SOURCE_OPTIONS: &[OptionDef] = &[
    OptionDef {
        name: "path",
        kind: "text",
        default: "",
        doc: "a file, a directory, or a pattern such as `data/*.csv.gz`; names that begin with `.` or `_` are left out",
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
    OptionDef { name: "order", kind: "name | modified", default: "name", doc: "in which order files are read" },
];

pub(super) const SINK_OPTIONS: &[OptionDef] = &[
    OptionDef { name: "path", kind: "text", default: "", doc: "a directory; made if it does not exist" },
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
}

/// The path of files, which must not be an object store's for now.
fn local_path(options: &mut Options<'_>) -> String {
    let path = options.require_string("path").unwrap_or_default();
    match path.split_once("://") {
        Some(("file", rest)) => return rest.to_string(),
        Some((scheme, _)) => options.problem("path", format!("`{scheme}` object stores are not available yet, use a local path")),
        None if options.has("path") && path.is_empty() => options.problem("path", "expected a path"),
        None => {}
    }
    path
}

fn refuse(options: &mut Options<'_>, key: &str) {
    if options.value(key).is_some() {
        options.problem(key, format!("`{key}` is not available yet, remove it"));
    }
}

impl FilesSourceConfig {
    /// Reads the options of a dataset; relative paths are under `base`.
    ///
    /// # Errors
    /// Every mistake, each at its key.
    pub fn parse(map: &Map<String, Value>, base: &Path) -> Result<Self, Vec<Problem>> {
        let mut options = Options::new(map);
        let path = local_path(&mut options);
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
        refuse(&mut options, "watch");
        // Older pipeline files say it; a file is a split here.
        let _ = options.value("partitions");
        let problems = options.finish();
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(FilesSourceConfig { base: base.to_path_buf(), path, format, compression, schema, infer_sample, csv, protobuf, order })
    }
}

/// What a sink writes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct FilesSinkConfig {
    pub(super) directory: PathBuf,
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
        let path = local_path(&mut options);
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
        Ok(FilesSinkConfig { directory: base.join(path), format, compression, partition_by, roll_bytes, roll_every, text })
    }
}

//! The connector as a whole: contracts over every format, refusals, and what a crash leaves.

mod cases;
mod objects;
mod partitions;
mod watch;

use super::config::{FilesSinkConfig, FilesSourceConfig};
use super::*;
use crate::registry::ConnectorCtx;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::datatypes::{Int64Type, SchemaRef, TimestampMillisecondType};
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tidegate_api::testkit::{read_source, sorted_rows, source_contract};
use tidegate_api::{
    AnySink, BadReason, ChangeMode, Epoch, ErrorKind, Generation, InlineSource, OutputSink, PreCommit, RunId, RunIdentity, SinkCtx,
    SinkInput, SourceRequest,
};
use tidegate_conformance::sink::{SinkWorld, sink_contract};

fn map(options: Value) -> Map<String, Value> {
    options.as_object().unwrap().clone()
}

fn source_in(folder: &Path, options: Value) -> Arc<dyn InlineSource> {
    crate::source("files", &map(options), &ConnectorCtx::new(folder, "in")).unwrap()
}

fn sink_in(folder: &Path, options: Value) -> Arc<dyn OutputSink> {
    crate::sink("files", &map(options), &ConnectorCtx::new(folder, "out")).unwrap()
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn all_rows(source: &dyn InlineSource) -> Vec<RecordBatch> {
    read_source(source, &SourceRequest::all(), 1, 1000, None).into_values().map(|read| read.rows).collect()
}

fn sample(rows: std::ops::Range<i64>) -> RecordBatch {
    let texts: StringViewArray = rows.clone().map(|n| (n % 5 != 0).then(|| format!("text, \"number\" {n}\nof many"))).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(Int64Array::from_iter_values(rows.clone()))),
        ("text", Arc::new(texts)),
        ("at", Arc::new(TimestampMillisecondArray::from_iter_values(rows.map(|n| n * 1001)))),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true))).unwrap()
}

const SCHEMA: &str =
    r#"[{ "name": "n", "type": "int64" }, { "name": "text", "type": "string" }, { "name": "at", "type": "timestamp_ms" }]"#;

fn schema_option() -> Value {
    serde_json::from_str(SCHEMA).unwrap()
}

/// Writes rows through the sink itself, one epoch per batch.
fn write_parts(folder: &Path, options: Value, batches: &[RecordBatch]) {
    let sink = sink_in(folder, options);
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "out");
    let AnySink::Transactional(mut writer) = sink.open(SinkCtx::new(run.clone(), batches[0].schema())).unwrap() else { panic!() };
    let mut committer = sink.committer(SinkCtx::for_commit(run)).unwrap();
    for (epoch, batch) in (1..).zip(batches) {
        writer.write(batch, None).unwrap();
        let PreCommit::Token(token) = writer.pre_commit(Epoch(epoch)).unwrap() else { panic!() };
        committer.commit(Epoch(epoch), &[token]).unwrap();
    }
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn every_written_format_reads_back_under_the_source_contract() {
    for (format, compression) in [
        ("json", "none"),
        ("json", "gz"),
        ("csv", "zst"),
        ("csv", "none"),
        ("parquet", "snappy"),
        ("parquet", "zst"),
        ("arrow", "none"),
        ("arrow", "gz"),
    ] {
        let folder = TempDir::new().unwrap();
        let batches = [sample(0..40), sample(40..43)];
        write_parts(folder.path(), json!({ "path": "parts", "format": format, "compression": compression }), &batches);
        assert_eq!(names(&folder.path().join("parts")).len(), 2, "{format}");
        let source = source_in(folder.path(), json!({ "path": "parts", "schema": schema_option() }));
        source_contract(source.as_ref(), &SourceRequest::all());
        assert_eq!(sorted_rows(&all_rows(source.as_ref())), sorted_rows(&batches), "{format} {compression}");
    }
}

#[test]
fn avro_files_are_read_under_the_source_contract() {
    let folder = TempDir::new().unwrap();
    let batches = [sample(0..40), sample(40..43)];
    for options in [json!({ "path": "parts", "format": "avro" }), json!({ "path": "parts", "format": "avro", "compression": "none" })] {
        write_parts(folder.path(), options.clone(), &batches);
        let source = source_in(folder.path(), json!({ "path": "parts", "schema": schema_option() }));
        source_contract(source.as_ref(), &SourceRequest::all());
        assert_eq!(sorted_rows(&all_rows(source.as_ref())), sorted_rows(&batches), "{options}");
        fs::remove_dir_all(folder.path().join("parts")).unwrap();
    }
    write_parts(folder.path(), json!({ "path": "parts", "format": "avro" }), &batches);
    let inferred = source_in(folder.path(), json!({ "path": "parts" })).plan(&SourceRequest::all()).unwrap().schema;
    assert_eq!(inferred.fields().len(), batches[0].num_columns());
    // A file that is cut short says so, and no row of it is made up.
    let path = folder.path().join("parts").join(&names(&folder.path().join("parts"))[0]);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 20]).unwrap();
    let error = error_of(folder.path(), json!({ "path": "parts" })).to_string();
    assert!(error.contains("cannot be read as an Avro file: it ends within a block"), "{error}");
}

#[test]
fn raw_lines_and_protobuf_messages_are_read_with_their_positions() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("x.log"), "\u{feff}one\r\n\ntwo\n\u{e9}").unwrap();
    let source = source_in(folder.path(), json!({ "path": "x.log", "format": "raw" }));
    source_contract(source.as_ref(), &SourceRequest::all());
    let rows = all_rows(source.as_ref());
    let lines: Vec<_> = rows.iter().flat_map(|rows| rows.column(0).as_string_view().iter().map(|line| line.map(str::to_string))).collect();
    assert_eq!(lines.into_iter().flatten().collect::<Vec<_>>(), ["one", "", "two", "é"]);

    fs::write(folder.path().join("row.proto"), "syntax = \"proto3\"; package p; message Row { int64 a = 1; string s = 2; }").unwrap();
    let set = protox::Compiler::new([folder.path()]).unwrap().open_file("row.proto").unwrap().encode_file_descriptor_set();
    fs::write(folder.path().join("row.desc"), set).unwrap();
    fs::write(folder.path().join("x.pb"), [&[2, 0x08, 7, 0, 5, 0x08, 8, 0x12, 1][..], b"x"].concat()).unwrap();
    let options = json!({ "path": "x.pb", "format": "protobuf", "descriptor": "row.desc", "message": "p.Row" });
    let source = source_in(folder.path(), options);
    source_contract(source.as_ref(), &SourceRequest::all());
    let rows = all_rows(source.as_ref());
    let numbers: Vec<i64> = rows.iter().flat_map(|rows| rows.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    assert_eq!(numbers, [7, 0, 8]);

    let options = json!({ "path": "x.pb", "format": "protobuf", "descriptor": "row.desc", "message": "p.Wor" });
    let problems = crate::source("files", options.as_object().unwrap(), &ConnectorCtx::new(folder.path(), "x")).err().unwrap();
    assert_eq!((problems[0].path.join("."), problems[0].message.contains("no message `p.Wor`")), ("message".into(), true));
}

#[test]
fn rows_are_rescued_where_the_dataset_asks_for_it() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("x.csv"), "a,b\n1,2\nmany,3\n4\n").unwrap();
    let options = json!({ "path": "x.csv", "schema": [{ "name": "a", "type": "int64" }, { "name": "b", "type": "int64" }] });
    let source = source_in(folder.path(), options);
    let request = SourceRequest::all().with_rescue(true);
    source_contract(source.as_ref(), &request);
    let rows: Vec<RecordBatch> = read_source(source.as_ref(), &request, 1, 1000, None).into_values().map(|read| read.rows).collect();
    let column = |column: usize| -> Vec<Option<i64>> {
        rows.iter().flat_map(|rows| rows.column(column).as_primitive::<Int64Type>().iter().collect::<Vec<_>>()).collect()
    };
    assert_eq!((column(0), column(1)), (vec![Some(1), None, None], vec![Some(2), Some(3), None]));
    let texts: Vec<_> = rows.iter().flat_map(|rows| rows.column(2).as_string_view().iter().map(|text| text.map(str::to_string))).collect();
    assert_eq!(texts, [None, Some("many,3".into()), Some("4".into())]);
}

#[test]
fn arrow_files_and_streams_keep_the_source_contract() {
    use arrow::ipc::writer::{FileWriter, StreamWriter};
    let batches = [sample(0..30), sample(30..31), sample(31..60)];
    let schema = batches[0].schema();
    let folder = TempDir::new().unwrap();
    let mut file = FileWriter::try_new(Vec::new(), &schema).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &schema).unwrap();
    for batch in &batches {
        file.write(batch).unwrap();
        stream.write(batch).unwrap();
    }
    fs::write(folder.path().join("a.arrow"), file.into_inner().unwrap()).unwrap();
    let stream = stream.into_inner().unwrap();
    fs::write(folder.path().join("b.arrows"), &stream).unwrap();
    fs::write(folder.path().join("c.arrows.gz"), gz(&stream)).unwrap();
    let source = source_in(folder.path(), json!({ "path": "*.arrow*" }));
    source_contract(source.as_ref(), &SourceRequest::all());
    assert_eq!(all_rows(source.as_ref()).iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), [60, 60, 60]);
}

#[test]
fn parquet_of_several_row_groups_goes_on_inside_one() {
    use parquet::arrow::ArrowWriter;
    use parquet::file::properties::WriterProperties;
    let folder = TempDir::new().unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(17)).build();
    let batch = sample(0..100);
    let file = fs::File::create(folder.path().join("x.parquet")).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let source = source_in(folder.path(), json!({ "path": "x.parquet" }));
    source_contract(source.as_ref(), &SourceRequest::all());
    assert_eq!(all_rows(source.as_ref()), [batch]);
    // Declared narrower than the file: what does not fit is bad, and only that.
    let source = source_in(
        folder.path(),
        json!({ "path": "x.parquet", "schema": [{ "name": "n", "type": "int8" }, { "name": "text", "type": "string" }] }),
    );
    source_contract(source.as_ref(), &SourceRequest::all());
    let narrow = source_in(folder.path(), json!({ "path": "x.parquet", "schema": [{ "name": "at", "type": "timestamp_s" }] }));
    assert_eq!(all_rows(narrow.as_ref())[0].num_rows(), 100);
    let missing = source_in(folder.path(), json!({ "path": "x.parquet", "schema": [{ "name": "txet", "type": "string" }] }));
    let splits = missing.discover(None).unwrap().added;
    let ctx = tidegate_api::SourceCtx::new(RunIdentity::new("t", RunId::new("r"), Generation(1), "in")).with_start(splits);
    let request = tidegate_api::PollRequest { max_rows: 1, max_bytes: 1, wait: std::time::Duration::ZERO };
    let error = missing.open(ctx).unwrap().poll(request).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("x.parquet") && error.to_string().contains("did you mean `text`"), "{error}");
}

#[test]
fn bad_rows_are_reported_with_their_place_and_keep_the_contract() {
    let folder = TempDir::new().unwrap();
    let lines: String = (0..200).map(|n| if n % 13 == 5 { format!("{n},x\n") } else { format!("{n},{n}\n") }).collect();
    fs::write(folder.path().join("a.csv"), format!("n,m\n{lines}")).unwrap();
    let objects: String =
        (0..200).map(|n| if n % 13 == 5 { format!("{{\"n\":{n},\"m\":\n") } else { format!("{{\"n\":{n},\"m\":{n}}}\n") }).collect();
    fs::write(folder.path().join("b.json"), objects).unwrap();
    let source =
        source_in(folder.path(), json!({ "path": ".", "schema": [{ "name": "n", "type": "int64" }, { "name": "m", "type": "uint8" }] }));
    source_contract(source.as_ref(), &SourceRequest::all());
    for (id, read) in read_source(source.as_ref(), &SourceRequest::all().with_ordinals(true), 1, 30, None) {
        assert_eq!(read.bad.len(), 15, "{id}");
        assert_eq!(read.rows.num_rows(), 185);
        assert_eq!(read.bad[1].position.as_ref().unwrap().split(',').next(), Some("row 18"));
        assert_eq!(read.bad[1].split.as_ref(), Some(&id));
        assert_eq!(read.ordinals[17..19], [19, 20]);
    }
}

#[test]
fn p018_every_member_of_a_gzip_file_is_read() {
    let folder = TempDir::new().unwrap();
    let members = [gz(b"n\n1\n2\n"), gz(b"3\n"), gz(b""), gz(b"4\n")].concat();
    fs::write(folder.path().join("a.csv.gz"), members).unwrap();
    let source = source_in(folder.path(), json!({ "path": "a.csv.gz" }));
    assert_eq!(all_rows(source.as_ref())[0].column(0).as_primitive::<Int64Type>().values(), &[1, 2, 3, 4]);
}

fn error_of(folder: &Path, options: Value) -> tidegate_api::Error {
    let source = source_in(folder, options);
    let read = || {
        source.plan(&SourceRequest::all())?;
        let splits = source.discover(None)?.added;
        let ctx = tidegate_api::SourceCtx::new(RunIdentity::new("t", RunId::new("r"), Generation(1), "in")).with_start(splits);
        let mut reader = source.open(ctx)?;
        let request = tidegate_api::PollRequest { max_rows: 1000, max_bytes: 1 << 20, wait: std::time::Duration::ZERO };
        while reader.poll(request)?.states.is_empty() {}
        Ok(())
    };
    read().unwrap_err()
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = TempDir::new().unwrap();
    let whole = gz("n\n1\n".repeat(1000).as_bytes());
    fs::write(folder.path().join("cut.csv.gz"), &whole[..whole.len() / 2]).unwrap();
    fs::write(folder.path().join("no.parquet"), b"not parquet").unwrap();
    fs::write(folder.path().join("data.txt"), b"x").unwrap();
    fs::write(folder.path().join("a.csv"), b"n\n1\n").unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    let schema = json!([{ "name": "m", "type": "int64" }]);
    let external = ErrorKind::External { retry: tidegate_api::Retry::No };
    for (options, kind, words) in [
        (json!({ "path": "cut.csv.gz" }), external, ["cut.csv.gz", "truncated"]),
        (json!({ "path": "gone.csv" }), external, ["gone.csv", "does not exist"]),
        (json!({ "path": "*.json" }), external, ["*.json", "no file matches"]),
        (json!({ "path": "empty" }), external, ["empty", "no files"]),
        (json!({ "path": "no.parquet" }), external, ["no.parquet", "Parquet"]),
        (json!({ "path": "data.txt" }), ErrorKind::Config, ["data.txt", "set `format`"]),
        (json!({ "path": "a.csv", "schema": schema }), ErrorKind::Config, ["a.csv", "no column `m`"]),
        (json!({ "path": "[", "schema": schema }), ErrorKind::Config, ["[", "pattern"]),
    ] {
        let error = error_of(folder.path(), options.clone());
        let message = error.to_string();
        assert!(words.iter().all(|word| message.contains(word)), "{options}: {message}");
        assert_eq!(error.kind(), kind, "{message}");
    }
}

#[test]
fn a_gzip_file_says_what_is_wrong_with_it() {
    let folder = TempDir::new().unwrap();
    let whole = gz(b"n\n1\n2\n");
    fs::write(folder.path().join("text.csv.gz"), b"n\n1\n2\n").unwrap();
    fs::write(folder.path().join("tail.csv.gz"), [whole.as_slice(), b"garbage"].concat()).unwrap();
    fs::write(folder.path().join("cut.csv.gz"), &whole[..whole.len() - 9]).unwrap();
    fs::write(folder.path().join("empty.csv.gz"), b"").unwrap();
    for (name, words) in [
        ("text.csv.gz", "is not a gzip file"),
        ("tail.csv.gz", "garbage after the end"),
        ("cut.csv.gz", "truncated"),
        ("empty.csv.gz", "truncated"),
    ] {
        let message = error_of(folder.path(), json!({ "path": name, "schema": [{ "name": "n", "type": "int64" }] })).to_string();
        assert!(message.contains(name) && message.contains(words), "{message}");
    }
}

#[test]
fn a_file_that_ends_before_the_saved_position_is_an_error() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.csv"), b"n\n1\n").unwrap();
    fs::write(folder.path().join("a.json"), b"{}\n\n").unwrap();
    fs::write(folder.path().join("a.csv.gz"), gz(b"n\n1\n")).unwrap();
    for name in ["a.csv", "a.json", "a.csv.gz"] {
        let source = source_in(folder.path(), json!({ "path": name, "schema": [{ "name": "n", "type": "int64" }] }));
        let read_at = |position: &str| {
            let mut splits = source.discover(None).unwrap().added;
            splits[0].position = Some(tidegate_api::Position(position.as_bytes().to_vec()));
            let ctx = tidegate_api::SourceCtx::new(RunIdentity::new("t", RunId::new("r"), Generation(1), "in")).with_start(splits);
            source.open(ctx).unwrap().poll(tidegate_api::PollRequest { max_rows: 1, max_bytes: 1, wait: std::time::Duration::ZERO })
        };
        let message = read_at("5:0:1").unwrap_err().to_string();
        assert!(message.contains(name) && message.contains("ends at 4, before the position 5"), "{message}");
        assert!(read_at("4:0:1").unwrap().chunks.is_empty());
    }
}

#[test]
fn discovery_gives_every_file_once_and_leaves_hidden_ones_out() {
    let folder = TempDir::new().unwrap();
    for name in ["b.csv", "a.csv", ".hidden.csv", "_SUCCESS"] {
        fs::write(folder.path().join(name), b"n\n1\n").unwrap();
    }
    let source = source_in(folder.path(), json!({ "path": ".", "format": "csv" }));
    let first = source.discover(None).unwrap();
    let found = |found: &tidegate_api::Discovered| found.added.iter().map(|split| split.id.to_string()).collect::<Vec<_>>();
    assert_eq!(found(&first), ["a.csv", "b.csv"]);
    fs::write(folder.path().join("c.csv"), b"n\n1\n").unwrap();
    fs::remove_file(folder.path().join("a.csv")).unwrap();
    let second = source.discover(first.cursor.as_deref()).unwrap();
    assert_eq!(found(&second), ["c.csv"]);
    assert_eq!(second.gone.iter().map(|id| id.to_string()).collect::<Vec<_>>(), ["a.csv"]);
}

#[test]
fn a_mistake_in_the_options_is_at_its_key() {
    let options =
        map(json!({ "format": "cvs", "delimiter": "::", "schema": [{ "name": "a", "type": "int46" }], "watch": true, "colour": 1 }));
    let mut keys: Vec<String> =
        FilesSourceConfig::parse(&options, Path::new(".")).unwrap_err().into_iter().map(|problem| problem.path.join(".")).collect();
    keys.sort();
    assert_eq!(keys, ["colour", "delimiter", "format", "path", "schema.0.type"]);
    let options = map(json!({ "path": "s4://bucket/x", "partitionBy": [7], "compression": "snappy", "format": "csv" }));
    let mut problems = FilesSinkConfig::parse(&options, Path::new(".")).unwrap_err();
    problems.sort();
    let keys: Vec<String> = problems.iter().map(|problem| problem.path.join(".")).collect();
    assert_eq!(keys, ["compression", "partitionBy", "path"]);
    assert!(problems[1].message.contains("expected a list of texts"));
}

/// How many files wait hidden below an output.
fn staged(out: &Path) -> usize {
    fn count(folder: &Path) -> usize {
        let Ok(entries) = fs::read_dir(folder) else { return 0 };
        entries.map(|entry| entry.unwrap().path()).map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
    }
    count(&out.join(STAGING))
}

#[test]
fn the_sink_keeps_its_contract_in_every_format() {
    let rows = [sample(0..20), sample(20..25)];
    for format in ["json", "csv", "parquet"] {
        sink_contract(&rows[0].schema(), &rows, || {
            let folder = Arc::new(TempDir::new().unwrap());
            let place = Arc::clone(&folder);
            let sink = move || sink_in(place.path(), json!({ "path": "out", "format": format }));
            let place = Arc::clone(&folder);
            let hidden = move || staged(&place.path().join("out"));
            let visible = move || {
                let out = folder.path().join("out");
                if !out.exists() || names(&out).iter().all(|name| name == STAGING) {
                    return Vec::new();
                }
                all_rows(source_in(folder.path(), json!({ "path": "out", "schema": schema_option() })).as_ref())
            };
            SinkWorld::new(sink, visible, hidden)
        });
    }
}

#[test]
fn names_say_where_a_part_comes_from_and_nothing_stays_behind() {
    let folder = TempDir::new().unwrap();
    write_parts(folder.path(), json!({ "path": "deep/out" }), &[sample(0..3), sample(3..4)]);
    assert_eq!(names(&folder.path().join("deep/out")), ["part-run-out-1-1-0-0.json", "part-run-out-1-2-0-0.json"]);
}

#[test]
fn parts_roll_when_they_are_large_enough() {
    let folder = TempDir::new().unwrap();
    let sink = sink_in(folder.path(), json!({ "path": "out", "rollBytes": "1KiB" }));
    let run = RunIdentity::new("test", RunId::new("run"), Generation(3), "my/out");
    let AnySink::Transactional(mut writer) = sink.open(SinkCtx::new(run.clone(), sample(0..1).schema()).with_index(1)).unwrap() else {
        panic!()
    };
    for n in 0..40 {
        writer.write(&sample(n..n + 1), None).unwrap();
    }
    let PreCommit::Token(token) = writer.pre_commit(Epoch(9)).unwrap() else { panic!() };
    assert!(!String::from_utf8(token.0.clone()).unwrap().contains(folder.path().to_str().unwrap()), "tokens name nothing absolute");
    sink.committer(SinkCtx::for_commit(run).with_index(1)).unwrap().commit(Epoch(9), &[token]).unwrap();
    let parts = names(&folder.path().join("out"));
    assert!(parts.len() > 2 && parts.contains(&"part-run-my%2fout.1-3-9-0-2.json".to_string()), "{parts:?}");
    let rows = all_rows(source_in(folder.path(), json!({ "path": "out", "schema": schema_option() })).as_ref());
    assert_eq!(sorted_rows(&rows), sorted_rows(&[sample(0..40)]));
}

#[test]
fn a_token_that_points_elsewhere_is_refused() {
    let folder = TempDir::new().unwrap();
    let sink = sink_in(folder.path(), json!({ "path": "out" }));
    let run = RunIdentity::new("test", RunId::new("run"), Generation(1), "out");
    let mut committer = sink.committer(SinkCtx::for_commit(run)).unwrap();
    for parts in [json!([{ "staged": "../x", "name": "y" }]), json!([{ "staged": "x", "name": "/etc/y" }])] {
        let token = tidegate_api::CommitToken(serde_json::to_vec(&json!({ "run": "run", "sink": "out", "parts": parts })).unwrap());
        assert!(committer.commit(Epoch(1), &[token]).is_err());
    }
    let other = tidegate_api::CommitToken(serde_json::to_vec(&json!({ "run": "run", "sink": "else", "parts": [] })).unwrap());
    assert!(committer.commit(Epoch(1), &[other]).is_err());
}

#[test]
fn upserts_are_refused_with_the_remedy() {
    let folder = TempDir::new().unwrap();
    let input = SinkInput::new(sample(0..1).schema(), ChangeMode::Upsert { keys: vec!["n".into()] });
    for connector in ["files", "stdout"] {
        let options = if connector == "files" { json!({ "path": "out" }) } else { json!({}) };
        let sink = crate::sink(connector, &map(options), &ConnectorCtx::new(folder.path(), "out")).unwrap();
        assert!(sink.plan(&input).unwrap_err().to_string().contains("changelog = true"));
    }
}

fn flights_options(path: &str) -> Value {
    let column = |name: &str, kind: &str| json!({ "name": name, "type": kind });
    json!({
        "path": path,
        "nullValues": ["NA"],
        "schema": [
            column("year", "int64"), column("month", "int64"), column("day", "int64"), column("dep_time", "int64"), column("dep_delay", "int64"),
            column("tailnum", "string"), column("origin", "string"), column("distance", "int64"), column("time_hour", "timestamp_ms"),
        ],
    })
}

/// What a plain loop over the decompressed text finds: rows, rows without departure, sum of distances, rows without tail number.
fn counted(path: &Path) -> [i64; 4] {
    let mut text = String::new();
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(fs::File::open(path).unwrap()), &mut text).unwrap();
    let mut found = [0; 4];
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let distance: i64 = fields[15].parse().unwrap();
        for (count, add) in found.iter_mut().zip([1, i64::from(fields[3] == "NA"), distance, i64::from(fields[11] == "NA")]) {
            *count += add;
        }
    }
    found
}

fn read_flights(path: &Path) -> (RecordBatch, SchemaRef) {
    let source = source_in(Path::new("/"), flights_options(path.to_str().unwrap()));
    let read = read_source(source.as_ref(), &SourceRequest::all(), 1, 8192, None).into_values().next().unwrap();
    assert!(read.bad.is_empty(), "{:?}", read.bad.first());
    let nulls = |column: &str| read.rows.column_by_name(column).unwrap().null_count() as i64;
    let distances = read.rows.column_by_name("distance").unwrap().as_primitive::<Int64Type>();
    let found = [read.rows.num_rows() as i64, nulls("dep_time"), distances.values().iter().sum(), nulls("tailnum")];
    assert_eq!(found, counted(path));
    let schema = read.rows.schema();
    (read.rows, schema)
}

fn week() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flights/data/flights-week1.csv.gz")).unwrap()
}

#[test]
fn a_week_of_flights_is_read_as_a_plain_loop_reads_it() {
    let (rows, _) = read_flights(&week());
    assert_eq!(rows.num_rows(), 6_099);
    let times = rows.column_by_name("time_hour").unwrap().as_primitive::<TimestampMillisecondType>();
    assert_eq!(times.value(0), 1_357_034_400_000);
    let inferred = source_in(Path::new("/"), json!({ "path": week().to_str().unwrap(), "nullValues": ["NA"] }));
    let schema = inferred.plan(&SourceRequest::all()).unwrap().schema;
    assert_eq!(schema.fields().len(), 19);
    assert_eq!(schema.field_with_name("time_hour").unwrap().data_type(), rows.schema().field_with_name("time_hour").unwrap().data_type());
    assert_eq!(schema.field_with_name("dep_delay").unwrap().data_type(), &arrow::datatypes::DataType::Int64);
}

#[test]
fn a_year_of_flights_is_read_as_a_plain_loop_reads_it() {
    // The whole year is not committed; where it lies beside the repository it is read too.
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/nycflights13/flights.csv.gz");
    if let Ok(path) = fs::canonicalize(path) {
        assert_eq!(read_flights(&path).0.num_rows(), 336_776);
    }
}

#[test]
fn a_damaged_position_is_refused() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.csv"), b"n\n1\n").unwrap();
    let source = source_in(folder.path(), json!({ "path": "a.csv" }));
    let mut splits = source.discover(None).unwrap().added;
    splits[0].position = Some(tidegate_api::Position(b"5".to_vec()));
    let ctx = tidegate_api::SourceCtx::new(RunIdentity::new("t", RunId::new("r"), Generation(1), "in")).with_start(splits);
    assert!(source.open(ctx).is_err());
}

#[test]
fn a_value_too_large_for_its_column_is_a_type_mismatch() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.json"), b"{\"n\":999}\n{\"n\":1}\n").unwrap();
    let source = source_in(folder.path(), json!({ "path": "a.json", "schema": [{ "name": "n", "type": "uint8" }] }));
    let read = read_source(source.as_ref(), &SourceRequest::all(), 1, 10, None).into_values().next().unwrap();
    assert_eq!((read.rows.num_rows(), read.bad.len()), (1, 1));
    assert_eq!(read.bad[0].reason, BadReason::TypeMismatch);
}

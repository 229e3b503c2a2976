//! The first-party plugins, built through the public path, used like native ones.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

#[macro_use]
mod kit;

use arrow::array::{Array, BooleanArray, Float64Array, Int64Array, RecordBatch, StringViewArray, TimestampMillisecondArray};
use arrow::compute::concat_batches;
use kit::run;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::testkit::{SplitRead, read_source};
use tidegate_api::{
    AnySink, CommitOutcome, CommitToken, Epoch, EventTime, Generation, Output, PollRequest, PreCommit, RunId, RunIdentity, SinkCtx,
    SourceCtx, SourceReader, Split, SplitState, StepCtx,
};
use tidegate_host::{HostConfig, Plugin, PluginHost, PluginSpec, World};

fn built(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../plugins/target/components/{name}.wasm"));
    assert!(path.exists(), "`{}` is missing; run `cargo xtask guests` first, or all tests with `cargo xtask test`", path.display());
    path
}

fn load(name: &str, allow: &Value) -> Arc<Plugin> {
    // Compiled once for all tests; two that compile at the same time do not disturb each other.
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    let host = PluginHost::new(HostConfig::new().with_cache_dir(Some(cache))).unwrap();
    host.load(&PluginSpec::new(name, built(name)).with_allow(allow.as_object().unwrap()).unwrap()).unwrap()
}

#[test]
fn mask_pii_reads_only_its_columns_and_hashes_them() {
    let plugin = load("mask-pii", &json!({}));
    assert_eq!(plugin.worlds(), [World::Transform]);
    let batch = rows!(
        ("origin", StringViewArray, ["EWR", "LGA", "JFK"]),
        ("tailnum", StringViewArray, [Some("N14228"), None, Some("N14228")]),
        ("delay", Int64Array, [2, 4, -1])
    );
    let transform = plugin.transform(&json!({ "columns": ["tailnum"] }), batch.schema()).unwrap();
    assert_eq!((transform.reads.as_slice(), transform.carries.len(), transform.rowwise), (["tailnum".to_string()].as_slice(), 2, true));
    let mut step = transform.factory.open(StepCtx::new(run(), 0, 1)).unwrap();
    let mut out = Output::default();
    step.apply(batch.clone(), EventTime(0), &mut out).unwrap();
    let [masked] = out.batches.as_slice() else { panic!("one batch") };
    let digest: String = Sha256::digest(b"N14228").iter().map(|byte| format!("{byte:02x}")).collect();
    let expected = StringViewArray::from(vec![Some(&digest[..32]), None, Some(&digest[..32])]);
    assert_eq!(masked.column(1).as_ref(), &expected);
    assert_eq!((masked.column(0), masked.column(2)), (batch.column(0), batch.column(2)));
}

#[test]
fn mask_pii_refuses_a_column_that_is_not_there() {
    let schema = rows!(("a", StringViewArray, ["x"])).schema();
    let error = load("mask-pii", &json!({})).transform(&json!({ "columns": ["tailnum"] }), schema).err().expect("it must fail");
    assert_eq!(error.kind(), tidegate_api::ErrorKind::Config);
    assert!(error.to_string().contains("plugin `mask-pii`: call `bind`") && error.to_string().contains("tailnum"), "{error}");
}

/// One batch through a transform.
fn apply(name: &str, config: &Value, batch: &RecordBatch) -> Output {
    let transform = load(name, &json!({})).transform(config, batch.schema()).unwrap();
    assert!(transform.rowwise);
    let mut out = Output::default();
    transform.factory.open(StepCtx::new(run(), 0, 1)).unwrap().apply(batch.clone(), EventTime(0), &mut out).unwrap();
    out
}

#[test]
fn json_flatten_makes_typed_columns_and_reports_what_is_no_json() {
    let batch = rows!(
        ("n", Int64Array, [1, 2, 3, 4]),
        (
            "payload",
            StringViewArray,
            [
                Some(r#"{"id": 9007199254740993, "ok": true, "tags": ["a", {"b": "c"}], "at": "2013-01-01T05:00:00Z"}"#),
                None,
                Some(r#"{"id": 1,"#),
                Some(r#"{"id": -1.0, "price": 1.5, "tags": "none"}"#)
            ]
        )
    );
    let field = |path: &str, name: &str, value_type: &str| json!({ "path": path, "name": name, "type": value_type });
    let fields = [
        field("id", "id", "int64"),
        field("ok", "ok", "bool"),
        field("tags[1].b", "tag", "string"),
        field("at", "at", "timestamp_ms"),
        field("price", "price", "float64"),
    ];
    let out = apply("json-flatten", &json!({ "column": "payload", "fields": fields, "prefix": "p_", "onError": "bad" }), &batch);
    let [flat] = out.batches.as_slice() else { panic!("one batch") };
    let names: Vec<_> = flat.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["n", "payload", "p_id", "p_ok", "p_tag", "p_at", "p_price"]);
    assert_eq!(flat.column(0).as_ref(), &Int64Array::from(vec![1, 2, 4]));
    assert_eq!(flat.column(2).as_ref(), &Int64Array::from(vec![Some(9_007_199_254_740_993), None, Some(-1)]));
    assert_eq!(flat.column(3).as_ref(), &BooleanArray::from(vec![Some(true), None, None]));
    assert_eq!(flat.column(4).as_ref(), &StringViewArray::from(vec![Some("c"), None, None]));
    assert_eq!(flat.column(5).as_ref(), &TimestampMillisecondArray::from(vec![Some(1_357_016_400_000), None, None]));
    assert_eq!(flat.column(6).as_ref(), &Float64Array::from(vec![None, None, Some(1.5)]));
    let [bad] = out.bad.as_slice() else { panic!("{:?}", out.bad) };
    assert_eq!((bad.row, bad.column.as_deref()), (Some(2), Some("payload")));
    assert!(bad.message.contains("is no JSON"), "{}", bad.message);
}

#[test]
fn geo_enrich_puts_the_table_beside_the_codes() {
    let batch = rows!(("origin", StringViewArray, [Some("EWR"), None, Some("ZZZ"), Some("JFK")]), ("delay", Int64Array, [2, 4, 6, 8]));
    let table = "faa,name,lat,alt\r\nEWR,Newark Liberty Intl,40.6925,18\r\nJFK,\"Kennedy, John F\",40.639751,13\r\n";
    let mut config = json!({ "column": "origin", "table": table, "key": "faa", "add": ["lat", "name", "alt"], "prefix": "origin_" });
    let out = apply("geo-enrich", &config, &batch);
    let [rich] = out.batches.as_slice() else { panic!("one batch") };
    assert_eq!((rich.column(0), rich.column(1)), (batch.column(0), batch.column(1)));
    assert_eq!(rich.column_by_name("origin_lat").unwrap().as_ref(), &Float64Array::from(vec![Some(40.6925), None, None, Some(40.639751)]));
    let names = StringViewArray::from(vec![Some("Newark Liberty Intl"), None, None, Some("Kennedy, John F")]);
    assert_eq!(rich.column_by_name("origin_name").unwrap().as_ref(), &names);
    assert_eq!(rich.column_by_name("origin_alt").unwrap().as_ref(), &Int64Array::from(vec![Some(18), None, None, Some(13)]));
    config["onUnknown"] = json!("bad");
    let out = apply("geo-enrich", &config, &batch);
    assert_eq!(out.batches[0].num_rows(), 3);
    let bad: Vec<_> = out.bad.iter().map(|bad| (bad.row, bad.message.as_str())).collect();
    assert_eq!(bad, [(Some(2), "plugin `geo-enrich`: the table has no `faa` `ZZZ`")]);
}

/// Reads on until every split has finished or `polls` are over; rows and last positions per split.
fn drain(reader: &mut dyn SourceReader, splits: &mut BTreeMap<String, Split>, polls: usize) -> Vec<RecordBatch> {
    let mut rows = Vec::new();
    for _ in 0..polls {
        let polled = reader.poll(PollRequest { max_rows: 7, max_bytes: 1 << 20, wait: Duration::ZERO }).unwrap();
        for chunk in polled.chunks {
            splits.get_mut(chunk.split.as_str()).unwrap().position = Some(chunk.position);
            rows.push(chunk.rows);
        }
        for (split, state) in polled.states {
            if state == SplitState::Finished {
                splits.remove(split.as_str());
            }
        }
        if splits.is_empty() {
            break;
        }
    }
    rows
}

fn seqs(batches: &[RecordBatch]) -> Vec<i64> {
    let mut seqs = Vec::new();
    for batch in batches {
        let column = batch.column_by_name("seq").unwrap();
        let column = arrow::compute::cast(column, &arrow::datatypes::DataType::Int64).unwrap();
        seqs.extend(column.as_any().downcast_ref::<Int64Array>().unwrap().values());
    }
    seqs.sort_unstable();
    seqs
}

#[test]
fn ticker_gives_every_tick_once_also_when_it_is_opened_again_at_its_positions() {
    let source = load("ticker", &json!({})).source(&json!({ "rows": 100, "splits": 3 })).unwrap();
    let request = tidegate_api::SourceRequest::all().with_columns(Some(vec!["seq".into()]));
    let plan = source.plan(&request).unwrap();
    assert!(plan.bounded && plan.replayable);
    assert_eq!(plan.schema.fields().len(), 1);
    let found = source.discover(None).unwrap();
    assert_eq!((found.added.len(), found.complete), (3, true));
    assert!(source.discover(found.cursor.as_deref()).unwrap().added.is_empty());
    for polls in [0, 1, 2, 5, 1000] {
        let mut splits: BTreeMap<String, Split> = found.added.iter().map(|split| (split.id.to_string(), split.clone())).collect();
        let open = |splits: &BTreeMap<String, Split>| {
            let ctx = SourceCtx::new(run()).with_start(splits.values().cloned().collect()).with_request(request.clone());
            source.open(ctx).unwrap()
        };
        let mut rows = drain(open(&splits).as_mut(), &mut splits, polls);
        if !splits.is_empty() {
            rows.extend(drain(open(&splits).as_mut(), &mut splits, 1000));
        }
        assert_eq!(seqs(&rows), (0..100).collect::<Vec<_>>(), "opened again after {polls} polls");
    }
}

#[test]
fn jsonl_without_its_grant_says_which_one_is_missing() {
    let sink = load("jsonl", &json!({})).sink(&json!({ "dir": "/out" })).unwrap();
    let schema = rows!(("a", Int64Array, [1])).schema();
    let error = sink.plan(&tidegate_api::SinkInput::new(schema, tidegate_api::ChangeMode::Append)).unwrap_err();
    assert!(error.to_string().contains("plugin `jsonl`") && error.to_string().contains("allow = { dirs"), "{error}");
}

#[test]
fn jsonl_granted_a_directory_for_reading_is_refused_before_anything_runs() {
    let dir = tempfile::tempdir().unwrap();
    let plan = |mode: &str| {
        let allow = json!({ "dirs": [format!("{}=/out{mode}", dir.path().display())] });
        let sink = load("jsonl", &allow).sink(&json!({ "dir": "/out" })).unwrap();
        let schema = rows!(("a", Int64Array, [1])).schema();
        sink.plan(&tidegate_api::SinkInput::new(schema, tidegate_api::ChangeMode::Append))
    };
    for mode in ["", ":ro"] {
        let error = plan(mode).unwrap_err();
        assert_eq!(error.kind(), tidegate_api::ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("read-only") && error.to_string().contains("HOST=/out:rw"), "{error}");
    }
    assert!(plan(":rw").is_ok());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "asking leaves nothing behind");
}

struct Jsonl {
    dir: tempfile::TempDir,
    sink: Arc<dyn tidegate_api::OutputSink>,
}

impl Jsonl {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let allow = json!({ "dirs": [format!("{}=/out:rw", dir.path().display())] });
        let sink = load("jsonl", &allow).sink(&json!({ "dir": "/out" })).unwrap();
        Jsonl { dir, sink }
    }

    fn run(generation: u64) -> RunIdentity {
        RunIdentity::new("pipe", RunId::new("run"), Generation(generation), "out")
    }

    /// Writes and pre-commits one epoch.
    fn prepare(&self, generation: u64, epoch: u64, rows: &RecordBatch) -> CommitToken {
        let AnySink::Transactional(mut writer) = self.sink.open(SinkCtx::new(Jsonl::run(generation), rows.schema())).unwrap() else {
            panic!("it is two-phase")
        };
        writer.write(rows, None).unwrap();
        let PreCommit::Token(token) = writer.pre_commit(Epoch(epoch)).unwrap() else { panic!("rows were written") };
        token
    }

    fn committer(&self, generation: u64) -> Box<dyn tidegate_api::Committer> {
        self.sink.committer(SinkCtx::for_commit(Jsonl::run(generation))).unwrap()
    }

    /// What a reader sees: the lines of every visible part.
    fn visible(&self) -> Vec<Value> {
        let mut lines = Vec::new();
        for entry in walk(self.dir.path()) {
            let text = std::fs::read_to_string(entry).unwrap();
            lines.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()));
        }
        lines.sort_by_key(ToString::to_string);
        lines
    }
}

fn walk(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect()
}

#[test]
fn jsonl_shows_rows_at_their_commit_and_once() {
    let jsonl = Jsonl::new();
    let rows = rows!(("n", Int64Array, [1, 2]), ("s", StringViewArray, ["x", "ü\n"]));
    let token = jsonl.prepare(1, 1, &rows);
    assert!(jsonl.visible().is_empty(), "prepared rows are invisible");
    let tokens = std::slice::from_ref(&token);
    assert_eq!(jsonl.committer(1).commit(Epoch(1), tokens).unwrap(), [CommitOutcome::Done]);
    let expected = [json!({ "n": 1, "s": "x" }), json!({ "n": 2, "s": "ü\n" })];
    assert_eq!(jsonl.visible(), expected);
    assert_eq!(jsonl.committer(2).commit(Epoch(1), tokens).unwrap(), [CommitOutcome::AlreadyDone]);
    assert_eq!(jsonl.visible(), expected);
}

#[test]
fn jsonl_undoes_what_no_manifest_names_and_keeps_what_one_does() {
    let jsonl = Jsonl::new();
    let rows = rows!(("n", Int64Array, [1]));
    let kept = jsonl.prepare(1, 1, &rows);
    let undone = jsonl.prepare(1, 2, &rows);
    jsonl.committer(2).recover(std::slice::from_ref(&kept)).unwrap();
    let lost = jsonl.committer(2).commit(Epoch(2), &[undone]).unwrap();
    assert!(matches!(lost.as_slice(), [CommitOutcome::Lost(_)]), "{lost:?}");
    assert_eq!(jsonl.committer(2).commit(Epoch(1), &[kept]).unwrap(), [CommitOutcome::Done]);
    assert_eq!(jsonl.visible(), [json!({ "n": 1 })]);
}

#[test]
fn jsonl_takes_batches_larger_than_one_call() {
    let jsonl = Jsonl::new();
    let part = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from_iter_values(0..20_000)) as Arc<dyn Array>)]).unwrap();
    let rows = concat_batches(&part.schema(), [&part, &part]).unwrap();
    let token = jsonl.prepare(1, 1, &rows);
    jsonl.committer(1).commit(Epoch(1), &[token]).unwrap();
    assert_eq!(jsonl.visible().len(), 40_000);
}

const COLUMNS: &str = r#"[{"name": "n", "type": "int64"}, {"name": "s", "type": "string"}]"#;

/// A granted directory and the source of its files.
fn csv_dir(dir: &Path, watch: bool) -> Arc<dyn tidegate_api::InlineSource> {
    let allow = json!({ "dirs": [format!("{}=/in", dir.display())] });
    let columns: Value = serde_json::from_str(COLUMNS).unwrap();
    load("csv-dir", &allow).source(&json!({ "dir": "/in", "columns": columns, "watch": watch })).unwrap()
}

/// Files with quoted line breaks, a byte order mark, bad records, and one that was cut off.
fn csv_files(dir: &Path) {
    for file in 0..5 {
        let mut text = String::from(if file == 0 { "\u{feff}n,s\r\n" } else { "s,x,n\n" });
        for row in 0..60 {
            let n = file * 1000 + row;
            text += &match (file, row % 4) {
                (0, 1) => format!("{n},\"two\r\nlines, \"\"{n}\"\"\"\r\n"),
                (0, 2) => format!("x{n},bad\r\n"),
                (0, _) => format!("{n},\r\n"),
                (_, 3) => "short\n".into(),
                (_, _) => format!("\"ü{n}\n\",,{n}\n"),
            };
        }
        let end = if file == 4 { text.len() - 18 } else { text.len() };
        std::fs::write(dir.join(format!("{file}.csv")), &text[..end]).unwrap();
    }
}

/// A read without the positions, which are those of the polls.
fn what_was_read(read: &SplitRead) -> (RecordBatch, Vec<tidegate_api::BadRow>) {
    (read.rows.clone(), read.bad.clone())
}

#[test]
fn csv_dir_gives_the_same_rows_for_any_task_count_and_the_rest_from_any_position() {
    let dir = tempfile::tempdir().unwrap();
    csv_files(dir.path());
    let source = csv_dir(dir.path(), false);
    let request = tidegate_api::SourceRequest::all();
    let plan = source.plan(&request).unwrap();
    assert!(plan.bounded && plan.replayable);
    let found = source.discover(None).unwrap();
    assert_eq!((found.added.len(), found.complete), (5, true));
    let whole = read_source(source.as_ref(), &request, 1, 1000, None);
    assert_eq!(whole.values().map(|read| read.rows.num_rows()).sum::<usize>(), 45 * 5 - 1);
    assert_eq!(whole.values().map(|read| read.bad.len()).sum::<usize>(), 15 * 5);
    for (tasks, max_rows) in [(1, 7), (2, 1), (3, 100), (5, 1000)] {
        let other = read_source(source.as_ref(), &request, tasks, max_rows, None);
        for (id, read) in &whole {
            assert_eq!(what_was_read(&other[id]), what_was_read(read), "split `{id}` with {tasks} tasks and {max_rows} rows a poll");
        }
    }
    let cut = read_source(source.as_ref(), &request, 1, 40, None);
    for split in &found.added {
        let read = &cut[&split.id];
        assert!(read.positions.len() > 5);
        for (rows, bad, position) in &read.positions {
            let start = Split { position: Some(position.clone()), ..split.clone() };
            let rest = &read_source(source.as_ref(), &request, 1, 1000, Some(&[start]))[&split.id];
            let expected = (read.rows.slice(*rows, read.rows.num_rows() - rows), read.bad[*bad..].to_vec());
            assert_eq!(what_was_read(rest), expected, "split `{}` from `{position}`", split.id);
        }
    }
    let narrow = request.clone().with_columns(Some(vec!["s".into()]));
    assert_eq!(read_source(source.as_ref(), &narrow, 2, 50, None).values().next().unwrap().rows.num_columns(), 1);
}

#[test]
fn csv_dir_says_of_a_bad_record_where_it_stands() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.csv"), "n,s\n1,a\nx,b\n").unwrap();
    let read = read_source(csv_dir(dir.path(), false).as_ref(), &tidegate_api::SourceRequest::all(), 1, 10, None);
    let [bad] = read.values().next().unwrap().bad.as_slice() else { panic!("{read:?}") };
    assert_eq!((bad.raw.as_slice(), bad.position.as_deref()), (&b"x,b"[..], Some("8:1")));
    assert_eq!(bad.message, "file `a.csv`, record 2: column `n` is `x`, which is no int64");
}

#[test]
fn csv_dir_finds_files_that_come_later_and_refuses_one_that_shrank() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("b.csv"), "n,s\n1,a\n2,b\n").unwrap();
    let source = csv_dir(dir.path(), true);
    assert!(!source.plan(&tidegate_api::SourceRequest::all()).unwrap().bounded);
    let first = source.discover(None).unwrap();
    assert_eq!((first.added.len(), first.complete), (1, false));
    std::fs::write(dir.path().join("a.csv"), "n,s\n3,c\n").unwrap();
    let second = source.discover(first.cursor.as_deref()).unwrap();
    assert_eq!(second.added.iter().map(|split| split.id.as_str()).collect::<Vec<_>>(), ["a.csv"]);
    let mut splits: BTreeMap<String, Split> =
        [&first, &second].iter().flat_map(|found| &found.added).map(|split| (split.id.to_string(), split.clone())).collect();
    let mut reader = source.open(SourceCtx::new(run()).with_start(first.added.clone())).unwrap();
    reader.assign(second.added.clone()).unwrap();
    assert_eq!(drain(reader.as_mut(), &mut splits, 100).iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
    assert!(splits.is_empty(), "files end, the source does not");
    std::fs::write(dir.path().join("b.csv"), "n,s\n1").unwrap();
    let mut reader = source.open(SourceCtx::new(run()).with_start(first.added)).unwrap();
    let error = reader.poll(PollRequest { max_rows: 7, max_bytes: 1 << 20, wait: Duration::ZERO }).unwrap_err();
    assert!(error.to_string().contains("plugin `csv-dir`") && error.to_string().contains("shrank"), "{error}");
}

#[test]
fn csv_dir_without_its_grant_says_which_one_is_missing() {
    let columns: Value = serde_json::from_str(COLUMNS).unwrap();
    let source = load("csv-dir", &json!({})).source(&json!({ "dir": "/in", "columns": columns })).unwrap();
    let error = source.plan(&tidegate_api::SourceRequest::all()).unwrap_err();
    assert!(error.to_string().contains("plugin `csv-dir`") && error.to_string().contains("allow = { dirs"), "{error}");
}

//! The first-party plugins, built through the public path, used like native ones.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

#[macro_use]
mod kit;

use arrow::array::{Array, Int64Array, RecordBatch, StringViewArray};
use arrow::compute::concat_batches;
use kit::run;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
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

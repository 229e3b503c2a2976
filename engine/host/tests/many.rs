//! Many plugins in one process for a long time: memory is flat, and nothing of theirs is left when they are gone.
//!
//! `TIDEGATE_MANY_BATCHES` says how many batches each of them handles; 100,000 take a few minutes.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::print_stderr, reason = "a test may end by panicking, and a long one says what it found")]

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    AnySink, Committer, Epoch, EventTime, Generation, InlineSource, Output, OutputSink, PollRequest, PreCommit, RunId, RunIdentity,
    SinkCtx, SourceCtx, SourceReader, SourceRequest, Step, StepCtx, TransactionalSink,
};
use tidegate_host::{HostConfig, Limits, Plugin, PluginHost, PluginSpec};

/// Of each kind.
const EACH: usize = 4;
/// Rows of a batch.
const ROWS: usize = 8;
/// Batches between two barriers of a sink.
const EPOCH: usize = 500;
/// What memory may grow by after the first tenth, in KiB: pages that a heap hands out and takes back.
const SLACK: u64 = 8 << 10;

fn component(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../plugins/target/components/{name}.wasm"))
}

fn run(operator: &str) -> RunIdentity {
    RunIdentity::new("many", RunId::new("run"), Generation(1), operator)
}

fn rows() -> RecordBatch {
    let columns: [(&str, ArrayRef); 3] = [
        ("n", Arc::new(Int64Array::from_iter_values(0..ROWS as i64))),
        ("origin", Arc::new(StringViewArray::from_iter_values((0..ROWS).map(|row| ["EWR", "JFK", "LGA"][row % 3])))),
        ("text", Arc::new(StringViewArray::from_iter_values((0..ROWS).map(|row| format!("{{\"a\":{row}}}"))))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// One plugin at work.
enum Worker {
    Step(Box<dyn Step>),
    Source(Box<dyn SourceReader>),
    Sink { writer: Box<dyn TransactionalSink>, committer: Box<dyn Committer>, dir: PathBuf },
}

impl Worker {
    fn work(&mut self, number: usize, batch: &RecordBatch) {
        match self {
            Worker::Step(step) => {
                let mut out = Output::default();
                step.apply(batch.clone(), EventTime(number as i64), &mut out).unwrap();
                assert_eq!(out.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), ROWS);
            }
            Worker::Source(reader) => {
                let polled = reader.poll(PollRequest { max_rows: ROWS, max_bytes: 1 << 20, wait: Duration::ZERO }).unwrap();
                assert_eq!(polled.chunks.iter().map(|chunk| chunk.rows.num_rows()).sum::<usize>(), ROWS);
            }
            Worker::Sink { writer, committer, dir } => {
                writer.write(batch, None).unwrap();
                if number % EPOCH != EPOCH - 1 {
                    return;
                }
                let epoch = Epoch((number / EPOCH) as u64 + 1);
                let PreCommit::Token(token) = writer.pre_commit(epoch).unwrap() else { panic!("rows were written") };
                committer.commit(epoch, &[token]).unwrap();
                // A reader that takes what it finds.
                for entry in std::fs::read_dir(&*dir).unwrap().map(Result::unwrap) {
                    if entry.path().extension().is_some_and(|ending| ending == "jsonl") {
                        std::fs::remove_file(entry.path()).unwrap();
                    }
                }
            }
        }
    }
}

fn loaded(host: &PluginHost, name: &str, allow: Value) -> Arc<Plugin> {
    let spec = PluginSpec::new(name, component(name)).with_allow(allow.as_object().unwrap()).unwrap();
    host.load(&spec).unwrap()
}

fn step(plugin: &Arc<Plugin>, config: &Value) -> Worker {
    let transform = plugin.transform(config, rows().schema()).unwrap();
    Worker::Step(transform.factory.open(StepCtx::new(run("step"), 0, 1)).unwrap())
}

fn source(plugin: &Arc<Plugin>) -> Worker {
    let source: Arc<dyn InlineSource> = plugin.source(&json!({ "intervalMs": 10 })).unwrap();
    source.plan(&SourceRequest::all()).unwrap();
    let splits = source.discover(None).unwrap().added;
    let mut reader = source.open(SourceCtx::new(run("source")).with_start(splits)).unwrap();
    reader.assign(Vec::new()).unwrap();
    Worker::Source(reader)
}

fn sink(plugin: &Arc<Plugin>, number: usize, dir: &Path) -> Worker {
    let sink: Arc<dyn OutputSink> = plugin.sink(&json!({ "dir": "/out" })).unwrap();
    let run = run(&format!("sink-{number}"));
    let AnySink::Transactional(writer) = sink.open(SinkCtx::new(run.clone(), rows().schema())).unwrap() else {
        panic!("it has two phases")
    };
    Worker::Sink { writer, committer: sink.committer(SinkCtx::for_commit(run)).unwrap(), dir: dir.to_path_buf() }
}

/// Resident memory in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn entries(of: &str) -> usize {
    std::fs::read_dir(of).unwrap().count()
}

#[test]
fn two_dozen_plugins_grow_no_memory_and_leave_no_handle() {
    let batches: usize = std::env::var("TIDEGATE_MANY_BATCHES").map_or(3_000, |batches| batches.parse().unwrap());
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
    let outs = tempfile::tempdir().unwrap();
    // What the first plugin of a process makes once and for all, such as the compiler's threads, belongs to nobody.
    let warm = PluginHost::new(HostConfig::new().with_cache_dir(Some(cache.clone()))).unwrap();
    for name in ["mask-pii", "json-flatten", "geo-enrich", "ticker", "jsonl"] {
        loaded(&warm, name, json!({}));
    }
    drop(warm);
    let (threads, files) = (entries("/proc/self/task"), entries("/proc/self/fd"));
    {
        let host = PluginHost::new(HostConfig::new().with_cache_dir(Some(cache))).unwrap();
        let none = || json!({});
        let mask = loaded(&host, "mask-pii", none());
        let flatten = loaded(&host, "json-flatten", none());
        let geo = loaded(&host, "geo-enrich", none());
        let ticker = loaded(&host, "ticker", none());
        let table = "faa,lat\nEWR,40.6\nJFK,40.6\n";
        let mut workers = Vec::new();
        for number in 0..EACH {
            workers.push(step(&mask, &json!({ "columns": ["origin"] })));
            workers.push(step(&flatten, &json!({ "column": "text", "fields": [{ "path": "a", "name": "a", "type": "int64" }] })));
            workers.push(step(&geo, &json!({ "column": "origin", "table": table, "key": "faa", "add": ["lat"] })));
            workers.extend([source(&ticker), source(&ticker)]);
            let dir = outs.path().join(number.to_string());
            std::fs::create_dir(&dir).unwrap();
            let jsonl = loaded(&host, "jsonl", json!({ "dirs": [format!("{}=/out:rw", dir.display())] }));
            workers.push(sink(&jsonl, number, &dir));
        }
        assert_eq!(workers.len(), 24);
        let batch = rows();
        let mut first = 0;
        let mut most = 0;
        for number in 0..batches {
            workers.iter_mut().for_each(|worker| worker.work(number, &batch));
            if number == batches / 10 {
                first = resident();
            } else if number > batches / 10 && number % (batches / 100).max(1) == 0 {
                most = most.max(resident());
            }
        }
        eprintln!("24 plugins, {batches} batches each: {first} KiB after a tenth, at most {most} KiB later");
        assert!(most <= first + SLACK, "memory grew from {first} KiB to {most} KiB");
        for plugin in [&mask, &flatten, &geo, &ticker] {
            assert!(plugin.metrics().peak_memory() < Limits::default().memory / 4, "`{}` holds more and more", plugin.name());
        }
    }
    assert_eq!(entries("/proc/self/task"), threads, "threads are left");
    assert_eq!(entries("/proc/self/fd"), files, "open files are left");
}

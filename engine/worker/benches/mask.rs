//! What the sandbox costs a whole job: flights through `mask-pii`, and through a native step that does the same work.
//!
//! Build the plugins first: `cargo xtask guests`. The year's flights are read where they are, else the committed week.

#![allow(clippy::unwrap_used, missing_docs, reason = "a bench may fail loudly, and its macros document nothing")]

use arrow::array::{Array, AsArray, BinaryArray, RecordBatch, StringViewBuilder};
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use foldhash::fast::FixedState;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    AnySink, ChangeMode, Chunk, Discovered, Epoch, EventTime, Flushed, Generation, Guarantee, InlineSource, OnBadData, Output, OutputSink,
    PollRequest, Polled, Position, Result, RunId, RunIdentity, Sink, SinkCtx, SinkInput, SinkPlan, SourceCtx, SourcePlan, SourceReader,
    SourceRequest, Split, SplitId, SplitState, Step, StepCtx, StepFactory, Written,
};
use tidegate_connectors::ConnectorCtx;
use tidegate_epochs::MemoryStore;
use tidegate_host::{HostConfig, PluginHost, PluginSpec};
use tidegate_runtime::graph::{EdgeId, EdgeSpec, JobGraph, Node, Pipe, PipeEnd, PipeStep, Routing, SinkNode, SourceNode};
use tidegate_runtime::{Job, JobConfig, JobControl};

const ROWS: usize = 8192;
/// The year ten times over: start and end of the job weigh nothing.
const LEAST_BATCHES: usize = 410;

/// Hands over batches that are ready.
#[derive(Clone)]
struct Ready {
    batches: Arc<Vec<RecordBatch>>,
    at: usize,
}

impl InlineSource for Ready {
    fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
        Ok(SourcePlan::new(self.batches[0].schema()))
    }

    fn discover(&self, _: Option<&[u8]>) -> Result<Discovered> {
        let split = Split { id: SplitId::new("s"), details: Vec::new(), position: Some(Position::number(0)) };
        Ok(Discovered { added: vec![split], gone: Vec::new(), cursor: None, complete: true })
    }

    fn open(&self, _: SourceCtx) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(self.clone()))
    }
}

impl SourceReader for Ready {
    fn assign(&mut self, _: Vec<Split>) -> Result<()> {
        Ok(())
    }

    fn poll(&mut self, _: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let split = SplitId::new("s");
        if self.at == self.batches.len().max(LEAST_BATCHES) {
            polled.states.push((split, SplitState::Finished));
            return Ok(polled);
        }
        let rows = self.batches[self.at % self.batches.len()].clone();
        self.at += 1;
        polled.chunks.push(Chunk::new(split, rows, Position::number(self.at as u64)));
        Ok(polled)
    }
}

struct Nowhere;

impl OutputSink for Nowhere {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Ok(SinkPlan::new(Guarantee::AtLeastOnce))
    }

    fn open(&self, _: SinkCtx) -> Result<AnySink> {
        Ok(AnySink::AtLeastOnce(Box::new(Nowhere)))
    }
}

impl Sink for Nowhere {
    fn write(&mut self, _: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        Ok(Written::default())
    }

    fn flush(&mut self, _: Epoch) -> Result<Flushed> {
        Ok(Flushed::Done)
    }
}

/// The plugin's work done natively: the first 32 hexadecimal digits of the SHA-256, remembered per value.
#[derive(Clone)]
struct NativeMask {
    column: usize,
    schema: SchemaRef,
    remembered: HashMap<Box<str>, String, FixedState>,
}

impl StepFactory for NativeMask {
    fn name(&self) -> &str {
        "mask"
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn open(&self, _: StepCtx) -> Result<Box<dyn Step>> {
        Ok(Box::new(self.clone()))
    }
}

impl Step for NativeMask {
    fn apply(&mut self, batch: RecordBatch, _: EventTime, out: &mut Output) -> Result<()> {
        let values = batch.column(self.column).as_string_view();
        let mut masked = StringViewBuilder::with_capacity(values.len());
        for value in values {
            match value {
                None => masked.append_null(),
                Some(value) => match self.remembered.get(value) {
                    Some(hash) => masked.append_value(hash),
                    None => {
                        let mut hash = String::new();
                        for byte in &Sha256::digest(value)[..16] {
                            write!(hash, "{byte:02x}").unwrap();
                        }
                        masked.append_value(&hash);
                        self.remembered.insert(value.into(), hash);
                    }
                },
            }
        }
        let mut columns = batch.columns().to_vec();
        columns[self.column] = Arc::new(masked.finish());
        out.emit(RecordBatch::try_new(Arc::clone(&self.schema), columns).unwrap());
        Ok(())
    }
}

fn run() -> RunIdentity {
    RunIdentity::new("bench", RunId::new("bench"), Generation(1), "bench")
}

/// The flights in batches of 8,192, text as the engine holds it.
fn flights() -> Vec<RecordBatch> {
    let (source, request) = file();
    let plan = source.plan(&request).unwrap();
    let splits = source.discover(None).unwrap().added;
    let mut reader = source.open(SourceCtx::new(run()).with_request(request).with_start(splits)).unwrap();
    let mut batches = Vec::new();
    loop {
        let polled = reader.poll(PollRequest { max_rows: ROWS, max_bytes: 16 << 20, wait: Duration::from_secs(1) }).unwrap();
        batches.extend(polled.chunks.into_iter().map(|chunk| chunk.rows));
        if polled.states.iter().any(|(_, state)| matches!(state, SplitState::Finished)) {
            break;
        }
    }
    let all = concat_batches(&plan.schema, &batches).unwrap();
    let times = all.num_rows().div_ceil(ROWS).max(1);
    let all = if all.num_rows() < ROWS { concat_batches(&plan.schema, [&all, &all]).unwrap() } else { all };
    (0..times).map(|at| all.slice(at * ROWS, ROWS.min(all.num_rows() - at * ROWS))).filter(|batch| batch.num_rows() == ROWS).collect()
}

/// The columns of the flights that the example's pipeline reads.
const COLUMNS: [&str; 6] = ["dep_time", "dep_delay", "tailnum", "origin", "distance", "time_hour"];

/// The file as a pipeline reads it, and what is asked of it.
fn file() -> (Arc<dyn InlineSource>, SourceRequest) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let year = root.join("../shared/data/nycflights13/flights.csv.gz");
    let file = if year.exists() { year } else { root.join("examples/flights/data/flights-week1.csv.gz") };
    let options = json!({ "path": file, "format": "csv", "nullValues": ["NA"], "inferSample": 1000 });
    let source = tidegate_connectors::source("files", options.as_object().unwrap(), &ConnectorCtx::new(&root, "flights")).unwrap();
    (source, SourceRequest::all().with_columns(Some(COLUMNS.map(String::from).to_vec())))
}

fn graph(source: Arc<dyn InlineSource>, request: SourceRequest, step: Arc<dyn StepFactory>) -> JobGraph {
    let plan = source.plan(&request).unwrap();
    let sink: Arc<dyn OutputSink> = Arc::new(Nowhere);
    let schema = step.output_schema();
    let sink = SinkNode {
        dataset: "out".into(),
        index: 0,
        plan: SinkPlan::new(Guarantee::AtLeastOnce),
        config: sink.config(),
        sink,
        schema: Arc::clone(&schema),
        mode: ChangeMode::Append,
        wants_keys: false,
        on_bad: OnBadData::Fail,
    };
    let step = PipeStep::new("mask", "0:mask", step, OnBadData::Fail);
    let pipe = Pipe { steps: vec![step], to: vec![PipeEnd::Edge(EdgeId(0))] };
    JobGraph {
        nodes: vec![Node::source("in", SourceNode::new("in", source, request, plan)).with_main(pipe), Node::sink("out", sink)],
        edges: vec![EdgeSpec { id: EdgeId(0), from: "in".into(), to: "out".into(), input: 0, schema, routing: Routing::Forward }],
    }
}

fn mask(c: &mut Criterion) {
    let batches = Arc::new(flights());
    let schema = batches[0].schema();
    let column = schema.index_of("tailnum").unwrap();
    let native: Arc<dyn StepFactory> = Arc::new(NativeMask { column, schema: Arc::clone(&schema), remembered: HashMap::default() });
    let host = PluginHost::new(HostConfig::new()).unwrap();
    let component = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../plugins/target/components/mask-pii.wasm");
    let plugin = host.load(&PluginSpec::new("mask", component)).unwrap();
    let plugin = plugin.transform(&json!({ "columns": ["tailnum"] }), Arc::clone(&schema)).unwrap().factory;
    assert_same(&batches[0], &native, &plugin);

    let rows = batches.len().max(LEAST_BATCHES) * ROWS;
    let ready: Arc<dyn InlineSource> = Arc::new(Ready { batches: Arc::clone(&batches), at: 0 });
    let whole = (batches.len() * ROWS) as u64;
    let (file, request) = file();
    let sources = [("the file", file, request, whole), ("batches in memory", ready, SourceRequest::all(), rows as u64)];
    for (from, source, request, rows) in sources {
        let mut group = c.benchmark_group(format!("mask, from {from}"));
        group.sample_size(10).throughput(Throughput::Elements(rows));
        for (name, step) in [("native", &native), ("plugin", &plugin)] {
            group.bench_function(name, |b| {
                b.iter(|| {
                    let config = JobConfig::new("bench", RunId::new("bench"), "bench");
                    let graph = graph(Arc::clone(&source), request.clone(), Arc::clone(step));
                    Job::prepare(graph, config, Arc::new(MemoryStore::new())).unwrap().run(&JobControl::new()).unwrap()
                });
            });
        }
        group.finish();
    }
}

/// Both steps give the same rows, else their times could not be compared.
fn assert_same(batch: &RecordBatch, one: &Arc<dyn StepFactory>, other: &Arc<dyn StepFactory>) {
    let rows = |factory: &Arc<dyn StepFactory>| {
        let mut out = Output::default();
        factory.open(StepCtx::new(run(), 0, 1)).unwrap().apply(batch.clone(), EventTime(0), &mut out).unwrap();
        out.batches.remove(0)
    };
    assert_eq!(rows(one), rows(other));
}

criterion_group!(benches, mask);
criterion_main!(benches);

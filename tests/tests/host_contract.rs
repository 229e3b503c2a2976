//! The host contract, seen by a scripted control plane.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{BinaryArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::Duration;
use tidegate::epochs::{End, EpochStore, Manifest, MemoryStore};
use tidegate::{Binding, BuildSignal, ControlPlane, HostSettings, StageDef, Topology, run_stream};
use tidegate_api::testkit::{Collector, Script, ScriptedSource};
use tidegate_api::{
    AnySink, Chunk, Discovered, Epoch, Error, Flushed, Guarantee, InlineSource, OutputSink, PollRequest, Polled, Position, Result, Sink,
    SinkCtx, SinkInput, SinkPlan, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split, SplitId, Written,
};

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
}

fn numbers(range: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from_iter_values(range))]).unwrap()
}

fn seen(batches: &[RecordBatch]) -> Vec<i64> {
    let column = |batch: &RecordBatch| batch.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values().to_vec();
    let mut all: Vec<i64> = batches.iter().flat_map(column).collect();
    all.sort_unstable();
    all
}

/// A source without end: one row per poll.
struct Endless {
    opened: AtomicBool,
}

impl Endless {
    fn new() -> Arc<Self> {
        Arc::new(Endless { opened: AtomicBool::new(false) })
    }
}

impl InlineSource for Endless {
    fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
        Ok(SourcePlan::new(schema()).with_bounded(false))
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let split = Split { id: SplitId::new("only"), details: Vec::new(), position: Some(Position::number(0)) };
        let added = if cursor.is_none() { vec![split] } else { Vec::new() };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(b"found".to_vec()), complete: true })
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        self.opened.store(true, Ordering::SeqCst);
        Ok(Box::new(EndlessReader { at: ctx.start.iter().filter_map(|split| split.position.as_ref()?.as_number()).collect() }))
    }
}

struct EndlessReader {
    at: Vec<u64>,
}

impl SourceReader for EndlessReader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        self.at.extend(splits.iter().filter_map(|split| split.position.as_ref()?.as_number()));
        Ok(())
    }

    fn poll(&mut self, _: PollRequest) -> Result<Polled> {
        let mut polled = Polled { retry_after: Some(Duration::from_millis(2)), ..Polled::default() };
        for at in &mut self.at {
            let rows = numbers(*at as i64..*at as i64 + 1);
            *at += 1;
            polled.chunks.push(Chunk::new(SplitId::new("only"), rows, Position::number(*at)));
        }
        Ok(polled)
    }
}

/// A host that plays a script of heartbeats and writes down everything it is asked and told.
struct Host {
    stages: Vec<StageDef>,
    bindings: BTreeMap<String, Binding>,
    settings: HostSettings,
    beats: Mutex<VecDeque<BuildSignal>>,
    after: BuildSignal,
    beaten: AtomicUsize,
    records: Mutex<Vec<Value>>,
    threads: Mutex<BTreeSet<String>>,
}

impl Host {
    fn new(stages: Vec<StageDef>, bindings: Vec<Binding>) -> Host {
        let settings = json!({ "parallelism": 2, "checkpointEvery": "50ms", "heartbeatEvery": "10ms" });
        Host {
            stages,
            bindings: bindings.into_iter().map(|binding| (binding.name.clone(), binding)).collect(),
            settings: HostSettings::default().with_settings(settings.as_object().unwrap().clone()),
            beats: Mutex::default(),
            after: BuildSignal::Continue,
            beaten: AtomicUsize::new(0),
            records: Mutex::default(),
            threads: Mutex::default(),
        }
    }

    fn with_beats(mut self, beats: impl IntoIterator<Item = BuildSignal>, after: BuildSignal) -> Host {
        self.beats = Mutex::new(beats.into_iter().collect());
        self.after = after;
        self
    }

    fn with_store(mut self, store: MemoryStore) -> Host {
        self.settings = self.settings.with_epoch_store(Arc::new(store));
        self
    }

    fn note(&self) {
        let id: ThreadId = std::thread::current().id();
        self.threads.lock().unwrap().insert(format!("{id:?}"));
    }

    fn last(&self) -> Value {
        self.records.lock().unwrap().last().cloned().unwrap()
    }
}

#[async_trait]
impl ControlPlane for Host {
    async fn topology(&self, _: &str) -> Result<Topology> {
        self.note();
        Ok(Topology { stages: self.stages.clone() })
    }

    async fn resolve_dataset(&self, name: &str) -> Result<Binding> {
        self.note();
        self.bindings.get(name).cloned().ok_or_else(|| Error::config(format!("this host has no dataset `{name}`")))
    }

    async fn publishes(&self, _: &str) -> bool {
        self.note();
        false
    }

    async fn settings(&self, _: &str) -> Result<HostSettings> {
        self.note();
        Ok(self.settings.clone())
    }

    async fn heartbeat(&self, _: &str) -> BuildSignal {
        self.note();
        self.beaten.fetch_add(1, Ordering::SeqCst);
        self.beats.lock().unwrap().pop_front().unwrap_or(self.after)
    }

    async fn put_record(&self, _: &str, record: Value) -> Result<()> {
        self.note();
        assert_ne!(record["status"], "SUCCEEDED");
        self.records.lock().unwrap().push(record);
        Ok(())
    }
}

fn run(host: &Arc<Host>) {
    let plane = Arc::clone(host) as Arc<dyn ControlPlane>;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(run_stream(plane, "build-1".into(), "contract".into(), json!({ "owner": "test" })));
}

fn stage(id: &str, input: &str, output: &str, steps: Value) -> StageDef {
    StageDef { id: id.into(), inputs: vec![input.into()], output: output.into(), steps: steps.as_array().unwrap().clone() }
}

#[test]
fn three_mistakes_land_together_as_one_failed_record() {
    let source = Arc::new(ScriptedSource::new(schema(), Vec::new()));
    let stages = vec![
        stage("a", "in", "out", json!([{ "op": "filter", "expression": "m > 1" }])),
        stage("b", "in", "nowhere", json!([])),
        stage("c", "in", "out2", json!([{ "op": "filtre", "expression": "n > 1" }])),
    ];
    let bindings = vec![
        Binding::reading("in", source),
        Binding::writing("out", Collector::new().sink()),
        Binding::writing("out2", Collector::new().sink()),
    ];
    let host = Arc::new(Host::new(stages, bindings));
    run(&host);
    let records = host.records.lock().unwrap();
    assert_eq!(records.len(), 1, "{records:?}");
    let error = records[0]["error"].as_str().unwrap();
    assert_eq!(records[0]["status"], "FAILED");
    assert_eq!(records[0]["owner"], "test");
    for part in ["`m`", "this host has no dataset `nowhere`", "`filtre`", "did you mean `filter`?"] {
        assert!(error.contains(part), "`{part}` is missing in: {error}");
    }
}

struct Failing;

impl OutputSink for Failing {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Ok(SinkPlan::new(Guarantee::AtLeastOnce))
    }

    fn open(&self, _: SinkCtx) -> Result<AnySink> {
        Err(Error::config("the door is locked"))
    }
}

#[test]
fn a_failing_sink_builder_names_its_sink_before_any_task_ran() {
    let source = Endless::new();
    let bindings = vec![Binding::reading("in", Arc::clone(&source) as Arc<dyn InlineSource>), Binding::writing("door", Arc::new(Failing))];
    let host = Arc::new(Host::new(vec![stage("a", "in", "door", json!([]))], bindings));
    run(&host);
    let error = host.last()["error"].as_str().unwrap().to_string();
    assert!(error.contains("`door`") && error.contains("the door is locked"), "{error}");
    assert_eq!(host.last()["status"], "FAILED");
    assert!(!source.opened.load(Ordering::SeqCst), "no task may run before every sink is open");
}

#[test]
fn a_stop_ends_in_a_suspend_epoch_and_the_next_start_goes_on() {
    let (store, collector) = (MemoryStore::new(), Collector::new());
    let mut total = 0;
    for _ in 0..2 {
        let bindings = vec![Binding::reading("in", Endless::new()), Binding::writing("out", collector.sink())];
        let host = Host::new(vec![stage("a", "in", "out", json!([]))], bindings).with_store(store.clone());
        let host = Arc::new(host.with_beats([BuildSignal::Continue; 20], BuildSignal::Stop));
        run(&host);
        let records = host.records.lock().unwrap();
        let last = records.last().unwrap();
        assert_eq!((last["status"].as_str(), last["reason"].as_str()), (Some("STOPPED"), Some("requested")), "{last}");
        // The stop is the last of the records before the end; the barrier of a stop is at most the second after it.
        let epoch = |record: &Value| record["metrics"]["epoch"].as_u64().unwrap_or(0);
        assert!(epoch(last) <= epoch(&records[records.len() - 2]) + 2, "{records:?}");
        let rows = seen(&collector.visible());
        assert!(rows.len() > total, "the run made progress");
        assert_eq!(rows, (0..rows.len() as i64).collect::<Vec<_>>(), "every row once, across the stop");
        total = rows.len();
    }
    assert_eq!(collector.prepared(), 0);
    let newest = store.list("manifests/").unwrap().into_iter().filter(|key| key.ends_with("/a")).max().unwrap();
    let manifest = Manifest::decode(&store.get(&newest).unwrap().unwrap()).unwrap();
    assert_eq!(manifest.ended, Some(End::Suspend), "a stop is a suspend, not a drain");
}

#[test]
fn ten_unreachable_beats_keep_it_running_and_write_no_record() {
    let collector = Collector::new();
    let bindings = vec![Binding::reading("in", Endless::new()), Binding::writing("out", collector.sink())];
    let host = Host::new(vec![stage("a", "in", "out", json!([]))], bindings);
    let host = Arc::new(host.with_beats([BuildSignal::ContinueUnreachable; 10], BuildSignal::Stop));
    run(&host);
    let statuses: Vec<String> = host.records.lock().unwrap().iter().map(|record| record["status"].as_str().unwrap().to_string()).collect();
    assert!(host.beaten.load(Ordering::SeqCst) >= 11);
    assert_eq!(statuses.first().map(String::as_str), Some("RUNNING"));
    assert_eq!(statuses.last().map(String::as_str), Some("STOPPED"));
    // One at the start; while the host is out of reach none; then at most those of the beats that asked for the stop.
    assert!(statuses.len() <= 2 + host.beaten.load(Ordering::SeqCst) - 10, "{statuses:?}");
}

#[test]
fn an_input_that_ends_lands_as_stopped_with_the_reason_ended() {
    let collector = Collector::new();
    let scripts = vec![Script::new("a", vec![numbers(0..500)]), Script::new("b", vec![numbers(500..1000)])];
    let bindings =
        vec![Binding::reading("in", Arc::new(ScriptedSource::new(schema(), scripts))), Binding::writing("out", collector.sink())];
    let stages = vec![stage("even", "in", "out", json!([{ "op": "filter", "expression": "n % 2 == 0" }]))];
    let host = Arc::new(Host::new(stages, bindings));
    run(&host);
    let last = host.last();
    assert_eq!((last["status"].as_str(), last["reason"].as_str()), (Some("STOPPED"), Some("ended")), "{last}");
    assert_eq!(seen(&collector.visible()), (0..1000).filter(|n| n % 2 == 0).collect::<Vec<_>>());
    assert_eq!(host.threads.lock().unwrap().len(), 1, "only the control task calls the host");
    let metrics = &last["metrics"];
    assert_eq!((metrics["rowsIn"].as_u64(), metrics["rowsOut"].as_u64()), (Some(1000), Some(500)), "{metrics}");
    assert!(last["warning"].as_str().unwrap().contains("memory"), "a run without a store says so: {last}");
}

#[test]
fn two_runs_in_one_process_do_not_know_of_each_other() {
    let hosts: Vec<(Arc<Host>, Collector)> = (0..2)
        .map(|index| {
            let collector = Collector::new();
            let scripts = vec![Script::new("a", vec![numbers(index * 1000..index * 1000 + 300)])];
            let bindings =
                vec![Binding::reading("in", Arc::new(ScriptedSource::new(schema(), scripts))), Binding::writing("out", collector.sink())];
            (Arc::new(Host::new(vec![stage("a", "in", "out", json!([]))], bindings)), collector)
        })
        .collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let start = |host: &Arc<Host>, build: &str| {
        run_stream(Arc::clone(host) as Arc<dyn ControlPlane>, build.to_string(), "same-name".into(), Value::Null)
    };
    runtime.block_on(async { tokio::join!(start(&hosts[0].0, "one"), start(&hosts[1].0, "two")) });
    for (index, (host, collector)) in hosts.iter().enumerate() {
        assert_eq!(host.last()["status"], "STOPPED", "{}", host.last());
        let from = index as i64 * 1000;
        assert_eq!(seen(&collector.visible()), (from..from + 300).collect::<Vec<_>>());
    }
}

/// Delivers in the background and acknowledges the barrier when the delivery has arrived.
#[derive(Clone, Default)]
struct Slow {
    delivered: Arc<Mutex<Vec<i64>>>,
    later: Arc<AtomicUsize>,
}

struct SlowWriter {
    sink: Slow,
    ctx: SinkCtx,
    taken: Vec<i64>,
}

impl OutputSink for Slow {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Ok(SinkPlan::new(Guarantee::AtLeastOnce))
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        Ok(AnySink::AtLeastOnce(Box::new(SlowWriter { sink: self.clone(), ctx, taken: Vec::new() })))
    }
}

impl Sink for SlowWriter {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        self.taken.extend(seen(std::slice::from_ref(rows)));
        Ok(Written::default())
    }

    fn flush(&mut self, epoch: Epoch) -> Result<Flushed> {
        let (rows, sink, acker) = (std::mem::take(&mut self.taken), self.sink.clone(), self.ctx.acker.clone());
        #[allow(clippy::disallowed_methods, reason = "stands for the thread of a client library")]
        std::thread::spawn(move || {
            sink.delivered.lock().unwrap().extend(rows);
            sink.later.fetch_add(1, Ordering::SeqCst);
            acker.acknowledge(epoch, Ok(None));
        });
        Ok(Flushed::Later)
    }
}

#[test]
fn a_sink_may_acknowledge_its_barrier_later() {
    let sink = Slow::default();
    let scripts = vec![Script::new("a", vec![numbers(0..2000)])];
    let bindings =
        vec![Binding::reading("in", Arc::new(ScriptedSource::new(schema(), scripts))), Binding::writing("out", Arc::new(sink.clone()))];
    let host = Arc::new(Host::new(vec![stage("a", "in", "out", json!([]))], bindings));
    run(&host);
    assert_eq!(host.last()["reason"], "ended", "{}", host.last());
    let mut delivered = sink.delivered.lock().unwrap().clone();
    delivered.sort_unstable();
    assert_eq!(delivered, (0..2000).collect::<Vec<_>>());
    assert!(sink.later.load(Ordering::SeqCst) >= 1);
}

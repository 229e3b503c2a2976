//! Reported situations of watermarks and idleness, each under its number in `docs/cases.md`, in whole running jobs.

#![allow(clippy::unwrap_used, reason = "a test may end by panicking")]

use arrow::array::{AsArray, BinaryArray, RecordBatch, TimestampMillisecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMillisecondType};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate::epochs::MemoryStore;
use tidegate::{Binding, BuildSignal, ControlPlane, HostSettings, StageDef, Topology, run_stream};
use tidegate_api::testkit::Collector;
use tidegate_api::{
    AnySink, Chunk, Clock, Discovered, Epoch, Error, Flushed, Guarantee, InlineSource, OutputSink, PollRequest, Polled, Position, Result,
    Sink, SinkCtx, SinkInput, SinkPlan, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split, SplitId, SplitState, SystemClock,
    Written,
};

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const DAY: i64 = 24 * 60 * MINUTE;

/// A heartbeat.
const BEAT: Duration = Duration::from_millis(10);

/// Longer than the idle timeout of these jobs, in heartbeats.
const LONG: usize = 30;

/// What a split says when it is asked.
#[derive(Debug, Clone)]
enum Say {
    /// Rows of these times.
    Rows(Vec<i64>),
    State(SplitState),
}

/// A source whose splits say what the test has put down for them, one thing per poll, and nothing else.
#[derive(Debug, Clone)]
struct Told(Arc<Mutex<BTreeMap<&'static str, VecDeque<Say>>>>);

impl Told {
    fn new(splits: impl IntoIterator<Item = (&'static str, Vec<Say>)>) -> Self {
        Told(Arc::new(Mutex::new(splits.into_iter().map(|(split, says)| (split, says.into())).collect())))
    }

    fn say(&self, split: &str, say: Say) {
        self.0.lock().unwrap().get_mut(split).unwrap().push_back(say);
    }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("t", DataType::Timestamp(TimeUnit::Millisecond, None), false)]))
}

impl InlineSource for Told {
    fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
        Ok(SourcePlan::new(schema()).with_bounded(false))
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let split = |name: &&str| Split { id: SplitId::new(name), details: Vec::new(), position: Some(Position::number(0)) };
        let added = if cursor.is_none() { self.0.lock().unwrap().keys().map(split).collect() } else { Vec::new() };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(b"all".to_vec()), complete: true })
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let mut reader = ToldReader { told: self.clone(), splits: Vec::new() };
        reader.assign(ctx.start)?;
        Ok(Box::new(reader))
    }
}

struct ToldReader {
    told: Told,
    splits: Vec<(SplitId, u64)>,
}

impl SourceReader for ToldReader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        self.splits.extend(splits.into_iter().map(|split| (split.id, 0)));
        Ok(())
    }

    fn poll(&mut self, _: PollRequest) -> Result<Polled> {
        let mut polled = Polled { retry_after: Some(Duration::from_millis(2)), ..Polled::default() };
        let mut told = self.told.0.lock().unwrap();
        for (split, at) in &mut self.splits {
            let said = told.get_mut(split.to_string().as_str()).and_then(VecDeque::pop_front);
            match said {
                Some(Say::Rows(times)) => {
                    *at += times.len() as u64;
                    let rows = RecordBatch::try_new(schema(), vec![Arc::new(TimestampMillisecondArray::from(times))])?;
                    polled.chunks.push(Chunk::new(split.clone(), rows, Position::number(*at)));
                    polled.retry_after = None;
                }
                Some(Say::State(state)) => polled.states.push((split.clone(), state)),
                None => {}
            }
        }
        Ok(polled)
    }
}

/// A job that is asked at every heartbeat whether it goes on.
struct Host<F> {
    stages: Vec<StageDef>,
    bindings: Vec<Binding>,
    settings: HostSettings,
    watch: Mutex<(usize, F)>,
    record: Mutex<Value>,
}

#[async_trait]
impl<F: FnMut(usize) -> BuildSignal + Send + 'static> ControlPlane for Host<F> {
    async fn topology(&self, _: &str) -> Result<Topology> {
        Ok(Topology { stages: self.stages.clone() })
    }

    async fn resolve_dataset(&self, name: &str) -> Result<Binding> {
        let found = self.bindings.iter().find(|binding| binding.name == name).cloned();
        found.ok_or_else(|| Error::config(format!("this host has no dataset `{name}`")))
    }

    async fn publishes(&self, _: &str) -> bool {
        false
    }

    async fn settings(&self, _: &str) -> Result<HostSettings> {
        Ok(self.settings.clone())
    }

    async fn heartbeat(&self, _: &str) -> BuildSignal {
        let (beat, watch) = &mut *self.watch.lock().unwrap();
        *beat += 1;
        // A job that does not come to what the test waits for is stopped, and the test then says what is missing.
        if *beat > 3000 { BuildSignal::Stop } else { watch(*beat) }
    }

    async fn put_record(&self, _: &str, record: Value) -> Result<()> {
        *self.record.lock().unwrap() = record;
        Ok(())
    }
}

/// Runs until `watch` says stop, with windows of ten seconds over all rows; the last record.
fn run(
    source: &Told,
    tasks: usize,
    window: i64,
    out: &Collector,
    slow: Option<Arc<dyn OutputSink>>,
    watch: impl FnMut(usize) -> BuildSignal + Send + 'static,
) -> Value {
    let count = json!({ "op": "windowedAggregate", "timeColumn": "t", "windowMs": window, "aggs": [{ "op": "count", "alias": "n" }] });
    let stage =
        |id: &str, output: &str, steps: Vec<Value>| StageDef { id: id.into(), inputs: vec!["in".into()], output: output.into(), steps };
    let time = json!({ "column": "t", "outOfOrderness": "0s", "idleTimeout": "100ms", "maxFutureSkew": "1h" });
    let mut stages = vec![stage("count", "out", vec![count])];
    let options = json!({ "time": time });
    let mut bindings = vec![
        Binding::reading("in", Arc::new(source.clone())).with_options(options.as_object().unwrap().clone()),
        Binding::writing("out", out.sink()),
    ];
    if let Some(slow) = slow {
        stages.push(stage("copy", "slow", Vec::new()));
        bindings.push(Binding::writing("slow", slow));
    }
    let settings = json!({ "parallelism": tasks, "checkpointEvery": "20ms", "heartbeatEvery": "10ms", "edgeRows": 64, "batchRows": 16 });
    let settings =
        HostSettings::default().with_settings(settings.as_object().unwrap().clone()).with_epoch_store(Arc::new(MemoryStore::new()));
    let host = Arc::new(Host { stages, bindings, settings, watch: Mutex::new((0, watch)), record: Mutex::default() });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(run_stream(Arc::clone(&host) as Arc<dyn ControlPlane>, "build".into(), "cases".into(), json!({})));
    let record = host.record.lock().unwrap().clone();
    assert_eq!((record["status"].as_str(), record["metrics"]["badRows"].as_u64()), (Some("STOPPED"), Some(0)), "{record}");
    record
}

/// What is visible: the start of every window with its rows.
fn windows(out: &Collector) -> BTreeMap<i64, i64> {
    let mut windows = BTreeMap::new();
    for batch in out.visible() {
        let starts = batch.column_by_name("windowStart").unwrap().as_primitive::<TimestampMillisecondType>().clone();
        let counts = batch.column_by_name("n").unwrap().as_primitive::<Int64Type>().clone();
        for row in 0..batch.num_rows() {
            assert_eq!(windows.insert(starts.value(row), counts.value(row)), None, "a window came out twice");
        }
    }
    windows
}

fn signal(goes_on: bool) -> BuildSignal {
    if goes_on { BuildSignal::Continue } else { BuildSignal::Stop }
}

#[test]
fn p035_p036_a_split_without_rows_and_a_task_without_a_split_do_not_hold_windows_open() {
    for tasks in [1, 2, 4] {
        let rows = Say::Rows(vec![0, SECOND, 20 * SECOND]);
        let source = Told::new([("busy", vec![rows]), ("silent", vec![Say::State(SplitState::CaughtUp)])]);
        let out = Collector::new();
        let seen = out.clone();
        run(&source, tasks, 10 * SECOND, &out, None, move |_| signal(seen.visible().is_empty()));
        assert_eq!(windows(&out), BTreeMap::from([(0, 2)]), "{tasks} tasks");
    }
}

#[test]
fn p037_p038_after_all_inputs_were_idle_time_goes_on_with_the_first_that_returns() {
    let idle = || Say::State(SplitState::CaughtUp);
    let source = Told::new([("a", vec![Say::Rows(vec![0, 20 * SECOND]), Say::State(SplitState::Pending)]), ("b", vec![idle()])]);
    let out = Collector::new();
    let (told, seen) = (source.clone(), out.clone());
    let mut since = None;
    run(&source, 2, 10 * SECOND, &out, None, move |beat| {
        if !seen.visible().is_empty() {
            // `b` is idle, for otherwise nothing would be visible; now `a` is too, and long after that `b` returns.
            let returns = *since.get_or_insert_with(|| {
                told.say("a", idle());
                beat + LONG
            });
            if beat == returns {
                told.say("b", Say::Rows(vec![25 * SECOND, 45 * SECOND]));
            }
        }
        signal(windows(&seen).len() < 2)
    });
    assert_eq!(windows(&out), BTreeMap::from([(0, 1), (20 * SECOND, 2)]));
}

#[test]
fn p062_p069_a_split_that_has_more_holds_the_watermark_however_long_it_takes() {
    // `slow` has said that there is more, and says nothing else for longer than the idle timeout.
    let source =
        Told::new([("fast", vec![Say::Rows(vec![0, 100 * SECOND])]), ("slow", vec![Say::Rows(vec![0]), Say::State(SplitState::Pending)])]);
    let out = Collector::new();
    let (told, seen) = (source.clone(), out.clone());
    let record = run(&source, 2, 10 * SECOND, &out, None, move |beat| {
        if beat == LONG {
            assert!(seen.visible().is_empty(), "time went on without the slow split");
            told.say("slow", Say::Rows(vec![SECOND, 100 * SECOND]));
        }
        signal(seen.visible().is_empty())
    });
    assert_eq!((windows(&out), &record["metrics"]["lateRows"]), (BTreeMap::from([(0, 3)]), &json!(0)));
}

/// A sink that takes nothing until it may.
#[derive(Debug, Clone, Default)]
struct Gated(Arc<AtomicBool>);

impl OutputSink for Gated {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Ok(SinkPlan::new(Guarantee::AtLeastOnce))
    }

    fn open(&self, _: SinkCtx) -> Result<AnySink> {
        Ok(AnySink::AtLeastOnce(Box::new(self.clone())))
    }
}

impl Sink for Gated {
    fn write(&mut self, _: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        if self.0.load(Ordering::SeqCst) { Ok(Written::default()) } else { Err(Error::retryable("not yet", BEAT)) }
    }

    fn flush(&mut self, _: Epoch) -> Result<Flushed> {
        Ok(Flushed::Done)
    }
}

#[test]
fn p040_a_source_that_is_held_up_by_a_slow_sink_is_not_idle() {
    // One task reads both splits. `busy` fills the way to the sink; behind that, `patient` has a row that cannot be read yet.
    let idle = || Say::State(SplitState::CaughtUp);
    let times = |part: i64| Say::Rows((0..16).map(|row| part * 10 * SECOND + row).collect());
    let busy = (0..40).map(times).collect();
    let mut patient = vec![idle(); 39];
    patient.push(Say::Rows(vec![5 * SECOND, 1000 * SECOND]));
    let source = Told::new([("busy", busy), ("patient", patient)]);
    let (out, gate) = (Collector::new(), Gated::default());
    let (open, told, seen) = (gate.clone(), source.clone(), out.clone());
    let record = run(&source, 1, 10 * SECOND, &out, Some(Arc::new(gate)), move |beat| {
        if beat == LONG {
            assert!(!told.0.lock().unwrap()["patient"].is_empty(), "the sink did not hold the source up");
            open.0.store(true, Ordering::SeqCst);
        }
        signal(windows(&seen).len() < 39)
    });
    assert_eq!(record["metrics"]["lateRows"], 0, "{record}");
    assert_eq!(windows(&out)[&0], 17, "the sixteen of `busy` and the one that had to wait");
}

#[test]
fn p042_p043_a_row_from_the_future_makes_no_honest_row_late() {
    let now = SystemClock.wall().0 / 1000;
    let start = (now - 10 * MINUTE).div_euclid(MINUTE) * MINUTE;
    // Windows of a minute; a device whose clock is a day fast, ten honest rows of the minute before, and what ends it.
    let mut says = vec![Say::Rows(vec![start, start + 2 * MINUTE, now + DAY, now + 2 * 60 * MINUTE])];
    says.push(Say::Rows((0..10).map(|row| start + 2 * MINUTE + row).collect()));
    says.push(Say::Rows(vec![start + 5 * MINUTE]));
    let source = Told::new([("devices", says)]);
    let out = Collector::new();
    let seen = out.clone();
    let record = run(&source, 1, MINUTE, &out, None, move |_| signal(windows(&seen).len() < 2));
    assert_eq!(windows(&out), BTreeMap::from([(start, 1), (start + 2 * MINUTE, 11)]));
    assert_eq!((&record["metrics"]["futureRows"], &record["metrics"]["lateRows"]), (&json!(2), &json!(0)), "{record}");
}

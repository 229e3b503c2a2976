//! Runs a pipeline file through the host contract, as a script of starts: each but the last reads, settles an epoch, reads on and
//! crashes; the next one restores that epoch, with a number of tasks of its own.
//!
//! The clock stands still but for the script, so an epoch begins exactly when the script says so.

use crate::gate::{CRASH, Gate, Gated, Positions};
use crate::rows::{Row, rows_of};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate::epochs::{EpochStore, Manifest, MemoryStore};
use tidegate::file::{FileHost, PipelineFile};
use tidegate::host::HostConfig;
use tidegate::{Binding, BuildSignal, ControlPlane, HostSettings, Topology, run_stream};
use tidegate_api::testkit::{Collector, ManualClock};
use tidegate_api::{EventTime, Result};

/// Splits of the source; more than most starts have tasks, and no multiple of three.
pub(crate) const SPLITS: u64 = 4;
/// Between two epochs, on a clock that moves by itself.
const EPOCH: Duration = Duration::from_millis(20);
/// So many looks, a millisecond apart at least, before an epoch is asked for again.
const PATIENCE: u32 = 1000;
/// 2026-01-01T00:00:00Z, in milliseconds: after every event, so that none is from the future.
pub(crate) const WALL: i64 = 1_767_225_600_000;

/// The options of the generator that a test sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    pub(crate) events: u64,
    pub(crate) start_ms: i64,
    pub(crate) step_ms: i64,
}

impl Source {
    /// The lines of a dataset's table.
    pub(crate) fn options(&self) -> String {
        let Source { events, start_ms, step_ms } = self;
        format!("connector = \"nexmark\"\nevents = {events}\npartitions = {SPLITS}\nstartMs = {start_ms}\nstepMs = {step_ms}\nseed = 42")
    }
}

/// What a script does, one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Act {
    /// Reads all events below this.
    ReadTo(u64),
    /// Settles an epoch. What was read before it is taken by every stage before it.
    Epoch,
    /// Puts the wall clock forward to this, in milliseconds.
    Wall(i64),
    /// Reads on to this event and fails there.
    CrashAt(u64),
}

/// A key of `[settings]`.
pub(crate) type Setting = (&'static str, Value);

/// One start of the pipeline. After its acts it reads to the end.
#[derive(Debug, Clone)]
pub(crate) struct Leg {
    pub(crate) tasks: usize,
    pub(crate) batch_rows: usize,
    pub(crate) acts: Vec<Act>,
    /// Further settings.
    pub(crate) settings: Vec<Setting>,
}

impl Leg {
    pub(crate) fn new(tasks: usize) -> Leg {
        Leg { tasks, batch_rows: 8192, acts: Vec::new(), settings: Vec::new() }
    }

    pub(crate) fn with_batch_rows(mut self, rows: usize) -> Leg {
        self.batch_rows = rows;
        self
    }

    pub(crate) fn with_acts(mut self, acts: impl IntoIterator<Item = Act>) -> Leg {
        self.acts = acts.into_iter().collect();
        self
    }

    pub(crate) fn with_settings(mut self, settings: &[Setting]) -> Leg {
        self.settings = settings.to_vec();
        self
    }
}

/// What came of it.
pub(crate) struct Output {
    /// The visible columns.
    pub(crate) columns: Vec<String>,
    /// What a reader sees, in order; of an upsert output each row with the kind of its update behind it.
    pub(crate) rows: Vec<Row>,
    /// The last record of the last start.
    pub(crate) record: Value,
    /// For each crash, the manifest that the next start went on from.
    pub(crate) restored: Vec<Manifest>,
    /// Where the wall clock was moved: how far the splits were, and to what.
    pub(crate) walls: Vec<(Positions, i64)>,
}

/// Runs the file `examples/nexmark/{query}.toml`, with the source's options replaced and the output kept.
pub(crate) fn run_query(query: &str, source: Source, legs: &[Leg]) -> Output {
    run_text(&with_source(&read_query(query), &source), legs)
}

fn folder() -> std::path::PathBuf {
    tidegate_tests::root().join("examples/nexmark")
}

fn read_query(query: &str) -> String {
    let path = folder().join(format!("{query}.toml"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("`{}`: {error}", path.display()))
}

/// The text with the table of the generator's options, and nothing else, exchanged.
fn with_source(text: &str, source: &Source) -> String {
    let begin = "[datasets.events]\n";
    let (before, table) = text.split_once(begin).unwrap();
    let (options, after) = table.split_once("\n\n").unwrap();
    assert!(options.lines().all(|line| line.contains(" = ")) && options.contains("connector = \"nexmark\""), "{options}");
    format!("{before}{begin}{}\n\n{after}", source.options())
}

/// Runs a pipeline whose source is `events` and whose output is `out`.
pub(crate) fn run_text(text: &str, legs: &[Leg]) -> Output {
    let file =
        PipelineFile::parse(text, "query.toml", "query", folder(), Arc::new(|_| None)).unwrap_or_else(|mistakes| panic!("{mistakes:?}"));
    let file = Arc::new(file);
    let (store, collector) = (MemoryStore::new(), Collector::new());
    let clock = Arc::new(ManualClock::at(EventTime::from_millis(WALL)));
    let (mut restored, mut walls, mut record) = (Vec::new(), Vec::new(), Value::Null);
    for (index, leg) in legs.iter().enumerate() {
        let host = Arc::new(Host::new(&file, leg, &store, &collector, &clock));
        let plane = Arc::clone(&host) as Arc<dyn ControlPlane>;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(run_stream(plane, format!("start-{index}"), "nexmark".into(), Value::Null));

        let script = host.script.lock().unwrap();
        record = script.record.clone();
        walls.extend(script.walls.iter().cloned());
        if index > 0 {
            let (began, restoring) = host.gate.began();
            assert!(restoring, "start {index} restores");
            assert!(
                began.len() as u64 == SPLITS && began.values().all(|at| *at > 0),
                "start {index} goes on within every split: {began:?}"
            );
        }
        if index + 1 < legs.len() {
            let error = record["error"].as_str().unwrap_or_default();
            assert!(record["status"] == "FAILED" && error.contains(CRASH), "start {index} crashes as planned: {record}");
            let manifest = newest_manifest(&store);
            assert!(manifest.epoch.0 as usize > index && manifest.ended.is_none(), "an epoch was settled before crash {index}");
            // Otherwise nothing would be done twice, and nothing would have to be undone.
            let crashed_at = host.gate.at();
            let splits = manifest.sources.values().flat_map(|source| &source.splits);
            let kept: Positions = splits.filter_map(|split| Some((split.id.clone(), split.split().position?.as_number()?))).collect();
            assert!(crashed_at.iter().all(|(split, at)| kept.get(split).is_some_and(|kept| kept < at)), "{kept:?} {crashed_at:?}");
            restored.push(manifest);
        }
    }
    assert_eq!((&record["status"], &record["reason"]), (&json!("STOPPED"), &json!("ended")), "{record}");
    let metrics = &record["metrics"];
    for count in ["lateRows", "futureRows", "badRows"] {
        assert_eq!(metrics[count], 0, "{count}: {metrics}");
    }
    assert_eq!(collector.prepared(), 0, "nothing is left between prepared and committed");
    let batches = collector.visible();
    let visible = batches.first().map(|batch| tidegate_api::hidden::visible_schema(batch.schema_ref()));
    let columns = visible.map(|schema| schema.fields().iter().map(|field| field.name().clone()).collect()).unwrap_or_default();
    Output { columns, rows: rows_of(&batches), record, restored, walls }
}

fn newest_manifest(store: &MemoryStore) -> Manifest {
    let newest = store.list("manifests/").unwrap().into_iter().filter(|key| key.ends_with("/a")).max().unwrap();
    Manifest::decode(&store.get(&newest).unwrap().unwrap()).unwrap()
}

/// The file's own host, but for source, sink, settings and time.
struct Host {
    file: FileHost,
    settings: HostSettings,
    gate: Arc<Gate>,
    collector: Collector,
    script: Mutex<Script>,
}

struct Script {
    acts: VecDeque<Act>,
    begun: bool,
    /// The epoch that is waited for, and how often it was asked for.
    awaited: u64,
    asked: u32,
    clock: Arc<ManualClock>,
    gate: Arc<Gate>,
    walls: Vec<(Positions, i64)>,
    record: Value,
}

impl Host {
    fn new(file: &Arc<PipelineFile>, leg: &Leg, store: &MemoryStore, collector: &Collector, clock: &Arc<ManualClock>) -> Host {
        let mut settings = json!({
            "parallelism": leg.tasks, "batchRows": leg.batch_rows, "restarts": { "max": 0 },
            "checkpointEveryMs": EPOCH.as_millis() as u64, "heartbeatEvery": "1ms",
        });
        settings.as_object_mut().unwrap().extend(leg.settings.iter().map(|(key, value)| (key.to_string(), value.clone())));
        let host = file.host_settings().with_settings(settings.as_object().unwrap().clone());
        let gate = Arc::new(Gate::default());
        let script = Script {
            acts: leg.acts.iter().copied().collect(),
            begun: false,
            awaited: 0,
            asked: 0,
            clock: Arc::clone(clock),
            gate: Arc::clone(&gate),
            walls: Vec::new(),
            record: Value::Null,
        };
        Host {
            file: FileHost::new(Arc::clone(file), host.clone(), HostConfig::default(), Arc::new(AtomicBool::new(false)), Box::new(|_| ())),
            settings: host.with_epoch_store(Arc::new(store.clone())).with_clock(Arc::clone(clock) as Arc<_>),
            gate,
            collector: collector.clone(),
            script: Mutex::new(script),
        }
    }
}

impl Script {
    /// Goes on as far as the run has come; `epoch` is the newest that is settled.
    fn go_on(&mut self, epoch: u64) {
        while let Some(act) = self.acts.front().copied() {
            let begins = !std::mem::replace(&mut self.begun, true);
            let done = match act {
                Act::ReadTo(event) => {
                    if begins {
                        self.gate.open(event, false);
                    }
                    self.gate.is_reached()
                }
                Act::Epoch => {
                    if begins {
                        (self.awaited, self.asked) = (epoch + 1, 0);
                    }
                    // The coordinator counts from its first look at the clock, which on a busy machine may come after rows were read.
                    if self.asked.is_multiple_of(PATIENCE) {
                        self.clock.advance(EPOCH);
                    }
                    self.asked += 1;
                    epoch >= self.awaited
                }
                Act::Wall(millis) => {
                    self.clock.jump_to(EventTime::from_millis(millis));
                    self.walls.push((self.gate.at(), millis));
                    true
                }
                Act::CrashAt(event) => {
                    if begins {
                        self.gate.open(event, true);
                    }
                    false
                }
            };
            if !done {
                return;
            }
            self.acts.pop_front();
            self.begun = false;
        }
        self.gate.open(u64::MAX, false);
    }
}

#[async_trait]
impl ControlPlane for Host {
    async fn topology(&self, pipeline: &str) -> Result<Topology> {
        self.file.topology(pipeline).await
    }

    async fn resolve_dataset(&self, name: &str) -> Result<Binding> {
        let binding = self.file.resolve_dataset(name).await?;
        Ok(match name {
            "events" => Binding::reading(name, Arc::new(Gated { inner: binding.source, gate: Arc::clone(&self.gate), splits: SPLITS })),
            "out" => Binding::writing(name, self.collector.sink()),
            _ => binding,
        })
    }

    async fn publishes(&self, name: &str) -> bool {
        self.file.publishes(name).await
    }

    async fn settings(&self, _: &str) -> Result<HostSettings> {
        Ok(self.settings.clone())
    }

    async fn heartbeat(&self, _: &str) -> BuildSignal {
        BuildSignal::Continue
    }

    async fn put_record(&self, _: &str, record: Value) -> Result<()> {
        let mut script = self.script.lock().unwrap();
        script.go_on(record["metrics"]["epoch"].as_u64().unwrap_or(0));
        script.record = record;
        Ok(())
    }
}

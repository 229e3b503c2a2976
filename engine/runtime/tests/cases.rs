//! Cases of the public collection about checkpoints and restarts, on whole jobs.

#![allow(clippy::unwrap_used, reason = "everything here is a test")]

mod support;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use support::doubles::{Growing, Mood, Moody};
use support::pipeline::{sink_of, source};
use support::{batch, schema, sorted};
use tidegate_api::testkit::Collector;
use tidegate_api::{
    Chunk, Discovered, Error, InlineSource, OutputSink, PollRequest, Polled, Position, Result, RunId, SourceCtx, SourcePlan, SourceReader,
    SourceRequest, Split, SplitId, SplitState,
};
use tidegate_epochs::{EpochStore, MemoryStore};
use tidegate_runtime::graph::{EdgeId, EdgeSpec, JobGraph, Pipe, Routing};
use tidegate_runtime::{Capacity, Ending, Job, JobConfig, JobControl, KillPoint, RestartPolicy};

fn config() -> JobConfig {
    let mut config = JobConfig::new("tested", RunId::new("run"), "this test");
    config.batch_rows = 16;
    config.edge = Capacity { rows: 64, bytes: 1 << 20 };
    config.checkpoint_every = Duration::from_millis(2);
    config.restarts = RestartPolicy { max: 1, within: Duration::from_secs(60), first_wait: Duration::ZERO, longest_wait: Duration::ZERO };
    config
}

/// A source into a sink.
fn straight(from: Arc<dyn InlineSource>, to: Arc<dyn OutputSink>, schema: &SchemaRef) -> JobGraph {
    let edge =
        EdgeSpec { id: EdgeId(0), from: "in".into(), to: "out".into(), input: 0, schema: Arc::clone(schema), routing: Routing::RoundRobin };
    JobGraph { nodes: vec![source("in", from).with_main(Pipe::to_edge(EdgeId(0))), sink_of("out", to, schema)], edges: vec![edge] }
}

fn rows(count: i64) -> Vec<Vec<i64>> {
    (0..count).map(|row| vec![row * 7, row % 9, row]).collect()
}

/// Runs until `enough` says so, and stops.
fn stopped(job: &Job, mut enough: impl FnMut(&JobControl) -> bool) {
    let control = JobControl::new();
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| job.run(&control));
        while !enough(&control) && !running.is_finished() {
            std::thread::yield_now();
        }
        control.request_stop();
        running.join().unwrap()
    });
    assert!(matches!(outcome.unwrap().end, Ending::Stopped { .. }));
}

fn count(batches: &[RecordBatch]) -> u64 {
    batches.iter().map(|batch| batch.num_rows() as u64).sum()
}

/// P076: a run that ends because its sink refuses a batch saves no position behind that batch.
#[test]
fn p076_rows_that_the_sink_refused_before_the_end_are_read_again() {
    let (from, store) = (Growing::new(100), MemoryStore::new());
    let broken = Moody::new(Mood { failing_writes: u64::MAX, ..Mood::default() });
    let job = Job::prepare(straight(Arc::new(from.clone()), Arc::new(broken), &from.schema), config(), Arc::new(store.clone())).unwrap();
    assert!(job.run(&JobControl::new()).is_err());
    let whole = Moody::default();
    let job = Job::prepare(straight(Arc::new(from.clone()), Arc::new(whole.clone()), &from.schema), config(), Arc::new(store)).unwrap();
    stopped(&job, |control| control.metrics().nodes.iter().any(|node| node.id == "out" && node.rows_out == 100));
    assert_eq!(sorted(&whole.delivered.lock().unwrap()), rows(100));
}

/// P077, P100: a stop that comes at any moment, also when a batch is just full or an epoch is just being finished, loses and repeats no row.
#[test]
fn p077_p100_a_stop_at_any_moment_keeps_every_row_once() {
    let (from, out, store) = (Growing::new(4000), Collector::new(), MemoryStore::new());
    let mut before = 0;
    for start in 0..40u64 {
        let job = Job::prepare(straight(Arc::new(from.clone()), out.sink(), &from.schema), config(), Arc::new(store.clone())).unwrap();
        let wanted = if start == 39 { 4000 - before } else { (start * 13 % 97).min(4000 - before) };
        let looks = AtomicU64::new(0);
        stopped(&job, |control| {
            let read = control.metrics().nodes.iter().any(|node| node.id == "in" && node.rows_out >= wanted);
            read && looks.fetch_add(1, Ordering::Relaxed) >= start % 5
        });
        let visible = out.visible();
        before = count(&visible);
        assert_eq!(sorted(&visible), rows(before as i64), "after start {start}");
    }
    assert_eq!(before, 4000);
}

/// P080: an epoch without rows says where reading goes on, and a restart reads nothing again. P084, P089: epochs without rows complete.
#[test]
fn p080_p084_p089_epochs_without_rows_complete_and_resume_where_they_are() {
    let (from, out, store) = (Growing::new(50), Collector::new(), MemoryStore::new());
    for start in 0..3 {
        let job = Job::prepare(straight(Arc::new(from.clone()), out.sink(), &from.schema), config(), Arc::new(store.clone())).unwrap();
        let mut first = None;
        stopped(&job, |control| {
            let epoch = control.progress(tidegate_api::EventTime(0)).epoch;
            count(&out.visible()) == 50 && epoch >= first.get_or_insert(epoch).next().next().next()
        });
        assert_eq!(sorted(&out.visible()), rows(50), "after start {start}");
    }
}

/// P093: what is kept does not grow with epochs that hold nothing.
#[test]
fn p093_thousands_of_idle_epochs_leave_nothing_behind() {
    let (from, out, store) = (Growing::new(10), Collector::new(), MemoryStore::new());
    let mut config = config();
    config.checkpoint_every = Duration::from_micros(200);
    let job = Job::prepare(straight(Arc::new(from.clone()), out.sink(), &from.schema), config, Arc::new(store.clone())).unwrap();
    let sizes = Mutex::new(Vec::new());
    let held = || -> (usize, usize) {
        let keys = store.list("").unwrap();
        let bytes = keys.iter().filter_map(|key| store.get(key).unwrap()).map(|object| object.len());
        (keys.len(), bytes.max().unwrap_or(0))
    };
    stopped(&job, |control| {
        let epoch = control.progress(tidegate_api::EventTime(0)).epoch.0;
        if epoch >= 20 && sizes.lock().unwrap().is_empty() {
            sizes.lock().unwrap().push(held());
        }
        epoch >= 2000
    });
    let (objects, largest) = held();
    let first = sizes.lock().unwrap()[0];
    assert!(objects <= first.0 + 8, "{objects} objects after {first:?}");
    assert!(largest <= first.1 + 64, "an object of {largest} bytes after {first:?}");
}

/// P095: however much faster the source is, no more is under way than the edges hold, so a barrier waits for no more than that.
#[test]
fn p095_a_source_that_is_faster_than_its_sink_is_held_back() {
    let from = Growing::new(100_000);
    let slow = Moody::new(Mood { blocks: true, ..Mood::default() });
    let job = Job::prepare(straight(Arc::new(from.clone()), Arc::new(slow.clone()), &from.schema), config(), Arc::new(MemoryStore::new()))
        .unwrap();
    let (control, mut most) = (JobControl::new(), 0);
    std::thread::scope(|scope| {
        let running = scope.spawn(|| job.run(&control));
        let read = || control.metrics().nodes.iter().find(|node| node.id == "in").map_or(0, |node| node.rows_out);
        // Until nothing more is read, however often one looks.
        let mut unchanged = 0;
        while unchanged < 20_000 && !running.is_finished() {
            let now = read();
            unchanged = if now > most || now == 0 { 0 } else { unchanged + 1 };
            most = now;
            std::thread::yield_now();
        }
        slow.open_gate();
        control.request_stop();
        assert!(matches!(running.join().unwrap().unwrap().end, Ending::Stopped { .. }));
    });
    // The edge, a batch in either task, and one that was being read.
    assert!(most <= 64 + 3 * 16, "{most} rows were read");
    assert!(count(&slow.delivered.lock().unwrap()) >= most);
}

/// Rows that others append; reading starts behind what is there when the split is found.
#[derive(Clone)]
struct Latest {
    schema: SchemaRef,
    length: Arc<AtomicU64>,
}

impl InlineSource for Latest {
    fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
        Ok(SourcePlan::new(Arc::clone(&self.schema)).with_bounded(false))
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let position = Position::number(self.length.load(Ordering::SeqCst));
        let split = Split { id: SplitId::new("log"), details: Vec::new(), position: Some(position) };
        let added = if cursor.is_some() { Vec::new() } else { vec![split] };
        Ok(Discovered { added, gone: Vec::new(), cursor: Some(Vec::new()), complete: true })
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let at = ctx.start.first().and_then(|split| split.position.as_ref()?.as_number()).ok_or_else(|| Error::internal("no position"))?;
        // Somebody appends while it opens.
        self.length.fetch_add(10, Ordering::SeqCst);
        Ok(Box::new(Tail { log: self.clone(), at }))
    }
}

struct Tail {
    log: Latest,
    at: u64,
}

impl SourceReader for Tail {
    fn assign(&mut self, _: Vec<Split>) -> Result<()> {
        Err(Error::internal("there is one split only"))
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        let (mut polled, split) = (Polled::default(), SplitId::new("log"));
        let to = self.log.length.load(Ordering::SeqCst).min(self.at + request.max_rows as u64);
        if to == self.at {
            polled.states.push((split, SplitState::CaughtUp));
            polled.retry_after = Some(Duration::from_millis(1));
            return Ok(polled);
        }
        let rows: Vec<Vec<i64>> = (self.at as i64..to as i64).map(|row| vec![row]).collect();
        polled.chunks.push(Chunk::new(split, batch(&self.log.schema, &rows), Position::number(to)));
        self.at = to;
        Ok(polled)
    }
}

/// P082, P094: "the latest" is resolved once, before anything is opened, and kept: neither what arrives while a start opens nor what arrives
/// between a failure before the first row and the next start is left out.
#[test]
fn p082_p094_the_latest_is_resolved_once() {
    let log = Latest { schema: schema(&["time"]), length: Arc::new(AtomicU64::new(1000)) };
    let (out, store) = (Collector::new(), MemoryStore::new());
    let job = |config: JobConfig| {
        Job::prepare(straight(Arc::new(log.clone()), out.sink(), &log.schema), config, Arc::new(store.clone())).unwrap()
    };
    let mut dies = config();
    dies.kill = Some(Arc::new(|point, _| match point {
        KillPoint::Opened => Err(Error::external("it dies before the first row")),
        _ => Ok(()),
    }));
    assert!(job(dies).run(&JobControl::new()).is_err());
    log.length.fetch_add(100, Ordering::SeqCst);
    let mut next = config();
    next.takeover = true;
    let end = AtomicU64::new(0);
    stopped(&job(next), |_| {
        end.store(log.length.load(Ordering::SeqCst), Ordering::SeqCst);
        1000 + count(&out.visible()) == end.load(Ordering::SeqCst)
    });
    let end = end.load(Ordering::SeqCst) as i64;
    assert!(end >= 1120, "{end}");
    assert_eq!(sorted(&out.visible()), (1000..end).map(|row| vec![row]).collect::<Vec<_>>());
}

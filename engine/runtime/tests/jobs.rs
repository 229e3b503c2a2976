//! Whole jobs on threads.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "everything here is a test")]

mod support;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::doubles::{Finding, Growing, Mood, Moody};
use support::pipeline::{Tasks, operator, sink, sink_of, source, source as source_node, world};
use support::steps::{Verdict, judge};
use support::tumbling::Tumbling;
use support::{batch, schema, sorted};
use tidegate_api::testkit::{Collector, Script, ScriptedSource};
use tidegate_api::{Epoch, ErrorKind, OnBadData, OperatorFactory, OutputSink, RunId, bad};
use tidegate_epochs::{AtEnd, MemoryStore};
use tidegate_runtime::graph::{BadRoute, EdgeId, EdgeSpec, JobGraph, Node, NodeKind, Pipe, PipeEnd, Routing, late_schema};
use tidegate_runtime::metrics::{MetricsSnapshot, NodeSnapshot};
use tidegate_runtime::{Capacity, Ending, Job, JobConfig, JobControl, Outcome, RestartPolicy};

fn config() -> JobConfig {
    let mut config = JobConfig::new("tested", RunId::new("run"), "this test");
    config.batch_rows = 16;
    config.edge = Capacity { rows: 64, bytes: 1 << 20 };
    config.checkpoint_every = Duration::from_millis(5);
    config.restarts = RestartPolicy { max: 3, within: Duration::from_secs(60), first_wait: Duration::ZERO, longest_wait: Duration::ZERO };
    config
}

fn run(graph: JobGraph, store: &MemoryStore) -> tidegate_api::Result<Outcome> {
    Job::prepare(graph, config(), Arc::new(store.clone()))?.run(&JobControl::new())
}

fn edge(id: usize, from: &str, to: &str, schema: &SchemaRef, routing: Routing) -> EdgeSpec {
    EdgeSpec { id: EdgeId(id), from: from.into(), to: to.into(), input: 0, schema: Arc::clone(schema), routing }
}

/// A seeded draw, so that a failing input comes again.
fn draw() -> impl FnMut(u64) -> u64 {
    let mut state = 7u64;
    move |limit| {
        state = tidegate_api::hash::mix(state);
        state % limit
    }
}

fn add_up(metrics: &MetricsSnapshot) {
    for node in &metrics.nodes {
        let left_out = node.filtered + node.late + node.bad_total() - node.bad_output;
        match node.role {
            tidegate_runtime::metrics::NodeRole::Source(_) => assert_eq!(node.rows_in, node.rows_out + left_out, "{node:?}"),
            tidegate_runtime::metrics::NodeRole::Operator(_) => assert_eq!(node.rows_in, node.absorbed + left_out, "{node:?}"),
            tidegate_runtime::metrics::NodeRole::Sink(_) => assert_eq!(node.rows_in, node.rows_out + node.bad_total(), "{node:?}"),
        }
        for step in &node.steps {
            assert_eq!(step.rows_in, step.rows_out + step.filtered + step.bad_total(), "{step:?}");
        }
    }
    for edge in &metrics.edges {
        assert_eq!(edge.sent, edge.received, "{edge:?}");
    }
}

fn node<'a>(metrics: &'a MetricsSnapshot, id: &str) -> &'a NodeSnapshot {
    metrics.nodes.iter().find(|node| node.id == id).unwrap()
}

#[test]
fn a_bounded_job_ends_with_every_row_and_counters_that_add_up() {
    for (sources, stages, sinks) in [(1, 1, 1), (2, 3, 2), (3, 4, 1)] {
        let world = world(400, &mut draw());
        let outcome = run(world.graph(Tasks { sources, stages, sinks }), &MemoryStore::new()).unwrap();
        assert!(matches!(outcome.end, Ending::Ended { .. }));
        assert_eq!(sorted(&world.raw.visible()), world.expected_raw());
        assert_eq!(sorted(&world.sums.visible()), world.expected_sums());
        assert_eq!(world.visible_dead(), world.expected_dead());
        assert_eq!(world.raw.prepared() + world.sums.prepared(), 0);
        add_up(&outcome.metrics);
        let read = node(&outcome.metrics, "scripted").rows_in + node(&outcome.metrics, "queue").rows_in;
        assert_eq!(read, 2000);
        assert_eq!(world.queue.forgotten(), 800, "everything read was acknowledged");
        assert_eq!(node(&outcome.metrics, "raw").rows_out, world.expected_raw().len() as u64);
    }
}

#[test]
fn a_completed_job_says_so_and_starts_over_only_when_told() {
    let world = world(50, &mut draw());
    let store = MemoryStore::new();
    let tasks = Tasks { sources: 1, stages: 2, sinks: 1 };
    let Ending::Ended { epoch } = run(world.graph(tasks), &store).unwrap().end else { panic!("it ends") };
    assert_eq!(run(world.graph(tasks), &store).unwrap().end, Ending::AlreadyComplete { epoch });
    assert_eq!(sorted(&world.raw.visible()), world.expected_raw());
    let again = self::world(50, &mut draw());
    let mut fresh = config();
    fresh.fresh = true;
    fresh.run_id = RunId::new("second run");
    // Another start of the engine: the same holder would be a restart, which does not begin afresh again.
    fresh.holder = "another test".into();
    let job = Job::prepare(again.graph(tasks), fresh, Arc::new(store)).unwrap();
    assert!(matches!(job.run(&JobControl::new()).unwrap().end, Ending::Ended { .. }));
    assert_eq!(sorted(&again.raw.visible()), again.expected_raw());
}

/// A growing source into a window and a sink of its rows.
fn growing(source_of: &Growing, raw: Arc<dyn OutputSink>, sums: &Collector, stages: usize) -> JobGraph {
    let window = Arc::new(Tumbling::new(50));
    let ends = vec![PipeEnd::Edge(EdgeId(0)), PipeEnd::Edge(EdgeId(1))];
    JobGraph {
        nodes: vec![
            source("growing", Arc::new(source_of.clone())).with_main(Pipe { steps: Vec::new(), to: ends }),
            operator("window", &window).with_parallelism(stages).with_main(Pipe::to_edge(EdgeId(2))),
            sink_of("raw", raw, &source_of.schema),
            sink("sums", sums, &window.output_schema()),
        ],
        edges: vec![
            edge(0, "growing", "window", &source_of.schema, Routing::Hash(vec![1])),
            edge(1, "growing", "raw", &source_of.schema, Routing::RoundRobin),
            edge(2, "window", "sums", &window.output, Routing::RoundRobin),
        ],
    }
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    while !condition() {
        std::thread::yield_now();
    }
}

#[test]
fn a_stop_suspends_and_a_later_start_goes_on_with_other_task_counts() {
    let source = Growing::new(100);
    let (raw, sums, store) = (Collector::new(), Collector::new(), MemoryStore::new());
    let mut last = Epoch(0);
    for (rows, stages) in [(100, 1), (250, 4), (400, 2)] {
        source.limit.store(rows, Ordering::SeqCst);
        let control = JobControl::new();
        let job = Job::prepare(growing(&source, raw.sink(), &sums, stages), config(), Arc::new(store.clone())).unwrap();
        let outcome = std::thread::scope(|scope| {
            let running = scope.spawn(|| job.run(&control));
            let already = raw.visible().iter().map(RecordBatch::num_rows).sum::<usize>() as u64;
            wait_for(|| {
                control.metrics().nodes.iter().any(|node| node.id == "raw" && node.rows_out + already == rows) || running.is_finished()
            });
            control.request_stop();
            running.join().unwrap()
        });
        let Ending::Stopped { epoch } = outcome.unwrap().end else { panic!("it was stopped") };
        assert!(epoch > last);
        last = epoch;
    }
    let rows = sorted(&raw.visible());
    assert_eq!(rows, (0..400).map(|row| vec![row * 7, row % 9, row]).collect::<Vec<_>>());
    // Windows that the watermark has passed have come out once, and the open ones have not.
    let shown = sorted(&sums.visible());
    let through = (399 * 7 - 20) / 50 * 50;
    let mut expected: std::collections::BTreeMap<(i64, i64), i64> = std::collections::BTreeMap::new();
    rows.iter().filter(|row| row[0] < through).for_each(|row| *expected.entry((row[0] / 50 * 50, row[1])).or_default() += row[2]);
    assert_eq!(shown, expected.into_iter().map(|((start, key), sum)| vec![start, key, sum]).collect::<Vec<_>>());
}

#[test]
fn a_bounded_input_may_end_in_a_suspend() {
    let world = world(50, &mut draw());
    let store = MemoryStore::new();
    let mut suspended = config();
    suspended.at_end = AtEnd::Suspend;
    let graph = world.graph(Tasks { sources: 1, stages: 1, sinks: 1 });
    let outcome = Job::prepare(graph, suspended, Arc::new(store)).unwrap().run(&JobControl::new()).unwrap();
    assert!(matches!(outcome.end, Ending::Ended { .. }));
    assert_eq!(sorted(&world.raw.visible()), world.expected_raw());
}

#[test]
fn windows_that_are_open_at_a_suspended_end_complete_with_the_input_of_a_later_start() {
    // Split n holds the times 100 n to 100 n + 9; windows of 1000 span ten splits.
    let source = Finding::new(3);
    let (out, store) = (Collector::new(), MemoryStore::new());
    let window = Arc::new(Tumbling::new(1000));
    let start = |splits: u64, stages: usize, at_end: AtEnd| {
        source.splits.store(splits, Ordering::SeqCst);
        let source = Finding { last: splits, ..source.clone() };
        let graph = JobGraph {
            nodes: vec![
                source_node("finding", Arc::new(source.clone())).with_parallelism(2).with_main(Pipe::to_edge(EdgeId(0))),
                operator("window", &window).with_parallelism(stages).with_main(Pipe::to_edge(EdgeId(1))),
                sink("out", &out, &window.output),
            ],
            edges: vec![
                edge(0, "finding", "window", &source.schema, Routing::Hash(vec![1])),
                edge(1, "window", "out", &window.output, Routing::RoundRobin),
            ],
        };
        let mut config = config();
        config.at_end = at_end;
        let outcome = Job::prepare(graph, config, Arc::new(store.clone())).unwrap().run(&JobControl::new()).unwrap();
        assert!(matches!(outcome.end, Ending::Ended { .. }), "{outcome:?}");
        assert_eq!(node(&outcome.metrics, "window").late, 0);
    };
    let sum = |splits: std::ops::Range<i64>| splits.flat_map(|split| (0..10).map(move |row| 100 * split + row)).sum::<i64>();
    start(3, 1, AtEnd::Suspend);
    assert!(sorted(&out.visible()).is_empty(), "the window is open");
    start(5, 2, AtEnd::Suspend);
    assert!(sorted(&out.visible()).is_empty(), "and stays open");
    start(12, 1, AtEnd::Suspend);
    let first = vec![0, 0, sum(0..10)];
    assert!(sorted(&out.visible()).len() <= 1, "the second window is open");
    start(13, 1, AtEnd::Drain);
    assert_eq!(sorted(&out.visible()), [first, vec![1000, 0, sum(10..13)]]);
}

#[test]
fn a_failure_after_another_start_took_over_is_told_as_fenced_and_takes_nothing_back() {
    for takeover in [false, true] {
        let store = MemoryStore::new();
        let (mine, theirs) = (Growing::new(40), Growing::new(40));
        let (raw, sums) = (Collector::new(), Collector::new());
        let start = |source: &Growing, holder: &str, takeover: bool, every: Duration| {
            let mut config = config();
            config.holder = holder.into();
            config.takeover = takeover;
            config.checkpoint_every = every;
            Job::prepare(growing(source, raw.sink(), &sums, 1), config, Arc::new(store.clone())).unwrap()
        };
        // The older start makes no epoch of its own, so nothing but its failure tells it.
        let older = start(&mine, "older", takeover, Duration::from_secs(3600));
        let newer = start(&theirs, "newer", true, Duration::from_millis(5));
        let (control, other) = (JobControl::new(), JobControl::new());
        let (failed, outcome) = std::thread::scope(|scope| {
            let first = scope.spawn(|| older.run(&control));
            wait_for(|| control.metrics().nodes.iter().any(|node| node.rows_in > 0) || first.is_finished());
            let second = scope.spawn(|| newer.run(&other));
            wait_for(|| other.progress(tidegate_api::EventTime(0)).epoch > Epoch(1) || second.is_finished());
            mine.failures.store(1, Ordering::SeqCst);
            let failed = first.join().unwrap();
            other.request_stop();
            (failed, second.join().unwrap())
        });
        let error = failed.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
        assert!(error.to_string().contains("`newer`"), "{error}");
        assert!(matches!(outcome.unwrap().end, Ending::Stopped { .. }));
    }
}

/// Renames the sink's configuration.
fn configured(mut graph: JobGraph, path: &str) -> JobGraph {
    for node in &mut graph.nodes {
        if let NodeKind::Sink(sink) = &mut node.kind {
            sink.config = serde_json::json!({ "path": path });
        }
    }
    graph
}

#[test]
fn a_sink_may_change_when_nothing_is_pending_and_is_refused_with_the_change_when_rows_are() {
    let rows = schema(&["time", "key", "value"]);
    for fresh in [false, true] {
        for pending in [false, true] {
            let (out, dead, store) = (Collector::new(), Collector::new(), MemoryStore::new());
            let graph =
                |path: &str| configured(straight(&numbered(20), OnBadData::Fail, |_| Verdict::Keep, sink("out", &out, &rows), &dead), path);
            let start = |path: &str, holder: &str, fresh: bool, killed: bool| {
                let mut config = config();
                config.holder = holder.into();
                config.run_id = RunId::new(holder);
                config.fresh = fresh;
                config.takeover = true;
                config.at_end = AtEnd::Suspend;
                if killed {
                    config.kill = Some(Arc::new(|point, _| match point {
                        tidegate_runtime::KillPoint::AfterManifest => Err(tidegate_api::Error::internal("killed")),
                        _ => Ok(()),
                    }));
                }
                Job::prepare(graph(path), config, Arc::new(store.clone())).unwrap().run(&JobControl::new())
            };
            assert_eq!(start("old", "first", false, pending).is_err(), pending);
            let changed = start("new", "second", fresh, false);
            if !pending {
                changed.unwrap();
                continue;
            }
            let error = changed.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            for part in ["sink `out`", "`path` was `\"old\"` and is `\"new\"`", "put the old sink back"] {
                assert!(error.to_string().contains(part), "{error}");
            }
            // The remedy works: the old sink commits what is pending, then the change goes through.
            start("old", "third", false, false).unwrap();
            assert!(sorted(&out.visible()).len() >= 20);
            start("new", "fourth", false, false).unwrap();
        }
    }
}

#[test]
fn a_sink_that_does_not_open_is_named_before_any_task_runs() {
    let source = Growing::new(10);
    let broken = Moody::new(Mood { broken: true, ..Mood::default() });
    let error = run(growing(&source, Arc::new(broken), &Collector::new(), 1), &MemoryStore::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().starts_with("sink `raw`"), "{error}");
}

#[test]
fn an_external_failure_restarts_from_the_newest_manifest_and_a_spent_budget_ends_the_run() {
    let source = Growing::new(60);
    source.failures.store(2, Ordering::SeqCst);
    let (raw, sums, store) = (Collector::new(), Collector::new(), MemoryStore::new());
    let control = JobControl::new();
    let job = Job::prepare(growing(&source, raw.sink(), &sums, 2), config(), Arc::new(store.clone())).unwrap();
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| job.run(&control));
        wait_for(|| sorted(&raw.visible()).len() == 60 || running.is_finished());
        control.request_stop();
        running.join().unwrap().unwrap()
    });
    assert_eq!(outcome.restarts, 2);
    assert_eq!(sorted(&raw.visible()).len(), 60);
    source.failures.store(100, Ordering::SeqCst);
    let error = run(growing(&source, raw.sink(), &sums, 2), &store).unwrap_err();
    assert!(error.to_string().contains("gave up after 3 restarts"), "{error}");
    assert!(error.to_string().contains("source `growing` task 0"), "{error}");
}

#[test]
fn a_panic_becomes_an_internal_error_that_names_the_task() {
    let source = Growing::new(10);
    let sink = Moody::new(Mood { panics: true, ..Mood::default() });
    let error = run(growing(&source, Arc::new(sink), &Collector::new(), 1), &MemoryStore::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.to_string().contains("sink `raw` task 0"), "{error}");
    assert!(error.to_string().contains("the moody sink panics"), "{error}");
}

/// A scripted source into one sink through one step.
fn straight(rows: &[Vec<i64>], on_bad: OnBadData, judged: fn(i64) -> Verdict, out: Node, dead: &Collector) -> JobGraph {
    let schema = schema(&["time", "key", "value"]);
    let scripted = ScriptedSource::new(Arc::clone(&schema), vec![Script::new("only", vec![batch(&schema, rows)])]);
    let pipe = Pipe { steps: vec![judge(&schema, on_bad, judged)], to: vec![PipeEnd::Edge(EdgeId(0))] };
    let mut sink_node = out;
    let mut edges = vec![edge(0, "scripted", "out", &schema, Routing::RoundRobin)];
    let mut input = source("scripted", Arc::new(scripted)).with_main(pipe);
    edges.push(edge(1, "scripted", "dead", &bad::dead_letter_schema(), Routing::RoundRobin));
    input = input.with_bad(EdgeId(1));
    if let NodeKind::Sink(sink) = &sink_node.kind
        && sink.on_bad == OnBadData::DeadLetter
    {
        edges.push(edge(2, "out", "dead", &bad::dead_letter_schema(), Routing::RoundRobin));
        sink_node.bad = BadRoute::Edge(EdgeId(2));
    }
    JobGraph { nodes: vec![input, sink_node, sink("dead", dead, &bad::dead_letter_schema())], edges }
}

fn numbered(rows: i64) -> Vec<Vec<i64>> {
    (0..rows).map(|row| vec![row, row % 3, row]).collect()
}

fn judged(time: i64) -> Verdict {
    match time % 10 {
        3 => Verdict::Bad,
        4 => Verdict::Drop,
        _ => Verdict::Keep,
    }
}

#[test]
fn bad_rows_follow_their_policy_and_are_counted_by_reason() {
    let schema = schema(&["time", "key", "value"]);
    for policy in [OnBadData::Drop, OnBadData::DeadLetter] {
        let (out, dead) = (Collector::new(), Collector::new());
        let graph = straight(&numbered(100), policy, judged, sink("out", &out, &schema), &dead);
        let outcome = run(graph, &MemoryStore::new()).unwrap();
        assert_eq!(sorted(&out.visible()).len(), 80);
        add_up(&outcome.metrics);
        let step = &node(&outcome.metrics, "scripted").steps[0];
        assert_eq!((step.filtered, step.bad["expression"]), (10, 10));
        let letters: Vec<RecordBatch> = dead.visible();
        let count: usize = letters.iter().map(RecordBatch::num_rows).sum();
        assert_eq!(count, if policy == OnBadData::DeadLetter { 10 } else { 0 });
        for letter in &letters {
            let text = |column: &str| letter.column_by_name(column).unwrap().as_string::<i32>().value(0).to_string();
            assert_eq!(
                (text("stage"), text("step"), text("source"), text("split")),
                ("clean".into(), "1:judge".into(), "scripted".into(), "only".into())
            );
        }
    }
    let graph = straight(&numbered(100), OnBadData::Fail, judged, sink("out", &Collector::new(), &schema), &Collector::new());
    let error = run(graph, &MemoryStore::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Data);
    for part in ["stage `clean`", "step `1:judge`", "split `only`", "judged bad"] {
        assert!(error.to_string().contains(part), "{error}");
    }
}

/// P075: what a sink could not deliver is delivered by the repeated call.
#[test]
fn a_sink_may_fail_for_a_while_and_refuse_rows_and_loses_none() {
    let schema = schema(&["time", "key", "value"]);
    let moody = Moody::new(Mood { failing_writes: 3, failing_flushes: 2, refuses: Some(7), ..Mood::default() });
    let mut out = sink_of("out", Arc::new(moody.clone()), &schema);
    if let NodeKind::Sink(sink) = &mut out.kind {
        sink.on_bad = OnBadData::DeadLetter;
    }
    let dead = Collector::new();
    let graph = straight(&numbered(100), OnBadData::Fail, |_| Verdict::Keep, out, &dead);
    let outcome = run(graph, &MemoryStore::new()).unwrap();
    assert_eq!(sorted(&moody.delivered.lock().unwrap()), numbered(100).into_iter().filter(|row| row[0] % 7 != 0).collect::<Vec<_>>());
    let letters = dead.visible();
    assert_eq!(letters.iter().map(RecordBatch::num_rows).sum::<usize>(), 15);
    let raw = letters[0].column_by_name("raw").unwrap().as_binary::<i32>().value(0).to_vec();
    assert_eq!(String::from_utf8(raw).unwrap(), r#"{"time":0,"key":0,"value":0}"#);
    add_up(&outcome.metrics);
    assert_eq!(node(&outcome.metrics, "out").bad["sink"], 15);
}

#[test]
fn a_sink_may_acknowledge_its_barrier_later() {
    let source = Growing::new(50);
    let later = Moody::new(Mood { later: true, ..Mood::default() });
    let sums = Collector::new();
    let control = JobControl::new();
    let job = Job::prepare(growing(&source, Arc::new(later.clone()), &sums, 1), config(), Arc::new(MemoryStore::new())).unwrap();
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| job.run(&control));
        wait_for(|| !later.owed.lock().unwrap().is_empty() || running.is_finished());
        let before = control.progress(tidegate_api::EventTime(0)).epoch;
        // The epoch waits for the answer; the task does not, and takes more rows.
        source.limit.store(120, Ordering::SeqCst);
        wait_for(|| control.metrics().nodes.iter().any(|node| node.id == "raw" && node.rows_out == 120) || running.is_finished());
        assert_eq!(control.progress(tidegate_api::EventTime(0)).epoch, before);
        control.request_stop();
        wait_for(|| {
            later.answer();
            running.is_finished()
        });
        running.join().unwrap().unwrap()
    });
    assert!(matches!(outcome.end, Ending::Stopped { .. }));
    assert_eq!(sorted(&later.delivered.lock().unwrap()).len(), 120);
}

#[test]
fn late_rows_go_to_the_late_output_with_stage_and_watermark() {
    let schema = schema(&["time", "key", "value"]);
    let mut rows = numbered(50);
    rows.iter_mut().for_each(|row| row[0] *= 100);
    rows.push(vec![0, 1, 1]);
    let scripted = ScriptedSource::new(Arc::clone(&schema), vec![Script::new("only", vec![batch(&schema, &rows)])]);
    let window = Arc::new(Tumbling::new(50));
    let (sums, late) = (Collector::new(), Collector::new());
    let graph = JobGraph {
        nodes: vec![
            source("scripted", Arc::new(scripted)).with_main(Pipe::to_edge(EdgeId(0))),
            operator("window", &window).with_main(Pipe::to_edge(EdgeId(1))).with_late(Pipe::to_edge(EdgeId(2))),
            sink("sums", &sums, &window.output),
            sink("late", &late, &late_schema(&schema)),
        ],
        edges: vec![
            edge(0, "scripted", "window", &schema, Routing::Forward),
            edge(1, "window", "sums", &window.output, Routing::Forward),
            edge(2, "window", "late", &late_schema(&schema), Routing::Forward),
        ],
    };
    let outcome = run(graph, &MemoryStore::new()).unwrap();
    add_up(&outcome.metrics);
    assert_eq!(node(&outcome.metrics, "window").late, 1);
    let rows = late.visible();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].column_by_name("_stage").unwrap().as_string_view().value(0), "window");
    assert!(rows[0].column_by_name("_watermark").unwrap().is_valid(0));
}

#[test]
fn a_diamond_with_a_held_input_and_narrow_edges_does_not_deadlock() {
    let world = world(300, &mut draw());
    let schema = Arc::clone(&world.schema);
    let scripts = world.scripts.iter().map(|(name, rows)| Script::new(name, vec![batch(&schema, rows)]));
    let scripted = ScriptedSource::new(Arc::clone(&schema), scripts.collect());
    let (short, long) = (Arc::new(Tumbling::new(50)), Arc::new(Tumbling::new(200)));
    let out = Collector::new();
    let both = Pipe { steps: Vec::new(), to: vec![PipeEnd::Edge(EdgeId(0)), PipeEnd::Edge(EdgeId(1))] };
    let mut join = operator("join", &long).with_parallelism(2).with_main(Pipe::to_edge(EdgeId(3)));
    if let NodeKind::Operator(node) = &mut join.kind {
        node.inputs = 2;
    }
    let mut second = edge(2, "short", "join", &short.output, Routing::Hash(vec![1]));
    second.input = 1;
    let graph = JobGraph {
        nodes: vec![
            source("scripted", Arc::new(scripted)).with_parallelism(2).with_main(both),
            operator("short", &short).with_parallelism(3).with_main(Pipe::to_edge(EdgeId(2))),
            join,
            sink("out", &out, &long.output),
        ],
        edges: vec![
            edge(0, "scripted", "short", &schema, Routing::Hash(vec![1])),
            edge(1, "scripted", "join", &schema, Routing::Hash(vec![1])),
            second,
            edge(3, "join", "out", &long.output, Routing::RoundRobin),
        ],
    };
    let mut narrow = config();
    narrow.edge = Capacity { rows: 4, bytes: 1 << 20 };
    narrow.batch_rows = 3;
    narrow.checkpoint_every = Duration::from_millis(1);
    let outcome = Job::prepare(graph, narrow, Arc::new(MemoryStore::new())).unwrap().run(&JobControl::new()).unwrap();
    add_up(&outcome.metrics);
    // Every row reaches the join twice: as it is, and within a sum.
    let total: i64 = sorted(&out.visible()).iter().map(|row| row[2]).sum();
    let input: i64 = world.scripts.iter().flat_map(|(_, rows)| rows.iter().map(|row| row[2])).sum();
    assert_eq!(total, 2 * input);
}

#[test]
fn a_fresh_start_is_fresh_once_and_its_restarts_go_on() {
    let source = Growing::new(30);
    let (raw, sums, store) = (Collector::new(), Collector::new(), MemoryStore::new());
    let control = JobControl::new();
    let mut fresh = config();
    fresh.fresh = true;
    let job = Job::prepare(growing(&source, raw.sink(), &sums, 1), fresh, Arc::new(store)).unwrap();
    let outcome = std::thread::scope(|scope| {
        let running = scope.spawn(|| job.run(&control));
        wait_for(|| sorted(&raw.visible()).len() == 30 || running.is_finished());
        source.failures.store(1, Ordering::SeqCst);
        source.limit.store(60, Ordering::SeqCst);
        wait_for(|| sorted(&raw.visible()).len() >= 60 || running.is_finished());
        control.request_stop();
        running.join().unwrap().unwrap()
    });
    assert_eq!(outcome.restarts, 1);
    assert_eq!(sorted(&raw.visible()), (0..60).map(|row| vec![row * 7, row % 9, row]).collect::<Vec<_>>());
}

#[test]
fn a_start_that_was_taken_over_is_fenced_and_the_rows_come_once() {
    let source = Growing::new(30);
    let (raw, sums, store) = (Collector::new(), Collector::new(), MemoryStore::new());
    let job = |holder: &str, takeover: bool| {
        let mut config = config();
        config.holder = holder.into();
        config.takeover = takeover;
        Job::prepare(growing(&source, raw.sink(), &sums, 2), config, Arc::new(store.clone())).unwrap()
    };
    let (first, second) = (JobControl::new(), JobControl::new());
    std::thread::scope(|scope| {
        let old = scope.spawn(|| job("old", false).run(&first));
        wait_for(|| sorted(&raw.visible()).len() == 30 || old.is_finished());
        let new = scope.spawn(|| job("new", true).run(&second));
        source.limit.store(60, Ordering::SeqCst);
        assert_eq!(old.join().unwrap().unwrap_err().kind(), ErrorKind::Fenced);
        source.limit.store(90, Ordering::SeqCst);
        wait_for(|| sorted(&raw.visible()).len() >= 90 || new.is_finished());
        second.request_stop();
        assert!(matches!(new.join().unwrap().unwrap().end, Ending::Stopped { .. }));
    });
    assert_eq!(sorted(&raw.visible()).len(), 90);
}

#[test]
fn splits_found_while_running_are_read_once_by_some_task() {
    let source = Finding::new(7);
    let out = Collector::new();
    let graph = || JobGraph {
        nodes: vec![
            source_node("finding", Arc::new(source.clone())).with_parallelism(3).with_main(Pipe::to_edge(EdgeId(0))),
            sink("out", &out, &source.schema),
        ],
        edges: vec![edge(0, "finding", "out", &source.schema, Routing::RoundRobin)],
    };
    let store = MemoryStore::new();
    // Three splits while running, then a stop; two while nobody runs; the rest in a second start, with failures on the way.
    for (upto, last) in [(4, false), (7, true)] {
        let control = JobControl::new();
        let job = Job::prepare(graph(), config(), Arc::new(store.clone())).unwrap();
        let outcome = std::thread::scope(|scope| {
            let running = scope.spawn(|| job.run(&control));
            // The first discovery of a start may not fail; later ones may, for a while.
            wait_for(|| !control.metrics().nodes.is_empty() || running.is_finished());
            while source.splits.load(Ordering::SeqCst) < upto {
                let now = source.splits.fetch_add(1, Ordering::SeqCst) + 1;
                source.failures.store(3, Ordering::SeqCst);
                wait_for(|| sorted(&out.visible()).len() as u64 == now * 10 || running.is_finished());
            }
            if !last {
                control.request_stop();
            }
            running.join().unwrap().unwrap()
        });
        assert_eq!(matches!(outcome.end, Ending::Ended { .. }), last);
        source.splits.fetch_max(5, Ordering::SeqCst);
    }
    let expected: Vec<Vec<i64>> = (0..7).flat_map(|split| (0..10).map(move |row| vec![split * 100 + row, 0, split * 100 + row])).collect();
    assert_eq!(sorted(&out.visible()), expected);
}

#[test]
fn a_task_that_does_not_end_is_named_and_nothing_is_started_beside_it() {
    let source = Growing::new(10);
    let blocked = Moody::new(Mood { blocks: true, ..Mood::default() });
    let mut impatient = config();
    impatient.grace = Duration::from_millis(20);
    let job =
        Job::prepare(growing(&source, Arc::new(blocked.clone()), &Collector::new(), 1), impatient, Arc::new(MemoryStore::new())).unwrap();
    let control = JobControl::new();
    let error = std::thread::scope(|scope| {
        let running = scope.spawn(|| job.run(&control));
        wait_for(|| control.metrics().nodes.iter().any(|node| node.id == "raw" && node.rows_in > 0) || running.is_finished());
        source.failures.store(1, Ordering::SeqCst);
        source.limit.store(20, Ordering::SeqCst);
        running.join().unwrap().unwrap_err()
    });
    blocked.open_gate();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.to_string().contains("sink `raw` task 0 did not end"), "{error}");
}

#[test]
fn a_graph_that_cannot_run_is_refused_with_the_node_or_edge_at_fault() {
    let world = world(1, &mut draw());
    let tasks = Tasks { sources: 1, stages: 1, sinks: 1 };
    let refused = |spoil: &dyn Fn(&mut JobGraph), part: &str| {
        let mut graph = world.graph(tasks);
        spoil(&mut graph);
        let error = graph.validate().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    };
    refused(&|graph| graph.nodes[1].id = "scripted".into(), "two nodes are called `scripted`");
    refused(&|graph| graph.nodes[2].parallelism = 0, "`short` has no task");
    refused(&|graph| graph.edges[1].id = EdgeId(0), "two edges are called 0");
    refused(&|graph| graph.edges[4].to = "nowhere".into(), "unknown node `nowhere`");
    refused(&|graph| graph.edges[5].to = "short".into(), "feeds itself");
    refused(&|graph| graph.edges[4].schema = schema(&["other"]), "edge 4: the rows are");
    refused(&|graph| graph.edges[4].routing = Routing::Hash(vec![9]), "hashes a column it does not have");
    refused(&|graph| graph.edges[4].input = 1, "input");
    refused(&|graph| graph.nodes[3].main.to.clear(), "edge 5 is fed by no pipe of `long`");
    refused(&|graph| graph.nodes[3].main.to.push(PipeEnd::Edge(EdgeId(5))), "edge 5 is fed twice");
    refused(&|graph| graph.nodes[0].bad = BadRoute::Nowhere, "no edge to go to");
    refused(
        &|graph| {
            graph.nodes[3].parallelism = 2;
            graph.edges[5].routing = Routing::Forward;
        },
        "forwards from 2 tasks",
    );
}

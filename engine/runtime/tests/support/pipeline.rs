//! The pipeline of two stages, its input and its oracle.
//!
//! A scripted source and a queue go through a filter; the rows kept go to one sink as they are, and to a window per key, whose
//! results go to a second, longer window per group of keys, and from there to the other sink. Some rows are bad and become dead
//! letters, in a third sink.

use super::queue::Queue;
use super::steps::{Verdict, judge};
use super::tumbling::Tumbling;
use super::{batch, schema};
use arrow::array::AsArray;
use arrow::datatypes::SchemaRef;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::testkit::{Collector, Script, ScriptedSource};
use tidegate_api::{
    ChangeMode, InlineSource, OnBadData, OperatorFactory, OutputSink, SinkInput, SourceRequest, StepFactory, TimeSpec, bad,
};
use tidegate_runtime::graph::{EdgeId, EdgeSpec, JobGraph, Node, OperatorNode, Pipe, PipeEnd, PipeStep, Routing, SinkNode, SourceNode};

/// Rows may lag so many milliseconds behind the newest of their split.
pub const DISORDER: i64 = 20;
const SHORT: i64 = 50;
const LONG: i64 = 200;

/// Time, key, value.
pub type Rows = Vec<Vec<i64>>;

/// Input and world of a job.
pub struct World {
    pub schema: SchemaRef,
    pub scripts: Vec<(String, Rows)>,
    pub queue_rows: Vec<(&'static str, Rows)>,
    pub queue: Queue,
    pub raw: Collector,
    pub sums: Collector,
    pub dead: Collector,
}

/// How many tasks run each part.
#[derive(Clone, Copy)]
pub struct Tasks {
    pub sources: usize,
    pub stages: usize,
    pub sinks: usize,
}

/// `rows` rows per split, made by `draw`, which gives a number below its argument.
pub fn world(rows: i64, draw: &mut dyn FnMut(u64) -> u64) -> World {
    let schema = schema(&["time", "key", "value"]);
    let mut split = |offset: i64| -> Rows {
        (0..rows)
            .map(|row| {
                let time = offset + row * 7 - draw(DISORDER as u64 + 1) as i64;
                vec![time, draw(9) as i64, draw(100) as i64]
            })
            .collect()
    };
    let scripts: Vec<(String, Rows)> = (0..3).map(|at| (format!("s{at}"), split(at * 11))).collect();
    let queue_rows = vec![("q0", split(3)), ("q1", split(30))];
    let queue = Queue::new(Arc::clone(&schema), queue_rows.iter().map(|(name, rows)| (*name, batch(&schema, rows))).collect());
    World { schema, scripts, queue_rows, queue, raw: Collector::new(), sums: Collector::new(), dead: Collector::new() }
}

fn judged(time: i64) -> Verdict {
    match (time.rem_euclid(5), time.rem_euclid(13)) {
        (0, _) => Verdict::Drop,
        (_, 0) => Verdict::Bad,
        _ => Verdict::Keep,
    }
}

impl World {
    fn input(&self) -> Rows {
        let scripts = self.scripts.iter().flat_map(|(_, rows)| rows.iter().cloned());
        scripts.chain(self.queue_rows.iter().flat_map(|(_, rows)| rows.iter().cloned())).collect()
    }

    /// What must be in the sink of raw rows.
    pub fn expected_raw(&self) -> Rows {
        let mut rows: Rows = self.input().into_iter().filter(|row| judged(row[0]) == Verdict::Keep).collect();
        rows.sort();
        rows
    }

    /// What must be in the sink of dead letters: the source and the rows, sorted.
    pub fn expected_dead(&self) -> Vec<(String, String)> {
        let scripts = self.scripts.iter().flat_map(|(_, rows)| rows.iter().map(|row| ("scripted", row)));
        let queue = self.queue_rows.iter().flat_map(|(_, rows)| rows.iter().map(|row| ("queue", row)));
        let bad = scripts.chain(queue).filter(|(_, row)| judged(row[0]) == Verdict::Bad);
        let mut dead: Vec<(String, String)> = bad
            .map(|(source, row)| (source.to_string(), format!("{{\"time\":{},\"key\":{},\"value\":{}}}", row[0], row[1], row[2])))
            .collect();
        dead.sort();
        dead
    }

    /// What is in the sink of dead letters, in the same form.
    pub fn visible_dead(&self) -> Vec<(String, String)> {
        let mut dead = Vec::new();
        for batch in self.dead.visible() {
            let sources = batch.column_by_name("source").unwrap().as_string::<i32>();
            let rows = batch.column_by_name("raw").unwrap().as_binary::<i32>();
            for (source, row) in sources.iter().zip(rows.iter()) {
                dead.push((source.unwrap().to_string(), String::from_utf8(row.unwrap().to_vec()).unwrap()));
            }
        }
        dead.sort();
        dead
    }

    /// What must be in the sink of sums.
    pub fn expected_sums(&self) -> Rows {
        let mut sums: BTreeMap<(i64, i64), i64> = BTreeMap::new();
        for row in self.expected_raw() {
            // The second window sees the first one's start as its time.
            let short = row[0].div_euclid(SHORT) * SHORT;
            *sums.entry((short.div_euclid(LONG) * LONG, row[1])).or_default() += row[2];
        }
        sums.into_iter().map(|((start, key), sum)| vec![start, key, sum]).collect()
    }

    /// The job.
    pub fn graph(&self, tasks: Tasks) -> JobGraph {
        let scripts = self.scripts.iter().map(|(name, rows)| Script::new(name, vec![batch(&self.schema, rows)]));
        let scripted: Arc<dyn InlineSource> = Arc::new(ScriptedSource::new(Arc::clone(&self.schema), scripts.collect()));
        let queue: Arc<dyn InlineSource> = Arc::new(self.queue.clone());
        let short = Arc::new(Tumbling::new(SHORT));
        let long = Arc::new(Tumbling::new(LONG));
        let filter = || Pipe { steps: vec![judge(&self.schema, OnBadData::DeadLetter, judged)], to: Vec::new() };
        let to = |mut pipe: Pipe, edges: [usize; 2]| {
            pipe.to = edges.map(|edge| PipeEnd::Edge(EdgeId(edge))).to_vec();
            pipe
        };
        let nodes = vec![
            source("scripted", scripted).with_parallelism(tasks.sources).with_main(to(filter(), [0, 1])).with_bad(EdgeId(6)),
            source("queue", queue).with_parallelism(tasks.sources.min(2)).with_main(to(filter(), [2, 3])).with_bad(EdgeId(7)),
            operator("short", &short).with_parallelism(tasks.stages).with_main(Pipe::to_edge(EdgeId(4))),
            operator("long", &long).with_parallelism(tasks.stages).with_main(Pipe::to_edge(EdgeId(5))),
            sink("raw", &self.raw, &self.schema).with_parallelism(tasks.sinks),
            sink("sums", &self.sums, &long.output_schema()).with_parallelism(tasks.sinks),
            sink("dead", &self.dead, &bad::dead_letter_schema()).with_parallelism(tasks.sinks),
        ];
        let edge = |id: usize, from: &str, to: &str, schema: &SchemaRef, routing: Routing| EdgeSpec {
            id: EdgeId(id),
            from: from.into(),
            to: to.into(),
            input: 0,
            schema: Arc::clone(schema),
            routing,
        };
        let by_key = || Routing::Hash(vec![1]);
        let edges = vec![
            edge(0, "scripted", "short", &self.schema, by_key()),
            edge(1, "scripted", "raw", &self.schema, Routing::RoundRobin),
            edge(2, "queue", "short", &self.schema, by_key()),
            edge(3, "queue", "raw", &self.schema, Routing::RoundRobin),
            edge(4, "short", "long", &short.output, by_key()),
            edge(5, "long", "sums", &long.output, Routing::RoundRobin),
            edge(6, "scripted", "dead", &bad::dead_letter_schema(), Routing::RoundRobin),
            edge(7, "queue", "dead", &bad::dead_letter_schema(), Routing::RoundRobin),
        ];
        JobGraph { nodes, edges }
    }
}

/// A source node with event time in its first column.
pub fn source(id: &str, source: Arc<dyn InlineSource>) -> Node {
    let request = SourceRequest::all();
    let plan = source.plan(&request).unwrap();
    let mut node = SourceNode::new(id, source, request, plan);
    let mut time = TimeSpec::new("time");
    time.out_of_orderness = Duration::from_millis(DISORDER as u64);
    time.max_future_skew = None;
    node.time = Some(time);
    Node::source(id, node)
}

/// An operator node of one input.
pub fn operator(id: &str, factory: &Arc<Tumbling>) -> Node {
    let factory: Arc<dyn OperatorFactory> = Arc::clone(factory) as _;
    Node::operator(id, OperatorNode { stage: id.into(), label: "1:tumbling".into(), factory, inputs: 1, on_bad: OnBadData::Fail })
}

/// A sink node into a collector.
pub fn sink(id: &str, collector: &Collector, schema: &SchemaRef) -> Node {
    let sink: Arc<dyn OutputSink> = collector.sink();
    sink_of(id, sink, schema)
}

/// A sink node.
pub fn sink_of(id: &str, sink: Arc<dyn OutputSink>, schema: &SchemaRef) -> Node {
    let plan = sink.plan(&SinkInput::new(Arc::clone(schema), ChangeMode::Append)).unwrap();
    let config = sink.config();
    Node::sink(
        id,
        SinkNode {
            dataset: id.into(),
            index: 0,
            sink,
            plan,
            schema: Arc::clone(schema),
            mode: ChangeMode::Append,
            wants_keys: false,
            config,
            on_bad: OnBadData::Fail,
        },
    )
}

/// A step as a pipe of its own.
pub fn step(stage: &str, label: &str, factory: Arc<dyn StepFactory>, on_bad: OnBadData) -> PipeStep {
    PipeStep::new(stage, label, factory, on_bad)
}

//! What the runtime itself costs: a whole job of source, edge and sink that does nothing with its batches of 8,192 rows.

#![allow(clippy::unwrap_used, missing_docs, reason = "a bench may fail loudly, and its macros document nothing")]

use arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::sync::Arc;
use tidegate_api::{
    AnySink, ChangeMode, Chunk, Discovered, Epoch, Flushed, Guarantee, InlineSource, OnBadData, OutputSink, PollRequest, Polled, Position,
    Result, RunId, Sink, SinkCtx, SinkInput, SinkPlan, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split, SplitId, SplitState,
    Written,
};
use tidegate_epochs::MemoryStore;
use tidegate_runtime::graph::{EdgeId, EdgeSpec, JobGraph, Node, Pipe, Routing, SinkNode, SourceNode};
use tidegate_runtime::{Job, JobConfig, JobControl};

const ROWS: usize = 8192;
const BATCHES: u64 = 2000;

/// Hands over the same batch again and again.
#[derive(Clone)]
struct Same {
    rows: RecordBatch,
    left: u64,
}

impl InlineSource for Same {
    fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
        Ok(SourcePlan::new(self.rows.schema()))
    }

    fn discover(&self, _: Option<&[u8]>) -> Result<Discovered> {
        let split = Split { id: SplitId::new("s"), details: Vec::new(), position: Some(Position::number(0)) };
        Ok(Discovered { added: vec![split], gone: Vec::new(), cursor: None, complete: true })
    }

    fn open(&self, _: SourceCtx) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(self.clone()))
    }
}

impl SourceReader for Same {
    fn assign(&mut self, _: Vec<Split>) -> Result<()> {
        Ok(())
    }

    fn poll(&mut self, _: PollRequest) -> Result<Polled> {
        let mut polled = Polled::default();
        let split = SplitId::new("s");
        if self.left == 0 {
            polled.states.push((split, SplitState::Finished));
            return Ok(polled);
        }
        self.left -= 1;
        polled.chunks.push(Chunk::new(split, self.rows.clone(), Position::number(self.left)));
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

fn graph(rows: &RecordBatch) -> JobGraph {
    let source = Arc::new(Same { rows: rows.clone(), left: BATCHES });
    let plan = source.plan(&SourceRequest::all()).unwrap();
    let sink: Arc<dyn OutputSink> = Arc::new(Nowhere);
    let schema = rows.schema();
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
    JobGraph {
        nodes: vec![
            Node::source("in", SourceNode::new("in", source, SourceRequest::all(), plan)).with_main(Pipe::to_edge(EdgeId(0))),
            Node::sink("out", sink),
        ],
        edges: vec![EdgeSpec { id: EdgeId(0), from: "in".into(), to: "out".into(), input: 0, schema, routing: Routing::Forward }],
    }
}

fn job(c: &mut Criterion) {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
    let columns = (0..7).map(|at| (format!("c{at}"), Arc::clone(&column)));
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let mut group = c.benchmark_group("job");
    group.sample_size(10).throughput(Throughput::Elements(BATCHES));
    group.bench_function("source, edge, sink: batches", |b| {
        b.iter(|| {
            let config = JobConfig::new("bench", RunId::new("bench"), "bench");
            Job::prepare(graph(&rows), config, Arc::new(MemoryStore::new())).unwrap().run(&JobControl::new()).unwrap()
        });
    });
    group.finish();
}

criterion_group!(benches, job);
criterion_main!(benches);

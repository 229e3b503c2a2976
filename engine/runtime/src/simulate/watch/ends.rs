//! Sources and sinks that tell what reaches them. They hand everything on.

use super::{Event, Watch};
use crate::graph::{JobGraph, NodeKind};
use arrow::array::{BinaryArray, RecordBatch};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    AnySink, CommitOutcome, CommitToken, Committer, Discovered, Epoch, Generation, InlineSource, OutputSink, PollRequest, Polled, Position,
    PreCommit, Result, SinkCtx, SinkInput, SinkPlan, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split, SplitId, TransactionalSink,
    Written,
};

/// Puts the watch before every source and sink of a job.
pub(in crate::simulate) fn watch_ends(graph: &mut JobGraph, watch: &Watch) {
    for node in &mut graph.nodes {
        let seat = Seat { node: node.id.clone(), watch: watch.clone() };
        match &mut node.kind {
            NodeKind::Source(source) => {
                if source.source.remembers_splits() {
                    watch.remembers(&node.id);
                }
                source.source = Arc::new(WatchedSource { inner: Arc::clone(&source.source), seat });
            }
            NodeKind::Sink(sink) => sink.sink = Arc::new(WatchedSink { inner: Arc::clone(&sink.sink), seat }),
            NodeKind::Operator(_) => {}
        }
    }
}

#[derive(Debug, Clone)]
struct Seat {
    node: String,
    watch: Watch,
}

struct WatchedSource {
    inner: Arc<dyn InlineSource>,
    seat: Seat,
}

impl InlineSource for WatchedSource {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        self.inner.plan(request)
    }

    fn check(&self) -> Result<()> {
        self.inner.check()
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        self.inner.discover(cursor)
    }

    fn discover_every(&self) -> Option<Duration> {
        self.inner.discover_every()
    }

    fn remembers_splits(&self) -> bool {
        self.inner.remembers_splits()
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        Ok(Box::new(WatchedReader { inner: self.inner.open(ctx)?, seat: self.seat.clone() }))
    }
}

struct WatchedReader {
    inner: Box<dyn SourceReader>,
    seat: Seat,
}

impl SourceReader for WatchedReader {
    fn assign(&mut self, splits: Vec<Split>) -> Result<()> {
        self.inner.assign(splits)
    }

    fn poll(&mut self, request: PollRequest) -> Result<Polled> {
        self.inner.poll(request)
    }

    fn committed(&mut self, positions: &[(SplitId, Position)]) -> Result<()> {
        for (split, position) in positions {
            self.seat.watch.on(&Event::Acknowledged(&self.seat.node, split, position));
        }
        self.inner.committed(positions)
    }
}

struct WatchedSink {
    inner: Arc<dyn OutputSink>,
    seat: Seat,
}

impl OutputSink for WatchedSink {
    fn plan(&self, input: &SinkInput) -> Result<SinkPlan> {
        self.inner.plan(input)
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        let generation = ctx.run.generation;
        Ok(match self.inner.open(ctx)? {
            AnySink::AtLeastOnce(sink) => AnySink::AtLeastOnce(sink),
            AnySink::Transactional(inner) => AnySink::Transactional(Box::new(WatchedWriter { inner, seat: self.seat.clone(), generation })),
        })
    }

    fn committer(&self, ctx: SinkCtx) -> Result<Box<dyn Committer>> {
        let generation = ctx.run.generation;
        Ok(Box::new(WatchedCommitter { inner: self.inner.committer(ctx)?, seat: self.seat.clone(), generation }))
    }

    fn config(&self) -> serde_json::Value {
        self.inner.config()
    }
}

struct WatchedWriter {
    inner: Box<dyn TransactionalSink>,
    seat: Seat,
    generation: Generation,
}

impl TransactionalSink for WatchedWriter {
    fn write(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<Written> {
        self.inner.write(rows, keys)
    }

    fn pre_commit(&mut self, epoch: Epoch) -> Result<PreCommit> {
        let prepared = self.inner.pre_commit(epoch)?;
        if let PreCommit::Token(token) = &prepared {
            self.seat.watch.on(&Event::Prepared(&self.seat.node, self.generation, token));
        }
        Ok(prepared)
    }
}

struct WatchedCommitter {
    inner: Box<dyn Committer>,
    seat: Seat,
    generation: Generation,
}

impl Committer for WatchedCommitter {
    fn commit(&mut self, epoch: Epoch, tokens: &[CommitToken]) -> Result<Vec<CommitOutcome>> {
        self.seat.watch.on(&Event::Committing(&self.seat.node, tokens));
        let outcomes = self.inner.commit(epoch, tokens)?;
        let visible = |outcome: &CommitOutcome| matches!(outcome, CommitOutcome::Done | CommitOutcome::AlreadyDone);
        let done: Vec<CommitToken> =
            tokens.iter().zip(&outcomes).filter(|(_, outcome)| visible(outcome)).map(|(token, _)| token.clone()).collect();
        self.seat.watch.on(&Event::Committed(&self.seat.node, &done));
        Ok(outcomes)
    }

    fn abort(&mut self, epoch: Epoch, tokens: &[CommitToken]) -> Result<()> {
        self.inner.abort(epoch, tokens)
    }

    fn recover(&mut self, keep: &[CommitToken]) -> Result<()> {
        self.seat.watch.on(&Event::Undoing(&self.seat.node, self.generation, keep));
        self.inner.recover(keep)
    }
}

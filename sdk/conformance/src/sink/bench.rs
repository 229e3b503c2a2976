//! What the scripts are written in.

use super::SinkWorld;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use tidegate_api::testkit::sorted_rows;
use tidegate_api::{
    AnySink, CommitOutcome, CommitToken, Committer, Epoch, Generation, PreCommit, RunId, RunIdentity, SinkCtx, TransactionalSink,
};

/// A maker of worlds, and the rows that go into them.
pub(super) struct Bench<'a> {
    script: &'static str,
    schema: SchemaRef,
    rows: &'a [RecordBatch],
    world: &'a dyn Fn() -> SinkWorld,
}

impl<'a> Bench<'a> {
    pub(super) fn new(script: &'static str, schema: SchemaRef, rows: &'a [RecordBatch], world: &'a dyn Fn() -> SinkWorld) -> Self {
        Bench { script, schema, rows, world }
    }

    /// A new, empty world.
    pub(super) fn world(&self) -> World<'_> {
        World { bench: self, world: (self.world)() }
    }

    /// A batch; different numbers may give the same one.
    pub(super) fn rows(&self, number: usize) -> &RecordBatch {
        &self.rows[number % self.rows.len()]
    }

    /// A batch without rows.
    pub(super) fn no_rows(&self) -> RecordBatch {
        self.rows(0).slice(0, 0)
    }
}

/// A world, and those who act in it.
pub(super) struct World<'a> {
    bench: &'a Bench<'a>,
    world: SinkWorld,
}

/// Who acts: run, sink, generation and task.
#[derive(Debug, Clone, Copy)]
pub(super) struct Who {
    pub(super) run: &'static str,
    pub(super) sink: &'static str,
    pub(super) generation: u64,
    pub(super) task: usize,
}

/// The run and the sink that most scripts are about.
pub(super) fn generation(generation: u64) -> Who {
    Who { run: "run", sink: "out", generation, task: 0 }
}

impl Who {
    pub(super) fn task(self, task: usize) -> Who {
        Who { task, ..self }
    }

    pub(super) fn run(self, run: &'static str) -> Who {
        Who { run, ..self }
    }

    pub(super) fn sink(self, sink: &'static str) -> Who {
        Who { sink, ..self }
    }

    fn identity(self) -> RunIdentity {
        RunIdentity::new("contract", RunId::new(self.run), Generation(self.generation), self.sink)
    }
}

impl World<'_> {
    /// Fails with the rule unless `kept` holds.
    pub(super) fn rule(&self, kept: bool, rule: &str) {
        assert!(kept, "script `{}`: {rule}", self.bench.script);
    }

    /// Another instance of a sink's writer.
    pub(super) fn writer(&self, who: Who) -> Writer {
        let ctx = SinkCtx::new(who.identity(), Arc::clone(&self.bench.schema)).with_task(who.task, 3).with_exactly_once(true);
        match (self.world.sink)().open(ctx) {
            Ok(AnySink::Transactional(writer)) => Writer { writer, script: self.bench.script },
            Ok(AnySink::AtLeastOnce(_)) => panic!("script `{}`: the sink has two phases", self.bench.script),
            Err(error) => panic!("script `{}`: the sink opens: {error}", self.bench.script),
        }
    }

    /// Another instance of a sink's committer.
    pub(super) fn committer(&self, who: Who) -> TestCommitter {
        let ctx = SinkCtx::for_commit(who.identity());
        match (self.world.sink)().committer(ctx) {
            Ok(committer) => TestCommitter { committer, script: self.bench.script },
            Err(error) => panic!("script `{}`: the committer opens: {error}", self.bench.script),
        }
    }

    /// Prepares an epoch of these rows, by a writer that dies right after.
    pub(super) fn prepared(&self, who: Who, epoch: u64, rows: &RecordBatch) -> CommitToken {
        let mut writer = self.writer(who);
        writer.write(rows);
        writer.token(epoch)
    }

    /// What a reader sees is exactly this.
    pub(super) fn sees(&self, expected: &[&RecordBatch], rule: &str) {
        let expected: Vec<RecordBatch> = expected.iter().map(|rows| (*rows).clone()).collect();
        let (found, expected) = (sorted_rows(&(self.world.visible)()), sorted_rows(&expected));
        assert_eq!(found, expected, "script `{}`: {rule}", self.bench.script);
    }

    /// So much is neither committed nor undone.
    pub(super) fn hides(&self, expected: usize, rule: &str) {
        let found = (self.world.hidden)();
        assert_eq!(found == 0, expected == 0, "script `{}`: {rule}: {found} things are hidden", self.bench.script);
    }
}

/// A writer whose failures break a rule.
pub(super) struct Writer {
    writer: Box<dyn TransactionalSink>,
    script: &'static str,
}

impl Writer {
    pub(super) fn write(&mut self, rows: &RecordBatch) {
        match self.writer.write(rows, None) {
            Ok(written) => assert!(written.bad.is_empty(), "script `{}`: good rows are taken", self.script),
            Err(error) => panic!("script `{}`: the sink writes: {error}", self.script),
        }
    }

    pub(super) fn pre_commit(&mut self, epoch: u64) -> Option<CommitToken> {
        match self.writer.pre_commit(Epoch(epoch)) {
            Ok(PreCommit::Token(token)) => Some(token),
            Ok(PreCommit::Nothing) => None,
            Ok(PreCommit::Later) => panic!("script `{}`: the sink answers a barrier at once here", self.script),
            Err(error) => panic!("script `{}`: the sink prepares: {error}", self.script),
        }
    }

    pub(super) fn token(&mut self, epoch: u64) -> CommitToken {
        self.pre_commit(epoch).unwrap_or_else(|| panic!("script `{}`: an epoch with rows has a token", self.script))
    }

    /// What an old writer does that wakes late; it may fail.
    pub(super) fn late(&mut self, epoch: u64, rows: &RecordBatch) -> Option<CommitToken> {
        self.writer.write(rows, None).ok()?;
        match self.writer.pre_commit(Epoch(epoch)) {
            Ok(PreCommit::Token(token)) => Some(token),
            Ok(PreCommit::Nothing | PreCommit::Later) | Err(_) => None,
        }
    }
}

/// A committer whose failures break a rule.
pub(super) struct TestCommitter {
    committer: Box<dyn Committer>,
    script: &'static str,
}

impl TestCommitter {
    pub(super) fn commit(&mut self, epoch: u64, tokens: &[CommitToken]) -> Vec<CommitOutcome> {
        let outcomes = self.committer.commit(Epoch(epoch), tokens);
        let outcomes = outcomes.unwrap_or_else(|error| panic!("script `{}`: the sink commits epoch {epoch}: {error}", self.script));
        assert_eq!(outcomes.len(), tokens.len(), "script `{}`: one outcome per token", self.script);
        outcomes
    }

    pub(super) fn commit_one(&mut self, epoch: u64, token: &CommitToken) -> CommitOutcome {
        self.commit(epoch, std::slice::from_ref(token)).remove(0)
    }

    pub(super) fn abort(&mut self, epoch: u64, tokens: &[CommitToken]) {
        let aborted = self.committer.abort(Epoch(epoch), tokens);
        aborted.unwrap_or_else(|error| panic!("script `{}`: the sink gives epoch {epoch} up: {error}", self.script));
    }

    pub(super) fn recover(&mut self, keep: &[CommitToken]) {
        let recovered = self.committer.recover(keep);
        recovered.unwrap_or_else(|error| panic!("script `{}`: the sink recovers: {error}", self.script));
    }
}

/// Whether an outcome is of rows that are visible.
pub(super) fn is_visible(outcome: &CommitOutcome) -> bool {
    match outcome {
        CommitOutcome::Done | CommitOutcome::AlreadyDone => true,
        CommitOutcome::Lost(_) => false,
    }
}

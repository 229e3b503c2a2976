//! What the scripts are written in.

use super::SinkWorld;
use crate::rules::Rule;
use crate::source::patiently;
use crate::verdict::{Conviction, Record, Verdict, cut};
use arrow::array::{BinaryArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use tidegate_api::testkit::sorted_rows;
use tidegate_api::{
    AnySink, ChangeMode, CommitOutcome, CommitToken, Committer, Epoch, Flushed, Generation, Guarantee, OutputSink, PreCommit, Result,
    RunId, RunIdentity, SinkCtx, SinkInput, TransactionalSink,
};

/// A maker of worlds, and the rows that go into them.
pub(super) struct Bench<'a> {
    record: &'a Record,
    schema: SchemaRef,
    rows: &'a [RecordBatch],
    world: &'a dyn Fn() -> Result<SinkWorld>,
    part: Part,
}

/// Which of equal parts of a suite is run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) number: usize,
    pub(super) of: usize,
}

impl Part {
    pub(super) const ALL: Part = Part { number: 0, of: 1 };

    /// Whether this piece of the suite, or of one of its scripts, belongs to it.
    pub(super) fn has(self, piece: usize) -> bool {
        piece % self.of == self.number
    }
}

impl<'a> Bench<'a> {
    pub(super) fn new(
        record: &'a Record,
        schema: SchemaRef,
        rows: &'a [RecordBatch],
        world: &'a dyn Fn() -> Result<SinkWorld>,
        part: Part,
    ) -> Self {
        Bench { record, schema, rows, world, part }
    }

    /// The part of the suite that is run, for scripts which themselves have many pieces.
    pub(super) fn part(&self) -> Part {
        self.part
    }

    /// A new, empty world.
    pub(super) fn world(&self) -> Verdict<World<'_>> {
        let world =
            (self.world)().map_err(|error| self.record.convict(Rule::CallsSucceed, format!("a new world cannot be made: {error}")))?;
        Ok(World { bench: self, world })
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

impl<'a> World<'a> {
    /// Convicts of the rule unless `kept` holds.
    pub(super) fn rule(&self, rule: Rule, kept: bool, detail: &str) -> Verdict {
        self.bench.record.hold(rule, kept, || format!("this does not hold: {detail}"))
    }

    /// Another instance of the sink.
    fn sink(&self) -> Verdict<Arc<dyn OutputSink>> {
        (self.world.sink)().map_err(|error| self.bench.record.convict(Rule::CallsSucceed, format!("another instance: {error}")))
    }

    /// Another instance of a sink's writer.
    pub(super) fn writer(&self, who: Who) -> Verdict<Writer<'a>> {
        let ctx = SinkCtx::new(who.identity(), Arc::clone(&self.bench.schema)).with_task(who.task, 3).with_exactly_once(true);
        let failed = |what: String| self.bench.record.convict(Rule::CallsSucceed, what);
        match self.sink()?.open(ctx) {
            Ok(AnySink::Transactional(writer)) => Ok(Writer { writer, record: self.bench.record }),
            Ok(AnySink::AtLeastOnce(_)) => Err(failed("the sink has no two phases".to_string())),
            Err(error) => Err(failed(format!("`open` failed: {error}"))),
        }
    }

    /// Another instance of a sink's committer.
    pub(super) fn committer(&self, who: Who) -> Verdict<TestCommitter> {
        let ctx = SinkCtx::for_commit(who.identity());
        let committer = self.sink()?.committer(ctx);
        let script = self.bench.record.current();
        match committer {
            Ok(committer) => Ok(TestCommitter { committer, script }),
            Err(error) => Err(self.bench.record.convict(Rule::CallsSucceed, format!("the committer does not open: {error}"))),
        }
    }

    /// Prepares an epoch of these rows, by a writer that dies right after.
    pub(super) fn prepared(&self, who: Who, epoch: u64, rows: &RecordBatch) -> Verdict<CommitToken> {
        let mut writer = self.writer(who)?;
        writer.write(rows)?;
        writer.token(epoch)
    }

    /// What a reader sees is exactly this.
    pub(super) fn sees(&self, rule: Rule, expected: &[&RecordBatch], detail: &str) -> Verdict {
        let found = (self.world.visible)();
        let found =
            found.map_err(|error| self.bench.record.convict(Rule::CallsSucceed, format!("what a reader sees cannot be read: {error}")))?;
        let expected: Vec<RecordBatch> = expected.iter().map(|rows| (*rows).clone()).collect();
        let (found, expected) = (sorted_rows(&found), sorted_rows(&expected));
        self.bench.record.hold(rule, found == expected, || {
            let other = found.iter().find(|row| count(&found, row) != count(&expected, row));
            let other = other.or_else(|| expected.iter().find(|row| count(&found, row) != count(&expected, row)));
            let other = other.map_or_else(String::new, |row| {
                format!("; `{}` is there {} times instead of {}", cut(row), count(&found, row), count(&expected, row))
            });
            format!("{detail}: a reader sees {} rows instead of {}{other}", found.len(), expected.len())
        })
    }

    /// A writer of any guarantee, whose barriers deliver.
    pub(super) fn any_writer(&self, who: Who) -> Verdict<AnyWriter<'a>> {
        let record = self.bench.record;
        let failed = |error: tidegate_api::Error| record.convict(Rule::CallsSucceed, format!("`open` failed: {error}"));
        let sink = self.sink()?;
        let plan = sink.plan(&SinkInput::new(Arc::clone(&self.bench.schema), ChangeMode::Append)).map_err(failed)?;
        let tasks = plan.max_parallelism.map_or(3, |most| most.clamp(1, 3));
        let ctx = SinkCtx::new(who.identity(), Arc::clone(&self.bench.schema));
        let ctx = ctx.with_task(who.task, tasks).with_keys(plan.wants_keys).with_exactly_once(plan.guarantee == Guarantee::ExactlyOnce);
        let writer = sink.open(ctx).map_err(failed)?;
        let committer = match &writer {
            AnySink::Transactional(_) => Some(self.committer(who)?),
            AnySink::AtLeastOnce(_) => None,
        };
        Ok(AnyWriter { writer, committer, wants_keys: plan.wants_keys, record })
    }

    /// A reader sees all of this at least once, and nothing else.
    pub(super) fn has(&self, rule: Rule, written: &[&RecordBatch], detail: &str) -> Verdict {
        self.has_at_least(rule, written, written, detail)
    }

    /// A reader sees all that was delivered at least once, and nothing but what was written.
    pub(super) fn has_at_least(&self, rule: Rule, delivered: &[&RecordBatch], written: &[&RecordBatch], detail: &str) -> Verdict {
        let found = (self.world.visible)();
        let found =
            found.map_err(|error| self.bench.record.convict(Rule::CallsSucceed, format!("what a reader sees cannot be read: {error}")))?;
        let rows = |batches: &[&RecordBatch]| sorted_rows(&batches.iter().map(|rows| (*rows).clone()).collect::<Vec<_>>());
        let (found, delivered, written) = (sorted_rows(&found), rows(delivered), rows(written));
        let missing = delivered.iter().find(|row| count(&found, row) < count(&delivered, row));
        self.bench.record.hold(rule, missing.is_none(), || {
            let row = missing.map_or("", |row| row.as_str());
            format!(
                "{detail}: a reader does not see `{}`, or not often enough; it sees {} rows, {} were delivered",
                cut(row),
                found.len(),
                delivered.len()
            )
        })?;
        let odd = found.iter().find(|row| !written.contains(row));
        self.bench.record.hold(Rule::NothingInvented, odd.is_none(), || {
            format!("{detail}: a reader sees `{}`, which was never written", cut(odd.map_or("", |row| row.as_str())))
        })
    }

    /// So much is neither committed nor undone, as far as the kit can look.
    pub(super) fn hides(&self, rule: Rule, expected: usize, detail: &str) -> Verdict {
        let Some(hidden) = &self.world.hidden else { return Ok(()) };
        let found = hidden();
        let found =
            found.map_err(|error| self.bench.record.convict(Rule::CallsSucceed, format!("what is hidden cannot be counted: {error}")))?;
        self.rule(rule, (found == 0) == (expected == 0), &format!("{detail}: {found} things are hidden"))
    }
}

fn count(rows: &[String], row: &String) -> usize {
    rows.iter().filter(|other| *other == row).count()
}

/// A writer whose failures break a rule.
pub(super) struct Writer<'a> {
    writer: Box<dyn TransactionalSink>,
    record: &'a Record,
}

impl Writer<'_> {
    pub(super) fn write(&mut self, rows: &RecordBatch) -> Verdict {
        match patiently(|| self.writer.write(rows, None)) {
            Ok(written) if written.bad.is_empty() => Ok(()),
            Ok(written) => Err(self.record.convict(Rule::CallsSucceed, format!("{} good rows are refused", written.bad.len()))),
            Err(error) => Err(self.record.convict(Rule::CallsSucceed, format!("`write` failed: {error}"))),
        }
    }

    pub(super) fn pre_commit(&mut self, epoch: u64) -> Verdict<Option<CommitToken>> {
        match patiently(|| self.writer.pre_commit(Epoch(epoch))) {
            Ok(PreCommit::Token(token)) => Ok(Some(token)),
            Ok(PreCommit::Nothing) => Ok(None),
            Ok(PreCommit::Later) => Err(self.record.convict(Rule::CallsSucceed, "a barrier is not answered at once, which the kit needs")),
            Err(error) => Err(self.record.convict(Rule::CallsSucceed, format!("`prepare` of epoch {epoch} failed: {error}"))),
        }
    }

    pub(super) fn token(&mut self, epoch: u64) -> Verdict<CommitToken> {
        let token = self.pre_commit(epoch)?;
        token.ok_or_else(|| self.record.convict(Rule::CommitShows, format!("epoch {epoch} has rows and no token")))
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

/// A writer of any guarantee.
pub(super) struct AnyWriter<'a> {
    writer: AnySink,
    /// What shows an epoch, if it has two phases.
    committer: Option<TestCommitter>,
    wants_keys: bool,
    record: &'a Record,
}

impl AnyWriter<'_> {
    /// Writes a batch. Its number makes its rows' keys: the same number again gives the same keys.
    pub(super) fn write(&mut self, number: usize, rows: &RecordBatch) -> Verdict {
        let keys: Vec<Vec<u8>> = (0..rows.num_rows()).map(|row| format!("{number}/{row}").into_bytes()).collect();
        let keys = BinaryArray::from_iter_values(keys);
        let keys = self.wants_keys.then_some(&keys);
        let written = match &mut self.writer {
            AnySink::AtLeastOnce(writer) => patiently(|| writer.write(rows, keys)),
            AnySink::Transactional(writer) => patiently(|| writer.write(rows, keys)),
        };
        let written = written.map_err(|error| self.record.convict(Rule::CallsSucceed, format!("`write` failed: {error}")))?;
        let refused = written.bad.len();
        self.record.hold(Rule::CallsSucceed, refused == 0, || format!("{refused} good rows are refused"))
    }

    /// Everything is delivered behind this.
    pub(super) fn barrier(&mut self, epoch: u64, rule: Rule) -> Verdict {
        let failed =
            |error: tidegate_api::Error| self.record.convict(Rule::CallsSucceed, format!("the barrier of epoch {epoch} failed: {error}"));
        let later = || self.record.convict(Rule::CallsSucceed, "a barrier is not answered at once, which the kit needs");
        match &mut self.writer {
            AnySink::AtLeastOnce(writer) => match patiently(|| writer.flush(Epoch(epoch))).map_err(failed)? {
                Flushed::Done => Ok(()),
                Flushed::Later => Err(later()),
            },
            AnySink::Transactional(writer) => match patiently(|| writer.pre_commit(Epoch(epoch))).map_err(failed)? {
                PreCommit::Nothing => Ok(()),
                PreCommit::Later => Err(later()),
                PreCommit::Token(token) => {
                    let Some(committer) = &mut self.committer else { return Ok(()) };
                    let outcome = committer.commit_one(epoch, &token)?;
                    self.record.hold(rule, is_visible(&outcome), || format!("the commit of epoch {epoch} says {outcome:?}"))
                }
            },
        }
    }
}

/// A committer whose failures break a rule. Goes to other threads, so it keeps no record.
pub(super) struct TestCommitter {
    committer: Box<dyn Committer>,
    script: &'static str,
}

impl TestCommitter {
    fn convict(&self, rule: Rule, detail: String) -> Conviction {
        Conviction { script: self.script, rule, detail }
    }

    pub(super) fn commit(&mut self, epoch: u64, tokens: &[CommitToken]) -> Verdict<Vec<CommitOutcome>> {
        let outcomes = patiently(|| self.committer.commit(Epoch(epoch), tokens));
        let outcomes = outcomes.map_err(|error| self.convict(Rule::TokenAnywhere, format!("`commit` of epoch {epoch} failed: {error}")))?;
        if outcomes.len() != tokens.len() {
            return Err(self.convict(Rule::OutcomesMatch, format!("{} outcomes for {} tokens", outcomes.len(), tokens.len())));
        }
        Ok(outcomes)
    }

    /// The outcome of one token.
    pub(super) fn commit_one(&mut self, epoch: u64, token: &CommitToken) -> Verdict<CommitOutcome> {
        let mut outcomes = self.commit(epoch, std::slice::from_ref(token))?;
        outcomes.pop().ok_or_else(|| self.convict(Rule::OutcomesMatch, "no outcome for a token".to_string()))
    }

    pub(super) fn abort(&mut self, epoch: u64, tokens: &[CommitToken]) -> Verdict {
        let aborted = patiently(|| self.committer.abort(Epoch(epoch), tokens));
        aborted.map_err(|error| self.convict(Rule::AbortUndoes, format!("`abort` of epoch {epoch} failed: {error}")))
    }

    pub(super) fn recover(&mut self, keep: &[CommitToken]) -> Verdict {
        let recovered = patiently(|| self.committer.recover(keep));
        recovered.map_err(|error| self.convict(Rule::RecoverUndoes, format!("`recover` failed: {error}")))
    }
}

/// Whether an outcome is of rows that are visible.
pub(super) fn is_visible(outcome: &CommitOutcome) -> bool {
    match outcome {
        CommitOutcome::Done | CommitOutcome::AlreadyDone => true,
        CommitOutcome::Lost(_) => false,
    }
}

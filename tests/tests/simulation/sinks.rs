//! Sinks that refuse now and then, answer long after they were asked, or twice, and lose the answer to a commit.

use arrow::array::{BinaryArray, RecordBatch};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tidegate_api::{
    AnySink, BarrierAcker, CommitOutcome, CommitToken, Committer, Epoch, Error, Flushed, Guarantee, OutputSink, PreCommit, Result, Sink,
    SinkCtx, SinkInput, SinkPlan, TransactionalSink, Written,
};
use tidegate_runtime::simulate::SimRandom;

/// Answers that the outside owes to sink tasks, the dead ones included.
#[derive(Clone, Default)]
pub struct Owed(Arc<Mutex<Vec<Answer>>>);

struct Answer {
    acker: BarrierAcker,
    epoch: Epoch,
    token: Option<CommitToken>,
}

impl Owed {
    fn add(&self, acker: &BarrierAcker, epoch: Epoch, token: Option<CommitToken>) {
        self.0.lock().unwrap().push(Answer { acker: acker.clone(), epoch, token });
    }

    /// Gives them, some of them twice.
    pub fn answer(&self, random: &mut SimRandom) {
        for Answer { acker, epoch, token } in self.0.lock().unwrap().drain(..) {
            acker.acknowledge(epoch, Ok(token.clone()));
            if random.one_in(2) {
                acker.acknowledge(epoch, Ok(token));
            }
        }
    }
}

/// An at-least-once sink.
#[derive(Clone, Default)]
pub struct Letters {
    delivered: Arc<Mutex<Vec<RecordBatch>>>,
    owed: Owed,
    seed: u64,
}

impl Letters {
    pub fn new(owed: &Owed, seed: u64) -> Self {
        Letters { delivered: Arc::default(), owed: owed.clone(), seed }
    }

    /// What has arrived.
    pub fn delivered(&self) -> Vec<RecordBatch> {
        self.delivered.lock().unwrap().clone()
    }
}

impl OutputSink for Letters {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Ok(SinkPlan::new(Guarantee::AtLeastOnce))
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        let random = SimRandom::new(self.seed ^ ctx.run.generation.0 ^ (ctx.task as u64) << 32);
        Ok(AnySink::AtLeastOnce(Box::new(LetterWriter { letters: self.clone(), acker: ctx.acker, taken: Vec::new(), random })))
    }
}

struct LetterWriter {
    letters: Letters,
    acker: BarrierAcker,
    taken: Vec<RecordBatch>,
    random: SimRandom,
}

impl Sink for LetterWriter {
    fn write(&mut self, rows: &RecordBatch, _: Option<&BinaryArray>) -> Result<Written> {
        if self.random.one_in(20) {
            return Err(Error::retryable("the box is full", Duration::from_millis(1)));
        }
        self.taken.push(rows.clone());
        Ok(Written::default())
    }

    fn flush(&mut self, epoch: Epoch) -> Result<Flushed> {
        self.letters.delivered.lock().unwrap().append(&mut self.taken);
        if self.random.one_in(2) {
            return Ok(Flushed::Done);
        }
        self.letters.owed.add(&self.acker, epoch, None);
        Ok(Flushed::Later)
    }
}

/// Makes a two-phase sink slow and unreliable.
pub struct Tardy {
    inner: Arc<dyn OutputSink>,
    owed: Owed,
    seed: u64,
}

impl Tardy {
    pub fn new(inner: Arc<dyn OutputSink>, owed: &Owed, seed: u64) -> Self {
        Tardy { inner, owed: owed.clone(), seed }
    }
}

impl OutputSink for Tardy {
    fn plan(&self, input: &SinkInput) -> Result<SinkPlan> {
        self.inner.plan(input)
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        let (acker, random) = (ctx.acker.clone(), SimRandom::new(self.seed ^ ctx.task as u64));
        Ok(match self.inner.open(ctx)? {
            AnySink::Transactional(inner) => {
                AnySink::Transactional(Box::new(TardyWriter { inner, owed: self.owed.clone(), acker, random }))
            }
            other => other,
        })
    }

    fn committer(&self, ctx: SinkCtx) -> Result<Box<dyn Committer>> {
        Ok(Box::new(TardyCommitter { inner: self.inner.committer(ctx)?, random: SimRandom::new(self.seed ^ 0xc0) }))
    }

    fn config(&self) -> serde_json::Value {
        self.inner.config()
    }
}

struct TardyWriter {
    inner: Box<dyn TransactionalSink>,
    owed: Owed,
    acker: BarrierAcker,
    random: SimRandom,
}

impl TransactionalSink for TardyWriter {
    fn write(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<Written> {
        if self.random.one_in(20) {
            return Err(Error::retryable("not now", Duration::from_millis(1)));
        }
        self.inner.write(rows, keys)
    }

    fn pre_commit(&mut self, epoch: Epoch) -> Result<PreCommit> {
        if self.random.one_in(20) {
            return Err(Error::retryable("not now", Duration::from_millis(1)));
        }
        match self.inner.pre_commit(epoch)? {
            PreCommit::Token(token) if self.random.one_in(2) => {
                self.owed.add(&self.acker, epoch, Some(token));
                Ok(PreCommit::Later)
            }
            PreCommit::Nothing if self.random.one_in(4) => {
                self.owed.add(&self.acker, epoch, None);
                Ok(PreCommit::Later)
            }
            at_once => Ok(at_once),
        }
    }
}

struct TardyCommitter {
    inner: Box<dyn Committer>,
    random: SimRandom,
}

impl TardyCommitter {
    /// Fails before the effect, or after it.
    fn ambiguous<T>(&mut self, effect: impl FnOnce(&mut dyn Committer) -> Result<T>) -> Result<T> {
        match self.random.below(16) {
            0 => Err(Error::external("injected: the sink was not reached")),
            1 => {
                effect(self.inner.as_mut())?;
                Err(Error::external("injected: the sink's answer was lost"))
            }
            _ => effect(self.inner.as_mut()),
        }
    }
}

impl Committer for TardyCommitter {
    fn commit(&mut self, epoch: Epoch, tokens: &[CommitToken]) -> Result<Vec<CommitOutcome>> {
        // Some of the tokens may be through when a call fails.
        if tokens.len() > 1 && self.random.one_in(8) {
            self.inner.commit(epoch, &tokens[..1])?;
            return Err(Error::external("injected: the sink was lost between two tokens"));
        }
        self.ambiguous(|inner| inner.commit(epoch, tokens))
    }

    fn abort(&mut self, epoch: Epoch, tokens: &[CommitToken]) -> Result<()> {
        self.inner.abort(epoch, tokens)
    }

    fn recover(&mut self, keep: &[CommitToken]) -> Result<()> {
        self.ambiguous(|inner| inner.recover(keep))
    }
}

//! The contract of sinks: write, report refusals, and for exactly-once pre-commit at the barrier and commit after the manifest.

use crate::{Clock, Counter, Epoch, Error, OutsideMeters, Result, RunIdentity, Staging, SystemClock, Wake};
use arrow::array::{BinaryArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How the rows of an output relate to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeMode {
    /// Every row is final.
    Append,
    /// A row replaces the earlier one with equal values in these columns; a hidden `_op` column says upsert or delete.
    Upsert {
        /// The key columns.
        keys: Vec<String>,
    },
}

/// What a sink promises about an epoch's rows. The order is that of strength.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guarantee {
    /// Rows may be lost, never repeated.
    AtMostOnce,
    /// After a crash some rows come again.
    AtLeastOnce,
    /// Rows come again under the same key and overwrite themselves.
    Idempotent,
    /// Rows become visible once, with their epoch.
    ExactlyOnce,
}

/// How rows must be dealt out among a sink's tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Distribution {
    /// Any task may write any row.
    #[default]
    Any,
    /// Rows of equal key go to one task. Upsert outputs always are.
    ByKey,
}

/// What reaches a sink.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SinkInput {
    /// The visible columns.
    pub schema: SchemaRef,
    /// Append or upsert.
    pub mode: ChangeMode,
}

impl SinkInput {
    /// Rows of this schema, in this mode.
    pub fn new(schema: SchemaRef, mode: ChangeMode) -> Self {
        SinkInput { schema, mode }
    }
}

/// What a sink answers to its input.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SinkPlan {
    /// What it promises for this input.
    pub guarantee: Guarantee,
    /// Whether it wants each row's deterministic key.
    pub wants_keys: bool,
    /// How rows must be dealt out.
    pub distribution: Distribution,
    /// The most tasks that can write; `None` for any number.
    pub max_parallelism: Option<usize>,
}

impl SinkPlan {
    /// A sink of this guarantee that wants no keys and runs in any number of tasks.
    pub fn new(guarantee: Guarantee) -> Self {
        SinkPlan { guarantee, wants_keys: false, distribution: Distribution::Any, max_parallelism: None }
    }

    /// Asks for keys.
    #[must_use]
    pub fn with_keys(mut self, wants_keys: bool) -> Self {
        self.wants_keys = wants_keys;
        self
    }

    /// Asks for a distribution.
    #[must_use]
    pub fn with_distribution(mut self, distribution: Distribution) -> Self {
        self.distribution = distribution;
        self
    }

    /// Limits the tasks.
    #[must_use]
    pub fn with_max_parallelism(mut self, max: usize) -> Self {
        self.max_parallelism = Some(max);
        self
    }
}

/// The writing half of a dataset. Shared; does no I/O before one of its methods is called.
pub trait OutputSink: Send + Sync {
    /// Answers what the sink promises for this input. Called while planning, by `validate` too; pure.
    ///
    /// # Errors
    /// `Config` if it cannot write such rows, naming the column or mode.
    fn plan(&self, input: &SinkInput) -> Result<SinkPlan>;

    /// Opens the writer of one sink task. Called for every task before any task runs; an error fails the start.
    ///
    /// # Errors
    /// Any; the start names the sink.
    fn open(&self, ctx: SinkCtx) -> Result<AnySink>;

    /// Opens what finishes or undoes epochs, without any writer, perhaps on another machine. Called for transactional sinks only: by the
    /// coordinator of a run, and by recovery with the configuration that [`OutputSink::config`] gave when the tokens were made.
    ///
    /// # Errors
    /// Any; the start names the sink.
    fn committer(&self, ctx: SinkCtx) -> Result<Box<dyn Committer>> {
        let _ = ctx;
        Err(Error::internal("this sink makes no commit tokens and has no committer"))
    }

    /// What a manifest stores so that tokens can be committed later: the options, with secrets by reference only.
    fn config(&self) -> serde_json::Value {
        serde_json::Value::Null
    }
}

/// What a writer or committer is built with. Made by the engine; a test makes one with [`SinkCtx::new`] and setters.
#[derive(Clone)]
#[non_exhaustive]
pub struct SinkCtx {
    /// This task, from 0.
    pub task: usize,
    /// How many tasks write to the sink.
    pub tasks: usize,
    /// Which of the output's sinks this is, from 0.
    pub index: usize,
    /// The visible columns that will be written.
    pub schema: SchemaRef,
    /// Append or upsert.
    pub mode: ChangeMode,
    /// Counts rows written.
    pub emitted: Counter,
    /// What the writer tells of its outside, for those who watch.
    pub meters: OutsideMeters,
    /// Whether this output runs exactly-once.
    pub exactly_once: bool,
    /// The epoch a restored run continues after; `None` for a fresh one.
    pub restored: Option<Epoch>,
    /// For sinks that answer [`Flushed::Later`] or [`PreCommit::Later`].
    pub acker: BarrierAcker,
    /// Durable scratch space.
    pub staging: Arc<dyn Staging>,
    /// Whether `write` gets keys.
    pub wants_keys: bool,
    /// Who is running.
    pub run: RunIdentity,
    /// The only clock a writer may use.
    pub clock: Arc<dyn Clock>,
}

impl SinkCtx {
    /// The context of the only task of a sink, with the machine's clock and no staging.
    pub fn new(run: RunIdentity, schema: SchemaRef) -> Self {
        SinkCtx {
            task: 0,
            tasks: 1,
            index: 0,
            schema,
            mode: ChangeMode::Append,
            emitted: Counter::new(),
            meters: OutsideMeters::default(),
            exactly_once: false,
            restored: None,
            acker: BarrierAcker::new(Wake::noop()),
            staging: Arc::new(NoStaging),
            wants_keys: false,
            run,
            clock: Arc::new(SystemClock),
        }
    }

    /// A context for a committer, which has no rows.
    pub fn for_commit(run: RunIdentity) -> Self {
        SinkCtx::new(run, Arc::new(Schema::empty()))
    }

    /// Sets which task of how many this is.
    #[must_use]
    pub fn with_task(mut self, task: usize, tasks: usize) -> Self {
        self.task = task;
        self.tasks = tasks;
        self
    }

    /// Sets which of the output's sinks this is.
    #[must_use]
    pub fn with_index(mut self, index: usize) -> Self {
        self.index = index;
        self
    }

    /// Sets append or upsert.
    #[must_use]
    pub fn with_mode(mut self, mode: ChangeMode) -> Self {
        self.mode = mode;
        self
    }

    /// Sets the counter of rows written.
    #[must_use]
    pub fn with_emitted(mut self, counter: Counter) -> Self {
        self.emitted = counter;
        self
    }

    /// Sets the measures.
    #[must_use]
    pub fn with_meters(mut self, meters: OutsideMeters) -> Self {
        self.meters = meters;
        self
    }

    /// Says whether the output runs exactly-once.
    #[must_use]
    pub fn with_exactly_once(mut self, exactly_once: bool) -> Self {
        self.exactly_once = exactly_once;
        self
    }

    /// Sets the epoch a restored run continues after.
    #[must_use]
    pub fn with_restored(mut self, epoch: Option<Epoch>) -> Self {
        self.restored = epoch;
        self
    }

    /// Sets the acker.
    #[must_use]
    pub fn with_acker(mut self, acker: BarrierAcker) -> Self {
        self.acker = acker;
        self
    }

    /// Sets the scratch space.
    #[must_use]
    pub fn with_staging(mut self, staging: Arc<dyn Staging>) -> Self {
        self.staging = staging;
        self
    }

    /// Says whether `write` gets keys.
    #[must_use]
    pub fn with_keys(mut self, wants_keys: bool) -> Self {
        self.wants_keys = wants_keys;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }
}

#[derive(Debug)]
struct NoStaging;

impl Staging for NoStaging {
    fn put(&self, key: &str, _: &[u8]) -> Result<()> {
        Err(Error::internal(format!("no staging store to write `{key}` to")))
    }

    fn get(&self, _: &str) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn delete(&self, _: &str) -> Result<()> {
        Ok(())
    }

    fn list(&self, _: &str) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

/// A writer, with or without two phases.
pub enum AnySink {
    /// Flushed at the barrier; after a crash the epoch's rows come again.
    AtLeastOnce(Box<dyn Sink>),
    /// Pre-committed at the barrier, committed after the manifest.
    Transactional(Box<dyn TransactionalSink>),
}

/// A row that a sink refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowError {
    /// Its index in the batch written.
    pub row: usize,
    /// The column at fault, if one is.
    pub column: Option<String>,
    /// Why.
    pub message: String,
}

/// The answer to a write: the rows that were refused. All others are taken, though not yet durable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Written {
    /// Refused rows, in order of their index.
    pub bad: Vec<RowError>,
}

/// Whether a flush is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flushed {
    /// Every row written so far is delivered.
    Done,
    /// The sink will answer through [`SinkCtx::acker`]; the epoch waits, the task does not.
    Later,
}

/// A writer without two phases. Used from one thread.
pub trait Sink: Send {
    /// Takes rows. A buffer that was not delivered is kept until it is: a failing call loses nothing it had taken.
    ///
    /// # Errors
    /// `External` with `Retry::After` when nothing of this batch was taken; any other fails the run back to the manifest.
    fn write(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<Written>;

    /// Delivers everything taken. Called at every barrier, before it is acknowledged, in empty epochs too.
    ///
    /// # Errors
    /// As `write`; a later call delivers the same rows.
    fn flush(&mut self, epoch: Epoch) -> Result<Flushed>;
}

/// Enough for any instance, on any machine, to finish or undo what one task wrote in one epoch; never a handle.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommitToken(pub Vec<u8>);

impl fmt::Debug for CommitToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// The answer to a pre-commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PreCommit {
    /// Nothing was written in this epoch.
    Nothing,
    /// Durable, invisible, and committed by this token.
    Token(CommitToken),
    /// The sink will answer through [`SinkCtx::acker`]; the epoch waits, the task does not.
    Later,
}

/// A writer with two phases. Used from one thread; its [`Committer`] works without it.
pub trait TransactionalSink: Send {
    /// Takes rows of the current epoch. Nothing of them is visible to anybody before the commit.
    ///
    /// # Errors
    /// As [`Sink::write`].
    fn write(&mut self, rows: &RecordBatch, keys: Option<&BinaryArray>) -> Result<Written>;

    /// Makes the epoch's rows durable and invisible. Called at every barrier; rows written afterwards belong to the next epoch,
    /// which may begin before this one is committed.
    ///
    /// # Errors
    /// Any fails the run back to the manifest.
    fn pre_commit(&mut self, epoch: Epoch) -> Result<PreCommit>;
}

/// What a commit did for one token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// Visible now.
    Done,
    /// Was visible before.
    AlreadyDone,
    /// The rows are gone. Data loss: the run stops and says so, with this reason.
    Lost(String),
}

/// Finishes or undoes epochs. Every call may come twice, at once, or from another process.
pub trait Committer: Send {
    /// Makes the epoch's rows visible, all tasks' tokens at once, in the order of `tokens`. One outcome per token.
    ///
    /// # Errors
    /// `External` when it may be tried again.
    fn commit(&mut self, epoch: Epoch, tokens: &[CommitToken]) -> Result<Vec<CommitOutcome>>;

    /// Undoes an epoch that no manifest names.
    ///
    /// # Errors
    /// `External` when it may be tried again.
    fn abort(&mut self, epoch: Epoch, tokens: &[CommitToken]) -> Result<()>;

    /// Undoes what this operator prepared under generations below the context's and that is not in `keep`; nothing else, not even
    /// another run's or sink's in the same place. Called once at every start, after pending tokens were committed.
    ///
    /// # Errors
    /// `External` when it may be tried again.
    fn recover(&mut self, keep: &[CommitToken]) -> Result<()>;
}

/// A sink's late answer to a barrier.
#[derive(Debug)]
pub struct Acknowledged {
    /// The epoch it answers for.
    pub epoch: Epoch,
    /// The token (none for sinks without two phases or without rows), or why it failed.
    pub answer: Result<Option<CommitToken>>,
}

/// Lets a sink acknowledge its barrier after its method has returned, from any thread.
#[derive(Clone)]
pub struct BarrierAcker {
    answers: Arc<Mutex<Vec<Acknowledged>>>,
    wake: Wake,
}

impl BarrierAcker {
    /// An acker whose task is woken by `wake`.
    pub fn new(wake: Wake) -> Self {
        BarrierAcker { answers: Arc::default(), wake }
    }

    /// Answers for `epoch`. The first answer counts.
    pub fn acknowledge(&self, epoch: Epoch, answer: Result<Option<CommitToken>>) {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).push(Acknowledged { epoch, answer });
        self.wake.wake();
    }

    /// What was answered since the last call; for the sink task.
    pub fn take(&self) -> Vec<Acknowledged> {
        std::mem::take(&mut self.answers.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! The contract of sources: splits, opaque positions, and chunks that say where to go on.

use crate::{BadRow, ChangeMode, Clock, Counter, EventTime, OutsideMeters, Result, RunIdentity, SplitId, SystemClock, Wake};
use arrow::array::{RecordBatch, UInt64Array};
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Where to read next in a split. Opaque to the engine, at most 1 MiB, kept in the manifest; must be readable by the
/// next version of the source. A position never points past rows that were not yet handed over.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Position(pub Vec<u8>);

impl Position {
    /// A position that is a decimal number, as most are.
    pub fn number(n: u64) -> Self {
        Position(n.to_string().into_bytes())
    }

    /// Reads back [`Position::number`].
    pub fn as_number(&self) -> Option<u64> {
        std::str::from_utf8(&self.0).ok()?.parse().ok()
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// A part of a source that is read in order by one task at a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    /// Its name, stable for ever.
    pub id: SplitId,
    /// What the reader needs to know about it; the source's own encoding.
    pub details: Vec<u8>,
    /// Where to read next. A discovered split carries the position to begin at, resolved ("latest" is a position by now).
    pub position: Option<Position>,
}

/// A column known to equal one of some values; see [`SourceRequest::equals`].
#[derive(Debug, Clone, PartialEq)]
pub struct EqualTo {
    /// The column.
    pub column: String,
    /// The values, as JSON scalars.
    pub values: Vec<serde_json::Value>,
}

/// What the plan asks of a source.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct SourceRequest {
    /// The visible columns to produce, in the source's own order; `None` for all.
    pub columns: Option<Vec<String>>,
    /// Conditions that every reader of this source filters by. A source may apply some; it names them in
    /// [`SourcePlan::applied`] and counts what it leaves out in [`Chunk::filtered`].
    pub equals: Vec<EqualTo>,
    /// Whether somebody needs [`Chunk::ordinals`].
    pub ordinals: bool,
    /// Whether values that do not fit are to be rescued; see [`crate::OnBadData::Rescue`]. A source that can do so adds
    /// [`crate::bad::RESCUED`] to its columns, and the plan always asks for that column; `validate` refuses the policy for a
    /// source without it.
    pub rescue: bool,
    /// What the source resolved for itself when the run began, as [`SourcePlan::pinned`] gave it; the source answers by it and
    /// resolves nothing anew. `None` at the first plan of a run.
    pub pinned: Option<String>,
    /// A column of which every reader keeps the rows of one value, and not all readers of the same. Nobody sees rows of two values then,
    /// so a source may hand the rows of one poll over value by value, each in a chunk of its own, if rows of one value keep their
    /// order. Of the chunks that cover one stretch of a split, only the last moves the position; a poll is taken whole.
    pub apart: Option<String>,
}

impl SourceRequest {
    /// Everything the source has.
    pub fn all() -> Self {
        SourceRequest::default()
    }

    /// Restricts the columns.
    #[must_use]
    pub fn with_columns(mut self, columns: Option<Vec<String>>) -> Self {
        self.columns = columns;
        self
    }

    /// Offers conditions.
    #[must_use]
    pub fn with_equals(mut self, equals: Vec<EqualTo>) -> Self {
        self.equals = equals;
        self
    }

    /// Asks for ordinals.
    #[must_use]
    pub fn with_ordinals(mut self, ordinals: bool) -> Self {
        self.ordinals = ordinals;
        self
    }

    /// Asks for values that do not fit to be rescued.
    #[must_use]
    pub fn with_rescue(mut self, rescue: bool) -> Self {
        self.rescue = rescue;
        self
    }

    /// Hands back what the source resolved when the run began.
    #[must_use]
    pub fn with_pinned(mut self, pinned: Option<String>) -> Self {
        self.pinned = pinned;
        self
    }

    /// Names the column whose values no reader sees two of.
    #[must_use]
    pub fn with_apart(mut self, apart: Option<String>) -> Self {
        self.apart = apart;
        self
    }

    /// Whether `column` is asked for.
    pub fn wants(&self, column: &str) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(|wanted| wanted == column))
    }
}

/// What a source answers to a request.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SourcePlan {
    /// The schema of every chunk: the columns asked for, in the source's order, or all of them if it cannot leave any out. Where rows
    /// replace each other, [`crate::hidden::OP`] stands behind them, and the key columns are there whether or not they were asked for.
    pub schema: SchemaRef,
    /// Whether rows are final. Of rows that replace each other, all that have one key must come from one split.
    pub mode: ChangeMode,
    /// Whether it ends.
    pub bounded: bool,
    /// Whether a position can be read again after a crash. If not, the pipeline's guarantee says so.
    pub replayable: bool,
    /// The most tasks that can read it; `None` for as many as there are splits.
    pub max_parallelism: Option<usize>,
    /// Which of [`SourceRequest::equals`] it applies itself, by index.
    pub applied: Vec<usize>,
    /// What it resolved for itself and must not resolve anew while the run lasts, such as a schema inferred from a sample: the
    /// source's own text. Kept in the manifest from the first epoch on, and handed back by [`SourceRequest::pinned`].
    pub pinned: Option<String>,
    /// Whether it is a table that every start reads anew and whole, whatever its positions say: what an earlier start handed over is
    /// forgotten, so nothing may keep it in a state. Its rows replace each other. The first time all its splits are
    /// [`SplitState::CaughtUp`] the table is there; from then on it goes on changing, holds nobody's time back, and does not keep the
    /// run from ending.
    pub reloads: bool,
}

impl SourcePlan {
    /// A bounded, replayable source of final rows of this schema that applies no conditions.
    pub fn new(schema: SchemaRef) -> Self {
        SourcePlan {
            schema,
            mode: ChangeMode::Append,
            bounded: true,
            replayable: true,
            max_parallelism: None,
            applied: Vec::new(),
            pinned: None,
            reloads: false,
        }
    }

    /// Says how its rows relate to each other; see [`SourcePlan::mode`].
    #[must_use]
    pub fn with_mode(mut self, mode: ChangeMode) -> Self {
        self.mode = mode;
        self
    }

    /// Says whether it ends.
    #[must_use]
    pub fn with_bounded(mut self, bounded: bool) -> Self {
        self.bounded = bounded;
        self
    }

    /// Says whether positions can be read again.
    #[must_use]
    pub fn with_replayable(mut self, replayable: bool) -> Self {
        self.replayable = replayable;
        self
    }

    /// Limits the tasks.
    #[must_use]
    pub fn with_max_parallelism(mut self, max: usize) -> Self {
        self.max_parallelism = Some(max);
        self
    }

    /// Says whether every start reads it anew; see [`SourcePlan::reloads`].
    #[must_use]
    pub fn with_reloads(mut self, reloads: bool) -> Self {
        self.reloads = reloads;
        self
    }

    /// Names the conditions it applies.
    #[must_use]
    pub fn with_applied(mut self, applied: Vec<usize>) -> Self {
        self.applied = applied;
        self
    }

    /// Says what it resolved for itself.
    #[must_use]
    pub fn with_pinned(mut self, pinned: Option<String>) -> Self {
        self.pinned = pinned;
        self
    }
}

/// What a discovery found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Discovered {
    /// Splits not named before (by this cursor), each with a resolved position.
    pub added: Vec<Split>,
    /// Splits that no longer exist; a finished one may be forgotten, an unfinished one is an error of the source.
    pub gone: Vec<SplitId>,
    /// What the next discovery starts from; kept in the manifest.
    pub cursor: Option<Vec<u8>>,
    /// No further discovery will find anything: when all splits end, the source has ended.
    pub complete: bool,
}

/// The reading half of a dataset. Shared by planning, the coordinator and all tasks; does no I/O before one of its methods is called.
pub trait InlineSource: Send + Sync {
    /// Answers what the source would produce. Called while planning, by `validate` too, and again at start; deterministic for
    /// equal configuration and [`SourceRequest::pinned`]. May read a sample to infer a schema; what it found it then gives as
    /// [`SourcePlan::pinned`], since the sample may be another at the next start.
    ///
    /// # Errors
    /// `Config` for options that cannot work, `External` if the outside is needed and does not answer.
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan>;

    /// Looks whether what it reads is there, and reads none of it. Called by `validate`, after `plan`; a run finds out by itself.
    ///
    /// # Errors
    /// What is missing and where it was looked for.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Finds splits. Called by the coordinator before the first poll (no cursor), and while running, from one thread.
    ///
    /// # Errors
    /// `External` if the outside does not answer; the coordinator tries again within the restart budget.
    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered>;

    /// How often to discover while running; `None` never.
    fn discover_every(&self) -> Option<Duration> {
        None
    }

    /// Whether discovery never names a split twice, whatever became of it, by what its cursor remembers. The engine then forgets a finished
    /// split once a manifest has it finished, and a split that is found later must have another name than any before. A source that
    /// leaves it to the engine to know what was read, and so lists the same splits again, says `false`.
    fn remembers_splits(&self) -> bool {
        false
    }

    /// Opens the reader of one task. Called once per task and start, on the task's thread, before its first poll.
    ///
    /// # Errors
    /// Any; the run fails before a row was read.
    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>>;
}

/// What a reader is built with. Made by the engine; a test makes one with [`SourceCtx::new`] and setters.
#[derive(Clone)]
#[non_exhaustive]
pub struct SourceCtx {
    /// This task, from 0.
    pub task: usize,
    /// How many tasks read the source.
    pub tasks: usize,
    /// The splits of this task. `position` is where to go on.
    pub start: Vec<Split>,
    /// Whether the positions come from a manifest of an earlier start.
    pub restoring: bool,
    /// The event-time column, if the plan needs one.
    pub time_column: Option<Arc<str>>,
    /// What the plan asked for; the same value that `plan` answered.
    pub request: SourceRequest,
    /// Who is running.
    pub run: RunIdentity,
    /// Counts bad rows the reader dropped itself; rows reported in [`Chunk::bad`] are counted by the task.
    pub bad_rows: Counter,
    /// What the reader tells of its outside, for those who watch.
    pub meters: OutsideMeters,
    /// The only clock a reader may use.
    pub clock: Arc<dyn Clock>,
    /// Makes the task poll again, for sources that are told of new rows.
    pub wake: Wake,
}

impl SourceCtx {
    /// The context of the only task of a source, with the machine's clock.
    pub fn new(run: RunIdentity) -> Self {
        SourceCtx {
            task: 0,
            tasks: 1,
            start: Vec::new(),
            restoring: false,
            time_column: None,
            request: SourceRequest::all(),
            run,
            bad_rows: Counter::new(),
            meters: OutsideMeters::default(),
            clock: Arc::new(SystemClock),
            wake: Wake::noop(),
        }
    }

    /// Sets which task of how many this is.
    #[must_use]
    pub fn with_task(mut self, task: usize, tasks: usize) -> Self {
        self.task = task;
        self.tasks = tasks;
        self
    }

    /// Sets the splits.
    #[must_use]
    pub fn with_start(mut self, start: Vec<Split>) -> Self {
        self.start = start;
        self
    }

    /// Says that the positions come from a manifest.
    #[must_use]
    pub fn with_restoring(mut self, restoring: bool) -> Self {
        self.restoring = restoring;
        self
    }

    /// Sets the event-time column.
    #[must_use]
    pub fn with_time_column(mut self, column: Option<Arc<str>>) -> Self {
        self.time_column = column;
        self
    }

    /// Sets what is asked for.
    #[must_use]
    pub fn with_request(mut self, request: SourceRequest) -> Self {
        self.request = request;
        self
    }

    /// Sets the counter of bad rows.
    #[must_use]
    pub fn with_bad_rows(mut self, counter: Counter) -> Self {
        self.bad_rows = counter;
        self
    }

    /// Sets the measures.
    #[must_use]
    pub fn with_meters(mut self, meters: OutsideMeters) -> Self {
        self.meters = meters;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how to wake the task.
    #[must_use]
    pub fn with_wake(mut self, wake: Wake) -> Self {
        self.wake = wake;
        self
    }
}

/// How much a poll may return, and how long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollRequest {
    /// At most this many rows over all chunks.
    pub max_rows: usize,
    /// About this many bytes of rows; one row may exceed it.
    pub max_bytes: usize,
    /// Return by then, with or without rows. Zero: do not wait for the outside at all.
    pub wait: Duration,
}

/// The number of each row within its split: the same row has the same number at every reading.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Ordinals {
    /// Not asked for, or the source cannot number its rows.
    #[default]
    None,
    /// Consecutive, starting here.
    From(u64),
    /// One per row.
    Each(UInt64Array),
}

/// Rows of one split, in its order.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Where they come from.
    pub split: SplitId,
    /// The rows, under the plan's schema. May be empty, to move the position or the watermark.
    pub rows: RecordBatch,
    /// Where to read next once these rows are processed.
    pub position: Position,
    /// The split's own promise about later rows, if it makes one; the dataset's `time` overrides it.
    pub watermark: Option<EventTime>,
    /// Rows that could not be decoded, in order.
    pub bad: Vec<BadRow>,
    /// Rows left out by the applied conditions.
    pub filtered: u64,
    /// The rows' numbers, if asked for.
    pub ordinals: Ordinals,
    /// The largest event time among rows left out by `filtered`, so that they move time as the others do.
    pub filtered_max_time: Option<EventTime>,
}

impl Chunk {
    /// Rows and where to go on.
    pub fn new(split: SplitId, rows: RecordBatch, position: Position) -> Self {
        Chunk { split, rows, position, watermark: None, bad: Vec::new(), filtered: 0, ordinals: Ordinals::None, filtered_max_time: None }
    }
}

/// What a split is doing. Only a caught-up split may become idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitState {
    /// More rows exist, or may exist, than were handed over. The state of a split until another is reported.
    Pending,
    /// Everything that exists was handed over; more may come.
    CaughtUp,
    /// Everything was handed over and nothing will come.
    Finished,
}

/// The answer to a poll.
#[derive(Debug, Clone, Default)]
pub struct Polled {
    /// Rows, several splits mixed, each split's in its order.
    pub chunks: Vec<Chunk>,
    /// State changes, to be applied after the chunks.
    pub states: Vec<(SplitId, SplitState)>,
    /// There is nothing to do before this has passed (or the task is woken). `None`: poll again at once.
    pub retry_after: Option<Duration>,
}

/// Reads the splits of one task. Used from one thread.
pub trait SourceReader: Send {
    /// Adds splits found while running. They begin at their `position`.
    ///
    /// # Errors
    /// Any; the run fails back to the newest manifest.
    fn assign(&mut self, splits: Vec<Split>) -> Result<()>;

    /// Reads on. Called again and again while the task has room; not called while it is backpressured or waits for a barrier's edges.
    ///
    /// # Errors
    /// `External` with `Retry::After` when nothing was taken and the call may be repeated; any other fails the run.
    fn poll(&mut self, request: PollRequest) -> Result<Polled>;

    /// The given positions are durable in a manifest. For acknowledging queues and for monitoring; may come late, twice, or
    /// never, and positions may be older than what was polled since.
    ///
    /// # Errors
    /// `External` errors are retried with the next epoch.
    fn committed(&mut self, positions: &[(SplitId, Position)]) -> Result<()> {
        let _ = positions;
        Ok(())
    }
}

//! Sources: rows read split by split, from positions that survive a crash.

use crate::bindings::source::exports::tidegate::plugin::source as wit;
use crate::bindings::types;
use crate::{Info, Result, Scope, ipc, parse_config};
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

pub use wit::{BadRecord, Split, SplitState};

/// Reads rows from somewhere. Each split is read in order by one task at a time; a position in it is all that survives a crash.
pub trait Source: Sized + 'static {
    /// The configuration, read from the pipeline file.
    type Config: DeserializeOwned;

    /// What the plugin is. Constant.
    fn info() -> Info;

    /// Answers what it would read. May use grants (to ask a server for its schema); must change nothing outside. `wanted` names the columns
    /// somebody reads, `None` means all.
    ///
    /// # Errors
    /// `Config` when it cannot be read as configured, naming the key.
    fn bind(config: &Self::Config, scope: &Scope, wanted: Option<&[String]>) -> Result<SourcePlan>;

    /// Finds splits, at every start and, for unbounded sources, again and again. `cursor` is what an earlier call gave, `None` on a fresh run.
    ///
    /// # Errors
    /// Any; `Retryable` is tried again.
    fn discover(config: &Self::Config, scope: &Scope, cursor: Option<&[u8]>) -> Result<Discovered>;

    /// Opens a reader without splits. `wanted` is what the plan was bound with.
    ///
    /// # Errors
    /// Any; `Config` ends the run.
    fn open(config: Self::Config, scope: &Scope, wanted: Option<&[String]>) -> Result<Self>;

    /// Adds splits, to be read from their positions.
    ///
    /// # Errors
    /// Any.
    fn assign(&mut self, splits: Vec<Split>) -> Result<()>;

    /// Reads on, within the request's bounds. Serve the splits fairly.
    ///
    /// # Errors
    /// `Retryable` when nothing was taken; any other fails the reader, and another is opened from the last positions.
    fn poll(&mut self, request: PollRequest) -> Result<Polled>;

    /// The positions named here are durable. May come late, twice, or never.
    ///
    /// # Errors
    /// `Retryable` is tried again with the next epoch.
    fn committed(&mut self, positions: &[Split]) -> Result<()> {
        let _ = positions;
        Ok(())
    }
}

/// What a source gives.
#[derive(Debug, Clone)]
pub struct SourcePlan {
    pub(crate) output: Schema,
    pub(crate) bounded: bool,
    pub(crate) replayable: bool,
    pub(crate) pruned: bool,
    pub(crate) max_parallelism: Option<u32>,
}

impl SourcePlan {
    /// An unbounded, replayable source of rows of this schema, whole whatever is wanted.
    pub fn new(output: Schema) -> Self {
        SourcePlan { output, bounded: false, replayable: true, pruned: false, max_parallelism: None }
    }

    /// Says whether the input ends.
    #[must_use]
    pub fn bounded(mut self, bounded: bool) -> Self {
        self.bounded = bounded;
        self
    }

    /// Says that a position read again may give other rows: the pipeline is at best at-least-once.
    #[must_use]
    pub fn not_replayable(mut self) -> Self {
        self.replayable = false;
        self
    }

    /// Says that the output has just the wanted columns.
    #[must_use]
    pub fn pruned(mut self) -> Self {
        self.pruned = true;
        self
    }

    /// Limits the tasks that read at once.
    #[must_use]
    pub fn with_max_parallelism(mut self, max: u32) -> Self {
        self.max_parallelism = Some(max);
        self
    }
}

/// The answer to a discovery.
#[derive(Debug, Clone, Default)]
pub struct Discovered {
    /// Splits that no earlier discovery up to the cursor has named.
    pub added: Vec<Split>,
    /// Splits that will never have rows again.
    pub gone: Vec<String>,
    /// What to pass to the next discovery; `None`: what was passed stays.
    pub cursor: Option<Vec<u8>>,
}

/// How much a poll may return, and how long it may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PollRequest {
    /// At most this many rows over all chunks.
    pub max_rows: usize,
    /// About this many bytes of rows; one row may exceed it.
    pub max_bytes: usize,
    /// How long to wait for the outside. Zero: not at all.
    pub deadline: Duration,
}

/// Rows of one split, in its order.
#[derive(Debug, Clone)]
pub struct Chunk {
    /// Its id.
    pub split: String,
    /// The rows, with the columns of the plan's output.
    pub rows: RecordBatch,
    /// Where to read next once these rows are processed.
    pub position: Vec<u8>,
    /// A promise that the split has no later rows with an event time, in microseconds, below this.
    pub watermark_us: Option<i64>,
    /// Records that could not be decoded, in order.
    pub bad: Vec<BadRecord>,
}

impl Chunk {
    /// Rows and where to go on.
    pub fn new(split: impl Into<String>, rows: RecordBatch, position: impl Into<Vec<u8>>) -> Self {
        Chunk { split: split.into(), rows, position: position.into(), watermark_us: None, bad: Vec::new() }
    }
}

/// The answer to a poll.
#[derive(Debug, Clone, Default)]
pub struct Polled {
    /// Rows; splits may be mixed.
    pub chunks: Vec<Chunk>,
    /// Changes of state, applied after the chunks.
    pub states: Vec<(String, SplitState)>,
    /// There is nothing to do before this has passed. `None`: poll again at once.
    pub retry_after: Option<Duration>,
}

/// The component's export of a [`Source`]; made by [`export_source!`](crate::export_source).
pub struct SourceGuest<S>(PhantomData<S>);

/// One opened source and the schema it declared.
pub struct OpenSource<S> {
    state: RefCell<(S, ipc::Encoder)>,
}

impl<S: Source> SourceGuest<S> {
    pub(crate) fn bind_plan(scope: &Scope, wanted: Option<&[String]>) -> Result<SourcePlan> {
        S::bind(&parse_config(&scope.config)?, scope, wanted)
    }

    pub(crate) fn find(scope: &Scope, cursor: Option<&[u8]>) -> Result<Discovered> {
        S::discover(&parse_config(&scope.config)?, scope, cursor)
    }
}

impl<S: Source> OpenSource<S> {
    pub(crate) fn open(scope: &Scope, wanted: Option<&[String]>) -> Result<Self> {
        let source = S::open(parse_config(&scope.config)?, scope, wanted)?;
        let encoder = ipc::Encoder::new(Arc::new(Schema::empty()))?;
        Ok(OpenSource { state: RefCell::new((source, encoder)) })
    }

    pub(crate) fn assign(&self, splits: Vec<Split>) -> Result<()> {
        self.state.borrow_mut().0.assign(splits)
    }

    pub(crate) fn poll(&self, request: PollRequest) -> Result<wit::Polled> {
        let mut state = self.state.borrow_mut();
        let (source, encoder) = &mut *state;
        let polled = source.poll(request)?;
        let mut chunks = Vec::with_capacity(polled.chunks.len());
        for chunk in polled.chunks {
            if chunk.rows.schema_ref() != encoder.schema() {
                *encoder = ipc::Encoder::new(chunk.rows.schema())?;
            }
            let rows = encoder.encode(&chunk.rows)?;
            chunks.push(wit::Chunk {
                split: chunk.split,
                rows,
                position: chunk.position,
                watermark_us: chunk.watermark_us,
                bad: chunk.bad,
            });
        }
        let retry_after_ms = polled.retry_after.map(|after| u32::try_from(after.as_millis()).unwrap_or(u32::MAX));
        Ok(wit::Polled { chunks, states: polled.states, retry_after_ms, extra: String::new() })
    }

    pub(crate) fn committed(&self, positions: &[Split]) -> Result<()> {
        self.state.borrow_mut().0.committed(positions)
    }
}

impl<S: Source> wit::Guest for SourceGuest<S> {
    type Reader = OpenSource<S>;

    fn describe() -> types::PluginInfo {
        crate::panic::install();
        S::info().into()
    }

    fn bind(scope: Scope, wanted: Option<Vec<String>>) -> Result<wit::Plan, types::Error> {
        crate::panic::install();
        let plan = Self::bind_plan(&scope, wanted.as_deref())?;
        Ok(wit::Plan {
            output: ipc::encode_schema(&plan.output)?,
            bounded: plan.bounded,
            replayable: plan.replayable,
            pruned: plan.pruned,
            max_parallelism: plan.max_parallelism,
            extra: String::new(),
        })
    }

    fn discover(scope: Scope, cursor: Option<Vec<u8>>) -> Result<wit::Discovered, types::Error> {
        crate::panic::install();
        let found = Self::find(&scope, cursor.as_deref())?;
        Ok(wit::Discovered { added: found.added, gone: found.gone, cursor: found.cursor, extra: String::new() })
    }
}

impl<S: Source> wit::GuestReader for OpenSource<S> {
    fn open(scope: Scope, wanted: Option<Vec<String>>) -> Result<wit::Reader, types::Error> {
        crate::panic::install();
        Ok(wit::Reader::new(OpenSource::<S>::open(&scope, wanted.as_deref())?))
    }

    fn assign(&self, splits: Vec<Split>) -> Result<(), types::Error> {
        Ok(OpenSource::assign(self, splits)?)
    }

    fn poll(&self, max_rows: u32, max_bytes: u32, deadline_ms: u32) -> Result<wit::Polled, types::Error> {
        let deadline = Duration::from_millis(deadline_ms.into());
        Ok(OpenSource::poll(self, PollRequest { max_rows: max_rows as usize, max_bytes: max_bytes as usize, deadline })?)
    }

    fn committed(&self, positions: Vec<Split>) -> Result<(), types::Error> {
        Ok(OpenSource::committed(self, &positions)?)
    }
}

/// Makes a [`Source`] the component's export: `export_source!(MyType);`, once per crate.
#[macro_export]
macro_rules! export_source {
    ($source:ty) => {
        type TidegateSourceGuest = $crate::SourceGuest<$source>;
        $crate::bindings::source::export_source_bindings!(TidegateSourceGuest with_types_in $crate::bindings::source);
    };
}

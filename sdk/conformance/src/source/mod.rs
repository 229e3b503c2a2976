//! Sources: the same rows for any task count and poll size, exactly the rest from any position, whatever dies.
//!
//! A source is asked as the engine asks it, through [`InlineSource`], so a native connector and a component pass the same scripts. Positions stay
//! opaque, and a split is always opened with the details that its discovery gave.

mod changes;
mod plan;
mod read;
mod replay;
mod time;

use crate::verdict::{Judgement, Progress, Record, Verdict};
use arrow::datatypes::DataType;
pub(crate) use read::patiently;
use read::{Read, Reading};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{ChangeMode, InlineSource, Result, SourceRequest, Split, SplitId};

/// What is judged, and where its rows come from.
pub struct SourceWorld {
    /// Another instance of the source, as another process would build it.
    pub source: Box<dyn Fn() -> Result<Arc<dyn InlineSource>>>,
    /// Makes new splits appear; `None` if the kit cannot.
    pub more: Option<Box<dyn Fn() -> Result<()>>>,
}

impl SourceWorld {
    /// A source whose splits are all there from the beginning.
    pub fn new(source: impl Fn() -> Result<Arc<dyn InlineSource>> + 'static) -> Self {
        SourceWorld { source: Box::new(source), more: None }
    }

    /// Makes new splits appear.
    #[must_use]
    pub fn with_more(mut self, more: impl Fn() -> Result<()> + 'static) -> Self {
        self.more = Some(Box::new(more));
        self
    }
}

/// How a source is judged.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SourceOptions {
    /// What is asked of it.
    pub request: SourceRequest,
    /// Rows read of each split, at most; a source without end is judged by that many.
    pub rows: usize,
    /// How long a poll may wait for the outside.
    pub wait: Duration,
    /// The event-time column that watermarks speak of. `None`: the only timestamp column, if there is just one.
    pub time_column: Option<String>,
    /// How many positions of a split are read from.
    pub positions: usize,
}

impl Default for SourceOptions {
    fn default() -> Self {
        SourceOptions { request: SourceRequest::all(), rows: 400, wait: Duration::ZERO, time_column: None, positions: 24 }
    }
}

impl SourceOptions {
    /// Sets what is asked.
    #[must_use]
    pub fn with_request(mut self, request: SourceRequest) -> Self {
        self.request = request;
        self
    }

    /// Sets how many rows are read of each split.
    #[must_use]
    pub fn with_rows(mut self, rows: usize) -> Self {
        self.rows = rows;
        self
    }

    /// Sets how long a poll may wait.
    #[must_use]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Names the event-time column.
    #[must_use]
    pub fn with_time_column(mut self, column: Option<String>) -> Self {
        self.time_column = column;
        self
    }

    /// Sets how many positions of a split are read from.
    #[must_use]
    pub fn with_positions(mut self, positions: usize) -> Self {
        self.positions = positions;
        self
    }
}

/// What every script works with.
struct Bench<'a> {
    world: &'a SourceWorld,
    options: &'a SourceOptions,
    record: &'a Record,
    /// The splits of a fresh discovery, in its order.
    splits: Vec<Split>,
    cursor: Option<Vec<u8>>,
    /// Every split read by one task, in large polls.
    whole: BTreeMap<SplitId, Read>,
    mode: ChangeMode,
    replayable: bool,
    max_tasks: usize,
    time_column: Option<String>,
}

impl Bench<'_> {
    /// How the whole is read: what a script changes is what it is about.
    fn reading(&self) -> Reading<'_> {
        Reading::new(self.options, self.record, self.splits.clone())
    }
}

type Script = (&'static str, fn(&Bench) -> Verdict);

/// What needs rows that come again the same is asked only of sources that promise that.
const SCRIPTS: &[Script] = &[
    ("a plan is asked for again", plan::again),
    ("splits are discovered again", plan::splits_again),
    ("nothing is assigned", plan::nothing_assigned),
    ("the whole is read again", replay::again),
    ("two tasks and three", replay::tasks),
    ("polls of one row and of seven", replay::polls),
    ("watermarks beside their rows", time::watermarks),
    ("keys of rows that replace each other", changes::keys_apart),
    ("fewer columns", plan::fewer_columns),
    ("the rest from any position", replay::positions),
    ("killed after any poll", replay::killed),
    ("notices of durable positions", replay::committed),
    ("new splits appear", plan::new_splits),
];

/// Judges a source.
pub fn judge(world: &SourceWorld, options: &SourceOptions) -> Judgement {
    judge_telling(world, options, Progress::default())
}

/// Judges a source and tells what it does.
pub(crate) fn judge_telling(world: &SourceWorld, options: &SourceOptions, progress: Progress) -> Judgement {
    let record = Record::telling(progress);
    let verdict = scripts(world, options, &record);
    record.close(verdict)
}

/// Checks a native source, and fails the test that calls it.
///
/// # Panics
/// With the script and the rule that was broken.
pub fn source_contract(world: &SourceWorld, options: &SourceOptions) {
    judge(world, options).expect_passed();
}

/// Whether a newer version goes on from the positions and the cursor of an older one.
pub fn judge_upgrade(old: &SourceWorld, new: &SourceWorld, options: &SourceOptions) -> Judgement {
    let record = Record::default();
    let upgrade = || {
        let bench = first(old, options, &record)?;
        record.script("positions of the older version");
        replay::upgrade(&bench, new)
    };
    let verdict = upgrade();
    record.close(verdict)
}

fn scripts(world: &SourceWorld, options: &SourceOptions, record: &Record) -> Verdict {
    let bench = first(world, options, record)?;
    for (name, script) in SCRIPTS {
        record.script(name);
        script(&bench)?;
    }
    Ok(())
}

/// Plans, discovers and reads the whole once; all that follows is compared with it.
fn first<'a>(world: &'a SourceWorld, options: &'a SourceOptions, record: &'a Record) -> Verdict<Bench<'a>> {
    record.script("the whole is read");
    let source = read::open_source(world, record, crate::Rule::CallsSucceed)?;
    let plan = source.plan(&options.request).map_err(|error| read::failed(record, crate::Rule::CallsSucceed, "plan", &error))?;
    let found = source.discover(None).map_err(|error| read::failed(record, crate::Rule::CallsSucceed, "discover", &error))?;
    let timestamps: Vec<&str> = plan
        .schema
        .fields()
        .iter()
        .filter(|field| matches!(field.data_type(), DataType::Timestamp(_, _)))
        .map(|field| field.name().as_str())
        .collect();
    let only = if let [only] = timestamps.as_slice() { Some((*only).to_string()) } else { None };
    let mut bench = Bench {
        world,
        options,
        record,
        splits: found.added,
        cursor: found.cursor,
        whole: BTreeMap::new(),
        mode: plan.mode,
        replayable: plan.replayable,
        max_tasks: plan.max_parallelism.unwrap_or(usize::MAX),
        time_column: options.time_column.clone().or(only),
    };
    bench.whole = bench.reading().of(source.as_ref())?;
    record.kept(crate::Rule::CallsSucceed);
    Ok(bench)
}

//! Reading a source as tasks do, and writing down what came.

use super::{SourceOptions, SourceWorld};
use crate::rules::Rule;
use crate::verdict::{Conviction, Record, Verdict};
use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    Error, ErrorKind, EventTime, Generation, InlineSource, PollRequest, Polled, Position, Retry, RunId, RunIdentity, SourceCtx,
    SourceReader, SourceRequest, Split, SplitId, SplitState,
};

/// Polls that give nothing before a source that could end is taken to stand still.
const IDLE_POLLS: usize = 200;
/// Such polls before one whose splits are all caught up is done.
const CAUGHT_UP_POLLS: usize = 3;
/// Polls of one reading, at most.
const MOST_POLLS: usize = 100_000;
/// How often a call that may be repeated is.
const RETRIES: usize = 50;
/// The longest pause between two calls.
const PAUSE: Duration = Duration::from_millis(100);

/// After how many rows which position and watermark were told.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) rows: usize,
    pub(super) bad: usize,
    pub(super) position: Position,
    pub(super) watermark: Option<EventTime>,
}

/// What was read of one split.
#[derive(Debug, Clone)]
pub(super) struct Read {
    pub(super) rows: RecordBatch,
    /// The words of rows that could not be decoded.
    pub(super) bad: Vec<String>,
    pub(super) marks: Vec<Mark>,
    /// Whether all there is was read, and not only as much as the kit reads.
    pub(super) ended: bool,
}

/// What happens between two polls of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    Nothing,
    /// The instance dies after so many polls, again and again.
    Kill(usize),
    /// Positions become durable: each, twice, and older ones again.
    Commit,
}

/// How to read.
pub(super) struct Reading<'a> {
    options: &'a SourceOptions,
    record: &'a Record,
    pub(super) request: SourceRequest,
    pub(super) splits: Vec<Split>,
    pub(super) tasks: usize,
    pub(super) max_rows: usize,
    pub(super) between: Between,
    /// What a call that fails breaks.
    pub(super) rule: Rule,
}

pub(super) fn failed(record: &Record, rule: Rule, call: &str, error: &Error) -> Conviction {
    record.convict(rule, format!("`{call}` failed: {error}"))
}

pub(super) fn open_source(world: &SourceWorld, record: &Record, rule: Rule) -> Verdict<Arc<dyn InlineSource>> {
    (world.source)().map_err(|error| failed(record, rule, "a new instance", &error))
}

/// Makes a call; again, if it says that it may be repeated.
pub(crate) fn patiently<T>(mut call: impl FnMut() -> tidegate_api::Result<T>) -> tidegate_api::Result<T> {
    let mut left = RETRIES;
    loop {
        match call() {
            Err(error) if left > 0 => match error.kind() {
                ErrorKind::External { retry: Retry::After(after) } => {
                    left -= 1;
                    std::thread::park_timeout(after.min(PAUSE));
                }
                _ => return Err(error),
            },
            answer => return answer,
        }
    }
}

/// One task.
struct Task {
    reader: Box<dyn SourceReader>,
    number: usize,
    /// Splits that have not finished, each where to go on.
    open: BTreeMap<SplitId, Split>,
    caught_up: BTreeSet<SplitId>,
    idle: usize,
    polls: usize,
}

#[derive(Default)]
struct Taken {
    batches: Vec<RecordBatch>,
    rows: usize,
    bad: Vec<String>,
    marks: Vec<Mark>,
    ended: bool,
}

impl<'a> Reading<'a> {
    pub(super) fn new(options: &'a SourceOptions, record: &'a Record, splits: Vec<Split>) -> Self {
        Reading {
            options,
            record,
            request: options.request.clone(),
            splits,
            tasks: 1,
            max_rows: 1000,
            between: Between::Nothing,
            rule: Rule::CallsSucceed,
        }
    }

    fn failed(&self, call: &str, error: &Error) -> Conviction {
        failed(self.record, self.rule, call, error)
    }

    fn open(&self, source: &dyn InlineSource, number: usize, splits: Vec<Split>) -> Verdict<Box<dyn SourceReader>> {
        let run = RunIdentity::new("conformance", RunId::new("run"), Generation(1), "source");
        let ctx = SourceCtx::new(run).with_task(number, self.tasks).with_start(splits).with_request(self.request.clone());
        patiently(|| source.open(ctx.clone())).map_err(|error| self.failed("open", &error))
    }

    fn task(&self, source: &dyn InlineSource, number: usize) -> Verdict<Task> {
        let own: Vec<Split> = self.splits.iter().skip(number).step_by(self.tasks).cloned().collect();
        let open = own.iter().map(|split| (split.id.clone(), split.clone())).collect();
        Ok(Task { reader: self.open(source, number, own)?, number, open, caught_up: BTreeSet::new(), idle: 0, polls: 0 })
    }

    /// Reads every split to its end, or as many rows as the kit reads.
    pub(super) fn of(&self, source: &dyn InlineSource) -> Verdict<BTreeMap<SplitId, Read>> {
        let plan = source.plan(&self.request).map_err(|error| self.failed("plan", &error))?;
        let mut taken: BTreeMap<SplitId, Taken> = self.splits.iter().map(|split| (split.id.clone(), Taken::default())).collect();
        let mut tasks = (0..self.tasks).map(|number| self.task(source, number)).collect::<Verdict<Vec<_>>>()?;
        let mut polls = 0;
        while !tasks.is_empty() && polls < MOST_POLLS {
            polls += 1;
            let mut going = Vec::new();
            for mut task in tasks {
                if self.turn(source, &mut task, &plan.schema, &mut taken)? {
                    going.push(task);
                }
            }
            tasks = going;
        }
        let reads = taken.into_iter().map(|(id, taken)| {
            let rows = concat_batches(&plan.schema, &taken.batches);
            let rows = rows.map_err(|error| self.record.convict(self.rule, format!("split `{id}`: {error}")))?;
            Ok((id, Read { rows, bad: taken.bad, marks: taken.marks, ended: taken.ended }))
        });
        reads.collect()
    }

    /// One poll of one task; whether it goes on.
    fn turn(&self, source: &dyn InlineSource, task: &mut Task, schema: &SchemaRef, taken: &mut BTreeMap<SplitId, Taken>) -> Verdict<bool> {
        if task.open.keys().all(|id| taken.get(id).is_some_and(|taken| taken.rows >= self.options.rows)) {
            return self.after_the_end(task, taken).map(|()| false);
        }
        let request = PollRequest { max_rows: self.max_rows, max_bytes: 1 << 20, wait: self.options.wait };
        let polled = patiently(|| task.reader.poll(request)).map_err(|error| self.failed("poll", &error))?;
        // A source may say with every poll, or after every death, that it is caught up: only rows and ends lead on.
        let finishes = polled.states.iter().any(|(_, state)| *state == SplitState::Finished);
        let nothing = polled.chunks.iter().all(|chunk| chunk.rows.num_rows() == 0 && chunk.bad.is_empty()) && !finishes;
        task.idle = if nothing { task.idle + 1 } else { 0 };
        let pause = polled.retry_after;
        self.take(task, polled, schema, taken)?;
        task.polls += 1;
        let caught_up = task.caught_up.clone();
        match self.between {
            Between::Nothing => {}
            Between::Kill(after) if task.polls.is_multiple_of(after) && !task.open.is_empty() => {
                task.reader = self.open(source, task.number, task.open.values().cloned().collect())?;
                task.caught_up.clear();
            }
            Between::Kill(_) => {}
            Between::Commit => self.commit(task, taken)?,
        }
        let all_caught_up = task.open.keys().all(|id| caught_up.contains(id));
        if task.idle >= IDLE_POLLS || (all_caught_up && task.idle >= CAUGHT_UP_POLLS) {
            for id in task.open.keys() {
                if let Some(taken) = taken.get_mut(id) {
                    taken.ended = caught_up.contains(id);
                }
            }
            return Ok(false);
        }
        if nothing && !task.open.is_empty() {
            std::thread::park_timeout(pause.unwrap_or_default().min(PAUSE / 10));
        }
        Ok(true)
    }

    fn take(&self, task: &mut Task, polled: Polled, schema: &SchemaRef, taken: &mut BTreeMap<SplitId, Taken>) -> Verdict {
        let rows: usize = polled.chunks.iter().map(|chunk| chunk.rows.num_rows()).sum();
        let most = self.max_rows;
        self.record.hold(Rule::MaxRows, rows <= most, || format!("a poll of at most {most} rows gave {rows}"))?;
        for chunk in polled.chunks {
            let id = chunk.split;
            let own = task.open.get_mut(&id).zip(taken.get_mut(&id));
            let Some((split, taken)) = own else {
                return Err(self
                    .record
                    .convict(Rule::OwnSplits, format!("rows came of split `{id}`, which is not assigned or has finished")));
            };
            if chunk.rows.schema() != *schema {
                return Err(self.record.convict(self.rule, format!("split `{id}`: a chunk has other columns than the plan")));
            }
            if chunk.rows.num_rows() > 0 {
                task.caught_up.remove(&id);
            }
            taken.rows += chunk.rows.num_rows();
            taken.batches.push(chunk.rows);
            taken.bad.extend(chunk.bad.into_iter().map(|bad| bad.message));
            split.position = Some(chunk.position.clone());
            let mark = Mark { rows: taken.rows, bad: taken.bad.len(), position: chunk.position, watermark: chunk.watermark };
            taken.marks.push(mark);
        }
        for (id, state) in polled.states {
            let known = task.open.contains_key(&id);
            self.record.hold(Rule::OwnSplits, known, || format!("a state came of split `{id}`, which is not assigned or has finished"))?;
            match state {
                SplitState::Pending => drop(task.caught_up.remove(&id)),
                SplitState::CaughtUp => drop(task.caught_up.insert(id)),
                SplitState::Finished => {
                    task.open.remove(&id);
                    if let Some(taken) = taken.get_mut(&id) {
                        taken.ended = true;
                    }
                }
            }
        }
        Ok(())
    }

    /// The newest positions, those again, and then older ones.
    fn commit(&self, task: &mut Task, taken: &BTreeMap<SplitId, Taken>) -> Verdict {
        let position = |id: &SplitId, back: usize| {
            let marks = &taken.get(id)?.marks;
            let mark = marks.len().checked_sub(1 + back).and_then(|at| marks.get(at))?;
            Some((id.clone(), mark.position.clone()))
        };
        for back in [0, 0, 2] {
            let positions: Vec<_> = task.open.keys().filter_map(|id| position(id, back)).collect();
            let answer = patiently(|| task.reader.committed(&positions));
            answer.map_err(|error| self.failed("committed", &error))?;
        }
        Ok(())
    }

    /// Nothing comes of splits that have finished.
    fn after_the_end(&self, task: &mut Task, taken: &BTreeMap<SplitId, Taken>) -> Verdict {
        if !task.open.is_empty() || taken.is_empty() {
            return Ok(());
        }
        let request = PollRequest { max_rows: self.max_rows, max_bytes: 1 << 20, wait: Duration::ZERO };
        let polled = patiently(|| task.reader.poll(request));
        let polled = polled.map_err(|error| failed(self.record, Rule::EmptyPolls, "poll after the end", &error))?;
        let rows: usize = polled.chunks.iter().map(|chunk| chunk.rows.num_rows()).sum();
        self.record.hold(Rule::EmptyPolls, rows == 0, || format!("a poll after the end gave {rows} rows"))
    }
}

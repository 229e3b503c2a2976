//! Reads the splits of one source task, sends their rows through the chain, and answers barriers with positions.

mod prepare;

use self::prepare::{survey, with_keys, with_origin};
use super::retry::Retries;
use super::{Command, Report, Seat, Task, Turn};
use crate::bad::{BadRows, Finder, Origin};
use crate::chain::{ChainPlan, Chains, Way};
use crate::graph::SourceNode;
use crate::metrics::NodeMeters;
use crate::output::Outputs;
use crate::planted::Planted;
use crate::watermark::SourceTime;
use arrow::compute::{filter_record_batch, not};
use arrow::datatypes::SchemaRef;
use crossbeam_channel::Receiver;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    Barrier, BarrierKind, Chunk, Error, ErrorKind, EventTime, PollRequest, Polled, Position, Result, SourceCtx, SourceReader, Split,
    SplitId, SplitState,
};
use tidegate_epochs::manifest::SplitStatus;
use tidegate_epochs::{SplitProgress, TaskSnapshot};

/// How long a poll may wait for the outside after one that brought nothing. A barrier waits as long at most.
const LINGER: Duration = Duration::from_millis(10);

/// What a source task is made of.
pub(crate) struct SourceParts {
    pub(crate) seat: Seat,
    pub(crate) node: SourceNode,
    /// With the splits of this task in `start`.
    pub(crate) ctx: SourceCtx,
    /// The largest event time of each split so far.
    pub(crate) seen: BTreeMap<SplitId, EventTime>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) chains: ChainPlan,
    pub(crate) bad: BadRows,
    pub(crate) outputs: Outputs,
    pub(crate) meters: Arc<NodeMeters>,
    /// Of the rows that enter the chain.
    pub(crate) schema: SchemaRef,
    pub(crate) poll: PollRequest,
    /// The value of `now()` in the first epoch.
    pub(crate) now: EventTime,
    /// Whether the run suspends where its input ends.
    pub(crate) suspends: bool,
    /// How long it goes on reading after a barrier whose epoch is not settled.
    pub(crate) max_epoch_delay: Duration,
    /// For the simulator.
    pub(crate) planted: Planted,
}

#[derive(Debug)]
struct SplitAt {
    id: SplitId,
    position: Option<Position>,
    status: SplitStatus,
}

/// See the module's documentation.
pub(crate) struct SourceTask {
    parts: SourceParts,
    reader: Option<Box<dyn SourceReader>>,
    chains: Chains,
    splits: Vec<SplitAt>,
    time: SourceTime,
    phase: Phase,
    complete: bool,
    ended: bool,
    retries: Retries,
    /// The source said there is nothing before this.
    retry_at: Option<Duration>,
    /// Since when the task has waited for the outside and for nothing else.
    quiet_since: Option<Duration>,
    linger: bool,
    /// Until when it reads although the epoch in flight is not settled, and whether it has said that it reads no longer.
    patience: Option<(Duration, bool)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not every task is open yet.
    Waiting,
    Reading,
    /// The last barrier has left; nothing is emitted any more.
    Sealed,
    /// The end was sent.
    Ended,
}

impl SourceTask {
    pub(crate) fn new(parts: SourceParts) -> Self {
        let mut spec = parts.node.time.clone();
        if let Some(spec) = spec.as_mut().filter(|_| parts.planted.is(Planted::UnreadSplitDoesNotHold)) {
            spec.splits_in_order = true;
        }
        let time = SourceTime::new(spec).with_suspends(parts.suspends).with_reloads(parts.node.plan.reloads);
        let retries = Retries::new(parts.meters.counters.errors.clone());
        let mut task = SourceTask {
            parts,
            reader: None,
            chains: Chains::default(),
            splits: Vec::new(),
            time,
            phase: Phase::Waiting,
            complete: false,
            ended: false,
            retries,
            retry_at: None,
            quiet_since: None,
            linger: false,
            patience: None,
        };
        let start = task.parts.ctx.start.clone();
        task.know(&start);
        task
    }

    /// The splits it begins with.
    pub(crate) fn split_ids(&self) -> Vec<SplitId> {
        self.splits.iter().map(|split| split.id.clone()).collect()
    }

    fn know(&mut self, splits: &[Split]) {
        for split in splits {
            self.splits.push(SplitAt { id: split.id.clone(), position: split.position.clone(), status: SplitStatus::Reading });
            self.time.add(split.id.clone(), self.parts.seen.get(&split.id).copied());
        }
    }

    /// What a finished split promised was said before it finished, so time loses nothing with it.
    fn forget(&mut self, splits: &[SplitId]) {
        let gone: BTreeSet<&SplitId> = splits.iter().collect();
        self.splits.retain(|split| split.status == SplitStatus::Reading || !gone.contains(&split.id));
        self.time.forget(&gone);
    }

    fn open(&mut self) -> Result<Turn> {
        self.chains = self.parts.chains.open()?;
        self.reader = Some(self.parts.node.source.open(self.parts.ctx.clone())?);
        self.parts.seat.report(Report::Opened);
        Ok(Turn::Progress)
    }

    fn take_commands(&mut self) -> Result<()> {
        while let Ok(command) = self.parts.commands.try_recv() {
            match command {
                Command::Start => self.phase = Phase::Reading,
                Command::Barrier(barrier) => self.on_barrier(barrier)?,
                Command::Assign(splits) => {
                    self.know(&splits);
                    self.reader()?.assign(splits)?;
                    self.retry_at = None;
                }
                Command::Forget(splits) => self.forget(&splits),
                Command::Complete => {
                    self.complete = true;
                    self.time.complete();
                }
                Command::Committed(positions) => {
                    if let Err(error) = self.reader()?.committed(&positions) {
                        self.parts.meters.counters.errors.add(error.kind());
                        // The next epoch says it again, with later positions.
                        match error.kind() {
                            ErrorKind::External { .. } => tracing::warn!(%error, task = self.parts.seat.name, "acknowledging rows failed"),
                            ErrorKind::Config | ErrorKind::Data | ErrorKind::Fenced | ErrorKind::Limit | ErrorKind::Internal => {
                                return Err(error);
                            }
                        }
                    }
                }
                Command::Settled => self.patience = None,
                Command::End => {
                    self.phase = Phase::Ended;
                    self.parts.outputs.end()?;
                }
            }
        }
        Ok(())
    }

    fn reader(&mut self) -> Result<&mut Box<dyn SourceReader>> {
        self.reader.as_mut().ok_or_else(|| Error::internal("the reader is not open"))
    }

    /// Everything sent before the barrier belongs to its epoch, whether or not it has left this task: positions are those of now.
    fn on_barrier(&mut self, barrier: Barrier) -> Result<()> {
        let ahead = self.run_ahead()?;
        let snapshot = self.snapshot();
        self.parts.outputs.barrier(barrier)?;
        self.parts.seat.report(Report::Acknowledged { epoch: barrier.epoch, snapshot: Box::new(snapshot) });
        self.parts.now = barrier.now;
        match barrier.kind {
            BarrierKind::Checkpoint => {
                let now = self.parts.seat.clock.monotonic();
                self.patience = Some((now.saturating_add(self.parts.max_epoch_delay), false));
            }
            BarrierKind::Drain | BarrierKind::Suspend => self.phase = Phase::Sealed,
        }
        if let Some(polled) = ahead {
            self.take(polled)?;
        }
        Ok(())
    }

    /// A planted mistake: reads the next rows before the barrier and sends them behind it.
    fn run_ahead(&mut self) -> Result<Option<Polled>> {
        if !self.parts.planted.is(Planted::PositionRunsAhead) || self.phase != Phase::Reading || self.all_finished() {
            return Ok(None);
        }
        let request = self.parts.poll;
        let polled = self.reader()?.poll(request)?;
        for chunk in &polled.chunks {
            if let Some(split) = self.splits.iter_mut().find(|split| split.id == chunk.split) {
                split.position = Some(chunk.position.clone());
            }
        }
        Ok(Some(polled))
    }

    fn snapshot(&self) -> TaskSnapshot {
        let forgets = |split: &&SplitAt| self.parts.planted.is(Planted::FinishedSplitForgotten) && split.status == SplitStatus::Finished;
        let splits = self.splits.iter().filter(|split| !forgets(split)).map(|split| SplitProgress {
            id: split.id.clone(),
            position: split.position.clone(),
            max_event_time: self.time.seen(&split.id),
            status: split.status,
        });
        TaskSnapshot { splits: BTreeMap::from([(self.parts.seat.node.clone(), splits.collect())]), ..TaskSnapshot::default() }
    }

    fn all_finished(&self) -> bool {
        self.splits.iter().all(|split| split.status == SplitStatus::Finished)
    }

    fn read(&mut self) -> Result<Turn> {
        if self.all_finished() {
            self.promise();
            if self.complete && !self.ended {
                self.ended = true;
                self.parts.seat.report(Report::SourceEnded);
            }
            return self.rest(None);
        }
        if self.time.has_loaded() && !self.ended {
            // A table beside streams goes on changing as long as they do.
            self.ended = true;
            self.parts.seat.report(Report::SourceEnded);
        }
        let before = self.parts.seat.clock.monotonic();
        if self.is_out_of_patience(before) {
            // It waits for us, not for the outside: that is not quiet.
            self.quiet_since = None;
            return self.rest(None);
        }
        if let Some(since) = self.quiet_since.take() {
            self.time.on_quiet(before.saturating_sub(since));
        }
        let waits = self.retries.wait(before).or(self.retry_at.filter(|at| *at > before));
        if let Some(at) = waits {
            self.promise();
            self.quiet_since = Some(before);
            let idle_at = self.time.next_idle().map(|idle| before.saturating_add(idle));
            return self.rest(Some(idle_at.map_or(at, |idle| idle.min(at))));
        }
        if self.linger {
            // Before waiting for the outside nothing of ours may wait.
            self.parts.outputs.settle()?;
            self.parts.outputs.flush()?;
        }
        let wait = if self.linger { LINGER } else { Duration::ZERO };
        let request = PollRequest { wait, ..self.parts.poll };
        let polled = match self.reader()?.poll(request) {
            Ok(polled) => polled,
            Err(error) => {
                self.retries.failed(error, before, &self.parts.seat.name)?;
                return Ok(Turn::Progress);
            }
        };
        self.retries.succeeded();
        let after = self.parts.seat.clock.monotonic();
        let retry_after = polled.retry_after;
        let nothing = polled.chunks.iter().all(|chunk| chunk.rows.num_rows() == 0 && chunk.filtered == 0 && chunk.bad.is_empty());
        let news = !polled.states.is_empty() || !polled.chunks.is_empty();
        self.take(polled)?;
        self.retry_at = retry_after.map(|wait| after.saturating_add(wait));
        if self.linger && nothing && retry_after.is_none() {
            // A source that does not use the wait it is granted is not asked in a busy loop.
            self.retry_at = Some(before.saturating_add(LINGER));
        }
        self.linger = nothing && !news;
        if nothing {
            // A poll may take long for reasons of its own; only the wait that it was granted counts.
            self.time.on_quiet(after.saturating_sub(before).min(wait));
            self.quiet_since = Some(after);
        }
        self.promise();
        self.parts.outputs.flush()?;
        Ok(Turn::Progress)
    }

    /// Whether the epoch in flight has been so long under way that what was read since must not become more: it can be neither
    /// acknowledged nor committed before.
    fn is_out_of_patience(&mut self, now: Duration) -> bool {
        let Some((until, said)) = self.patience.as_mut().filter(|(until, _)| *until <= now) else { return false };
        if !std::mem::replace(said, true) {
            let (task, delay) = (&self.parts.seat.name, self.parts.max_epoch_delay);
            tracing::warn!(task, ?delay, late = ?now.saturating_sub(*until), "the epoch in flight is late beyond `maxEpochDelay`; reading waits for it");
        }
        true
    }

    /// Nothing to do for now.
    fn rest(&mut self, until: Option<Duration>) -> Result<Turn> {
        self.parts.outputs.settle()?;
        if self.parts.outputs.flush()? { Ok(Turn::Starved { until }) } else { Ok(Turn::Backpressured) }
    }

    fn promise(&mut self) {
        let watermark = self.time.watermark();
        self.parts.meters.watermarks[self.parts.seat.task].set(watermark);
        self.parts.outputs.watermark(watermark);
    }

    fn take(&mut self, polled: Polled) -> Result<()> {
        let ends = self.ends(&polled.chunks);
        for (chunk, is_last) in polled.chunks.into_iter().zip(ends) {
            let split = chunk.split.clone();
            self.take_chunk(chunk, is_last).map_err(|error| match error.kind() {
                // Bad rows name their own place.
                ErrorKind::Data => error,
                ErrorKind::Config | ErrorKind::External { .. } | ErrorKind::Fenced | ErrorKind::Limit | ErrorKind::Internal => {
                    error.context(format!("split `{split}`"))
                }
            })?;
        }
        if polled.states.iter().any(|(_, state)| *state == SplitState::Finished) {
            // A split leaves the minimum when it finishes; what its last rows promised is said before.
            self.promise();
            self.parts.outputs.settle()?;
        }
        for (id, state) in polled.states {
            self.time.on_state(&id, state);
            if state == SplitState::Finished
                && let Some(split) = self.splits.iter_mut().find(|split| split.id == id)
            {
                split.status = SplitStatus::Finished;
            }
        }
        Ok(())
    }

    /// Which chunks of a poll are the last of their split, if anybody wants to know.
    fn ends(&self, chunks: &[Chunk]) -> Vec<bool> {
        let mut ends = vec![true; chunks.len()];
        if self.parts.node.emit_splits {
            let mut seen = BTreeSet::new();
            for (at, chunk) in chunks.iter().enumerate().rev() {
                ends[at] = seen.insert(&chunk.split);
            }
        }
        ends
    }

    /// Takes rows; `is_last` says whether no more of their split come with this poll.
    fn take_chunk(&mut self, chunk: Chunk, is_last: bool) -> Result<()> {
        let known = self.splits.iter().position(|split| split.id == chunk.split && split.status == SplitStatus::Reading);
        let Some(at) = known else {
            return Err(Error::internal(format!(
                "source `{}` handed over rows of a split that is not being read",
                self.parts.node.dataset
            )));
        };
        let counters = self.parts.meters.counters.clone();
        counters.rows_in.add(chunk.rows.num_rows() as u64 + chunk.filtered + chunk.bad.len() as u64);
        counters.filtered.add(chunk.filtered);
        let origin = Origin { source: Some(&self.parts.node.dataset), split: Some(&chunk.split), position: Some(&chunk.position) };
        self.parts.bad.report(chunk.bad, self.parts.node.on_bad, Finder::default(), origin, &counters.bad, &mut self.parts.outputs)?;

        let rows = with_keys(&self.parts.node, &self.parts.schema, chunk.rows, &chunk.ordinals, &chunk.split)?;
        let surveyed = survey(self.parts.node.time.as_ref(), &rows, self.parts.seat.clock.wall())?;
        let before = self.time.promised(&chunk.split);
        self.time.on_rows(&chunk.split, surveyed.latest.max(chunk.filtered_max_time), chunk.watermark);
        // Chunks of one poll may overlap in time: until the last of them nothing is promised.
        let promises = [before, if is_last { self.time.promises(&chunk.split) } else { before }];
        let rows = with_origin(&self.parts.node, &self.parts.schema, rows, &chunk.split, promises)?;
        let mut way = Way { outputs: &mut self.parts.outputs, bad: &self.parts.bad, origin, now: self.parts.now };
        let rows = match surveyed.to_late {
            None => rows,
            Some(future) => {
                counters.late.add(future.true_count() as u64);
                if let Some(late) = &mut self.chains.late {
                    late.run(filter_record_batch(&rows, &future)?, &mut way)?;
                }
                filter_record_batch(&rows, &not(&future)?)?
            }
        };
        counters.rows_out.add(rows.num_rows() as u64);
        self.chains.main.run(rows, &mut way)?;
        self.splits[at].position = Some(chunk.position);
        Ok(())
    }
}

impl Task for SourceTask {
    fn step(&mut self) -> Result<Turn> {
        if self.reader.is_none() {
            return self.open();
        }
        self.take_commands()?;
        if !self.parts.outputs.flush()? {
            // Time in which the engine is in the way is nobody's idleness.
            self.quiet_since = None;
            return Ok(Turn::Backpressured);
        }
        match self.phase {
            Phase::Waiting => Ok(Turn::Starved { until: None }),
            Phase::Reading => self.read(),
            Phase::Sealed => self.rest(None),
            Phase::Ended => Ok(Turn::Done),
        }
    }
}

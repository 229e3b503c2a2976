//! The single control participant of an attempt: it executes what the epoch machine decides.
//!
//! Like a task it is stepped and never waits for a task. One step takes the reports that have come, or carries out one action, so that
//! a simulator may end everything between any two. Between the store, the sinks' committers and the sources it is the only
//! one that writes; what it must not do, the machine does not order.

mod handle;

pub(crate) use self::handle::{SourceHandle, SourceTaskHandle};

use crate::job::{Job, JobControl};
use crate::killpoint::{KillPoint, Watched};
use crate::planted::Planted;
use crate::task::{Command, Report};
use crossbeam_channel::Receiver;
use std::collections::VecDeque;
use std::time::Duration;
use tidegate_api::{Committer, Epoch, Error, ErrorKind, Position, Result, SplitId};
use tidegate_epochs::manifest::End;
use tidegate_epochs::{Action, EpochMachine, Fact, Ledger, Pruner, Published, Step, claim, mark_committed, publish, recovery};

/// How often a discovery may fail in a row before the attempt does.
const DISCOVERIES: u32 = 10;

/// What a coordinator is made of.
pub(crate) struct CoordinatorParts {
    pub(crate) job: Job,
    pub(crate) control: JobControl,
    pub(crate) machine: EpochMachine,
    pub(crate) ledger: Ledger,
    pub(crate) pruner: Pruner,
    /// Of the two-phase sinks, by node.
    pub(crate) committers: Vec<(String, Box<dyn Committer>)>,
    pub(crate) sources: Vec<SourceHandle>,
    pub(crate) reports: Receiver<(usize, Report)>,
    pub(crate) tasks: usize,
}

/// How a run went to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) epoch: Epoch,
    /// Somebody asked for it.
    pub(crate) stopped: bool,
}

/// What a step of the coordinator came to.
#[derive(Debug)]
pub(crate) enum Control {
    /// Step again.
    Progress,
    /// Nothing to do before the signal rises or this time has come.
    Waiting { until: Duration },
    /// The attempt is over and the tasks have ended, or must.
    Over(Result<Finished>),
}

/// See the module's documentation.
pub(crate) struct Coordinator {
    parts: CoordinatorParts,
    todo: VecDeque<Action>,
    opened: usize,
    ended_sources: usize,
    exited: usize,
    running: bool,
    stop_told: bool,
    ticked: Option<Duration>,
    finishing: Option<Finished>,
    course: Course,
}

/// When the epoch in flight came how far, for those who look at the log.
#[derive(Debug, Default)]
struct Course {
    injected: Duration,
    acknowledged: Duration,
    durable: Duration,
    bytes: u64,
}

impl Coordinator {
    pub(crate) fn new(parts: CoordinatorParts) -> Self {
        Coordinator {
            parts,
            todo: VecDeque::new(),
            opened: 0,
            ended_sources: 0,
            exited: 0,
            running: false,
            stop_told: false,
            ticked: None,
            finishing: None,
            course: Course::default(),
        }
    }

    /// Takes one bounded step.
    pub(crate) fn step(&mut self) -> Control {
        match self.try_step() {
            Ok(control) => control,
            // What the machine did not order and did not see fail: a kill hook, a broken invariant.
            Err(error) => Control::Over(Err(error)),
        }
    }

    fn try_step(&mut self) -> Result<Control> {
        if let Some(action) = self.todo.pop_front() {
            return self.execute(action);
        }
        if self.take_reports()? {
            return Ok(Control::Progress);
        }
        if let Some(finished) = self.finishing {
            if self.exited == self.parts.tasks {
                return Ok(Control::Over(Ok(finished)));
            }
            return Ok(Control::Waiting { until: self.now().saturating_add(self.tick()) });
        }
        if self.running {
            if self.parts.control.is_stopping() && !self.stop_told {
                self.stop_told = true;
                self.tell(Fact::StopRequested);
                return Ok(Control::Progress);
            }
            self.discover()?;
            let now = self.now();
            if self.ticked.is_none_or(|at| now.saturating_sub(at) >= self.tick()) {
                self.ticked = Some(now);
                self.tell(Fact::Tick { monotonic: now, wall: self.parts.job.config.clock.wall() });
                return Ok(Control::Progress);
            }
        }
        if !self.todo.is_empty() {
            return Ok(Control::Progress);
        }
        let last = self.ticked.unwrap_or_else(|| self.now());
        Ok(Control::Waiting { until: last.saturating_add(self.tick()) })
    }

    fn now(&self) -> Duration {
        self.parts.job.config.clock.monotonic()
    }

    /// Often enough for the interval and for back-offs.
    fn tick(&self) -> Duration {
        (self.parts.job.config.checkpoint_every / 4).clamp(Duration::from_millis(1), Duration::from_millis(100))
    }

    fn tell(&mut self, fact: Fact) {
        if let Fact::Failed { epoch, step, error } = &fact
            && matches!(error.kind(), ErrorKind::External { .. })
        {
            tracing::warn!(%error, %epoch, ?step, "a step of the epoch failed and will be repeated; rows go on being read meanwhile");
        }
        self.todo.extend(self.parts.machine.on(fact));
    }

    /// Takes every report that has come. Answers whether there was one.
    fn take_reports(&mut self) -> Result<bool> {
        let mut any = false;
        while let Ok((task, report)) = self.parts.reports.try_recv() {
            any = true;
            match report {
                Report::Opened => {
                    self.opened += 1;
                    if self.opened == self.parts.tasks {
                        self.parts.job.config.kill(KillPoint::Opened, self.parts.ledger.manifest().epoch)?;
                        self.running = true;
                        self.parts.sources.iter().for_each(|source| source.tell(|| Command::Start));
                    }
                }
                Report::Acknowledged { epoch, snapshot } => match self.parts.ledger.add(*snapshot) {
                    Ok(()) => self.tell(Fact::TaskAcked { task, epoch }),
                    Err(error) => self.tell(Fact::JobFailed { error }),
                },
                Report::SourceEnded => {
                    self.ended_sources += 1;
                    let all: usize = self.parts.sources.iter().map(|source| source.tasks.len()).sum();
                    if self.ended_sources == all {
                        self.tell(Fact::AllSourcesEnded);
                    }
                }
                Report::Failed(error) if self.finishing.is_some() => {
                    // The last epoch is complete and marked; nothing is lost with a task that ends badly.
                    tracing::warn!(%error, "a task failed after the last epoch");
                    self.exited += 1;
                }
                Report::Failed(error) => self.tell(Fact::JobFailed { error }),
                Report::Exited => self.exited += 1,
            }
        }
        Ok(any)
    }

    /// Looks for new splits of every source whose time has come.
    fn discover(&mut self) -> Result<()> {
        let now = self.now();
        for source in &mut self.parts.sources {
            let Some(every) = source.source.discover_every().filter(|_| !source.complete) else { continue };
            let last = *source.discovered.get_or_insert(now);
            if now.saturating_sub(last) < every {
                continue;
            }
            source.discovered = Some(now);
            let found = match source.source.discover(source.cursor.as_deref()) {
                Ok(found) => found,
                Err(error) => {
                    source.failed += 1;
                    let external = matches!(error.kind(), ErrorKind::External { .. });
                    if !external || source.failed >= DISCOVERIES {
                        return Err(error.context(format!("source `{}`: finding its splits", source.dataset)));
                    }
                    tracing::warn!(%error, source = source.dataset, "finding splits failed and will be repeated");
                    continue;
                }
            };
            source.failed = 0;
            if found.cursor.is_some() {
                source.cursor.clone_from(&found.cursor);
            }
            for split in self.parts.ledger.discovered(&source.node, &found)? {
                let task = source.next % source.tasks.len();
                source.next += 1;
                source.owners.insert(split.id.clone(), task);
                source.tasks[task].tell(Command::Assign(vec![split]));
            }
            if found.complete {
                source.complete = true;
                source.tell(|| Command::Complete);
            }
        }
        Ok(())
    }

    fn forget_finished(&mut self) {
        for source in self.parts.sources.iter_mut().filter(|source| source.source.remembers_splits()) {
            source.forget(self.parts.ledger.forget_finished(&source.node));
        }
    }

    fn execute(&mut self, action: Action) -> Result<Control> {
        match action {
            Action::InjectBarrier(barrier) => {
                self.parts.ledger.begin(barrier);
                self.course = Course { injected: self.now(), ..Course::default() };
                self.parts.sources.iter().for_each(|source| source.tell(|| Command::Barrier(barrier)));
            }
            Action::WriteStates { epoch } => {
                self.parts.job.config.kill(KillPoint::Prepare, epoch)?;
                self.course.acknowledged = self.now();
                let fact = match self.write_states(epoch)? {
                    Ok(()) => {
                        self.course.durable = self.now();
                        Fact::StatesDurable { epoch }
                    }
                    Err(error) => Fact::Failed { epoch, step: Step::States, error },
                };
                self.tell(fact);
            }
            Action::CreateManifest { epoch, ended } => {
                self.parts.job.config.kill(KillPoint::BeforeManifest, epoch)?;
                let fact = match self.create_manifest(epoch, ended)? {
                    Ok(fact) => fact,
                    Err(error) => Fact::Failed { epoch, step: Step::Manifest, error },
                };
                if matches!(fact, Fact::ManifestCreated { .. }) {
                    self.parts.job.config.kill(KillPoint::AfterManifest, epoch)?;
                }
                self.tell(fact);
            }
            Action::CommitSinks { epoch } => {
                let fact = match self.commit(epoch)? {
                    Ok(()) => Fact::SinksCommitted { epoch },
                    Err(error) => Fact::Failed { epoch, step: Step::Sinks, error },
                };
                self.tell(fact);
            }
            Action::AcknowledgeSources { epoch } => self.acknowledge(epoch),
            Action::WriteMark { epoch } => {
                self.parts.job.config.kill(KillPoint::BeforeMark, epoch)?;
                let fact = match self.write_mark() {
                    Ok(()) => Fact::MarkWritten { epoch },
                    Err(error) => Fact::Failed { epoch, step: Step::Mark, error },
                };
                if matches!(fact, Fact::MarkWritten { .. }) {
                    self.parts.job.config.kill(KillPoint::AfterMark, epoch)?;
                    self.parts.sources.iter().for_each(|source| source.tell(|| Command::Settled));
                    self.forget_finished();
                    self.log_course(epoch);
                }
                self.tell(fact);
                self.parts.control.settled(self.parts.machine.settled());
            }
            Action::Prune { newest } => {
                let config = &self.parts.job.config;
                let store = Watched::new(self.parts.job.store.as_ref(), config.kill.as_ref(), KillPoint::MidPrune, newest);
                let pruned = self.parts.pruner.prune(&store);
                store.survived()?;
                match pruned {
                    Ok(()) => config.kill(KillPoint::AfterPrune, newest)?,
                    Err(error) => tracing::warn!(%error, epoch = %newest, "pruning failed; the next epoch tries again"),
                }
            }
            Action::RenewClaim => self.renew_claim(),
            Action::SendEndOfStream => self.parts.sources.iter().for_each(|source| source.tell(|| Command::End)),
            Action::Finish { epoch, end } => {
                self.finishing = Some(Finished { epoch, stopped: self.stop_told && end == End::Suspend });
            }
            Action::Fail(error) => return Ok(Control::Over(Err(error))),
        }
        Ok(Control::Progress)
    }

    fn write_mark(&self) -> Result<()> {
        if self.parts.job.config.planted().is(Planted::MarkMissing) {
            return Ok(());
        }
        mark_committed(self.parts.job.store.as_ref(), self.parts.ledger.manifest())
    }

    /// The outer error ends the attempt, the inner one may be repeated; so for all that follow.
    fn write_states(&mut self, epoch: Epoch) -> Result<Result<()>> {
        let (store, config) = (&self.parts.job.store, &self.parts.job.config);
        let mut ended = None;
        let total = &mut self.course.bytes;
        *total = 0;
        let written = self.parts.ledger.write_objects(|key, bytes| {
            store.put(key, bytes)?;
            *total += bytes.len() as u64;
            config.kill(KillPoint::MidStates, epoch).map_err(|error| {
                let message = error.to_string();
                ended = Some(error);
                Error::internal(message)
            })
        });
        match ended {
            Some(error) => Err(error),
            None if config.planted().is(Planted::StateNotAwaited) => Ok(Ok(())),
            None => Ok(written),
        }
    }

    /// Says how long what took: until all tasks had acknowledged, until their state was written, until the mark.
    fn log_course(&self, epoch: Epoch) {
        let Course { injected, acknowledged, durable, bytes } = self.course;
        let millis = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64() * 1e3;
        tracing::debug!(
            %epoch,
            acknowledged_ms = millis(injected, acknowledged),
            written_ms = millis(acknowledged, durable),
            settled_ms = millis(durable, self.now()),
            bytes,
            "epoch settled"
        );
    }

    fn create_manifest(&mut self, epoch: Epoch, ended: Option<End>) -> Result<Result<Fact>> {
        let config = &self.parts.job.config;
        let manifest = match self.parts.ledger.seal(ended, config.clock.wall()) {
            Ok(manifest) => manifest,
            Err(error) => return Ok(Err(error)),
        };
        let store = Watched::new(self.parts.job.store.as_ref(), config.kill.as_ref(), KillPoint::MidManifest, epoch);
        let published = publish(&store, manifest);
        store.survived()?;
        Ok(published.map(|published| self.created(epoch, published)))
    }

    fn created(&mut self, epoch: Epoch, published: Published) -> Fact {
        match published {
            Published::Ours => {
                self.parts.ledger.published();
                self.parts.pruner.published(self.parts.ledger.manifest());
                Fact::ManifestCreated { epoch }
            }
            Published::Theirs { owner } => {
                #[cfg(feature = "testkit")]
                if self.parts.job.config.planted().is(Planted::Epochs(tidegate_epochs::PlantedBug::FenceSkipped)) {
                    self.parts.ledger.published();
                }
                Fact::ManifestConflict { epoch, owner }
            }
        }
    }

    fn commit(&mut self, epoch: Epoch) -> Result<Result<()>> {
        for (sink, committer) in &mut self.parts.committers {
            let tokens = self.parts.ledger.pending(epoch, sink);
            if tokens.is_empty() {
                continue;
            }
            if let Err(error) = recovery::commit(committer.as_mut(), sink, epoch, &tokens) {
                return Ok(Err(error));
            }
            self.parts.job.config.kill(KillPoint::MidCommit, epoch)?;
        }
        Ok(Ok(()))
    }

    fn acknowledge(&self, epoch: Epoch) {
        for source in &self.parts.sources {
            let positions = self.parts.ledger.positions(epoch, &source.node);
            let mut by_task: Vec<Vec<(SplitId, Position)>> = vec![Vec::new(); source.tasks.len()];
            for (split, position) in positions {
                if let Some(owner) = source.owners.get(&split) {
                    by_task[*owner].push((split, position));
                }
            }
            for (task, positions) in source.tasks.iter().zip(by_task) {
                if !positions.is_empty() {
                    task.tell(Command::Committed(positions));
                }
            }
        }
    }

    fn renew_claim(&self) {
        let wall = self.parts.job.config.clock.wall();
        if let Err(error) = claim::renew(self.parts.job.store.as_ref(), self.parts.ledger.manifest(), wall) {
            tracing::warn!(%error, "renewing the claim failed");
        }
    }

    /// Gives the claim up, so that the next start need not wait for it to run out. Called when every task has ended; a fenced
    /// start has nothing to give up.
    pub(crate) fn release_claim(&self) {
        let wall = self.parts.job.config.clock.wall();
        if let Err(error) = claim::release(self.parts.job.store.as_ref(), self.parts.ledger.manifest(), wall) {
            tracing::warn!(%error, "giving up the claim failed; it runs out by itself");
        }
    }
}

/// Makes an error of what a driver found at the end of an attempt.
pub(crate) fn overdue(names: &[String], grace: Duration) -> Error {
    Error::internal(format!("{} did not end within {grace:?}; the process must end before another start", names.join(", ")))
}

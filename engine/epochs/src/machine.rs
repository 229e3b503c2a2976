//! The life of epochs as a pure machine: facts in, actions out, no clock, no store, no thread.
//!
//! The order is all of exactly-once: every task acknowledged, state objects durable, manifest created if absent, sinks
//! committed, then sources acknowledged, commit mark written, the next epoch. Whoever drives the machine (the runtime's
//! coordinator, the simulator) executes the actions in the order given and answers with facts; a late answer to a step that
//! has passed is ignored, an answer to a question that was not asked is a broken invariant and ends the run.
//!
//! One epoch is in flight at a time and none is skipped: a failed write is repeated after a back-off counted in ticks until it
//! succeeds or the run fails. After [`Action::Finish`] or [`Action::Fail`] no action is ever returned again, so a fenced
//! start cannot write, commit or delete anything.

#[cfg(any(test, feature = "testkit"))]
mod planted;
#[cfg(test)]
mod tests;

#[cfg(any(test, feature = "testkit"))]
pub use planted::PlantedBug;

use crate::manifest::End;
use std::time::Duration;
use tidegate_api::{Barrier, BarrierKind, Epoch, Error, ErrorKind, EventTime};

/// What a bounded input ends in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AtEnd {
    /// Every window fires and the run is complete.
    #[default]
    Drain,
    /// Windows stay open; a later run goes on with new input.
    Suspend,
}

/// What a machine is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineConfig {
    /// How many tasks acknowledge a barrier; they are numbered from 0.
    pub tasks: usize,
    /// Time between the barriers of two checkpoints.
    pub interval: Duration,
    /// What a bounded input ends in.
    pub at_end: AtEnd,
    /// The newest epoch, published and settled; the first barrier is that of the one after it.
    pub after: Epoch,
    /// How often a step of one epoch is tried before the run fails.
    pub attempts: u32,
}

impl MachineConfig {
    /// A machine that goes on after `after`, drains, and tries each step ten times.
    pub fn new(tasks: usize, interval: Duration, after: Epoch) -> Self {
        MachineConfig { tasks, interval, at_end: AtEnd::Drain, after, attempts: 10 }
    }

    /// Sets what a bounded input ends in.
    #[must_use]
    pub fn with_at_end(mut self, at_end: AtEnd) -> Self {
        self.at_end = at_end;
        self
    }

    /// Sets how often a step is tried.
    #[must_use]
    pub fn with_attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }
}

/// A step of an epoch that talks to the outside and can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Writing state objects.
    States,
    /// Creating the manifest and its copy.
    Manifest,
    /// Committing sinks.
    Sinks,
    /// Writing the commit mark.
    Mark,
}

/// What happened.
#[derive(Debug)]
pub enum Fact {
    /// Time went on. Comes regularly; intervals and back-offs are measured by it.
    Tick {
        /// Time since an arbitrary origin.
        monotonic: Duration,
        /// Wall time, the `now()` of a barrier injected now.
        wall: EventTime,
    },
    /// A task has forwarded the barrier and handed over its snapshot (and, if it is a sink, its token).
    TaskAcked {
        /// The task.
        task: usize,
        /// The barrier's epoch.
        epoch: Epoch,
    },
    /// Every state object of the epoch is durable.
    StatesDurable {
        /// The epoch.
        epoch: Epoch,
    },
    /// This start's manifest exists, both copies.
    ManifestCreated {
        /// The epoch.
        epoch: Epoch,
    },
    /// Another start's manifest exists under this number.
    ManifestConflict {
        /// The epoch.
        epoch: Epoch,
        /// Who made it, for the message.
        owner: String,
    },
    /// Every token of the epoch is committed.
    SinksCommitted {
        /// The epoch.
        epoch: Epoch,
    },
    /// A sink said that an epoch's rows are gone.
    SinkLost {
        /// The epoch.
        epoch: Epoch,
        /// The sink.
        sink: String,
        /// Why, in its words.
        reason: String,
    },
    /// The commit mark is durable.
    MarkWritten {
        /// The epoch.
        epoch: Epoch,
    },
    /// A step failed. `External` errors are repeated, all others end the run.
    Failed {
        /// The epoch.
        epoch: Epoch,
        /// The step.
        step: Step,
        /// Why.
        error: Error,
    },
    /// A task or anything else of the job failed for good.
    JobFailed {
        /// Why.
        error: Error,
    },
    /// Somebody wants the run to stop.
    StopRequested,
    /// Every source is complete and every split finished.
    AllSourcesEnded,
}

/// What to do now, in the order returned.
#[derive(Debug)]
pub enum Action {
    /// Send this barrier from every source task, between two chunks. Answered by a [`Fact::TaskAcked`] of every task.
    InjectBarrier(Barrier),
    /// Write the state objects the snapshots brought. Answered by [`Fact::StatesDurable`] or [`Fact::Failed`].
    WriteStates {
        /// The epoch.
        epoch: Epoch,
    },
    /// Create the manifest if absent. Answered by [`Fact::ManifestCreated`], [`Fact::ManifestConflict`] or [`Fact::Failed`].
    CreateManifest {
        /// The epoch.
        epoch: Epoch,
        /// What the manifest says follows.
        ended: Option<End>,
    },
    /// Commit every token of the manifest. Answered by [`Fact::SinksCommitted`], [`Fact::SinkLost`] or [`Fact::Failed`].
    CommitSinks {
        /// The epoch.
        epoch: Epoch,
    },
    /// Tell the readers that the manifest's positions are durable. Not answered; it may be lost.
    AcknowledgeSources {
        /// The epoch.
        epoch: Epoch,
    },
    /// Write the commit mark. Answered by [`Fact::MarkWritten`] or [`Fact::Failed`].
    WriteMark {
        /// The epoch.
        epoch: Epoch,
    },
    /// Delete what this epoch made superfluous. Not answered; a failure is logged.
    Prune {
        /// The newest epoch, which is kept.
        newest: Epoch,
    },
    /// Say again that this generation is alive. Not answered; a failure is logged.
    RenewClaim,
    /// The last epoch is complete: the sources send `EndOfStream` and every task ends.
    SendEndOfStream,
    /// The run is over. The last action.
    Finish {
        /// The last epoch.
        epoch: Epoch,
        /// How it ended.
        end: End,
    },
    /// The run has failed, or is fenced (by the error's kind). The last action.
    Fail(Error),
}

/// Where the machine is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Rows flow; no barrier is on its way.
    Idle,
    /// A barrier is on its way through the tasks.
    Aligning,
    /// One step is being done, or waits to be repeated.
    Doing(Step),
    /// Finished, failed or fenced.
    Over,
}

#[derive(Debug, Clone, Copy)]
struct Now {
    monotonic: Duration,
    wall: EventTime,
}

/// The machine. See the module's documentation.
#[derive(Debug)]
pub struct EpochMachine {
    config: MachineConfig,
    phase: Phase,
    /// The newest settled epoch; the one in flight is the next.
    settled: Epoch,
    kind: BarrierKind,
    acked: Vec<bool>,
    missing: usize,
    clock: Option<Now>,
    last_barrier: Duration,
    last_claim: Option<Duration>,
    attempts: u32,
    /// Ticks until the step is repeated; `None` while its answer is awaited.
    back_off: Option<u32>,
    stop: bool,
    ended: bool,
    #[cfg(any(test, feature = "testkit"))]
    planted: PlantedBug,
}

impl EpochMachine {
    /// A machine at rest.
    pub fn new(config: MachineConfig) -> Self {
        EpochMachine {
            phase: Phase::Idle,
            settled: config.after,
            kind: BarrierKind::Checkpoint,
            acked: vec![false; config.tasks],
            missing: config.tasks,
            clock: None,
            last_barrier: Duration::ZERO,
            last_claim: None,
            attempts: 0,
            back_off: None,
            stop: false,
            ended: false,
            #[cfg(any(test, feature = "testkit"))]
            planted: PlantedBug::None,
            config,
        }
    }

    /// Where it is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The newest epoch whose mark is written.
    pub fn settled(&self) -> Epoch {
        self.settled
    }

    /// The epoch whose rows are flowing or whose barrier is on its way.
    pub fn current(&self) -> Epoch {
        self.settled.next()
    }

    /// How many tasks have not yet acknowledged the barrier on its way.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Takes a fact and decides.
    pub fn on(&mut self, fact: Fact) -> Vec<Action> {
        if self.phase == Phase::Over {
            return Vec::new();
        }
        match fact {
            Fact::Tick { monotonic, wall } => self.on_tick(Now { monotonic, wall }),
            Fact::TaskAcked { task, epoch } => self.on_ack(task, epoch),
            Fact::StatesDurable { epoch } => self.on_done(epoch, Step::States),
            Fact::ManifestCreated { epoch } => self.on_done(epoch, Step::Manifest),
            Fact::SinksCommitted { epoch } => self.on_done(epoch, Step::Sinks),
            Fact::MarkWritten { epoch } => self.on_done(epoch, Step::Mark),
            Fact::ManifestConflict { epoch, owner } => self.on_conflict(epoch, &owner),
            Fact::SinkLost { epoch, sink, reason } => self
                .fail(Error::data(format!("sink `{sink}` has lost the rows of epoch {epoch}: {reason}; the manifest keeps their token"))),
            Fact::Failed { epoch, step, error } => self.on_failed(epoch, step, error),
            Fact::JobFailed { error } => self.fail(error),
            Fact::StopRequested => {
                self.stop = true;
                self.next_barrier()
            }
            Fact::AllSourcesEnded => {
                self.ended = true;
                self.next_barrier()
            }
        }
    }

    fn on_tick(&mut self, now: Now) -> Vec<Action> {
        if self.clock.is_none() {
            self.last_barrier = now.monotonic;
        }
        self.clock = Some(now);
        let mut actions = Vec::new();
        if self.last_claim.is_none_or(|last| now.monotonic.saturating_sub(last) >= self.config.interval) {
            self.last_claim = Some(now.monotonic);
            actions.push(Action::RenewClaim);
        }
        if let (Phase::Doing(step), Some(ticks)) = (self.phase, self.back_off) {
            if ticks <= 1 {
                self.back_off = None;
                actions.push(self.order(step));
            } else {
                self.back_off = Some(ticks - 1);
            }
        }
        actions.extend(self.next_barrier());
        actions
    }

    /// Injects a barrier if none is on its way and one is due. A stop comes before the end of input: what was not begun is not begun.
    fn next_barrier(&mut self) -> Vec<Action> {
        let (Phase::Idle, Some(now)) = (self.phase, self.clock) else {
            return Vec::new();
        };
        let due = now.monotonic.saturating_sub(self.last_barrier) >= self.config.interval;
        let kind = match (self.stop, self.ended, self.config.at_end) {
            (true, _, _) => BarrierKind::Suspend,
            (false, true, AtEnd::Suspend) => BarrierKind::Suspend,
            (false, true, AtEnd::Drain) => BarrierKind::Drain,
            (false, false, _) if due => BarrierKind::Checkpoint,
            (false, false, _) => return Vec::new(),
        };
        self.phase = Phase::Aligning;
        self.kind = kind;
        self.last_barrier = now.monotonic;
        self.acked.fill(false);
        self.missing = self.config.tasks;
        vec![Action::InjectBarrier(Barrier { epoch: self.current(), kind, now: now.wall })]
    }

    fn on_ack(&mut self, task: usize, epoch: Epoch) -> Vec<Action> {
        if epoch != self.current() || self.phase != Phase::Aligning {
            return self.fail(Error::internal(format!("task {task} acknowledged epoch {epoch}, which is not on its way")));
        }
        match self.acked.get_mut(task) {
            Some(acked) if !*acked => *acked = true,
            Some(_) => return self.fail(Error::internal(format!("task {task} acknowledged epoch {epoch} twice"))),
            None => return self.fail(Error::internal(format!("there is no task {task} to acknowledge epoch {epoch}"))),
        }
        self.missing -= 1;
        if self.missing > 0 {
            return Vec::new();
        }
        let mut actions = self.planted_at_states();
        actions.push(self.enter(Step::States));
        actions
    }

    fn on_done(&mut self, epoch: Epoch, done: Step) -> Vec<Action> {
        if self.has_passed(epoch, done) || (self.phase != Phase::Doing(done) && self.is_planted_answer(done)) {
            return Vec::new();
        }
        if epoch != self.current() || self.phase != Phase::Doing(done) {
            return self.fail(Error::internal(format!("step {done:?} of epoch {epoch} was answered without having been asked for")));
        }
        match done {
            Step::States => vec![self.enter(Step::Manifest)],
            Step::Manifest => self.after_manifest(),
            Step::Sinks => vec![Action::AcknowledgeSources { epoch }, self.enter(Step::Mark)],
            Step::Mark => self.after_mark(),
        }
    }

    fn after_mark(&mut self) -> Vec<Action> {
        let epoch = self.current();
        self.settled = epoch;
        self.back_off = None;
        let mut actions = vec![Action::Prune { newest: epoch }];
        match self.end() {
            Some(end) => {
                self.phase = Phase::Over;
                actions.push(Action::SendEndOfStream);
                actions.push(Action::Finish { epoch, end });
            }
            None => {
                self.phase = Phase::Idle;
                actions.extend(self.next_barrier());
            }
        }
        actions
    }

    fn on_conflict(&mut self, epoch: Epoch, owner: &str) -> Vec<Action> {
        if self.fence_is_skipped() && self.phase == Phase::Doing(Step::Manifest) {
            return self.on_done(epoch, Step::Manifest);
        }
        self.fail(Error::fenced(format!(
            "epoch {epoch} was published by `{owner}`, a later start of this pipeline; this one writes nothing more"
        )))
    }

    fn on_failed(&mut self, epoch: Epoch, step: Step, error: Error) -> Vec<Action> {
        match error.kind() {
            ErrorKind::External { .. } => {}
            ErrorKind::Config | ErrorKind::Data | ErrorKind::Fenced | ErrorKind::Limit | ErrorKind::Internal => return self.fail(error),
        }
        if epoch != self.current() || self.phase != Phase::Doing(step) {
            // A late answer; the step has been repeated with success since, or is being repeated.
            return Vec::new();
        }
        self.attempts += 1;
        if self.attempts >= self.config.attempts {
            return self.fail(error.context(format!("epoch {epoch}, attempt {} of {step:?}", self.attempts)));
        }
        // 1, 2, 4, … 32 ticks.
        self.back_off = Some(1 << (self.attempts - 1).min(5));
        Vec::new()
    }

    /// Whether the answer is a late one to a step that was done before.
    fn has_passed(&self, epoch: Epoch, step: Step) -> bool {
        let later = match self.phase {
            Phase::Doing(now) => step < now,
            Phase::Idle | Phase::Aligning | Phase::Over => false,
        };
        epoch <= self.settled || (epoch == self.current() && later)
    }

    fn enter(&mut self, step: Step) -> Action {
        self.phase = Phase::Doing(step);
        self.attempts = 0;
        self.back_off = None;
        self.order(step)
    }

    fn order(&self, step: Step) -> Action {
        let epoch = self.current();
        match step {
            Step::States => Action::WriteStates { epoch },
            Step::Manifest => Action::CreateManifest { epoch, ended: self.end() },
            Step::Sinks => Action::CommitSinks { epoch },
            Step::Mark => Action::WriteMark { epoch },
        }
    }

    fn end(&self) -> Option<End> {
        match self.kind {
            BarrierKind::Checkpoint => None,
            BarrierKind::Drain => Some(End::Drain),
            BarrierKind::Suspend => Some(End::Suspend),
        }
    }

    fn fail(&mut self, error: Error) -> Vec<Action> {
        self.phase = Phase::Over;
        vec![Action::Fail(error)]
    }
}

#[cfg(not(any(test, feature = "testkit")))]
impl EpochMachine {
    fn planted_at_states(&self) -> Vec<Action> {
        Vec::new()
    }

    fn after_manifest(&mut self) -> Vec<Action> {
        vec![self.enter(Step::Sinks)]
    }

    fn fence_is_skipped(&self) -> bool {
        false
    }

    fn is_planted_answer(&self, _: Step) -> bool {
        false
    }
}

//! The seeded simulator: the same tasks and coordinator as in production, without threads.
//!
//! A seed decides which participant steps next, when time passes and clocks jump, when the store fails, is slow or carries out a call long
//! after it was given up, when somebody asks for a stop, and when everything dies: between any two steps, inside any call of the
//! store, or at a kill point. What died or stopped is started again from the store, perhaps with other numbers of tasks. Sometimes it is
//! not dead but only slow: then it goes on beside its successor, as a machine does that was cut off, and has to be fenced. Equal
//! seeds give equal traces. Every transition is held to the named [`INVARIANTS`].
//!
//! Only participants whose signal is up, or whose time has come, are stepped, as a parked thread would be. So a forgotten
//! wake-up is a deadlock, and the simulator says so.

mod process;
mod random;
pub mod seeds;
mod store;
pub mod watch;

pub use self::random::SimRandom;
pub use self::watch::INVARIANTS;

use self::process::{Fate, Process, Traces};
use self::store::{LateStore, SlowStore, Stragglers};
use self::watch::{Event, Watch, WatchedStore, watch_ends};
use crate::graph::JobGraph;
use crate::job::{Ending, Job, JobConfig, JobControl};
use crate::killpoint::KillPoint;
use crate::start::{Start, start};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::testkit::ManualClock;
use tidegate_api::{Clock, Epoch, Error, ErrorKind, EventTime, Result};
use tidegate_epochs::testkit::{Fault, FaultPlan, FaultyStore};
use tidegate_epochs::{EpochStore, MemoryStore};

/// What happens around the job.
#[derive(Debug, Clone)]
pub struct SimConfig {
    /// Decides everything.
    pub seed: u64,
    /// How many deaths there are at most; afterwards nothing dies, so that the job comes to its end.
    pub deaths: u32,
    /// Whether some of the dead are only cut off and go on beside their successor.
    pub zombies: bool,
    /// Whether calls of the store fail, take time, and arrive late.
    pub faults: bool,
    /// How many stops are asked for at most; what stopped is started again.
    pub stops: u32,
    /// Whether clocks jump: the wall clock alone, in both directions, or both as after a suspended machine.
    pub jumps: bool,
    /// How often the job comes to its end before the simulation does; all but the last end must be a suspension.
    pub ends: u32,
    /// Give up after so many steps: something does not come to its end.
    pub most_steps: u64,
}

impl SimConfig {
    /// Everything may happen.
    pub fn new(seed: u64) -> Self {
        SimConfig { seed, deaths: 6, zombies: true, faults: true, stops: 2, jumps: true, ends: 1, most_steps: 2_000_000 }
    }
}

/// What a start is built from.
#[non_exhaustive]
pub struct SimStart<'a> {
    /// The number of the start, from 0.
    pub number: u32,
    /// How often the job has come to its end before.
    pub ended: u32,
    /// For choices of the test, such as the number of tasks.
    pub random: &'a mut SimRandom,
    /// The only clock.
    pub clock: Arc<dyn Clock>,
}

/// A job to be simulated. A closure that gives the graph is one.
pub trait SimJob {
    /// What a start runs.
    fn start(&mut self, start: SimStart<'_>) -> (JobGraph, JobConfig);

    /// The outside does something by itself between two steps, such as answering what it was asked long ago. Called now and then.
    fn outside(&mut self, random: &mut SimRandom) {
        let _ = random;
    }
}

impl<F: FnMut(SimStart<'_>) -> (JobGraph, JobConfig)> SimJob for F {
    fn start(&mut self, start: SimStart<'_>) -> (JobGraph, JobConfig) {
        self(start)
    }
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SimReport {
    /// A hash over every step and its outcome.
    pub trace: u64,
    /// Steps taken.
    pub steps: u64,
    /// Starts, failed ones included.
    pub starts: u32,
    /// Deaths.
    pub deaths: u32,
    /// How many of the dead went on for a while.
    pub zombies: u32,
    /// How many of them ran into the fence.
    pub fenced: u32,
    /// Stops that were carried out.
    pub stops: u32,
    /// Jumps of a clock.
    pub jumps: u32,
    /// Calls of the store that were carried out after they had been given up.
    pub late_calls: u32,
    /// Transitions that were held to the invariants.
    pub transitions: u64,
    /// Deaths by kill point.
    pub kill_points: BTreeMap<&'static str, u32>,
}

impl SimReport {
    /// Adds up what happened in several simulations.
    pub fn add(&mut self, other: SimReport) {
        self.trace ^= other.trace;
        self.steps += other.steps;
        self.starts += other.starts;
        self.deaths += other.deaths;
        self.zombies += other.zombies;
        self.fenced += other.fenced;
        self.stops += other.stops;
        self.jumps += other.jumps;
        self.late_calls += other.late_calls;
        self.transitions += other.transitions;
        for (point, count) in other.kill_points {
            *self.kill_points.entry(point).or_default() += count;
        }
    }

    fn note(&mut self, what: u64) {
        self.trace = random::mix(self.trace ^ what);
    }
}

/// Everything that outlives a death.
struct World<'a> {
    config: SimConfig,
    random: SimRandom,
    clock: Arc<ManualClock>,
    store: MemoryStore,
    stragglers: Stragglers,
    watch: Watch,
    job: &'a mut dyn SimJob,
    ended: u32,
    report: SimReport,
}

/// Runs a job to its end under everything that the seed holds.
///
/// # Errors
/// What ended the job other than an injected failure, an invariant that did not hold, or a deadlock; with the seed.
pub fn simulate(config: SimConfig, job: &mut dyn SimJob) -> Result<SimReport> {
    let seed = config.seed;
    let world = World {
        random: SimRandom::new(seed),
        clock: Arc::new(ManualClock::at(EventTime::from_millis(1_700_000_000_000))),
        store: MemoryStore::new(),
        stragglers: Stragglers::default(),
        watch: Watch::default(),
        job,
        ended: 0,
        report: SimReport::default(),
        config,
    };
    world.run().map_err(|error| error.context(format!("seed {seed}")))
}

impl World<'_> {
    fn run(mut self) -> Result<SimReport> {
        let mut current: Option<Process> = None;
        let mut zombie: Option<Process> = None;
        loop {
            if self.report.steps >= self.config.most_steps {
                return Err(Error::internal(format!("no end after {} steps", self.report.steps)));
            }
            self.watch.verdict()?;
            let Some(process) = &mut current else {
                current = self.begin()?;
                continue;
            };
            let (fate, of_zombie) = match &mut zombie {
                Some(zombie) if self.random.one_in(3) => (zombie.step(&mut self.random), true),
                _ => (process.step(&mut self.random), false),
            };
            self.report.steps += 1;
            self.report.note(fate.code() | u64::from(of_zombie) << 32);
            self.pass_time(process, &mut zombie, &fate)?;
            self.meddle(process)?;
            match fate {
                Fate::Stepped(_) | Fate::Asleep => {}
                Fate::Died if of_zombie => zombie = None,
                Fate::Ended(result) if of_zombie => {
                    self.bury(&result)?;
                    zombie = None;
                }
                Fate::Died => {
                    self.died(process);
                    current = None;
                }
                Fate::Ended(Ok(ending)) => {
                    process.watch_the_end();
                    self.watch.on(&Event::Ended);
                    self.watch.verdict()?;
                    if self.ended(ending)? {
                        self.report.transitions = self.watch.transitions();
                        return Ok(self.report);
                    }
                    current = None;
                }
                Fate::Ended(Err(error)) => {
                    match error.kind() {
                        ErrorKind::External { .. } => {}
                        ErrorKind::Config | ErrorKind::Data | ErrorKind::Fenced | ErrorKind::Limit | ErrorKind::Internal => {
                            self.watch.verdict()?;
                            return Err(error);
                        }
                    }
                    current = None;
                }
            }
            if let Some(process) = current.take_if(|_| self.report.deaths < self.config.deaths && self.random.one_in(400)) {
                self.died(&process);
                if self.config.zombies && zombie.is_none() && self.random.one_in(2) {
                    self.report.zombies += 1;
                    zombie = Some(process);
                }
            }
        }
    }

    /// A process came to an end that is one. Answers whether it was the last.
    fn ended(&mut self, ending: Ending) -> Result<bool> {
        self.report.note(0xe4d);
        match ending {
            Ending::Stopped { .. } => {
                self.report.stops += 1;
                Ok(false)
            }
            Ending::Ended { .. } | Ending::AlreadyComplete { .. } => {
                self.ended += 1;
                if self.ended < self.config.ends && self.watch.is_drained() {
                    return Err(Error::internal(format!("the job has drained, and {} ends are to come", self.config.ends - self.ended)));
                }
                Ok(self.ended >= self.config.ends)
            }
        }
    }

    /// What the outside does between two steps.
    fn meddle(&mut self, process: &Process) -> Result<()> {
        if self.report.stops < self.config.stops && self.random.one_in(800) {
            process.request_stop();
        }
        if self.config.jumps && self.random.one_in(1000) {
            self.report.jumps += 1;
            let wall = self.clock.wall().as_millis();
            let by = 1 + self.random.below(4 * 3_600_000) as i64;
            match self.random.below(3) {
                0 => self.clock.jump_to(EventTime::from_millis(wall + by)),
                1 => self.clock.jump_to(EventTime::from_millis(wall - by)),
                _ => self.clock.advance(Duration::from_millis(by.unsigned_abs())),
            }
        }
        if self.stragglers.len() > 0 && self.random.one_in(60) {
            self.report.late_calls += 1;
            let store = WatchedStore::new(self.store.clone(), self.watch.clone());
            self.stragglers.land(&store, &mut self.random)?;
        }
        if self.random.one_in(16) {
            self.job.outside(&mut self.random);
        }
        Ok(())
    }

    /// Time passes in small steps, and jumps when everybody sleeps.
    fn pass_time(&mut self, current: &Process, zombie: &mut Option<Process>, fate: &Fate) -> Result<()> {
        if self.random.one_in(4) {
            self.clock.advance(Duration::from_micros(self.random.below(500)));
        }
        if !matches!(fate, Fate::Asleep) || current.can_step() {
            return Ok(());
        }
        match current.next_due() {
            Some(due) => {
                let now = self.clock.monotonic();
                self.clock.advance(due.saturating_sub(now) + Duration::from_micros(1));
                // A zombie does not die of old age, but it need not outlive the test's patience either.
                if self.random.one_in(50) {
                    *zombie = None;
                }
                Ok(())
            }
            None => Err(Error::internal(format!("deadlock: {}", current.describe()))),
        }
    }

    fn died(&mut self, process: &Process) {
        self.report.deaths += 1;
        if let Some(point) = process.killed_at() {
            *self.report.kill_points.entry(point.name()).or_default() += 1;
        }
        self.report.note(0xdead);
    }

    /// A zombie came to its end. It may fail as it likes, but only injected failures and the fence are expected.
    fn bury(&mut self, result: &Result<Ending>) -> Result<()> {
        match result {
            // It had published its last manifest before it was cut off.
            Ok(_) => Ok(()),
            Err(error) => match error.kind() {
                ErrorKind::Fenced => {
                    self.report.fenced += 1;
                    Ok(())
                }
                ErrorKind::External { .. } => Ok(()),
                // What it has prepared is undone by its successor, so its own commits may find their rows gone.
                ErrorKind::Data | ErrorKind::Config | ErrorKind::Limit | ErrorKind::Internal => {
                    self.report.note(0xbad);
                    Ok(())
                }
            },
        }
    }

    /// Starts the job anew, as another process. `None` if it died or failed while starting.
    fn begin(&mut self) -> Result<Option<Process>> {
        let number = self.report.starts;
        self.report.starts += 1;
        self.report.steps += 1;
        let clock: Arc<dyn Clock> = self.clock.clone();
        let start_of = SimStart { number, ended: self.ended, random: &mut self.random, clock: Arc::clone(&clock) };
        let (mut graph, mut config) = self.job.start(start_of);
        watch_ends(&mut graph, &self.watch);
        self.watch.keep(config.keep_epochs);
        let plan = FaultPlan::new(self.random.draw());
        let may_die = self.report.deaths < self.config.deaths;
        if self.config.faults {
            if self.random.one_in(2) {
                plan.set_rates(0.015, 0.015);
            }
            if may_die && self.random.one_in(3) {
                let fault = if self.random.one_in(2) { Fault::Before } else { Fault::After };
                plan.crash_at(self.random.below(60), fault);
            }
        }
        let killed_at = Arc::new(Mutex::new(None));
        config.clock = clock;
        config.takeover = true;
        config.holder = format!("process {number}");
        if may_die {
            config.kill = Some(hook(&plan, &killed_at, self.random.draw()));
        }
        let mut store: Arc<dyn EpochStore> = Arc::new(WatchedStore::new(self.store.clone(), self.watch.clone()));
        if self.config.faults {
            store = Arc::new(LateStore::new(store, self.stragglers.clone(), self.random.draw()));
        }
        store = Arc::new(FaultyStore::new(store, plan.clone()));
        if self.config.faults {
            store = Arc::new(SlowStore::new(store, Arc::clone(&self.clock), self.random.draw()));
        }
        let job = Job::prepare(graph, config, store)?;
        let control = JobControl::new();
        match start(&job, &control) {
            Ok(Start::Running(running)) => {
                let traces = Traces { watch: self.watch.clone(), process: number };
                Ok(Some(Process::new(*running, control, plan, killed_at, self.clock.clone(), traces)))
            }
            Ok(Start::Complete(epoch)) => {
                // It had completed, and died before anybody learned of it.
                let traces = Traces { watch: self.watch.clone(), process: number };
                Ok(Some(Process::complete(epoch, control, plan, self.clock.clone(), traces)))
            }
            Err(failure) => match failure.error.kind() {
                ErrorKind::External { .. } => {
                    if plan.is_dead() {
                        self.report.deaths += 1;
                        if let Some(point) = *killed_at.lock().unwrap_or_else(PoisonError::into_inner) {
                            *self.report.kill_points.entry(KillPoint::name(point)).or_default() += 1;
                        }
                    }
                    self.clock.advance(Duration::from_millis(1));
                    Ok(None)
                }
                ErrorKind::Config | ErrorKind::Data | ErrorKind::Fenced | ErrorKind::Limit | ErrorKind::Internal => {
                    self.watch.verdict()?;
                    Err(failure.error)
                }
            },
        }
    }
}

/// A hook that now and then kills: from then on nothing reaches the store.
fn hook(plan: &FaultPlan, killed_at: &Arc<Mutex<Option<KillPoint>>>, seed: u64) -> crate::killpoint::KillHook {
    let (plan, killed_at) = (plan.clone(), Arc::clone(killed_at));
    let random = Mutex::new(SimRandom::new(seed));
    Arc::new(move |point: KillPoint, _: Epoch| {
        if !random.lock().unwrap_or_else(PoisonError::into_inner).one_in(25) {
            return Ok(());
        }
        plan.kill();
        *killed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(point);
        Err(Error::external(format!("killed at `{}`", point.name())))
    })
}

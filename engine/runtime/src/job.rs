//! A job as its host sees it: prepare, run, control.

use crate::coordinator::Finished;
use crate::driver::drive;
use crate::edge::Capacity;
use crate::graph::JobGraph;
use crate::killpoint::{KillHook, KillPoint};
use crate::metrics::{Meters, MetricsSnapshot, NodeRole};
use crate::planted::Planted;
use crate::restart::{RestartPolicy, Restarts};
use crate::signal::Signal;
use crate::spill::MemoryLimit;
use crate::start::{Start, start};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::{Clock, Epoch, Error, ErrorKind, EventTime, OutputSink, Result, RunId, SystemClock};
use tidegate_epochs::open::IsGone;
use tidegate_epochs::{AtEnd, EpochStore, taken_over};

/// Builds a sink from a configuration that a manifest recorded, to finish what was prepared under it.
pub type RebuildSink = Arc<dyn Fn(&str, &serde_json::Value) -> Result<Arc<dyn OutputSink>> + Send + Sync>;

/// How a job runs.
#[derive(Clone)]
#[non_exhaustive]
pub struct JobConfig {
    /// The pipeline's name.
    pub pipeline: String,
    /// The host's name of this build.
    pub build: String,
    /// The name of the run, if this start begins one; unique for ever.
    pub run_id: RunId,
    /// Who starts it: unique to one start of the engine.
    pub holder: String,
    /// Rows per batch.
    pub batch_rows: usize,
    /// Bytes per batch, about.
    pub batch_bytes: usize,
    /// What may be under way into one task, where a node has not more tasks than there are cores.
    pub edge: Capacity,
    /// How many tasks the machine can step at once. Where a node has more, they share what may be under way: rows wait for a core
    /// wherever they are, and a barrier waits for all of them. `None`: nothing is shared.
    pub cores: Option<usize>,
    /// What the state of all operators may take; `None`: without limit.
    pub memory: Option<MemoryLimit>,
    /// Time between two checkpoints.
    pub checkpoint_every: Duration,
    /// How long sources go on reading after a barrier whose epoch is not settled; then they wait for it.
    pub max_epoch_delay: Duration,
    /// Vnodes of keyed state.
    pub vnodes: u16,
    /// Manifests kept.
    pub keep_epochs: usize,
    /// What a bounded input ends in.
    pub at_end: AtEnd,
    /// Begin a new run.
    pub fresh: bool,
    /// Take the place of a start that may be alive.
    pub takeover: bool,
    /// Go on from this epoch instead of the newest.
    pub from: Option<Epoch>,
    /// Operators whose older state is dropped where it does not fit.
    pub drop_state: BTreeSet<String>,
    /// Digest by plugin name, for the manifest.
    pub plugins: BTreeMap<String, String>,
    /// Knows dead holders, if the host can tell.
    pub is_gone: Option<IsGone>,
    /// When and how often a failed attempt is followed by another.
    pub restarts: RestartPolicy,
    /// How long tasks may take to end before they are reported.
    pub grace: Duration,
    /// The only clock.
    pub clock: Arc<dyn Clock>,
    /// Builds sinks of older configurations; without it such tokens refuse the start.
    pub rebuild_sink: Option<RebuildSink>,
    /// For chaos tests.
    pub kill: Option<KillHook>,
    /// For the simulator: a mistake that it must find.
    #[cfg(feature = "testkit")]
    pub planted: Planted,
}

impl JobConfig {
    /// The defaults of the pipeline file.
    pub fn new(pipeline: impl Into<String>, run_id: RunId, holder: impl Into<String>) -> Self {
        JobConfig {
            pipeline: pipeline.into(),
            build: String::new(),
            run_id,
            holder: holder.into(),
            batch_rows: 8192,
            batch_bytes: 2 << 20,
            edge: Capacity { rows: 65536, bytes: 32 << 20 },
            cores: None,
            memory: None,
            checkpoint_every: Duration::from_secs(5),
            max_epoch_delay: Duration::from_secs(600),
            vnodes: 256,
            keep_epochs: 3,
            at_end: AtEnd::Drain,
            fresh: false,
            takeover: false,
            from: None,
            drop_state: BTreeSet::new(),
            plugins: BTreeMap::new(),
            is_gone: None,
            restarts: RestartPolicy::default(),
            grace: Duration::from_secs(30),
            clock: Arc::new(SystemClock),
            rebuild_sink: None,
            kill: None,
            #[cfg(feature = "testkit")]
            planted: Planted::None,
        }
    }

    /// The mistake that is planted; none outside tests.
    pub(crate) fn planted(&self) -> Planted {
        #[cfg(feature = "testkit")]
        let planted = self.planted;
        #[cfg(not(feature = "testkit"))]
        let planted = Planted::None;
        planted
    }

    /// Among how many tasks of a node one task's part of what may be under way is shared.
    pub(crate) fn crowd(&self, parallelism: usize) -> usize {
        self.cores.map_or(1, |cores| parallelism.div_ceil(cores.max(1))).max(1)
    }

    pub(crate) fn kill(&self, point: KillPoint, epoch: Epoch) -> Result<()> {
        match &self.kill {
            Some(hook) => hook(point, epoch),
            None => Ok(()),
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Why it ended.
    pub end: Ending,
    /// All counters since the last restart.
    pub metrics: MetricsSnapshot,
    /// How often it was restarted within the process.
    pub restarts: u32,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// The input ended; with [`AtEnd::Suspend`] a later run may go on.
    Ended {
        /// The last epoch.
        epoch: Epoch,
    },
    /// Somebody asked it to stop.
    Stopped {
        /// The last epoch.
        epoch: Epoch,
    },
    /// The input had ended in an earlier start, and its windows are final.
    AlreadyComplete {
        /// The last epoch of that start.
        epoch: Epoch,
    },
}

/// How far a run has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Rows read by all sources since the last restart.
    pub rows_in: u64,
    /// Rows written by all sinks since the last restart.
    pub rows_out: u64,
    /// The lowest watermark of the sources; `None` before the first and after the end.
    pub watermark: Option<EventTime>,
    /// How far the watermark is behind the clock.
    pub lag: Option<Duration>,
    /// The newest epoch that is settled.
    pub epoch: Epoch,
    /// How often the job was restarted within the process.
    pub restarts: u32,
}

/// Watches and stops a run, from any thread. Made before the run; clones control the same one.
#[derive(Clone, Default)]
pub struct JobControl(Arc<Control>);

#[derive(Default)]
struct Control {
    stop: AtomicBool,
    signal: Signal,
    meters: Mutex<Arc<Meters>>,
    epoch: AtomicU64,
    restarts: AtomicU64,
}

impl fmt::Debug for JobControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobControl").field("stop", &self.is_stopping()).finish_non_exhaustive()
    }
}

impl JobControl {
    /// For one run.
    pub fn new() -> Self {
        JobControl::default()
    }

    /// Asks for a stop: a last epoch, then the end.
    pub fn request_stop(&self) {
        self.0.stop.store(true, Ordering::Release);
        self.0.signal.raise();
    }

    /// Whether a stop was asked for.
    pub fn is_stopping(&self) -> bool {
        self.0.stop.load(Ordering::Acquire)
    }

    /// All counters now.
    pub fn metrics(&self) -> MetricsSnapshot {
        let meters = Arc::clone(&self.0.meters.lock().unwrap_or_else(PoisonError::into_inner));
        meters.snapshot()
    }

    /// How far the run has come at wall time `now`.
    pub fn progress(&self, now: EventTime) -> Progress {
        let metrics = self.metrics();
        let mut progress = Progress {
            rows_in: 0,
            rows_out: 0,
            watermark: None,
            lag: None,
            epoch: Epoch(self.0.epoch.load(Ordering::Relaxed)),
            restarts: self.restarts(),
        };
        let mut watermark: Option<EventTime> = None;
        for node in &metrics.nodes {
            match node.role {
                NodeRole::Source(_) => {
                    progress.rows_in += node.rows_in;
                    watermark = Some(watermark.map_or(node.watermark, |lowest| lowest.min(node.watermark)));
                }
                NodeRole::Sink(_) => progress.rows_out += node.rows_out,
                NodeRole::Operator(_) => {}
            }
        }
        progress.watermark = watermark.filter(|at| *at != EventTime::MIN && *at != EventTime::MAX);
        progress.lag = progress.watermark.map(|at| Duration::from_micros(u64::try_from(now.0.saturating_sub(at.0)).unwrap_or(0)));
        progress
    }

    pub(crate) fn signal(&self) -> &Signal {
        &self.0.signal
    }

    /// The counters of the attempt under way.
    #[cfg(feature = "testkit")]
    pub(crate) fn meters(&self) -> Arc<Meters> {
        Arc::clone(&self.0.meters.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn show(&self, meters: Arc<Meters>) {
        *self.0.meters.lock().unwrap_or_else(PoisonError::into_inner) = meters;
    }

    pub(crate) fn settled(&self, epoch: Epoch) {
        self.0.epoch.store(epoch.0, Ordering::Relaxed);
    }

    fn restarts(&self) -> u32 {
        self.0.restarts.load(Ordering::Relaxed) as u32
    }

    pub(crate) fn restarted(&self) -> u32 {
        (self.0.restarts.fetch_add(1, Ordering::Relaxed) + 1) as u32
    }
}

/// A job that was checked and could be run.
#[derive(Clone)]
pub struct Job {
    pub(crate) graph: Arc<JobGraph>,
    pub(crate) config: Arc<JobConfig>,
    pub(crate) store: Arc<dyn EpochStore>,
}

impl Job {
    /// Checks the graph. Touches neither the store nor anything outside.
    ///
    /// # Errors
    /// `Internal` if the graph cannot run.
    pub fn prepare(graph: JobGraph, config: JobConfig, store: Arc<dyn EpochStore>) -> Result<Job> {
        graph.validate()?;
        if config.vnodes == 0 || config.batch_rows == 0 {
            return Err(Error::config("`vnodes` and `batchRows` must be at least 1"));
        }
        Ok(Job { graph: Arc::new(graph), config: Arc::new(config), store })
    }

    /// Runs to the end on this thread, with one thread per task. `External` failures are followed by another attempt from the newest
    /// manifest within the budget; all others end the run, as does a failure of the first start to open its sources and sinks.
    ///
    /// # Errors
    /// The first error that ended the run, with its place.
    pub fn run(&self, control: &JobControl) -> Result<Outcome> {
        control.signal().bind(std::thread::current());
        let mut restarts = Restarts::new(self.config.restarts);
        let mut started = false;
        let mut job = self.clone();
        loop {
            let failure = match job.attempt(control, &mut started) {
                Ok(end) => {
                    return Ok(Outcome { end, metrics: control.metrics(), restarts: control.restarts() });
                }
                Err(failure) => job.fenced(failure, started),
            };
            if !failure.may_restart {
                return Err(failure.error);
            }
            let wait = restarts.after(failure.error, self.config.clock.monotonic())?;
            if started {
                // What the user asked of this start has been done; a restart goes on from the newest manifest of the run it began.
                let mut config = JobConfig::clone(&self.config);
                (config.fresh, config.from, config.takeover) = (false, None, false);
                job.config = Arc::new(config);
            }
            let restart = control.restarted();
            tracing::info!(restart, ?wait, "restarting from the newest manifest");
            if self.rest(control, wait) {
                // Nothing is running and everything settled is in the store: this is a stop at the newest epoch.
                let epoch = Epoch(control.0.epoch.load(Ordering::Relaxed));
                return Ok(Outcome { end: Ending::Stopped { epoch }, metrics: control.metrics(), restarts: control.restarts() });
            }
        }
    }

    fn attempt(&self, control: &JobControl, started: &mut bool) -> Result<Ending, Failure> {
        match start(self, control) {
            Ok(Start::Complete(epoch)) => Ok(Ending::AlreadyComplete { epoch }),
            Ok(Start::Running(running)) => {
                *started = true;
                match drive(*running, control, &self.config) {
                    Ok(Finished { epoch, stopped: true }) => Ok(Ending::Stopped { epoch }),
                    Ok(Finished { epoch, stopped: false }) => Ok(Ending::Ended { epoch }),
                    Err(failure) => Err(failure),
                }
            }
            Err(failure) => Err(Failure { may_restart: failure.may_restart || *started, error: failure.error }),
        }
    }

    /// A failure as it is to be told: if another start has taken over from this one, that is why, whatever failed for it. A sink
    /// whose staging the other has swept away fails like a broken one.
    fn fenced(&self, failure: Failure, started: bool) -> Failure {
        let may_be_fenced = match failure.error.kind() {
            ErrorKind::External { .. } | ErrorKind::Config => started,
            ErrorKind::Data | ErrorKind::Fenced | ErrorKind::Limit | ErrorKind::Internal => false,
        };
        if !may_be_fenced {
            return failure;
        }
        match taken_over(self.store.as_ref(), &self.config.holder) {
            Ok(None) => failure,
            Ok(Some(owner)) => {
                tracing::warn!(error = %failure.error, owner, "the attempt failed after another start had taken over");
                let error = Error::fenced(format!("another start, `{owner}`, has taken this pipeline over; this one ends"));
                Failure { error, may_restart: false }
            }
            Err(error) => {
                // The next attempt looks again before it does anything.
                tracing::warn!(%error, "whether another start has taken over could not be seen");
                failure
            }
        }
    }

    /// Waits before the next attempt. Answers whether a stop ended the wait, and with it the run.
    fn rest(&self, control: &JobControl, wait: Duration) -> bool {
        let clock = &self.config.clock;
        let until = clock.monotonic().saturating_add(wait);
        loop {
            if control.is_stopping() {
                return true;
            }
            let now = clock.monotonic();
            if now >= until {
                return false;
            }
            if !control.signal().take() {
                std::thread::park_timeout(until - now);
            }
        }
    }
}

/// Why an attempt ended, and whether another may follow.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) may_restart: bool,
}

impl From<Error> for Failure {
    /// What the error's kind allows is decided by the restart policy.
    fn from(error: Error) -> Self {
        Failure { error, may_restart: true }
    }
}

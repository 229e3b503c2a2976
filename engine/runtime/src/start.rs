//! The beginning of an attempt: open a generation, settle what is pending, discover, open the sinks, make the tasks.
//!
//! The order is fixed. Nothing is committed before this start owns the epochs; no sink is opened before every sink has committed
//! and undone what older starts left; no task runs before every sink is open; no row is read before every task has opened and
//! restored. An error names the source or sink.

mod build;

use self::build::build;
use crate::coordinator::{Coordinator, CoordinatorParts};
use crate::graph::{Node, NodeKind, SinkNode};
use crate::job::{Failure, Job, JobControl};
use crate::killpoint::KillPoint;
use crate::metrics::Meters;
use crate::planted::Planted;
use crate::task::{Seat, Task};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_api::{
    ChangeMode, CommitOutcome, CommitToken, Committer, Discovered, Epoch, Error, Generation, Guarantee, OutputSink, Result, ResultExt,
    RunId, RunIdentity, SinkCtx, Split, Staging,
};
use tidegate_epochs::manifest::{Manifest, SplitStatus};
use tidegate_epochs::recovery::SinkShape;
use tidegate_epochs::{
    EpochMachine, Ledger, MachineConfig, OpenRequest, Opening, Pruner, Published, RecoveryPlan, SinkRecovery, StagingStore, open, publish,
    settle,
};

/// What starting came to.
pub(crate) enum Start {
    /// The input had ended in an earlier start.
    Complete(Epoch),
    /// Ready to run.
    Running(Box<Running>),
}

/// An attempt that is ready to run.
pub(crate) struct Running {
    pub(crate) coordinator: Coordinator,
    /// In the order of their numbers.
    pub(crate) tasks: Vec<(Seat, Box<dyn Task>)>,
}

/// What the newest manifest says, and how it came to be.
pub(crate) struct Base {
    pub(crate) manifest: Manifest,
    pruner: Pruner,
    /// Whether positions come from an earlier start.
    pub(crate) restoring: bool,
}

/// Starts an attempt.
pub(crate) fn start(job: &Job, control: &JobControl) -> Result<Start, Failure> {
    let request = request(job);
    let base = match begin(job, &request)? {
        Begun::Complete(epoch) => return Ok(Start::Complete(epoch)),
        Begun::At(base) => *base,
    };
    control.settled(base.manifest.epoch);
    // From here on a failure is that of a source or sink: a first start reports it at once.
    let epoch = base.manifest.epoch;
    job.config
        .kill(KillPoint::AfterRecover, epoch)
        .and_then(|()| equip(job, control, &request, base))
        .map(|running| Start::Running(Box::new(running)))
        .map_err(|error| Failure { error, may_restart: false })
}

fn request(job: &Job) -> OpenRequest {
    let config = &job.config;
    let mut shape = tidegate_epochs::JobShape {
        vnodes: config.vnodes,
        plugins: config.plugins.clone(),
        drop_state: config.drop_state.clone(),
        ..Default::default()
    };
    for node in &job.graph.nodes {
        let id = node.id.clone();
        match &node.kind {
            NodeKind::Source(source) => {
                let columns = source.plan.schema.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type()));
                shape.pinned.extend(source.plan.pinned.clone().map(|pinned| (id.clone(), pinned)));
                let keys = match &source.plan.mode {
                    ChangeMode::Append => None,
                    ChangeMode::Upsert { keys } => Some(format!("upsert by {}", keys.join(" "))),
                };
                shape.sources.insert(id, columns.chain(keys).collect::<Vec<_>>().join(", "));
            }
            NodeKind::Operator(operator) => {
                shape.operators.insert(id, operator.factory.signature());
            }
            NodeKind::Sink(sink) => {
                shape.sinks.insert(id, SinkShape { two_phase: two_phase(sink), config: sink.config.clone() });
            }
        }
    }
    let mut request = OpenRequest::new(config.run_id.clone(), config.holder.clone(), config.checkpoint_every, shape)
        .with_fresh(config.fresh)
        .with_takeover(config.takeover)
        .with_from(config.from);
    if let Some(is_gone) = &config.is_gone {
        request = request.with_is_gone(Arc::clone(is_gone));
    }
    #[cfg(feature = "testkit")]
    {
        request = request.with_planted_bug(planted_in_epochs(job));
    }
    request
}

/// The mistake that epochs are to make.
#[cfg(feature = "testkit")]
fn planted_in_epochs(job: &Job) -> tidegate_epochs::PlantedBug {
    match job.config.planted() {
        Planted::Epochs(bug) => bug,
        _ => tidegate_epochs::PlantedBug::None,
    }
}

/// A sink that promises exactly-once does so by two phases.
pub(crate) fn two_phase(sink: &SinkNode) -> bool {
    sink.plan.guarantee == Guarantee::ExactlyOnce
}

enum Begun {
    Complete(Epoch),
    At(Box<Base>),
}

/// Opens a generation and settles it. Failures of the store may be tried again, also at a first start.
fn begin(job: &Job, request: &OpenRequest) -> Result<Begun, Failure> {
    let first_start = |error: Error| Failure { error, may_restart: false };
    loop {
        let wall = job.config.clock.wall();
        job.config.kill(KillPoint::BeforeOpening, Epoch(0))?;
        match open(job.store.as_ref(), request, wall)? {
            Opening::Complete { epoch, unsettled } => {
                if let Some(plan) = unsettled {
                    settle_plan(job, &plan).map_err(first_start)?;
                }
                return Ok(Begun::Complete(epoch));
            }
            Opening::Resume(plan) => {
                job.config.kill(KillPoint::AfterOpening, plan.epoch())?;
                settle_plan(job, &plan).map_err(first_start)?;
                for (operator, reason) in &plan.dropped_state {
                    tracing::warn!(operator, reason, "its state was dropped");
                }
                for sink in &plan.repeats {
                    tracing::warn!(sink, "rows come again, because the start went back beyond a published epoch");
                }
                let pruner = Pruner::open(job.store.as_ref(), &plan, job.config.keep_epochs)?;
                #[cfg(feature = "testkit")]
                let pruner = pruner.with_planted_bug(planted_in_epochs(job));
                let manifest = plan.manifest;
                tracing::info!(epoch = %manifest.epoch, generation = %manifest.generation, "goes on");
                return Ok(Begun::At(Box::new(Base { manifest, pruner, restoring: true })));
            }
            Opening::First(first) => {
                if let Some(closed) = &first.closed {
                    settle_plan(job, closed).map_err(first_start)?;
                }
                let mut found = BTreeMap::new();
                for node in &job.graph.nodes {
                    if let NodeKind::Source(source) = &node.kind {
                        let place = || format!("source `{}`: finding its splits", source.dataset);
                        found.insert(node.id.clone(), source.source.discover(None).context(place).map_err(first_start)?);
                    }
                }
                let manifest = first.manifest(request, &found, wall)?;
                match publish(job.store.as_ref(), &manifest)? {
                    Published::Ours => {
                        tracing::info!(run = %manifest.run_id, "begins");
                        job.config.kill(KillPoint::AfterOpening, manifest.epoch)?;
                        let pruner = Pruner::new(manifest.run, job.config.keep_epochs, [&manifest]);
                        #[cfg(feature = "testkit")]
                        let pruner = pruner.with_planted_bug(planted_in_epochs(job));
                        return Ok(Begun::At(Box::new(Base { manifest, pruner, restoring: false })));
                    }
                    // Somebody else began the run in between.
                    Published::Theirs { .. } => {}
                }
            }
        }
    }
}

fn settle_plan(job: &Job, plan: &RecoveryPlan) -> Result<()> {
    settle(job.store.as_ref(), plan, &mut |sink: &SinkRecovery| {
        let node = job.graph.node(&sink.sink).and_then(|node| match &node.kind {
            NodeKind::Sink(found) => Some((node, found)),
            NodeKind::Source(_) | NodeKind::Operator(_) => None,
        });
        let (writing, ctx) = match node {
            Some((node, found)) => {
                let ctx = sink_ctx(job, node, found, plan.run_id(), plan.generation());
                (if found.config == sink.config { Some(Arc::clone(&found.sink)) } else { rebuilt(job, sink, Some(&found.config))? }, ctx)
            }
            None => {
                let run = identity(job, plan.run_id(), plan.generation(), &sink.sink);
                let staging: Arc<dyn Staging> = Arc::new(StagingStore::new(Arc::clone(&job.store), &sink.sink));
                (rebuilt(job, sink, None)?, SinkCtx::for_commit(run).with_staging(staging).with_clock(Arc::clone(&job.config.clock)))
            }
        };
        let Some(writing) = writing else { return Ok(Box::new(LeftAlone)) };
        let mut committer = writing.committer(ctx)?;
        if job.config.planted().is(Planted::UndoneBeforeCommitted) {
            committer.recover(&[])?;
        }
        Ok(match &job.config.kill {
            Some(_) => Box::new(WatchedCommitter { inner: committer, job: job.clone(), epoch: plan.epoch() }),
            None => committer,
        })
    })
}

fn rebuilt(job: &Job, sink: &SinkRecovery, now: Option<&serde_json::Value>) -> Result<Option<Arc<dyn OutputSink>>> {
    let built = job.config.rebuild_sink.as_ref().map(|rebuild| rebuild(&sink.sink, &sink.config)).transpose();
    let change = || now.map_or("the pipeline has no such sink any more".to_string(), |now| difference(&sink.config, now));
    if let Some((epoch, _)) = sink.pending.last_key_value() {
        let remedy = format!(
            "rows of epoch {epoch} are pending under its earlier configuration ({}), which cannot be built here; put the old sink back and start once, so that epoch {epoch} can be committed, then change it",
            change()
        );
        return match built {
            Ok(Some(sink)) => Ok(Some(sink)),
            Ok(None) => Err(Error::config(remedy)),
            Err(error) => Err(error.context(remedy)),
        };
    }
    let reason = match built {
        Ok(Some(sink)) => return Ok(Some(sink)),
        Ok(None) => String::new(),
        Err(error) => error.to_string(),
    };
    tracing::warn!(
        sink = sink.sink,
        change = change(),
        reason,
        "the sink's earlier configuration cannot be built here; nothing is pending under it, but unfinished rows it had staged may be left behind"
    );
    Ok(None)
}

/// What differs between two configurations of a sink, option by option.
fn difference(before: &serde_json::Value, now: &serde_json::Value) -> String {
    let (Some(old), Some(new)) = (before.as_object(), now.as_object()) else {
        return format!("it was `{before}` and is `{now}`");
    };
    let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let changes = keys.into_iter().filter(|key| old.get(*key) != new.get(*key)).map(|key| match (old.get(key), new.get(key)) {
        (Some(old), Some(new)) => format!("`{key}` was `{old}` and is `{new}`"),
        (Some(old), None) => format!("`{key}` was `{old}` and is not set"),
        (None, Some(new)) => format!("`{key}` was not set and is `{new}`"),
        (None, None) => String::new(),
    });
    changes.collect::<Vec<_>>().join(", ")
}

/// Stands for a sink that cannot be built and has nothing to commit.
struct LeftAlone;

impl Committer for LeftAlone {
    fn commit(&mut self, epoch: Epoch, _: &[CommitToken]) -> Result<Vec<CommitOutcome>> {
        Err(Error::internal(format!("epoch {epoch} is to be committed by a sink that was left alone")))
    }

    fn abort(&mut self, _: Epoch, _: &[CommitToken]) -> Result<()> {
        Ok(())
    }

    fn recover(&mut self, _: &[CommitToken]) -> Result<()> {
        Ok(())
    }
}

/// Calls the kill hook after committing and before undoing.
struct WatchedCommitter {
    inner: Box<dyn Committer>,
    job: Job,
    epoch: Epoch,
}

impl Committer for WatchedCommitter {
    fn commit(&mut self, epoch: Epoch, tokens: &[CommitToken]) -> Result<Vec<CommitOutcome>> {
        let outcomes = self.inner.commit(epoch, tokens)?;
        self.job.config.kill(KillPoint::MidRecommit, epoch)?;
        Ok(outcomes)
    }

    fn abort(&mut self, epoch: Epoch, tokens: &[CommitToken]) -> Result<()> {
        self.inner.abort(epoch, tokens)
    }

    fn recover(&mut self, keep: &[CommitToken]) -> Result<()> {
        self.job.config.kill(KillPoint::MidRecover, self.epoch)?;
        self.inner.recover(keep)
    }
}

pub(crate) fn identity(job: &Job, run: &RunId, generation: Generation, operator: &str) -> RunIdentity {
    RunIdentity::new(job.config.pipeline.clone(), run.clone(), generation, operator).with_build(job.config.build.clone())
}

/// The context of a sink's committer; a writer's has its task and counters on top.
pub(crate) fn sink_ctx(job: &Job, node: &Node, sink: &SinkNode, run: &RunId, generation: Generation) -> SinkCtx {
    // Two sinks of one dataset must not meet under one external name, also where a sink does not look at its index.
    let operator = if sink.index == 0 { sink.dataset.clone() } else { format!("{}.{}", sink.dataset, sink.index) };
    let staging: Arc<dyn Staging> = Arc::new(StagingStore::new(Arc::clone(&job.store), &node.id));
    SinkCtx::new(identity(job, run, generation, &operator), Arc::clone(&sink.schema))
        .with_task(0, node.parallelism)
        .with_index(sink.index)
        .with_mode(sink.mode.clone())
        .with_exactly_once(two_phase(sink))
        .with_staging(staging)
        .with_keys(sink.wants_keys)
        .with_clock(Arc::clone(&job.config.clock))
}

/// Discovers what is new, opens sinks and makes tasks.
fn equip(job: &Job, control: &JobControl, request: &OpenRequest, base: Base) -> Result<Running> {
    let mut ledger = Ledger::new(base.manifest.clone(), &request.shape);
    let mut assigned: BTreeMap<String, Assigned> = BTreeMap::new();
    for node in &job.graph.nodes {
        if let NodeKind::Source(source) = &node.kind {
            let entry = base.manifest.sources.get(&node.id);
            let mut splits: Vec<(Split, Option<tidegate_api::EventTime>)> = Vec::new();
            for split in entry.into_iter().flat_map(|entry| &entry.splits).filter(|split| split.status == SplitStatus::Reading) {
                splits.push((split.split(), split.max_event_time));
            }
            let mut complete = entry.is_some_and(|entry| entry.complete);
            let mut cursor = entry.and_then(|entry| entry.cursor.clone());
            if base.restoring {
                // Splits may have come while nobody ran, also to a source that had said it was complete.
                let found: Discovered =
                    source.source.discover(cursor.as_deref()).context(|| format!("source `{}`: finding its splits", source.dataset))?;
                complete = found.complete;
                cursor = found.cursor.clone().or(cursor);
                splits.extend(ledger.discovered(&node.id, &found)?.into_iter().map(|split| (split, None)));
            }
            assigned.insert(node.id.clone(), Assigned { splits, complete, cursor });
        }
    }
    let run_id = base.manifest.run_id.clone();
    let generation = base.manifest.generation;
    let mut committers: Vec<(String, Box<dyn Committer>)> = Vec::new();
    for node in &job.graph.nodes {
        if let NodeKind::Sink(sink) = &node.kind
            && two_phase(sink)
        {
            let committer = sink.sink.committer(sink_ctx(job, node, sink, &run_id, generation));
            committers.push((node.id.clone(), committer.context(|| format!("sink `{}`: opening its committer", sink.dataset))?));
        }
    }
    let meters = Arc::new(Meters::new(&job.graph));
    let built = build(job, control, &base, &assigned, &meters)?;
    let mut machine_config = MachineConfig::new(built.tasks.len(), job.config.checkpoint_every, base.manifest.epoch);
    machine_config = machine_config.with_at_end(job.config.at_end);
    let machine = EpochMachine::new(machine_config);
    #[cfg(feature = "testkit")]
    let machine = machine.with_planted_bug(planted_in_epochs(job));
    control.show(Arc::clone(&meters));
    let parts = CoordinatorParts {
        job: job.clone(),
        control: control.clone(),
        machine,
        ledger,
        pruner: base.pruner,
        committers,
        sources: built.sources,
        reports: built.reports,
        tasks: built.tasks.len(),
    };
    Ok(Running { coordinator: Coordinator::new(parts), tasks: built.tasks })
}

/// What the tasks of a source are to read.
pub(crate) struct Assigned {
    /// Unfinished splits, in order of their discovery, each with the largest event time read.
    pub(crate) splits: Vec<(Split, Option<tidegate_api::EventTime>)>,
    /// Nothing further will be found.
    pub(crate) complete: bool,
    /// Where the next discovery goes on.
    pub(crate) cursor: Option<Vec<u8>>,
}

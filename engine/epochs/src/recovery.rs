//! What a start commits, undoes and restores: pure functions of what the store holds, and one small driver.
//!
//! Before anything is written, [`check`] compares the manifest with the plan, so that a start that cannot go on fences nobody.
//! The [`RecoveryPlan`] belongs to a manifest that this start has published; [`settle`] carries out its first half, the rest
//! is read by whoever opens sources and operators.

use crate::keys::RunNumber;
use crate::manifest::{Manifest, PieceRef, SplitEntry};
use crate::publish::mark_committed;
use crate::store::EpochStore;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::hash::HASH_VERSION;
use tidegate_api::{
    CommitOutcome, CommitToken, Committer, Epoch, Error, EventTime, Generation, Result, ResultExt, RunId, Signature, nearest,
};

/// What the plan of this start has that a manifest remembers.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobShape {
    /// Vnodes of keyed state.
    pub vnodes: u16,
    /// Each source and the text of its bound schema.
    pub sources: BTreeMap<String, String>,
    /// What sources resolved for themselves, by source; see [`tidegate_api::SourcePlan::pinned`].
    pub pinned: BTreeMap<String, String>,
    /// Each stateful operator and what its state depends on.
    pub operators: BTreeMap<String, Signature>,
    /// Each sink.
    pub sinks: BTreeMap<String, SinkShape>,
    /// Each plugin's digest.
    pub plugins: BTreeMap<String, String>,
    /// Operators whose older state is to be dropped where it does not fit (`--drop-state`).
    pub drop_state: BTreeSet<String>,
}

/// What the plan knows of a sink.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkShape {
    /// Whether its rows become visible by a commit.
    pub two_phase: bool,
    /// What [`tidegate_api::OutputSink::config`] gave.
    pub config: serde_json::Value,
}

/// What must be done in one sink before anything is opened.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkRecovery {
    /// The sink's name.
    pub sink: String,
    /// The configuration the tokens were prepared under. Where it differs from the plan's, a committer is built from it, not from the plan.
    pub config: serde_json::Value,
    /// Tokens to commit, by epoch.
    pub pending: BTreeMap<Epoch, Vec<CommitToken>>,
    /// Tokens that [`Committer::recover`] must not undo.
    pub keep: Vec<CommitToken>,
}

/// How far a source was read.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceRecovery {
    /// Every split known, finished ones included.
    pub splits: Vec<SplitEntry>,
    /// What the next discovery starts from.
    pub cursor: Option<Vec<u8>>,
    /// Whether discovery was complete when the manifest was written. A start asks again, since new input may have come.
    pub complete: bool,
    /// The schema bound when the run began.
    pub schema: String,
}

/// What a start does before its first row. Its manifest is published: this start owns the epochs from here on.
#[derive(Debug, Clone, PartialEq)]
pub struct RecoveryPlan {
    /// The manifest that opened this generation.
    pub manifest: Manifest,
    /// The epoch whose positions and state it took over.
    pub base: Epoch,
    /// What to commit and undo, sink by sink.
    pub sinks: Vec<SinkRecovery>,
    /// Two-phase sinks in which rows come again, because the start went back beyond a published epoch.
    pub repeats: Vec<String>,
    /// Operators whose state was dropped, and why.
    pub dropped_state: BTreeMap<String, String>,
    /// The run's other manifests, for the pruner.
    pub older: Vec<Manifest>,
    /// Whether every manifest could be read, so that objects named by none are known to be orphans.
    pub may_sweep: bool,
}

impl RecoveryPlan {
    /// The plan of a published opening manifest. The sinks are those of the manifest under their older configuration, and those of
    /// the plan that are new or configured otherwise: an earlier start may have prepared under either before it published.
    pub(crate) fn new(manifest: Manifest, base: Epoch, shape: &JobShape) -> Self {
        let mut sinks = Vec::new();
        for (name, entry) in manifest.sinks.iter().filter(|(_, entry)| entry.two_phase) {
            let mut pending: BTreeMap<Epoch, Vec<CommitToken>> = BTreeMap::new();
            for token in &entry.pending {
                pending.entry(token.epoch).or_default().push(token.commit_token());
            }
            let keep: Vec<CommitToken> = pending.values().flatten().cloned().collect();
            sinks.push(SinkRecovery { sink: name.clone(), config: entry.config.clone(), pending, keep });
        }
        for (name, sink) in shape.sinks.iter().filter(|(_, sink)| sink.two_phase) {
            let older = manifest.sinks.get(name).filter(|older| older.two_phase);
            if older.is_none_or(|older| older.config != sink.config) {
                let keep = older.map(|older| older.pending.iter().map(|token| token.commit_token()).collect()).unwrap_or_default();
                sinks.push(SinkRecovery { sink: name.clone(), config: sink.config.clone(), pending: BTreeMap::new(), keep });
            }
        }
        RecoveryPlan { manifest, base, sinks, repeats: Vec::new(), dropped_state: BTreeMap::new(), older: Vec::new(), may_sweep: false }
    }

    /// The run's number.
    pub fn run(&self) -> RunNumber {
        self.manifest.run
    }

    /// The run's name.
    pub fn run_id(&self) -> &RunId {
        &self.manifest.run_id
    }

    /// This start's generation.
    pub fn generation(&self) -> Generation {
        self.manifest.generation
    }

    /// The epoch of the opening manifest; rows flow in the one after it.
    pub fn epoch(&self) -> Epoch {
        self.manifest.epoch
    }

    /// The value of `now()` in the first epoch.
    pub fn now(&self) -> EventTime {
        self.manifest.now
    }

    /// A source's progress; `None` if it is new in this plan.
    pub fn source(&self, source: &str) -> Option<SourceRecovery> {
        let entry = self.manifest.sources.get(source)?;
        Some(SourceRecovery {
            splits: entry.splits.clone(),
            cursor: entry.cursor.clone(),
            complete: entry.complete,
            schema: entry.schema.clone(),
        })
    }

    /// An operator's pieces, of all tasks; see [`crate::read_pieces`].
    pub fn pieces(&self, operator: &str) -> &[PieceRef] {
        self.manifest.operators.get(operator).map_or(&[], |operator| &operator.pieces)
    }
}

/// Compares a manifest with the plan that is to go on from it. Answers the state that is left behind by `drop_state`, and why.
///
/// # Errors
/// `Config` with every reason at once: a source that the plan lacks or has resolved otherwise, state that does not fit or has no operator, other vnodes, another hash,
/// another build of a plugin that plans otherwise.
pub fn check(manifest: &Manifest, shape: &JobShape) -> Result<BTreeMap<String, String>> {
    let mut problems = crate::swapped::differences(manifest, shape);
    let mut dropped = BTreeMap::new();
    for name in manifest.sources.keys().filter(|name| !shape.sources.contains_key(*name)) {
        problems.push(format!(
            "source `{name}` was being read and is not in this pipeline any more; put it back, or start over with `--fresh`"
        ));
    }
    for (name, entry) in &manifest.sources {
        // A source that resolves nothing any more, since its schema is declared now, may go on.
        if let (Some(pinned), Some(now)) = (&entry.pinned, shape.pinned.get(name))
            && pinned != now
        {
            problems.push(format!(
                "source `{name}` was planned by `{now}`, and the run has it pinned as `{pinned}`: another start came in between; start again"
            ));
        }
    }
    for (name, operator) in manifest.operators.iter().filter(|(_, operator)| !operator.pieces.is_empty()) {
        let reason = match shape.operators.get(name) {
            None => Some("the pipeline has no such stage any more".to_string()),
            Some(_) if manifest.vnodes != shape.vnodes => Some(format!("`vnodes` was {} and is {}", manifest.vnodes, shape.vnodes)),
            Some(_) if manifest.hash_version != HASH_VERSION => {
                Some(format!("its keys were dealt out by hash version {}, this version has {HASH_VERSION}", manifest.hash_version))
            }
            Some(signature) => signature.accepts(&operator.signature).err().map(|error| error.message().to_string()),
        };
        match reason {
            None => {}
            Some(reason) if shape.drop_state.contains(name) => {
                dropped.insert(name.clone(), reason);
            }
            Some(reason) => {
                let stage = stage_of(name);
                problems.push(format!(
                    "the state of stage `{stage}` does not fit: {reason}; undo the change in the pipeline file, start with `--drop-state {stage}`, which loses the state of this stage, or start over with `--fresh`, which loses all of it"
                ));
            }
        }
    }
    // A name that fits nothing is harmless by itself: an earlier start may have dropped it. Beside a refusal it may be a slip.
    for name in shape.drop_state.iter().filter(|name| !manifest.operators.contains_key(*name) && !shape.operators.contains_key(*name)) {
        let known = manifest.operators.keys().map(|name| stage_of(name));
        let text = format!("no stage `{}` has state to drop{}", stage_of(name), nearest::hint(stage_of(name), known));
        if problems.is_empty() {
            tracing::warn!("{text}");
        } else {
            problems.push(text);
        }
    }
    if problems.is_empty() { Ok(dropped) } else { Err(Error::config(problems.join("; "))) }
}

/// An operator's name as its user knows it: without the kind of node that stands before it.
fn stage_of(operator: &str) -> &str {
    operator.split_once('/').map_or(operator, |(_, stage)| stage)
}

/// Commits a sink's tokens of one epoch and looks at every outcome.
///
/// # Errors
/// `Data` if rows are lost, `Internal` if the sink answers for another number of tokens, and the committer's own.
pub fn commit(committer: &mut dyn Committer, sink: &str, epoch: Epoch, tokens: &[CommitToken]) -> Result<()> {
    let outcomes = committer.commit(epoch, tokens).context(|| format!("sink `{sink}`: committing epoch {epoch}"))?;
    if outcomes.len() != tokens.len() {
        return Err(Error::internal(format!(
            "sink `{sink}` answered {} outcomes for {} tokens of epoch {epoch}",
            outcomes.len(),
            tokens.len()
        )));
    }
    for outcome in outcomes {
        match outcome {
            CommitOutcome::Done | CommitOutcome::AlreadyDone => {}
            CommitOutcome::Lost(reason) => {
                return Err(Error::data(format!(
                    "sink `{sink}` has lost the rows of epoch {epoch}: {reason}; the manifest keeps their token"
                )));
            }
        }
    }
    Ok(())
}

/// Commits what is pending in every sink, then lets every sink undo what no manifest names, then writes the commit mark.
/// `committer` builds the committer of a sink under the given configuration. May be repeated, also by another process.
///
/// # Errors
/// Those of the committers and of the store; then nothing was opened and the next start finds the same tokens again.
pub fn settle(
    store: &dyn EpochStore,
    plan: &RecoveryPlan,
    committer: &mut dyn FnMut(&SinkRecovery) -> Result<Box<dyn Committer>>,
) -> Result<()> {
    let mut committers = Vec::new();
    for sink in &plan.sinks {
        let mut built = committer(sink).context(|| format!("sink `{}`: building its committer", sink.sink))?;
        for (epoch, tokens) in &sink.pending {
            commit(built.as_mut(), &sink.sink, *epoch, tokens)?;
        }
        committers.push((sink, built));
    }
    for (sink, built) in &mut committers {
        built.recover(&sink.keep).context(|| format!("sink `{}`: undoing what no manifest names", sink.sink))?;
    }
    mark_committed(store, &plan.manifest)
}

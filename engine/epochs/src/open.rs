//! The beginning of a start: find the newest manifest, refuse what cannot work, then take the next number with the next generation.
//!
//! [`open`] writes nothing before it has found the plan compatible and the previous holder gone; then it creates manifest n+1, a
//! copy of n under the next generation. Whoever was running has lost from that moment: its next manifest has the same number.
//! If somebody else takes the number first, everything is looked at again.
//!
//! A run begins with manifest 0, which needs every split's resolved position and is therefore made by the caller between
//! [`Opening::First`] and [`crate::publish()`]. `--fresh` first *closes* the current run by a manifest that says `superseded`. That
//! one object decides: the old start is fenced by it, and every later start, whether it asked for a fresh run or not, finds
//! the run closed and begins the next one.

mod choose;
pub(crate) use choose::survey as damage_of;
#[cfg(test)]
mod tests;

use crate::claim;
use crate::keys::RunNumber;
#[cfg(any(test, feature = "testkit"))]
use crate::machine::PlantedBug;
use crate::manifest::{End, Manifest, SourceEntry, SplitEntry};
use crate::publish::{History, Published, mend, newest_run, publish};
use crate::recovery::{JobShape, RecoveryPlan};
use crate::store::EpochStore;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::hash::HASH_VERSION;
use tidegate_api::{Discovered, Epoch, Error, EventTime, Generation, Result, RunId};

/// Tells whether the holder of a claim is known to be gone, so that its claim need not be waited for.
pub type IsGone = Arc<dyn Fn(&claim::Claim) -> bool + Send + Sync>;

/// What a start is, and what its user allows.
#[derive(Clone)]
#[non_exhaustive]
pub struct OpenRequest {
    /// The name of the run if this start begins one. Unique for ever: object keys and external names are made of it.
    pub run_id: RunId,
    /// Who this is: unique to one call of the engine, the same for its restarts within the process.
    pub holder: String,
    /// The epoch interval.
    pub interval: Duration,
    /// Begin a new run. A restart within the process, under the same holder, does not do so again.
    pub fresh: bool,
    /// Take the place of a start that may be alive.
    pub takeover: bool,
    /// Go on from this epoch instead of the newest; once, as with `fresh`.
    pub from: Option<Epoch>,
    /// The plan.
    pub shape: JobShape,
    /// Knows dead holders, if the host can tell (same machine, process gone).
    pub is_gone: Option<IsGone>,
    #[cfg(any(test, feature = "testkit"))]
    planted: PlantedBug,
}

impl OpenRequest {
    /// A start that goes on where the last one ended.
    pub fn new(run_id: RunId, holder: impl Into<String>, interval: Duration, shape: JobShape) -> Self {
        OpenRequest {
            run_id,
            holder: holder.into(),
            interval,
            fresh: false,
            takeover: false,
            from: None,
            shape,
            is_gone: None,
            #[cfg(any(test, feature = "testkit"))]
            planted: PlantedBug::None,
        }
    }

    /// Plants a mistake.
    #[cfg(any(test, feature = "testkit"))]
    #[must_use]
    pub fn with_planted_bug(mut self, bug: PlantedBug) -> Self {
        self.planted = bug;
        self
    }

    /// The request as it stands once its own start has published `newest`: what it asked for once is done and not asked for again.
    fn after(&self, newest: &Manifest) -> OpenRequest {
        let mut request = self.clone();
        if newest.owner == self.holder {
            request.fresh = false;
            request.from = None;
            request.shape.drop_state.clear();
        }
        request
    }

    /// Sets whether to begin a new run.
    #[must_use]
    pub fn with_fresh(mut self, fresh: bool) -> Self {
        self.fresh = fresh;
        self
    }

    /// Sets whether to take the place of a start that may be alive.
    #[must_use]
    pub fn with_takeover(mut self, takeover: bool) -> Self {
        self.takeover = takeover;
        self
    }

    /// Sets the epoch to go on from.
    #[must_use]
    pub fn with_from(mut self, from: Option<Epoch>) -> Self {
        self.from = from;
        self
    }

    /// Sets how to tell dead holders.
    #[must_use]
    pub fn with_is_gone(mut self, is_gone: IsGone) -> Self {
        self.is_gone = Some(is_gone);
        self
    }
}

impl fmt::Debug for OpenRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenRequest")
            .field("run_id", &self.run_id)
            .field("holder", &self.holder)
            .field("fresh", &self.fresh)
            .field("takeover", &self.takeover)
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

/// What a start has to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Opening {
    /// Begin a run: settle the closed one if there is one, discover every split, publish manifest 0. If that is lost, open again.
    First(Box<FirstStart>),
    /// Go on: settle, restore, run. The plan's manifest is published.
    Resume(Box<RecoveryPlan>),
    /// The input ended in an earlier start and every window has fired; only `--fresh` starts over.
    Complete {
        /// The last epoch.
        epoch: Epoch,
        /// What that start left to be settled; `None` if it ended in order.
        unsettled: Option<Box<RecoveryPlan>>,
    },
}

/// The beginning of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct FirstStart {
    /// The run's number.
    pub run: RunNumber,
    /// The run's name.
    pub run_id: RunId,
    /// This start's generation.
    pub generation: Generation,
    /// What the closed run left to be settled, before manifest 0 is published.
    pub closed: Option<Box<RecoveryPlan>>,
}

impl FirstStart {
    /// Manifest 0. `found` is the first discovery of every source, with positions resolved; `now` is the first epoch's `now()`.
    ///
    /// # Errors
    /// `Internal` if a source of the plan is missing in `found`.
    pub fn manifest(&self, request: &OpenRequest, found: &BTreeMap<String, Discovered>, now: EventTime) -> Result<Manifest> {
        let mut sources = BTreeMap::new();
        for (name, schema) in &request.shape.sources {
            let found = found.get(name).ok_or_else(|| Error::internal(format!("source `{name}` was not discovered")))?;
            let entry = SourceEntry {
                splits: found.added.iter().map(SplitEntry::new).collect(),
                cursor: found.cursor.clone(),
                complete: found.complete,
                schema: schema.clone(),
                pinned: request.shape.pinned.get(name).cloned(),
            };
            sources.insert(name.clone(), entry);
        }
        Ok(Manifest {
            run: self.run,
            run_id: self.run_id.clone(),
            generation: self.generation,
            epoch: Epoch(0),
            owner: request.holder.clone(),
            written: now,
            interval_ms: millis(request.interval),
            opens_generation: true,
            now,
            ended: None,
            vnodes: request.shape.vnodes,
            hash_version: HASH_VERSION,
            sources,
            operators: request.shape.operator_entries(),
            sinks: request.shape.sink_entries(),
            plugins: request.shape.plugins.clone(),
        })
    }
}

/// How often a lost race is run again. Each loss means that another start went through, so a handful is plenty.
const RACES: usize = 16;

/// Begins a start at wall time `now`.
///
/// # Errors
/// `Config` if the plan does not fit the manifest, if the pipeline is running elsewhere, or if a published epoch is damaged and going
/// back would repeat rows; each names what may be done. `External` if the store does not answer.
pub fn open(store: &dyn EpochStore, request: &OpenRequest, now: EventTime) -> Result<Opening> {
    for _ in 0..RACES {
        if let Some(opening) = attempt(store, request, now)? {
            return Ok(opening);
        }
    }
    Err(Error::external(format!("{RACES} other starts of this pipeline came first; see that only one runs")))
}

/// What each source resolved for itself in the run that a start would go on with, by source; see
/// [`tidegate_api::SourcePlan::pinned`]. Empty if it would begin one.
///
/// # Errors
/// As for [`open`], if the store cannot be read.
pub fn pinned(store: &dyn EpochStore) -> Result<BTreeMap<String, String>> {
    let Some(history) = newest_run(store)? else { return Ok(BTreeMap::new()) };
    let newest = choose::newest_readable(&history)?;
    if newest.ended == Some(End::Superseded) {
        return Ok(BTreeMap::new());
    }
    let pinned = newest.sources.iter().filter_map(|(name, entry)| Some((name.clone(), entry.pinned.clone()?)));
    Ok(pinned.collect())
}

fn attempt(store: &dyn EpochStore, request: &OpenRequest, now: EventTime) -> Result<Option<Opening>> {
    let Some(history) = newest_run(store)? else {
        if let Some(from) = request.from {
            return Err(Error::config(format!("there is no epoch {from} to start from; the store is empty")));
        }
        let first = FirstStart { run: RunNumber::FIRST, run_id: request.run_id.clone(), generation: Generation(1), closed: None };
        return Ok(Some(Opening::First(Box::new(first))));
    };
    let newest = choose::newest_readable(&history)?;
    let request = &request.after(newest);
    if newest.ended == Some(End::Superseded) {
        if let Some(from) = request.from {
            return Err(Error::config(format!("run {} was closed by a fresh start; epoch {from} cannot be gone back to", newest.run_id)));
        }
        return Ok(Some(begin_after(request, &history, newest.clone())));
    }
    // A later manifest that cannot be read leaves open whether this one is the end; then it is chosen like any other.
    let is_last = history.newest() == Some(newest.epoch);
    let complete = is_last && newest.ended == Some(End::Drain) && !request.fresh && request.from.is_none();
    if complete && history.is_settled(newest) {
        return Ok(Some(Opening::Complete { epoch: newest.epoch, unsettled: None }));
    }
    if !(is_last && newest.ended.is_some() && history.marks.contains(&newest.epoch)) {
        refuse_a_living_holder(store, request, newest, now)?;
    }
    if history.single.contains(&newest.epoch) {
        mend(store, newest)?;
    }
    if request.fresh {
        let closing = next_manifest(request, &history, newest, Some(End::Superseded), now)?;
        return Ok(match publish(store, &closing)? {
            Published::Ours => Some(begin_after(request, &history, closing)),
            Published::Theirs { .. } => None,
        });
    }
    let choice = if complete { choose::Choice::newest(newest) } else { choose::choose(store, request, &history)? };
    let mut opened = next_manifest(request, &history, choice.base, newest.ended.clone().filter(|_| complete), now)?;
    if !complete {
        choice.fit(request, &mut opened);
    }
    match publish(store, &opened)? {
        Published::Ours => {}
        Published::Theirs { .. } => return Ok(None),
    }
    let base = choice.base.epoch;
    let mut plan = RecoveryPlan::new(opened, base, &request.shape);
    plan.repeats = choice.repeats;
    plan.dropped_state = choice.dropped_state;
    plan.may_sweep = history.unreadable.is_empty();
    plan.older = history.manifests.into_values().collect();
    Ok(Some(if complete { Opening::Complete { epoch: base, unsettled: Some(Box::new(plan)) } } else { Opening::Resume(Box::new(plan)) }))
}

/// The start of the run after a closed one.
fn begin_after(request: &OpenRequest, history: &History, closing: Manifest) -> Opening {
    let (run, generation) = (closing.run.next(), closing.generation.next());
    let base = closing.epoch;
    let settled = history.marks.contains(&closing.epoch);
    // The closed run's sinks alone matter: the plan's belong to the new run.
    let closed = (!settled).then(|| Box::new(RecoveryPlan::new(closing, base, &JobShape::default())));
    Opening::First(Box::new(FirstStart { run, run_id: request.run_id.clone(), generation, closed }))
}

fn refuse_a_living_holder(store: &dyn EpochStore, request: &OpenRequest, newest: &Manifest, now: EventTime) -> Result<()> {
    let claim = claim::read(store, newest)?;
    let gone = request.is_gone.as_ref().is_some_and(|is_gone| is_gone(&claim));
    if request.takeover || gone || claim.holder == request.holder || !claim.is_live(now) {
        return Ok(());
    }
    Err(Error::config(format!(
        "this pipeline is being run by `{}`, last seen at {}; stop it first, wait for three epoch intervals ({} ms each), or use `--takeover` if it is gone",
        claim.holder, claim.renewed, claim.interval_ms
    )))
}

/// The manifest that takes the next number: a copy of `base` under the next generation.
fn next_manifest(request: &OpenRequest, history: &History, base: &Manifest, ended: Option<End>, now: EventTime) -> Result<Manifest> {
    let newest = history.newest().ok_or_else(|| Error::internal("a run without manifests"))?;
    let mut next = base.clone();
    next.epoch = newest.next();
    next.generation = choose::next_generation(history);
    next.owner = request.holder.clone();
    next.written = now;
    next.interval_ms = millis(request.interval);
    next.opens_generation = true;
    next.ended = ended;
    // What the newest manifest left pending goes along. What lies beyond an older base is undone and comes again.
    let carried = history.manifests.keys().next_back() == Some(&base.epoch) && !history.is_settled(base);
    if !carried {
        for sink in next.sinks.values_mut() {
            sink.pending.clear();
        }
    }
    #[cfg(any(test, feature = "testkit"))]
    match request.planted {
        PlantedBug::PendingForgotten => next.sinks.values_mut().for_each(|sink| sink.pending.clear()),
        PlantedBug::GenerationReused => next.generation = base.generation,
        _ => {}
    }
    Ok(next)
}

fn millis(interval: Duration) -> u64 {
    u64::try_from(interval.as_millis()).unwrap_or(u64::MAX)
}

//! The book of a running start: the newest manifest, and what the tasks have handed over for the next.
//!
//! A coordinator calls [`Ledger::begin`] with each barrier, [`Ledger::add`] with each task's snapshot, [`Ledger::write_objects`] when the
//! machine says to write states, [`Ledger::seal`] when it says to create the manifest, and [`Ledger::published`] when that exists.
//! A sealed manifest does not change any more, whatever is discovered meanwhile, so a repeated create sends the same bytes.

#[cfg(test)]
mod tests;

use crate::keys;
use crate::manifest::{End, Manifest, OperatorEntry, PendingToken, PieceRef, SinkEntry, SplitEntry, SplitStatus};
use crate::pieces::{DeferredPart, ObjectBody, OperatorSnapshot, SnapshotPiece, refer};
use crate::recovery::JobShape;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::{Barrier, CommitToken, Discovered, Epoch, Error, EventTime, PieceId, Position, Result, ResultExt, Split, SplitId};
use xxhash_rust::xxh3::xxh3_64;

/// About so many bytes of deferred pieces are in one object, unless a single piece is larger.
const DEFERRED_OBJECT: u64 = 8 << 20;

/// What one task hands over at a barrier.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskSnapshot {
    /// The progress of the splits it reads, by source. A split that is not named keeps its last progress.
    pub splits: BTreeMap<String, Vec<SplitProgress>>,
    /// The state of its operators.
    pub states: Vec<OperatorSnapshot>,
    /// Tokens of its sinks: the sink's name, the sink's task, the token.
    pub tokens: Vec<(String, u32, CommitToken)>,
}

/// How far a split was read when the barrier left its task.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitProgress {
    /// The split.
    pub id: SplitId,
    /// Where to read next; `None` if nothing was read yet, which leaves the position as it was.
    pub position: Option<Position>,
    /// The largest event time read.
    pub max_event_time: Option<EventTime>,
    /// Whether there is more.
    pub status: SplitStatus,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Ledger {
    newest: Manifest,
    /// Sources as they will stand in the next manifest; discovery writes here at once.
    next: Manifest,
    barrier: Option<Barrier>,
    objects: Vec<(String, ObjectBody)>,
    /// Whether the references to deferred pieces of `objects` say where their bytes lie.
    is_written: bool,
    /// By operator and task, in each task's order: operators may rely on the order of their runs.
    states: BTreeMap<String, BTreeMap<u32, Vec<PieceRef>>>,
    tokens: BTreeMap<String, Vec<PendingToken>>,
    sealed: Option<Manifest>,
}

impl Ledger {
    /// The ledger of a start whose opening manifest (or manifest 0) is `opened`, published and settled. From the next manifest on
    /// the sinks and plugins are those of the plan.
    pub fn new(opened: Manifest, shape: &JobShape) -> Self {
        let mut next = opened.clone();
        next.opens_generation = false;
        next.ended = None;
        next.sinks = shape.sink_entries();
        next.plugins = shape.plugins.clone();
        Ledger {
            newest: opened,
            next,
            barrier: None,
            objects: Vec::new(),
            is_written: true,
            states: BTreeMap::new(),
            tokens: BTreeMap::new(),
            sealed: None,
        }
    }

    /// The newest published manifest.
    pub fn manifest(&self) -> &Manifest {
        &self.newest
    }

    /// Records what a discovery found while running, and answers the splits that are new, to be assigned to tasks. They are in the
    /// next manifest from here on, at the position they begin at until a task says otherwise.
    ///
    /// # Errors
    /// `Internal` for an unknown source, `External` if an unfinished split is gone.
    pub fn discovered(&mut self, source: &str, found: &Discovered) -> Result<Vec<Split>> {
        let entry = self.next.sources.get_mut(source).ok_or_else(|| Error::internal(format!("no source `{source}` in this run")))?;
        for gone in &found.gone {
            let unfinished = entry.splits.iter().any(|split| split.id == *gone && split.status == SplitStatus::Reading);
            if unfinished {
                return Err(Error::external(format!("source `{source}`: split `{gone}` is gone before it was read to its end")));
            }
        }
        let gone: BTreeSet<&SplitId> = found.gone.iter().collect();
        entry.splits.retain(|split| !gone.contains(&split.id));
        let known: BTreeSet<SplitId> = entry.splits.iter().map(|split| split.id.clone()).collect();
        let added: Vec<Split> = found.added.iter().filter(|split| !known.contains(&split.id)).cloned().collect();
        entry.splits.extend(added.iter().map(SplitEntry::new));
        if found.cursor.is_some() {
            entry.cursor = found.cursor.clone();
        }
        entry.complete = found.complete;
        Ok(added)
    }

    /// A barrier is on its way.
    pub fn begin(&mut self, barrier: Barrier) {
        self.barrier = Some(barrier);
        self.objects.clear();
        self.is_written = true;
        self.states.clear();
        self.tokens.clear();
        self.sealed = None;
    }

    /// Takes a task's snapshot for the barrier on its way.
    ///
    /// # Errors
    /// `Internal` if it names a source, split, operator, sink or kept piece that the run does not have.
    pub fn add(&mut self, snapshot: TaskSnapshot) -> Result<()> {
        for (source, splits) in snapshot.splits {
            self.add_splits(&source, splits)?;
        }
        for state in snapshot.states {
            self.add_state(state)?;
        }
        let epoch = self.epoch()?;
        for (sink, task, token) in snapshot.tokens {
            if !self.next.sinks.get(&sink).is_some_and(|sink| sink.two_phase) {
                return Err(Error::internal(format!("sink `{sink}` gave a commit token and is not two-phase in this plan")));
            }
            self.tokens.entry(sink).or_default().push(PendingToken { epoch, task, token: token.0 });
        }
        Ok(())
    }

    fn add_splits(&mut self, source: &str, splits: Vec<SplitProgress>) -> Result<()> {
        let entry = self.next.sources.get_mut(source).ok_or_else(|| Error::internal(format!("no source `{source}` in this run")))?;
        let index: BTreeMap<SplitId, usize> = entry.splits.iter().enumerate().map(|(index, split)| (split.id.clone(), index)).collect();
        for progress in splits {
            match index.get(&progress.id) {
                Some(&at) => {
                    let known = &mut entry.splits[at];
                    known.position = progress.position.map(|position| position.0).or(known.position.take());
                    known.max_event_time = known.max_event_time.max(progress.max_event_time);
                    known.status = progress.status;
                }
                // A finished split that discovery has dropped since the barrier left.
                None if progress.status == SplitStatus::Finished => {}
                None => {
                    return Err(Error::internal(format!("source `{source}` reads split `{}`, which was never discovered", progress.id)));
                }
            }
        }
        Ok(())
    }

    fn add_state(&mut self, state: OperatorSnapshot) -> Result<()> {
        let epoch = self.epoch()?;
        let Some(known) = self.newest.operators.get(&state.operator) else {
            return Err(Error::internal(format!("no operator `{}` in this run", state.operator)));
        };
        let (run_id, generation) = (&self.next.run_id, self.next.generation);
        // Made when a piece is kept: a state may lie in thousands of them.
        let mut index: Option<BTreeMap<&PieceId, &PieceRef>> = None;
        let key = |seq: u32| keys::object(run_id, generation, epoch, &state.operator, state.task, seq);
        let object = key(0);
        let sizes = state.pieces.iter().map(|piece| match piece {
            SnapshotPiece::New { data, .. } => data.len(),
            SnapshotPiece::Deferred { .. } | SnapshotPiece::Kept(_) => 0,
        });
        let total: usize = sizes.sum();
        let mut bytes = Vec::new();
        // Deferred pieces lie in objects of their own, none larger than need be in memory at once.
        let mut deferred: Vec<(String, Vec<DeferredPart>, u64)> = Vec::new();
        let mut pieces = Vec::with_capacity(state.pieces.len());
        for piece in state.pieces {
            let reference = match piece {
                SnapshotPiece::New { id, name, vnodes, data } => {
                    let reference = refer(id, name, vnodes, &object, bytes.len(), &data);
                    if bytes.is_empty() {
                        // The usual snapshot is one piece per task; it is moved, not copied.
                        bytes = data;
                    } else {
                        // All at once, and each piece goes as it is copied: a large state is held once, not three times.
                        bytes.reserve_exact(total - bytes.len());
                        bytes.extend_from_slice(&data);
                    }
                    reference
                }
                SnapshotPiece::Deferred { id, name, vnodes, data } => {
                    let about = data.0.estimate();
                    if deferred.last().is_none_or(|(_, _, filled)| filled.saturating_add(about) > DEFERRED_OBJECT) {
                        deferred.push((key(deferred.len() as u32 + 1), Vec::new(), 0));
                    }
                    let Some((object, parts, filled)) = deferred.last_mut() else { continue };
                    parts.push(DeferredPart { data, operator: state.operator.clone(), task: state.task, place: pieces.len() });
                    *filled = filled.saturating_add(about);
                    PieceRef { id, name, vnodes, object: object.clone(), offset: 0, length: 0, checksum: 0 }
                }
                SnapshotPiece::Kept(id) => {
                    match index.get_or_insert_with(|| known.pieces.iter().map(|piece| (&piece.id, piece)).collect()).get(&id) {
                        Some(reference) => PieceRef::clone(reference),
                        None => {
                            return Err(Error::internal(format!(
                                "operator `{}` keeps piece `{id}`, which epoch {} lacks",
                                state.operator, self.newest.epoch
                            )));
                        }
                    }
                }
            };
            pieces.push(reference);
        }
        self.states.entry(state.operator).or_default().insert(state.task, pieces);
        if !bytes.is_empty() {
            self.objects.push((object, ObjectBody::Bytes(bytes)));
        }
        self.is_written &= deferred.is_empty();
        self.objects.extend(deferred.into_iter().map(|(object, parts, _)| (object, ObjectBody::Deferred(parts))));
        Ok(())
    }

    fn epoch(&self) -> Result<Epoch> {
        let barrier = self.barrier.ok_or_else(|| Error::internal("a snapshot came without a barrier"))?;
        Ok(barrier.epoch)
    }

    /// Hands every object of the barrier on its way to `put`: key and content. The same at every call, so writing may be repeated.
    /// One object at a time is in memory beside what the snapshots hold.
    ///
    /// # Errors
    /// Those of `put`, and of making deferred bytes; the message names the object.
    pub fn write_objects(&mut self, mut put: impl FnMut(&str, &[u8]) -> Result<()>) -> Result<()> {
        for (key, body) in &self.objects {
            let what = || format!("state object `{key}`");
            match body {
                ObjectBody::Bytes(bytes) => put(key, bytes).context(what)?,
                ObjectBody::Deferred(parts) => {
                    let about: u64 = parts.iter().map(|part| part.data.0.estimate()).sum();
                    let mut bytes = Vec::with_capacity(usize::try_from(about.min(DEFERRED_OBJECT)).unwrap_or(0));
                    for part in parts {
                        let made = part.data.0.make().context(what)?;
                        let pieces = self.states.get_mut(&part.operator).and_then(|tasks| tasks.get_mut(&part.task));
                        let Some(reference) = pieces.and_then(|pieces| pieces.get_mut(part.place)) else {
                            return Err(Error::internal(format!("{}: one of its pieces belongs to no snapshot", what())));
                        };
                        (reference.offset, reference.length) = (bytes.len() as u64, made.len() as u64);
                        reference.checksum = xxh3_64(&made);
                        bytes.extend_from_slice(&made);
                    }
                    put(key, &bytes).context(what)?;
                }
            }
        }
        self.is_written = true;
        Ok(())
    }

    /// The epoch's manifest. Made at the first call after all snapshots have come, the same at every later one.
    ///
    /// # Errors
    /// `Internal` without a barrier, and before deferred pieces are written.
    pub fn seal(&mut self, ended: Option<End>, written: EventTime) -> Result<&Manifest> {
        let barrier = self.barrier.ok_or_else(|| Error::internal("a manifest was asked for without a barrier"))?;
        if !self.is_written {
            return Err(Error::internal("a manifest was asked for before the state objects were written"));
        }
        if self.sealed.is_none() {
            self.next.epoch = barrier.epoch;
            self.next.now = barrier.now;
            self.next.written = written;
            self.next.ended = ended;
            for (name, operator) in &mut self.next.operators {
                let pieces = self.states.remove(name).unwrap_or_default().into_values().flatten();
                // After a change of the task count two tasks may keep the same piece.
                let mut named = BTreeSet::new();
                operator.pieces = pieces.filter(|piece| named.insert(piece.id.clone())).collect();
            }
            for (name, sink) in &mut self.next.sinks {
                sink.pending = self.tokens.remove(name).unwrap_or_default();
                sink.pending.sort_by_key(|pending| (pending.epoch, pending.task));
            }
            // The bytes are durable by now; only the references are needed.
            self.objects.clear();
            self.sealed = Some(self.next.clone());
        }
        self.sealed.as_ref().ok_or_else(|| Error::internal("no manifest was sealed"))
    }

    /// The sealed manifest exists; it is the newest.
    pub fn published(&mut self) {
        if let Some(manifest) = self.sealed.take() {
            self.newest = manifest;
            self.barrier = None;
        }
    }

    /// Drops the splits of a source that the newest manifest has as finished, and answers which they were. For sources whose discovery
    /// remembers by itself what it has named: nothing else asks for a finished split any more, and every manifest would carry it along.
    pub fn forget_finished(&mut self, source: &str) -> Vec<SplitId> {
        let Some(entry) = self.next.sources.get_mut(source) else { return Vec::new() };
        if entry.splits.iter().all(|split| split.status == SplitStatus::Reading) {
            return Vec::new();
        }
        let durable = self.newest.sources.get(source).map_or(&[][..], |source| &source.splits);
        let durable: BTreeSet<&SplitId> =
            durable.iter().filter(|split| split.status == SplitStatus::Finished).map(|split| &split.id).collect();
        let is_over = |split: &&mut SplitEntry| split.status == SplitStatus::Finished && durable.contains(&split.id);
        entry.splits.extract_if(.., |split| is_over(&split)).map(|split| split.id).collect()
    }

    /// The tokens of one sink for `epoch`, to be committed: the newest manifest's or, while that is not published yet, those handed over so far.
    pub fn pending(&self, epoch: Epoch, sink: &str) -> Vec<CommitToken> {
        let manifest = if epoch == self.newest.epoch { Some(&self.newest) } else { self.sealed.as_ref() };
        let pending = match manifest {
            Some(manifest) => manifest.sinks.get(sink).map(|sink| sink.pending.as_slice()),
            None => self.tokens.get(sink).map(Vec::as_slice),
        };
        pending.unwrap_or_default().iter().map(PendingToken::commit_token).collect()
    }

    /// The positions of one source as of `epoch`, to be acknowledged; chosen as in [`Ledger::pending`].
    pub fn positions(&self, epoch: Epoch, source: &str) -> Vec<(SplitId, Position)> {
        let manifest = if epoch == self.newest.epoch { &self.newest } else { self.sealed.as_ref().unwrap_or(&self.next) };
        let splits = manifest.sources.get(source).map_or(&[][..], |source| &source.splits);
        splits.iter().filter_map(|split| Some((split.id.clone(), Position(split.position.clone()?)))).collect()
    }
}

impl JobShape {
    /// The sinks of a manifest in which nothing is pending.
    pub(crate) fn sink_entries(&self) -> BTreeMap<String, SinkEntry> {
        let entry =
            |sink: &crate::recovery::SinkShape| SinkEntry { two_phase: sink.two_phase, config: sink.config.clone(), pending: Vec::new() };
        self.sinks.iter().map(|(name, sink)| (name.clone(), entry(sink))).collect()
    }

    /// The operators of a manifest without state.
    pub(crate) fn operator_entries(&self) -> BTreeMap<String, OperatorEntry> {
        let entry = |signature: &tidegate_api::Signature| OperatorEntry { signature: signature.clone(), pieces: Vec::new() };
        self.operators.iter().map(|(name, signature)| (name.clone(), entry(signature))).collect()
    }
}

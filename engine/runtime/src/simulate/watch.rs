//! What the simulator sees of a job from outside, and the named invariants that it holds every transition to.
//!
//! Whatever outlives a process passes here: each effect on the store, each row made durable, visible or undone by a sink, each
//! acknowledgement that reaches a source. So does what a task has promised and what an edge has carried. [`Seen`] is the world before a
//! transition, [`Event`] the transition; [`INVARIANTS`] are predicates over the two, asked in order. The first that does not hold ends
//! the simulation, by its name.

mod ends;
mod invariants;
mod store;
#[cfg(test)]
mod tests;

pub use invariants::{INVARIANTS, Invariant};

pub(super) use ends::watch_ends;
pub(super) use store::WatchedStore;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_api::{CommitToken, Epoch, Error, EventTime, Generation, Position, Result, SplitId};
use tidegate_epochs::manifest::Manifest;
use tidegate_epochs::{End, RunNumber};

/// A transition.
#[derive(Debug)]
pub enum Event<'a> {
    /// A manifest was created: the decision of an epoch.
    Published(&'a Manifest),
    /// A manifest that exists was written once more.
    Rewritten(RunNumber, Epoch, &'a [u8]),
    /// A copy of a manifest was deleted.
    Expired(RunNumber, Epoch),
    /// A commit mark was written.
    Marked(RunNumber, Epoch),
    /// A state object was written; with the hash of its bytes.
    StateWritten(&'a str, u64),
    /// A state object was deleted.
    StateDeleted(&'a str),
    /// A task of a sink, of this generation, has made an epoch's rows durable.
    Prepared(&'a str, Generation, &'a CommitToken),
    /// A sink is about to make rows visible.
    Committing(&'a str, &'a [CommitToken]),
    /// It has.
    Committed(&'a str, &'a [CommitToken]),
    /// A start of this generation is about to undo what older ones have prepared, but for these tokens.
    Undoing(&'a str, Generation, &'a [CommitToken]),
    /// A reader was told that a position is durable.
    Acknowledged(&'a str, &'a SplitId, &'a Position),
    /// A task (of this process, node and number) has promised this.
    Promised(u32, &'a str, usize, EventTime),
    /// So many rows have been sent over an edge of a process, and received from it.
    Carried(&'a str, u64, u64),
    /// A process has ended in order; so many rows were sent over an edge, and received from it.
    Delivered(&'a str, u64, u64),
    /// A process has ended in order; so many rows came into a node, and what became of so many is known.
    Counted(&'a str, u64, u64),
    /// A process said that it has ended in order.
    Ended,
}

/// The world before a transition.
#[derive(Debug, Default)]
pub struct Seen {
    /// Every manifest that was ever published.
    pub manifests: BTreeMap<(RunNumber, Epoch), Manifest>,
    /// Those of them that were deleted again.
    pub expired: BTreeSet<(RunNumber, Epoch)>,
    /// Every mark that was ever written.
    pub marks: BTreeSet<(RunNumber, Epoch)>,
    /// Every state object that was ever written, with the hash of its bytes.
    pub written: BTreeMap<String, u64>,
    /// The state objects that exist.
    pub objects: BTreeSet<String>,
    /// Rows that a sink has made durable, with the generation that did.
    pub prepared: BTreeMap<(String, CommitToken), Generation>,
    /// Rows that a sink has made visible.
    pub committed: BTreeSet<(String, CommitToken)>,
    /// What each task has promised last, by process, node and number.
    pub promised: BTreeMap<(u32, String, usize), EventTime>,
    /// How many of the newest manifests are retained.
    pub keep: usize,
    /// Sources whose discovery remembers by itself what it has named.
    pub remembering: BTreeSet<String>,
}

impl Seen {
    /// The newest manifest.
    pub fn newest(&self) -> Option<&Manifest> {
        self.manifests.values().next_back()
    }

    /// Whether everything that a manifest left pending is visible.
    pub fn is_committed(&self, manifest: &Manifest) -> bool {
        let pending = manifest.sinks.iter().flat_map(|(sink, entry)| entry.pending.iter().map(move |token| (sink, token)));
        pending.into_iter().all(|(sink, token)| self.committed.contains(&(sink.clone(), token.commit_token())))
    }

    fn apply(&mut self, event: &Event<'_>) {
        let of = |sink: &str, tokens: &[CommitToken]| tokens.iter().map(|token| (sink.to_string(), token.clone())).collect::<Vec<_>>();
        match event {
            Event::Published(manifest) => {
                self.manifests.insert((manifest.run, manifest.epoch), Manifest::clone(manifest));
            }
            Event::Expired(run, epoch) => {
                self.expired.insert((*run, *epoch));
            }
            Event::Marked(run, epoch) => {
                self.marks.insert((*run, *epoch));
            }
            Event::StateWritten(key, hash) => {
                self.written.insert((*key).to_string(), *hash);
                self.objects.insert((*key).to_string());
            }
            Event::StateDeleted(key) => {
                self.objects.remove(*key);
            }
            Event::Prepared(sink, generation, token) => {
                self.prepared.insert(((*sink).to_string(), CommitToken::clone(token)), *generation);
            }
            Event::Committed(sink, tokens) => self.committed.extend(of(sink, tokens)),
            Event::Promised(process, node, task, at) => {
                self.promised.insert((*process, (*node).to_string(), *task), *at);
            }
            Event::Rewritten(..)
            | Event::Committing(..)
            | Event::Undoing(..)
            | Event::Acknowledged(..)
            | Event::Carried(..)
            | Event::Delivered(..)
            | Event::Counted(..)
            | Event::Ended => {}
        }
    }
}

#[derive(Debug, Default)]
struct State {
    seen: Seen,
    transitions: u64,
    broken: Option<(&'static str, String)>,
}

/// Hands transitions to the invariants. Clones watch the same world.
#[derive(Debug, Clone, Default)]
pub(super) struct Watch(Arc<Mutex<State>>);

impl Watch {
    /// A transition is happening.
    pub(super) fn on(&self, event: &Event<'_>) {
        let mut state = self.state();
        state.transitions += 1;
        if state.broken.is_none() {
            let broken =
                INVARIANTS.iter().find_map(|invariant| (invariant.holds)(&state.seen, event).err().map(|why| (invariant.name, why)));
            state.broken = broken;
        }
        state.seen.apply(event);
    }

    /// A manifest was created where there was none. One that had expired and comes back, in a call that arrives late, decides nothing.
    pub(super) fn published(&self, manifest: &Manifest) {
        let known = self.state().seen.manifests.contains_key(&(manifest.run, manifest.epoch));
        if known {
            self.on(&Event::Rewritten(manifest.run, manifest.epoch, &manifest.encode()));
        } else {
            self.on(&Event::Published(manifest));
        }
    }

    /// How many manifests the next process retains.
    pub(super) fn keep(&self, epochs: usize) {
        self.state().seen.keep = epochs;
    }

    /// A source remembers by itself what its discovery has named.
    pub(super) fn remembers(&self, source: &str) {
        self.state().seen.remembering.insert(source.to_string());
    }

    /// Transitions so far.
    pub(super) fn transitions(&self) -> u64 {
        self.state().transitions
    }

    /// Whether the newest manifest says that the input has ended for good.
    pub(super) fn is_drained(&self) -> bool {
        self.state().seen.newest().is_some_and(|newest| newest.ended == Some(End::Drain))
    }

    /// The first invariant that did not hold.
    pub(super) fn verdict(&self) -> Result<()> {
        match &self.state().broken {
            None => Ok(()),
            Some((name, why)) => Err(Error::internal(format!("invariant `{name}`: {why}"))),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

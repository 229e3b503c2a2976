//! What may be deleted: only what an expiring manifest names and no retained one does.
//!
//! Retained are the newest `keepEpochs` manifests. A manifest that opens a generation is never deleted, since its number is
//! the fence that an old start runs into; the state it names expires like any other's. Nothing outside this run's manifests,
//! marks and the objects those manifests name is ever touched, savepoints and staged rows included.

#[cfg(test)]
mod tests;

use crate::keys::{self, Copy, RunNumber};
#[cfg(any(test, feature = "testkit"))]
use crate::machine::PlantedBug;
use crate::manifest::Manifest;
use crate::recovery::RecoveryPlan;
use crate::store::EpochStore;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::{Epoch, Result};

/// Keeps count of what the manifests of one run name. Starts with what a start has read, and follows what it publishes.
#[derive(Debug)]
pub struct Pruner {
    run: RunNumber,
    keep: usize,
    known: BTreeMap<Epoch, Named>,
    #[cfg(any(test, feature = "testkit"))]
    planted: PlantedBug,
}

#[derive(Debug)]
struct Named {
    opens_generation: bool,
    objects: BTreeSet<String>,
}

/// What one pass deletes, in this order: objects first, so that a pass that is cut short is found again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Expired {
    /// State objects.
    pub objects: BTreeSet<String>,
    /// Manifests with their marks.
    pub manifests: BTreeSet<Epoch>,
}

impl Pruner {
    /// A pruner that retains `keep` manifests (at least one) and knows `manifests`.
    pub fn new<'a>(run: RunNumber, keep: usize, manifests: impl IntoIterator<Item = &'a Manifest>) -> Self {
        let mut pruner = Pruner {
            run,
            keep: keep.max(1),
            known: BTreeMap::new(),
            #[cfg(any(test, feature = "testkit"))]
            planted: PlantedBug::None,
        };
        for manifest in manifests {
            pruner.published(manifest);
        }
        pruner
    }

    /// The pruner of a start that goes on: knows every manifest of the run, and deletes state objects that no manifest names,
    /// of generations below this one. Those are fenced and can never name them any more.
    ///
    /// # Errors
    /// `External` if the store does not answer; nothing is lost by trying again.
    pub fn open(store: &dyn EpochStore, plan: &RecoveryPlan, keep: usize) -> Result<Self> {
        let mut pruner = Pruner::new(plan.run(), keep, plan.older.iter().chain([&plan.manifest]));
        let folder = keys::objects(plan.run_id());
        let mut existing: BTreeSet<String> = store.list(&folder)?.into_iter().collect();
        if plan.may_sweep {
            let named: BTreeSet<&String> = pruner.known.values().flat_map(|named| &named.objects).collect();
            let orphans: Vec<String> = existing
                .iter()
                .filter(|object| !named.contains(object) && keys::generation_of(&folder, object).is_some_and(|of| of < plan.generation()))
                .cloned()
                .collect();
            for orphan in orphans {
                store.delete(&orphan)?;
                existing.remove(&orphan);
            }
        }
        // Manifests that open generations outlive what they name; it is not deleted again at every start.
        for named in pruner.known.values_mut() {
            named.objects.retain(|object| existing.contains(object));
        }
        Ok(pruner)
    }

    /// Plants a mistake.
    #[cfg(any(test, feature = "testkit"))]
    #[must_use]
    pub fn with_planted_bug(mut self, bug: PlantedBug) -> Self {
        self.planted = bug;
        self
    }

    /// A manifest was published.
    pub fn published(&mut self, manifest: &Manifest) {
        let objects = manifest.objects().into_iter().map(str::to_string).collect();
        self.known.insert(manifest.epoch, Named { opens_generation: manifest.opens_generation, objects });
    }

    /// What may go now.
    pub fn expired(&self) -> Expired {
        let border = self.known.len().saturating_sub(self.keep);
        let retained: BTreeSet<&String> = self.known.values().skip(border).flat_map(|named| &named.objects).collect();
        #[cfg(any(test, feature = "testkit"))]
        let retained = if self.planted == PlantedBug::NamedObjectsPruned { BTreeSet::new() } else { retained };
        let expiring = || self.known.iter().take(border);
        Expired {
            objects: expiring().flat_map(|(_, named)| &named.objects).filter(|object| !retained.contains(object)).cloned().collect(),
            manifests: expiring().filter(|(_, named)| !named.opens_generation).map(|(epoch, _)| *epoch).collect(),
        }
    }

    /// Deletes what may go, and forgets it. After an error the rest is found by the next pass.
    ///
    /// # Errors
    /// `External` if the store did not confirm.
    pub fn prune(&mut self, store: &dyn EpochStore) -> Result<()> {
        let expired = self.expired();
        for object in &expired.objects {
            store.delete(object)?;
        }
        for epoch in &expired.manifests {
            store.delete(&keys::mark(self.run, *epoch))?;
            store.delete(&keys::manifest(self.run, *epoch, Copy::B))?;
            store.delete(&keys::manifest(self.run, *epoch, Copy::A))?;
            self.known.remove(epoch);
        }
        // What is left beyond the border opens a generation; its objects are gone.
        let border = self.known.len().saturating_sub(self.keep);
        for named in self.known.values_mut().take(border) {
            named.objects.clear();
        }
        Ok(())
    }
}

//! What a store holds, for a person who looks at it. Reads, and writes nothing.

use crate::claim::{self, Claim};
use crate::keys::{self, RunNumber};
use crate::manifest::Manifest;
use crate::open::damage_of;
use crate::publish::newest_run;
use crate::store::EpochStore;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::{Epoch, Result, ResultExt};

/// The newest run of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Inspection {
    /// The run's number.
    pub run: RunNumber,
    /// The runs before it that were closed by a fresh start; their objects are still there.
    pub earlier: BTreeSet<RunNumber>,
    /// Every epoch that can be read, oldest first.
    pub epochs: Vec<InspectedEpoch>,
    /// Epochs of whose manifest no copy can be read, and why.
    pub unreadable: BTreeMap<Epoch, String>,
    /// The last sign of life of the newest generation.
    pub claim: Option<Claim>,
}

/// One epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct InspectedEpoch {
    /// Its manifest.
    pub manifest: Manifest,
    /// Whether one of the two copies of the manifest is missing or damaged; the next start mends it.
    pub is_single: bool,
    /// Whether everything pending in it is known to be committed.
    pub is_settled: bool,
    /// Whether its state is still there: a manifest that opens a generation outlives what it names.
    pub is_whole: bool,
    /// The first object that is missing or damaged. Only looked for where asked, as every object is read for it.
    pub damage: Option<String>,
}

impl InspectedEpoch {
    /// Bytes of state by stage.
    pub fn state_bytes(&self) -> BTreeMap<&str, u64> {
        let sum = |pieces: &[crate::manifest::PieceRef]| pieces.iter().map(|piece| piece.length).sum();
        self.manifest.operators.iter().map(|(name, operator)| (name.as_str(), sum(&operator.pieces))).collect()
    }
}

/// Looks at the newest run; `None` if the store has none. With `verify` every object of every epoch is read and its checksum compared.
///
/// # Errors
/// As for [`newest_run`].
pub fn inspect(store: &dyn EpochStore, verify: bool) -> Result<Option<Inspection>> {
    let Some(history) = newest_run(store)? else { return Ok(None) };
    let listed = store.list(keys::MANIFESTS).context(|| "listing manifests".to_string())?;
    let runs = listed.iter().filter_map(|key| keys::parse_manifest(key)).map(|(run, _)| run);
    let objects: BTreeSet<String> = store.list(keys::OBJECTS).context(|| "listing state objects".to_string())?.into_iter().collect();
    let mut epochs = Vec::new();
    for (epoch, manifest) in &history.manifests {
        let is_whole = manifest.objects().into_iter().all(|object| objects.contains(object));
        epochs.push(InspectedEpoch {
            is_single: history.single.contains(epoch),
            is_settled: history.is_settled(manifest),
            damage: if verify { damage_of(store, manifest)? } else { None },
            is_whole,
            manifest: manifest.clone(),
        });
    }
    let claim = history.manifests.values().next_back().map(|newest| claim::read(store, newest)).transpose()?;
    Ok(Some(Inspection {
        run: history.run,
        earlier: runs.filter(|run| *run < history.run).collect(),
        epochs,
        unreadable: history.unreadable,
        claim,
    }))
}

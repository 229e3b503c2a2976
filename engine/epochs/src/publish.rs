//! Manifests and marks in a store: create if absent with a second copy, read with the copy as a fallback.

use crate::encoding::{seal, unseal};
use crate::keys::{self, Copy, RunNumber};
use crate::manifest::Manifest;
use crate::store::{Created, EpochStore};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::{Epoch, Error, ErrorKind, Result, ResultExt};

/// Whether a manifest is ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// It exists, in two copies, and this caller made it (perhaps in an earlier call whose answer was lost).
    Ours,
    /// Another start made one under this number first.
    Theirs {
        /// Who; empty if the other manifest cannot be read.
        owner: String,
    },
}

/// Creates a manifest if its number is free, then writes the second copy. Repeating the call with an equal manifest is harmless.
///
/// # Errors
/// `External` if the store did not confirm; whether the manifest exists is then unknown until the call is repeated.
pub fn publish(store: &dyn EpochStore, manifest: &Manifest) -> Result<Published> {
    let bytes = manifest.encode();
    let place = || format!("manifest of epoch {}", manifest.epoch);
    match store.create(&keys::manifest(manifest.run, manifest.epoch, Copy::A), &bytes).context(place)? {
        Created::New => {}
        Created::Exists(found) if found == bytes => {}
        Created::Exists(found) => {
            let owner = Manifest::decode(&found).map(|found| found.owner).unwrap_or_default();
            return Ok(Published::Theirs { owner });
        }
    }
    store.put(&keys::manifest(manifest.run, manifest.epoch, Copy::B), &bytes).context(place)?;
    Ok(Published::Ours)
}

/// Writes the mark that everything pending in this manifest is committed.
///
/// # Errors
/// `External` if the store did not confirm.
pub fn mark_committed(store: &dyn EpochStore, manifest: &Manifest) -> Result<()> {
    let body = serde_json::json!({ "owner": manifest.owner, "generation": manifest.generation });
    let bytes = seal(MARK_FORMAT, &body.to_string());
    store.put(&keys::mark(manifest.run, manifest.epoch), &bytes).context(|| format!("commit mark of epoch {}", manifest.epoch))
}

/// The version of a mark that this code writes, and the highest it reads.
const MARK_FORMAT: u32 = 1;

/// What a store holds of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    /// The run's number.
    pub run: RunNumber,
    /// Readable manifests. Of older ones only those of opening generations, and the newest `keepEpochs`.
    pub manifests: BTreeMap<Epoch, Manifest>,
    /// Manifests of which neither copy can be read, and why.
    pub unreadable: BTreeMap<Epoch, String>,
    /// Readable manifests of which one copy is missing or damaged.
    pub single: BTreeSet<Epoch>,
    /// Epochs whose commits are known to be done.
    pub marks: BTreeSet<Epoch>,
}

impl History {
    /// The highest number in use, readable or not.
    pub fn newest(&self) -> Option<Epoch> {
        self.manifests.keys().chain(self.unreadable.keys()).max().copied()
    }

    /// Whether everything pending in a manifest is known to be committed.
    pub fn is_settled(&self, manifest: &Manifest) -> bool {
        !manifest.has_pending() || self.marks.contains(&manifest.epoch)
    }
}

/// Reads the newest run of a store; `None` if it has none.
///
/// # Errors
/// `External` if the store does not answer, `Config` if a later version of the engine wrote a manifest or if what else the store
/// holds shows that manifests are missing.
pub fn newest_run(store: &dyn EpochStore) -> Result<Option<History>> {
    let mut found = numbers(store)?;
    if found.is_empty()
        && let Some(remnant) = remnant(store)?
    {
        // Another start may have begun between the two listings.
        found = numbers(store)?;
        if found.is_empty() {
            return Err(Error::config(format!(
                "the store is damaged: it holds `{remnant}` and no manifest under `{}`; restore that folder from a backup, or move the store away to start over, which loses its state",
                keys::MANIFESTS
            )));
        }
    }
    let Some(&(run, _)) = found.last() else {
        return Ok(None);
    };
    let mut history =
        History { run, manifests: BTreeMap::new(), unreadable: BTreeMap::new(), single: BTreeSet::new(), marks: BTreeSet::new() };
    for &(_, epoch) in found.iter().filter(|(of, _)| *of == run) {
        match read(store, run, epoch)? {
            Read::Both(manifest) => {
                history.manifests.insert(epoch, *manifest);
            }
            Read::One(manifest) => {
                history.manifests.insert(epoch, *manifest);
                history.single.insert(epoch);
            }
            Read::Damaged(why) => {
                history.unreadable.insert(epoch, why);
            }
            // Listed and gone: a running start has pruned it meanwhile.
            Read::Gone => {}
        }
    }
    let marks = store.list(&keys::marks(run)).context(|| "listing commit marks".to_string())?;
    history.marks = marks.iter().filter_map(|key| key.rsplit('/').next()?.parse().ok().map(Epoch)).collect();
    if let Some(&marked) = history.marks.last().filter(|marked| history.newest().is_none_or(|newest| **marked > newest)) {
        refuse_a_lost_manifest(store, run, marked)?;
    }
    if let Some(newest) = history.newest().filter(|newest| history.marks.contains(newest))
        && !is_sound_mark(store, run, newest)?
    {
        history.marks.remove(&newest);
    }
    Ok(Some(history))
}

/// The numbers of all manifests.
fn numbers(store: &dyn EpochStore) -> Result<BTreeSet<(RunNumber, Epoch)>> {
    let keys = store.list(keys::MANIFESTS).context(|| "listing manifests".to_string())?;
    Ok(keys.iter().filter_map(|key| keys::parse_manifest(key)).collect())
}

/// Something that only exists after a manifest did.
fn remnant(store: &dyn EpochStore) -> Result<Option<String>> {
    for folder in [keys::MARKS, keys::CLAIMS, keys::OBJECTS] {
        if let Some(key) = store.list(folder).context(|| format!("listing `{folder}`"))?.into_iter().next() {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// A mark is written after its manifest and deleted before it. A manifest that is newer than the listing is no loss.
fn refuse_a_lost_manifest(store: &dyn EpochStore, run: RunNumber, epoch: Epoch) -> Result<()> {
    let (a, b) = (keys::manifest(run, epoch, Copy::A), keys::manifest(run, epoch, Copy::B));
    for key in [&a, &b] {
        if store.get(key).context(|| format!("manifest `{key}`"))?.is_some() {
            return Ok(());
        }
    }
    Err(Error::config(format!(
        "the store is damaged: epoch {epoch} was committed, and its manifest (`{a}`, `{b}`) is missing; restore it from a backup, or move the store away to start over, which loses its state"
    )))
}

/// Whether the mark of an epoch can be read. One that cannot counts as absent: what it stands for is done again, which changes nothing.
fn is_sound_mark(store: &dyn EpochStore, run: RunNumber, epoch: Epoch) -> Result<bool> {
    let key = keys::mark(run, epoch);
    let Some(bytes) = store.get(&key).context(|| format!("commit mark `{key}`"))? else { return Ok(false) };
    match unseal(&bytes, "commit mark", MARK_FORMAT) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::Config => Err(error.context(format!("commit mark `{key}`"))),
        Err(error) => {
            tracing::warn!(key, %error, "a commit mark cannot be read; what was pending in its epoch is committed again");
            Ok(false)
        }
    }
}

/// Who has taken the pipeline over from `holder`, whose start had published a manifest: the owner of the newest one, if it is another.
///
/// # Errors
/// As [`newest_run`].
pub fn taken_over(store: &dyn EpochStore, holder: &str) -> Result<Option<String>> {
    let history = newest_run(store)?;
    let newest = history.and_then(|history| history.manifests.into_values().next_back());
    Ok(newest.map(|newest| newest.owner).filter(|owner| owner != holder))
}

enum Read {
    Both(Box<Manifest>),
    One(Box<Manifest>),
    Damaged(String),
    Gone,
}

/// Reads both copies. They are small, and a start is the moment to learn that one of them is gone.
fn read(store: &dyn EpochStore, run: RunNumber, epoch: Epoch) -> Result<Read> {
    let mut readable = Vec::new();
    let mut reasons = Vec::new();
    let mut missing = Vec::new();
    for copy in [Copy::A, Copy::B] {
        let key = keys::manifest(run, epoch, copy);
        let Some(bytes) = store.get(&key).context(|| format!("manifest `{key}`"))? else {
            missing.push(format!("`{key}` is missing"));
            continue;
        };
        match Manifest::decode(&bytes) {
            Ok(manifest) if (manifest.run, manifest.epoch) == (run, epoch) => readable.push(Box::new(manifest)),
            Ok(manifest) => reasons.push(format!("`{key}` holds epoch {} of run {}", manifest.epoch, manifest.run)),
            Err(error) => match error.kind() {
                ErrorKind::External { .. } => reasons.push(format!("`{key}`: {error}")),
                ErrorKind::Config | ErrorKind::Data | ErrorKind::Fenced | ErrorKind::Limit | ErrorKind::Internal => {
                    return Err(error.context(format!("manifest `{key}`")));
                }
            },
        }
    }
    if missing.len() == 2 {
        return Ok(Read::Gone);
    }
    if reasons.is_empty() {
        // What a crash between writing the two leaves, or one between removing them.
        for reason in &missing {
            tracing::info!(%epoch, %reason, "one copy of a manifest was not written before a crash; the other serves");
        }
    } else {
        reasons.append(&mut missing);
    }
    for reason in &reasons {
        tracing::warn!(%epoch, %reason, "a copy of a manifest cannot be used");
    }
    Ok(match (readable.pop(), readable.pop()) {
        (Some(manifest), Some(_)) => Read::Both(manifest),
        (Some(manifest), None) => Read::One(manifest),
        (None, _) => Read::Damaged(reasons.join("; ")),
    })
}

/// Writes both copies of a manifest that one readable copy is left of.
///
/// # Errors
/// `External` if the store did not confirm.
pub(crate) fn mend(store: &dyn EpochStore, manifest: &Manifest) -> Result<()> {
    for copy in [Copy::A, Copy::B] {
        store
            .put(&keys::manifest(manifest.run, manifest.epoch, copy), &manifest.encode())
            .map_err(|error| Error::context(error, format!("mending the manifest of epoch {}", manifest.epoch)))?;
    }
    Ok(())
}

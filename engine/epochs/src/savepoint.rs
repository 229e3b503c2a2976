//! A savepoint: one epoch copied into a store of its own, complete, from which a run can start.
//!
//! The copy is a run of its own, with a name of its own: what it will name outside (parts, transactions, objects) must never meet what the
//! run it was taken from names. So only an epoch is copied whose rows are all committed. The copy holds nothing of the
//! original's place: neither its claim nor its fences, and the original's pruner cannot reach it.

use crate::claim;
use crate::keys::{self, Copy};
use crate::manifest::{End, Manifest};
use crate::pieces::cut;
use crate::publish::{History, mark_committed, newest_run};
use crate::store::EpochStore;
use std::collections::BTreeMap;
use tidegate_api::{Epoch, Error, EventTime, Result, ResultExt, RunId};

/// What was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Savepoint {
    /// The epoch.
    pub epoch: Epoch,
    /// The name of the run that the copy is.
    pub run_id: RunId,
    /// How many state objects.
    pub objects: usize,
    /// Their bytes.
    pub bytes: u64,
}

/// How often another epoch is taken because a running pipeline has pruned the one that was being copied.
const TRIES: usize = 5;

/// Copies `epoch`, or the newest that is committed, from one store into another, which must be empty. `run_id` is the copy's name.
/// May be used while the pipeline runs. The manifest comes last: a copy that was cut short has none, and is refused by every start.
///
/// # Errors
/// `Config` if there is no such epoch, if rows of it are not known to be committed, if an object is missing or damaged, or if the
/// other store holds anything; `External` if a store does not answer.
pub fn savepoint(from: &dyn EpochStore, to: &dyn EpochStore, epoch: Option<Epoch>, run_id: &RunId, now: EventTime) -> Result<Savepoint> {
    if let Some(found) = to.list("").context(|| "looking at where the savepoint goes".to_string())?.first() {
        return Err(Error::config(format!("a savepoint needs a place of its own, and `{found}` is there; name an empty one")));
    }
    for left in (0..TRIES).rev() {
        let history = newest_run(from)?.ok_or_else(|| Error::config("there is no epoch to copy; the store is empty"))?;
        let original = choose(&history, epoch)?;
        match copy(from, to, original, run_id, now) {
            Ok(savepoint) => return Ok(savepoint),
            Err(error) => {
                for key in to.list("")? {
                    to.delete(&key)?;
                }
                // Pruned while it was copied? Then there is a newer one.
                let is_gone = from.get(&keys::manifest(original.run, original.epoch, Copy::A))?.is_none();
                if !is_gone || left == 0 || epoch.is_some() {
                    return Err(error);
                }
            }
        }
    }
    Err(Error::internal("a savepoint was neither made nor refused"))
}

fn choose(history: &History, epoch: Option<Epoch>) -> Result<&Manifest> {
    let is_copyable = |manifest: &&Manifest| history.is_settled(manifest) && manifest.ended != Some(End::Superseded);
    let known = || {
        let known: Vec<String> = history.manifests.values().filter(is_copyable).map(|manifest| manifest.epoch.to_string()).collect();
        if known.is_empty() { "there is none".to_string() } else { format!("there are {}", known.join(", ")) }
    };
    let Some(epoch) = epoch else {
        return history.manifests.values().rev().find(is_copyable).ok_or_else(|| {
            Error::config("no epoch of this store is known to be committed; start the pipeline once, which commits what is pending")
        });
    };
    let found = history.manifests.get(&epoch).ok_or_else(|| match history.unreadable.get(&epoch) {
        Some(why) => Error::config(format!("the manifest of epoch {epoch} cannot be read: {why}")),
        None => Error::config(format!("there is no epoch {epoch} to copy; {}", known())),
    })?;
    if is_copyable(&found) {
        return Ok(found);
    }
    Err(Error::config(format!(
        "epoch {epoch} has rows that are not known to be committed, and a savepoint cannot commit them; start the pipeline once, or name another epoch: {}",
        known()
    )))
}

fn copy(from: &dyn EpochStore, to: &dyn EpochStore, original: &Manifest, run_id: &RunId, now: EventTime) -> Result<Savepoint> {
    let (old, new) = (keys::objects(&original.run_id), keys::objects(run_id));
    let mut copied = original.clone();
    copied.run_id = run_id.clone();
    copied.owner = format!("savepoint of {}", original.owner);
    copied.written = now;
    copied.opens_generation = true;
    // They are committed: nothing of them is left to do.
    copied.sinks.values_mut().for_each(|sink| sink.pending.clear());
    let mut savepoint = Savepoint { epoch: original.epoch, run_id: run_id.clone(), objects: 0, bytes: 0 };
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    for object in original.objects() {
        let Some(bytes) = from.get(object).context(|| format!("state object `{object}`"))? else {
            return Err(Error::config(format!("state object `{object}` of epoch {} is missing", original.epoch)));
        };
        for piece in original.operators.values().flat_map(|operator| &operator.pieces).filter(|piece| piece.object == object) {
            cut(piece, &bytes)
                .map_err(|damage| Error::config(format!("state object `{object}` of epoch {} is damaged: {damage}", original.epoch)))?;
        }
        let name = object.strip_prefix(&old).map_or_else(|| format!("{new}{object}"), |rest| format!("{new}{rest}"));
        to.put(&name, &bytes).context(|| format!("state object `{name}`"))?;
        savepoint.objects += 1;
        savepoint.bytes += bytes.len() as u64;
        names.insert(object, name);
    }
    for piece in copied.operators.values_mut().flat_map(|operator| &mut operator.pieces) {
        if let Some(name) = names.get(piece.object.as_str()) {
            piece.object.clone_from(name);
        }
    }
    claim::release(to, &copied, now)?;
    mark_committed(to, &copied)?;
    for copy in [Copy::B, Copy::A] {
        let key = keys::manifest(copied.run, copied.epoch, copy);
        to.put(&key, &copied.encode()).context(|| format!("manifest `{key}`"))?;
    }
    Ok(savepoint)
}

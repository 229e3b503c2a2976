use super::{Event, Watch};
use tidegate_api::{Epoch, Result};
use tidegate_epochs::keys::{self, Copy, RunNumber};
use tidegate_epochs::manifest::Manifest;
use tidegate_epochs::{Created, EpochStore};
use xxhash_rust::xxh3::xxh3_64;

/// Tells of every effect on the store behind it.
#[derive(Debug)]
pub(in crate::simulate) struct WatchedStore<S> {
    inner: S,
    watch: Watch,
}

impl<S: EpochStore> WatchedStore<S> {
    pub(in crate::simulate) fn new(inner: S, watch: Watch) -> Self {
        WatchedStore { inner, watch }
    }
}

/// The run and epoch of a key that is the deciding copy of a manifest.
fn decision(key: &str) -> Option<(RunNumber, Epoch)> {
    keys::parse_manifest(key).filter(|(run, epoch)| keys::manifest(*run, *epoch, Copy::A) == key)
}

fn mark(key: &str) -> Option<(RunNumber, Epoch)> {
    let (run, epoch) = key.strip_prefix(keys::MARKS)?.split_once('/')?;
    Some((RunNumber(run.parse().ok()?), Epoch(epoch.parse().ok()?)))
}

impl<S: EpochStore> EpochStore for WatchedStore<S> {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        if key.starts_with(keys::OBJECTS) {
            self.watch.on(&Event::StateWritten(key, xxh3_64(bytes)));
        } else if let Some((run, epoch)) = mark(key) {
            self.watch.on(&Event::Marked(run, epoch));
        } else if let Some((run, epoch)) = decision(key) {
            self.watch.on(&Event::Rewritten(run, epoch, bytes));
        }
        self.inner.put(key, bytes)
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.inner.get(key)
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Created> {
        let created = self.inner.create(key, bytes)?;
        if created == Created::New && decision(key).is_some() {
            self.watch.published(&Manifest::decode(bytes)?);
        }
        Ok(created)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        self.inner.list(prefix)
    }

    fn delete(&self, key: &str) -> Result<()> {
        if key.starts_with(keys::OBJECTS) {
            self.watch.on(&Event::StateDeleted(key));
        } else if let Some((run, epoch)) = decision(key) {
            self.watch.on(&Event::Expired(run, epoch));
        }
        self.inner.delete(key)
    }
}

//! A store in memory. A clone is the same store, so it outlives whatever a test or the simulator kills.

use super::{Created, EpochStore, check_key, check_prefix};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_api::Result;

type Objects = BTreeMap<String, Vec<u8>>;

/// See the module's documentation.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Objects>>);

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    /// A store of its own with the same objects: the state of the world at a moment.
    #[must_use]
    pub fn fork(&self) -> Self {
        MemoryStore(Arc::new(Mutex::new(self.objects().clone())))
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EpochStore for MemoryStore {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        check_key(key)?;
        self.objects().insert(key.to_string(), bytes.to_vec());
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        check_key(key)?;
        Ok(self.objects().get(key).cloned())
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Created> {
        check_key(key)?;
        let mut objects = self.objects();
        if let Some(found) = objects.get(key) {
            return Ok(Created::Exists(found.clone()));
        }
        objects.insert(key.to_string(), bytes.to_vec());
        Ok(Created::New)
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        check_prefix(prefix)?;
        let objects = self.objects();
        let found = objects.range(prefix.to_string()..).map(|(key, _)| key).take_while(|key| key.starts_with(prefix));
        Ok(found.cloned().collect())
    }

    fn delete(&self, key: &str) -> Result<()> {
        check_key(key)?;
        self.objects().remove(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_store_keeps_the_contract() {
        crate::testkit::store_contract(MemoryStore::new);
    }

    #[test]
    fn a_clone_is_the_same_store_and_a_fork_is_not() {
        let store = MemoryStore::new();
        let (clone, fork) = (store.clone(), store.fork());
        store.put("a", b"1").unwrap();
        assert_eq!(clone.get("a").unwrap(), Some(b"1".to_vec()));
        assert_eq!(fork.get("a").unwrap(), None);
    }
}

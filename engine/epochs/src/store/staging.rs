//! Scratch space for sinks, in the same store as the epochs.

use super::EpochStore;
use crate::keys;
use std::sync::Arc;
use tidegate_api::{Result, ResultExt, Staging};

/// The staging of one sink: its keys lie under a prefix of their own. The pruner never looks there; the sink deletes what it committed.
#[derive(Debug, Clone)]
pub struct StagingStore {
    store: Arc<dyn EpochStore>,
    prefix: String,
}

impl StagingStore {
    /// The staging of the sink of this name.
    pub fn new(store: Arc<dyn EpochStore>, sink: &str) -> Self {
        StagingStore { store, prefix: keys::staging(sink) }
    }

    /// A sink's own slashes stay folders; every part between them is made safe.
    fn key(&self, key: &str) -> String {
        let parts: Vec<String> = key.split('/').map(keys::segment).collect();
        format!("{}{}", self.prefix, parts.join("/"))
    }
}

impl Staging for StagingStore {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        self.store.put(&self.key(key), bytes).context(|| format!("staged object `{key}`"))
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.store.get(&self.key(key)).context(|| format!("staged object `{key}`"))
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.store.delete(&self.key(key)).context(|| format!("staged object `{key}`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    fn sinks_do_not_see_each_other_and_cannot_leave_their_prefix() {
        let store = Arc::new(MemoryStore::new());
        let one = StagingStore::new(store.clone(), "one");
        let two = StagingStore::new(store.clone(), "two");
        one.put("../two/part", b"1").unwrap();
        assert_eq!(one.get("../two/part").unwrap(), Some(b"1".to_vec()));
        assert_eq!(two.get("part").unwrap(), None);
        assert_eq!(store.list("").unwrap(), ["staging/one/%2E./two/part"]);
        one.delete("../two/part").unwrap();
        assert_eq!(store.list("").unwrap(), Vec::<String>::new());
    }
}

//! Scratch space for sinks, in the same store as the epochs.

use super::EpochStore;
use crate::keys;
use std::sync::Arc;
use tidegate_api::{Error, Result, ResultExt, Staging};
use xxhash_rust::xxh3::xxh3_64;

/// The staging of one sink: its keys lie under a prefix of their own. The pruner never looks there; the sink deletes what it committed. An
/// object begins with the XXH3 of what the sink gave, so that what comes back is that or an error.
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

    /// Back from [`StagingStore::key`].
    fn told(&self, place: &str) -> Result<String> {
        let key = place.strip_prefix(&self.prefix).unwrap_or(place);
        let parts: Option<Vec<String>> = key.split('/').map(keys::unsegment).collect();
        let parts = parts.ok_or_else(|| Error::internal(format!("staged object `{place}` has a name that cannot be told back")))?;
        Ok(parts.join("/"))
    }
}

impl Staging for StagingStore {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let sealed = [&xxh3_64(bytes).to_le_bytes()[..], bytes].concat();
        self.store.put(&self.key(key), &sealed).context(|| format!("staged object `{key}`"))
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        let place = self.key(key);
        let Some(sealed) = self.store.get(&place).context(|| format!("staged object `{key}`"))? else { return Ok(None) };
        match sealed.split_first_chunk::<8>() {
            Some((checksum, bytes)) if xxh3_64(bytes) == u64::from_le_bytes(*checksum) => Ok(Some(bytes.to_vec())),
            _ => Err(Error::external(format!("staged object `{place}` is damaged: its checksum does not fit"))),
        }
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.store.delete(&self.key(key)).context(|| format!("staged object `{key}`"))
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let place = match prefix.strip_suffix('/') {
            None => self.prefix.clone(),
            Some(folder) => format!("{}/", self.key(folder)),
        };
        let found = self.store.list(&place).context(|| format!("staged objects of `{place}`"))?;
        let mut keys = found.iter().map(|key| self.told(key)).collect::<Result<Vec<_>>>()?;
        keys.sort_unstable();
        Ok(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;

    #[test]
    fn any_flipped_byte_of_a_staged_object_is_noticed_and_the_object_named() {
        let store = Arc::new(MemoryStore::new());
        let staging = StagingStore::new(store.clone(), "out");
        staging.put("part", b"rows").unwrap();
        let sound = store.get("staging/out/part").unwrap().unwrap();
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 1;
            store.put("staging/out/part", &damaged).unwrap();
            assert!(staging.get("part").unwrap_err().to_string().contains("`staging/out/part`"));
        }
        store.put("staging/out/part", b"short").unwrap();
        assert!(staging.get("part").is_err());
    }

    #[test]
    fn a_list_tells_the_keys_as_they_were_given_below_a_folder_only() {
        let store = Arc::new(MemoryStore::new());
        let staging = StagingStore::new(store.clone(), "one");
        StagingStore::new(store, "one more").put("a/foreign", b"1").unwrap();
        for key in ["a/2", "a/ 1%", "ab/1", "a/b/é"] {
            staging.put(key, b"1").unwrap();
        }
        assert_eq!(staging.list("").unwrap(), ["a/ 1%", "a/2", "a/b/é", "ab/1"]);
        assert_eq!(staging.list("a/").unwrap(), ["a/ 1%", "a/2", "a/b/é"]);
        assert_eq!(staging.list("b/").unwrap(), Vec::<String>::new());
        staging.put(&"x".repeat(200), b"1").unwrap();
        assert!(staging.list("").unwrap_err().to_string().contains("cannot be told back"));
    }

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

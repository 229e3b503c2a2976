use crate::{Result, Staging};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Staging in memory; survives a simulated crash for as long as the test holds it.
#[derive(Debug, Default)]
pub struct MemoryStaging {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
}

impl MemoryStaging {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStaging::default()
    }

    /// The keys it holds, in order.
    pub fn keys(&self) -> Vec<String> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }
}

impl Staging for MemoryStaging {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_string(), bytes.to_vec());
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.objects.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned())
    }

    fn delete(&self, key: &str) -> Result<()> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
        Ok(())
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(objects.keys().filter(|key| key.starts_with(prefix)).cloned().collect())
    }
}

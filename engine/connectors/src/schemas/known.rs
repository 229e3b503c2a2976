//! What a registry has said, as far as memory for it goes.

use crate::decode::Written;
use foldhash::fast::FixedState;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The most schemas that are kept, and the most bytes of them.
const MOST: usize = 1000;
const MOST_BYTES: usize = 32 << 20;
/// How long it is believed that there is no schema of an id; somebody may register it any moment.
const BELIEVED: Duration = Duration::from_secs(30);
/// The most of those that are kept.
const MOST_ABSENT: usize = 100_000;

struct Entry {
    written: Arc<Written>,
    bytes: usize,
}

/// Schemas by id; those that came first go first.
#[derive(Default)]
pub(super) struct Known {
    found: HashMap<u32, Entry, FixedState>,
    order: VecDeque<u32>,
    bytes: usize,
    absent: HashMap<u32, Duration, FixedState>,
}

impl Known {
    /// What is known of an id: the schema, that there is none, or nothing.
    pub(super) fn get(&self, id: u32, now: Duration) -> Option<Option<Arc<Written>>> {
        if let Some(entry) = self.found.get(&id) {
            return Some(Some(Arc::clone(&entry.written)));
        }
        self.absent.get(&id).filter(|since| now.saturating_sub(**since) < BELIEVED).map(|_| None)
    }

    pub(super) fn put(&mut self, id: u32, written: Arc<Written>, bytes: usize) {
        self.absent.remove(&id);
        if self.found.insert(id, Entry { written, bytes }).is_some() {
            return;
        }
        self.order.push_back(id);
        self.bytes += bytes;
        while self.order.len() > 1 && (self.order.len() > MOST || self.bytes > MOST_BYTES) {
            let gone = self.order.pop_front().and_then(|first| self.found.remove(&first));
            self.bytes -= gone.map_or(0, |entry| entry.bytes);
        }
    }

    pub(super) fn put_absent(&mut self, id: u32, now: Duration) {
        if self.absent.len() >= MOST_ABSENT {
            self.absent.clear();
        }
        self.absent.insert(id, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_for_schemas_has_an_end() {
        let mut known = Known::default();
        for id in 0..3000 {
            known.put(id, Arc::new(Written::Json), 100);
        }
        assert_eq!((known.found.len(), known.order.len(), known.bytes), (MOST, MOST, MOST * 100));
        assert!(known.get(0, Duration::ZERO).is_none() && known.get(2999, Duration::ZERO).is_some());
        known.put(9000, Arc::new(Written::Json), MOST_BYTES);
        assert_eq!((known.found.len(), known.bytes), (1, MOST_BYTES));
        known.put_absent(7, Duration::ZERO);
        assert!(matches!(known.get(7, Duration::from_secs(29)), Some(None)));
        assert!(known.get(7, Duration::from_secs(30)).is_none());
        for id in 0..=MOST_ABSENT as u32 {
            known.put_absent(id, Duration::ZERO);
        }
        assert!(known.absent.len() <= MOST_ABSENT);
    }
}

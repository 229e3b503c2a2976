//! When which session is due. A session is entered once and moved on only when its time has come: extending it costs nothing.

use std::collections::BTreeMap;

/// Sessions by the time they are due, in buckets.
#[derive(Debug)]
pub(super) struct Timers {
    buckets: BTreeMap<i64, Vec<u32>>,
    width: i64,
}

/// How many buckets a gap is divided into: a watermark looks at the sessions of one bucket in vain.
const PARTS: i64 = 64;

impl Timers {
    /// For sessions with this gap.
    pub(super) fn new(gap: i64) -> Self {
        Timers { buckets: BTreeMap::new(), width: (gap / PARTS).max(1) }
    }

    /// Enters a session.
    pub(super) fn enter(&mut self, slot: u32, due: i64) {
        self.buckets.entry(due.div_euclid(self.width)).or_default().push(slot);
    }

    /// Takes the sessions that are due before `time`. `due` says when a session is due by now; `None` once it is gone.
    pub(super) fn take(&mut self, time: i64, due: impl Fn(u32) -> Option<i64>) -> Vec<u32> {
        let last = time.div_euclid(self.width);
        let mut taken = Vec::new();
        while let Some(entry) = self.buckets.first_entry().filter(|entry| *entry.key() <= last) {
            let (bucket, slots) = entry.remove_entry();
            let mut later = Vec::new();
            for slot in slots {
                match due(slot) {
                    None => {}
                    Some(at) if at < time => taken.push(slot),
                    Some(at) if at.div_euclid(self.width) == bucket => later.push(slot),
                    Some(at) => self.enter(slot, at),
                }
            }
            if bucket == last {
                if !later.is_empty() {
                    self.buckets.insert(bucket, later);
                }
                break;
            }
        }
        taken
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.buckets.clear();
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.buckets.values().map(|slots| slots.capacity() * 4 + 64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_session_comes_out_once_when_its_time_has_come(
            gap in 1i64..500, first in prop::collection::vec((-1000i64..1000, 0i64..300), 0..40), mut times in prop::collection::vec(-1500i64..1500, 1..10),
        ) {
            let mut timers = Timers::new(gap);
            first.iter().zip(0..).for_each(|((at, _), slot)| timers.enter(slot, *at));
            // Extended behind the timers' back.
            let due = |slot: u32| first[slot as usize].0 + first[slot as usize].1;
            times.sort_unstable();
            times.push(5000);
            let mut out: Vec<u32> = Vec::new();
            for time in times {
                out.extend(timers.take(time, |slot| (!out.contains(&slot)).then(|| due(slot))));
                for slot in 0..first.len() as u32 {
                    prop_assert_eq!(out.contains(&slot), due(slot) < time);
                }
            }
            prop_assert_eq!(out.len(), first.len());
        }
    }
}

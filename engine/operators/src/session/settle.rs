//! Sessions of at most a length: rows wait until the watermark has passed them, and are then taken in the order of their times.

use super::sessions::Sessions;
use super::slots::NONE;
use tidegate_api::Result;

impl Sessions {
    /// The slot in which the rows of one key and millisecond wait.
    pub(super) fn wait(&mut self, key: u32, time: i64) -> u32 {
        if let Some(slot) = self.others.get(&(key, time)) {
            return *slot;
        }
        let slot = self.slots.add(key, time, time, true);
        self.others.insert((key, time), slot);
        slot
    }

    /// Forms sessions of the rows that need wait no longer. `taken` are the slots whose time has come; gives the sessions that
    /// fire: those that end before the watermark, and those that were cut.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn settle(&mut self, taken: Vec<u32>, watermark: i64, longest: i64) -> Result<Vec<u32>> {
        let mut keys: Vec<u32> = taken.iter().filter(|slot| self.slots.waits(**slot)).map(|slot| self.slots.key(*slot)).collect();
        keys.sort_unstable();
        keys.dedup();
        self.saved.note(&keys, self.newest.len());
        let mut fire = Vec::new();
        for key in keys {
            self.settle_key(key, watermark, longest, &mut fire);
        }
        self.merge_joined(self.slots.len())?;
        // Those that were formed before, and have become longer or part of others since.
        let gap = self.limits.gap;
        for slot in taken {
            match Sessions::due_at(&self.slots, gap, slot) {
                Some(due) if due < watermark => fire.push(slot),
                // One without a timer is looked at again.
                Some(due) if (slot as usize) < self.young => self.timers.enter(slot, due),
                Some(_) => {}
                None => {}
            }
        }
        fire.sort_unstable();
        fire.dedup();
        Ok(fire)
    }

    fn settle_key(&mut self, key: u32, watermark: i64, longest: i64, fire: &mut Vec<u32>) {
        let mut parts: Vec<u32> = self.others.range((key, i64::MIN)..(key, watermark)).map(|(_, slot)| *slot).collect();
        for slot in &parts {
            self.others.remove(&(key, self.slots.start(*slot)));
            self.slots.form(*slot);
        }
        let formed = std::mem::replace(&mut self.newest[key as usize], NONE);
        if formed != NONE {
            parts.push(formed);
            parts.sort_unstable_by_key(|slot| (self.slots.start(*slot), *slot != formed));
        }
        let mut parts = parts.into_iter();
        let Some(mut current) = parts.next() else { return };
        for part in parts {
            let near = self.slots.start(part) - self.slots.last(current) <= self.limits.gap;
            let last = self.slots.last(part).max(self.slots.last(current));
            if near && last - self.slots.start(current) <= longest {
                self.slots.join(part, current);
                self.joined.push(part);
                continue;
            }
            // Cut, or too far from the next to be joined by anything that is not late.
            fire.push(current);
            current = part;
        }
        self.newest[key as usize] = current;
    }
}

//! What is known downstream of sessions that may still change, so that it can be put right: the rows that stand in the table, the
//! sessions that took rows since, and when each is due for the first time.
//!
//! Sessions only grow, and each row that stands was begun by a row that still belongs to some session: the session that holds
//! the start of a standing row is the one that replaces it.

use super::slots::Slots;
use super::timers::Timers;
use std::collections::{BTreeMap, BTreeSet};

/// What was told of a session, by the key and the start it had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told {
    pub(super) last: i64,
    /// Whether a row stands in the table. Otherwise a result did not fit, and what was told is a bad row.
    pub(super) stands: bool,
}

/// A row that is to be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone {
    pub(super) key: u32,
    pub(super) start: i64,
    pub(super) last: i64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Shown {
    told: BTreeMap<(u32, i64), Told>,
    /// When sessions, and rows that wait, have ended by themselves.
    timers: Timers,
    gap: i64,
    /// Sessions that took rows, in the order in which they did; each was one of its own then.
    changed: Vec<u32>,
    /// How many of them have been looked at since the watermark rose.
    looked: usize,
}

impl Shown {
    pub(super) fn new(gap: i64) -> Self {
        Shown { told: BTreeMap::new(), timers: Timers::new(gap), gap, changed: Vec::new(), looked: 0 }
    }

    /// These sessions took rows; those from `first` on began with them.
    pub(super) fn took(&mut self, slots: &[u32], first: u32, all: &mut Slots) {
        for slot in first..all.len() as u32 {
            if all.is_open(slot) {
                self.timers.enter(slot, all.last(slot) + self.gap);
            }
        }
        for slot in slots {
            if !all.has_changed(*slot) {
                all.set_changed(*slot, true);
                self.changed.push(*slot);
            }
        }
    }

    /// A session of a snapshot is back.
    pub(super) fn restore(&mut self, slot: u32, changed: bool, all: &mut Slots) {
        self.timers.enter(slot, all.last(slot) + self.gap);
        if changed {
            all.set_changed(slot, true);
            self.changed.push(slot);
        }
    }

    /// What was told, of a snapshot.
    pub(super) fn restore_told(&mut self, key: u32, start: i64, told: Told) {
        self.told.insert((key, start), told);
    }

    /// Everything that was told and may have to be taken back.
    pub(super) fn all(&self) -> impl Iterator<Item = (u32, i64, Told)> + '_ {
        self.told.iter().map(|((key, start), told)| (*key, *start, *told))
    }

    /// Sessions have new numbers: `moved` by the old ones, where `open` are the old and `keys` the new keys of those left.
    pub(super) fn renumber(&mut self, old: &Slots, moved: &[u32], open: &[u32], keys: &[u32], new: &mut Slots) {
        self.timers.clear();
        let mut key_of = BTreeMap::new();
        for (slot, key) in open.iter().zip(keys) {
            let now = moved[*slot as usize];
            // One that has been told of is looked at once more, and is as it was told.
            self.timers.enter(now, old.last(*slot) + self.gap);
            key_of.insert(old.key(*slot), *key);
            new.set_changed(now, old.has_changed(*slot));
        }
        self.told = std::mem::take(&mut self.told)
            .into_iter()
            .filter_map(|((key, start), told)| Some(((*key_of.get(&key)?, start), told)))
            .collect();
        let looked = self.looked;
        self.looked = 0;
        let mut kept = Vec::with_capacity(self.changed.len());
        for (place, slot) in self.changed.iter().enumerate() {
            let root = old.root(*slot);
            if old.is_open(root) {
                kept.push(moved[root as usize]);
                self.looked += usize::from(place < looked);
            }
        }
        self.changed = kept;
    }

    /// The sessions that have ended before a watermark, each once unless it was begun anew. Unless they are `whole`, what was entered may have
    /// been rows that waited, and are part of a session since: then that session is due, in its own time.
    pub(super) fn due(&mut self, watermark: i64, all: &Slots, whole: bool) -> Vec<u32> {
        let gap = self.gap;
        self.looked = 0;
        if whole {
            return self.timers.take(watermark, |slot| all.is_open(slot).then(|| all.last(slot) + gap));
        }
        let due = |slot: u32| all.is_open(all.root(slot)).then(|| all.last(all.root(slot)) + gap);
        let mut seen = BTreeSet::new();
        let taken = self.timers.take(watermark, due);
        taken.into_iter().map(|slot| all.root(slot)).filter(|root| seen.insert(*root)).collect()
    }

    /// The sessions that took rows and have not been looked at; with `again`, all of them.
    pub(super) fn changes(&mut self, again: bool, all: &Slots) -> Vec<u32> {
        let from = if again { 0 } else { self.looked };
        self.looked = self.changed.len();
        let mut roots: Vec<u32> = self.changed[from..].iter().map(|slot| all.root(*slot)).filter(|slot| all.is_open(*slot)).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// Whether any session of a key was told of.
    pub(super) fn knows(&self, key: u32) -> bool {
        self.told.range((key, i64::MIN)..=(key, i64::MAX)).next().is_some()
    }

    /// Whether what was told of the session around a time, or of the next one, had ended before a watermark.
    pub(super) fn has_fired(&self, key: u32, time: i64, watermark: i64) -> bool {
        let ended = |(_, told): (&(u32, i64), &Told)| told.last + self.gap < watermark;
        let before = self.told.range((key, i64::MIN)..=(key, time)).next_back();
        before.or_else(|| self.told.range((key, time)..=(key, i64::MAX)).next()).is_some_and(ended)
    }

    /// The start of the last session that was told of and does not begin after a time.
    pub(super) fn start_before(&self, key: u32, time: i64) -> Option<i64> {
        self.told.range((key, i64::MIN)..=(key, time)).next_back().map(|((_, start), _)| *start)
    }

    /// Whether a session with this start was told of.
    pub(super) fn begins(&self, key: u32, start: i64) -> bool {
        self.told.contains_key(&(key, start))
    }

    /// What was told of the rows of a session.
    pub(super) fn within(&self, key: u32, start: i64, last: i64) -> impl Iterator<Item = (i64, Told)> + '_ {
        self.told.range((key, start)..=(key, last)).map(|((_, start), told)| (*start, *told))
    }

    /// Whether what was told of the rows of a session is just this session.
    pub(super) fn is_exact(&self, key: u32, start: i64, last: i64) -> bool {
        let mut told = self.within(key, start, last);
        told.next().is_some_and(|(begun, told)| begun == start && told.last == last) && told.next().is_none()
    }

    /// A session is told as it is now: takes back what was told of its rows, unless this replaces it.
    pub(super) fn tell(&mut self, key: u32, start: i64, now: Told, gone: &mut Vec<Gone>) {
        let before: Vec<(i64, Told)> = self.within(key, start, now.last).collect();
        for (begun, told) in before {
            self.told.remove(&(key, begun));
            let replaced = now.stands && begun == start && told.last == now.last;
            if told.stands && !replaced {
                gone.push(Gone { key, start: begun, last: told.last });
            }
        }
        self.told.insert((key, start), now);
    }

    /// A session does not change any more.
    pub(super) fn forget(&mut self, key: u32, start: i64, last: i64) {
        let before: Vec<i64> = self.within(key, start, last).map(|(begun, _)| begun).collect();
        for begun in before {
            self.told.remove(&(key, begun));
        }
    }

    /// What was told of a key.
    pub(super) fn of(&self, key: u32) -> impl Iterator<Item = (i64, Told)> + '_ {
        self.within(key, i64::MIN, i64::MAX)
    }

    /// The keys of the sessions that took rows and may not have been told of since.
    pub(super) fn changed_keys(&self, all: &Slots) -> Vec<u32> {
        self.changed.iter().map(|slot| all.key(*slot)).collect()
    }

    /// Leaves out what does not await early results: sessions told since they took rows. With `none`, all of them.
    pub(super) fn tidy(&mut self, none: bool, all: &mut Slots) {
        if none {
            for slot in &self.changed {
                all.set_changed(all.root(*slot), false);
            }
            self.changed.clear();
        } else {
            self.changed.retain(|slot| all.is_open(all.root(*slot)) && all.has_changed(all.root(*slot)));
        }
        self.looked = self.changed.len();
    }

    /// Whether sessions took rows that nobody was told of.
    pub(super) fn has_changes(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.told.len() * 40 + self.timers.bytes() + self.changed.capacity() * 4
    }
}

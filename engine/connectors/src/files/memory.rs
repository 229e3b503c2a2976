//! What a watched listing remembers of the files it has given out, in a bounded number of bytes.
//!
//! An entry is a fingerprint of the name, the version of the file, and when that version appeared. Entries are kept while there are few.
//! Beyond that the oldest give way to a *frontier*: a file that appeared at or before it and has no entry is taken for read. The frontier
//! keeps a distance from the newest file, so that one which appears late has a chance, and it never passes a file that still waits.

use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::{Error, Result};
use xxhash_rust::xxh3::xxh3_128;

/// So many entries are kept in any case; 128 KiB of every manifest.
const KEPT: usize = 4096;
/// More than this and the run fails: the manifest must stay small.
const MOST: usize = 1 << 16;
/// The first byte of what is stored. No JSON text begins with it.
const FORMAT: u8 = 1;
/// A version that is not known: the file was given out before it was watched.
const ANY: u64 = 0;
/// Set in a stored version while the listing does not have the file. Versions themselves are less.
const GONE: u64 = 1 << 63;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    time: i64,
    version: u64,
}

/// What the memory makes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was not given out.
    New,
    /// It was, as it is now; or is too old to tell.
    Known,
    /// It was given out, and is another since.
    Changed,
}

/// See the module's documentation. Times are microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Memory {
    entries: BTreeMap<u128, Entry>,
    frontier: i64,
    kept: usize,
}

/// What a name is remembered by.
pub(super) fn fingerprint(name: &str) -> u128 {
    xxh3_128(name.as_bytes())
}

impl Memory {
    /// A memory of nothing.
    pub(super) fn new() -> Self {
        Memory { entries: BTreeMap::new(), frontier: i64::MIN, kept: KEPT }
    }

    /// The memory of a listing that was not watched and gave out these names. Whatever they are now is what was read.
    pub(super) fn of_names<'a>(names: impl Iterator<Item = &'a str>) -> Self {
        let entries = names.map(|name| (fingerprint(name), Entry { time: i64::MIN, version: ANY })).collect();
        Memory { entries, ..Memory::new() }
    }

    /// Whether a cursor is one of these.
    pub(super) fn is_one(cursor: &[u8]) -> bool {
        cursor.first() == Some(&FORMAT)
    }

    /// The bytes for the manifest.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(9 + self.entries.len() * 32);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&self.frontier.to_le_bytes());
        for (name, entry) in &self.entries {
            bytes.extend_from_slice(&name.to_le_bytes());
            bytes.extend_from_slice(&entry.time.to_le_bytes());
            bytes.extend_from_slice(&entry.version.to_le_bytes());
        }
        bytes
    }

    /// Reads [`Memory::encode`] back.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let broken = || Error::internal("the cursor of a watched files source cannot be read");
        let (head, body) = bytes.split_at_checked(9).ok_or_else(broken)?;
        if head[0] != FORMAT || body.len() % 32 != 0 {
            return Err(broken());
        }
        let eight = |bytes: &[u8]| bytes.try_into().map(i64::from_le_bytes).map_err(|_| broken());
        let frontier = eight(&head[1..])?;
        let mut entries = BTreeMap::new();
        for entry in body.chunks_exact(32) {
            let name = entry[..16].try_into().map(u128::from_le_bytes).map_err(|_| broken())?;
            let (time, version) = (eight(&entry[16..24])?, eight(&entry[24..])?.cast_unsigned());
            entries.insert(name, Entry { time, version });
        }
        Ok(Memory { entries, frontier, kept: KEPT })
    }

    /// What a file is that has this version since `time`.
    pub(super) fn judge(&self, name: u128, version: u64, time: i64) -> Verdict {
        match self.entries.get(&name) {
            Some(entry) if entry.version & !GONE == version || entry.version & !GONE == ANY => Verdict::Known,
            // Its name was free in between.
            Some(entry) if entry.version & GONE != 0 => Verdict::New,
            Some(_) => Verdict::Changed,
            None if time <= self.frontier => Verdict::Known,
            None => Verdict::New,
        }
    }

    /// Remembers that a file is given out as it is.
    pub(super) fn take(&mut self, name: u128, version: u64, time: i64) {
        self.entries.insert(name, Entry { time, version });
    }

    /// A version as it can be remembered.
    pub(super) fn version(hash: u64) -> u64 {
        (hash & !GONE).max(1)
    }

    /// Learns the version of a file that was given out before it was watched.
    pub(super) fn adopt(&mut self, name: u128, version: u64, time: i64) {
        if let Some(entry) = self.entries.get_mut(&name).filter(|entry| entry.version == ANY) {
            *entry = Entry { time, version };
        }
    }

    /// Lets go of what is not needed any more: `present` is what the listing has, `waiting` the earliest time of a file in it that was
    /// not given out, `late` the distance that the frontier keeps, in microseconds.
    ///
    /// # Errors
    /// `Limit` if too much must be remembered.
    pub(super) fn settle(&mut self, present: &BTreeSet<u128>, waiting: Option<i64>, late: i64) -> Result<()> {
        let Some(newest) = self.entries.values().map(|entry| entry.time).max() else { return Ok(()) };
        let limit = newest.saturating_sub(late);
        self.entries.retain(|name, entry| entry.time >= limit || present.contains(name));
        // A file that is gone is remembered for a while: a listing may miss one that is being moved, and it is not read again.
        for (name, entry) in &mut self.entries {
            entry.version = if present.contains(name) { entry.version & !GONE } else { entry.version | GONE };
        }
        if self.entries.len() > self.kept {
            let mut times: Vec<i64> = self.entries.values().map(|entry| entry.time).collect();
            let (_, oldest_kept, _) = times.select_nth_unstable(self.entries.len() - self.kept);
            let oldest_kept = *oldest_kept;
            let before = waiting.map_or(limit, |waiting| waiting.min(limit)).min(oldest_kept);
            // Everything that appeared at the frontier is behind it, so it is the time before that of what stays.
            self.frontier = self.frontier.max(before.saturating_sub(1));
            let frontier = self.frontier;
            self.entries.retain(|_, entry| entry.time > frontier);
        }
        if self.entries.len() > MOST {
            return Err(Error::limit(format!(
                "{} files must be remembered and at most {MOST} can be; shorten `lateFiles`, or move files away that were read",
                self.entries.len()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small(kept: usize) -> Memory {
        Memory { kept, ..Memory::new() }
    }

    #[test]
    fn a_file_is_new_once_and_changed_when_its_version_is_another() {
        let (mut memory, name) = (Memory::new(), fingerprint("a"));
        assert_eq!(memory.judge(name, 7, 10), Verdict::New);
        memory.take(name, 7, 10);
        assert_eq!(memory.judge(name, 7, 99), Verdict::Known, "a file whose rights were changed is the same");
        assert_eq!(memory.judge(name, 8, 10), Verdict::Changed);
        let again = Memory::decode(&memory.encode()).unwrap();
        assert_eq!(again, memory);
        assert!(Memory::is_one(&memory.encode()) && !Memory::is_one(b"{}"));
        assert!(Memory::decode(&memory.encode()[..20]).is_err() && Memory::decode(&[]).is_err());
    }

    #[test]
    fn a_name_that_was_free_in_between_is_another_file_and_the_same_file_is_not() {
        let (mut memory, name) = (Memory::new(), fingerprint("a"));
        memory.take(name, 7, 10);
        memory.settle(&BTreeSet::new(), None, 100).unwrap();
        assert_eq!((memory.judge(name, 7, 11), memory.judge(name, 8, 11)), (Verdict::Known, Verdict::New));
        memory.settle(&BTreeSet::from([name]), None, 100).unwrap();
        assert_eq!(memory.judge(name, 8, 11), Verdict::Changed);
        assert_eq!((Memory::version(0), Memory::version(GONE | 5)), (1, 5));
    }

    #[test]
    fn names_that_were_read_before_are_taken_as_they_are() {
        let mut memory = Memory::of_names(["a", "b"].into_iter());
        let name = fingerprint("a");
        assert_eq!(memory.judge(name, 5, 10), Verdict::Known);
        memory.adopt(name, 5, 10);
        assert_eq!((memory.judge(name, 5, 10), memory.judge(name, 6, 11)), (Verdict::Known, Verdict::Changed));
    }

    #[test]
    fn too_many_files_within_the_grace_are_refused() {
        let mut memory = Memory::new();
        (0..=MOST as u128).for_each(|name| memory.take(name, 1, 1000));
        let error = memory.clone().settle(&(0..=MOST as u128).collect(), None, 10).unwrap_err();
        assert!(error.message().contains("shorten `lateFiles`"), "{error}");
        // What is gone needs no memory.
        memory.take(1 << 100, 1, 2000);
        memory.settle(&BTreeSet::new(), None, 10).unwrap();
        assert_eq!(memory.entries.len(), 1);
    }

    proptest! {
        /// Files come in any order of time within the grace, in listings of any size, some wait for a later one, some go; each is new
        /// once. Fails if the frontier passes a file that waits or comes late, or forgets one that it has not passed.
        #[test]
        fn each_file_is_new_exactly_once(
            files in proptest::collection::vec((0i64..20, any::<bool>(), 0u8..4), 1..200),
            kept in 1usize..20,
        ) {
            const LATE: i64 = 25;
            let mut memory = small(kept);
            let mut present: BTreeSet<u128> = BTreeSet::new();
            let mut waits: Vec<(u128, i64)> = Vec::new();
            let mut taken: BTreeMap<u128, u32> = BTreeMap::new();
            let mut times: BTreeMap<u128, i64> = BTreeMap::new();
            for (at, (behind, goes, pause)) in files.iter().enumerate() {
                let name = at as u128;
                let time = 10 * at as i64 / 4 - behind;
                times.insert(name, time);
                present.insert(name);
                waits.push((name, time));
                if *pause == 0 {
                    continue;
                }
                // A listing that holds the newest back one time in three.
                let held = if *pause == 1 { waits.pop() } else { None };
                let listed: Vec<u128> = present.iter().copied().filter(|name| held.is_none_or(|(held, _)| held != *name)).collect();
                for name in listed {
                    if memory.judge(name, 1, times[&name]) == Verdict::New {
                        memory.take(name, 1, times[&name]);
                        *taken.entry(name).or_default() += 1;
                    }
                }
                memory.settle(&present, held.map(|(_, time)| time), LATE).unwrap();
                memory = Memory { kept, ..Memory::decode(&memory.encode()).unwrap() };
                waits.clear();
                waits.extend(held);
                if *goes {
                    let gone: Option<u128> = taken.keys().copied().find(|name| present.contains(name));
                    present.retain(|name| Some(*name) != gone);
                }
            }
            for (name, count) in &taken {
                prop_assert_eq!(*count, 1, "file {}", name);
            }
            let missed: Vec<&u128> = times.keys().filter(|name| !taken.contains_key(name) && waits.iter().all(|(waits, _)| waits != *name)).collect();
            prop_assert!(missed.is_empty(), "{:?}", missed);
        }
    }
}

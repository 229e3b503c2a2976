//! The key tables of a pane: they number the distinct keys in order of arrival.
//!
//! Open addressing over small slots, with the keys dense beside them. Emitting costs the keys, and clearing at most a few
//! slots per key, so a recycled table is as good as a new one. A key's number is its index in every accumulator.

use arrow::array::{Array, StringViewArray, make_view};
use arrow::buffer::NullBuffer;
use foldhash::fast::FixedState;
use std::hash::{BuildHasher, Hasher};

pub(crate) const VACANT: u32 = u32::MAX;
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
const FIRST_BITS: u32 = 6;
/// An emptied table keeps its slots unless there were more than this many per key: filling them must cost the keys.
const WASTE: usize = 16;

/// 64-bit keys.
#[derive(Debug)]
pub(crate) struct IntTable {
    slots: Vec<IntSlot>,
    shift: u32,
    keys: Vec<i64>,
    null: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
struct IntSlot {
    key: i64,
    group: u32,
}

const VACANT_INT: IntSlot = IntSlot { key: 0, group: VACANT };

impl IntTable {
    /// An empty table.
    pub(crate) fn new() -> Self {
        IntTable { slots: vec![VACANT_INT; 1 << FIRST_BITS], shift: 64 - FIRST_BITS, keys: Vec::new(), null: None }
    }

    /// The keys by number; the null key's value means nothing.
    pub(crate) fn keys(&self) -> &[i64] {
        &self.keys
    }

    /// The number of the null key.
    pub(crate) fn null(&self) -> Option<u32> {
        self.null
    }

    /// Calls `each` with the number of every key, new ones numbered on.
    #[inline]
    pub(crate) fn intern(&mut self, keys: &[i64], nulls: Option<&NullBuffer>, mut each: impl FnMut(u32)) {
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => {
                for key in keys {
                    each(self.number(*key));
                }
            }
            Some(nulls) => {
                for (row, key) in keys.iter().enumerate() {
                    each(if nulls.is_null(row) { self.null_number() } else { self.number(*key) });
                }
            }
        }
    }

    #[inline(always)]
    fn number(&mut self, key: i64) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = home(key, self.shift);
        loop {
            let slot = self.slots[at & mask];
            if slot.group == VACANT {
                return self.add(at & mask, key);
            }
            if slot.key == key {
                return slot.group;
            }
            at += 1;
        }
    }

    #[inline(always)]
    fn add(&mut self, at: usize, key: i64) -> u32 {
        let group = next_number(self.keys.len());
        self.slots[at] = IntSlot { key, group };
        self.keys.push(key);
        if self.keys.len() * 2 > self.slots.len() {
            self.grow();
        }
        group
    }

    fn null_number(&mut self) -> u32 {
        match self.null {
            Some(group) => group,
            None => {
                let group = next_number(self.keys.len());
                self.keys.push(0);
                self.null = Some(group);
                group
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.shift -= 1;
        let size = self.slots.len() * 2;
        self.slots.clear();
        self.slots.resize(size, VACANT_INT);
        for (group, key) in self.keys.iter().enumerate().filter(|(group, _)| self.null != Some(*group as u32)) {
            let mut at = home(*key, self.shift);
            while self.slots[at & (size - 1)].group != VACANT {
                at += 1;
            }
            self.slots[at & (size - 1)] = IntSlot { key: *key, group: group as u32 };
        }
    }

    /// Forgets the keys.
    pub(crate) fn clear(&mut self) {
        if self.slots.len() > (self.keys.len() * WASTE).max(1 << FIRST_BITS) {
            *self = IntTable::new();
            return;
        }
        self.slots.fill(VACANT_INT);
        self.keys.clear();
        self.null = None;
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.len() * size_of::<IntSlot>() + self.keys.capacity() * 8
    }
}

/// The slot to look at first. Folding the upper half in keeps keys apart that differ there only, as floats' bits do.
#[inline(always)]
fn home(key: i64, shift: u32) -> usize {
    let key = key as u64;
    ((key ^ (key >> 32)).wrapping_mul(MULTIPLIER) >> shift) as usize
}

pub(crate) fn next_number(keys: usize) -> u32 {
    // A pane of four billion keys would have met the memory limit long before.
    u32::try_from(keys).ok().filter(|number| *number != VACANT).expect("a pane holds fewer than 2^32 keys")
}

/// Keys of any length: text, and composite keys in their row form.
///
/// A key is kept as an Arrow view: up to 12 bytes in place, so that comparing is one 128-bit comparison; longer ones in
/// blocks that never move, so that the keys leave as a `StringViewArray` without being copied again.
#[derive(Debug)]
pub(crate) struct BytesTable {
    slots: Vec<BytesSlot>,
    shift: u32,
    views: Vec<u128>,
    blocks: Vec<Vec<u8>>,
    null: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
struct BytesSlot {
    tag: u32,
    group: u32,
}

const VACANT_BYTES: BytesSlot = BytesSlot { tag: 0, group: VACANT };
const INLINE: usize = 12;
const BLOCK: usize = 64 << 10;

impl BytesTable {
    /// An empty table.
    pub(crate) fn new() -> Self {
        BytesTable { slots: vec![VACANT_BYTES; 1 << FIRST_BITS], shift: 64 - FIRST_BITS, views: Vec::new(), blocks: Vec::new(), null: None }
    }

    /// How many keys there are, the null one included.
    pub(crate) fn len(&self) -> usize {
        self.views.len()
    }

    /// The keys by number, as views into [`BytesTable::blocks`]; the null key's is empty.
    pub(crate) fn views(&self) -> &[u128] {
        &self.views
    }

    /// What the views of long keys point into.
    pub(crate) fn blocks(&self) -> &[Vec<u8>] {
        &self.blocks
    }

    /// The number of the null key.
    pub(crate) fn null(&self) -> Option<u32> {
        self.null
    }

    /// The bytes of a long key, or of a short one out of `scratch`.
    pub(crate) fn bytes_of<'a>(&'a self, group: usize, scratch: &'a mut [u8; 16]) -> &'a [u8] {
        let view = self.views[group];
        let length = view as u32 as usize;
        if length <= INLINE {
            *scratch = view.to_le_bytes();
            &scratch[4..4 + length]
        } else {
            long_bytes(&self.blocks, view)
        }
    }

    /// Calls `each` with the number of every text.
    pub(crate) fn intern_text(&mut self, texts: &StringViewArray, mut each: impl FnMut(u32)) {
        let nulls = texts.nulls().filter(|nulls| nulls.null_count() > 0);
        for (row, view) in texts.views().iter().enumerate() {
            let number = if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                self.null_number()
            } else if (*view as u32 as usize) <= INLINE {
                self.short(*view)
            } else {
                self.long(texts.value(row).as_bytes())
            };
            each(number);
        }
    }

    /// The number of one key.
    #[inline]
    pub(crate) fn number(&mut self, key: &[u8]) -> u32 {
        if key.len() <= INLINE { self.short(make_view(key, 0, 0)) } else { self.long(key) }
    }

    /// The numbers of another table's keys.
    pub(crate) fn merge(&mut self, other: &BytesTable, mut each: impl FnMut(u32)) {
        for (group, view) in other.views.iter().enumerate() {
            let number = if other.null == Some(group as u32) {
                self.null_number()
            } else if (*view as u32 as usize) <= INLINE {
                self.short(*view)
            } else {
                self.long(long_bytes(&other.blocks, *view))
            };
            each(number);
        }
    }

    #[inline(always)]
    fn short(&mut self, view: u128) -> u32 {
        let hash = hash_view(view);
        let mask = self.slots.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        loop {
            let slot = self.slots[at & mask];
            if slot.group == VACANT {
                return self.add(at & mask, hash, view);
            }
            if slot.tag == hash as u32 && self.views[slot.group as usize] == view {
                return slot.group;
            }
            at += 1;
        }
    }

    fn long(&mut self, key: &[u8]) -> u32 {
        let hash = hash_bytes(key);
        let head = make_view(key, 0, 0) as u64;
        let mask = self.slots.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        loop {
            let slot = self.slots[at & mask];
            if slot.group == VACANT {
                let view = self.store(key);
                return self.add(at & mask, hash, view);
            }
            if slot.tag == hash as u32 {
                let known = self.views[slot.group as usize];
                // Length and first four bytes, then the rest.
                if known as u64 == head && long_bytes(&self.blocks, known) == key {
                    return slot.group;
                }
            }
            at += 1;
        }
    }

    fn store(&mut self, key: &[u8]) -> u128 {
        let fits = self.blocks.last().is_some_and(|block| block.capacity() - block.len() >= key.len());
        if !fits {
            self.blocks.push(Vec::with_capacity(BLOCK.max(key.len())));
        }
        let index = self.blocks.len() - 1;
        let block = &mut self.blocks[index];
        let offset = block.len();
        block.extend_from_slice(key);
        make_view(key, index as u32, offset as u32)
    }

    #[inline(always)]
    fn add(&mut self, at: usize, hash: u64, view: u128) -> u32 {
        let group = next_number(self.views.len());
        self.slots[at] = BytesSlot { tag: hash as u32, group };
        self.views.push(view);
        if self.views.len() * 2 > self.slots.len() {
            self.grow();
        }
        group
    }

    fn null_number(&mut self) -> u32 {
        match self.null {
            Some(group) => group,
            None => {
                let group = next_number(self.views.len());
                self.views.push(0);
                self.null = Some(group);
                group
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.shift -= 1;
        let size = self.slots.len() * 2;
        self.slots.clear();
        self.slots.resize(size, VACANT_BYTES);
        for (group, view) in self.views.iter().enumerate().filter(|(group, _)| self.null != Some(*group as u32)) {
            let short = (*view as u32 as usize) <= INLINE;
            let hash = if short { hash_view(*view) } else { hash_bytes(long_bytes(&self.blocks, *view)) };
            let mut at = (hash >> self.shift) as usize;
            while self.slots[at & (size - 1)].group != VACANT {
                at += 1;
            }
            self.slots[at & (size - 1)] = BytesSlot { tag: hash as u32, group: group as u32 };
        }
    }

    /// Forgets the keys.
    pub(crate) fn clear(&mut self) {
        if self.slots.len() > (self.views.len() * WASTE).max(1 << FIRST_BITS) {
            *self = BytesTable::new();
            return;
        }
        self.slots.fill(VACANT_BYTES);
        self.views.clear();
        self.blocks.clear();
        self.null = None;
    }

    /// Gives the blocks away, for keys on their way out; the table is to be cleared next.
    pub(crate) fn take_blocks(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.blocks)
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(Vec::capacity).sum();
        self.slots.len() * size_of::<BytesSlot>() + self.views.capacity() * 16 + blocks
    }
}

fn long_bytes(blocks: &[Vec<u8>], view: u128) -> &[u8] {
    let (length, index, offset) = (view as u32 as usize, (view >> 64) as u32 as usize, (view >> 96) as usize);
    &blocks[index][offset..offset + length]
}

fn hash_bytes(key: &[u8]) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    hasher.write(key);
    hasher.finish()
}

/// One widening multiplication folded to 64 bits.
#[inline(always)]
fn hash_view(view: u128) -> u64 {
    let (low, high) = (view as u64, (view >> 64) as u64);
    let product = u128::from(low ^ 0x2d35_8dcc_aa6c_78a5) * u128::from(high ^ 0x8bb8_4b93_962e_acc9);
    ((product as u64) ^ ((product >> 64) as u64)).wrapping_mul(MULTIPLIER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn numbered<K: std::hash::Hash + Eq + Clone>(keys: &[K]) -> Vec<u32> {
        let mut known: HashMap<K, u32, FixedState> = HashMap::default();
        keys.iter()
            .map(|key| {
                let next = known.len() as u32;
                *known.entry(key.clone()).or_insert(next)
            })
            .collect()
    }

    proptest! {
        #[test]
        fn integers_are_numbered_in_order_of_arrival_also_after_recycling(
            first in prop::collection::vec(prop_oneof![any::<i64>(), -3i64..3, (0i64..5000).prop_map(|k| k << 40)], 0..4000),
            second in prop::collection::vec(prop_oneof![Just(i64::MIN), Just(0), -300i64..300], 0..800),
        ) {
            let mut table = IntTable::new();
            for keys in [&first, &second] {
                let mut numbers = Vec::new();
                table.intern(keys, None, |number| numbers.push(number));
                prop_assert_eq!(&numbers, &numbered(keys));
                for (key, number) in keys.iter().zip(&numbers) {
                    prop_assert_eq!(table.keys()[*number as usize], *key);
                }
                table.clear();
            }
        }

        #[test]
        fn texts_are_numbered_in_order_of_arrival_also_after_recycling(
            first in prop::collection::vec(prop_oneof!["[a-c]{0,2}", "[ab]{11,14}", "prefix of more than twelve [a-z]{0,2}"], 0..2500),
            second in prop::collection::vec("[ab]{11,14}", 0..400),
        ) {
            let mut table = BytesTable::new();
            for keys in [&first, &second] {
                let mut numbers = Vec::new();
                table.intern_text(&StringViewArray::from_iter_values(keys), |number| numbers.push(number));
                prop_assert_eq!(&numbers, &numbered(keys));
                for (key, number) in keys.iter().zip(&numbers) {
                    let mut scratch = [0; 16];
                    prop_assert_eq!(table.bytes_of(*number as usize, &mut scratch), key.as_bytes());
                    prop_assert_eq!(table.number(key.as_bytes()), *number);
                }
                table.clear();
            }
        }
    }

    #[test]
    fn null_is_a_key_of_its_own() {
        let mut table = IntTable::new();
        let mut numbers = Vec::new();
        table.intern(&[0, 0, 5, 0], Some(&NullBuffer::from(vec![true, false, true, false])), |number| numbers.push(number));
        assert_eq!(numbers, [0, 1, 2, 1]);
        assert_eq!(table.null(), Some(1));
    }
}

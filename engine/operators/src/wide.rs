//! The key table of several narrow columns: composite keys of two to four words, numbered in order of arrival.
//!
//! A key costs its words, which never move, and a slot of eight bytes: 32 bits of hash, which also say where the slot
//! is, and 32 of number. So growing rewrites slots without looking at a key, and a look-up that misses the cache does so twice
//! at most, in the slot and in the key. A block of rows is looked up in passes, slots first and keys second: the loads of one
//! pass do not wait for each other, so that the processor has many misses under way at once.

use crate::chunked::Chunked;
use crate::table::{VACANT, next_number};
use foldhash::fast::FixedState;
use hashbrown::HashMap;

const FIRST_BITS: u32 = 6;
/// Rows that are looked up together.
const BLOCK: usize = 64;
/// An emptied table keeps its slots unless there were more than this many per key: filling them must cost the keys.
const WASTE: usize = 16;

/// See the module's documentation. Keys with a null, which are few, stand in a map beside the slots.
#[derive(Debug)]
pub(crate) struct WideTable<const N: usize> {
    /// Zero, or the upper half of a key's hash above its number plus one.
    slots: Vec<u64>,
    bits: u32,
    /// The words of each key; those of a null are zero.
    keys: Chunked<[i64; N]>,
    nulls: HashMap<([i64; N], u8), u32, FixedState>,
    /// Which words of a key are null.
    masks: HashMap<u32, u8, FixedState>,
}

impl<const N: usize> WideTable<N> {
    /// An empty table.
    pub(crate) fn new() -> Self {
        WideTable {
            slots: vec![0; 1 << FIRST_BITS],
            bits: FIRST_BITS,
            keys: Chunked::default(),
            nulls: HashMap::default(),
            masks: HashMap::default(),
        }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether some key has a null.
    pub(crate) fn has_nulls(&self) -> bool {
        !self.masks.is_empty()
    }

    /// The words of a key.
    #[inline(always)]
    pub(crate) fn key(&self, number: usize) -> [i64; N] {
        self.keys.get(number)
    }

    /// Which words of a key are null, one bit each.
    pub(crate) fn mask(&self, number: u32) -> u8 {
        if self.has_nulls() { self.masks.get(&number).copied().unwrap_or(0) } else { 0 }
    }

    /// Calls `each` with the number of every row's key, new ones numbered on. `columns` are the words, `masks` the nulls of the
    /// rows that have any.
    #[inline]
    pub(crate) fn intern(&mut self, columns: [&[i64]; N], masks: Option<&[u8]>, mut each: impl FnMut(u32)) {
        let rows = columns[0].len();
        let mut from = 0;
        while from < rows {
            let to = rows.min(from + BLOCK);
            self.intern_block(columns.map(|words| &words[from..to]), masks.map(|masks| &masks[from..to]), &mut each);
            from = to;
        }
    }

    #[inline(always)]
    fn intern_block(&mut self, columns: [&[i64]; N], masks: Option<&[u8]>, each: &mut impl FnMut(u32)) {
        let rows = columns[0].len();
        let key = |row: usize| -> [i64; N] { std::array::from_fn(|word| columns[word][row]) };
        let mut tags = [0u32; BLOCK];
        let mut slots = [0u64; BLOCK];
        let shift = 32 - self.bits;
        for (row, tag) in tags[..rows].iter_mut().enumerate() {
            *tag = tag_of(key(row));
        }
        for (slot, tag) in slots.iter_mut().zip(&tags[..rows]) {
            *slot = self.slots[(*tag >> shift) as usize];
        }
        // What most rows find: their key, in the first slot that they look at.
        let mut found = [VACANT; BLOCK];
        for row in 0..rows {
            let slot = slots[row];
            if slot != 0 && (slot >> 32) as u32 == tags[row] {
                let number = slot as u32 - 1;
                if self.key(number as usize) == key(row) {
                    found[row] = number;
                }
            }
        }
        for row in 0..rows {
            each(match masks.map_or(0, |masks| masks[row]) {
                0 if found[row] != VACANT => found[row],
                0 => self.number(key(row), tags[row]),
                mask => self.number_with_nulls(key(row), mask),
            });
        }
    }

    /// The number of one key, found or new.
    fn number(&mut self, key: [i64; N], tag: u32) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = (tag >> (32 - self.bits)) as usize;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            if (slot >> 32) as u32 == tag && self.key((slot as u32 - 1) as usize) == key {
                return slot as u32 - 1;
            }
            at = (at + 1) & mask;
        }
        let number = self.push(key);
        self.slots[at] = u64::from(tag) << 32 | u64::from(number + 1);
        if self.keys.len() * 3 > self.slots.len() * 2 && self.bits < 32 {
            self.grow();
        }
        number
    }

    fn number_with_nulls(&mut self, key: [i64; N], mask: u8) -> u32 {
        let key: [i64; N] = std::array::from_fn(|word| if mask >> word & 1 == 1 { 0 } else { key[word] });
        if let Some(number) = self.nulls.get(&(key, mask)) {
            return *number;
        }
        let number = self.push(key);
        self.nulls.insert((key, mask), number);
        self.masks.insert(number, mask);
        number
    }

    #[inline]
    fn push(&mut self, key: [i64; N]) -> u32 {
        let number = next_number(self.keys.len());
        self.keys.push(key);
        number
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self) {
        self.bits += 1;
        let old = std::mem::replace(&mut self.slots, vec![0; 1 << self.bits]);
        let (mask, shift) = (self.slots.len() - 1, 32 - self.bits);
        for slot in old.into_iter().filter(|slot| *slot != 0) {
            let mut at = ((slot >> 32) as u32 >> shift) as usize;
            while self.slots[at] != 0 {
                at = (at + 1) & mask;
            }
            self.slots[at] = slot;
        }
    }

    /// The numbers of another table's keys.
    pub(crate) fn merge(&mut self, other: &Self, mut each: impl FnMut(u32)) {
        for number in 0..other.len() {
            let key = other.key(number);
            each(match other.mask(number as u32) {
                0 => self.number(key, tag_of(key)),
                mask => self.number_with_nulls(key, mask),
            });
        }
    }

    /// Forgets the keys.
    pub(crate) fn clear(&mut self) {
        if self.slots.len() > (self.keys.len() * WASTE).max(1 << FIRST_BITS) {
            *self = WideTable::new();
            return;
        }
        self.slots.fill(0);
        self.keys.clear();
        self.nulls.clear();
        self.masks.clear();
    }

    /// Memory held.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.len() * 8 + self.keys.bytes() + self.nulls.allocation_size() + self.masks.allocation_size()
    }
}

/// The upper half of the hash of a key: odd multiples of its words, folded and multiplied again so that every bit counts.
#[inline(always)]
fn tag_of<const N: usize>(key: [i64; N]) -> u32 {
    const ODD: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93];
    let mut hash = 0u64;
    for (word, odd) in key.iter().zip(ODD) {
        hash = hash.rotate_left(29) ^ (*word as u64).wrapping_mul(odd);
    }
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(ODD[3]);
    hash ^= hash >> 29;
    (hash.wrapping_mul(ODD[0]) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    type Row = (i64, Option<i64>, u8);

    fn check(table: &mut WideTable<2>, rows: &[Row]) -> Result<(), TestCaseError> {
        let columns: [Vec<i64>; 2] = [rows.iter().map(|row| row.0).collect(), rows.iter().map(|row| row.1.unwrap_or(99)).collect()];
        let masks: Vec<u8> = rows.iter().map(|row| u8::from(row.2 == 0) | u8::from(row.1.is_none()) << 1).collect();
        let plain = |row: &Row| ((row.2 != 0).then_some(row.0), row.1);
        let mut known: HashMap<_, u32, FixedState> = HashMap::default();
        let mut wanted = Vec::new();
        for row in rows {
            let next = known.len() as u32;
            wanted.push(*known.entry(plain(row)).or_insert(next));
        }
        let mut numbers = Vec::new();
        table.intern([&columns[0], &columns[1]], masks.iter().any(|mask| *mask != 0).then_some(&masks), |number| numbers.push(number));
        prop_assert_eq!(&numbers, &wanted);
        prop_assert_eq!(table.len(), known.len());
        for (row, number) in rows.iter().zip(&numbers) {
            let (key, mask) = (table.key(*number as usize), table.mask(*number));
            prop_assert_eq!(((mask & 1 == 0).then_some(key[0]), (mask & 2 == 0).then_some(key[1])), plain(row));
        }
        let mut merged = WideTable::<2>::new();
        merged.intern([&[7], &[7]], None, |_| {});
        let (mut first, mut second) = (Vec::new(), Vec::new());
        merged.merge(table, |number| first.push(number));
        merged.merge(table, |number| second.push(number));
        prop_assert_eq!(&first, &second);
        prop_assert!(first.iter().zip(0..).all(|(there, here)| merged.key(*there as usize) == table.key(here)));
        Ok(())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn keys_are_numbered_in_order_of_arrival_also_after_recycling(
            first in prop::collection::vec((prop_oneof![any::<i64>(), -3i64..3, (0i64..500).prop_map(|k| k << 40)], prop::option::weighted(0.95, -9i64..9), 0u8..30), 0..9000),
            second in prop::collection::vec((-3i64..3, prop::option::of(-3i64..3), 0u8..3), 0..800),
        ) {
            let mut table = WideTable::new();
            for rows in [&first, &second, &first] {
                check(&mut table, rows)?;
                table.clear();
            }
        }
    }

    #[test]
    fn keys_that_differ_in_any_bit_rarely_share_their_first_slot() {
        let mut table = WideTable::<4>::new();
        let keys: Vec<[i64; 4]> = (0..4u32)
            .flat_map(|word| {
                (0..64u32).map(move |bit| {
                    let mut key = [5; 4];
                    key[word as usize] ^= 1i64 << bit;
                    key
                })
            })
            .collect();
        let columns: [Vec<i64>; 4] = std::array::from_fn(|word| keys.iter().map(|key| key[word]).collect());
        table.intern(columns.each_ref().map(Vec::as_slice), None, |_| {});
        let mut homes: Vec<u32> = keys.iter().map(|key| tag_of(*key) >> 20).collect();
        homes.sort_unstable();
        homes.dedup();
        // Of 256 keys in 4096 places, about eight pairs meet by chance.
        assert!(homes.len() > 230, "{} places", homes.len());
        assert_eq!(table.len(), 256);
    }
}

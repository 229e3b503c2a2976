//! The rows of one input that wait: chunks, and a table from hashes to chains of rows, the newest first.
//!
//! Rows that come in are not in chains at first. Rows of the other side that look for partners have those put into chains that may
//! be theirs, which a pass over the hashes tells: where few look for partners among many, most rows are never in a chain. A chunk
//! that was passed over so often that chains would have been cheaper is put into them whole.
//!
//! A chain links the rows of one hash both ways, so that a row leaves it in one step wherever it stands. A row is named by its
//! chunk's slot and its number there; a slot is used again only when no chain leads there.

use super::bounds::{Bounds, Kind, Which};
use super::chunk::{Chunk, Node};
use arrow::array::ArrayRef;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::collections::BTreeSet;

/// A row: slot and number.
pub(super) type Ptr = u64;
/// No row.
pub(super) const NONE: Ptr = u64::MAX;
/// In [`Node::prev`]: the row waits no longer and is in no chain any more.
pub(super) const GONE: Ptr = u64::MAX - 1;
/// In [`Node::prev`]: the row waits and is in no chain yet.
pub(super) const LOOSE: Ptr = u64::MAX - 2;
/// A chunk is passed over so often before all of its rows go into chains.
const PASSES: u8 = 8;
/// Of rows that look for partners among less than so many times their number, most would have to be put into chains anyway.
const FEW: usize = 4;
/// Rows that look for partners have so many bits each to be told from others by.
const BITS_EACH: usize = 16;

#[inline(always)]
pub(super) fn pointer(slot: u32, row: usize) -> Ptr {
    u64::from(slot) << 32 | row as u64
}

#[inline(always)]
pub(super) fn slot_of(ptr: Ptr) -> usize {
    (ptr >> 32) as usize
}

#[inline(always)]
pub(super) fn row_of(ptr: Ptr) -> usize {
    (ptr & 0xffff_ffff) as usize
}

/// The newest row of a hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    pub(super) hash: u64,
    pub(super) first: Ptr,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Side {
    /// Whether rows with a partner are marked.
    pub(super) marked: bool,
    /// Whether rows without a partner are wanted when their time is over.
    unmatched: bool,
    /// How long after its own time a row waits: a row that only looks back waits for its own time to pass, so that what was over
    /// at a snapshot is told from what has come in since by the fired time alone.
    reach: i64,
    pub(super) chunks: Vec<Option<Chunk>>,
    free: Vec<u32>,
    pub(super) heads: HashTable<Head>,
    /// The time of each chunk's next row by time.
    due: BTreeSet<(i64, u32)>,
    /// Chunks without living rows, to be dropped when nothing refers to them.
    pub(super) empty: Vec<u32>,
    /// Chunks with rows that are in no chain yet; others may be among them.
    loose: Vec<u32>,
    /// Small chunks in the order they came, each much smaller than the one before.
    pub(super) recent: Vec<u32>,
    /// Rows in chunks, and rows in chains.
    pub(super) held: usize,
    pub(super) live: usize,
    bytes: usize,
    /// Whether marks have changed since they were written.
    pub(super) marks_changed: bool,
}

/// What came of letting rows go.
#[derive(Debug, Default)]
pub(super) struct Expired {
    /// Those that had no partner, if they are wanted.
    pub(super) unmatched: Vec<Ptr>,
    /// Whether there are more.
    pub(super) more: bool,
}

impl Side {
    pub(super) fn new(which: Which, kind: Kind, bounds: Bounds) -> Self {
        Side {
            marked: kind.marks(which),
            unmatched: kind.keeps_unmatched(which),
            reach: bounds.reach(which).max(0),
            chunks: Vec::new(),
            free: Vec::new(),
            heads: HashTable::new(),
            due: BTreeSet::new(),
            empty: Vec::new(),
            loose: Vec::new(),
            recent: Vec::new(),
            held: 0,
            live: 0,
            bytes: 0,
            marks_changed: false,
        }
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.heads.allocation_size()
    }

    #[inline(always)]
    pub(super) fn chunk(&self, ptr: Ptr) -> Option<&Chunk> {
        self.chunks.get(slot_of(ptr)).and_then(Option::as_ref)
    }

    pub(super) fn chunk_mut(&mut self, ptr: Ptr) -> Option<&mut Chunk> {
        self.chunks.get_mut(slot_of(ptr)).and_then(Option::as_mut)
    }

    fn node_mut(&mut self, ptr: Ptr) -> Option<&mut Node> {
        self.chunk_mut(ptr).and_then(|chunk| chunk.nodes.get_mut(row_of(ptr)))
    }

    /// The newest row of a hash, or [`NONE`].
    #[inline]
    pub(super) fn head(&self, hash: u64) -> Ptr {
        self.heads.find(hash, |head| head.hash == hash).map_or(NONE, |head| head.first)
    }

    /// Whether a row has had a partner.
    pub(super) fn is_matched(&self, ptr: Ptr) -> bool {
        self.chunk(ptr).is_some_and(|chunk| chunk.matched.get(row_of(ptr)))
    }

    /// Remembers that a row has had a partner.
    pub(super) fn mark(&mut self, ptr: Ptr) {
        if let Some(chunk) = self.chunk_mut(ptr)
            && !chunk.matched.get(row_of(ptr))
        {
            chunk.matched.set(row_of(ptr));
            self.marks_changed = true;
        }
    }

    /// Takes in rows that came together.
    pub(super) fn insert(&mut self, columns: Vec<ArrayRef>, hashes: &[u64], times: &[i64], seq: u64) -> u32 {
        let nodes = hashes.iter().zip(times).map(|(hash, time)| Node { hash: *hash, time: *time, next: NONE, prev: LOOSE }).collect();
        let mut chunk = Chunk::new(columns, nodes, seq, self.marked);
        (chunk.live, chunk.loose) = (chunk.rows(), chunk.rows());
        self.live += chunk.live;
        let slot = self.place(chunk);
        self.recent.push(slot);
        slot
    }

    /// Gives a chunk a slot; none of its rows is in a chain yet. Those that wait, and those of them that are loose, have been counted.
    pub(super) fn place(&mut self, chunk: Chunk) -> u32 {
        self.held += chunk.rows();
        self.bytes += chunk.bytes;
        let (due, is_loose) = (chunk.next_by_time(), chunk.loose > 0);
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.chunks.push(None);
                (self.chunks.len() - 1) as u32
            }
        };
        self.chunks[slot as usize] = Some(chunk);
        if let Some((_, time)) = due {
            self.due.insert((time, slot));
        }
        if is_loose {
            if self.loose.len() > 2 * self.chunks.len() {
                self.loose.sort_unstable();
                self.loose.dedup();
                let chunks = &self.chunks;
                self.loose.retain(|slot| chunks[*slot as usize].as_ref().is_some_and(|chunk| chunk.loose > 0));
            }
            self.loose.push(slot);
        }
        slot
    }

    /// Puts the waiting rows into chains that these rows of the other side may be partners of.
    pub(super) fn chain_for(&mut self, probes: &[Node]) {
        let slots = std::mem::take(&mut self.loose);
        let mut wanted: Option<Wanted> = None;
        for slot in slots {
            let Some(chunk) = self.chunks[slot as usize].as_mut().filter(|chunk| chunk.loose > 0) else { continue };
            let all = chunk.passes == PASSES || probes.len() * FEW > chunk.loose;
            chunk.passes += 1;
            let wanted = (!all).then(|| &*wanted.get_or_insert_with(|| Wanted::new(probes.len(), probes.iter().map(|node| node.hash))));
            let is_wanted = |node: &Node| node.prev == LOOSE && wanted.is_none_or(|wanted| wanted.has(node.hash));
            let rows: Vec<usize> = chunk.nodes.iter().enumerate().filter(|(_, node)| is_wanted(node)).map(|(row, _)| row).collect();
            chunk.loose -= rows.len();
            if chunk.loose > 0 {
                self.loose.push(slot);
            }
            rows.into_iter().for_each(|row| self.chain(pointer(slot, row)));
        }
    }

    /// Takes a row in that has come back.
    pub(super) fn link(&mut self, ptr: Ptr) {
        if let Some(chunk) = self.chunk_mut(ptr) {
            chunk.live += 1;
            self.live += 1;
        }
        self.chain(ptr);
    }

    /// Puts a row before the others of its hash.
    fn chain(&mut self, ptr: Ptr) {
        let Some(hash) = self.node_mut(ptr).map(|node| node.hash) else { return };
        let next = match self.heads.entry(hash, |head| head.hash == hash, |head| head.hash) {
            Entry::Occupied(mut head) => std::mem::replace(&mut head.get_mut().first, ptr),
            Entry::Vacant(place) => {
                place.insert(Head { hash, first: ptr });
                NONE
            }
        };
        if let Some(node) = self.node_mut(next) {
            node.prev = ptr;
        }
        if let Some(chunk) = self.chunk_mut(ptr) {
            let node = &mut chunk.nodes[row_of(ptr)];
            (node.next, node.prev) = (next, NONE);
        }
    }

    /// A row waits no longer, and leaves its chain if it is in one. It still knows the row behind it, for those who stand on it.
    pub(super) fn unlink(&mut self, ptr: Ptr) {
        let Some(node) = self.node_mut(ptr) else { return };
        let Node { hash, next, prev, .. } = *node;
        if prev == GONE {
            return;
        }
        node.prev = GONE;
        let was_loose = prev == LOOSE;
        if !was_loose {
            self.relink(hash, prev, next);
        }
        self.live -= 1;
        let Some(chunk) = self.chunk_mut(ptr) else { return };
        chunk.loose -= usize::from(was_loose);
        chunk.live -= 1;
        if chunk.live == 0 {
            self.empty.push(slot_of(ptr) as u32);
        }
    }

    /// Makes two rows of a chain neighbours; none before means the head.
    fn relink(&mut self, hash: u64, prev: Ptr, next: Ptr) {
        if prev == NONE {
            if let Ok(mut head) = self.heads.find_entry(hash, |head| head.hash == hash) {
                if next == NONE {
                    head.remove();
                } else {
                    head.get_mut().first = next;
                }
            }
        } else if let Some(node) = self.node_mut(prev) {
            node.next = next;
        }
        if let Some(node) = self.node_mut(next) {
            node.prev = prev;
        }
    }

    /// A row of a chain has moved from one place to another: its neighbours follow.
    pub(super) fn moved(&mut self, from: Ptr, to: Ptr) {
        let Some(Node { hash, next, prev, .. }) = self.node_mut(from).map(|node| *node) else { return };
        if prev == LOOSE {
            // It has no neighbours, and its copy is as loose.
        } else if prev == NONE {
            if let Some(head) = self.heads.find_mut(hash, |head| head.hash == hash) {
                head.first = to;
            }
        } else if let Some(node) = self.node_mut(prev) {
            node.next = to;
        }
        if let Some(node) = self.node_mut(next) {
            node.prev = to;
        }
        if let Some(node) = self.node_mut(to) {
            (node.next, node.prev) = (next, prev);
        }
        if let Some(node) = self.node_mut(from) {
            node.prev = GONE;
        }
    }

    /// Whether a row of this time waits no longer once the watermark is here.
    pub(super) fn is_over(&self, time: i64, watermark: i64) -> bool {
        time < watermark.saturating_sub(self.reach)
    }

    /// Lets the rows go that can find no partner any more, `limit` of them at most, and of those without a partner `wanted`.
    pub(super) fn expire(&mut self, watermark: i64, limit: usize, wanted: usize) -> Expired {
        let mut expired = Expired::default();
        let mut seen = 0;
        while let Some(&(first, slot)) = self.due.first().filter(|(time, _)| self.is_over(*time, watermark)) {
            self.due.remove(&(first, slot));
            if !self.unmatched {
                seen += self.drop_over(slot, watermark, limit - seen);
            }
            loop {
                let next = self.chunks[slot as usize].as_ref().and_then(Chunk::next_by_time);
                let Some((row, time)) = next else { break };
                if !self.is_over(time, watermark) || seen == limit || expired.unmatched.len() == wanted {
                    self.due.insert((time, slot));
                    break;
                }
                seen += 1;
                let ptr = pointer(slot, row);
                if let Some(chunk) = self.chunk_mut(ptr) {
                    chunk.cursor += 1;
                    if chunk.is_waiting(row) {
                        if self.unmatched && !self.is_matched(ptr) {
                            expired.unmatched.push(ptr);
                        }
                        self.unlink(ptr);
                    }
                }
            }
            if seen == limit || expired.unmatched.len() == wanted {
                expired.more = true;
                break;
            }
        }
        expired
    }

    /// Lets the next rows of a chunk by time go that are over, `limit` at most, where nobody wants to know which had no partner; gives
    /// how many there were.
    fn drop_over(&mut self, slot: u32, watermark: i64, limit: usize) -> usize {
        let over = watermark.saturating_sub(self.reach);
        let Some(chunk) = self.chunks[slot as usize].as_mut() else { return 0 };
        let mut chained = Vec::new();
        let (mut seen, mut loose) = (0, 0);
        while seen < limit
            && let Some((row, time)) = chunk.next_by_time()
            && time < over
        {
            seen += 1;
            chunk.cursor += 1;
            let node = &mut chunk.nodes[row];
            if node.prev == LOOSE {
                node.prev = GONE;
                loose += 1;
            } else if node.prev != GONE {
                chained.push(row);
            }
        }
        chunk.loose -= loose;
        chunk.live -= loose;
        self.live -= loose;
        if loose > 0 && chunk.live == 0 {
            self.empty.push(slot);
        }
        chained.into_iter().for_each(|row| self.unlink(pointer(slot, row)));
        seen
    }

    /// The hashes of the waiting rows that are in chains, unless there are about as many as `rows`.
    pub(super) fn few_wanted(&self, rows: usize) -> Option<Wanted> {
        (self.heads.len() * FEW < rows).then(|| Wanted::new(self.heads.len(), self.heads.iter().map(|head| head.hash)))
    }

    /// Forgets a chunk. None of its rows is in a chain.
    pub(super) fn remove(&mut self, slot: u32) {
        let Some(chunk) = self.chunks.get_mut(slot as usize).and_then(Option::take) else { return };
        if let Some((_, time)) = chunk.next_by_time() {
            self.due.remove(&(time, slot));
        }
        self.held -= chunk.rows();
        self.bytes -= chunk.bytes;
        self.recent.retain(|recent| *recent != slot);
        self.free.push(slot);
    }

    /// The slots in use.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.chunks.iter().enumerate().filter(|(_, chunk)| chunk.is_some()).map(|(slot, _)| slot as u32)
    }
}

/// The hashes that rows look for, with a few others that are taken for them.
#[derive(Debug)]
pub(super) struct Wanted {
    bits: Vec<u64>,
    shift: u32,
}

impl Wanted {
    fn new(count: usize, hashes: impl Iterator<Item = u64>) -> Self {
        let bits = (count * BITS_EACH).next_power_of_two().max(64);
        let mut wanted = Wanted { bits: vec![0; bits / 64], shift: 64 - bits.trailing_zeros() };
        for hash in hashes {
            let at = wanted.place(hash);
            wanted.bits[at / 64] |= 1 << (at % 64);
        }
        wanted
    }

    /// The upper bits of a hash tell a task's rows from another's; the lower ones tell them apart.
    #[inline(always)]
    fn place(&self, hash: u64) -> usize {
        (hash.rotate_right(32) >> self.shift) as usize
    }

    #[inline(always)]
    pub(super) fn has(&self, hash: u64) -> bool {
        let at = self.place(hash);
        self.bits[at / 64] >> (at % 64) & 1 == 1
    }
}

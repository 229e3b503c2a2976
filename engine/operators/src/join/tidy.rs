//! Keeps the number of chunks and the memory of rows that are gone small. Runs only while nothing refers to a row from outside.

use super::chunk::Chunk;
use super::output::Picked;
use super::side::{LOOSE, Ptr, Side, pointer, row_of};
use crate::texts::compacted;
use tidegate_api::Result;

/// Chunks of so many rows are not merged: a row of a large batch is never copied, one of a small batch a few times.
const SMALL: usize = 2048;
/// As many rows are put together when chunks are compacted, and so many may be dead before that is worth while.
const FULL: usize = 16 * 1024;

impl Side {
    /// Drops empty chunks, merges small ones, and copies the living rows out of chunks that are mostly dead.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn tidy(&mut self) -> Result<()> {
        for slot in std::mem::take(&mut self.empty) {
            self.remove(slot);
        }
        self.merge_recent()?;
        self.compact()?;
        if self.heads.capacity() > 1024 && self.heads.len() * 8 < self.heads.capacity() {
            let twice = self.heads.len() * 2;
            self.heads.shrink_to(twice, |head| head.hash);
        }
        Ok(())
    }

    fn rows_in(&self, slot: u32) -> usize {
        self.chunk(pointer(slot, 0)).map_or(0, Chunk::rows)
    }

    /// Merges the newest chunks while one is not much smaller than the one before: small batches become chunks of doubling sizes.
    fn merge_recent(&mut self) -> Result<()> {
        while let [.., before, last] = self.recent[..] {
            if self.rows_in(last) >= SMALL || self.rows_in(before) >= SMALL || self.rows_in(before) > 2 * self.rows_in(last) {
                break;
            }
            self.recent.truncate(self.recent.len() - 2);
            let merged = self.rebuild(&[before, last])?;
            self.recent.push(merged);
        }
        if let Some(last) = self.recent.last().copied()
            && self.rows_in(last) >= SMALL
        {
            self.recent.pop();
        }
        Ok(())
    }

    /// Keeps the rows held below twice the living ones, give or take a chunk.
    fn compact(&mut self) -> Result<()> {
        if self.held - self.live <= self.live + FULL {
            return Ok(());
        }
        let mostly_dead = |chunk: &Chunk| chunk.live * 2 < chunk.rows();
        let slots: Vec<u32> = self.slots().filter(|slot| self.chunk(pointer(*slot, 0)).is_some_and(mostly_dead)).collect();
        let mut group = Vec::new();
        let mut rows = 0;
        for slot in slots {
            rows += self.chunk(pointer(slot, 0)).map_or(0, |chunk| chunk.live);
            group.push(slot);
            if rows >= FULL {
                self.rebuild(&std::mem::take(&mut group))?;
                rows = 0;
            }
        }
        if !group.is_empty() {
            self.rebuild(&group)?;
        }
        Ok(())
    }

    /// One chunk of the living rows of several, in their place.
    fn rebuild(&mut self, slots: &[u32]) -> Result<u32> {
        let mut rows: Vec<Ptr> = Vec::new();
        let mut seq = 0;
        for slot in slots {
            if let Some(chunk) = self.chunk(pointer(*slot, 0)) {
                seq = seq.max(chunk.seq);
                rows.extend((0..chunk.rows()).filter(|row| chunk.is_waiting(*row)).map(|row| pointer(*slot, row)));
            }
        }
        let picked = Picked::new(self, &rows);
        let width = slots.first().and_then(|slot| self.chunk(pointer(*slot, 0))).map_or(0, |chunk| chunk.columns.len());
        let columns = (0..width).map(|column| picked.column(self, column).map(compacted)).collect::<Result<Vec<_>>>()?;
        let nodes = rows.iter().filter_map(|ptr| self.chunk(*ptr).map(|chunk| chunk.nodes[row_of(*ptr)])).collect();
        let mut chunk = Chunk::new(columns, nodes, seq, self.marked);
        for (row, _) in rows.iter().enumerate().filter(|(_, ptr)| self.is_matched(**ptr)) {
            chunk.matched.set(row);
        }
        chunk.live = rows.len();
        chunk.loose = chunk.nodes.iter().filter(|node| node.prev == LOOSE).count();
        // Marks are written under the name of a chunk, and this one has none yet.
        self.marks_changed |= chunk.matched.any();
        let merged = self.place(chunk);
        for (row, from) in rows.iter().enumerate() {
            self.moved(*from, pointer(merged, row));
        }
        slots.iter().for_each(|slot| self.remove(*slot));
        Ok(merged)
    }
}

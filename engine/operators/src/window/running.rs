//! The counts of a window that moves on: what enters is added and what leaves is taken away, instead of adding all panes anew for
//! every window. Only for a single count of rows, which can be taken away exactly.

use crate::keys::{GroupBy, Groups};
use arrow::array::{ArrayRef, Int64Array};
use std::sync::Arc;
use tidegate_api::Result;

/// So many groups without rows are left in the table, and no more than there are with rows.
const EMPTY: usize = 32;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Running {
    /// It holds the panes that start at `from` or later and before `to`.
    pub(super) from: i64,
    pub(super) to: i64,
    groups: Groups,
    counts: Vec<i64>,
    /// Groups with rows.
    full: usize,
    numbers: Vec<u32>,
}

impl Running {
    /// Without panes, before `from`.
    pub(super) fn new(by: &GroupBy, from: i64) -> Self {
        Running { from, to: from, groups: by.table(), counts: Vec::new(), full: 0, numbers: Vec::new() }
    }

    /// Begins anew before `from`.
    pub(super) fn reset(&mut self, from: i64) {
        self.groups.clear();
        self.counts.clear();
        (self.from, self.to, self.full) = (from, from, 0);
    }

    /// Whether a pane is in it.
    pub(super) fn holds(&self, pane: i64) -> bool {
        (self.from..self.to).contains(&pane)
    }

    /// Whether it is mostly of groups that are gone.
    pub(super) fn is_sparse(&self) -> bool {
        let empty = self.counts.len() - self.full;
        empty > EMPTY && empty > self.full
    }

    /// Adds a pane's counts.
    pub(super) fn add(&mut self, groups: &Groups, counts: &[i64]) {
        self.number(groups);
        for (group, count) in self.numbers.iter().zip(counts) {
            let sum = &mut self.counts[*group as usize];
            self.full += usize::from(*sum == 0);
            *sum += count;
        }
    }

    /// Takes a pane's counts away again.
    pub(super) fn take_away(&mut self, groups: &Groups, counts: &[i64]) {
        self.number(groups);
        for (group, count) in self.numbers.iter().zip(counts) {
            let sum = &mut self.counts[*group as usize];
            *sum -= count;
            self.full -= usize::from(*sum == 0);
        }
    }

    fn number(&mut self, groups: &Groups) {
        self.numbers.clear();
        let numbers = &mut self.numbers;
        self.groups.merge(groups, |group| numbers.push(group));
        self.counts.resize(self.groups.len(), 0);
    }

    /// The groups with rows, and their counts.
    ///
    /// # Errors
    /// `Internal` when an array cannot be made.
    pub(super) fn columns(&mut self, by: &GroupBy) -> Result<(Vec<ArrayRef>, ArrayRef)> {
        if self.full == self.counts.len() {
            return Ok((by.columns(&mut self.groups, false)?, Arc::new(Int64Array::from(self.counts.clone()))));
        }
        // There are many small windows, and vectors that grow would be a good part of what they cost.
        let (mut counts, mut numbers) = (Vec::with_capacity(self.full), Vec::with_capacity(self.full));
        for (count, group) in self.counts.iter().zip(0u32..).filter(|(count, _)| **count != 0) {
            counts.push(*count);
            numbers.push(group);
        }
        Ok((by.columns_of(&self.groups, &numbers)?, Arc::new(Int64Array::from(counts))))
    }

    /// Memory held.
    pub(super) fn bytes(&self) -> usize {
        self.groups.bytes() + self.counts.capacity() * 8 + self.numbers.capacity() * 4
    }
}

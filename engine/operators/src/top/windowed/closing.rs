//! Windows on their way out, several in a batch: a window's first rows are often few.

use super::super::plan::{Beside, Plan, Window};
use super::spans::Bounds;
use crate::lean::{Across, Ranking};
use arrow::array::{ArrayRef, TimestampMillisecondArray};
use std::sync::Arc;
use tidegate_api::{Output, Result};

/// A window that closes, and how far it has been emitted.
#[derive(Debug)]
pub(super) struct Closing {
    bounds: Bounds,
    ranking: Ranking,
    group: u32,
    rank: usize,
}

impl Closing {
    /// Nothing of it has been emitted yet.
    pub(super) fn new(bounds: Bounds, ranking: Ranking) -> Self {
        Closing { bounds, ranking, group: 0, rank: 0 }
    }

    fn is_done(&self) -> bool {
        self.group as usize == self.ranking.group_count()
    }

    /// The next rows and their ranks, at most `room` of them.
    fn next(&mut self, room: usize, ranks: &mut Vec<i64>) -> Vec<u32> {
        let mut ids = Vec::new();
        while ids.len() < room && !self.is_done() {
            let before = ids.len();
            let mut rows = self.ranking.ranked(self.group).skip(self.rank);
            ids.extend(rows.by_ref().take(room - before));
            let is_last = rows.next().is_none();
            ranks.extend((self.rank..self.rank + ids.len() - before).map(|rank| rank as i64 + 1));
            self.rank += ids.len() - before;
            if is_last {
                (self.group, self.rank) = (self.group + 1, 0);
            }
        }
        ids
    }
}

/// A batch of output rows in the making.
#[derive(Debug)]
pub(super) struct Portion {
    limit: usize,
    /// The windows, each with the rows of it that come out.
    windows: Vec<(Closing, Vec<u32>)>,
    ranks: Vec<i64>,
}

impl Portion {
    /// An empty one, for `limit` rows.
    pub(super) fn new(limit: usize) -> Self {
        Portion { limit, windows: Vec::new(), ranks: Vec::new() }
    }

    /// Takes as many rows of a window as there is room for.
    pub(super) fn fill(&mut self, mut closing: Closing) {
        let ids = closing.next(self.limit - self.ranks.len(), &mut self.ranks);
        if !ids.is_empty() {
            self.windows.push((closing, ids));
        }
    }

    /// Whether it is to be emitted before more is added.
    pub(super) fn is_full(&self) -> bool {
        self.ranks.len() == self.limit
    }

    /// Emits the rows, and gives back the last window if more is left of it.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(super) fn emit(mut self, plan: &Plan, out: &mut Output) -> Result<Option<Closing>> {
        if self.ranks.is_empty() {
            return Ok(None);
        }
        let mut across = Across::default();
        self.windows.iter().for_each(|(closing, ids)| closing.ranking.rows_among(ids, &mut across));
        let columns = across.columns(0..plan.types.len(), &plan.types)?;
        let bounds = match &plan.window {
            Some(Window::Of { zone, .. }) => {
                let column = |bound: fn(&Bounds) -> i64| -> ArrayRef {
                    let of = self.windows.iter().flat_map(|(closing, ids)| std::iter::repeat_n(bound(&closing.bounds), ids.len()));
                    Arc::new(TimestampMillisecondArray::from_iter_values(of).with_timezone_opt(zone.clone()))
                };
                Some((column(|bounds| bounds.start), column(|bounds| bounds.end)))
            }
            Some(Window::Named { .. }) | None => None,
        };
        drop(across);
        out.emit(plan.output(&columns, Beside { ranks: std::mem::take(&mut self.ranks), ops: None, bounds })?);
        Ok(self.windows.pop().map(|(closing, _)| closing).filter(|closing| !closing.is_done()))
    }
}

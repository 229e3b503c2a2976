//! Rows whose windows are done with.

use super::WindowedAggregate;
use crate::window::arithmetic::Run;
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use std::sync::Arc;
use tidegate_api::{Output, Result};

impl WindowedAggregate {
    /// Takes the rows out of `scratch.runs` for which every window is done with.
    pub(super) fn set_late_aside(&mut self, batch: &RecordBatch, out: &mut Output) -> Result<()> {
        let windows = self.plan.grid.windows;
        let (low, high) = (self.closed(self.fired.low.max(self.promised)), self.closed(self.fired.high.max(self.promised)));
        if self.scratch.runs.iter().all(|run| windows.first_end(run.pane) > high) {
            return Ok(());
        }
        let mut closed_of: Option<Vec<i64>> = None;
        let mut kept: Vec<Run> = Vec::with_capacity(self.scratch.runs.len());
        let mut late: Vec<u32> = Vec::new();
        for run in std::mem::take(&mut self.scratch.runs) {
            let (first, last) = (windows.first_end(run.pane), windows.last_end(run.pane));
            if last <= low {
                late.extend(run.from as u32..run.to as u32);
            } else if first > high {
                kept.push(run);
            } else if low == high {
                out.late_windows += (run.to - run.from) as u64;
                kept.push(run);
            } else {
                // Only after a restore that brought vnodes of different progress together, until the next watermark.
                let closed_of = match &mut closed_of {
                    Some(closed) => closed,
                    none => none.insert(self.closed_of(batch)?),
                };
                for (row, closed) in (run.from..run.to).map(|row| (row, closed_of[row])) {
                    if last <= closed {
                        late.push(row as u32);
                        continue;
                    }
                    out.late_windows += u64::from(first <= closed);
                    match kept.last_mut().filter(|previous| previous.pane == run.pane && previous.to == row) {
                        Some(previous) => previous.to += 1,
                        None => kept.push(Run { pane: run.pane, from: row, to: row + 1 }),
                    }
                }
            }
        }
        if late.len() == batch.num_rows() {
            out.late.push(batch.clone());
        } else if !late.is_empty() {
            out.late.push(take_record_batch(batch, &UInt32Array::from(late))?);
        }
        self.scratch.runs = kept;
        Ok(())
    }

    /// For each row, the mark through which windows are done with for its vnode.
    fn closed_of(&mut self, batch: &RecordBatch) -> Result<Vec<i64>> {
        let groups: Vec<ArrayRef> = self.plan.groups.iter().map(|index| Arc::clone(batch.column(*index))).collect();
        let vnodes = self.dealt(&groups, batch.num_rows())?;
        vnodes.into_iter().map(|vnode| Ok(self.closed(self.fired.of(vnode)?.max(self.promised)))).collect()
    }
}

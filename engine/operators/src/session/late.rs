//! Rows whose sessions are done with.

use super::operator::SessionAggregate;
use arrow::array::RecordBatch;
use tidegate_api::Result;

impl SessionAggregate {
    /// The rows whose session alone would be done with.
    ///
    /// # Errors
    /// `Config` for groups that cannot be hashed.
    pub(super) fn late_rows(&mut self, batch: &RecordBatch) -> Result<Vec<u32>> {
        let kept = self.plan.limits.gap + self.plan.when.lateness;
        let (low, high) = (self.fired.low, self.fired.high);
        // Sums stay in range: times are within reach, and before the first watermark nothing is late.
        let ended = |time: i64, through: i64| time + kept < through;
        if self.millis.iter().all(|time| !ended(*time, high)) {
            return Ok(Vec::new());
        }
        let rows = self.millis.iter().zip(0u32..);
        if low == high {
            return Ok(rows.filter(|(time, _)| ended(**time, high)).map(|(_, row)| row).collect());
        }
        // Only after a restore that brought vnodes of different progress together, until the next watermark.
        let vnodes = self.dealt(&self.groups(batch), batch.num_rows())?;
        let mut late = Vec::new();
        for (row, (time, vnode)) in self.millis.iter().zip(vnodes).enumerate() {
            if ended(*time, self.fired.of(vnode)?) {
                late.push(row as u32);
            }
        }
        Ok(late)
    }
}

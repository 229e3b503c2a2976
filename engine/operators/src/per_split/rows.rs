//! A batch cut by split, and by what had been promised before its rows.

use arrow::array::{AsArray, RecordBatch, StringViewArray};
use arrow::datatypes::Int64Type;
use tidegate_api::{Error, EventTime, Result, hidden};

/// Neighbouring rows of one split that are judged by the same time.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) split: String,
    /// What the split had promised before these rows: they are judged by that.
    pub(super) before: EventTime,
    /// What it promises once they are taken.
    pub(super) after: EventTime,
    pub(super) rows: RecordBatch,
}

/// The runs of a batch, in order.
///
/// # Errors
/// `Internal` when the rows do not say where they come from.
pub(super) fn runs(batch: &RecordBatch) -> Result<Vec<Run>> {
    let unknown = || Error::internal("rows reached a stage that keeps splits apart and do not say which split they are of");
    let splits = batch.column_by_name(hidden::SPLIT).and_then(|column| column.as_string_view_opt()).ok_or_else(unknown)?;
    let times = |name: &str| batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<Int64Type>()).ok_or_else(unknown);
    let (before, after) = (times(hidden::PROMISED)?.values(), times(hidden::PROMISES)?.values());
    let (mut runs, mut from) = (Vec::new(), 0);
    while from < batch.num_rows() {
        let mut to = from + 1;
        while to < batch.num_rows() && before[to] == before[from] && is_same(splits, from, to) {
            to += 1;
        }
        let promises = after[from..to].iter().copied().max().unwrap_or(before[from]);
        runs.push(Run {
            split: splits.value(from).to_string(),
            before: EventTime(before[from]),
            after: EventTime(promises),
            rows: batch.slice(from, to - from),
        });
        from = to;
    }
    Ok(runs)
}

/// Whether two rows are of one split. Equal views, as rows of one chunk have them, need no look at the text.
fn is_same(splits: &StringViewArray, a: usize, b: usize) -> bool {
    splits.views()[a] == splits.views()[b] || splits.value(a) == splits.value(b)
}

use crate::graph::late_schema;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringViewArray, TimestampMicrosecondArray};
use std::sync::Arc;
use tidegate_api::{EventTime, Result, hidden};

/// Late rows with the columns that say where and against what, before the hidden ones.
pub(super) fn marked(rows: &RecordBatch, stage: &str, watermark: Option<EventTime>) -> Result<RecordBatch> {
    let count = rows.num_rows();
    let (hidden_columns, mut columns): (Vec<_>, Vec<_>) =
        rows.schema_ref().fields().iter().zip(rows.columns()).partition(|(field, _)| hidden::is_hidden(field.name()));
    let stages: ArrayRef = Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(stage, count)));
    let at = watermark.map(|at| at.0);
    let watermarks: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter(std::iter::repeat_n(at, count)));
    let schema = late_schema(&rows.schema());
    let mut arrays: Vec<ArrayRef> = columns.drain(..).map(|(_, column)| ArrayRef::clone(column)).collect();
    arrays.extend([stages, watermarks]);
    arrays.extend(hidden_columns.into_iter().map(|(_, column)| ArrayRef::clone(column)));
    Ok(RecordBatch::try_new_with_options(schema, arrays, &RecordBatchOptions::new().with_row_count(Some(count)))?)
}

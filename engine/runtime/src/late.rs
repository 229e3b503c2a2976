//! Late rows on their way out: marked with who found them late, and against what.

use crate::graph::late_schema;
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringViewArray, TimestampMicrosecondArray};
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use tidegate_api::{EventTime, Output, Result, Step, StepCtx, StepFactory, hidden};

/// Late rows with the columns that say where and against what, before the hidden ones.
pub(crate) fn marked(rows: &RecordBatch, stage: &str, watermark: Option<EventTime>) -> Result<RecordBatch> {
    let count = rows.num_rows();
    let (hidden_columns, mut columns): (Vec<_>, Vec<_>) =
        rows.schema_ref().fields().iter().zip(rows.columns()).partition(|(field, _)| hidden::is_hidden(field.name()));
    let stages: ArrayRef = Arc::new(StringViewArray::from_iter_values(std::iter::repeat_n(stage, count)));
    // A stage that keeps splits apart may find a row late before all of them together have promised anything.
    let at = watermark.filter(|at| *at != EventTime::MIN).map(|at| at.0);
    let watermarks: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter(std::iter::repeat_n(at, count)));
    let schema = late_schema(&rows.schema());
    let mut arrays: Vec<ArrayRef> = columns.drain(..).map(|(_, column)| ArrayRef::clone(column)).collect();
    arrays.extend([stages, watermarks]);
    arrays.extend(hidden_columns.into_iter().map(|(_, column)| ArrayRef::clone(column)));
    Ok(RecordBatch::try_new_with_options(schema, arrays, &RecordBatchOptions::new().with_row_count(Some(count)))?)
}

/// The step that marks a source's rows from too far in the future as late ones: with the dataset instead of a stage, and without a
/// watermark. It stands last in a source's `late` pipe, which the rows enter as the source made them.
pub struct FutureRowsStep {
    dataset: Arc<str>,
    schema: SchemaRef,
}

impl FutureRowsStep {
    /// For rows of this schema, read from this dataset.
    pub fn new(dataset: &str, input: &SchemaRef) -> Self {
        FutureRowsStep { dataset: dataset.into(), schema: late_schema(input) }
    }
}

impl StepFactory for FutureRowsStep {
    fn name(&self) -> &str {
        "futureRows"
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn open(&self, _: StepCtx) -> Result<Box<dyn Step>> {
        Ok(Box::new(Marking(Arc::clone(&self.dataset))))
    }
}

struct Marking(Arc<str>);

impl Step for Marking {
    fn apply(&mut self, batch: RecordBatch, _: EventTime, out: &mut Output) -> Result<()> {
        out.emit(marked(&batch, &self.0, None)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::LATE_WATERMARK;
    use arrow::array::{Array, AsArray, Int64Array};
    use arrow::datatypes::TimestampMicrosecondType;

    #[test]
    fn a_stage_that_has_promised_nothing_leaves_the_watermark_of_a_late_row_empty() {
        let rows = RecordBatch::try_from_iter([("n", Arc::new(Int64Array::from(vec![7])) as ArrayRef)]).unwrap();
        let told = |at| {
            let late = marked(&rows, "w", Some(at)).unwrap();
            let column = late.column_by_name(LATE_WATERMARK).unwrap().as_primitive::<TimestampMicrosecondType>().clone();
            column.is_valid(0).then(|| column.value(0))
        };
        assert_eq!((told(EventTime::MIN), told(EventTime(5))), (None, Some(5)));
    }
}

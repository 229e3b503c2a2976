//! The planner's own step: leaves out the columns that nobody behind it reads, and puts the rest in the agreed order.

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use std::sync::Arc;
use tidegate_api::{Error, EventTime, Output, Result, Step, StepCtx, StepFactory};

/// Keeps some columns; moves references, never values.
pub(super) struct Narrow {
    columns: Arc<[usize]>,
    schema: SchemaRef,
}

impl Narrow {
    /// From `made` to `wanted`, whose columns are a part of it; `None` if they are the same already.
    ///
    /// # Errors
    /// `Internal` if a column is missing or of another type: the passes before disagree.
    pub(super) fn between(made: &SchemaRef, wanted: &SchemaRef) -> Result<Option<Narrow>> {
        if made.fields() == wanted.fields() {
            return Ok(None);
        }
        let mut columns = Vec::with_capacity(wanted.fields().len());
        for field in wanted.fields() {
            let Some((index, found)) = made.column_with_name(field.name()) else {
                return Err(Error::internal(format!("column `{}` is read but was not made", field.name())));
            };
            if found.data_type() != field.data_type() {
                let (planned, found) = (field.data_type(), found.data_type());
                return Err(Error::internal(format!("column `{}` was planned as `{planned}` and is `{found}`", field.name())));
            }
            columns.push(index);
        }
        Ok(Some(Narrow { columns: columns.into(), schema: Arc::clone(wanted) }))
    }
}

impl StepFactory for Narrow {
    fn name(&self) -> &str {
        "narrow"
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn open(&self, _: StepCtx) -> Result<Box<dyn Step>> {
        Ok(Box::new(Narrowing { columns: Arc::clone(&self.columns), schema: Arc::clone(&self.schema) }))
    }
}

struct Narrowing {
    columns: Arc<[usize]>,
    schema: SchemaRef,
}

impl Step for Narrowing {
    fn apply(&mut self, batch: RecordBatch, _: EventTime, out: &mut Output) -> Result<()> {
        let columns = self.columns.iter().map(|index| Arc::clone(batch.column(*index))).collect();
        // The count is said because a plan may need no column at all, only rows.
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        out.emit(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
        Ok(())
    }
}

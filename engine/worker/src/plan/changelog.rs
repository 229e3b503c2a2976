//! The planner's own step: an upsert stream becomes plain rows that say in a visible column what changed.

use super::sinks::CHANGE_COLUMN;
use arrow::array::{ArrayRef, AsArray, RecordBatch, StringViewArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt8Type};
use std::sync::Arc;
use tidegate_api::{Error, EventTime, Output, Result, Step, StepCtx, StepFactory, hidden};

/// Replaces the hidden `_op` by a visible `op` behind the other visible columns.
pub(super) struct Changelog {
    change: usize,
    /// The input's columns in the output's order; the visible ones come before `op`.
    visible: Arc<[usize]>,
    hidden: Arc<[usize]>,
    schema: SchemaRef,
}

impl Changelog {
    /// For an upsert stream of this schema.
    ///
    /// # Errors
    /// `Internal` if it carries no `_op`.
    pub(super) fn new(input: &SchemaRef) -> Result<Changelog> {
        let fields = input.fields();
        let change = input.index_of(hidden::OP).map_err(|_| Error::internal("an upsert stream carries no `_op`"))?;
        let visible: Vec<usize> = (0..fields.len()).filter(|at| !hidden::is_hidden(fields[*at].name())).collect();
        let kept: Vec<usize> = (0..fields.len()).filter(|at| hidden::is_hidden(fields[*at].name()) && *at != change).collect();
        let field = |at: &usize| Arc::clone(&fields[*at]);
        let added = Arc::new(Field::new(CHANGE_COLUMN, DataType::Utf8View, false));
        let all: Vec<_> = visible.iter().map(field).chain([added]).chain(kept.iter().map(field)).collect();
        let schema = Arc::new(Schema::new_with_metadata(all, input.metadata().clone()));
        Ok(Changelog { change, visible: visible.into(), hidden: kept.into(), schema })
    }
}

impl StepFactory for Changelog {
    fn name(&self) -> &str {
        "changelog"
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn open(&self, _: StepCtx) -> Result<Box<dyn Step>> {
        Ok(Box::new(Telling {
            change: self.change,
            visible: Arc::clone(&self.visible),
            hidden: Arc::clone(&self.hidden),
            schema: Arc::clone(&self.schema),
        }))
    }
}

struct Telling {
    change: usize,
    visible: Arc<[usize]>,
    hidden: Arc<[usize]>,
    schema: SchemaRef,
}

impl Step for Telling {
    fn apply(&mut self, batch: RecordBatch, _: EventTime, out: &mut Output) -> Result<()> {
        let changes = batch.column(self.change).as_primitive_opt::<UInt8Type>();
        let changes = changes.ok_or_else(|| Error::internal("`_op` is not a uint8 column"))?;
        let words = changes.values().iter().map(|change| if *change == hidden::DELETE { "delete" } else { "upsert" });
        let op: ArrayRef = Arc::new(StringViewArray::from_iter_values(words));
        let column = |at: &usize| Arc::clone(batch.column(*at));
        let columns = self.visible.iter().map(column).chain([op]).chain(self.hidden.iter().map(column)).collect();
        out.emit(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BinaryArray, Int64Array, UInt8Array};
    use tidegate_api::{Generation, RunId, RunIdentity};

    #[test]
    fn a_change_becomes_a_word_and_keys_stay_hidden_behind_it() {
        let fields = vec![Field::new("n", DataType::Int64, false), hidden::op_field(), hidden::key_field()];
        let schema = Arc::new(Schema::new(fields));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![1, 2])),
            Arc::new(UInt8Array::from(vec![hidden::UPSERT, hidden::DELETE])),
            Arc::new(BinaryArray::from_vec(vec![b"a", b"b"])),
        ];
        let factory = Changelog::new(&schema).unwrap();
        let run = RunIdentity::new("p", RunId::new("r"), Generation(1), "s");
        let mut out = Output::default();
        let batch = RecordBatch::try_new(schema, columns).unwrap();
        factory.open(StepCtx::new(run, 0, 1)).unwrap().apply(batch, EventTime(0), &mut out).unwrap();
        let made = &out.batches[0];
        assert_eq!(made.schema(), factory.output_schema());
        let names: Vec<_> = made.schema_ref().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["n", "op", "_key"]);
        assert_eq!(made.column(1).as_string_view().iter().flatten().collect::<Vec<_>>(), ["upsert", "delete"]);
    }
}

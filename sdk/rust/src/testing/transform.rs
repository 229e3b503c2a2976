//! The host's part of a transform: projects what crosses, carries the rest, filters, puts the step's output together.

use crate::transform::OpenTransform;
use crate::{Result, RowError, Shape, Transform, TransformGuest, TransformPlan, ipc};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::{FieldRef, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use std::sync::Arc;

/// What a step gives for one batch.
#[derive(Debug, Clone, PartialEq)]
pub struct StepOutput {
    /// The rows, carried columns included, without bad rows and filtered ones.
    pub rows: RecordBatch,
    /// The bad rows.
    pub bad: Vec<RowError>,
}

/// Where a column of the step's output comes from.
enum Origin {
    Carried(usize),
    Made(usize),
}

/// One opened transform and the host around it.
pub struct TransformHarness<T> {
    input: SchemaRef,
    crossing: Vec<usize>,
    crossed: ipc::Encoder,
    made: SchemaRef,
    shape: Shape,
    output: SchemaRef,
    origins: Vec<Origin>,
    transform: OpenTransform<T>,
}

impl<T: Transform> TransformHarness<T> {
    /// Binds and opens the transform for rows of `input` under a configuration (JSON).
    ///
    /// # Errors
    /// What `bind` or `open` answered.
    ///
    /// # Panics
    /// When the plan breaks the border's rules.
    pub fn open(config: &str, input: SchemaRef) -> Result<Self> {
        let plan = TransformGuest::<T>::bind_plan(config, &input)?;
        let declared = ipc::encode_schema(&plan.output)?;
        assert_eq!(ipc::decode_schema(&declared)?, plan.output, "the output schema changes when it crosses");
        let crossing = chosen(plan.reads.as_deref(), &input);
        let read = Arc::new(input.project(&crossing)?);
        let (output, origins) = lay_out(&plan, &input);
        let transform = OpenTransform::open(&super::scope(config), &ipc::encode_schema(&read)?)?;
        let crossed = ipc::Encoder::new(read)?;
        Ok(TransformHarness { input, crossing, crossed, made: Arc::new(plan.output), shape: plan.shape, output, origins, transform })
    }

    /// The schema of the step's output.
    pub fn output(&self) -> &SchemaRef {
        &self.output
    }

    /// The names of the columns that cross into the transform.
    pub fn reads(&self) -> Vec<&str> {
        self.crossing.iter().map(|index| self.input.field(*index).name().as_str()).collect()
    }

    /// Runs one batch.
    ///
    /// # Errors
    /// What `process` answered.
    ///
    /// # Panics
    /// When the answer breaks the border's rules.
    pub fn run(&mut self, batch: &RecordBatch) -> Result<StepOutput> {
        let crossing = self.crossed.encode(&batch.project(&self.crossing)?)?;
        let processed = self.transform.process(crossing)?;
        let mut parts = Vec::new();
        for message in processed.rows {
            parts.push(ipc::decode(message, &self.made)?);
        }
        let made = concat_batches(&self.made, &parts)?;
        let bad = processed.bad;
        assert!(bad.windows(2).all(|pair| pair[0].row < pair[1].row), "bad rows are not in order or named twice: {bad:?}");
        assert!(bad.iter().all(|error| error.row < batch.num_rows() as u64), "a bad row is out of bounds: {bad:?}");
        let rows = self.put_together(batch, &made);
        let keep = match self.shape {
            Shape::Free => return Ok(StepOutput { rows, bad }),
            Shape::Rowwise => None,
            Shape::RowwiseFilter => Some(made.column(0).as_boolean().clone()),
        };
        let mut mask = BooleanBufferBuilder::new(batch.num_rows());
        mask.append_n(batch.num_rows(), true);
        if let Some(keep) = keep {
            assert_eq!(arrow_array::Array::null_count(&keep), 0, "the keep-mask has nulls");
            (0..batch.num_rows()).for_each(|row| mask.set_bit(row, keep.value(row)));
        }
        bad.iter().for_each(|error| mask.set_bit(error.row as usize, false));
        Ok(StepOutput { rows: filter_record_batch(&rows, &BooleanArray::new(mask.finish(), None))?, bad })
    }

    /// Runs the batch cut into pieces of `rows` rows and puts the pieces together; bad rows are counted from the batch's beginning. Equal to
    /// [`TransformHarness::run`] for every honest transform.
    ///
    /// # Errors
    /// What `process` answered.
    pub fn run_in_cuts(&mut self, batch: &RecordBatch, rows: usize) -> Result<StepOutput> {
        let mut parts = Vec::new();
        let mut bad = Vec::new();
        for start in (0..batch.num_rows()).step_by(rows.max(1)) {
            let piece = self.run(&batch.slice(start, rows.min(batch.num_rows() - start)))?;
            parts.push(piece.rows);
            bad.extend(piece.bad.into_iter().map(|error| RowError { row: error.row + start as u64, ..error }));
        }
        Ok(StepOutput { rows: concat_batches(&self.output, &parts)?, bad })
    }

    fn put_together(&self, batch: &RecordBatch, made: &RecordBatch) -> RecordBatch {
        if !matches!(self.shape, Shape::Free) {
            assert_eq!(made.num_rows(), batch.num_rows(), "a row-wise transform made another number of rows than it got");
        }
        let columns: Vec<ArrayRef> = self
            .origins
            .iter()
            .map(|origin| match origin {
                Origin::Carried(index) => Arc::clone(batch.column(*index)),
                Origin::Made(index) => Arc::clone(made.column(*index)),
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(made.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.output), columns, &options).expect("the columns are those laid out")
    }
}

fn chosen(indices: Option<&[u32]>, input: &Schema) -> Vec<usize> {
    match indices {
        None => (0..input.fields().len()).collect(),
        Some(indices) => {
            let chosen: Vec<usize> = indices.iter().map(|index| *index as usize).collect();
            for (at, index) in chosen.iter().enumerate() {
                assert!(*index < input.fields().len(), "the plan names column {index} of {}", input.fields().len());
                assert!(!chosen[..at].contains(index), "the plan names column {index} twice");
            }
            chosen
        }
    }
}

/// The step's output: see `transform.plan` in `wit/`.
fn lay_out(plan: &TransformPlan, input: &Schema) -> (SchemaRef, Vec<Origin>) {
    let hidden = usize::from(matches!(plan.shape, Shape::RowwiseFilter));
    let made: Vec<(usize, &FieldRef)> = plan.output.fields().iter().enumerate().skip(hidden).collect();
    let mut columns: Vec<(FieldRef, Origin)> = Vec::new();
    if !matches!(plan.shape, Shape::Free) {
        let carried = plan.carry.is_some().then(|| chosen(plan.carry.as_deref(), input));
        for (index, field) in input.fields().iter().enumerate() {
            let replaced = made.iter().find(|(_, output)| output.name() == field.name());
            let named = carried.as_ref().is_some_and(|carried| carried.contains(&index));
            match replaced {
                Some((_, output)) if named => panic!("column `{}` is carried and made", output.name()),
                Some((at, output)) => columns.push((Arc::clone(output), Origin::Made(*at))),
                None if named || carried.is_none() => columns.push((Arc::clone(field), Origin::Carried(index))),
                None => {}
            }
        }
    }
    for (at, output) in made {
        match columns.iter().find(|(field, _)| field.name() == output.name()) {
            Some((_, Origin::Made(other))) if *other == at => {}
            Some(_) => panic!("column `{}` is made twice", output.name()),
            None => columns.push((Arc::clone(output), Origin::Made(at))),
        }
    }
    let (fields, origins): (Vec<FieldRef>, Vec<Origin>) = columns.into_iter().unzip();
    (Arc::new(Schema::new(fields)), origins)
}

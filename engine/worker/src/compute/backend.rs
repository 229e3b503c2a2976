//! What runs a transform of the registry, seen from its step.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::datatypes::{Schema, SchemaRef};
use std::sync::Arc;
use tidegate_api::{BadReason, EventTime, Result, StepCtx, types};
use tidegate_host::Shape;

/// A transform bound to its declared columns.
pub(super) trait Backend: Send + Sync {
    /// How rows relate.
    fn shape(&self) -> Shape;

    /// Opens what one task calls; called on the task's thread before the first batch.
    fn open(&self, ctx: &StepCtx) -> Result<Box<dyn Process>>;
}

/// One opened transform, used by one task.
pub(super) trait Process: Send {
    /// Transforms typed rows, at least one.
    fn process(&mut self, typed: RecordBatch, now: EventTime) -> Result<Made>;
}

/// What became of some rows.
pub(super) struct Made {
    pub(super) parts: Vec<Part>,
    pub(super) bad: Vec<Refused>,
    /// Rows left out on purpose.
    pub(super) filtered: u64,
}

/// Rows under the declared output, in order.
pub(super) struct Part {
    pub(super) rows: RecordBatch,
    /// The typed rows they belong to, in order. None: all of them, one by one, or nothing that can be said.
    pub(super) from: Option<UInt32Array>,
}

/// A row that the transform refused.
pub(super) struct Refused {
    /// Its index among the typed rows.
    pub(super) row: usize,
    pub(super) reason: BadReason,
    pub(super) column: Option<String>,
    pub(super) message: String,
}

/// Where each declared column stands in what a transform makes, or every difference between the two, in words. Only names and types
/// are compared: whether nulls come is seen in the rows.
pub(super) fn compare(declared: &Schema, made: &Schema, carried: &[String]) -> Result<Vec<usize>, Vec<String>> {
    let mut places = Vec::with_capacity(declared.fields().len());
    let mut differences = Vec::new();
    for field in declared.fields() {
        match made.index_of(field.name()) {
            Err(_) => differences.push(format!("the column `{}` is declared and not made", field.name())),
            Ok(index) => {
                let (wanted, is) = (types::name(field.data_type()), types::name(made.field(index).data_type()));
                if wanted != is {
                    differences.push(format!("the column `{}` is declared as `{wanted}` and made as `{is}`", field.name()));
                }
                places.push(index);
            }
        }
    }
    for field in made.fields() {
        if declared.index_of(field.name()).is_err() && !carried.contains(field.name()) {
            differences.push(format!("the column `{}` is made and not declared", field.name()));
        }
    }
    if differences.is_empty() { Ok(places) } else { Err(differences) }
}

/// Rows in exactly the declared columns.
///
/// # Errors
/// A null where none is declared, in words.
pub(super) fn conform(declared: &SchemaRef, made: &RecordBatch, places: &[usize]) -> Result<RecordBatch, String> {
    let columns = places.iter().zip(declared.fields()).map(|(place, field)| {
        let column = made.column(*place);
        if column.data_type() == field.data_type() { Ok(Arc::clone(column)) } else { arrow::compute::cast(column, field.data_type()) }
    });
    let columns = columns.collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let nulls = columns.iter().zip(declared.fields()).find(|(column, field)| !field.is_nullable() && column.logical_null_count() > 0);
    if let Some((_, field)) = nulls {
        return Err(format!("the column `{}` has nulls and is declared without", field.name()));
    }
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(made.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(declared), columns, &options).map_err(|error| error.to_string())
}

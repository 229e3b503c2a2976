//! A component of the registry: bound to its declared input alone, so that it neither sees nor carries anything else.

use super::Plugins;
use super::backend::{Backend, Made, Part, Process, Refused, compare, conform};
use super::registry::TransformManifest;
use arrow::array::cast::AsArray;
use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};
use serde_json::{Map, Value};
use std::sync::Arc;
use tidegate_api::config::{Problem, problems_of};
use tidegate_api::{Error, EventTime, Output, Result, Step, StepCtx, hidden};
use tidegate_host::{Shape, Transform};

/// Carries the number of each row. The host carries hidden columns beside a guest without showing them, and the stream's own are not
/// among the columns that a component of the registry is bound to, so any of these names is free.
const NUMBER: &str = hidden::PROMISED;

/// A component bound to its declared columns.
pub(super) struct WasmBackend {
    manifest: Arc<TransformManifest>,
    transform: Transform,
    /// The input it was bound to: the declared columns and, unless rows are free, their numbers.
    input: SchemaRef,
    /// Where the declared output stands in what it makes and carries.
    places: Vec<usize>,
}

impl WasmBackend {
    /// Loads and binds it.
    ///
    /// # Errors
    /// What is wrong with its file, what it says of its configuration, and every difference from the declared output.
    pub(super) fn bind(plugins: &Plugins, manifest: &Arc<TransformManifest>, config: &Map<String, Value>) -> Result<Self, Vec<Problem>> {
        let at_ref = |error: Error| problems_of(&error).into_iter().map(|problem| problem.under(["ref"])).collect::<Vec<_>>();
        let config = Value::Object(config.clone());
        let plugin = plugins.transform(manifest).map_err(at_ref)?;
        let mut input = Arc::clone(&manifest.inputs);
        let mut transform = plugin.transform(&config, Arc::clone(&input)).map_err(at_ref)?;
        if let Some(said) = manifest.shape.filter(|said| *said != transform.shape) {
            let message =
                format!("`{manifest}` is declared with the shape `{}` and its component has `{}`", word(said), word(transform.shape));
            return Err(vec![Problem::at("ref", message)]);
        }
        if transform.rowwise {
            let fields: Vec<FieldRef> =
                input.fields().iter().cloned().chain([Arc::new(Field::new(NUMBER, DataType::Int64, false))]).collect();
            input = Arc::new(Schema::new(fields));
            transform = plugin.transform(&config, Arc::clone(&input)).map_err(at_ref)?;
        }
        let made = hidden::visible_schema(&transform.output);
        let places = compare(&manifest.output, &made, &transform.carries).map_err(|differences| {
            let problem = |difference| Problem::at("ref", format!("`{manifest}` does not make what its manifest declares: {difference}"));
            differences.into_iter().map(problem).collect::<Vec<_>>()
        })?;
        Ok(WasmBackend { manifest: Arc::clone(manifest), transform, input, places })
    }
}

/// A shape as manifests write it.
pub(super) fn word(shape: Shape) -> &'static str {
    match shape {
        Shape::Rowwise => "rowwise",
        Shape::RowwiseFilter => "rowwise-filter",
        Shape::Free => "free",
    }
}

impl Backend for WasmBackend {
    fn shape(&self) -> Shape {
        self.transform.shape
    }

    fn open(&self, ctx: &StepCtx) -> Result<Box<dyn Process>> {
        Ok(Box::new(Running {
            step: self.transform.factory.open(ctx.clone())?,
            declared: Arc::clone(&self.manifest.output),
            input: Arc::clone(&self.input),
            places: self.places.clone(),
            numbered: self.transform.rowwise,
            prefix: format!("plugin `{}`: ", self.manifest),
        }))
    }
}

struct Running {
    step: Box<dyn Step>,
    declared: SchemaRef,
    input: SchemaRef,
    places: Vec<usize>,
    numbered: bool,
    /// What the host puts before a guest's words; the step around it names the transform itself.
    prefix: String,
}

impl Process for Running {
    fn process(&mut self, typed: RecordBatch, now: EventTime) -> Result<Made> {
        let rows = typed.num_rows();
        let mut columns: Vec<ArrayRef> = typed.columns().to_vec();
        if self.numbered {
            columns.push(Arc::new(Int64Array::from_iter_values(0..rows as i64)));
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let input = RecordBatch::try_new_with_options(Arc::clone(&self.input), columns, &options)?;
        let mut out = Output::default();
        self.step.apply(input, now, &mut out)?;
        let mut parts = Vec::with_capacity(out.batches.len());
        for made in out.batches {
            let from = self.numbered.then(|| numbers(&made, rows)).transpose()?;
            let rows = conform(&self.declared, &made, &self.places);
            let rows = rows.map_err(|what| Error::config(format!("it does not make what its manifest declares: {what}")))?;
            parts.push(Part { rows, from });
        }
        let refused = out.bad.into_iter().map(|bad| match bad.row {
            Some(row) if row < rows => {
                let message = bad.message.strip_prefix(&self.prefix).unwrap_or(&bad.message).to_string();
                Ok(Refused { row, reason: bad.reason, column: bad.column, message })
            }
            Some(_) | None => Err(Error::internal("a bad row of a component has no place in its batch")),
        });
        Ok(Made { parts, bad: refused.collect::<Result<_>>()?, filtered: out.filtered })
    }
}

/// The numbers that came back beside what was made.
fn numbers(made: &RecordBatch, rows: usize) -> Result<UInt32Array> {
    let column = made.column_by_name(NUMBER).and_then(|column| column.as_primitive_opt::<Int64Type>());
    let column = column.filter(|column| column.null_count() == 0 && column.values().iter().all(|row| (0..rows as i64).contains(row)));
    let column = column.ok_or_else(|| Error::internal("the numbers of a component's rows are lost"))?;
    Ok(column.values().iter().map(|row| *row as u32).collect())
}

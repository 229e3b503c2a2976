//! Transforms: stateless, deterministic steps over record batches.

use crate::bindings::transform::exports::tidegate::plugin::transform as wit;
use crate::bindings::types;
use crate::{Error, Info, Result, RowError, Scope, Shape, hint, ipc, parse_config};
use arrow_array::RecordBatch;
use arrow_schema::{Schema, SchemaRef};
use serde::de::DeserializeOwned;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;

/// A stateless step. Nothing may be kept from batch to batch that changes what rows become: any cut of the same rows into batches gives
/// the same output, and a batch may come again, whole or in parts.
pub trait Transform: Sized + 'static {
    /// The configuration, read from the pipeline file's `config` table.
    type Config: DeserializeOwned;

    /// What the plugin is. Constant.
    fn info() -> Info;

    /// Answers what it would do to rows of `input`. Pure: called while planning, any number of times and with different inputs.
    ///
    /// # Errors
    /// `Config` when it cannot work on such rows, naming the column or key.
    fn bind(config: &Self::Config, input: &Schema) -> Result<TransformPlan>;

    /// Opens it for one task. `input` has the columns of the plan's `reads`, in that order.
    ///
    /// # Errors
    /// Any; a `Config` error ends the run.
    fn open(config: Self::Config, scope: &Scope, input: &SchemaRef) -> Result<Self>;

    /// Transforms one batch. A row that cannot be processed is reported in [`Processed::bad`] and costs only itself.
    ///
    /// # Errors
    /// `Fatal` when this instance cannot go on. There is nothing a transform could wait for.
    fn process(&mut self, rows: &RecordBatch) -> Result<Processed>;
}

/// What a transform does to rows of one schema: what crosses, what the host carries beside, and what comes back.
///
/// The step's output is the input's columns in their order, one that has the name of an output column replaced by it; output columns with new
/// names follow. With [`TransformPlan::free`] it is what the transform makes and nothing else.
#[derive(Debug, Clone)]
pub struct TransformPlan {
    pub(crate) reads: Option<Vec<u32>>,
    pub(crate) carry: Option<Vec<u32>>,
    pub(crate) output: Schema,
    pub(crate) shape: Shape,
}

impl TransformPlan {
    /// Output row i belongs to input row i, and there are as many.
    pub fn rowwise(output: Schema) -> Self {
        TransformPlan { reads: None, carry: None, output, shape: Shape::Rowwise }
    }

    /// As [`TransformPlan::rowwise`], and the first output column, boolean without nulls, says which rows stay. It is not part of the output.
    pub fn filter(output: Schema) -> Self {
        TransformPlan { reads: None, carry: None, output, shape: Shape::RowwiseFilter }
    }

    /// Any number of rows in any order; nothing is carried.
    pub fn free(output: Schema) -> Self {
        TransformPlan { reads: None, carry: None, output, shape: Shape::Free }
    }

    /// Names the columns that cross, in the order in which [`Transform::process`] gets them. Without this all do.
    ///
    /// # Errors
    /// `Config` when the input has no such column, naming the nearest.
    pub fn reading<'a>(mut self, input: &Schema, columns: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        self.reads = Some(indices(input, columns)?);
        Ok(self)
    }

    /// Names the columns that the host carries beside. Without this it carries every one that no output column replaces.
    ///
    /// # Errors
    /// `Config` when the input has no such column, naming the nearest.
    pub fn carrying<'a>(mut self, input: &Schema, columns: impl IntoIterator<Item = &'a str>) -> Result<Self> {
        self.carry = Some(indices(input, columns)?);
        Ok(self)
    }
}

fn indices<'a>(input: &Schema, columns: impl IntoIterator<Item = &'a str>) -> Result<Vec<u32>> {
    columns.into_iter().map(|name| Ok(column_index(input, name)? as u32)).collect()
}

/// The index of a column, or a `config` error that names the nearest.
pub(crate) fn column_index(input: &Schema, name: &str) -> Result<usize> {
    input.fields().iter().position(|field| field.name() == name).ok_or_else(|| {
        let near = hint(name, input.fields().iter().map(|field| field.name().as_str()));
        Error::config(format!("the input has no column `{name}`{near}"))
    })
}

/// The answer for one batch.
#[derive(Debug, Clone, Default)]
pub struct Processed {
    /// The rows made, as one batch or cut into several, with the columns of the plan's output.
    pub rows: Vec<RecordBatch>,
    /// Input rows that could not be processed, each once, in order of their index.
    pub bad: Vec<RowError>,
}

impl From<RecordBatch> for Processed {
    fn from(rows: RecordBatch) -> Self {
        Processed { rows: vec![rows], bad: Vec::new() }
    }
}

/// The component's export of a [`Transform`]; made by [`export_transform!`](crate::export_transform).
pub struct TransformGuest<T>(PhantomData<T>);

/// One opened transform and its schemas.
pub struct OpenTransform<T> {
    input: SchemaRef,
    state: RefCell<(T, ipc::Encoder)>,
}

impl<T: Transform> TransformGuest<T> {
    pub(crate) fn bind_plan(config: &str, input: &Schema) -> Result<TransformPlan> {
        T::bind(&parse_config(config)?, input)
    }
}

impl<T: Transform> OpenTransform<T> {
    /// `output` is declared by `bind` for the whole input; of the columns read alone the guest cannot tell it, so the first batch does.
    pub(crate) fn open(scope: &Scope, input: &[u8]) -> Result<Self> {
        let input = Arc::new(ipc::decode_schema(input)?);
        let transform = T::open(parse_config(&scope.config)?, scope, &input)?;
        let encoder = ipc::Encoder::new(Arc::new(Schema::empty()))?;
        Ok(OpenTransform { input, state: RefCell::new((transform, encoder)) })
    }

    pub(crate) fn process(&self, rows: Vec<u8>) -> Result<wit::Processed> {
        let rows = ipc::decode_from_host(rows, &self.input)?;
        let mut state = self.state.borrow_mut();
        let (transform, encoder) = &mut *state;
        let processed = transform.process(&rows)?;
        let mut messages = Vec::with_capacity(processed.rows.len());
        for made in &processed.rows {
            if made.schema_ref() != encoder.schema() {
                *encoder = ipc::Encoder::new(made.schema())?;
            }
            messages.push(encoder.encode(made)?);
        }
        Ok(wit::Processed { rows: messages, bad: processed.bad, extra: String::new() })
    }
}

impl<T: Transform> wit::Guest for TransformGuest<T> {
    type Processor = OpenTransform<T>;

    fn describe() -> types::PluginInfo {
        crate::panic::install();
        T::info().into()
    }

    fn bind(config: String, input: types::Schema) -> Result<wit::Plan, types::Error> {
        crate::panic::install();
        let plan = ipc::decode_schema(&input).and_then(|input| Self::bind_plan(&config, &input))?;
        Ok(wit::Plan {
            reads: plan.reads,
            carry: plan.carry,
            output: ipc::encode_schema(&plan.output)?,
            shape: plan.shape,
            extra: String::new(),
        })
    }
}

impl<T: Transform> wit::GuestProcessor for OpenTransform<T> {
    fn open(scope: Scope, input: types::Schema) -> Result<wit::Processor, types::Error> {
        crate::panic::install();
        Ok(wit::Processor::new(OpenTransform::<T>::open(&scope, &input)?))
    }

    fn process(&self, input: types::Batch) -> Result<wit::Processed, types::Error> {
        Ok(OpenTransform::process(self, input)?)
    }
}

/// Makes a [`Transform`] the component's export: `export_transform!(MyType);`, once per crate.
#[macro_export]
macro_rules! export_transform {
    ($transform:ty) => {
        type TidegateTransformGuest = $crate::TransformGuest<$transform>;
        $crate::bindings::transform::export_transform_bindings!(TidegateTransformGuest with_types_in $crate::bindings::transform);
    };
}

//! A component as a stateless step.
//!
//! Planning asks a throw-away instance what it would do ([`Transform::bind`]); each task then has an instance of its own. Only the
//! columns that the guest reads cross the border and only those it makes cross back; everything else is carried here.

mod border;
mod conviction;
mod layout;
mod recovery;
mod step;

use crate::bindings::types;
use crate::fault::broken;
use crate::instance::TransformInstance;
use crate::ipc::Decoder;
use crate::plugin::Plugin;
use arrow::datatypes::SchemaRef;
use border::{Border, Columns, Ipc, Plan};
use layout::Layout;
use serde_json::{Map, Value};
use std::marker::PhantomData;
use std::sync::Arc;
use tidegate_api::{Result, ResultExt, Step, StepCtx, StepFactory, hidden};

/// How a transform's output rows relate to its input rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One to one.
    Rowwise,
    /// One to one, and some are dropped.
    RowwiseFilter,
    /// Any rows; nothing is carried.
    Free,
}

impl From<types::Shape> for Shape {
    fn from(shape: types::Shape) -> Self {
        match shape {
            types::Shape::Rowwise => Shape::Rowwise,
            types::Shape::RowwiseFilter => Shape::RowwiseFilter,
            types::Shape::Free => Shape::Free,
        }
    }
}

/// A transform bound to its input.
#[derive(Clone)]
#[non_exhaustive]
pub struct Transform {
    /// Makes the step of each task.
    pub factory: Arc<dyn StepFactory>,
    /// The input columns that cross the border.
    pub reads: Vec<String>,
    /// The visible input columns that are carried beside it.
    pub carries: Vec<String>,
    /// The columns that the guest makes, without the keep-mask.
    pub makes: Vec<String>,
    /// The schema of the step's rows, hidden columns included.
    pub output: SchemaRef,
    /// How rows relate.
    pub shape: Shape,
    /// Whether each output row belongs to an input row, so that hidden columns and keys survive.
    pub rowwise: bool,
}

impl Transform {
    pub(crate) fn bind(plugin: &Arc<Plugin>, config: Map<String, Value>, input: &SchemaRef) -> Result<Transform> {
        if plugin.takes_columns() {
            Transform::bind_over::<Columns>(plugin, config, input)
        } else {
            Transform::bind_over::<Ipc>(plugin, config, input)
        }
    }

    fn bind_over<B: Border>(plugin: &Arc<Plugin>, config: Map<String, Value>, input: &SchemaRef) -> Result<Transform> {
        let config = Value::Object(config).to_string();
        let mut instance = TransformInstance::new(plugin, "plan", 0, B::guest)?;
        let plan = B::bind(plugin, &mut instance, &config, &hidden::visible_schema(input));
        let bound = Bound::read(plugin, plan?, input)?;
        let names = |columns: &[usize]| columns.iter().map(|column| input.field(*column).name().clone()).collect::<Vec<_>>();
        let carried: Vec<usize> = bound.layout.carried().filter(|column| !hidden::is_hidden(input.field(*column).name())).collect();
        let made = bound.decoder.schema().fields().iter().skip(bound.layout.masks());
        Ok(Transform {
            reads: names(&bound.reads),
            carries: names(&carried),
            makes: made.map(|field| field.name().clone()).collect(),
            output: Arc::clone(bound.layout.output()),
            shape: bound.layout.shape(),
            rowwise: match bound.layout.shape() {
                Shape::Rowwise | Shape::RowwiseFilter => true,
                Shape::Free => false,
            },
            factory: Arc::new(Factory::<B> { plugin: Arc::clone(plugin), config, input: Arc::clone(input), bound, border: PhantomData }),
        })
    }
}

/// A guest's plan, checked against the input.
#[derive(Clone)]
struct Bound {
    /// Columns of the input that cross. The guest's indices are of the visible columns, which come first.
    reads: Vec<usize>,
    decoder: Decoder,
    layout: Layout,
}

impl Bound {
    fn read(plugin: &Plugin, plan: Plan, input: &SchemaRef) -> Result<Bound> {
        let wrong = |what: String| broken(plugin.name(), "bind", what);
        let declared = plan.output.map_err(|error| wrong(format!("the schema of its output is unusable: {error}")))?;
        let visible = hidden::visible_schema(input).fields().len();
        let reads = layout::indices("reads", plan.reads.as_deref(), visible).map_err(wrong)?;
        let carry = layout::indices("carry", plan.carry.as_deref(), visible).map_err(wrong)?;
        let decoder = Decoder::new(declared);
        let layout = Layout::new(plan.shape, carry.as_deref(), input, decoder.schema())
            .context(|| "call `bind`".to_string())
            .context(|| format!("plugin `{}`", plugin.name()))?;
        Ok(Bound { reads: reads.unwrap_or_else(|| (0..visible).collect()), decoder, layout })
    }
}

struct Factory<B> {
    plugin: Arc<Plugin>,
    config: String,
    input: SchemaRef,
    bound: Bound,
    border: PhantomData<fn() -> B>,
}

impl<B: Border> StepFactory for Factory<B> {
    fn name(&self) -> &str {
        "wasm"
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(self.bound.layout.output())
    }

    fn open(&self, ctx: StepCtx) -> Result<Box<dyn Step>> {
        let step = step::TransformStep::<B>::open(Arc::clone(&self.plugin), &self.config, &self.input, self.bound.clone(), &ctx)?;
        Ok(Box::new(step))
    }
}

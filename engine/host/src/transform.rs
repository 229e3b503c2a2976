//! A component as a stateless step.
//!
//! Planning asks a throw-away instance what it would do ([`Transform::bind`]); each task then has an instance of its own. Only the
//! columns that the guest reads cross the border and only those it makes cross back; everything else is carried here.

mod conviction;
mod layout;
mod recovery;
mod step;

use crate::bindings::transform::exports::tidegate::plugin::transform::Plan;
use crate::bindings::types;
use crate::fault::{Failure, broken};
use crate::instance::TransformInstance;
use crate::ipc::{Decoder, Encoder, decode_schema};
use crate::plugin::Plugin;
use arrow::datatypes::{Schema, SchemaRef};
use layout::Layout;
use serde_json::{Map, Value};
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
        let config = Value::Object(config).to_string();
        let visible = hidden::visible_schema(input);
        let whole = Encoder::new(&visible, (0..visible.fields().len()).collect());
        let whole = whole.context(|| format!("plugin `{}`", plugin.name()))?;
        let mut instance = TransformInstance::new(plugin, "plan", 0)?;
        let answer =
            instance.call("bind", |store, guest| guest.tidegate_plugin_transform().call_bind(store, &config, whole.schema_message()));
        let bound = Bound::read(plugin, answer.map_err(Failure::into_error)?, input)?;
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
            factory: Arc::new(Factory { plugin: Arc::clone(plugin), config, input: Arc::clone(input), bound }),
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
        let declared: Schema =
            decode_schema(&plan.output).map_err(|error| wrong(format!("the schema of its output is unusable: {error}")))?;
        let visible = hidden::visible_schema(input).fields().len();
        let reads = layout::indices("reads", plan.reads.as_deref(), visible).map_err(wrong)?;
        let carry = layout::indices("carry", plan.carry.as_deref(), visible).map_err(wrong)?;
        let decoder = Decoder::new(declared);
        let layout = Layout::new(plan.shape.into(), carry.as_deref(), input, decoder.schema())
            .context(|| "call `bind`".to_string())
            .context(|| format!("plugin `{}`", plugin.name()))?;
        Ok(Bound { reads: reads.unwrap_or_else(|| (0..visible).collect()), decoder, layout })
    }
}

struct Factory {
    plugin: Arc<Plugin>,
    config: String,
    input: SchemaRef,
    bound: Bound,
}

impl StepFactory for Factory {
    fn name(&self) -> &str {
        "wasm"
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(self.bound.layout.output())
    }

    fn open(&self, ctx: StepCtx) -> Result<Box<dyn Step>> {
        let step = step::TransformStep::open(Arc::clone(&self.plugin), &self.config, &self.input, self.bound.clone(), &ctx)?;
        Ok(Box::new(step))
    }
}

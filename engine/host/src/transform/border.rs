//! The two ways in which a transform's rows cross: Arrow IPC, and raw columns. All else about a transform is the same.

use super::Shape;
use crate::bindings::{columns, transform, types};
use crate::columns::{ColumnsEncoder, declared, decode_columns, offered};
use crate::fault::{Failure, broken};
use crate::instance::TransformInstance;
use crate::ipc::{Decoder, Encoder, decode_schema};
use crate::plugin::Plugin;
use crate::state::State;
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use tidegate_api::{Result, ResultExt};
use wasmtime::Store;
use wasmtime::component::{Instance, ResourceAny};

/// A guest's plan, its schema read but nothing compared with the input yet.
pub(super) struct Plan {
    pub(super) reads: Option<Vec<u32>>,
    pub(super) carry: Option<Vec<u32>>,
    pub(super) output: Result<Schema, String>,
    pub(super) shape: Shape,
}

/// A guest's answer for some rows. What it made is checked by itself already, not yet against the rows that were handed over.
pub(super) struct Made {
    pub(super) rows: Vec<RecordBatch>,
    pub(super) bad: Vec<types::RowError>,
}

/// One way across.
pub(super) trait Border: Sized + Send + 'static {
    /// The guest's exports.
    type Guest: Send;

    /// Finds the exports.
    fn guest(store: &mut Store<State>, instance: &Instance) -> wasmtime::Result<Self::Guest>;

    /// Asks the guest what it would do to rows of `input`.
    fn bind(plugin: &Plugin, instance: &mut TransformInstance<Self::Guest>, config: &str, input: &Schema) -> Result<Plan>;

    /// For tasks: hands over these columns of `input`.
    fn new(input: &Schema, reads: Vec<usize>) -> Result<Self>;

    /// The columns that cross, in the layout in which they do.
    fn project(&self, batch: &RecordBatch) -> Result<RecordBatch>;

    /// Opens the guest's processor.
    fn open(&self, instance: &mut TransformInstance<Self::Guest>, scope: &types::Scope) -> Result<ResourceAny, Failure>;

    /// Hands over rows of what [`Border::project`] gave and takes the answer.
    fn process(
        &mut self,
        plugin: &Plugin,
        instance: &mut TransformInstance<Self::Guest>,
        processor: ResourceAny,
        rows: &RecordBatch,
        decoder: &Decoder,
    ) -> Result<Made, Failure>;
}

fn unfit(plugin: &Plugin, error: impl std::fmt::Display) -> Failure {
    Failure::Fault(broken(plugin.name(), "processor.process", format!("its output does not fit its declared schema: {error}")))
}

/// World `transform-plugin`.
pub(super) struct Ipc(Encoder);

impl Border for Ipc {
    type Guest = transform::TransformPlugin;

    fn guest(store: &mut Store<State>, instance: &Instance) -> wasmtime::Result<Self::Guest> {
        transform::TransformPlugin::new(store, instance)
    }

    fn bind(plugin: &Plugin, instance: &mut TransformInstance<Self::Guest>, config: &str, input: &Schema) -> Result<Plan> {
        let whole = Encoder::new(input, (0..input.fields().len()).collect()).context(|| format!("plugin `{}`", plugin.name()))?;
        let answer =
            instance.call("bind", |store, guest| guest.tidegate_plugin_transform().call_bind(store, config, whole.schema_message()));
        let plan = answer.map_err(Failure::into_error)?;
        Ok(Plan { reads: plan.reads, carry: plan.carry, output: decode_schema(&plan.output), shape: plan.shape.into() })
    }

    fn new(input: &Schema, reads: Vec<usize>) -> Result<Self> {
        Ok(Ipc(Encoder::new(input, reads)?))
    }

    fn project(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.0.project(batch)
    }

    fn open(&self, instance: &mut TransformInstance<Self::Guest>, scope: &types::Scope) -> Result<ResourceAny, Failure> {
        let schema = self.0.schema_message();
        instance.call("processor.open", |store, guest| guest.tidegate_plugin_transform().processor().call_open(store, scope, schema))
    }

    fn process(
        &mut self,
        plugin: &Plugin,
        instance: &mut TransformInstance<Self::Guest>,
        processor: ResourceAny,
        rows: &RecordBatch,
        decoder: &Decoder,
    ) -> Result<Made, Failure> {
        let message = self.0.encode(rows).map_err(Failure::Fault)?;
        plugin.metrics().sent(message.len());
        let processed = instance.call("processor.process", |store, guest| {
            guest.tidegate_plugin_transform().processor().call_process(store, processor, message)
        })?;
        plugin.metrics().received(processed.rows.iter().map(Vec::len).sum());
        let rows = processed.rows.into_iter().map(|bytes| decoder.decode(bytes)).collect::<Result<_, _>>();
        Ok(Made { rows: rows.map_err(|error| unfit(plugin, error))?, bad: processed.bad })
    }
}

/// World `transform-columns-plugin`.
pub(super) struct Columns(ColumnsEncoder);

impl Border for Columns {
    type Guest = columns::TransformColumnsPlugin;

    fn guest(store: &mut Store<State>, instance: &Instance) -> wasmtime::Result<Self::Guest> {
        columns::TransformColumnsPlugin::new(store, instance)
    }

    fn bind(plugin: &Plugin, instance: &mut TransformInstance<Self::Guest>, config: &str, input: &Schema) -> Result<Plan> {
        let fields = offered(input);
        let answer = instance.call("bind", |store, guest| guest.tidegate_plugin_transform_columns().call_bind(store, config, &fields));
        let plan = answer.map_err(Failure::into_error)?;
        if let Some(opaque) = plan.reads.iter().flatten().find_map(|column| fields.get(*column as usize).filter(|field| field.is_opaque()))
        {
            let what = format!("its plan reads the column `{}`, which is `opaque` and can only be carried", opaque.name);
            return Err(broken(plugin.name(), "bind", what));
        }
        // Without a list it reads all, as far as they can be read.
        let all = || (0_u32..).zip(&fields).filter(|(_, field)| !field.is_opaque()).map(|(column, _)| column).collect();
        Ok(Plan {
            reads: Some(plan.reads.unwrap_or_else(all)),
            carry: plan.carry,
            output: declared(&plan.output),
            shape: plan.shape.into(),
        })
    }

    fn new(input: &Schema, reads: Vec<usize>) -> Result<Self> {
        Ok(Columns(ColumnsEncoder::new(input, reads)?))
    }

    fn project(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        self.0.project(batch)
    }

    fn open(&self, instance: &mut TransformInstance<Self::Guest>, scope: &types::Scope) -> Result<ResourceAny, Failure> {
        let fields = self.0.fields();
        instance
            .call("processor.open", |store, guest| guest.tidegate_plugin_transform_columns().processor().call_open(store, scope, fields))
    }

    fn process(
        &mut self,
        plugin: &Plugin,
        instance: &mut TransformInstance<Self::Guest>,
        processor: ResourceAny,
        rows: &RecordBatch,
        decoder: &Decoder,
    ) -> Result<Made, Failure> {
        let handed = self.0.encode(rows).map_err(Failure::Fault)?;
        plugin.metrics().sent(crate::columns::bytes_of(&handed));
        let processed = instance.call("processor.process", |store, guest| {
            guest.tidegate_plugin_transform_columns().processor().call_process(store, processor, &handed)
        })?;
        plugin.metrics().received(processed.rows.iter().map(crate::columns::bytes_of).sum());
        let read = |columns| decode_columns(columns, decoder.declared()).and_then(|rows| decoder.to_native(rows));
        let rows = processed.rows.into_iter().map(read).collect::<Result<_, _>>();
        Ok(Made { rows: rows.map_err(|error| unfit(plugin, error))?, bad: processed.bad })
    }
}

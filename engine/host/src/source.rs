//! A component as a source.
//!
//! Planning and discovery have an instance of their own, each reader has one too. After a trap the reader gets a new one and goes on
//! from the positions of what it handed over; a second trap in a row goes to the engine.

mod reader;

use crate::bindings::source::SourcePlugin;
use crate::bindings::source::exports::tidegate::plugin::source as wit;
use crate::bindings::types;
use crate::fault::{Failure, broken};
use crate::instance::{Instance, planning_scope};
use crate::ipc::{Decoder, decode_schema};
use crate::plugin::Plugin;
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::{
    Discovered, Error, InlineSource, Position, Result, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split, SplitId, nearest,
};

/// What a guest may ask the manifest to keep.
const MAX_ID: usize = 1 << 10;
const MAX_DETAILS: usize = 64 << 10;
const MAX_POSITION: usize = 1 << 20;
/// How often an unbounded source is asked for new splits.
const DISCOVER_EVERY: Duration = Duration::from_secs(10);
/// The field metadata that marks a column of row kinds.
const KIND: &str = "tidegate.kind";

/// A plugin used as a source, with its effective configuration.
pub(crate) struct PluginSource {
    plugin: Arc<Plugin>,
    config: String,
    planning: Mutex<Planning>,
}

#[derive(Default)]
struct Planning {
    instance: Option<Instance<SourcePlugin>>,
    /// Known once planned.
    bounded: Option<bool>,
}

/// A guest's plan for some wanted columns, checked.
struct Bound {
    plan: wit::Plan,
    decoder: Decoder,
    /// The columns to keep of what the guest gives; `None` for all.
    projection: Option<Vec<usize>>,
    schema: SchemaRef,
}

impl PluginSource {
    pub(crate) fn new(plugin: Arc<Plugin>, config: Map<String, Value>) -> Self {
        PluginSource { plugin, config: Value::Object(config).to_string(), planning: Mutex::default() }
    }

    fn instance(&self, operator: &str, task: usize) -> Result<Instance<SourcePlugin>> {
        Instance::new(&self.plugin, operator, task, |store, instance| SourcePlugin::new(store, instance))
    }

    fn bind(&self, instance: &mut Instance<SourcePlugin>, scope: &types::Scope, wanted: Option<&[String]>) -> Result<Bound, Failure> {
        let plan = instance
            .call("bind", Duration::ZERO, async |store, guest| guest.tidegate_plugin_source().call_bind(store, scope, wanted).await)?;
        self.check(plan, wanted).map_err(Failure::Fault)
    }

    fn check(&self, plan: wit::Plan, wanted: Option<&[String]>) -> Result<Bound> {
        let name = self.plugin.name();
        let declared =
            decode_schema(&plan.output).map_err(|error| broken(name, "bind", format!("the schema of its rows is unusable: {error}")))?;
        if let Some(kinds) = declared.fields().iter().find(|field| field.metadata().contains_key(KIND)) {
            return Err(Error::config(format!(
                "plugin `{name}`: column `{}` carries row kinds, and this host takes only sources whose rows are final",
                kinds.name()
            )));
        }
        let decoder = Decoder::new(declared);
        let all = Arc::clone(decoder.schema());
        let Some(wanted) = wanted else { return Ok(Bound { plan, decoder, projection: None, schema: all }) };
        if let Some(absent) = wanted.iter().find(|column| all.column_with_name(column).is_none()) {
            let hint = nearest::hint(absent, all.fields().iter().map(|field| field.name().as_str()));
            return Err(Error::config(format!("plugin `{name}` gives no column `{absent}`{hint}")));
        }
        let kept: Vec<usize> = (0..all.fields().len()).filter(|index| wanted.contains(all.field(*index).name())).collect();
        if kept.len() == all.fields().len() {
            return Ok(Bound { plan, decoder, projection: None, schema: all });
        }
        if plan.pruned {
            let extra = all.fields().iter().find(|field| !wanted.contains(field.name()));
            let extra = extra.map_or("", |field| field.name());
            return Err(broken(name, "bind", format!("its plan says it gives the wanted columns only, and gives `{extra}`")));
        }
        let schema = Arc::new(all.project(&kept)?);
        Ok(Bound { plan, decoder, projection: Some(kept), schema })
    }

    /// Makes a call that only asks, in an instance kept for that; once more in a new one if it traps.
    fn ask<T>(&self, call: impl Fn(&mut Instance<SourcePlugin>, &types::Scope) -> Result<T, Failure>) -> Result<T> {
        let scope = planning_scope(&self.plugin, &self.config);
        let mut planning = self.planning.lock().unwrap_or_else(PoisonError::into_inner);
        let mut trapped = false;
        loop {
            let mut instance = match planning.instance.take() {
                Some(instance) => instance,
                None => self.instance("plan", 0)?,
            };
            instance.set_now(self.plugin.shared().clock.wall());
            match call(&mut instance, &scope) {
                Ok(value) => {
                    planning.instance = Some(instance);
                    return Ok(value);
                }
                Err(Failure::Fault(error)) => {
                    planning.instance = Some(instance);
                    return Err(error);
                }
                Err(Failure::Trap(error)) if trapped => return Err(error),
                Err(Failure::Trap(error)) => {
                    tracing::warn!(%error, "a source trapped while planning and is asked again");
                    trapped = true;
                }
            }
        }
    }

    fn bounded(&self) -> Result<bool> {
        if let Some(bounded) = self.planning.lock().unwrap_or_else(PoisonError::into_inner).bounded {
            return Ok(bounded);
        }
        Ok(self.plan(&SourceRequest::all())?.bounded)
    }
}

impl InlineSource for PluginSource {
    fn plan(&self, request: &SourceRequest) -> Result<SourcePlan> {
        let bound = self.ask(|instance, scope| self.bind(instance, scope, request.columns.as_deref()))?;
        self.planning.lock().unwrap_or_else(PoisonError::into_inner).bounded = Some(bound.plan.bounded);
        let plan = SourcePlan::new(bound.schema).with_bounded(bound.plan.bounded).with_replayable(bound.plan.replayable);
        Ok(match bound.plan.max_parallelism {
            Some(most) => plan.with_max_parallelism(most.max(1) as usize),
            None => plan,
        })
    }

    fn discover(&self, cursor: Option<&[u8]>) -> Result<Discovered> {
        let bounded = self.bounded()?;
        let found = self.ask(|instance, scope| {
            instance.call("discover", Duration::ZERO, async |store, guest| {
                guest.tidegate_plugin_source().call_discover(store, scope, cursor).await
            })
        })?;
        let wrong = |what: String| broken(self.plugin.name(), "discover", what);
        if found.cursor.as_ref().is_some_and(|cursor| cursor.len() > MAX_POSITION) {
            return Err(wrong("its cursor is larger than 1MiB".into()));
        }
        let added = found.added.into_iter().map(|split| {
            let too_large = split.id.len() > MAX_ID || split.details.len() > MAX_DETAILS;
            if split.id.is_empty() || too_large || split.position.as_ref().is_some_and(|position| position.len() > MAX_POSITION) {
                let id: String = split.id.chars().take(80).collect();
                return Err(wrong(format!("the split `{id}` has an empty or too large id, details or position")));
            }
            Ok(Split { id: SplitId::new(split.id), details: split.details, position: split.position.map(Position) })
        });
        Ok(Discovered {
            added: added.collect::<Result<_>>()?,
            gone: found.gone.into_iter().map(SplitId::new).collect(),
            cursor: found.cursor.or_else(|| cursor.map(<[u8]>::to_vec)),
            complete: bounded,
        })
    }

    fn discover_every(&self) -> Option<Duration> {
        let bounded = self.planning.lock().unwrap_or_else(PoisonError::into_inner).bounded;
        (bounded == Some(false)).then_some(DISCOVER_EVERY)
    }

    fn open(&self, ctx: SourceCtx) -> Result<Box<dyn SourceReader>> {
        let opener = PluginSource { plugin: Arc::clone(&self.plugin), config: self.config.clone(), planning: Mutex::default() };
        Ok(Box::new(reader::Reader::open(opener, ctx)?))
    }
}

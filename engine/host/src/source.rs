//! A component as a source.
//!
//! Planning and discovery have an instance of their own, each reader has one too. After a trap the reader gets a new one and goes on
//! from the positions of what it handed over; a second trap in a row goes to the engine.

mod reader;

use crate::bindings::source::SourcePlugin;
use crate::bindings::source::exports::tidegate::plugin::source as wit;
use crate::bindings::types;
use crate::changes::Changes;
use crate::fault::{Failure, broken};
use crate::instance::{Instance, planning_scope};
use crate::ipc::{Decoder, decode_schema};
use crate::plugin::Plugin;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use serde_json::{Map, Value};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_api::{
    ChangeMode, Discovered, Error, InlineSource, Position, Result, SourceCtx, SourcePlan, SourceReader, SourceRequest, Split, SplitId,
    hidden, nearest,
};

/// What a guest may ask the manifest to keep.
const MAX_ID: usize = 1 << 10;
const MAX_DETAILS: usize = 64 << 10;
const MAX_POSITION: usize = 1 << 20;
/// How often an unbounded source is asked for new splits.
const DISCOVER_EVERY: Duration = Duration::from_secs(10);

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
    /// The columns of the last plan, and what it answered.
    last: Option<(Option<Vec<String>>, Answer)>,
}

/// What readers must find again when they are opened.
#[derive(Debug, Clone, PartialEq)]
struct Answer {
    schema: SchemaRef,
    mode: ChangeMode,
}

/// A guest's plan for some wanted columns, checked.
struct Bound {
    plan: wit::Plan,
    decoder: Decoder,
    /// The columns to keep of what the guest gives; `None` for all.
    projection: Option<Vec<usize>>,
    /// What its rows do to each other; `None` if they are final.
    changes: Option<Changes>,
    schema: SchemaRef,
}

impl Bound {
    fn answer(&self) -> Answer {
        Answer { schema: Arc::clone(&self.schema), mode: self.changes.as_ref().map_or(ChangeMode::Append, Changes::mode) }
    }
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
        let changes = Changes::of(&declared).map_err(|what| broken(name, "bind", format!("the schema of its rows is unusable: {what}")))?;
        let decoder = Decoder::new(declared);
        let all = Arc::clone(decoder.schema());
        let is_kind = |index: usize| changes.as_ref().is_some_and(|changes| changes.is_kind(index));
        let given = |column: &str| all.index_of(column).is_ok_and(|index| !is_kind(index));
        if let Some(absent) = wanted.into_iter().flatten().find(|column| !given(column)) {
            let names = all.fields().iter().map(|field| field.name().as_str()).filter(|column| given(column));
            return Err(Error::config(format!("plugin `{name}` gives no column `{absent}`{}", nearest::hint(absent, names))));
        }
        let is_wanted = |column: &String| wanted.is_none_or(|wanted| wanted.contains(column));
        let always = |index: usize, column: &str| changes.as_ref().is_some_and(|changes| changes.always(index, column));
        if plan.pruned {
            let mut fields = all.fields().iter().enumerate();
            if let Some((_, extra)) = fields.find(|(index, field)| !is_wanted(field.name()) && !always(*index, field.name())) {
                return Err(broken(name, "bind", format!("its plan says it gives the wanted columns only, and gives `{}`", extra.name())));
            }
        }
        let kept = (0..all.fields().len()).filter(|index| {
            let column = all.field(*index).name();
            !is_kind(*index) && (is_wanted(column) || always(*index, column))
        });
        let kept: Vec<usize> = kept.collect();
        if changes.is_none() && kept.len() == all.fields().len() {
            return Ok(Bound { plan, decoder, projection: None, changes, schema: all });
        }
        let mut fields: Vec<FieldRef> = kept.iter().map(|index| Arc::clone(&all.fields()[*index])).collect();
        fields.extend(changes.is_some().then(|| Arc::new(hidden::op_field())));
        let schema = Arc::new(Schema::new_with_metadata(fields, all.metadata().clone()));
        Ok(Bound { plan, decoder, projection: Some(kept), changes, schema })
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
        let answer = bound.answer();
        let mut planning = self.planning.lock().unwrap_or_else(PoisonError::into_inner);
        if planning.last.as_ref().is_some_and(|(_, before)| before.mode != answer.mode) {
            let what = "which rows replace each other depends on the columns that are wanted".to_string();
            return Err(broken(self.plugin.name(), "bind", what));
        }
        planning.bounded = Some(bound.plan.bounded);
        planning.last = Some((request.columns.clone(), answer.clone()));
        drop(planning);
        let plan =
            SourcePlan::new(answer.schema).with_mode(answer.mode).with_bounded(bound.plan.bounded).with_replayable(bound.plan.replayable);
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
        let planned = self.planning.lock().unwrap_or_else(PoisonError::into_inner).last.clone();
        let planned = planned.filter(|(columns, _)| *columns == ctx.request.columns).map(|(_, answer)| answer);
        Ok(Box::new(reader::Reader::open(opener, planned, ctx)?))
    }
}

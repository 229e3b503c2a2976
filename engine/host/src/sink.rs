//! A component as a sink.
//!
//! A writer that traps fails the run back to the manifest: what it had taken of the epoch is not known. Commits are functions, called on
//! an instance of their own, because after a crash no writer exists.

mod changes;
mod committer;
mod writer;

use crate::bindings::sink::SinkPlugin;
use crate::bindings::sink::exports::tidegate::plugin::sink as wit;
use crate::bindings::types;
use crate::fault::{Failure, broken, placed};
use crate::instance::{Instance, planning_scope};
use crate::ipc::Encoder;
use crate::plugin::Plugin;
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{
    AnySink, ChangeMode, Committer, Distribution, Error, Guarantee, OutputSink, Result, ResultExt, SinkCtx, SinkInput, SinkPlan,
};

/// A plugin used as a sink, with its effective configuration.
pub(crate) struct PluginSink {
    plugin: Arc<Plugin>,
    config: Map<String, Value>,
}

/// A guest's plan, checked.
struct Bound {
    plan: wit::Plan,
    reads: Vec<usize>,
}

impl PluginSink {
    pub(crate) fn new(plugin: Arc<Plugin>, config: Map<String, Value>) -> Self {
        PluginSink { plugin, config }
    }

    fn config_text(&self) -> String {
        Value::Object(self.config.clone()).to_string()
    }
}

fn instance(plugin: &Plugin, operator: &str, task: usize) -> Result<Instance<SinkPlugin>> {
    Instance::new(plugin, operator, task, |store, instance| SinkPlugin::new(store, instance))
}

/// Asks how rows of `schema`, which [`changes::offered`] gave, would be written.
fn bind(plugin: &Plugin, instance: &mut Instance<SinkPlugin>, scope: &types::Scope, schema: &SchemaRef) -> Result<Bound> {
    let columns = schema.fields().len();
    let whole = Encoder::new(schema, (0..columns).collect()).context(|| format!("plugin `{}`", plugin.name()))?;
    let plan = instance.call("bind", Duration::ZERO, async |store, guest| {
        guest.tidegate_plugin_sink().call_bind(store, scope, whole.schema_message()).await
    });
    let plan = plan.map_err(Failure::into_error)?;
    let reads = match &plan.reads {
        None => (0..columns).collect(),
        Some(reads) => {
            let mut seen = BTreeSet::new();
            if let Some(odd) = reads.iter().find(|index| **index as usize >= columns || !seen.insert(**index)) {
                return Err(broken(
                    plugin.name(),
                    "bind",
                    format!("`reads` of its plan names column {odd} of {columns}, or names it twice"),
                ));
            }
            reads.iter().map(|index| *index as usize).collect()
        }
    };
    Ok(Bound { plan, reads })
}

/// The name under which a sink's instances write: an output's second sink must not undo what the first prepared.
fn operator(ctx: &SinkCtx) -> String {
    if ctx.index == 0 { ctx.run.operator.clone() } else { format!("{}#{}", ctx.run.operator, ctx.index) }
}

impl OutputSink for PluginSink {
    fn plan(&self, input: &SinkInput) -> Result<SinkPlan> {
        let name = self.plugin.name();
        let mut instance = instance(&self.plugin, "plan", 0)?;
        let offered = changes::offered(&input.schema, &input.mode);
        let Bound { plan, .. } = bind(&self.plugin, &mut instance, &planning_scope(&self.plugin, &self.config_text()), &offered)?;
        let guarantee = match plan.guarantee {
            wit::Guarantee::AtLeastOnce => Guarantee::AtLeastOnce,
            wit::Guarantee::Idempotent => Guarantee::Idempotent,
            wit::Guarantee::TwoPhase => Guarantee::ExactlyOnce,
        };
        if !["append", "upsert", "changelog"].contains(&plan.accepts.as_str()) {
            return Err(broken(name, "bind", format!("`accepts` of its plan is `{}`, not append, upsert or changelog", plan.accepts)));
        }
        if plan.accepts == "append" && matches!(input.mode, ChangeMode::Upsert { .. }) {
            return Err(Error::config(format!(
                "plugin `{name}` takes final rows only, and this output replaces rows; set `changelog = true` on it to write changes as rows"
            )));
        }
        let distribution = match plan.distribution.as_str() {
            "any" => Distribution::Any,
            "by-key" => Distribution::ByKey,
            other => return Err(broken(name, "bind", format!("`distribution` of its plan is `{other}`, not any or by-key"))),
        };
        let answer = SinkPlan::new(guarantee).with_keys(plan.wants_keys).with_distribution(distribution);
        Ok(match plan.max_parallelism {
            Some(most) => answer.with_max_parallelism(most.max(1) as usize),
            None => answer,
        })
    }

    fn open(&self, ctx: SinkCtx) -> Result<AnySink> {
        let writer = writer::Writer::open(Arc::clone(&self.plugin), &self.config_text(), ctx)?;
        Ok(match writer.guarantee() {
            wit::Guarantee::AtLeastOnce | wit::Guarantee::Idempotent => AnySink::AtLeastOnce(Box::new(writer)),
            wit::Guarantee::TwoPhase => AnySink::Transactional(Box::new(writer)),
        })
    }

    fn committer(&self, ctx: SinkCtx) -> Result<Box<dyn Committer>> {
        Ok(Box::new(committer::PluginCommitter::new(Arc::clone(&self.plugin), &self.config_text(), &ctx)))
    }

    fn config(&self) -> Value {
        // Secrets are no part of a plugin's configuration: it asks for them by name.
        Value::Object(self.config.clone())
    }
}

/// A call on behalf of a sink that may be repeated by the engine.
fn sink_error(plugin: &str, call: &str, message: String) -> Error {
    placed(Error::external(message), plugin, call)
}

//! The `wasm` step with `plugin`: a plugin's transform in its place among the native steps.

use super::Plugins;
use super::changes::{keys_of, refusal};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt;
use tidegate_api::config::{Options, Problem, problems_of};
use tidegate_operators::{BindCtx, Bound, BoundNode, StepDef, StreamType};

/// A `wasm` step as parsed.
pub struct WasmStep {
    plugins: Plugins,
    plugin: String,
    config: Map<String, Value>,
}

impl fmt::Debug for WasmStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WasmStep").field("plugin", &self.plugin).finish_non_exhaustive()
    }
}

impl WasmStep {
    /// Reads a step whose `op` is `wasm` and that has no `ref`.
    ///
    /// # Errors
    /// Every mistake in it.
    pub fn parse(step: &Map<String, Value>, plugins: &Plugins) -> Result<WasmStep, Vec<Problem>> {
        let mut options = Options::new(step);
        options.string("op");
        let plugin = options.string("plugin");
        let config = options.table("config").cloned().unwrap_or_default();
        if options.value("keep").is_some() {
            options.problem("keep", "`keep` stands beside `ref`; a plugin says itself what it carries");
        }
        if plugin.is_none() && !options.has("plugin") {
            options.problem("plugin", "`plugin` is missing: the name of a `[plugins.NAME]`, or `ref`: a transform of the registry");
        }
        let mut problems = options.finish();
        match plugin {
            Some(plugin) if problems.is_empty() => match plugins.get(&plugin) {
                Ok(_) => return Ok(WasmStep { plugins: plugins.clone(), plugin, config }),
                Err(error) => problems.push(Problem::at("plugin", error.to_string())),
            },
            _ => {}
        }
        Err(problems)
    }
}

impl StepDef for WasmStep {
    fn op(&self) -> &'static str {
        "wasm"
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let [input] = inputs else {
            return Err(vec![Problem::whole(format!("`wasm` takes one input and has {}", inputs.len()))]);
        };
        let config = self.plugins.effective_config(&self.plugin, &self.config);
        let plugin = self.plugins.get(&self.plugin).map_err(|error| vec![Problem::at("plugin", error.to_string())])?;
        let transform = plugin
            .transform(&config, input.schema.clone())
            .map_err(|error| problems_of(&error).into_iter().map(|problem| problem.under(["plugin"])).collect::<Vec<_>>())?;
        if cx.keys && !transform.rowwise {
            let message = format!("the plugin `{}` may change rows freely, so its rows have no keys, which a sink asks for", self.plugin);
            return Err(vec![Problem::at("plugin", message)]);
        }
        let who = format!("the plugin `{}`", self.plugin);
        if let Some(message) = refusal(&who, &input.mode, transform.shape, &transform.reads) {
            return Err(vec![Problem::at("plugin", message)]);
        }
        if let Some(key) = keys_of(&input.mode).iter().find(|key| !transform.carries.contains(key)) {
            let message = format!("rows that come in replace each other by their column `{key}`, which {who} makes anew or leaves out");
            return Err(vec![Problem::at("plugin", message)]);
        }
        let reads: BTreeSet<String> = transform.reads.iter().cloned().collect();
        let carries: BTreeSet<String> = transform.carries.iter().cloned().collect();
        let details = format!(
            "plugin `{}`, reads [{}], carries {} column{}",
            self.plugin,
            transform.reads.join(", "),
            carries.len(),
            if carries.len() == 1 { "" } else { "s" }
        );
        Ok(Bound {
            output: StreamType { schema: transform.output.clone(), mode: input.mode.clone() },
            node: BoundNode::Step(transform.factory),
            required: Box::new(move |needed| vec![reads.union(&needed.intersection(&carries).cloned().collect()).cloned().collect()]),
            equals: Vec::new(),
            details,
        })
    }
}

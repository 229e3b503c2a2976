//! The one-process host: a pipeline file behind the host contract.

use super::{Mistake, PipelineFile};
use crate::compute::Plugins;
use crate::control::{Binding, BuildSignal, ControlPlane, HostSettings, Topology};
use crate::options::{self, DATASET_KEYS};
use crate::prepare::{Prepared, prepare};
use async_trait::async_trait;
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_api::config::Problem;
use tidegate_api::{Error, Result, nearest};
use tidegate_connectors::ConnectorCtx;
use tidegate_connectors::stdout::StdoutTarget;
use tidegate_host::HostConfig;

/// What is told about every record of a run.
pub type OnRecord = Box<dyn Fn(&Value) + Send + Sync>;

/// Runs a pipeline file in this process.
pub struct FileHost {
    file: Arc<PipelineFile>,
    settings: HostSettings,
    /// None if `[plugins]` is mistaken; planning says so.
    plugins: Option<Plugins>,
    stop: Arc<AtomicBool>,
    on_record: OnRecord,
    last: Mutex<Value>,
    stdout: StdoutTarget,
}

impl FileHost {
    /// A host for `file`. `stop` asks for a stop at the next heartbeat; `on_record` sees every record, the last one too.
    pub fn new(
        file: Arc<PipelineFile>,
        mut settings: HostSettings,
        config: HostConfig,
        stop: Arc<AtomicBool>,
        on_record: OnRecord,
    ) -> Self {
        let plugins = Plugins::read(&settings.plugins, &settings.base_dir, config).ok();
        settings.loaded_plugins = plugins.clone();
        FileHost { file, settings, plugins, stop, on_record, last: Mutex::new(Value::Null), stdout: StdoutTarget::process() }
    }

    /// Plans the file, keeping every mistake of form, names, types and columns together, each with its line.
    ///
    /// # Errors
    /// Every mistake.
    pub async fn check(&self) -> Result<Prepared, Vec<Mistake>> {
        let mut problems = self.file.problems().to_vec();
        problems.extend(self.unused_datasets());
        match prepare(self, self.file.name()).await {
            Ok(prepared) if problems.is_empty() => return Ok(prepared),
            Ok(_) => {}
            Err(found) => problems.extend(found),
        }
        Err(self.file.locate(problems))
    }

    /// The mistakes of datasets that nothing names, which planning never looks at.
    fn unused_datasets(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, dataset) in &self.file.datasets {
            if self.is_produced(name) || self.is_read(name) || self.is_dead_letter(name) {
                continue;
            }
            let mut found = self.bind(name, dataset).err().unwrap_or_default();
            found.extend(options::read(&dataset_keys(dataset)).err().unwrap_or_default());
            problems.extend(found.into_iter().map(|problem| problem.under(["datasets", name])));
        }
        problems
    }

    /// Sets what `stdout` datasets write to; the process's standard output without it.
    #[must_use]
    pub fn with_stdout(mut self, stdout: StdoutTarget) -> Self {
        self.stdout = stdout;
        self
    }

    /// The newest record.
    pub fn last_record(&self) -> Value {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn is_produced(&self, name: &str) -> bool {
        self.file.topology.stages.iter().any(|stage| stage.output == name)
    }

    fn is_dead_letter(&self, name: &str) -> bool {
        let names =
            |map: &Map<String, Value>| ["deadLetter", "lateOutput"].iter().any(|key| map.get(*key).is_some_and(|value| value == name));
        let in_steps = || self.file.topology.stages.iter().flat_map(|stage| &stage.steps).filter_map(Value::as_object).any(names);
        names(&self.file.settings) || self.file.datasets.values().any(names) || in_steps()
    }

    fn is_read(&self, name: &str) -> bool {
        self.file.topology.stages.iter().any(|stage| stage.inputs.iter().any(|input| input == name))
    }

    fn bind(&self, name: &str, dataset: &Map<String, Value>) -> Result<Binding, Vec<Problem>> {
        let options = dataset_keys(dataset);
        let written = self.is_produced(name) || self.is_dead_letter(name);
        let key = if dataset.contains_key("sink") { "sink" } else { "connector" };
        if dataset.contains_key("sink") && dataset.contains_key("connector") {
            return Err(vec![Problem::at("connector", "`connector` and `sink` stand together; a dataset has one of them")]);
        }
        let connector = match dataset.get(key) {
            Some(Value::String(connector)) => connector.as_str(),
            Some(other) => return Err(vec![Problem::at(key, format!("expected text, found `{other}`"))]),
            None if written && self.is_read(name) => return Ok(Binding::internal(name).with_options(options)),
            None => return Err(vec![Problem::at("connector", format!("dataset `{name}` has neither `connector` nor `sink`"))]),
        };
        if key == "sink" && !written {
            let message = format!("dataset `{name}` has a `sink`, but no stage has it as `output`; to read it, say `connector`");
            return Err(vec![Problem::at("sink", message)]);
        }
        let mut rest: Map<String, Value> = dataset.clone();
        rest.retain(|key, _| key != "connector" && key != "sink" && !DATASET_KEYS.contains(&key.as_str()));
        let binding = if connector == "plugin" {
            let plugin = match rest.remove("plugin") {
                Some(Value::String(plugin)) => plugin,
                Some(other) => return Err(vec![Problem::at("plugin", format!("expected text, found `{other}`"))]),
                None => return Err(vec![Problem::at("plugin", "`plugin` is missing: the name of a `[plugins.NAME]`")]),
            };
            // Mistaken plugins have been reported; what uses them cannot be judged.
            let Some(plugins) = &self.plugins else { return Err(Vec::new()) };
            let at = |error: Error| vec![Problem::at("plugin", error.to_string())];
            if written {
                Binding::writing(name, plugins.sink(&plugin, &rest).map_err(at)?)
            } else {
                Binding::reading(name, plugins.source(&plugin, &rest).map_err(at)?)
            }
        } else {
            // Names that another engine's files use for the same connector.
            let connector = match connector {
                "file" | "arrow" => "files",
                other => other,
            };
            let cx = ConnectorCtx::new(self.file.base_dir(), name).with_stdout(self.stdout.clone());
            if written {
                Binding::writing(name, tidegate_connectors::sink(connector, &rest, &cx).map_err(|found| renamed(found, key))?)
            } else {
                Binding::reading(name, tidegate_connectors::source(connector, &rest, &cx).map_err(|found| renamed(found, key))?)
            }
        };
        Ok(binding.with_options(options))
    }
}

/// The keys that are not the connector's.
fn dataset_keys(dataset: &Map<String, Value>) -> Map<String, Value> {
    dataset.iter().filter(|(key, _)| DATASET_KEYS.contains(&key.as_str())).map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// A mistake in the connector's name stands at the key it was given with.
fn renamed(mut problems: Vec<Problem>, key: &str) -> Vec<Problem> {
    for problem in &mut problems {
        if problem.path.is_empty() {
            problem.path.push(key.to_string());
        }
    }
    problems
}

#[async_trait]
impl ControlPlane for FileHost {
    async fn topology(&self, _: &str) -> Result<Topology> {
        Ok(self.file.topology.clone())
    }

    async fn resolve_dataset(&self, name: &str) -> Result<Binding> {
        match self.file.datasets.get(name) {
            Some(dataset) => self
                .bind(name, dataset)
                .map_err(|problems| Error::from(problems.into_iter().map(|problem| problem.under(["datasets", name])).collect::<Vec<_>>())),
            // A dataset that stages hand to each other needs no table.
            None if self.is_produced(name) && self.is_read(name) => Ok(Binding::internal(name)),
            None => {
                let hint = nearest::hint(name, self.file.datasets.keys().map(String::as_str));
                Err(Error::config(format!("there is no dataset `{name}`{hint}; declare it as `[datasets.{name}]`")))
            }
        }
    }

    async fn publishes(&self, name: &str) -> bool {
        self.file.datasets.get(name).is_some_and(|dataset| dataset.contains_key("sink") || dataset.contains_key("connector"))
    }

    async fn settings(&self, _: &str) -> Result<HostSettings> {
        Ok(self.settings.clone())
    }

    async fn heartbeat(&self, _: &str) -> BuildSignal {
        if self.stop.load(Ordering::Relaxed) { BuildSignal::Stop } else { BuildSignal::Continue }
    }

    async fn put_record(&self, _: &str, record: Value) -> Result<()> {
        (self.on_record)(&record);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = record;
        Ok(())
    }
}

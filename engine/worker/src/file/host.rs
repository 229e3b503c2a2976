//! The one-process host: a pipeline file behind the host contract.

use super::limited::Limited;
use super::paced::Paced;
use super::{Mistake, PipelineFile, secrets};
use crate::compute::Plugins;
use crate::control::{Binding, BuildSignal, ControlPlane, HostSettings, Topology};
use crate::options::{self, DATASET_KEYS};
use crate::prepare::{Prepared, prepare};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_api::config::{Problem, problems_of};
use tidegate_api::{Error, InlineSource, OutputSink, Result, SourceRequest, nearest, types};
use tidegate_connectors::ConnectorCtx;
use tidegate_connectors::stdin::StdinInput;
use tidegate_connectors::stdout::StdoutTarget;
use tidegate_host::HostConfig;
use tidegate_runtime::RebuildSink;
use tidegate_runtime::graph::NodeKind;

/// The keys of sources that decide which columns there are.
const SHAPING: [&str; 19] = [
    "connector",
    "path",
    "format",
    "compression",
    "header",
    "delimiter",
    "nullValues",
    "descriptor",
    "message",
    "plugin",
    "brokers",
    "properties",
    "topic",
    "topics",
    "pattern",
    "avroSchema",
    "framing",
    "tombstones",
    "meta",
];

/// What is told about every record of a run.
pub type OnRecord = Box<dyn Fn(&Value) + Send + Sync>;

/// Runs a pipeline file in this process.
pub struct FileHost {
    file: Arc<PipelineFile>,
    settings: HostSettings,
    roles: Roles,
    builder: Builder,
    stop: Arc<AtomicBool>,
    on_record: OnRecord,
    last: Mutex<Value>,
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
        let plugins = Plugins::read(&settings, config).ok();
        settings.loaded_plugins = plugins.clone();
        let builder = Builder {
            base_dir: file.base_dir.clone(),
            pipeline: file.name().to_string(),
            plugins,
            stdout: StdoutTarget::process(),
            stdin: stdin_of(&file),
            trial: TrialHost::default(),
        };
        settings.rebuild_sink = Some(rebuild(&file, &builder));
        FileHost { roles: Roles::of(&file), builder, file, settings, stop, on_record, last: Mutex::new(Value::Null) }
    }

    /// Plans the file, keeping every mistake of form, names, types and columns together, each with its line.
    ///
    /// # Errors
    /// Every mistake.
    pub async fn check(&self) -> Result<Prepared, Vec<Mistake>> {
        let mut problems = self.file.problems().to_vec();
        problems.extend(self.unused_datasets());
        problems.extend(self.unused_plugins());
        match prepare(self, self.file.name()).await {
            Ok(prepared) if problems.is_empty() => return Ok(prepared),
            Ok(_) => {}
            Err(found) => problems.extend(found),
        }
        Err(self.file.locate(problems))
    }

    /// Looks whether the inputs of a planned file are there, for a person who checks it before a run.
    ///
    /// # Errors
    /// Everything that is not, each with its line.
    pub fn check_inputs(&self, prepared: &Prepared) -> Result<(), Vec<Mistake>> {
        let mut problems = Vec::new();
        for node in &prepared.planned.graph.nodes {
            let NodeKind::Source(source) = &node.kind else { continue };
            if let Err(error) = source.source.check() {
                let found = problems_of(&error).into_iter();
                // The folder is said because relative paths begin there, wherever the command was called.
                let place = format!("(looked in `{}`)", self.shown_base_dir());
                problems.extend(found.map(|problem| {
                    let message = format!("{} {place}", problem.message);
                    Problem::new(problem.path, message).under(["datasets", &source.dataset])
                }));
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(self.file.locate(problems)) }
    }

    fn shown_base_dir(&self) -> String {
        let base = self.file.base_dir();
        base.canonicalize().unwrap_or_else(|_| base.to_path_buf()).display().to_string()
    }

    /// The mistakes of datasets that nothing names, which planning never looks at.
    fn unused_datasets(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (name, dataset) in &self.file.datasets {
            if self.roles.is_named(name) {
                continue;
            }
            let mut found = self.bind(name, dataset).err().unwrap_or_default();
            found.extend(options::read(&dataset_keys(dataset)).err().unwrap_or_default());
            problems.extend(found.into_iter().map(|problem| problem.under(["datasets", name])));
        }
        problems
    }

    /// The plugins that nothing names and whose file is not there; the others are loaded where they are used.
    fn unused_plugins(&self) -> Vec<Problem> {
        let steps = self.file.topology.stages.iter().flat_map(|stage| &stage.steps).filter_map(Value::as_object);
        let used: BTreeSet<&str> =
            steps.chain(self.file.datasets.values()).filter_map(|map| map.get("plugin").and_then(Value::as_str)).collect();
        let missing = self.builder.plugins.iter().flat_map(Plugins::missing).filter(|(name, _)| !used.contains(name.as_str()));
        missing.map(|(name, message)| Problem::new(vec!["plugins".into(), name, "path".into()], message)).collect()
    }

    /// Sets what `stdout` datasets write to; the process's standard output without it.
    #[must_use]
    pub fn with_stdout(mut self, stdout: StdoutTarget) -> Self {
        self.builder.stdout = stdout;
        self.settings.rebuild_sink = Some(rebuild(&self.file, &self.builder));
        self
    }

    /// Sets what a trial does otherwise than a run.
    #[must_use]
    pub fn with_trial(mut self, trial: TrialHost) -> Self {
        self.builder.trial = trial;
        self.settings.rebuild_sink = Some(rebuild(&self.file, &self.builder));
        self
    }

    /// The datasets that are read from outside.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &str> {
        let from_outside = |(name, dataset): &(&String, &Map<String, Value>)| !dataset.contains_key("sink") && !self.roles.is_written(name);
        self.file.datasets.iter().filter(from_outside).map(|(name, _)| name.as_str())
    }

    /// A dataset's table.
    pub(super) fn dataset(&self, name: &str) -> Option<&Map<String, Value>> {
        self.file.datasets.get(name)
    }

    /// Whether stages write a dataset.
    pub(super) fn is_written(&self, name: &str) -> bool {
        self.roles.is_written(name)
    }

    /// The mistakes in the file's form.
    pub(super) fn problems(&self) -> &[Problem] {
        self.file.problems()
    }

    /// The source of a dataset.
    pub(super) fn source_of(&self, name: &str, dataset: &Map<String, Value>) -> Result<Arc<dyn InlineSource>, Vec<Problem>> {
        self.builder.source(name, dataset)
    }

    /// The newest record.
    pub fn last_record(&self) -> Value {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn bind(&self, name: &str, dataset: &Map<String, Value>) -> Result<Binding, Vec<Problem>> {
        let exposed = self.exposed(name, dataset);
        match self.bind_halves(name, dataset) {
            Ok(binding) if exposed.is_empty() => Ok(binding),
            Ok(_) => Err(exposed),
            Err(problems) => Err(exposed.into_iter().chain(problems).collect()),
        }
    }

    /// The secrets of a dataset that the file shows.
    pub(super) fn exposed(&self, name: &str, dataset: &Map<String, Value>) -> Vec<Problem> {
        let (Ok(chosen), Some(Value::Object(written))) = (Builder::choose(name, dataset), self.file.as_written(name)) else {
            return Vec::new();
        };
        let mut found = secrets::literal(&written, tidegate_connectors::secrets(chosen.connector));
        found.extend(secrets::literal_in_url(&written));
        found
    }

    fn bind_halves(&self, name: &str, dataset: &Map<String, Value>) -> Result<Binding, Vec<Problem>> {
        let options = dataset_keys(dataset);
        let written = self.roles.is_written(name);
        if !dataset.contains_key("sink") && !dataset.contains_key("connector") && written && self.roles.read.contains(name) {
            return Ok(Binding::internal(name).with_options(options));
        }
        if dataset.contains_key("sink") && !written {
            let message = format!("dataset `{name}` has a `sink`, but no stage has it as `output`; to read it, say `connector`");
            return Err(vec![Problem::at("sink", message)]);
        }
        let binding = if written {
            // Recorded as written in the file: what stands there by reference is resolved again when it is needed.
            let recorded = self.file.as_written(name).unwrap_or(Value::Null);
            Binding::writing(name, self.builder.sink(name, dataset)?).with_recorded(recorded)
        } else {
            Binding::reading(name, self.builder.source(name, dataset)?)
        };
        Ok(binding.with_options(options))
    }
}

/// What the stages do with each dataset.
#[derive(Debug, Default)]
pub(super) struct Roles {
    read: BTreeSet<String>,
    produced: BTreeSet<String>,
    refused: BTreeSet<String>,
}

impl Roles {
    pub(super) fn of(file: &PipelineFile) -> Roles {
        let mut roles = Roles::default();
        for stage in &file.topology.stages {
            roles.read.extend(stage.inputs.iter().cloned());
            roles.produced.insert(stage.output.clone());
        }
        let steps = file.topology.stages.iter().flat_map(|stage| &stage.steps).filter_map(Value::as_object);
        for map in steps.chain(file.datasets.values()).chain([&file.settings]) {
            for key in ["deadLetter", "lateOutput"] {
                roles.refused.extend(map.get(key).and_then(Value::as_str).map(str::to_string));
            }
        }
        roles
    }

    pub(super) fn is_written(&self, name: &str) -> bool {
        self.produced.contains(name) || self.refused.contains(name)
    }

    fn is_named(&self, name: &str) -> bool {
        self.is_written(name) || self.read.contains(name)
    }
}

/// Builds the halves of datasets from their tables.
#[derive(Clone)]
struct Builder {
    base_dir: PathBuf,
    pipeline: String,
    /// None if `[plugins]` is mistaken; planning says so.
    plugins: Option<Plugins>,
    stdout: StdoutTarget,
    /// One for all that is made of the file, now or in a later start within the process.
    stdin: StdinInput,
    trial: TrialHost,
}

fn stdin_of(file: &PipelineFile) -> StdinInput {
    if file.is_from_stdin() { StdinInput::taken("the pipeline itself came from there") } else { StdinInput::process() }
}

/// What a trial does otherwise than a run.
#[derive(Debug, Clone, Default)]
pub struct TrialHost {
    /// What each `stdout` dataset writes to.
    pub stdout: BTreeMap<String, StdoutTarget>,
    /// How many rows a second each source gives; those that are not named as many as are asked for.
    pub pace: BTreeMap<String, f64>,
    /// After how many rows every source ends, if not by itself.
    pub limit: Option<u64>,
}

/// A connector's name, the key that gave it, and the connector's own options.
struct Chosen<'a> {
    connector: &'a str,
    key: &'static str,
    options: Map<String, Value>,
}

impl Builder {
    fn choose<'a>(name: &str, dataset: &'a Map<String, Value>) -> Result<Chosen<'a>, Vec<Problem>> {
        let key = if dataset.contains_key("sink") { "sink" } else { "connector" };
        if key == "sink" && dataset.contains_key("connector") {
            return Err(vec![Problem::at("connector", "`connector` and `sink` stand together; a dataset has one of them")]);
        }
        let connector = match dataset.get(key) {
            // Names that another engine's files use for the same connector.
            Some(Value::String(connector)) if connector == "file" || connector == "arrow" => "files",
            Some(Value::String(connector)) => connector,
            Some(other) => return Err(vec![Problem::at(key, format!("expected text, found `{other}`"))]),
            None => return Err(vec![Problem::at("connector", format!("dataset `{name}` has neither `connector` nor `sink`"))]),
        };
        let mut options = dataset.clone();
        options.retain(|key, _| key != "connector" && key != "sink" && !DATASET_KEYS.contains(&key.as_str()));
        Ok(Chosen { connector, key, options })
    }

    fn plugin(&self, options: &mut Map<String, Value>) -> Result<(&Plugins, String), Vec<Problem>> {
        let plugin = match options.remove("plugin") {
            Some(Value::String(plugin)) => plugin,
            Some(other) => return Err(vec![Problem::at("plugin", format!("expected text, found `{other}`"))]),
            None => return Err(vec![Problem::at("plugin", "`plugin` is missing: the name of a `[plugins.NAME]`")]),
        };
        // Mistaken plugins have been reported; what uses them cannot be judged.
        self.plugins.as_ref().map(|plugins| (plugins, plugin)).ok_or_else(Vec::new)
    }

    fn cx(&self, name: &str) -> ConnectorCtx {
        ConnectorCtx::new(&self.base_dir, name)
            .with_pipeline(&self.pipeline)
            .with_stdout(self.trial.stdout.get(name).unwrap_or(&self.stdout).clone())
            .with_stdin(self.stdin.clone())
    }

    fn source(&self, name: &str, dataset: &Map<String, Value>) -> Result<Arc<dyn InlineSource>, Vec<Problem>> {
        let mut source = self.unpaced(name, dataset)?;
        if let Some(pace) = self.trial.pace.get(name) {
            source = Arc::new(Paced::new(source, *pace));
        }
        if let Some(limit) = self.trial.limit {
            source = Arc::new(Limited::new(source, limit));
        }
        Ok(source)
    }

    fn unpaced(&self, name: &str, dataset: &Map<String, Value>) -> Result<Arc<dyn InlineSource>, Vec<Problem>> {
        let Chosen { connector, key, mut options } = Builder::choose(name, dataset)?;
        if connector == "plugin" {
            let (plugins, plugin) = self.plugin(&mut options)?;
            return plugins.source(&plugin, &options).map_err(|error| vec![Problem::at("plugin", error.to_string())]);
        }
        tidegate_connectors::source(connector, &options, &self.cx(name)).map_err(|found| renamed(found, key))
    }

    fn sink(&self, name: &str, dataset: &Map<String, Value>) -> Result<Arc<dyn OutputSink>, Vec<Problem>> {
        let Chosen { connector, key, mut options } = Builder::choose(name, dataset)?;
        if connector == "plugin" {
            let (plugins, plugin) = self.plugin(&mut options)?;
            return plugins.sink(&plugin, &options).map_err(|error| vec![Problem::at("plugin", error.to_string())]);
        }
        tidegate_connectors::sink(connector, &options, &self.cx(name)).map_err(|found| renamed(found, key))
    }
}

/// Builds a sink from the table that a manifest recorded.
fn rebuild(file: &Arc<PipelineFile>, builder: &Builder) -> RebuildSink {
    let (file, builder) = (Arc::clone(file), builder.clone());
    Arc::new(move |name, recorded| {
        let Value::Object(dataset) = file.resolved(recorded)? else {
            return Err(Error::config(format!("what the manifest recorded of the sink `{name}` is no table")));
        };
        builder.sink(name, &dataset).map_err(Error::from)
    })
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
            None if self.roles.produced.contains(name) && self.roles.read.contains(name) => Ok(Binding::internal(name)),
            None => {
                let hint = nearest::hint(name, self.file.datasets.keys().map(String::as_str));
                Err(Error::config(format!("there is no dataset `{name}`{hint}; declare it as `[datasets.{name}]`")))
            }
        }
    }

    async fn sketch(&self, name: &str) -> Option<SchemaRef> {
        let dataset = self.file.datasets.get(name).filter(|_| !self.roles.is_written(name))?;
        if let Some(schema) = dataset.get("schema").and_then(|schema| types::schema_of(schema).ok()) {
            return Some(schema);
        }
        // Without the keys at fault, unless one of them decides what the rows are.
        let mut rest = dataset.clone();
        for problem in self.builder.source(name, dataset).err()? {
            let key = problem.path.first()?;
            if !problem.is_unknown_key() && SHAPING.contains(&key.as_str()) {
                return None;
            }
            rest.remove(key);
        }
        let source = self.builder.source(name, &rest).ok()?;
        source.plan(&SourceRequest::all()).ok().map(|plan| plan.schema)
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

    async fn put_record(&self, _: &str, mut record: Value) -> Result<()> {
        // What went wrong is told in the words of brokers and servers, which repeat what they were given.
        for words in ["error", "warning"] {
            if let Some(words) = record.get_mut(words) {
                self.file.mask().apply_to(words);
            }
        }
        (self.on_record)(&record);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = record;
        Ok(())
    }
}

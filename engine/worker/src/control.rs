//! The host contract: what Tidegate asks of whoever embeds it.
//!
//! A host implements [`ControlPlane`] and calls [`crate::run_stream`]. Every method is called from the single control task of a
//! run; task threads never touch it. The command line is one such host, over a pipeline file.

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use tidegate_api::{
    AnySink, Clock, Error, InlineSource, OutputSink, Result, SinkCtx, SinkInput, SinkPlan, SourceCtx, SourcePlan, SourceReader,
    SourceRequest,
};
use tidegate_dialect::Functions;
use tidegate_epochs::EpochStore;

/// One stage: its inputs, one output, and the steps between. The engine parses and checks the steps, not the host.
#[derive(Debug, Clone, PartialEq)]
pub struct StageDef {
    /// The stable identity of the stage's state.
    pub id: String,
    /// Datasets read.
    pub inputs: Vec<String>,
    /// The dataset produced.
    pub output: String,
    /// The steps, as in a pipeline file.
    pub steps: Vec<Value>,
}

/// The stages of a pipeline, in any order as long as they form a DAG.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Topology {
    /// The stages.
    pub stages: Vec<StageDef>,
}

/// A dataset by name: how to read it, how to write it, and what is said about its rows. The half that a pipeline does not use is never opened.
#[derive(Clone)]
#[non_exhaustive]
pub struct Binding {
    /// The dataset's name.
    pub name: String,
    /// The reading half.
    pub source: Arc<dyn InlineSource>,
    /// The writing half.
    pub sink: Arc<dyn OutputSink>,
    /// The dataset's keys that are not the connector's: `time`, `onBadData`, `deadLetter`, `require`, `changelog`.
    pub options: Map<String, Value>,
    /// What a manifest keeps so that the sink can be built again; what the sink says of itself, unless the host says more.
    pub recorded: Option<Value>,
}

impl Binding {
    /// A dataset with both halves.
    pub fn new(name: impl Into<String>, source: Arc<dyn InlineSource>, sink: Arc<dyn OutputSink>) -> Self {
        Binding { name: name.into(), source, sink, options: Map::new(), recorded: None }
    }

    /// A dataset that can only be read.
    pub fn reading(name: impl Into<String>, source: Arc<dyn InlineSource>) -> Self {
        let name = name.into();
        let sink = Arc::new(Missing { dataset: name.clone() });
        Binding::new(name, source, sink)
    }

    /// A dataset that can only be written.
    pub fn writing(name: impl Into<String>, sink: Arc<dyn OutputSink>) -> Self {
        let name = name.into();
        let source = Arc::new(Missing { dataset: name.clone() });
        Binding::new(name, source, sink)
    }

    /// A dataset that only stages produce and read.
    pub fn internal(name: impl Into<String>) -> Self {
        let name = name.into();
        let missing = Arc::new(Missing { dataset: name.clone() });
        Binding::new(name, Arc::clone(&missing) as Arc<dyn InlineSource>, missing)
    }

    /// Sets what a manifest keeps so that the sink can be built again.
    #[must_use]
    pub fn with_recorded(mut self, recorded: Value) -> Self {
        self.recorded = Some(recorded);
        self
    }

    /// Sets the keys that are not the connector's.
    #[must_use]
    pub fn with_options(mut self, options: Map<String, Value>) -> Self {
        self.options = options;
        self
    }
}

/// The half of a dataset that does not exist.
struct Missing {
    dataset: String,
}

impl InlineSource for Missing {
    fn plan(&self, _: &SourceRequest) -> Result<SourcePlan> {
        Err(Error::config(format!("dataset `{}` cannot be read; give it a `connector`", self.dataset)))
    }

    fn discover(&self, _: Option<&[u8]>) -> Result<tidegate_api::Discovered> {
        Err(Error::config(format!("dataset `{}` cannot be read", self.dataset)))
    }

    fn open(&self, _: SourceCtx) -> Result<Box<dyn SourceReader>> {
        Err(Error::config(format!("dataset `{}` cannot be read", self.dataset)))
    }
}

impl OutputSink for Missing {
    fn plan(&self, _: &SinkInput) -> Result<SinkPlan> {
        Err(Error::config(format!("dataset `{}` cannot be written; give it a `sink`", self.dataset)))
    }

    fn open(&self, _: SinkCtx) -> Result<AnySink> {
        Err(Error::config(format!("dataset `{}` cannot be written", self.dataset)))
    }
}

/// The host's answer to a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildSignal {
    /// Go on.
    Continue,
    /// The host cannot be reached: keep running, skip the record write.
    ContinueUnreachable,
    /// Stop with a final epoch.
    Stop,
}

/// What `[settings]` and `[plugins]` hold in a pipeline file, for hosts that have no file. The default is every default.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct HostSettings {
    /// The keys of `[settings]`.
    pub settings: Map<String, Value>,
    /// The tables of `[plugins]`, by name.
    pub plugins: Map<String, Value>,
    /// Where relative paths start; the process's working directory if empty.
    pub base_dir: PathBuf,
    /// Where epochs are kept. Without it `stateDir` is used, and without that, memory: a crash then starts over, and the record warns.
    pub epoch_store: Option<Arc<dyn EpochStore>>,
    /// Where epochs are kept if neither `epoch_store` nor the setting `stateDir` says so.
    pub default_state_dir: Option<PathBuf>,
    /// Time between heartbeats if the setting `heartbeatEvery` does not say so.
    pub default_heartbeat: Option<std::time::Duration>,
    /// Where transforms of the registry are looked for, before the setting `transforms`. None: where `FV_TRANSFORMS_DIR` says.
    pub transform_roots: Option<crate::compute::Roots>,
    /// How this start treats what earlier starts left.
    pub start: StartOptions,
    /// The functions that expressions may call: the dialect's own, and those the host has registered.
    pub functions: Functions,
    /// The clock of the run; the machine's without it.
    pub(crate) clock: Option<Arc<dyn Clock>>,
    /// Tells whether the holder of an older claim is gone, so that its claim need not be waited for.
    pub(crate) is_gone: Option<tidegate_epochs::open::IsGone>,
    /// Builds sinks from what a manifest recorded of them.
    pub(crate) rebuild_sink: Option<tidegate_runtime::RebuildSink>,
    /// For chaos tests: called at every kill point.
    pub(crate) kill_hook: Option<tidegate_runtime::KillHook>,
    /// Plugins already read, so that their compiled code is shared.
    pub(crate) loaded_plugins: Option<crate::compute::Plugins>,
}

impl HostSettings {
    /// Sets the keys of `[settings]`.
    #[must_use]
    pub fn with_settings(mut self, settings: Map<String, Value>) -> Self {
        self.settings = settings;
        self
    }

    /// Sets the functions that expressions may call.
    #[must_use]
    pub fn with_functions(mut self, functions: Functions) -> Self {
        self.functions = functions;
        self
    }

    /// Sets the tables of `[plugins]`.
    #[must_use]
    pub fn with_plugins(mut self, plugins: Map<String, Value>) -> Self {
        self.plugins = plugins;
        self
    }

    /// Sets where transforms of the registry are looked for; without it the environment says.
    #[must_use]
    pub fn with_transform_roots(mut self, roots: crate::compute::Roots) -> Self {
        self.transform_roots = Some(roots);
        self
    }

    /// Hands over plugins that were read before, so that compiled code is shared and the host decides how plugins are hosted.
    #[must_use]
    pub fn with_loaded_plugins(mut self, plugins: crate::compute::Plugins) -> Self {
        self.loaded_plugins = Some(plugins);
        self
    }

    /// Sets where relative paths start.
    #[must_use]
    pub fn with_base_dir(mut self, base_dir: impl Into<PathBuf>) -> Self {
        self.base_dir = base_dir.into();
        self
    }

    /// Sets where epochs are kept.
    #[must_use]
    pub fn with_epoch_store(mut self, store: Arc<dyn EpochStore>) -> Self {
        self.epoch_store = Some(store);
        self
    }

    /// Sets where epochs are kept if nothing else says so.
    #[must_use]
    pub fn with_default_state_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.default_state_dir = Some(dir.into());
        self
    }

    /// Sets the time between heartbeats if the setting does not say so.
    #[must_use]
    pub fn with_default_heartbeat(mut self, every: std::time::Duration) -> Self {
        self.default_heartbeat = Some(every);
        self
    }

    /// Sets the clock that every part of the run goes by: epochs, back-offs, `now()`, windows with `ingestTime`, the times in records.
    /// For tests that decide what time it is; heartbeats come by the machine's clock whatever stands here.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Trusts this machine's process table: a claim whose process has ended here is not waited for. For hosts that run
    /// where the earlier start ran.
    #[must_use]
    pub fn with_local_claims(mut self) -> Self {
        self.is_gone = Some(Arc::new(|claim| crate::run::is_gone(&claim.holder)));
        self
    }

    /// Builds a sink, by dataset and what [`Binding::recorded`] held, so that an epoch prepared under an older configuration can be
    /// committed after the dataset has changed.
    #[must_use]
    pub fn with_rebuild_sink(mut self, rebuild: tidegate_runtime::RebuildSink) -> Self {
        self.rebuild_sink = Some(rebuild);
        self
    }

    /// For chaos tests: calls `hook` at every kill point.
    #[must_use]
    pub fn with_kill_hook(mut self, hook: tidegate_runtime::KillHook) -> Self {
        self.kill_hook = Some(hook);
        self
    }

    /// Sets how this start treats what earlier starts left.
    #[must_use]
    pub fn with_start(mut self, start: StartOptions) -> Self {
        self.start = start;
        self
    }
}

/// How a start treats what earlier starts left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct StartOptions {
    /// Begin a new run; what is stored stays where it is and is not continued.
    pub fresh: bool,
    /// Start although another run seems to be alive; that one will be fenced.
    pub takeover: bool,
    /// Go back to this epoch instead of the newest. Rows of later epochs come again.
    pub from: Option<u64>,
    /// Stages whose state is left behind where it does not fit any more.
    pub drop_state: BTreeSet<String>,
}

impl StartOptions {
    /// Begins a new run.
    #[must_use]
    pub fn with_fresh(mut self, fresh: bool) -> Self {
        self.fresh = fresh;
        self
    }

    /// Starts although another run seems to be alive.
    #[must_use]
    pub fn with_takeover(mut self, takeover: bool) -> Self {
        self.takeover = takeover;
        self
    }

    /// Goes back to an epoch.
    #[must_use]
    pub fn with_from(mut self, from: Option<u64>) -> Self {
        self.from = from;
        self
    }

    /// Leaves the state of these stages behind where it does not fit any more.
    #[must_use]
    pub fn with_drop_state(mut self, stages: impl IntoIterator<Item = String>) -> Self {
        self.drop_state = stages.into_iter().collect();
        self
    }
}

/// What a run asks of its host. All calls come from one control task; a slow answer delays control, never data.
#[async_trait]
pub trait ControlPlane: Send + Sync {
    /// The stages of a pipeline. Called once, first.
    ///
    /// # Errors
    /// Any; the run ends as FAILED.
    async fn topology(&self, pipeline: &str) -> Result<Topology>;

    /// How to read or write a dataset. Called once for every dataset that a stage names and every dead letter.
    ///
    /// # Errors
    /// Any; reported together with all other mistakes.
    async fn resolve_dataset(&self, name: &str) -> Result<Binding>;

    /// The columns that a dataset most likely has although [`ControlPlane::resolve_dataset`] refused it, so that the stages that read it are
    /// judged all the same. Called after a refusal only; a guess that is wrong makes mistakes reported that are none.
    async fn sketch(&self, name: &str) -> Option<SchemaRef> {
        let _ = name;
        None
    }

    /// Whether a dataset that stages both produce and read is written too.
    async fn publishes(&self, name: &str) -> bool;

    /// Settings, plugins, and where epochs are kept. Called once.
    ///
    /// # Errors
    /// Any; reported together with all other mistakes.
    async fn settings(&self, pipeline: &str) -> Result<HostSettings> {
        let _ = pipeline;
        Ok(HostSettings::default())
    }

    /// One round trip for liveness and control, every `heartbeatEvery`.
    async fn heartbeat(&self, build_id: &str) -> BuildSignal;

    /// Stores the build's record: at start, after every reachable heartbeat, and at the end.
    ///
    /// # Errors
    /// Any; a record that could not be stored while running is tried again with the next heartbeat, the last one a few times.
    async fn put_record(&self, build_id: &str, record: Value) -> Result<()>;
}

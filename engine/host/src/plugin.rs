//! The host and what it loaded.

use crate::cache::{Cache, hex};
use crate::chaos::Chaos;
use crate::engine::Engines;
use crate::load::{self, Loaded, World};
use crate::metrics::PluginMetrics;
use crate::network::Tls;
use crate::sink::PluginSink;
use crate::source::PluginSource;
use crate::transform::Transform;
use crate::{Environment, HostConfig, PluginSpec, Resolver, bindings, code, wasi};
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tidegate_api::{Clock, Error, InlineSource, OutputSink, Result, ResultExt};
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};

/// Files larger than this are not read.
const MAX_FILE: u64 = 512 << 20;

/// Loads plugins. One per run; what it loaded keeps working without it.
pub struct PluginHost {
    engines: Arc<Engines>,
    cache: Option<Cache>,
    config: HostConfig,
    chaos: Option<Arc<Chaos>>,
}

impl PluginHost {
    /// Sets up the engine and its deadline thread, which ends with the last plugin of this host.
    ///
    /// # Errors
    /// `Internal` if this machine cannot run WebAssembly.
    pub fn new(config: HostConfig) -> Result<Arc<PluginHost>> {
        let engines = Arc::new(Engines::new()?);
        let cache = config.cache_dir.as_deref().and_then(|dir| Cache::open(dir, engines.engine()));
        let chaos = config.trap_every.map(|every| Arc::new(Chaos::new(every)));
        Ok(Arc::new(PluginHost { engines, cache, config, chaos }))
    }

    /// Reads, checks and compiles a plugin. Nothing of it runs yet.
    ///
    /// # Errors
    /// `Config`, naming the plugin, its file and the remedy.
    pub fn load(&self, spec: &PluginSpec) -> Result<Arc<Plugin>> {
        self.load_named(spec).context(|| format!("plugin `{}` ({})", spec.name, spec.path.display()))
    }

    fn load_named(&self, spec: &PluginSpec) -> Result<Arc<Plugin>> {
        self.load_bytes(spec, &read(&spec.path)?)
    }

    /// A plugin whose file holds these bytes.
    pub(crate) fn load_bytes(&self, spec: &PluginSpec, bytes: &[u8]) -> Result<Arc<Plugin>> {
        let digest: [u8; 32] = Sha256::digest(bytes).into();
        let Loaded { component, worlds, columns, version, imports } = load::load(bytes)?;
        let component = self.compile(&component, &digest)?;
        let shared = Arc::new(Shared {
            spec: spec.clone(),
            clock: Arc::clone(&self.config.clock),
            environment: Arc::clone(&self.config.environment),
            resolver: Arc::clone(&self.config.resolver),
            tls: Tls::default(),
            metrics: Arc::new(PluginMetrics::default()),
            engines: Arc::clone(&self.engines),
            chaos: self.chaos.clone(),
        });
        let (transform, outside) = (OnceLock::new(), OnceLock::new());
        Ok(Arc::new(Plugin { shared, component, worlds, columns, version, imports, digest, transform, outside }))
    }

    fn compile(&self, component: &[u8], digest: &[u8; 32]) -> Result<Component> {
        let engine = self.engines.engine();
        if let Some(code) = self.cache.as_ref().and_then(|cache| cache.read(digest)) {
            match code::component(engine, &code) {
                Ok(component) => return Ok(component),
                Err(error) => tracing::debug!(error = format!("{error:#}"), "cached code of a plugin does not load and is compiled again"),
            }
        }
        let compiled = Component::new(engine, component)
            .map_err(|error| Error::config(format!("it does not compile: {error:#}; build it again, or with an older toolchain")))?;
        if let Some(cache) = &self.cache {
            match compiled.serialize() {
                Ok(code) => cache.write(digest, &code),
                Err(error) => tracing::warn!(error = format!("{error:#}"), "a compiled plugin is not cached"),
            }
        }
        Ok(compiled)
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let at = |error: std::io::Error| Error::config(format!("the file cannot be read: {error}; check `path`"));
    let too_large = |length: u64| Error::config(format!("the file has {length} bytes or more; {MAX_FILE} are the most"));
    let length = std::fs::metadata(path).map_err(at)?.len();
    if length > MAX_FILE {
        return Err(too_large(length));
    }
    // A device or a pipe has no length and may have no end.
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(at)?.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(at)?;
    if bytes.len() as u64 > MAX_FILE { Err(too_large(bytes.len() as u64)) } else { Ok(bytes) }
}

/// What all instances of a plugin share.
pub(crate) struct Shared {
    pub(crate) spec: PluginSpec,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) environment: Environment,
    pub(crate) resolver: Resolver,
    pub(crate) tls: Tls,
    pub(crate) metrics: Arc<PluginMetrics>,
    pub(crate) engines: Arc<Engines>,
    pub(crate) chaos: Option<Arc<Chaos>>,
}

/// A loaded plugin. Each use of it (a step, a source, a sink) has its own instances.
pub struct Plugin {
    shared: Arc<Shared>,
    component: Component,
    worlds: Vec<World>,
    version: String,
    imports: Vec<String>,
    digest: [u8; 32],
    /// Whether it takes rows as raw columns; a transform only.
    columns: bool,
    transform: OnceLock<InstancePre<crate::state::State>>,
    outside: OnceLock<InstancePre<crate::state::State>>,
}

impl Plugin {
    /// Its name in the pipeline file.
    pub fn name(&self) -> &str {
        &self.shared.spec.name
    }

    /// The digest of its file, `sha256:` and hexadecimal.
    pub fn digest(&self) -> String {
        format!("sha256:{}", hex(&self.digest))
    }

    /// What it can be used as.
    pub fn worlds(&self) -> &[World] {
        &self.worlds
    }

    /// Whether it is a transform that takes rows as raw columns (world `transform-columns-plugin`) and not as Arrow IPC.
    pub fn takes_columns(&self) -> bool {
        self.columns
    }

    /// The version of `tidegate:plugin` it was built for.
    pub fn interface_version(&self) -> &str {
        &self.version
    }

    /// The interfaces it imports, as the component names them.
    pub fn imports(&self) -> &[String] {
        &self.imports
    }

    /// What it was loaded with.
    pub fn spec(&self) -> &PluginSpec {
        &self.shared.spec
    }

    /// What its instances used so far.
    pub fn metrics(&self) -> &Arc<PluginMetrics> {
        &self.shared.metrics
    }

    /// Binds it as a step over rows of `input` (hidden columns included). Called while planning, again after columns were pruned.
    ///
    /// # Errors
    /// `Config` if it is no transform or cannot work on such rows; `Limit` or `External` if it fails at it.
    pub fn transform(self: &Arc<Self>, config: &Value, input: SchemaRef) -> Result<Transform> {
        self.require(World::Transform)?;
        Transform::bind(self, self.effective(config)?, &input)
    }

    /// It as a source. Does nothing yet.
    ///
    /// # Errors
    /// `Config` if it is none.
    pub fn source(self: &Arc<Self>, config: &Value) -> Result<Arc<dyn InlineSource>> {
        self.require(World::Source)?;
        Ok(Arc::new(PluginSource::new(Arc::clone(self), self.effective(config)?)))
    }

    /// It as a sink. Does nothing yet.
    ///
    /// # Errors
    /// `Config` if it is none.
    pub fn sink(self: &Arc<Self>, config: &Value) -> Result<Arc<dyn OutputSink>> {
        self.require(World::Sink)?;
        Ok(Arc::new(PluginSink::new(Arc::clone(self), self.effective(config)?)))
    }

    fn require(&self, world: World) -> Result<()> {
        if self.worlds.contains(&world) {
            return Ok(());
        }
        let is = self.worlds.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ");
        Err(Error::config(format!("plugin `{}` is a {is} and cannot be used as a {world}", self.name())))
    }

    /// The plugin's configuration overlaid key by key.
    fn effective(&self, over: &Value) -> Result<Map<String, Value>> {
        let mut config = match &self.shared.spec.config {
            Value::Object(config) => config.clone(),
            Value::Null => Map::new(),
            other => return Err(Error::config(format!("the configuration of plugin `{}` is `{other}` and not a table", self.name()))),
        };
        match over {
            Value::Null => {}
            Value::Object(over) => config.extend(over.iter().map(|(key, value)| (key.clone(), value.clone()))),
            other => return Err(Error::config(format!("`config` of plugin `{}` is `{other}` and not a table", self.name()))),
        }
        Ok(config)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The transform, linked once.
    pub(crate) fn linked_transform(&self) -> Result<&InstancePre<crate::state::State>> {
        if let Some(linked) = self.transform.get() {
            return Ok(linked);
        }
        let mut linker = self.linker()?;
        wasi::link_deterministic(&mut linker).map_err(internal)?;
        let linked = linker.instantiate_pre(&self.component).map_err(|error| self.unlinked(&error))?;
        Ok(self.transform.get_or_init(|| linked))
    }

    /// The source or sink, linked once.
    pub(crate) fn linked_outside(&self) -> Result<&InstancePre<crate::state::State>> {
        if let Some(linked) = self.outside.get() {
            return Ok(linked);
        }
        let mut linker = self.linker()?;
        bindings::secrets::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).map_err(internal)?;
        wasi::link_granted(&mut linker).map_err(internal)?;
        let linked = linker.instantiate_pre(&self.component).map_err(|error| self.unlinked(&error))?;
        Ok(self.outside.get_or_init(|| linked))
    }

    fn linker(&self) -> Result<Linker<crate::state::State>> {
        let mut linker = Linker::new(self.shared.engines.engine());
        bindings::types::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).map_err(internal)?;
        bindings::log::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).map_err(internal)?;
        bindings::metrics::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).map_err(internal)?;
        bindings::control::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).map_err(internal)?;
        Ok(linker)
    }

    fn unlinked(&self, error: &wasmtime::Error) -> Error {
        let (major, minor) = load::OFFERED;
        Error::config(format!(
            "plugin `{}` does not fit this host, which offers tidegate:plugin@{major}.{minor}: {error:#}; build it against the released WIT",
            self.name()
        ))
    }
}

fn internal(error: wasmtime::Error) -> Error {
    Error::internal(format!("cannot link the host's functions: {error:#}"))
}

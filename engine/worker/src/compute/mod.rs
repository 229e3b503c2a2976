//! What a pipeline may call beside native steps and connectors: the `[plugins]` table, loaded on first use, and the registry of transforms.
//!
//! [`Plugins::read`] reads both from what a host says; [`parse_step`] then reads the steps that use them. A `wasm` step names a plugin of the
//! pipeline (`plugin`) or a transform of the registry (`ref`), a `container` step a transform of the registry.

mod backend;
mod changes;
mod container;
pub mod registry;
mod step;
mod transform;
mod typing;
mod wasm;

use crate::control::HostSettings;
use crate::settings::Settings;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_api::config::{Options, Problem};
use tidegate_api::{Error, InlineSource, OutputSink, Result, nearest};
use tidegate_host::{HostConfig, Plugin, PluginHost, PluginSpec};
use tidegate_operators::StepDef;

pub use registry::{ROOTS_VARIABLE, Registry, Roots};
pub use step::WasmStep;
pub use transform::TransformStep;

use registry::{Entry, Implementation, TransformManifest};

/// The `op`s that [`parse_step`] reads.
pub const OPS: [&str; 2] = ["wasm", "container"];

/// Reads a step whose `op` is one of [`OPS`].
///
/// # Errors
/// Every mistake in it.
pub fn parse_step(step: &Map<String, Value>, plugins: &Plugins) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    match step.get("op").and_then(Value::as_str) {
        Some("container") => Ok(Box::new(TransformStep::parse(Implementation::Container, step, plugins)?)),
        Some("wasm") if step.contains_key("ref") => Ok(Box::new(TransformStep::parse(Implementation::Wasm, step, plugins)?)),
        Some("wasm") => Ok(Box::new(WasmStep::parse(step, plugins)?)),
        other => Err(vec![Problem::at("op", format!("`{}` is no step that calls a plugin", other.unwrap_or_default()))]),
    }
}

/// The plugins a pipeline may use. Cheap to clone; a component is compiled when something first needs it.
#[derive(Clone)]
pub struct Plugins {
    inner: Arc<Inner>,
}

struct Inner {
    specs: BTreeMap<String, PluginSpec>,
    registry: Registry,
    max_bad_ratio: f64,
    config: HostConfig,
    loaded: Mutex<Loaded>,
}

#[derive(Default)]
struct Loaded {
    host: Option<Arc<PluginHost>>,
    plugins: BTreeMap<String, Arc<Plugin>>,
    /// Components of the registry, by `id@version`.
    transforms: BTreeMap<String, Arc<Plugin>>,
    /// Digests of the containers of the registry that steps use, by `id@version`.
    containers: BTreeMap<String, String>,
}

impl Loaded {
    fn host(&mut self, config: &HostConfig) -> Result<Arc<PluginHost>> {
        match &self.host {
            Some(host) => Ok(Arc::clone(host)),
            None => Ok(Arc::clone(self.host.insert(PluginHost::new(config.clone())?))),
        }
    }
}

impl Plugins {
    /// Reads the `[plugins]` of a host and the transforms of its roots, under its setting `maxBadRatio`; relative paths start at its
    /// `base_dir`. Nothing is loaded yet.
    ///
    /// # Errors
    /// Every mistake in them, with paths below `plugins` and, of the registry, at the root that the file names.
    pub fn read(host: &HostSettings, config: HostConfig) -> Result<Plugins, Vec<Problem>> {
        // A mistaken ratio is reported with the settings; the default stands in for it here.
        let ratio = host.settings.get("maxBadRatio").and_then(Value::as_f64).filter(|ratio| (0.0..=1.0).contains(ratio));
        let ratio = ratio.unwrap_or(Settings::defaults(1).max_bad_ratio);
        let mut specs = BTreeMap::new();
        let mut problems = Vec::new();
        for (name, value) in &host.plugins {
            match read_spec(name, value, &host.base_dir) {
                Ok(spec) => {
                    specs.insert(name.clone(), spec.with_max_bad_ratio(ratio));
                }
                Err(found) => problems.extend(found.into_iter().map(|problem| problem.under(["plugins", name.as_str()]))),
            }
        }
        let registry = Registry::read(&Roots::of(host)).unwrap_or_else(|found| {
            problems.extend(found);
            Registry::default()
        });
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Plugins { inner: Arc::new(Inner { specs, registry, max_bad_ratio: ratio, config, loaded: Mutex::default() }) })
    }

    /// The transforms that steps may name.
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }

    /// The component of a transform of the registry, loaded once.
    ///
    /// # Errors
    /// `Config` for a file that is no transform.
    pub(crate) fn transform(&self, manifest: &TransformManifest) -> Result<Arc<Plugin>> {
        let name = manifest.to_string();
        let Entry::Wasm { path, limits } = &manifest.entry else {
            return Err(Error::internal(format!("the transform `{name}` is no component")));
        };
        let mut loaded = self.loaded();
        if let Some(plugin) = loaded.transforms.get(&name) {
            return Ok(Arc::clone(plugin));
        }
        let spec = PluginSpec::new(name.as_str(), path).limited_to(*limits).with_max_bad_ratio(self.inner.max_bad_ratio);
        let plugin = loaded.host(&self.inner.config)?.load(&spec)?;
        loaded.transforms.insert(name, Arc::clone(&plugin));
        Ok(plugin)
    }

    /// Notes that a container is used, for the manifest of the run.
    pub(crate) fn uses_container(&self, manifest: &TransformManifest, digest: String) {
        self.loaded().containers.insert(manifest.to_string(), digest);
    }

    pub(crate) fn config(&self) -> &HostConfig {
        &self.inner.config
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.inner.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Loads a plugin, once.
    ///
    /// # Errors
    /// `Config` for a name that `[plugins]` does not have (with the nearest one) or a file that is no plugin.
    pub fn get(&self, name: &str) -> Result<Arc<Plugin>> {
        let Some(spec) = self.inner.specs.get(name) else {
            let hint = nearest::hint(name, self.inner.specs.keys().map(String::as_str));
            return Err(Error::config(format!("there is no plugin `{name}`{hint}; declare it as `[plugins.{name}]` with its `path`")));
        };
        let mut loaded = self.loaded();
        if let Some(plugin) = loaded.plugins.get(name) {
            return Ok(Arc::clone(plugin));
        }
        let plugin = loaded.host(&self.inner.config)?.load(spec)?;
        loaded.plugins.insert(name.to_string(), Arc::clone(&plugin));
        Ok(plugin)
    }

    /// The plugins whose file is not there, each with what is wrong. Nothing is loaded.
    pub fn missing(&self) -> Vec<(String, String)> {
        let missing = self.inner.specs.iter().filter_map(|(name, spec)| {
            let wrong = match std::fs::metadata(&spec.path) {
                Ok(about) if about.is_file() => return None,
                Ok(_) => "it is no file".to_string(),
                Err(error) => error.to_string(),
            };
            Some((name.clone(), format!("nothing uses plugin `{name}`, and `{}` cannot be read: {wrong}", spec.path.display())))
        });
        missing.collect()
    }

    /// The names and digests of what was loaded, for the manifest; a transform of the registry is called `id@version`.
    pub fn digests(&self) -> BTreeMap<String, String> {
        let loaded = self.loaded();
        let components = loaded.plugins.iter().chain(&loaded.transforms).map(|(name, plugin)| (name.clone(), plugin.digest()));
        components.chain(loaded.containers.clone()).collect()
    }

    /// A dataset that a plugin reads. `dataset` holds the options beside `plugin` and those under `config`.
    ///
    /// # Errors
    /// As [`Plugins::get`], and what the plugin says of its configuration.
    pub fn source(&self, name: &str, dataset: &Map<String, Value>) -> Result<Arc<dyn InlineSource>> {
        self.get(name)?.source(&self.effective_config(name, dataset))
    }

    /// A dataset that a plugin writes; options as for [`Plugins::source`].
    ///
    /// # Errors
    /// As [`Plugins::source`].
    pub fn sink(&self, name: &str, dataset: &Map<String, Value>) -> Result<Arc<dyn OutputSink>> {
        self.get(name)?.sink(&self.effective_config(name, dataset))
    }

    /// `[plugins.X].config`, overlaid key by key by the options of one use.
    fn effective_config(&self, name: &str, overlay: &Map<String, Value>) -> Value {
        let mut config = match self.inner.specs.get(name).map(|spec| &spec.config) {
            Some(Value::Object(config)) => config.clone(),
            _ => Map::new(),
        };
        for (key, value) in overlay {
            match value {
                Value::Object(nested) if key == "config" => config.extend(nested.clone()),
                _ => {
                    config.insert(key.clone(), value.clone());
                }
            }
        }
        Value::Object(config)
    }
}

fn read_spec(name: &str, value: &Value, base_dir: &Path) -> Result<PluginSpec, Vec<Problem>> {
    let Value::Object(map) = value else {
        return Err(vec![Problem::whole(format!("expected a table, found `{value}`"))]);
    };
    let mut options = Options::new(map);
    let path = options.require_string("path");
    let config = options.table("config").cloned().unwrap_or_default();
    let limits = options.table("limits").cloned().unwrap_or_default();
    let allow = options.table("allow").cloned().unwrap_or_default();
    let secrets = options.table("secrets").cloned().unwrap_or_default();
    let path: PathBuf = path.map(|path| base_dir.join(path)).unwrap_or_default();
    let spec = PluginSpec::new(name, path).with_config(Value::Object(config)).with_base_dir(base_dir);
    let spec = spec.with_limits(&limits).and_then(|spec| spec.with_allow(&allow)).and_then(|spec| spec.with_secrets(&secrets));
    let mut problems = options.finish();
    match spec {
        Ok(spec) if problems.is_empty() => Ok(spec),
        Ok(_) => Err(problems),
        Err(found) => {
            problems.extend(found);
            Err(problems)
        }
    }
}

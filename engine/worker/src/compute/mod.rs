//! Plugins of a pipeline: the `[plugins]` table, loaded on first use, and what datasets and steps make of them.

mod step;

use crate::control::HostSettings;
use crate::settings::Settings;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_api::config::{Options, Problem};
use tidegate_api::{Error, InlineSource, OutputSink, Result, nearest};
use tidegate_host::{HostConfig, Plugin, PluginHost, PluginSpec};

pub use step::WasmStep;

/// The plugins a pipeline may use. Cheap to clone; a component is compiled when something first needs it.
#[derive(Clone)]
pub struct Plugins {
    inner: Arc<Inner>,
}

struct Inner {
    specs: BTreeMap<String, PluginSpec>,
    config: HostConfig,
    loaded: Mutex<Loaded>,
}

#[derive(Default)]
struct Loaded {
    host: Option<Arc<PluginHost>>,
    plugins: BTreeMap<String, Arc<Plugin>>,
}

impl Plugins {
    /// Reads the `[plugins]` of a host, under its setting `maxBadRatio`; relative paths start at its `base_dir`. Nothing is loaded yet.
    ///
    /// # Errors
    /// Every mistake in it, with paths below `plugins`.
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
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Plugins { inner: Arc::new(Inner { specs, config, loaded: Mutex::default() }) })
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
        let mut loaded = self.inner.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(plugin) = loaded.plugins.get(name) {
            return Ok(Arc::clone(plugin));
        }
        let host = match &loaded.host {
            Some(host) => Arc::clone(host),
            None => Arc::clone(loaded.host.insert(PluginHost::new(self.inner.config.clone())?)),
        };
        let plugin = host.load(spec)?;
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

    /// The names and digests of what was loaded, for the manifest.
    pub fn digests(&self) -> BTreeMap<String, String> {
        let loaded = self.inner.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.plugins.iter().map(|(name, plugin)| (name.clone(), plugin.digest().to_string())).collect()
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

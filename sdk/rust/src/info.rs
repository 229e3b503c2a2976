//! What a plugin says about itself.

use crate::bindings::types::PluginInfo;

/// A plugin's name, version, and what `plugin inspect` shows of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    name: String,
    version: String,
    config_schema: String,
    manifest: String,
}

impl Info {
    /// A plugin of this name (kebab case) and version; as a rule `Info::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"))`.
    pub fn new(name: impl Into<String>, version: impl Into<String>) -> Self {
        Info { name: name.into(), version: version.into(), config_schema: "{}".into(), manifest: "{}".into() }
    }

    /// Sets the JSON Schema of the configuration.
    #[must_use]
    pub fn with_config_schema(mut self, schema: impl Into<String>) -> Self {
        self.config_schema = schema.into();
        self
    }

    /// Sets the manifest, a JSON object: `description`, `grants`, `notes`.
    #[must_use]
    pub fn with_manifest(mut self, manifest: impl Into<String>) -> Self {
        self.manifest = manifest.into();
        self
    }

    /// The JSON Schema of the configuration.
    pub fn config_schema(&self) -> &str {
        &self.config_schema
    }

    /// The manifest.
    pub fn manifest(&self) -> &str {
        &self.manifest
    }
}

impl From<Info> for PluginInfo {
    fn from(info: Info) -> Self {
        PluginInfo { name: info.name, version: info.version, config_schema: info.config_schema, manifest: info.manifest }
    }
}

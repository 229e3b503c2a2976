//! What a plugin says of itself, asked in an instance that is thrown away.

use crate::bindings::columns::TransformColumnsPlugin;
use crate::bindings::sink::SinkPlugin;
use crate::bindings::source::SourcePlugin;
use crate::bindings::transform::TransformPlugin;
use crate::bindings::types::PluginInfo;
use crate::fault::Failure;
use crate::instance::{Instance, TransformInstance};
use crate::load::World;
use crate::plugin::Plugin;
use std::time::Duration;
use tidegate_api::Result;

/// A plugin's own words. None of it is checked: the texts are the plugin's.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Description {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// A JSON Schema of its configuration.
    pub config_schema: String,
    /// JSON: `description`, `grants`, `notes`.
    pub manifest: String,
}

impl From<PluginInfo> for Description {
    fn from(info: PluginInfo) -> Self {
        Description { name: info.name, version: info.version, config_schema: info.config_schema, manifest: info.manifest }
    }
}

impl Plugin {
    /// Asks what it is.
    ///
    /// # Errors
    /// `Config` if it does not fit this host, `Limit` or `External` if it fails at answering.
    pub fn describe(&self) -> Result<Description> {
        let info = match self.worlds().first() {
            Some(World::Source) => {
                let mut instance: Instance<SourcePlugin> =
                    Instance::new(self, "describe", 0, |store, guest| SourcePlugin::new(store, guest))?;
                instance.call("describe", Duration::ZERO, async |store, guest| {
                    guest.tidegate_plugin_source().call_describe(store).await.map(Ok)
                })
            }
            Some(World::Sink) => {
                let mut instance: Instance<SinkPlugin> = Instance::new(self, "describe", 0, |store, guest| SinkPlugin::new(store, guest))?;
                instance
                    .call("describe", Duration::ZERO, async |store, guest| guest.tidegate_plugin_sink().call_describe(store).await.map(Ok))
            }
            Some(World::Transform) | None if self.takes_columns() => {
                let mut instance = TransformInstance::new(self, "describe", 0, |store, guest| TransformColumnsPlugin::new(store, guest))?;
                instance.call("describe", |store, guest| guest.tidegate_plugin_transform_columns().call_describe(store).map(Ok))
            }
            Some(World::Transform) | None => {
                let mut instance = TransformInstance::new(self, "describe", 0, |store, guest| TransformPlugin::new(store, guest))?;
                instance.call("describe", |store, guest| guest.tidegate_plugin_transform().call_describe(store).map(Ok))
            }
        };
        info.map(Description::from).map_err(Failure::into_error)
    }
}

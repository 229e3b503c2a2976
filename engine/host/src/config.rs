//! How a host is set up, and what it is asked to load.

use crate::{Grants, Limits};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::config::Problem;
use tidegate_api::{Clock, SystemClock};

/// Looks up an environment variable that a plugin was granted; the library itself reads no environment.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Finds the addresses of a host name. May block; called on a thread of its own.
pub type Resolver = Arc<dyn Fn(&str) -> std::io::Result<Vec<IpAddr>> + Send + Sync>;

/// The settings of a [`crate::PluginHost`].
#[derive(Clone)]
#[non_exhaustive]
pub struct HostConfig {
    /// Where compiled code is kept; `None` compiles anew in every process. Must belong to this user alone.
    pub cache_dir: Option<PathBuf>,
    /// Measures calls.
    pub clock: Arc<dyn Clock>,
    /// The values of granted environment variables.
    pub environment: Environment,
    /// For chaos runs: one call in every interval of this length costs its instance, as a trap would.
    #[doc(hidden)]
    pub trap_every: Option<Duration>,
    /// Finds the addresses behind granted names.
    pub resolver: Resolver,
}

impl Default for HostConfig {
    fn default() -> Self {
        HostConfig {
            cache_dir: None,
            clock: Arc::new(SystemClock),
            environment: Arc::new(|_| None),
            resolver: Arc::new(resolve),
            trap_every: None,
        }
    }
}

/// Asks the machine.
fn resolve(name: &str) -> std::io::Result<Vec<IpAddr>> {
    use std::net::ToSocketAddrs as _;
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

impl HostConfig {
    /// No cache, the machine's clock and names, no environment.
    pub fn new() -> Self {
        HostConfig::default()
    }

    /// Sets where compiled code is kept.
    #[must_use]
    pub fn with_cache_dir(mut self, dir: Option<PathBuf>) -> Self {
        self.cache_dir = dir;
        self
    }

    /// Sets the clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Sets how host names are resolved.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Resolver) -> Self {
        self.resolver = resolver;
        self
    }

    /// Sets how granted environment variables are looked up.
    #[must_use]
    pub fn with_environment(mut self, environment: Environment) -> Self {
        self.environment = environment;
        self
    }

    /// Ends an instance every so often.
    #[doc(hidden)]
    #[must_use]
    pub fn with_trap_every(mut self, every: Option<Duration>) -> Self {
        self.trap_every = every;
        self
    }
}

/// One plugin as the pipeline file names it.
#[derive(Clone)]
#[non_exhaustive]
pub struct PluginSpec {
    /// Its name in the file, used in every message.
    pub name: String,
    /// The component's file.
    pub path: PathBuf,
    /// Where relative directories of its grants start.
    pub base_dir: PathBuf,
    /// Its configuration, a table; a step or dataset overlays it key by key.
    pub config: Value,
    /// What an instance may use.
    pub limits: Limits,
    /// What a source or sink is granted; a transform is granted nothing.
    pub allow: Grants,
    /// What `secrets` answers, by name.
    pub secrets: BTreeMap<String, String>,
    /// The share of the last 100,000 rows that a transform may trap on before the run ends.
    pub max_bad_ratio: f64,
}

impl PluginSpec {
    /// A plugin without configuration, with default limits and no grants.
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        PluginSpec {
            name: name.into(),
            path: path.into(),
            base_dir: PathBuf::new(),
            config: Value::Object(Map::new()),
            limits: Limits::default(),
            allow: Grants::default(),
            secrets: BTreeMap::new(),
            max_bad_ratio: 0.01,
        }
    }

    /// Sets the configuration.
    #[must_use]
    pub fn with_config(mut self, config: Value) -> Self {
        self.config = config;
        self
    }

    /// Sets where relative directories of the grants start; comes before [`PluginSpec::with_allow`].
    #[must_use]
    pub fn with_base_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.base_dir = dir.into();
        self
    }

    /// Reads the table `limits`.
    ///
    /// # Errors
    /// Every mistake, below `limits`.
    pub fn with_limits(mut self, table: &Map<String, Value>) -> Result<Self, Vec<Problem>> {
        self.limits = Limits::parse(table).map_err(|problems| under("limits", problems))?;
        Ok(self)
    }

    /// Reads the table `allow`.
    ///
    /// # Errors
    /// Every mistake, below `allow`; a grant that this host cannot give is one.
    pub fn with_allow(mut self, table: &Map<String, Value>) -> Result<Self, Vec<Problem>> {
        self.allow = Grants::parse(table, &self.base_dir).map_err(|problems| under("allow", problems))?;
        Ok(self)
    }

    /// Reads the table `secrets`: a text for each name.
    ///
    /// # Errors
    /// Every mistake, below `secrets`.
    pub fn with_secrets(mut self, table: &Map<String, Value>) -> Result<Self, Vec<Problem>> {
        let mut problems = Vec::new();
        for (name, value) in table {
            match value {
                Value::String(text) => drop(self.secrets.insert(name.clone(), text.clone())),
                // The value itself is left out of the message.
                _ => problems.push(Problem::at(name, "a secret is a text, such as `\"${TOKEN}\"`")),
            }
        }
        if problems.is_empty() { Ok(self) } else { Err(under("secrets", problems)) }
    }

    /// Sets limits that were read before.
    #[must_use]
    pub fn limited_to(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the share of rows that a transform may trap on.
    #[must_use]
    pub fn with_max_bad_ratio(mut self, ratio: f64) -> Self {
        self.max_bad_ratio = ratio;
        self
    }
}

fn under(key: &str, problems: Vec<Problem>) -> Vec<Problem> {
    problems.into_iter().map(|problem| problem.under([key])).collect()
}

impl fmt::Debug for PluginSpec {
    /// Leaves the secrets' values out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PluginSpec")
            .field("name", &self.name)
            .field("path", &self.path)
            .field("limits", &self.limits)
            .field("allow", &self.allow)
            .field("secrets", &self.secrets.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn mistakes_are_found_below_their_table_and_secrets_stay_secret() {
        let spec = PluginSpec::new("p", "p.wasm").with_base_dir("/base");
        let table = json!({ "deadlin": "1s" });
        let problems = spec.clone().with_limits(table.as_object().unwrap()).unwrap_err();
        assert_eq!(problems[0].path, ["limits", "deadlin"]);
        let table = json!({ "token": 77 });
        let problems = spec.clone().with_secrets(table.as_object().unwrap()).unwrap_err();
        assert_eq!(problems[0].path, ["secrets", "token"]);
        assert!(!problems[0].message.contains("77"));
        let table = json!({ "token": "hush" });
        let spec = spec.with_secrets(table.as_object().unwrap()).unwrap();
        assert!(!format!("{spec:?}").contains("hush"));
    }
}

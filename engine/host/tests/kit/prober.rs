//! The guest `prober` of `tests/guests`: a stranger that tries to reach what it is not granted and tells what it found.

use super::run;
use arrow::array::{BooleanArray, RecordBatch, StringViewArray};
use serde_json::{Value, json};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::{Error, PollRequest, SourceCtx, SourceReader};
use tidegate_host::{HostConfig, Limits, Plugin, PluginHost, PluginSpec};

/// What one attempt came to.
#[derive(Debug)]
pub struct Attempt {
    pub succeeded: bool,
    pub found: String,
}

/// A guest of the tests, built.
pub fn guest(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/guests/target/components/{name}.wasm"));
    assert!(path.exists(), "`{}` is missing; run `cargo xtask guests` first, or all tests with `cargo xtask test`", path.display());
    path
}

/// The prober under some grants and limits.
pub struct Prober {
    config: HostConfig,
    allow: Value,
    limits: Limits,
    base: PathBuf,
}

impl Prober {
    /// Granted nothing.
    pub fn new() -> Self {
        // Compiled once for all tests; two that compile at the same time do not disturb each other.
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled");
        Prober { config: HostConfig::new().with_cache_dir(Some(cache)), allow: json!({}), limits: Limits::default(), base: PathBuf::new() }
    }

    pub fn granted(mut self, allow: Value) -> Self {
        self.allow = allow;
        self
    }

    pub fn limited(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Where relative directories of its grants start.
    pub fn based(mut self, base: &Path) -> Self {
        self.base = base.to_path_buf();
        self
    }

    /// What names lead to.
    pub fn resolving(mut self, resolve: impl Fn(&str) -> std::io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        self.config = self.config.with_resolver(Arc::new(resolve));
        self
    }

    /// What the host's environment holds.
    pub fn environment(mut self, look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        self.config = self.config.with_environment(Arc::new(look_up));
        self
    }

    pub fn load(&self) -> Arc<Plugin> {
        let spec = PluginSpec::new("stranger", guest("prober")).with_base_dir(&self.base).limited_to(self.limits);
        let host = PluginHost::new(self.config.clone()).unwrap();
        host.load(&spec.with_allow(self.allow.as_object().unwrap()).unwrap()).unwrap()
    }

    /// A reader of what these attempts come to.
    pub fn reader(&self, plugin: &Arc<Plugin>, probes: &Value, honest: bool) -> Box<dyn SourceReader> {
        let source = plugin.source(&json!({ "probes": probes, "honest": honest })).unwrap();
        let splits = source.discover(None).unwrap().added;
        source.open(SourceCtx::new(run()).with_start(splits)).unwrap()
    }

    fn polled(&self, probes: &Value, honest: bool) -> Result<Vec<Attempt>, Error> {
        let plugin = self.load();
        let mut reader = self.reader(&plugin, probes, honest);
        let polled = reader.poll(PollRequest { max_rows: 100, max_bytes: 1 << 20, wait: Duration::ZERO })?;
        Ok(polled.chunks.iter().flat_map(|chunk| attempts(&chunk.rows)).collect())
    }

    /// What the attempts come to.
    pub fn attempt(&self, probes: Value) -> Vec<Attempt> {
        self.polled(&probes, false).unwrap()
    }

    /// What the one attempt finds; it must succeed.
    #[track_caller]
    pub fn finds(&self, probe: Value) -> String {
        let [attempt] = self.attempt(json!([probe])).try_into().unwrap();
        assert!(attempt.succeeded, "{}", attempt.found);
        attempt.found
    }

    /// Why the one attempt fails; it must.
    #[track_caller]
    pub fn fails(&self, probe: Value) -> String {
        let [attempt] = self.attempt(json!([probe])).try_into().unwrap();
        assert!(!attempt.succeeded, "it succeeded: {}", attempt.found);
        attempt.found
    }

    /// What the run ends with when an honest plugin fails at this, or any plugin traps at it.
    pub fn ends_with(&self, probe: Value) -> Error {
        self.polled(&json!([probe]), true).expect_err("it must fail")
    }
}

fn attempts(rows: &RecordBatch) -> Vec<Attempt> {
    let succeeded = rows.column(1).as_any().downcast_ref::<BooleanArray>().unwrap();
    let found = rows.column(2).as_any().downcast_ref::<StringViewArray>().unwrap();
    (0..rows.num_rows()).map(|row| Attempt { succeeded: succeeded.value(row), found: found.value(row).to_string() }).collect()
}

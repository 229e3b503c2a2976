//! A server that was started: where it is, which process it is, and what tests are told of it.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Written down by `up`, so that `down` finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) endpoint: String,
    /// The environment variables by which tests find it.
    pub(crate) told: BTreeMap<String, String>,
    process: u32,
    /// When the process began, in the kernel's ticks: a number alone may be another process by now.
    started: String,
}

impl Running {
    pub(super) fn of(endpoint: String, told: BTreeMap<String, String>, process: u32) -> Result<Self> {
        let started = started_at(process).with_context(|| format!("process {process} has ended at once"))?;
        Ok(Running { endpoint, told, process, started })
    }

    /// Reads what [`Running::record`] wrote.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let record: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
        let text = |key: &str| record[key].as_str().map(str::to_string);
        let process = u32::try_from(record["process"].as_u64()?).ok()?;
        let told = record["told"].as_object().into_iter().flatten();
        let told = told.filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_string()))).collect();
        Some(Running { endpoint: text("endpoint")?, told, process, started: text("started")? })
    }

    pub(super) fn record(&self, path: &Path) -> Result<()> {
        let record = json!({ "endpoint": self.endpoint, "told": self.told, "process": self.process, "started": self.started });
        std::fs::write(path, format!("{record}\n")).with_context(|| format!("cannot write `{}`", path.display()))
    }

    pub(super) fn is_alive(&self) -> bool {
        started_at(self.process).as_deref() == Some(self.started.as_str())
    }

    /// Ends the process: by request, and by force if it does not heed that.
    pub(super) fn stop(&self) -> Result<()> {
        // PostgreSQL takes the first for "once all clients have left", and the second for "now"; the others heed either.
        for signal in ["-INT", "-TERM", "-KILL"] {
            if self.is_alive() {
                Command::new("kill").args([signal, &self.process.to_string()]).status().context("cannot start `kill`")?;
            }
            if within(Duration::from_secs(10), || !self.is_alive()) {
                return Ok(());
            }
        }
        bail!("process {} does not end", self.process)
    }
}

/// When a process began; `None` if there is none of this number, or it is a corpse.
fn started_at(process: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses and may hold anything; the fields after it are fixed.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let state = fields.first()?;
    (*state != "Z" && *state != "X").then(|| fields.get(19).map(|ticks| (*ticks).to_string())).flatten()
}

/// Waits until something holds, and says whether it came to that.
#[allow(clippy::disallowed_methods, reason = "another process has its own clock")]
pub(super) fn within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    let mut waited = Duration::ZERO;
    while !holds() {
        if waited >= limit {
            return false;
        }
        std::thread::sleep(STEP);
        waited += STEP;
    }
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may end by panicking")]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn a_record_reads_back_and_names_one_process_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("running.json");
        assert_eq!(Running::read(&path), None);
        // It waits for input that never comes.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let told = [("TIDEGATE_TEST_X".to_string(), "http://x".to_string())].into();
        let running = Running::of("http://x".into(), told, child.id()).unwrap();
        running.record(&path).unwrap();
        assert_eq!(Running::read(&path), Some(running.clone()));
        let namesake = Running { started: "1".into(), ..running.clone() };
        assert!(running.is_alive() && !namesake.is_alive());
        namesake.stop().unwrap();
        assert!(running.is_alive(), "a process of the same number and another start is left alone");
        running.stop().unwrap();
        assert!(!child.wait().unwrap().success());
    }
}

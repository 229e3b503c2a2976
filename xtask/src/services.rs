//! `cargo xtask services up|down`: servers to test against, on this machine, without containers.
//!
//! A server is installed once into the cache of this user and started on loopback. `up` starts it unless the one it started before
//! still runs; `down` ends exactly that one, known by the number and the start of its process, and no other.

pub(crate) mod s3;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What to do.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Order {
    /// Start it, unless it runs
    Up,
    /// Stop what `up` started
    Down,
}

/// A server.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Service {
    /// SeaweedFS, which speaks the language of Amazon S3
    S3,
}

pub(crate) fn run(order: Order, service: Service) -> Result<()> {
    match (order, service) {
        (Order::Up, Service::S3) => {
            let running = s3::up()?;
            println!("{}", running.endpoint);
            eprintln!("S3 at {} (keys {} / {}, bucket `{}`)", running.endpoint, s3::ACCESS_KEY, s3::SECRET_KEY, s3::BUCKET);
            eprintln!("its tests: TIDEGATE_TEST_S3={} cargo test --workspace --tests -- --ignored s3_ --skip s3_mortal", running.endpoint);
            eprintln!("the one that kills its server starts a server of its own: cargo xtask chaos");
        }
        (Order::Down, Service::S3) => match s3::down()? {
            Some(running) => eprintln!("stopped S3 at {}", running.endpoint),
            None => eprintln!("S3 is not running, or was not started by `up`"),
        },
    }
    Ok(())
}

/// A server that was started: where it is, and which process it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Running {
    pub(crate) endpoint: String,
    process: u32,
    /// When the process began, in the kernel's ticks: a number alone may be another process by now.
    started: String,
}

impl Running {
    fn of(endpoint: String, process: u32) -> Result<Self> {
        let started = started_at(process).with_context(|| format!("process {process} has ended at once"))?;
        Ok(Running { endpoint, process, started })
    }

    /// Reads what [`Running::record`] wrote.
    fn read(path: &Path) -> Option<Self> {
        let record: Value = serde_json::from_str(&std::fs::read_to_string(path).ok()?).ok()?;
        let text = |key: &str| record[key].as_str().map(str::to_string);
        let process = u32::try_from(record["process"].as_u64()?).ok()?;
        Some(Running { endpoint: text("endpoint")?, process, started: text("started")? })
    }

    fn record(&self, path: &Path) -> Result<()> {
        let record = json!({ "endpoint": self.endpoint, "process": self.process, "started": self.started });
        std::fs::write(path, format!("{record}\n")).with_context(|| format!("cannot write `{}`", path.display()))
    }

    fn is_alive(&self) -> bool {
        started_at(self.process).as_deref() == Some(self.started.as_str())
    }

    /// Ends the process: by request, and by force if it does not heed that.
    fn stop(&self) -> Result<()> {
        for signal in ["-TERM", "-KILL"] {
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
fn within(limit: Duration, holds: impl Fn() -> bool) -> bool {
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

/// Where servers are installed and keep what they hold: outside of the clone, so that another clone finds them too.
fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set")?.join("tidegate").join("services"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may end by panicking")]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn a_record_reads_back_and_names_one_process_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s3.json");
        assert_eq!(Running::read(&path), None);
        // It waits for input that never comes.
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let running = Running::of("http://x".into(), child.id()).unwrap();
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

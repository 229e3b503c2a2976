//! One process of a trial: started, watched, and perhaps killed.

use super::super::trial::Trial;
use super::log_of;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tidegate_api::{Clock, Error, Result, SystemClock};

/// How often a process is looked at.
const LOOK: Duration = Duration::from_millis(2);
/// A process that has neither ended nor come to its point by then is stuck.
const PATIENCE: Duration = Duration::from_secs(300);
/// What a kill is called that no point decides.
pub(super) const ANY_MOMENT: &str = "at any moment";
/// How much of a log is told when a process fails.
const TOLD: usize = 5;

/// See the module's documentation. A process that is dropped is killed.
pub(super) struct Life<'a> {
    child: Child,
    trial: &'a Trial,
}

impl<'a> Life<'a> {
    /// Starts a process; what it says goes to the trial's log.
    pub(super) fn start(path: &Path, trial: &'a Trial) -> Result<Life<'a>> {
        let cannot = |error: std::io::Error| Error::config(format!("cannot start a run in `{}`", trial.folder.display())).caused_by(error);
        fs::create_dir_all(&trial.folder).map_err(cannot)?;
        for stale in [trial.paused(), trial.record()] {
            match fs::remove_file(&stale) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(cannot(error)),
                Ok(()) | Err(_) => {}
            }
        }
        let log = OpenOptions::new().create(true).append(true).open(log_of(trial)).map_err(cannot)?;
        let told = serde_json::to_string(trial).map_err(|error| Error::internal(error.to_string()))?;
        let mut command = Command::new(std::env::current_exe().map_err(cannot)?);
        command.arg("run").arg(path).arg(format!("--trial={told}"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().map_err(cannot)?;
        Ok(Life { child, trial })
    }

    /// Waits until it stands at its point; answers which, and the epoch. `None` if it ended before.
    ///
    /// # Errors
    /// If it fails, or does neither.
    pub(super) fn until_it_stands(mut self) -> Result<Option<Standing<'a>>> {
        let since = SystemClock.monotonic();
        loop {
            if let Ok(at) = fs::read_to_string(self.trial.paused()) {
                return Ok(Some(Standing { life: self, at }));
            }
            if let Some(status) = self.status()? {
                return if status.success() { Ok(None) } else { Err(self.failed(status)) };
            }
            if SystemClock.monotonic().saturating_sub(since) > PATIENCE {
                return Err(Error::internal(format!("a start did nothing for {PATIENCE:?}{}", self.said())));
            }
            rest(LOOK);
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// If it fails.
    pub(super) fn until_it_ends(mut self) -> Result<()> {
        let status = self.child.wait().map_err(|error| Error::internal("cannot wait for a run").caused_by(error))?;
        if status.success() { Ok(()) } else { Err(self.failed(status)) }
    }

    fn status(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().map_err(|error| Error::internal("cannot look at a run").caused_by(error))
    }

    fn failed(&self, status: ExitStatus) -> Error {
        Error::data(format!("a start ended with {status}{}", self.said()))
    }

    /// The end of its log.
    fn said(&self) -> String {
        let log = fs::read_to_string(log_of(self.trial)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(TOLD)..].join("\n  ");
        if last.is_empty() { String::new() } else { format!("; it said\n  {last}") }
    }
}

impl Drop for Life<'_> {
    fn drop(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A process that stands at its point, or has passed it.
pub(super) struct Standing<'a> {
    life: Life<'a>,
    /// The point and the epoch.
    pub(super) at: String,
}

impl Standing<'_> {
    /// SIGKILL.
    pub(super) fn kill(mut self) -> Result<()> {
        let killed = self.life.child.kill().and_then(|()| self.life.child.wait());
        killed.map(drop).map_err(|error| Error::internal("cannot kill a run").caused_by(error))
    }
}

/// A run that is left alone; its last record, and how long it took.
pub(super) fn calm(path: &Path, trial: &Trial) -> Result<(Value, Duration)> {
    let since = SystemClock.monotonic();
    Life::start(path, trial)?.until_it_ends()?;
    let took = SystemClock.monotonic().saturating_sub(since);
    let place = trial.record();
    let record = File::open(&place).map_err(|error| Error::internal(format!("`{}` is missing", place.display())).caused_by(error))?;
    Ok((serde_json::from_reader(record).map_err(|error| Error::internal(error.to_string()))?, took))
}

/// How many rows a run has read, by source.
pub(super) fn rows_by_source(record: &Value) -> BTreeMap<String, u64> {
    let nodes = record["metrics"]["nodes"].as_array().into_iter().flatten();
    let sources = nodes.filter(|node| node["kind"] == "source");
    sources.filter_map(|node| Some((node["name"].as_str()?.to_string(), node["rowsIn"].as_u64()?))).collect()
}

/// Waits for another process, which no clock of ours can hurry.
#[allow(clippy::disallowed_methods, reason = "the process watched has its own clock")]
pub(super) fn rest(time: Duration) {
    std::thread::sleep(time);
}

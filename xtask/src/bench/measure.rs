//! One run of a program over a pipeline file, measured from outside.

use anyhow::{Context, Result};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use wait4::Wait4;

/// How long and how often.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs {
    pub(super) events: u64,
    pub(super) times: u32,
}

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    events: u64,
    wall: Duration,
    cpu: Duration,
    peak_kib: u64,
}

impl Measured {
    /// Millions of events per second of the clock.
    pub(super) fn rate(&self) -> f64 {
        self.events as f64 / 1e6 / self.wall.as_secs_f64()
    }

    /// Millions of events per second of CPU time, user and system, of the whole process.
    pub(super) fn cpu_rate(&self) -> f64 {
        self.events as f64 / 1e6 / self.cpu.as_secs_f64()
    }

    /// Peak resident memory in MiB.
    pub(super) fn peak_mib(&self) -> f64 {
        self.peak_kib as f64 / 1024.0
    }

    /// Keeps the run that took less CPU time: noise only ever adds.
    pub(super) fn keep_best(self, best: &mut Option<Measured>) {
        if best.is_none_or(|best| self.cpu < best.cpu) {
            *best = Some(self);
        }
    }
}

/// Runs a program over a pipeline to its end.
///
/// # Errors
/// What the program wrote, if it fails.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures with the machine's clock")]
pub(super) fn measure(binary: &Path, text: &str, events: u64) -> Result<Measured> {
    // A folder of its own, so that the state is fresh.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("query.toml");
    std::fs::write(&file, text)?;
    let mut command = Command::new(binary);
    command.arg("run").arg(&file).env("STREAM_STATE_STORE", folder.path().join("state"));
    let started = std::time::Instant::now();
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::from(std::fs::File::create(folder.path().join("log"))?))
        .spawn()
        .with_context(|| format!("cannot start `{}`", binary.display()))?;
    let ended = child.wait4()?;
    let wall = started.elapsed();
    if !ended.status.success() {
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        anyhow::bail!("it ended with {}:\n{log}", ended.status);
    }
    Ok(Measured { events, wall, cpu: ended.rusage.utime + ended.rusage.stime, peak_kib: ended.rusage.maxrss / 1024 })
}

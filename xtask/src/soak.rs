//! `cargo xtask soak`: whether resident memory stays flat while keys come and go without end.
//!
//! The pipelines lie in `tests/soak/`; the suite runs them too, for a moment, and looks at their state instead.

use crate::process::{cargo, run, target};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often resident memory is read.
const EVERY: Duration = Duration::from_millis(100);

/// How far above the greatest of the first tenth memory may go.
const ALLOWED: f64 = 1.10;

/// Fewer samples in the first tenth than this say nothing.
const FEWEST: usize = 5;

pub(crate) fn run_all(root: &Path, millions: f64, filter: Option<&str>, built: Option<PathBuf>) -> Result<()> {
    let binary = match built {
        Some(binary) => binary,
        None => {
            run(cargo(root).args(["build", "--release", "--package", "tidegate", "--bin", "tidegate"]))?;
            target(root).join("release").join("tidegate")
        }
    };
    let events = (millions * 1e6) as u64;
    println!("| operator | events | seconds | start, MiB | later, MiB | at the end, MiB | later / start |");
    println!("|---|---|---|---|---|---|---|");
    let mut grown = Vec::new();
    for (name, text) in pipelines(root, filter)? {
        let (samples, took) = sample(&binary, &text, events).with_context(|| format!("pipeline `{name}`"))?;
        let tenth = samples.len() / 10;
        anyhow::ensure!(
            tenth >= FEWEST,
            "pipeline `{name}` ended after {:.1} s, too soon to say anything; give it more --millions",
            took.as_secs_f64()
        );
        let (start, later) = (greatest(&samples[..tenth]), greatest(&samples[tenth..]));
        let end = greatest(&samples[samples.len() - tenth..]);
        let ratio = later / start;
        println!("| {name} | {events} | {:.0} | {start:.1} | {later:.1} | {end:.1} | {ratio:.3} |", took.as_secs_f64());
        if ratio > ALLOWED {
            grown.push(name);
        }
    }
    anyhow::ensure!(grown.is_empty(), "resident memory grew by more than a tenth: {}", grown.join(", "));
    Ok(())
}

/// The pipelines by name, with their text.
fn pipelines(root: &Path, filter: Option<&str>) -> Result<BTreeMap<String, String>> {
    let mut pipelines = BTreeMap::new();
    for entry in std::fs::read_dir(root.join("tests/soak"))? {
        let file = entry?.path();
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if file.extension().is_some_and(|ending| ending == "toml") && filter.is_none_or(|wanted| name.contains(wanted)) {
            pipelines.insert(name, std::fs::read_to_string(&file)?);
        }
    }
    anyhow::ensure!(!pipelines.is_empty(), "no pipeline is called so; they are the files in tests/soak");
    Ok(pipelines)
}

fn greatest(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(0.0, f64::max)
}

/// Runs a pipeline to its end; its resident memory in MiB, in equal steps of time, and how long it took.
#[allow(clippy::disallowed_methods, reason = "a measurement goes by the machine's clock")]
fn sample(binary: &Path, text: &str, events: u64) -> Result<(Vec<f64>, Duration)> {
    // A folder of its own, so that the state is fresh.
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("pipeline.toml");
    let lines = text.lines().map(|line| if line.starts_with("events = ") { format!("events = {events}") } else { line.to_string() });
    std::fs::write(&file, lines.collect::<Vec<_>>().join("\n"))?;
    let log = folder.path().join("log");
    let mut child = Command::new(binary)
        .arg("run")
        .arg(&file)
        .env("STREAM_STATE_STORE", folder.path().join("state"))
        .stdout(Stdio::null())
        .stderr(Stdio::from(std::fs::File::create(&log)?))
        .spawn()
        .context("cannot start it")?;
    let started = Instant::now();
    let mut samples = Vec::new();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        // A process that has just ended has no memory any more.
        samples.extend(resident(child.id())?);
        std::thread::sleep(EVERY);
    };
    anyhow::ensure!(status.success(), "it ended with {status}:\n{}", std::fs::read_to_string(&log).unwrap_or_default());
    Ok((samples, started.elapsed()))
}

/// A process's resident memory in MiB; `None` once it has ended.
fn resident(process: u32) -> Result<Option<f64>> {
    let path = format!("/proc/{process}/status");
    let text =
        std::fs::read_to_string(&path).with_context(|| format!("cannot read `{path}`; resident memory is read as Linux tells it"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    Ok(kib.map(|kib| kib / 1024.0))
}

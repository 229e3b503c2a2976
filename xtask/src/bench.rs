//! `cargo xtask bench`: whole pipelines, measured from outside: events per second, CPU time, peak memory.

use crate::process::{cargo, run, target};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use wait4::Wait4;

/// How often each is run; the best counts.
const TIMES: usize = 3;

/// What one run took.
struct Measured {
    events: u64,
    wall: Duration,
    cpu: Duration,
    peak_kib: u64,
}

impl Measured {
    fn per_cpu_second(&self) -> f64 {
        self.events as f64 / self.cpu.as_secs_f64()
    }
}

pub(crate) fn run_all(root: &Path, millions: f64, filter: Option<&str>, peer: Option<&Path>) -> Result<()> {
    run(cargo(root).args(["build", "--release", "--package", "tidegate", "--bin", "tidegate"]))?;
    let binary = target(root).join("release").join("tidegate");
    let events = (millions * 1e6) as u64;
    let queries = queries(root, filter)?;
    match peer {
        None => alone(&binary, &queries, events),
        Some(peer) => beside(&binary, peer, &queries, events),
    }
}

/// The queries by name, with the text of their pipeline files; `filter` is names with commas between, or `nexmark` for all.
fn queries(root: &Path, filter: Option<&str>) -> Result<BTreeMap<String, String>> {
    let mut queries = BTreeMap::new();
    for entry in std::fs::read_dir(root.join("examples/nexmark"))? {
        let file = entry?.path();
        let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if file.extension().is_some_and(|ending| ending == "toml")
            && filter.is_none_or(|names| names.split(',').any(|wanted| wanted == name || wanted == "nexmark"))
        {
            // A query runs in a folder of its own; its side table stays where it is.
            let data = format!("path = \"{}/data/", root.join("examples/nexmark").display());
            queries.insert(name, std::fs::read_to_string(&file)?.replace("path = \"data/", &data));
        }
    }
    anyhow::ensure!(!queries.is_empty(), "no query is called so; they are the files in examples/nexmark");
    Ok(queries)
}

/// Our own generator, which makes only the columns a query asks for.
fn alone(binary: &Path, queries: &BTreeMap<String, String>, events: u64) -> Result<()> {
    println!("{:<12} {:>12} {:>14} {:>8} {:>8} {:>9}", "query", "events/s", "events/CPU-s", "wall s", "CPU s", "peak MiB");
    for (name, text) in queries {
        let lines = text.lines().map(|line| if line.starts_with("events = ") { format!("events = {events}") } else { line.to_string() });
        let text = lines.collect::<Vec<_>>().join("\n");
        let mut best = None;
        for _ in 0..TIMES {
            keep_best(&mut best, measure(binary, &text, events).with_context(|| format!("query `{name}`"))?);
        }
        let Some(best) = best else { continue };
        println!(
            "{name:<12} {:>12.0} {:>14.0} {:>8.2} {:>8.2} {:>9.0}",
            events as f64 / best.wall.as_secs_f64(),
            best.per_cpu_second(),
            best.wall.as_secs_f64(),
            best.cpu.as_secs_f64(),
            best.peak_kib as f64 / 1024.0,
        );
    }
    Ok(())
}

/// Another engine's binary beside ours, in turn, both reading the same events from one Parquet file.
fn beside(binary: &Path, peer: &Path, queries: &BTreeMap<String, String>, events: u64) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = events_file(binary, folder.path(), events)?;
    let ours = format!("[datasets.events]\nconnector = \"files\"\npath = \"{}\"\nformat = \"parquet\"\n", file.display());
    let theirs = format!("[datasets.events]\nconnector = \"file\"\npath = \"{}\"\nformat = \"parquet\"\npartitions = 2\n", file.display());
    println!("{:<12} {:>14} {:>14} {:>7} {:>10} {:>10}", "query", "ours", "peer", "ratio", "ours MiB", "peer MiB");
    let mut logs = Vec::new();
    for (name, text) in queries {
        let (mut us, mut them) = (None, None);
        for _ in 0..TIMES {
            keep_best(&mut us, measure(binary, &with_source(text, &ours), events).with_context(|| format!("query `{name}`"))?);
            // The peer calls a stage a transform; the steps are the same.
            let text = with_source(text, &theirs).replace("[[stages]]", "[[transforms]]").replace("[[stages.", "[[transforms.");
            keep_best(&mut them, measure(peer, &text, events).with_context(|| format!("query `{name}` in `{}`", peer.display()))?);
        }
        let (Some(us), Some(them)) = (us, them) else { continue };
        let ratio = us.per_cpu_second() / them.per_cpu_second();
        logs.push(ratio.ln());
        println!(
            "{name:<12} {:>14.0} {:>14.0} {ratio:>7.1} {:>10.0} {:>10.0}",
            us.per_cpu_second(),
            them.per_cpu_second(),
            us.peak_kib as f64 / 1024.0,
            them.peak_kib as f64 / 1024.0,
        );
    }
    let mean = (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
    println!("events per CPU second, best of {TIMES}; geometric mean of the ratios {mean:.1}");
    Ok(())
}

/// Writes events, every column of them, to one Parquet file; times as epoch milliseconds, because the peer reads no timestamps.
fn events_file(binary: &Path, folder: &Path, events: u64) -> Result<PathBuf> {
    let text = format!(
        "name = \"events\"\n[settings]\nparallelism = 1\ncheckpointEvery = \"1h\"\n\
         [datasets.events]\nconnector = \"nexmark\"\nevents = {events}\nstepMs = 10\nseed = 42\n\
         [datasets.out]\nsink = \"files\"\npath = \"{}\"\nformat = \"parquet\"\n\
         [[stages]]\ninputs = [\"events\"]\noutput = \"out\"\nsteps = [{{ op = \"applyExpression\", column = \"dateTime\", expression = \"epochMillis(dateTime)\" }}, \
         {{ op = \"applyExpression\", column = \"expires\", expression = \"epochMillis(expires)\" }}]\n",
        folder.join("out").display()
    );
    measure(binary, &text, events).context("while writing the events to a file")?;
    let parts = std::fs::read_dir(folder.join("out"))?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    let mut parts = parts.into_iter().filter(|path| path.extension().is_some_and(|ending| ending == "parquet"));
    let part = parts.next().context("no events were written")?;
    anyhow::ensure!(parts.next().is_none(), "the events lie in more than one file");
    Ok(part)
}

/// The query with another source: the table `[datasets.events]` ends at the next empty line.
fn with_source(text: &str, source: &str) -> String {
    let from = text.find("[datasets.events]").unwrap_or(0);
    let to = text[from..].find("\n\n").map_or(text.len(), |at| from + at + 1);
    format!("{}{source}{}", &text[..from], &text[to..])
}

fn keep_best(best: &mut Option<Measured>, measured: Measured) {
    // Noise only ever adds.
    if best.as_ref().is_none_or(|best| measured.cpu < best.cpu) {
        *best = Some(measured);
    }
}

#[allow(clippy::disallowed_methods, reason = "a benchmark measures with the machine's clock")]
fn measure(binary: &Path, text: &str, events: u64) -> Result<Measured> {
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
        .context("cannot start it")?;
    let ended = child.wait4()?;
    if !ended.status.success() {
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        anyhow::bail!("it ended with {}:\n{log}", ended.status);
    }
    Ok(Measured { events, wall: started.elapsed(), cpu: ended.rusage.utime + ended.rusage.stime, peak_kib: ended.rusage.maxrss / 1024 })
}

//! What epochs cost: bytes of a snapshot and time of a restore with a large state, whole pipelines with an epoch every second beside
//! the same without, and how long a barrier takes when nothing moves faster than a slow reader.

use super::measure::{Measured, measure};
use super::query;
use super::report::{between, setting};
use crate::process::{cargo, run, target};
use anyhow::{Context, Result};
use clap::Args;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What is measured.
#[derive(Debug, Args)]
pub(crate) struct Epochs {
    /// Window state in snapshots, in MiB
    #[arg(long, default_value_t = 1024)]
    mib: u64,
    /// Events per pipeline, in millions; a run should take ten seconds
    #[arg(long, default_value_t = 200.0)]
    millions: f64,
    /// How often each is run in turn; the best counts
    #[arg(long, default_value_t = 3)]
    times: u32,
    /// A binary that is there already; without it a release is built
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Leave the large state out, whose benchmark is compiled apart
    #[arg(long)]
    only_pipelines: bool,
    /// Write the tables into docs/performance.md
    #[arg(long)]
    write: bool,
}

/// One window over a day, so that every epoch finds nearly all of a large state changed.
const PANE: &str = r#"name = "pane"

[datasets.events]
connector = "nexmark"
events = 0
partitions = 2
stepMs = 1

[datasets.out]
sink = "blackhole"

[[stages]]
inputs = ["events"]
output = "out"
steps = [
  { op = "filter", expression = 'type == "bid"' },
  { op = "windowedAggregate", timeColumn = "dateTime", window = "24h", groupBy = ["auction"], aggs = [{ op = "count", alias = "bids" }] },
]
"#;

/// About as many rows leave its windows as come in.
const HELD_UP: &str = r#"name = "held-up"

[settings]
parallelism = 1
checkpointEvery = "1s"
edgeRows = ROWS

[datasets.events]
connector = "nexmark"

[datasets.out]
sink = "stdout"

[[stages]]
inputs = ["events"]
output = "out"
steps = [
  { op = "filter", expression = 'type == "bid"' },
  { op = "windowedAggregate", timeColumn = "dateTime", windowMs = 100, groupBy = ["auction", "bidder"], aggs = [{ op = "count", alias = "bids" }] },
]
"#;

/// How long a pipeline is held up, and what its reader takes at a time.
const HELD_UP_FOR: Duration = Duration::from_secs(30);
const READ: usize = 64 << 10;
const READ_EVERY: Duration = Duration::from_millis(20);

pub(super) fn run_all(root: &Path, epochs: &Epochs) -> Result<()> {
    let binary = match &epochs.binary {
        Some(binary) => binary.clone(),
        None => {
            run(cargo(root).args(["build", "--release", "--package", "tidegate", "--bin", "tidegate"]))?;
            target(root).join("release").join("tidegate")
        }
    };
    let mut text = format!("{}.\n\n", setting());
    if !epochs.only_pipelines {
        text += &large_state(root, epochs.mib)?;
    }
    text += &throughput(root, &binary, epochs)?;
    text += &barriers(&binary)?;
    if epochs.write {
        let document = root.join("docs/performance.md");
        let old = std::fs::read_to_string(&document)?;
        std::fs::write(&document, between(&old, "epochs", &text)?)?;
        println!("written to {}", document.display());
    }
    Ok(())
}

/// The table of the benchmark of a single operator.
fn large_state(root: &Path, mib: u64) -> Result<String> {
    let mut command = cargo(root);
    command.args(["bench", "--package", "tidegate", "--bench", "epochs", "--", "--mib", &mib.to_string()]);
    let output = command.stderr(Stdio::inherit()).output()?;
    anyhow::ensure!(output.status.success(), "the benchmark ended with {}", output.status);
    let table: String =
        String::from_utf8(output.stdout)?.lines().filter(|line| line.starts_with('|')).map(|line| format!("{line}\n")).collect();
    println!("{table}");
    Ok(format!("A window with count, sum and max per int64, one task:\n\n{table}\n"))
}

/// Pipelines with an epoch every second and with none but the last, in turn.
fn throughput(root: &Path, binary: &Path, epochs: &Epochs) -> Result<String> {
    let events = (epochs.millions * 1e6) as u64;
    let mut queries = query::all(root, Some("q5,q7,q17"))?;
    queries.push(query::Query { name: "pane".into(), text: PANE.into() });
    let mut table = String::from(
        "| pipeline | M events/s without | with an epoch every second | ratio | per CPU second without | with | ratio | MiB without | with |\n",
    );
    table += &format!("|{}\n", "---|".repeat(9));
    print!("{table}");
    for query in queries {
        let text = query.generated(events, 2);
        let every = |interval: &str| text.replacen("parallelism = 2\n", &format!("parallelism = 2\ncheckpointEvery = \"{interval}\"\n"), 1);
        let (mut without, mut with): (Option<Measured>, Option<Measured>) = (None, None);
        let (mut fastest_without, mut fastest_with) = (0.0f64, 0.0f64);
        for _ in 0..epochs.times.max(1) {
            for (interval, best, fastest) in [("1h", &mut without, &mut fastest_without), ("1s", &mut with, &mut fastest_with)] {
                let measured = measure(binary, &every(interval), events).with_context(|| format!("pipeline `{}`", query.name))?;
                *fastest = fastest.max(measured.rate());
                measured.keep_best(best);
            }
        }
        let (Some(without), Some(with)) = (without, with) else { continue };
        let row = format!(
            "| {} | {fastest_without:.1} | {fastest_with:.1} | {:.2} | {:.1} | {:.1} | {:.2} | {:.0} | {:.0} |\n",
            query.name,
            fastest_with / fastest_without,
            without.cpu_rate(),
            with.cpu_rate(),
            with.cpu_rate() / without.cpu_rate(),
            without.peak_mib(),
            with.peak_mib(),
        );
        print!("{row}");
        table += &row;
    }
    Ok(format!("Whole pipelines, {} million events, two tasks per step, best of {}:\n\n{table}\n", epochs.millions, epochs.times))
}

/// How long barriers take while a reader of the output holds everything up.
fn barriers(binary: &Path) -> Result<String> {
    let mut table = String::from(
        "| rows an edge holds | epochs | rows/s that leave | from barrier to acknowledgement, median ms | most ms | rows that leave meanwhile, most |\n",
    );
    table += &format!("|{}\n", "---|".repeat(6));
    print!("{table}");
    for rows in [65_536, 8_192, 1_024] {
        let (mut times, rate) = held_up(binary, &HELD_UP.replace("ROWS", &rows.to_string()))?;
        times.sort_by(f64::total_cmp);
        let (Some(median), Some(most)) = (times.get(times.len() / 2), times.last()) else {
            anyhow::bail!("no epoch was complete within {HELD_UP_FOR:?}");
        };
        let row = format!("| {rows} | {} | {rate:.0} | {median:.0} | {most:.0} | {:.0} |\n", times.len(), most / 1e3 * rate);
        print!("{row}");
        table += &row;
    }
    Ok(format!("A source, a window and a sink whose reader is slower than anything else, one task each:\n\n{table}"))
}

/// The milliseconds from barrier to acknowledgement of each epoch, and how many rows left a second.
#[allow(clippy::disallowed_methods, reason = "a benchmark measures with the machine's clock")]
fn held_up(binary: &Path, text: &str) -> Result<(Vec<f64>, f64)> {
    let folder = tempfile::tempdir()?;
    let (file, log) = (folder.path().join("held-up.toml"), folder.path().join("log"));
    std::fs::write(&file, text)?;
    let mut command = Command::new(binary);
    command.arg("run").arg(&file).env("STREAM_STATE_STORE", folder.path().join("state"));
    let mut child = command
        .env("TIDEGATE_LOG", "warn,tidegate_runtime::coordinator=debug")
        .stdout(Stdio::piped())
        .stderr(Stdio::from(std::fs::File::create(&log)?))
        .spawn()
        .with_context(|| format!("cannot start `{}`", binary.display()))?;
    let mut output = child.stdout.take().context("the output is piped")?;
    let (started, mut lines, mut buffer) = (Instant::now(), 0usize, vec![0; READ]);
    while started.elapsed() < HELD_UP_FOR {
        let read = output.read(&mut buffer)?;
        anyhow::ensure!(read > 0, "it ended early:\n{}", std::fs::read_to_string(&log)?);
        lines += buffer[..read].iter().filter(|byte| **byte == b'\n').count();
        std::thread::sleep(READ_EVERY);
    }
    let rate = lines as f64 / started.elapsed().as_secs_f64();
    child.kill()?;
    child.wait()?;
    let told = std::fs::read_to_string(&log)?;
    let times = told.split_whitespace().filter_map(|word| word.strip_prefix("acknowledged_ms=")?.parse().ok()).collect();
    Ok((times, rate))
}

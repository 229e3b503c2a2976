//! `cargo xtask bench`: whole pipelines, measured from outside: events per second, CPU time, peak memory.
//!
//! | file | what |
//! |---|---|
//! | `query.rs` | the pipelines, and what is changed in them to be measured |
//! | `measure.rs` | one run of a program |
//! | `alone.rs` | every query on our own generator, at one and two tasks |
//! | `beside.rs` | every query beside another engine, on the same events |
//! | `epochs.rs` | what epochs cost: bytes, throughput, barriers |
//! | `plugins.rs` | a plugin's step beside the native one |
//! | `report.rs` | tables, in a terminal and in a document |
//! | `chart.rs` | bars as an SVG |

mod alone;
mod beside;
mod chart;
mod epochs;
mod measure;
mod plugins;
mod query;
mod report;

use crate::process::{cargo, run, target};
use anyhow::Result;
use clap::{Args, Subcommand};
use std::path::{Path, PathBuf};

/// What is measured.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    apart: Option<Apart>,
    /// Events per query, in millions
    #[arg(long, default_value_t = 10.0)]
    millions: f64,
    /// How often each is run; the best counts
    #[arg(long, default_value_t = 3)]
    times: u32,
    /// The binary of FusionVault Streams, to be run in turn with ours on the same events from one Parquet file
    #[arg(long)]
    peer: Option<PathBuf>,
    /// A folder with its own versions of queries, for those that use what it lacks
    #[arg(long, requires = "peer")]
    peer_queries: Option<PathBuf>,
    /// Write the table into docs/performance.md, and the chart beside it
    #[arg(long)]
    write: bool,
    /// Only these queries, with commas between
    queries: Option<String>,
}

/// What is measured in other ways than a query.
#[derive(Debug, Subcommand)]
enum Apart {
    /// What epochs cost: bytes of a snapshot, time of a restore, throughput, barriers that are held up
    Epochs(epochs::Epochs),
    /// What the sandbox costs: a plugin's step beside the native one, and a plugin as the source
    Plugins(plugins::Plugins),
}

/// Where a table goes, and its chart.
struct Place {
    /// The name of the marker comments around the table.
    mark: &'static str,
    /// The chart's file in `docs`.
    chart: &'static str,
}

pub(crate) fn run_all(root: &Path, bench: &Bench) -> Result<()> {
    match &bench.apart {
        Some(Apart::Epochs(epochs)) => return epochs::run_all(root, epochs),
        Some(Apart::Plugins(plugins)) => return plugins::run_all(root, plugins),
        None => {}
    }
    run(cargo(root).args(["build", "--release", "--package", "tidegate", "--bin", "tidegate"]))?;
    let binary = target(root).join("release").join("tidegate");
    let queries = query::all(root, bench.queries.as_deref())?;
    let runs = measure::Runs { events: (bench.millions * 1e6) as u64, times: bench.times.max(1) };
    let (report, place) = match &bench.peer {
        None => (alone::run(&binary, &queries, runs)?, Place { mark: "nexmark", chart: "nexmark.svg" }),
        Some(peer) => (
            beside::run(&binary, peer, bench.peer_queries.as_deref(), &queries, runs)?,
            Place { mark: "nexmark-peer", chart: "nexmark-peer.svg" },
        ),
    };
    if bench.write {
        report.write(root, &place, runs)?;
    }
    Ok(())
}

//! Everything a newcomer or CI runs: `cargo xtask demo`, `test`, `guests`, `bench`, `soak`, `chaos`, `simulate`, `services`.
//!
//! Each command checks the machine first, installs what is missing where it may, and builds what it needs, so that a fresh
//! clone needs nothing but Rust and a C compiler.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a build tool talks to its terminal")]

mod bench;
mod demo;
mod fuzz;
mod guests;
mod process;
mod services;
mod simulate;
mod soak;
mod system;
mod test;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the plugins and run the flights example
    Demo,
    /// Format check, clippy, every test, documentation: what CI runs
    Test,
    /// Build the plugins and the guests of the tests
    Guests,
    /// Run whole pipelines and print events per second, CPU time and memory
    Bench(bench::Bench),
    /// Search for inputs that break the expression parser or a decoder
    Fuzz {
        /// How long, per target
        #[arg(long, default_value_t = 5.0)]
        minutes: f64,
        /// Only targets whose name contains this: expressions, json, csv, avro, protobuf
        filter: Option<String>,
    },
    /// Run pipelines with ever new keys and fail if resident memory grows
    Soak {
        /// Events per pipeline, in millions
        #[arg(long, default_value_t = 100.0)]
        millions: f64,
        /// A binary that is there already; without it a release is built
        #[arg(long)]
        binary: Option<PathBuf>,
        /// Only pipelines whose name contains this: window, session, dedup, join, topn
        filter: Option<String>,
    },
    /// Kill, freeze and starve running pipelines of disk again and again, and compare what they wrote
    Chaos {
        /// How many deaths and freezes, over all pipelines, and as many with a Kafka broker; faults of the disk come on top
        #[arg(long, default_value_t = 30)]
        kills: u32,
    },
    /// Simulate whole jobs under many seeds, and fail with the first that breaks a promise
    Simulate {
        /// How many seeds
        #[arg(long, default_value_t = 100_000)]
        seeds: u64,
        /// The first of them; without it one that the clock decides
        #[arg(long)]
        first: Option<u64>,
        /// Jobs of simple operators instead, which leave more seeds a second to the protocol alone
        #[arg(long)]
        simple: bool,
    },
    /// Start or stop the servers that tests run against
    Services {
        /// What to do
        #[arg(value_enum)]
        order: services::Order,
        /// Which server; all of them without it
        #[arg(value_enum)]
        service: Option<services::Service>,
    },
}

fn main() -> Result<ExitCode> {
    if let Some(code) = fuzz::as_wrapper() {
        return Ok(code);
    }
    let root = root();
    match Args::parse().task {
        Task::Demo => demo::run(&root),
        Task::Test => test::run_all(&root),
        Task::Guests => {
            system::check()?;
            guests::build(&root, &process::guest_target(&root))
        }
        Task::Bench(bench) => bench::run_all(&root, &bench),
        Task::Fuzz { minutes, filter } => fuzz::run_all(&root, minutes, filter.as_deref()),
        Task::Soak { millions, binary, filter } => soak::run_all(&root, millions, filter.as_deref(), binary),
        Task::Chaos { kills } => test::chaos(&root, kills),
        Task::Simulate { seeds, first, simple } => simulate::run_all(&root, seeds, first, simple),
        Task::Services { order, service } => services::run(order, service),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// The repository's root.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

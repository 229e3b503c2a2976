//! The command: its arguments, and one file per verb.
//!
//! Results go to stdout and nothing else does; logs, progress and mistakes go to stderr. Every verb that reads a pipeline file
//! reads it the same way, variables included.

mod chaos;
mod drain;
mod inspect;
mod lists;
mod logs;
mod new;
mod peek;
mod place;
mod plan;
mod plugin;
mod printer;
mod progress;
mod run;
mod sample;
mod savepoint;
mod trial;

use clap::{Parser, Subcommand, ValueEnum};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tidegate::StartOptions;
use tidegate::file::{Mistake, PipelineFile, STDIN};
use tracing_subscriber::EnvFilter;

/// A streaming dataflow engine whose connectors and transforms are WebAssembly components.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run a pipeline until its input ends or it is stopped
    Run {
        /// The pipeline file, or `-` to read it from standard input
        file: PathBuf,
        /// Try it out: read at most so many rows of each input, print what comes of them, write nothing and keep nothing
        #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["fresh", "takeover", "from", "drop_state"])]
        limit: Option<u64>,
        /// Start over instead of going on from the newest epoch; what the run before has written stays where it is
        #[arg(long)]
        fresh: bool,
        /// Start although another run of this pipeline seems to be alive; that one is fenced
        #[arg(long)]
        takeover: bool,
        /// Go back to this epoch instead of the newest; rows of later ones repeat, and sinks in which they do are named
        #[arg(long, value_name = "EPOCH", conflicts_with = "fresh")]
        from: Option<u64>,
        /// Leave the state of this stage behind if it does not fit the pipeline any more; may be given several times
        #[arg(long, value_name = "STAGE", conflicts_with = "fresh")]
        drop_state: Vec<String>,
        /// For chaos tests: stand still at the named point of the protocol, the given number of times in
        #[arg(long, hide = true, value_name = "POINT[:N]")]
        pause_at: Option<String>,
        /// For chaos tests: freeze the whole process there, until it is thawed from outside
        #[arg(long, hide = true, value_name = "POINT[:N]")]
        freeze_at: Option<String>,
        /// For `chaos`, which says here how its children differ from a run
        #[arg(long, hide = true)]
        trial: Option<String>,
    },
    /// Run a bounded pipeline undisturbed and killed, and say what each sink is worth; writes to a folder of its own
    Chaos {
        /// The pipeline file
        file: PathBuf,
        /// How often to kill it
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
        kills: u32,
        /// Decides the order of the kills; equal seeds decide alike
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// How to print what was found
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
        /// Keep state, outputs and logs of the runs even if nothing was convicted
        #[arg(long)]
        keep: bool,
    },
    /// Check a pipeline file and everything it names, without running it
    Validate {
        /// The pipeline file
        file: PathBuf,
    },
    /// Write a pipeline file that reads an input that is there, with its schema
    New {
        /// Files, by a path or pattern relative to the new file, or a topic as `kafka://HOST:PORT/TOPIC`
        #[arg(long, value_name = "INPUT")]
        from: String,
        /// The new file; without it the input's name and `.toml`
        file: Option<PathBuf>,
    },
    /// Show the first rows of an input, what cannot be read of them, and the schema to paste; the file may be unfinished
    Peek {
        /// The pipeline file
        file: PathBuf,
        /// The dataset, if the file reads more than one
        dataset: Option<String>,
        /// How many rows to show
        #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
        rows: u64,
        /// How many seconds to wait for the next row
        #[arg(long, value_name = "SECONDS", default_value_t = 10)]
        wait: u64,
    },
    /// Show the tasks, edges, columns and guarantees of a pipeline
    Plan {
        /// The pipeline file
        file: PathBuf,
        /// How to print it
        #[arg(long, value_enum, default_value_t = PlanFormat::Text)]
        format: PlanFormat,
        /// Also show which expressions run row by row, and why
        #[arg(long)]
        explain: bool,
    },
    /// Show the epochs, positions, state and pending commits of a pipeline; exit code 1 if something is damaged
    Inspect {
        /// A state directory, the address of a bucket, or the pipeline file
        state: String,
        /// Look into this epoch instead of the newest
        #[arg(long)]
        epoch: Option<u64>,
        /// How many keys to show of each stage
        #[arg(long, default_value_t = 5)]
        keys: usize,
        /// Read every object of every epoch and compare its checksum
        #[arg(long)]
        verify: bool,
        /// How to print it
        #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
        format: ReportFormat,
    },
    /// Copy one epoch to a place of its own, from which a pipeline can start; the pipeline may be running
    Savepoint {
        /// A state directory, the address of a bucket, or the pipeline file
        state: String,
        /// An empty directory or an unused prefix of a bucket
        dest: String,
        /// Copy this epoch instead of the newest that is committed
        #[arg(long)]
        epoch: Option<u64>,
    },
    /// Begin, build, look at and try out a plugin
    #[command(subcommand, arg_required_else_help = true)]
    Plugin(plugin::PluginVerb),
    /// List the steps, or show one
    Steps {
        /// A step's `op`
        name: Option<String>,
    },
    /// List the connectors, or show one
    Connectors {
        /// A connector
        name: Option<String>,
    },
    /// List the functions of the dialect, or show one
    Functions {
        /// A function
        name: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PlanFormat {
    /// For a terminal
    Text,
    /// A flow chart in Mermaid's language
    Mermaid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    /// For people
    Text,
    /// A JSON object per line
    Json,
}

/// Exit codes that no error kind has.
const CONVICTED: u8 = 1;
const USAGE: u8 = 64;
const CONFIG: u8 = 78;

pub(crate) fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version are answers, everything else is a mistake in usage.
            let code = if error.use_stderr() { USAGE } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let filter = EnvFilter::try_from_env("TIDEGATE_LOG").unwrap_or_else(|_| EnvFilter::new("warn"));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(logs::stderr).with_ansi(std::io::stderr().is_terminal());
    logs.compact().init();
    let code = match args.verb {
        Verb::Run { file, limit, fresh, takeover, from, drop_state, pause_at, freeze_at, trial } => {
            let start = StartOptions::default().with_fresh(fresh).with_takeover(takeover).with_from(from).with_drop_state(drop_state);
            run::run(&file, &run::RunArgs { start, limit, pause_at, freeze_at, trial })
        }
        Verb::Chaos { file, kills, seed, format, keep } => {
            chaos::chaos(&file, &chaos::ChaosArgs { kills, seed, json: format == ReportFormat::Json, keep })
        }
        Verb::Validate { file } => plan::validate(&file),
        Verb::New { from, file } => new::new(&from, file.as_deref()),
        Verb::Peek { file, dataset, rows, wait } => peek::peek(&file, dataset.as_deref(), rows, std::time::Duration::from_secs(wait)),
        Verb::Plan { file, format, explain } => plan::plan(&file, format, explain),
        Verb::Inspect { state, epoch, keys, verify, format } => {
            inspect::run(&state, &inspect::Wanted { epoch, keys, verify, json: format == ReportFormat::Json })
        }
        Verb::Savepoint { state, dest, epoch } => savepoint::run(&state, &dest, epoch),
        Verb::Plugin(verb) => plugin::main(verb),
        Verb::Steps { name } => lists::steps(name.as_deref()),
        Verb::Connectors { name } => lists::connectors(name.as_deref()),
        Verb::Functions { name } => lists::functions(name.as_deref()),
    };
    ExitCode::from(code)
}

/// Reads a pipeline file as every verb does.
fn read(path: &Path) -> Result<Arc<PipelineFile>, Vec<Mistake>> {
    let variable = Arc::new(|name: &str| std::env::var(name).ok());
    let file = if path == Path::new(STDIN) { PipelineFile::from_stdin(variable) } else { PipelineFile::read(path, variable) }?;
    logs::mask_with(file.mask());
    Ok(Arc::new(file))
}

/// Prints mistakes, and gives the exit code for them.
fn refuse(mistakes: &[Mistake]) -> u8 {
    for mistake in mistakes {
        eprintln!("{mistake}");
    }
    let count = mistakes.len();
    eprintln!("{count} mistake{} found", if count == 1 { "" } else { "s" });
    CONFIG
}

/// Prints why a verb failed, and gives the exit code for it.
fn failed(error: &tidegate_api::Error) -> u8 {
    eprintln!("failed: {error}");
    error.kind().exit_code()
}

//! `tidegate plugin run`: one plugin without a pipeline, through the same host and the same contracts.
//!
//! Rows go to stdout as JSON lines and nothing else does; bad rows, with the reason, and a summary go to stderr.

mod sink;

use super::LoadArgs;
use crate::cli::drain::{Drain, show_bad};
use crate::cli::printer::Printer;
use clap::Args;
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use tidegate::host::{Plugin, World};
use tidegate_api::config::Problem;
use tidegate_api::{Clock, Generation, InlineSource, Output, Result, RunIdentity, StepCtx, SystemClock};
use tidegate_connectors::ConnectorCtx;
use tidegate_connectors::stdout::is_closed_pipe;

/// What `run` was asked for.
#[derive(Debug, Args)]
pub(in crate::cli) struct RunArgs {
    /// The component
    file: PathBuf,
    /// The rows for a transform or a sink: a file of JSON lines, or of another format that its ending names
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The columns of the input, as a pipeline file says them: [{ name = "id", type = "int64" }]; inferred if not given
    #[arg(long)]
    schema: Option<String>,
    /// Stop after so many rows of the source or the input
    #[arg(long, value_name = "ROWS")]
    limit: Option<u64>,
    #[command(flatten)]
    load: LoadArgs,
}

/// Runs it, and gives the exit code.
pub(super) fn run(args: &RunArgs) -> u8 {
    let plugin = match super::load(&args.file, Some(&args.load)) {
        Ok(plugin) => plugin,
        Err(code) => return code,
    };
    let world = plugin.worlds().first().copied();
    let wants_input = world != Some(World::Source);
    if wants_input != args.input.is_some() {
        let what = world.map_or("plugin", World::interface);
        eprintln!(
            "`{}` is a {what} and {}",
            args.file.display(),
            if wants_input { "needs rows: `--input FILE`" } else { "takes no `--input`" }
        );
        return super::USAGE;
    }
    let input = match args.input().transpose() {
        Ok(input) => input,
        Err(problems) => {
            problems.iter().for_each(|problem| eprintln!("{problem}"));
            return super::CONFIG;
        }
    };
    let identity = RunIdentity::new("plugin-run", tidegate::new_run_id(), Generation(1), plugin.name());
    let done = match (world, input) {
        (Some(World::Transform), Some(input)) => transform(&plugin, &*input, &identity, args.limit),
        (Some(World::Sink), Some(input)) => sink::sink(&plugin, &*input, &identity, args.limit),
        _ => source(&plugin, &identity, args.limit),
    };
    match done {
        Err(error) if !is_closed_pipe(&error) => super::failed(&error),
        _ => 0,
    }
}

impl RunArgs {
    /// The input as a dataset of files would be read.
    fn input(&self) -> Option<Result<Arc<dyn InlineSource>, Vec<Problem>>> {
        let input = self.input.as_ref()?;
        let mut options = Map::new();
        options.insert("path".into(), json!(input.display().to_string()));
        if let Some(text) = &self.schema {
            match toml::from_str::<Map<String, Value>>(&format!("schema = {text}")) {
                Ok(schema) => options.extend(schema),
                Err(_) => {
                    return Some(Err(vec![Problem::at(
                        "--schema",
                        format!("`{text}` is no list such as `[{{ name = \"id\", type = \"int64\" }}]`"),
                    )]));
                }
            }
        }
        let made = tidegate_connectors::source("files", &options, &ConnectorCtx::new("", "input"));
        Some(made.map_err(|problems| problems.into_iter().map(|problem| problem.under(["--input"])).collect()))
    }
}

fn source(plugin: &Arc<Plugin>, identity: &RunIdentity, limit: Option<u64>) -> Result<()> {
    let source = plugin.source(&Value::Null)?;
    let mut drain = Drain::open(&*source, identity, limit)?;
    let mut printer = Printer::open(drain.schema(), identity)?;
    let (mut printed, mut bad) = (0, 0);
    while let Some(chunks) = drain.next()? {
        for chunk in chunks {
            chunk.bad.iter().for_each(show_bad);
            bad += chunk.bad.len();
            printed += printer.print(&chunk.rows)?;
        }
    }
    eprintln!("{printed} rows of {} splits, {bad} bad", drain.splits());
    Ok(())
}

fn transform(plugin: &Arc<Plugin>, input: &dyn InlineSource, identity: &RunIdentity, limit: Option<u64>) -> Result<()> {
    let mut drain = Drain::open(input, identity, limit)?;
    let transform = plugin.transform(&Value::Null, drain.schema())?;
    let mut step = transform.factory.open(StepCtx::new(identity.clone(), 0, 1))?;
    let mut printer = Printer::open(Arc::clone(&transform.output), identity)?;
    // One epoch, and so one time for all rows.
    let now = SystemClock.wall();
    let (mut read, mut printed, mut bad) = (0, 0, 0);
    while let Some(chunks) = drain.next()? {
        for chunk in chunks {
            let mut output = Output::default();
            read += chunk.rows.num_rows() + chunk.bad.len();
            step.apply(chunk.rows, now, &mut output)?;
            chunk.bad.iter().chain(&output.bad).for_each(show_bad);
            bad += chunk.bad.len() + output.bad.len();
            for rows in &output.batches {
                printed += printer.print(rows)?;
            }
        }
    }
    eprintln!("{read} rows in, {printed} out, {bad} bad");
    Ok(())
}

//! `cargo xtask demo`: a real stream through a sandboxed component, out exactly once.

use crate::process::{self, build_commands, guest_target, target};
use crate::{guests, system};
use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

pub(crate) fn run_pipeline(root: &Path, file: &Path, arguments: &[&str]) -> Result<()> {
    process::run(Command::new(target(root).join("debug").join("tidegate")).arg("run").arg(file).args(arguments))
}

/// The folders that `flights.toml` writes; what other examples write beside them is not the demo's.
const OUTPUTS: [&str; 2] = ["out/masked", "out/hourly"];

/// Removes what an earlier demo wrote. A run that starts over leaves the parts of the closed run where readers have seen them, so
/// without this the rows would be there twice.
fn remove_output(out: &Path) -> Result<()> {
    match std::fs::remove_dir_all(out) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).with_context(|| format!("cannot remove `{}`", out.display())),
        _ => Ok(()),
    }
}

pub(crate) fn run(root: &Path) -> Result<()> {
    system::check()?;
    guests::build(root, &guest_target(root))?;
    build_commands(root)?;
    let example = root.join("examples").join("flights");
    OUTPUTS.iter().try_for_each(|output| remove_output(&example.join(output)))?;
    eprintln!("\nDelays per origin and hour, first week of 2013, tail numbers masked by a plugin:");
    run_pipeline(root, &example.join("flights.toml"), &["--fresh"])?;
    eprintln!(
        "\nThe same rows are in examples/flights/out, one part per epoch. The pipeline once more, going on: it is complete, and says so."
    );
    run_pipeline(root, &example.join("flights.toml"), &[])
}

//! `cargo xtask demo`: a real stream through a sandboxed component, out exactly once.

use crate::process::{self, cargo, guest_target, target};
use crate::{guests, system};
use anyhow::Result;
use std::path::Path;
use std::process::Command;

pub(crate) fn run_pipeline(root: &Path, file: &Path, arguments: &[&str]) -> Result<()> {
    process::run(Command::new(target(root).join("debug").join("tidegate")).arg("run").arg(file).args(arguments))
}

pub(crate) fn run(root: &Path) -> Result<()> {
    system::check()?;
    guests::build(root, &guest_target(root))?;
    process::run(cargo(root).args(["build", "--package", "tidegate", "--bin", "tidegate"]))?;
    let example = root.join("examples").join("flights");
    eprintln!("\nDelays per origin and hour, first week of 2013, tail numbers masked by a plugin:");
    run_pipeline(root, &example.join("flights.toml"), &["--fresh"])?;
    eprintln!("\nThe same rows are in examples/flights/out, one part per epoch. Run it again: it is complete, and says so.");
    run_pipeline(root, &example.join("flights.toml"), &[])
}

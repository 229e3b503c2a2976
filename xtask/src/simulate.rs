//! `cargo xtask simulate`: the seeded simulation at length. The suite runs a few thousand fresh seeds of it.

use crate::process::{cargo, run};
use anyhow::{Context, Result};
use std::path::Path;

/// Where the jobs of real operators are, and those of simple ones: package, test target, test.
const WHOLE: [&str; 3] = ["tidegate-tests", "simulation", "outputs_are_right_and_invariants_hold_whatever_happens"];
const SIMPLE: [&str; 3] = ["tidegate-runtime", "simulation", "every_row_comes_out_once_whatever_dies_and_when"];

pub(crate) fn run_all(root: &Path, seeds: u64, first: Option<u64>, simple: bool) -> Result<()> {
    anyhow::ensure!(seeds > 0, "nothing is said by no seeds at all");
    let [package, target, test] = if simple { SIMPLE } else { WHOLE };
    let mut command = cargo(root);
    command.args(["test", "--package", package, "--test", target, "--", "--nocapture", "--exact", test]);
    command.env("TIDEGATE_SIM_SEEDS", seeds.to_string());
    if let Some(first) = first {
        command.env("TIDEGATE_SIM_FIRST", first.to_string());
    }
    run(&mut command).context("a seed failed, or could not be run; what it printed says which, and how to repeat it")?;
    println!("{seeds} seeds passed");
    Ok(())
}

//! `cargo xtask test`: what CI runs. `cargo xtask chaos`: the crash test at length.

use crate::process::{build_commands, cargo, guest_target, run};
use crate::{guests, system};
use anyhow::Result;
use std::path::Path;

pub(crate) fn run_all(root: &Path) -> Result<()> {
    system::check()?;
    run(cargo(root).args(["fmt", "--all", "--check"]))?;
    guests::build(root, &guest_target(root))?;
    // The command is what the end-to-end tests run, so it is built before them, with the tests' own profile.
    build_commands(root)?;
    run(cargo(root).args(["test", "--workspace"]))?;
    guests::test(root, &guest_target(root))?;
    run(cargo(root).args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    run(cargo(root).args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    eprintln!("all checks passed");
    Ok(())
}

pub(crate) fn chaos(root: &Path, kills: u32) -> Result<()> {
    system::check()?;
    guests::build(root, &guest_target(root))?;
    build_commands(root)?;
    let mut command = cargo(root);
    command.args(["test", "--package", "tidegate-tests", "--test", "chaos", "--", "--nocapture"]);
    run(command.env("TIDEGATE_CHAOS_KILLS", kills.to_string()))
}

//! `cargo xtask test`: what CI runs. `cargo xtask chaos`: the crash test at length.

use crate::process::{build_commands, cargo, guest_target, run};
use crate::services::s3;
use crate::{guests, system};
use anyhow::{Result, bail};
use std::path::Path;

pub(crate) fn run_all(root: &Path) -> Result<()> {
    system::check()?;
    run(cargo(root).args(["fmt", "--all", "--check"]))?;
    guests::build(root, &guest_target(root))?;
    // The command is what the end-to-end tests run, so it is built before them, with the tests' own profile.
    build_commands(root)?;
    run(cargo(root).args(["test", "--workspace"]))?;
    let untested = on_servers(root)?;
    guests::test(root, &guest_target(root))?;
    run(cargo(root).args(["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"]))?;
    run(cargo(root).args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    if let Some(untested) = untested {
        bail!("every other check passed, but {untested}");
    }
    eprintln!("all checks passed");
    Ok(())
}

/// The tests that need a real server. Answers what could not be tested on this machine, and why: that is no pass.
fn on_servers(root: &Path) -> Result<Option<String>> {
    let servers = s3::Private::start().and_then(|server| Ok((server, s3::Mortal::new()?)));
    let (server, mortal) = match servers {
        Ok(servers) => servers,
        Err(error) => return Ok(Some(format!("the S3 store was NOT tested, for want of a server: {error:#}"))),
    };
    let mut command = cargo(root);
    command.args(["test", "--workspace", "--tests", "--", "--ignored", "s3_"]).env("TIDEGATE_TEST_S3", &server.endpoint);
    command.env("TIDEGATE_TEST_S3_MORTAL", mortal.told());
    run(&mut command)?;
    Ok(None)
}

pub(crate) fn chaos(root: &Path, kills: u32) -> Result<()> {
    system::check()?;
    guests::build(root, &guest_target(root))?;
    build_commands(root)?;
    let mortal = s3::Mortal::new()?;
    let mut command = cargo(root);
    // One after the other: what is measured against a clock of its own must not wait for the other.
    command.args(["test", "--package", "tidegate-tests", "--test", "chaos", "--"]);
    command.args(["--nocapture", "--include-ignored", "--test-threads=1"]);
    run(command.env("TIDEGATE_CHAOS_KILLS", kills.to_string()).env("TIDEGATE_TEST_S3_MORTAL", mortal.told()))
}

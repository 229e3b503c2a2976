//! What a machine must have before anything is built.

use crate::process::{answers, run};
use anyhow::{Result, bail};
use std::process::Command;

/// A system tool, and the Debian package that brings it.
struct Tool {
    program: &'static str,
    version: &'static str,
    package: &'static str,
}

/// Everything beside Rust that a build calls. C code is compiled for compression libraries.
const TOOLS: &[Tool] =
    &[Tool { program: "cc", version: "--version", package: "gcc" }, Tool { program: "git", version: "--version", package: "git" }];

/// Checks every tool, installing what is missing as root.
///
/// # Errors
/// The one `apt-get install` line, for everybody else.
pub(crate) fn check() -> Result<()> {
    let missing: Vec<&str> = TOOLS.iter().filter(|tool| !answers(tool.program, tool.version)).map(|tool| tool.package).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Installs Debian packages, if this user may.
pub(crate) fn install(packages: &[&str]) -> Result<()> {
    if !answers("apt-get", "--version") {
        bail!("missing: {}; install them with your system's package manager", packages.join(", "));
    }
    if !is_root() {
        bail!("missing: {}; run\n  sudo apt-get install -y --no-install-recommends {}", packages.join(", "), packages.join(" "));
    }
    run(Command::new("apt-get").args(["-qq", "update"]))?;
    run(Command::new("apt-get").args(["install", "-y", "-qq", "--no-install-recommends"]).args(packages))
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

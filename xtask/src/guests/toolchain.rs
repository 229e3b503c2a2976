//! The Rust that builds the guests: what there is, fetched if rustup can, or Debian's, installed if that is possible.

use crate::process::{answers, run};
use crate::system;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use tidegate_guests::{DEBIAN_PACKAGES, Debian, Toolchain, Way, installed};

/// What a guest is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Nothing but the imports of its world.
    Core,
    /// WASI 0.2.
    Wasi,
}

impl Target {
    fn way(self, toolchain: &Toolchain) -> Way {
        match (self, toolchain) {
            (Target::Core, _) => Way::Core,
            (Target::Wasi, Toolchain::Own) => Way::Wasip2,
            // The one that Debian's packages can link; an adapter lifts it when the module is packed.
            (Target::Wasi, Toolchain::Debian(_)) => Way::Wasip1,
        }
    }
}

/// Takes what is there; asks rustup for what is missing; then Debian.
pub(super) fn find(root: &Path) -> Result<Toolchain> {
    let wanted = [Target::Core, Target::Wasi].map(|target| target.way(&Toolchain::Own).triple());
    let missing: Vec<&str> = wanted.into_iter().filter(|triple| !installed(root, triple)).collect();
    if missing.is_empty() {
        return Ok(Toolchain::Own);
    }
    let added = answers("rustup", "--version") && run(Command::new("rustup").args(["target", "add"]).args(&missing)).is_ok();
    if added && missing.iter().all(|triple| installed(root, triple)) {
        return Ok(Toolchain::Own);
    }
    eprintln!("rustup cannot fetch {}; taking Debian's packages", missing.join(" and "));
    if Debian::find().is_err() {
        system::install(DEBIAN_PACKAGES).with_context(|| format!("a Rust for {} is needed to build plugins", missing.join(" and ")))?;
    }
    Ok(Toolchain::Debian(Debian::find()?))
}

/// Builds packages of a workspace in release and returns the folder of the modules.
pub(super) fn build(toolchain: &Toolchain, workspace: &Path, into: &Path, target: Target, packages: &[&str]) -> Result<PathBuf> {
    let triple = target.way(toolchain).triple();
    let mut command = toolchain.build(workspace, triple)?;
    command.arg("--quiet").env("CARGO_TARGET_DIR", into);
    for package in packages {
        command.args(["--package", package]);
    }
    run(&mut command)?;
    Ok(into.join(triple).join("release"))
}

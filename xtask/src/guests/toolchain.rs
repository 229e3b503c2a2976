//! A Rust that can build for wasm: rustup's, or where rustup cannot fetch a target, Debian's.

use crate::process::{answers, cargo, run};
use crate::system;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a guest is built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// Nothing but the imports of its world.
    Core,
    /// WASI 0.2.
    Wasi,
}

impl Target {
    const ALL: [Target; 2] = [Target::Core, Target::Wasi];

    /// Rust's name of it, where the whole standard library is at hand.
    fn triple(self) -> &'static str {
        match self {
            Target::Core => "wasm32-unknown-unknown",
            Target::Wasi => "wasm32-wasip2",
        }
    }

    /// The one that Debian's packages can link: WASI 0.1, which an adapter lifts when the module is packed.
    fn debian_triple(self) -> &'static str {
        match self {
            Target::Core => "wasm32-unknown-unknown",
            Target::Wasi => "wasm32-wasip1",
        }
    }
}

/// Debian's packages of a Rust for wasm, its linker, and WASI's libc.
const PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm", "lld-22", "wasi-libc"];
const LINKER: &str = "wasm-ld-22";

/// A found toolchain.
#[derive(Debug)]
pub(super) enum Toolchain {
    /// The Rust that runs this task has the targets.
    Own,
    /// Debian's; it brings the standard library as source.
    Debian { cargo: PathBuf, rustc: PathBuf, libc: PathBuf },
}

impl Toolchain {
    /// Takes what is there; asks rustup for what is missing; then Debian.
    pub(super) fn find() -> Result<Toolchain> {
        let missing: Vec<&str> = Target::ALL.iter().map(|target| target.triple()).filter(|triple| !installed(triple)).collect();
        if missing.is_empty() {
            return Ok(Toolchain::Own);
        }
        let added = answers("rustup", "--version") && run(Command::new("rustup").args(["target", "add"]).args(&missing)).is_ok();
        if added && missing.iter().all(|triple| installed(triple)) {
            return Ok(Toolchain::Own);
        }
        eprintln!("rustup cannot fetch {}; taking Debian's packages", missing.join(" and "));
        let packages: Vec<&str> = PACKAGES.iter().copied().filter(|package| files_of(package).is_err()).collect();
        if !packages.is_empty() {
            system::install(&packages).with_context(|| format!("a Rust for {} is needed to build plugins", missing.join(" and ")))?;
        }
        Ok(Toolchain::Debian {
            cargo: file_of("cargo-web", |path| path.ends_with("bin/cargo"))?,
            rustc: file_of("rustc-web", |path| path.ends_with("bin/rustc"))?,
            libc: file_of("wasi-libc", |path| path.file_name().is_some_and(|name| name == "libc.a"))?,
        })
    }

    /// Builds packages of a workspace in release and returns the folder of the modules.
    pub(super) fn build(&self, workspace: &Path, into: &Path, target: Target, packages: &[&str]) -> Result<PathBuf> {
        let (triple, mut command) = match self {
            Toolchain::Own => (target.triple(), cargo(workspace)),
            Toolchain::Debian { cargo, rustc, libc } => (target.debian_triple(), debian(workspace, cargo, rustc, libc)?),
        };
        command.args(["build", "--release", "--quiet", "--target", triple]);
        if matches!(self, Toolchain::Debian { .. }) {
            command.arg("-Zbuild-std=std,panic_abort");
        }
        for package in packages {
            command.args(["--package", package]);
        }
        // Flags meant for the native build would reach the guest as well.
        command.env("CARGO_TARGET_DIR", into).env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        run(&mut command)?;
        Ok(into.join(triple).join("release"))
    }
}

fn debian(workspace: &Path, cargo: &Path, rustc: &Path, libc: &Path) -> Result<Command> {
    let mut command = Command::new(cargo);
    let folder = |path: &Path| path.parent().map(Path::to_path_buf).context("a file has a folder");
    let old = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([folder(cargo)?, folder(rustc)?].into_iter().chain(std::env::split_paths(&old)))?;
    command.current_dir(workspace).env("PATH", path);
    // What rustup and the outer cargo have set would lead back to them.
    for name in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC_WRAPPER", "RUSTDOC"] {
        command.env_remove(name);
    }
    command.env("RUSTC", rustc).env("RUSTC_BOOTSTRAP", "1");
    for target in Target::ALL {
        let name = target.debian_triple().replace('-', "_").to_uppercase();
        command.env(format!("CARGO_TARGET_{name}_LINKER"), LINKER);
    }
    command.env("CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS", format!("-L {}", folder(libc)?.display()));
    Ok(command)
}

/// Whether the Rust that runs this task has the standard library for a target.
fn installed(triple: &str) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "target-libdir", "--target", triple]).output();
    output.is_ok_and(|output| output.status.success() && Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

fn files_of(package: &str) -> Result<Vec<PathBuf>> {
    let output = Command::new("dpkg").args(["-L", package]).output().context("cannot start `dpkg`")?;
    if !output.status.success() {
        bail!("the package `{package}` is not installed");
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect())
}

fn file_of(package: &str, wanted: impl Fn(&Path) -> bool) -> Result<PathBuf> {
    files_of(package)?.into_iter().find(|path| wanted(path)).with_context(|| format!("the package `{package}` lacks a file it had"))
}

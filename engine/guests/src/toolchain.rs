//! A Rust that can build for wasm: the one at hand, or where rustup cannot fetch a target, Debian's.

use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's packages of a Rust for wasm, its linker, and WASI's libc.
pub const DEBIAN_PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src", "rust-web-llvm", "lld-22", "wasi-libc"];
const LINKER: &str = "wasm-ld-22";
/// What Debian's packages can link.
const DEBIAN_TRIPLES: [&str; 2] = ["wasm32-unknown-unknown", "wasm32-wasip1"];

/// A found toolchain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Toolchain {
    /// The Rust at hand has the target.
    Own,
    /// Debian's; it brings the standard library as source.
    Debian(Debian),
}

/// Debian's Rust for wasm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Debian {
    cargo: PathBuf,
    rustc: PathBuf,
    libc: PathBuf,
}

impl Debian {
    /// Finds its packages.
    ///
    /// # Errors
    /// `Missing`, with those that are not installed.
    pub fn find() -> Result<Debian> {
        let missing: Vec<&str> = DEBIAN_PACKAGES.iter().copied().filter(|package| files_of(package).is_none()).collect();
        if !missing.is_empty() {
            return Err(Error::Missing(missing.join(" ")));
        }
        Ok(Debian {
            cargo: file_of("cargo-web", |path| path.ends_with("bin/cargo"))?,
            rustc: file_of("rustc-web", |path| path.ends_with("bin/rustc"))?,
            libc: file_of("wasi-libc", |path| path.file_name().is_some_and(|name| name == "libc.a"))?,
        })
    }

    /// One that is nowhere.
    #[cfg(test)]
    pub(crate) fn for_tests() -> Debian {
        let none = || PathBuf::from("/nowhere/bin/none");
        Debian { cargo: none(), rustc: none(), libc: none() }
    }

    fn command(&self, folder: &Path) -> Result<Command> {
        let parent = |path: &Path| path.parent().map(Path::to_path_buf).unwrap_or_default();
        let mut command = Command::new(&self.cargo);
        let old = std::env::var_os("PATH").unwrap_or_default();
        let path = [parent(&self.cargo), parent(&self.rustc)].into_iter().chain(std::env::split_paths(&old));
        let path = std::env::join_paths(path).map_err(|error| Error::Io(format!("`PATH` cannot be extended: {error}")))?;
        command.current_dir(folder).env("PATH", path);
        // What rustup and an outer cargo have set would lead back to them.
        for name in ["RUSTUP_TOOLCHAIN", "CARGO", "RUSTC_WRAPPER", "RUSTDOC"] {
            command.env_remove(name);
        }
        command.env("RUSTC", &self.rustc).env("RUSTC_BOOTSTRAP", "1");
        for triple in DEBIAN_TRIPLES {
            let name = triple.replace('-', "_").to_uppercase();
            command.env(format!("CARGO_TARGET_{name}_LINKER"), LINKER);
        }
        command.env("CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS", format!("-L {}", parent(&self.libc).display()));
        Ok(command)
    }
}

impl Toolchain {
    /// A `cargo build --release` for a target in a folder, to which packages and further options may be added.
    ///
    /// # Errors
    /// `Io` if this process's `PATH` is no list of paths.
    pub fn build(&self, folder: &Path, triple: &str) -> Result<Command> {
        let mut command = match self {
            Toolchain::Own => cargo(folder),
            Toolchain::Debian(debian) => debian.command(folder)?,
        };
        command.args(["build", "--release", "--target", triple]);
        if matches!(self, Toolchain::Debian(_)) {
            command.arg("-Zbuild-std=std,panic_abort");
        }
        Ok(without_native_flags(command))
    }
}

/// The cargo at hand.
pub(crate) fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    command
}

/// Flags meant for the native build would reach the guest as well.
pub(crate) fn without_native_flags(mut command: Command) -> Command {
    command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
    command
}

/// Whether the Rust that builds in a folder has the standard library for a target.
pub fn installed(folder: &Path, triple: &str) -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).current_dir(folder).args(["--print", "target-libdir", "--target", triple]).output();
    output.is_ok_and(|output| output.status.success() && Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

fn files_of(package: &str) -> Option<Vec<PathBuf>> {
    let output = Command::new("dpkg").args(["-L", package]).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect())
}

fn file_of(package: &str, wanted: impl Fn(&Path) -> bool) -> Result<PathBuf> {
    let found = files_of(package).unwrap_or_default().into_iter().find(|path| wanted(path));
    found.ok_or_else(|| Error::Missing(format!("the package `{package}` lacks a file it had; install it again")))
}

//! Builds the guests: the first-party plugins, and the guests of the tests, as anybody outside would build them.
//!
//! A workspace of guests says in each package's `[package.metadata.tidegate]` what it is: `kind = "transform"` is built for wasm32-unknown-unknown, so
//! that it has no WASI import, and packed into a component; `source` and `sink` are built for wasm32-wasip2. `component = false` leaves a core
//! module as it is. Results go to `<workspace>/target/components/<package>.wasm`; a workspace whose files have not changed is not built again.

mod toolchain;

use crate::process::{cargo, run};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fs;
use std::path::{Path, PathBuf};
use tidegate_guests::Toolchain;
use toolchain::Target;

/// Workspaces of guests, from the root. One that does not exist has no guests.
const WORKSPACES: &[&str] = &["plugins", "tests/guests"];
/// What every guest is made of beside its own workspace.
const SHARED: &[&str] = &["wit", "sdk/rust/Cargo.toml", "sdk/rust/src"];
/// Names the state of the files that the components were built from.
const STAMP: &str = ".built-from";

/// A package to build.
struct Guest {
    name: String,
    kind: String,
    target: Target,
    component: bool,
}

impl Guest {
    /// Reads a package of `cargo metadata`; `None` for one that is no guest.
    fn of(package: &Value) -> Result<Option<Guest>> {
        let Some(metadata) = package.pointer("/metadata/tidegate").filter(|metadata| !metadata.is_null()) else {
            return Ok(None);
        };
        let name = package["name"].as_str().context("a package has a name")?.to_owned();
        let kind = metadata["kind"].as_str().with_context(|| format!("`{name}` has no `kind`"))?.to_owned();
        let target = match kind.as_str() {
            "transform" => Target::Core,
            "source" | "sink" => Target::Wasi,
            other => bail!("`{name}` is of the unknown kind `{other}`; a guest is a transform, source or sink"),
        };
        let component = metadata["component"].as_bool().unwrap_or(true);
        Ok(Some(Guest { name, kind, target, component }))
    }
}

/// Builds every guest that is not up to date, into `<workspace>/target/components`. Intermediate files go to `target`.
///
/// # Errors
/// When no toolchain for wasm can be had, saying what to install, or when a guest does not build.
pub(crate) fn build(root: &Path, target: &Path) -> Result<()> {
    let mut toolchain = None;
    for workspace in WORKSPACES {
        let folder = root.join(workspace);
        if folder.join("Cargo.toml").exists() {
            build_workspace(root, &folder, target, &mut toolchain).with_context(|| format!("guests of `{workspace}`"))?;
        }
    }
    Ok(())
}

/// Checks format and lints and runs the tests of the SDK and the plugins, natively.
///
/// # Errors
/// When one of them fails.
pub(crate) fn test(root: &Path, target: &Path) -> Result<()> {
    for folder in ["sdk/rust", "plugins", "tests/guests"] {
        let folder = root.join(folder);
        let cargo_there = |arguments: &[&str]| run(cargo(&folder).args(arguments).env("CARGO_TARGET_DIR", target));
        cargo_there(&["fmt", "--all", "--check"])?;
        cargo_there(&["test", "--quiet"])?;
        cargo_there(&["clippy", "--all-targets", "--quiet", "--", "-D", "warnings"])?;
    }
    // An author without Arrow has only half of the SDK, and one with the network more than the default.
    let sdk = |arguments: &[&str]| run(cargo(&root.join("sdk/rust")).args(arguments).env("CARGO_TARGET_DIR", target));
    sdk(&["clippy", "--quiet", "--no-default-features", "--", "-D", "warnings"])?;
    sdk(&["clippy", "--quiet", "--all-targets", "--features", "http", "--", "-D", "warnings"])?;
    sdk(&["test", "--quiet", "--lib", "--features", "http"])
}

fn build_workspace(root: &Path, folder: &Path, target: &Path, toolchain: &mut Option<Toolchain>) -> Result<()> {
    let guests = guests_of(folder)?;
    let components = folder.join("target/components");
    let stamp = fingerprint(root, folder)?;
    let built = |guest: &Guest| components.join(format!("{}.wasm", guest.name));
    let fresh =
        fs::read_to_string(components.join(STAMP)).is_ok_and(|before| before == stamp) && guests.iter().all(|guest| built(guest).exists());
    if !fresh {
        fs::create_dir_all(&components)?;
        for wanted in [Target::Core, Target::Wasi] {
            let these: Vec<&Guest> = guests.iter().filter(|guest| guest.target == wanted).collect();
            if these.is_empty() {
                continue;
            }
            if toolchain.is_none() {
                *toolchain = Some(toolchain::find(root)?);
            }
            let toolchain = toolchain.as_ref().context("it was found")?;
            let names: Vec<&str> = these.iter().map(|guest| guest.name.as_str()).collect();
            let modules = toolchain::build(toolchain, folder, target, wanted, &names)?;
            for guest in these {
                let module = modules.join(format!("{}.wasm", guest.name.replace('-', "_")));
                let bytes = fs::read(&module).with_context(|| format!("`{}` was not built; is it a `cdylib`?", module.display()))?;
                let bytes =
                    if guest.component { tidegate_guests::pack(bytes).with_context(|| format!("guest `{}`", guest.name))? } else { bytes };
                fs::write(built(guest), bytes)?;
            }
        }
        fs::write(components.join(STAMP), stamp)?;
    }
    for guest in &guests {
        let path = built(guest);
        let kib = fs::metadata(&path)?.len().div_ceil(1024);
        println!("{:<24} {:<10} {kib:>6} KiB  {}", guest.name, guest.kind, if fresh { "up to date" } else { "built" });
    }
    Ok(())
}

fn guests_of(folder: &Path) -> Result<Vec<Guest>> {
    let output = cargo(folder).args(["metadata", "--no-deps", "--format-version", "1"]).output()?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let mut guests = Vec::new();
    for package in metadata["packages"].as_array().context("metadata has packages")? {
        guests.extend(Guest::of(package)?);
    }
    Ok(guests)
}

/// A digest of every file that a workspace's guests are made of. Times say nothing after a checkout or a restored cache.
fn fingerprint(root: &Path, folder: &Path) -> Result<String> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    for shared in SHARED {
        collect(&root.join(shared), &mut files)?;
    }
    files.sort();
    let mut digest = Sha256::new();
    for file in files {
        let bytes = fs::read(&file)?;
        let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
        digest.update((name.len() as u64).to_le_bytes());
        digest.update(name);
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Files below a path, without what is built.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    if path.is_file() {
        files.push(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| format!("cannot list `{}`", path.display()))? {
        let entry = entry?;
        if entry.file_name() != "target" {
            collect(&entry.path(), files)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! What a plugin's crate says of itself.

use crate::toolchain::cargo;
use crate::{Error, Result};
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};

/// What a plugin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A stateless step, without WASI.
    Transform,
    /// Reads rows.
    Source,
    /// Writes rows.
    Sink,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 3] = [Kind::Transform, Kind::Source, Kind::Sink];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Transform => "transform",
            Kind::Source => "source",
            Kind::Sink => "sink",
        }
    }

    /// The kind of a name, or of the name of its world.
    pub fn named(name: &str) -> Option<Kind> {
        let name = name.strip_suffix("-plugin").unwrap_or(name);
        let name = if name == "transform-columns" { "transform" } else { name };
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A crate that builds a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Its folder.
    pub folder: PathBuf,
}

impl Package {
    /// Reads the crate of a folder.
    ///
    /// # Errors
    /// `Package` if the folder has no crate or the crate is no plugin, saying what to add; `Missing` without cargo.
    pub fn read(folder: &Path) -> Result<Package> {
        let wrong = |message: String| Error::Package(format!("`{}`: {message}", folder.display()));
        let manifest = folder.join("Cargo.toml");
        if !manifest.is_file() {
            return Err(wrong(
                "there is no `Cargo.toml`; name a plugin's folder with `--dir`, or begin one with `tidegate plugin new`".into(),
            ));
        }
        let manifest = manifest.canonicalize().map_err(|error| Error::io(format!("`{}`", manifest.display()), &error))?;
        let folder = manifest.parent().map(Path::to_path_buf).unwrap_or_default();
        let output = cargo(&folder).args(["metadata", "--no-deps", "--format-version", "1"]).output();
        let output =
            output.map_err(|error| Error::Missing(format!("cannot start `cargo`: {error}; install Rust from https://rustup.rs")))?;
        if !output.status.success() {
            return Err(wrong(format!("cargo cannot read the crate: {}", String::from_utf8_lossy(&output.stderr).trim())));
        }
        let metadata: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| wrong(format!("cargo's answer is no JSON: {error}")))?;
        let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let here = packages.iter().find(|package| package["manifest_path"].as_str().is_some_and(|path| Path::new(path) == manifest));
        let package = here.ok_or_else(|| wrong("it is a workspace of packages; name the folder of one with `--dir`".into()))?;
        Package::of(package, folder).map_err(wrong)
    }

    /// Reads a package of `cargo metadata`.
    fn of(package: &Value, folder: PathBuf) -> Result<Package, String> {
        let name = package["name"].as_str().unwrap_or_default().to_owned();
        let said = package.pointer("/metadata/tidegate/kind").or_else(|| package.pointer("/metadata/component/target/world"));
        let Some(said) = said.and_then(Value::as_str) else {
            return Err(
                "its `Cargo.toml` does not say what it is; add\n[package.metadata.tidegate]\nkind = \"transform\"   # or source, sink"
                    .into(),
            );
        };
        let kind =
            Kind::named(said).ok_or_else(|| format!("it is of the unknown kind `{said}`; a plugin is a transform, source or sink"))?;
        let builds = |target: &Value| target["crate_types"].as_array().is_some_and(|types| types.iter().any(|kind| kind == "cdylib"));
        if !package["targets"].as_array().is_some_and(|targets| targets.iter().any(builds)) {
            return Err("its library is no `cdylib`; add\n[lib]\ncrate-type = [\"cdylib\"]".into());
        }
        Ok(Package { name, kind, folder })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(metadata: Value, kinds: Value) -> Result<Package, String> {
        Package::of(&json!({ "name": "x", "metadata": metadata, "targets": [{ "crate_types": kinds }] }), PathBuf::from("x"))
    }

    #[test]
    fn the_kind_stands_in_either_metadata() {
        let own = json!({ "tidegate": { "kind": "sink" }, "component": { "target": { "world": "source-plugin" } } });
        assert_eq!(read(own, json!(["cdylib"])).map(|package| package.kind), Ok(Kind::Sink));
        let component = json!({ "component": { "target": { "world": "transform-columns-plugin" } } });
        assert_eq!(read(component, json!(["cdylib", "rlib"])).map(|package| package.kind), Ok(Kind::Transform));
    }

    #[test]
    fn what_is_missing_is_named_with_the_lines_to_add() {
        let kind = json!({ "tidegate": { "kind": "tranform" } });
        assert!(read(kind, json!(["cdylib"])).unwrap_err().contains("unknown kind `tranform`"));
        assert!(read(json!(null), json!(["cdylib"])).unwrap_err().contains("[package.metadata.tidegate]"));
        assert!(read(json!({ "tidegate": { "kind": "sink" } }), json!(["lib"])).unwrap_err().contains("crate-type"));
        let empty = tempfile::tempdir().unwrap();
        let error = Package::read(empty.path()).unwrap_err();
        assert!(matches!(&error, Error::Package(message) if message.contains("no `Cargo.toml`")), "{error}");
    }
}

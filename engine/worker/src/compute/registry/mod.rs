//! The transform registry: every `<root>/<dir>/transform.toml`, read and checked at start.
//!
//! A step names a transform by `ref = "id"` or `"id@version"`. All manifests of all roots are read before anything runs, and all their
//! mistakes are told together, each with file, line and key, whether a step uses the transform or not.

mod limits;
mod manifest;
mod reference;

use crate::control::HostSettings;
use semver::Version;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::nearest;

pub use limits::ContainerLimits;
pub use manifest::{ContainerEntry, Entry, Implementation, OnMisfit, TransformManifest};
use reference::Reference;

/// The environment variable that names roots, colon-separated.
pub const ROOTS_VARIABLE: &str = "FV_TRANSFORMS_DIR";
/// The file that makes a folder of a root a transform.
const MANIFEST: &str = "transform.toml";

/// One folder of transforms, and who named it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Root {
    dir: PathBuf,
    /// How it is shown in messages.
    shown: String,
    /// Where a mistake in it is reported in the pipeline file; empty if another than the file named it.
    path: Vec<String>,
}

/// Where transforms are looked for, in order: a later root replaces `id@version` of an earlier one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roots(Vec<Root>);

impl Roots {
    /// Roots that a host names.
    pub fn new(dirs: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        let root = |dir: PathBuf| Root { shown: dir.display().to_string(), dir, path: Vec::new() };
        Roots(dirs.into_iter().map(|dir| root(dir.into())).collect())
    }

    /// The roots of `FV_TRANSFORMS_DIR`, the one variable that the library reads by itself. Empty parts are left out.
    pub fn from_environment() -> Self {
        let Some(dirs) = std::env::var_os(ROOTS_VARIABLE) else { return Roots::default() };
        let dirs = std::env::split_paths(&dirs).filter(|dir| !dir.as_os_str().is_empty());
        let root = |dir: PathBuf| Root { shown: format!("{} (from {ROOTS_VARIABLE})", dir.display()), dir, path: Vec::new() };
        Roots(dirs.map(root).collect())
    }

    /// The roots of a run: those that its host names, else those of the environment, and behind them those of the setting `transforms`.
    pub fn of(host: &HostSettings) -> Self {
        let mut roots = host.transform_roots.clone().unwrap_or_else(Roots::from_environment);
        // What is no list of texts is reported with the settings.
        let said: &[Value] = match host.settings.get("transforms") {
            Some(Value::Array(items)) => items,
            Some(text @ Value::String(_)) => std::slice::from_ref(text),
            Some(_) | None => &[],
        };
        for (index, dir) in said.iter().enumerate().filter_map(|(index, dir)| Some((index, dir.as_str()?))) {
            let path = vec!["settings".to_string(), "transforms".to_string(), index.to_string()];
            roots.0.push(Root { dir: host.base_dir.join(dir), shown: dir.to_string(), path });
        }
        roots
    }
}

/// Every transform of some roots.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    transforms: BTreeMap<String, BTreeMap<Version, Arc<TransformManifest>>>,
    /// The roots, for messages.
    roots: Vec<String>,
}

impl Registry {
    /// Reads every manifest.
    ///
    /// # Errors
    /// Every mistake in any of them, and every root that is not there.
    pub fn read(roots: &Roots) -> Result<Registry, Vec<Problem>> {
        let mut registry = Registry { roots: roots.0.iter().map(|root| root.shown.clone()).collect(), ..Registry::default() };
        let mut problems = Vec::new();
        for root in &roots.0 {
            match read_root(root) {
                Ok(found) => {
                    for manifest in found {
                        registry.transforms.entry(manifest.id.clone()).or_default().insert(manifest.version.clone(), Arc::new(manifest));
                    }
                }
                Err(found) => problems.extend(found.into_iter().map(|message| Problem::new(root.path.clone(), message))),
            }
        }
        if problems.is_empty() { Ok(registry) } else { Err(problems) }
    }

    /// All transforms, by id and version.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TransformManifest>> {
        self.transforms.values().flat_map(BTreeMap::values)
    }

    /// The transform that `id` or `id@version` names; without a version the highest.
    ///
    /// # Errors
    /// What is wrong with the name, with the nearest known one.
    pub fn get(&self, reference: &str) -> Result<&Arc<TransformManifest>, String> {
        let Reference { id, version } = Reference::parse(reference)?;
        let Some(versions) = self.transforms.get(id) else {
            let hint = nearest::hint(id, self.transforms.keys().map(String::as_str));
            let looked = match self.roots.as_slice() {
                [] => format!("no roots are named; name folders of transforms in `[settings] transforms` or in {ROOTS_VARIABLE}"),
                roots => format!("looked in {}", roots.iter().map(|root| format!("`{root}`")).collect::<Vec<_>>().join(", ")),
            };
            return Err(format!("there is no transform `{id}`{hint} ({looked})"));
        };
        let found = match &version {
            Some(version) => versions.get(version),
            None => versions.last_key_value().map(|(_, newest)| newest),
        };
        found.ok_or_else(|| {
            let known: Vec<String> = versions.keys().map(|version| format!("`{version}`")).collect();
            let wanted = version.map(|version| version.to_string()).unwrap_or_default();
            let hint = nearest::hint(&wanted, versions.keys().map(Version::to_string).collect::<Vec<_>>().iter().map(String::as_str));
            format!("there is no version `{wanted}` of the transform `{id}`{hint}; there is {}", known.join(", "))
        })
    }
}

/// The transforms of one root, in the order of their folders' names.
fn read_root(root: &Root) -> Result<Vec<TransformManifest>, Vec<String>> {
    let folders = folders_of(&root.dir).map_err(|error| vec![format!("the transforms of `{}` cannot be read: {error}", root.shown)])?;
    let mut found: Vec<TransformManifest> = Vec::new();
    let mut problems = Vec::new();
    for folder in folders {
        match TransformManifest::read(&folder.join(MANIFEST)) {
            Ok(manifest) => match found.iter().find(|other| other.id == manifest.id && other.version == manifest.version) {
                Some(other) => problems.push(format!(
                    "{}: `{manifest}` stands twice in this root, also in `{}`; give one of them another version",
                    folder.join(MANIFEST).display(),
                    other.folder.display()
                )),
                None => found.push(manifest),
            },
            Err(mistakes) => problems.extend(mistakes),
        }
    }
    if problems.is_empty() { Ok(found) } else { Err(problems) }
}

/// The folders of a root that have a manifest.
fn folders_of(root: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut folders = Vec::new();
    for entry in std::fs::read_dir(root)? {
        let folder = entry?.path();
        if folder.join(MANIFEST).symlink_metadata().is_ok() {
            folders.push(folder);
        }
    }
    folders.sort();
    Ok(folders)
}

#[cfg(test)]
mod tests;

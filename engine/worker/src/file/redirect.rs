//! A pipeline file whose state and outputs lie in a folder of their own, for runs that must not touch what the file names.
//!
//! Everything else stays as it is written: formats, partitions, plugins and their configuration. What cannot be put elsewhere is refused,
//! because a trial that wrote to the real place would be no trial.

use super::PipelineFile;
use super::host::Roles;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_api::config::Problem;

/// Where the rows of an output are, after it was put elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redirected {
    /// A folder of parts, as `files` writes them, under these options.
    Files {
        /// The folder.
        folder: PathBuf,
        /// The sink's options.
        options: Map<String, Value>,
    },
    /// A file of lines: what would go to standard output.
    Lines {
        /// The file.
        file: PathBuf,
        /// Whether the first line names the columns.
        csv: bool,
    },
    /// The folders that a plugin may write to.
    Granted {
        /// The folders, in the order of the grants.
        folders: Vec<PathBuf>,
    },
    /// Nowhere: the sink keeps nothing.
    Nothing,
}

impl PipelineFile {
    /// The same pipeline with its state in `folder/state`, unless `settings` keep it elsewhere, and every output below `folder/out`, a checkpoint every `every`, and `settings` in
    /// place of its own.
    ///
    /// # Errors
    /// Every output that cannot be put elsewhere, at its dataset.
    pub fn redirected(
        mut self,
        folder: &Path,
        every: Duration,
        settings: &Map<String, Value>,
    ) -> Result<(PipelineFile, BTreeMap<String, Redirected>), Vec<Problem>> {
        for key in ["stateDir", "stateUrl", "stateOptions", "checkpointEvery", "checkpointEveryMs"] {
            self.settings.remove(key);
        }
        if !settings.contains_key("stateUrl") {
            self.settings.insert("stateDir".to_string(), Value::String(folder.join("state").display().to_string()));
        }
        self.settings.insert("checkpointEveryMs".to_string(), Value::from(u64::try_from(every.as_millis()).unwrap_or(u64::MAX).max(1)));
        self.settings.extend(settings.clone());
        let roles = Roles::of(&self);
        let written: Vec<(String, Map<String, Value>)> = self
            .datasets
            .iter()
            .filter(|(name, _)| roles.is_written(name))
            .map(|(name, dataset)| (name.clone(), dataset.clone()))
            .collect();
        let (mut places, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, dataset) in written {
            match self.redirect(&name, &dataset, &folder.join("out").join(&name)) {
                Ok(Some(place)) => {
                    places.insert(name, place);
                }
                Ok(None) => {}
                Err(message) => problems.push(Problem::new(vec!["datasets".into(), name], message)),
            }
        }
        if problems.is_empty() { Ok((self, places)) } else { Err(problems) }
    }

    /// `None` for a dataset that stages only hand to each other.
    fn redirect(&mut self, name: &str, dataset: &Map<String, Value>, folder: &Path) -> Result<Option<Redirected>, String> {
        let Some(sink) = dataset.get("sink").or_else(|| dataset.get("connector")).and_then(Value::as_str) else { return Ok(None) };
        match sink {
            "files" | "file" | "arrow" => {
                self.set_of_dataset(name, "path", &folder.display().to_string());
                Ok(Some(Redirected::Files { folder: folder.to_path_buf(), options: dataset.clone() }))
            }
            "stdout" => {
                let csv = dataset.get("format").and_then(Value::as_str) == Some("csv");
                Ok(Some(Redirected::Lines { file: folder.with_extension("lines"), csv }))
            }
            "blackhole" => Ok(Some(Redirected::Nothing)),
            "plugin" => self.redirect_plugin(name, dataset, folder).map(Some),
            other => Err(format!(
                "a trial cannot put `{other}` elsewhere, and will not write to what the pipeline really writes to; for the trial, use `sink = \"files\"` here"
            )),
        }
    }

    /// Gives the dataset a copy of its plugin that may write to folders of the trial instead of its own.
    fn redirect_plugin(&mut self, name: &str, dataset: &Map<String, Value>, folder: &Path) -> Result<Redirected, String> {
        let plugin = dataset.get("plugin").and_then(Value::as_str).unwrap_or_default().to_string();
        // A plugin that is not there is reported by the plan.
        let Some(Value::Object(mut table)) = self.plugins.get(&plugin).cloned() else {
            return Ok(Redirected::Granted { folders: Vec::new() });
        };
        let outside = ["http", "tcp"].into_iter().find(|key| table.get("allow").and_then(|allow| allow.get(key)).is_some());
        if let Some(outside) = outside {
            return Err(format!(
                "plugin `{plugin}` is granted `{outside}`, and a trial can neither send that elsewhere nor see what arrives; it follows directories that are granted with `:rw` alone"
            ));
        }
        let mut folders = Vec::new();
        if let Some(Value::Array(dirs)) = table.get_mut("allow").and_then(|allow| allow.get_mut("dirs")) {
            for dir in dirs.iter_mut() {
                let Some(grant) = dir.as_str().and_then(|text| text.strip_suffix(":rw")) else { continue };
                let guest = grant.split_once('=').map_or(grant, |(_, guest)| guest);
                let instead = folder.join(folders.len().to_string());
                *dir = Value::String(format!("{}={guest}:rw", instead.display()));
                folders.push(instead);
            }
        }
        if folders.is_empty() {
            return Err(format!("plugin `{plugin}` is granted no directory with `:rw`, so a trial cannot see what it writes"));
        }
        let copy = format!("{plugin}-{name}");
        self.plugins.insert(copy.clone(), Value::Object(table));
        self.set_of_dataset(name, "plugin", &copy);
        Ok(Redirected::Granted { folders })
    }

    /// Sets a key as used and as recorded.
    fn set_of_dataset(&mut self, name: &str, key: &str, value: &str) {
        if let Some(dataset) = self.datasets.get_mut(name) {
            dataset.insert(key.to_string(), Value::String(value.to_string()));
        }
        let recorded = self.document.root.get_mut("datasets").and_then(|datasets| datasets.get_mut(name)).and_then(Value::as_object_mut);
        if let Some(recorded) = recorded {
            recorded.insert(key.to_string(), Value::String(value.replace('$', "$$")));
        }
    }
}

/// The folders that plugins expect to be there.
pub fn folders_of(places: &BTreeMap<String, Redirected>) -> BTreeSet<&Path> {
    let mut folders = BTreeSet::new();
    for place in places.values() {
        match place {
            Redirected::Granted { folders: granted } => folders.extend(granted.iter().map(PathBuf::as_path)),
            Redirected::Lines { file, .. } => folders.extend(file.parent()),
            Redirected::Files { .. } | Redirected::Nothing => {}
        }
    }
    folders
}

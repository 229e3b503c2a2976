//! A pipeline file that keeps nothing: its state in a folder that is thrown away, every output on standard output.

use super::PipelineFile;
use super::host::Roles;
use crate::options::DATASET_KEYS;
use serde_json::{Map, Value};
use std::path::Path;

impl PipelineFile {
    /// The same pipeline with its state in `state`, every output as JSON lines on standard output, and windows that fire when the input
    /// ends; and which datasets are outputs. Nothing that the file names is written to.
    pub fn sampled(mut self, state: &Path) -> (PipelineFile, Vec<String>) {
        for key in ["stateDir", "stateUrl", "stateOptions", "atEnd"] {
            self.settings.remove(key);
        }
        self.settings.insert("stateDir".to_string(), Value::String(state.display().to_string()));
        let roles = Roles::of(&self);
        let mut outputs = Vec::new();
        let is_output = |table: &Map<String, Value>| table.contains_key("sink") || table.contains_key("connector");
        for (name, dataset) in self.datasets.iter_mut().filter(|(name, dataset)| roles.is_written(name) && is_output(dataset)) {
            outputs.push(name.clone());
            // What it demands of its real sink is no demand of this one; rows that replace each other say which they are.
            dataset.retain(|key, _| DATASET_KEYS.contains(&key.as_str()) && key != "require");
            dataset.insert("sink".to_string(), Value::from("stdout"));
            dataset.insert("changelog".to_string(), Value::Bool(true));
        }
        // Sinks are rebuilt from what is recorded.
        if let Some(Value::Object(written)) = self.document.root.get_mut("datasets") {
            for name in &outputs {
                let table = self.datasets.get(name).cloned().unwrap_or_default();
                written.insert(name.clone(), Value::Object(table));
            }
        }
        (self, outputs)
    }
}

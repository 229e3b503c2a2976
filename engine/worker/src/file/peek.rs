//! A source of a pipeline file by itself; the rest of the file may be unfinished.

use super::host::FileHost;
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::{InlineSource, nearest};

impl FileHost {
    /// The source of a dataset that the pipeline reads, and its name: the only one there is if none is named. What is wrong elsewhere in
    /// the file does not matter.
    ///
    /// # Errors
    /// Every mistake in the dataset, and in its plugin; a dataset that is not there, or that stages write.
    pub fn peeked(&self, name: Option<&str>) -> Result<(String, Arc<dyn InlineSource>), Vec<Problem>> {
        let inputs: Vec<&str> = self.inputs().collect();
        let name = match (name, inputs.as_slice()) {
            (Some(name), _) => name.to_string(),
            (None, [only]) => (*only).to_string(),
            (None, []) => return Err(vec![Problem::whole("no dataset of this file is read from outside; declare one with a `connector`")]),
            (None, several) => {
                let several: Vec<String> = several.iter().map(|name| format!("`{name}`")).collect();
                return Err(vec![Problem::whole(format!("this file reads {}; say which to look at", several.join(", ")))]);
            }
        };
        let Some(dataset) = self.dataset(&name) else {
            let hint = nearest::hint(&name, inputs);
            return Err(vec![Problem::whole(format!("there is no dataset `{name}`{hint}"))]);
        };
        let at = |problem: Problem| problem.under(["datasets", name.as_str()]);
        if self.is_written(&name) {
            let message = format!("stages write `{name}`; `run --limit` shows what they make");
            return Err(vec![at(Problem::whole(message))]);
        }
        // What was found wrong with the file's form where this dataset stands; interpolation reports there too.
        let here = |problem: &&Problem| problem.path.first().is_some_and(|key| key == "datasets") && problem.path.get(1) == Some(&name);
        let mut found: Vec<Problem> = self.problems().iter().filter(here).cloned().collect();
        // What stands in the file for everybody to read is masked nowhere, in errors of the outside neither.
        found.extend(self.exposed(&name, dataset).into_iter().map(at));
        if !found.is_empty() {
            return Err(found);
        }
        match self.source_of(&name, dataset) {
            Ok(source) => Ok((name, source)),
            // Nothing of its own: its plugin's table is mistaken.
            Err(problems) if problems.is_empty() => {
                Err(vec![Problem::whole("`[plugins]` cannot be used; `tidegate validate` says why").under(["plugins"])])
            }
            Err(problems) => Err(problems.into_iter().map(at).collect()),
        }
    }
}

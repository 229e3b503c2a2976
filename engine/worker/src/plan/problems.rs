//! Mistakes of a topology, each with its path in the pipeline file.

use tidegate_api::Error;
use tidegate_api::config::{Problem, problems_of};

/// Collects mistakes; nothing stops at the first.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    /// A mistake in a stage, at keys and indices below it.
    pub(super) fn stage(&mut self, stage: usize, below: &[&str], message: impl Into<String>) {
        let path = ["stages".to_string(), stage.to_string()].into_iter().chain(below.iter().map(ToString::to_string)).collect();
        self.0.push(Problem::new(path, message));
    }

    /// A mistake in a step, at a key of it (or of the whole step, for an empty key).
    pub(super) fn step(&mut self, stage: usize, step: usize, key: &str, message: impl Into<String>) {
        let step = step.to_string();
        let below = ["steps", &step, key];
        self.stage(stage, if key.is_empty() { &below[..2] } else { &below }, message);
    }

    /// Mistakes that a step found in itself.
    pub(super) fn of_step(&mut self, stage: usize, step: usize, problems: Vec<Problem>) {
        let path = ["stages".to_string(), stage.to_string(), "steps".to_string(), step.to_string()];
        self.0.extend(problems.into_iter().map(|problem| problem.under(path.clone())));
    }

    /// A mistake in a dataset, at keys below it.
    pub(super) fn dataset(&mut self, name: &str, below: &[&str], message: impl Into<String>) {
        let path = ["datasets", name].iter().chain(below).map(ToString::to_string).collect();
        self.0.push(Problem::new(path, message));
    }

    /// Mistakes that an error carries about a dataset.
    pub(super) fn of_dataset(&mut self, name: &str, error: &Error) {
        self.0.extend(problems_of(error).into_iter().map(|problem| problem.under(["datasets", name])));
    }

    /// A mistake in the settings.
    pub(super) fn setting(&mut self, key: &str, message: impl Into<String>) {
        self.0.push(Problem::new(vec!["settings".to_string(), key.to_string()], message));
    }

    /// A mistake that has no place in the file.
    pub(super) fn whole(&mut self, message: impl Into<String>) {
        self.0.push(Problem::whole(message));
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Nothing, or all of them, each once, in the order of discovery.
    pub(super) fn finish(self) -> Result<(), Vec<Problem>> {
        let mut once: Vec<Problem> = Vec::with_capacity(self.0.len());
        for problem in self.0 {
            if !once.contains(&problem) {
                once.push(problem);
            }
        }
        if once.is_empty() { Ok(()) } else { Err(once) }
    }
}

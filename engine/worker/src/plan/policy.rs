//! What becomes of bad rows: the policy of each source, and the one its stages and sinks inherit.
//!
//! Steps, operators and sinks follow the sources that feed them where those agree, and the settings where they do not.

use super::input::PlanInput;
use super::problems::Problems;
use super::structure::Structure;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::{OnBadData, nearest};

/// What to do with bad rows, and where dead letters go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Policy {
    /// What to do.
    pub(super) on_bad: OnBadData,
    /// The dataset that takes dead letters; only with the policy that makes them.
    pub(super) dead_letter: Option<String>,
}

impl Policy {
    /// Ends the run.
    pub(super) fn fail() -> Self {
        Policy { on_bad: OnBadData::Fail, dead_letter: None }
    }
}

/// The policies of all datasets.
pub(super) struct Policies {
    own: BTreeMap<String, Policy>,
    fallback: OnBadData,
}

impl Policies {
    /// Reads the policy of every dataset that the plan reads, and checks the datasets that take dead letters.
    pub(super) fn new(input: &PlanInput<'_>, structure: &Structure<'_>, problems: &mut Problems) -> Self {
        let mut own = BTreeMap::new();
        for (name, dataset) in &input.datasets {
            let is_source = structure.readers.contains_key(name.as_str()) && !structure.producer.contains_key(name.as_str());
            let options = &dataset.options;
            if !is_source && options.on_bad.is_none() {
                continue;
            }
            let on_bad = options.on_bad.unwrap_or(input.settings.on_bad);
            let dead_letter = options.dead_letter.as_ref().or(input.settings.dead_letter.as_ref());
            match (on_bad, dead_letter) {
                (OnBadData::DeadLetter, None) => {
                    let message = format!("bad rows of `{name}` become dead letters, but no dataset takes them; set `deadLetter`");
                    problems.dataset(name, &["onBadData"], message);
                }
                (OnBadData::DeadLetter, Some(target)) => check_target(name, target, input, structure, problems),
                (OnBadData::Fail | OnBadData::Drop | OnBadData::Rescue, _) if options.dead_letter.is_some() => {
                    let message = "nothing goes to the dead-letter dataset; say `onBadData = \"deadLetter\"` or leave `deadLetter` out";
                    problems.dataset(name, &["deadLetter"], message);
                }
                (OnBadData::Fail | OnBadData::Drop | OnBadData::Rescue, _) => {}
            }
            let dead_letter = dead_letter.filter(|_| on_bad == OnBadData::DeadLetter).cloned();
            own.insert(name.clone(), Policy { on_bad, dead_letter });
        }
        Policies { own, fallback: input.settings.on_bad }
    }

    /// The policy of a source's own rows.
    pub(super) fn of_source(&self, dataset: &str) -> Policy {
        self.own.get(dataset).cloned().unwrap_or_else(Policy::fail)
    }

    /// The policy of what these sources feed. A rescued row keeps its text at the source; what a step cannot use is not rescued again.
    pub(super) fn of_fed_by(&self, sources: &BTreeSet<String>) -> Policy {
        let policies: Vec<&Policy> = sources.iter().filter_map(|source| self.own.get(source)).collect();
        let agreed = policies.first().filter(|first| policies.iter().all(|policy| policy.on_bad == first.on_bad));
        let on_bad = match agreed.map_or(self.fallback, |policy| policy.on_bad) {
            OnBadData::Rescue if self.fallback != OnBadData::Rescue => self.fallback,
            OnBadData::Rescue => OnBadData::Fail,
            settled @ (OnBadData::Fail | OnBadData::Drop | OnBadData::DeadLetter) => settled,
        };
        match (on_bad, policies.iter().find_map(|policy| policy.dead_letter.clone())) {
            (OnBadData::DeadLetter, None) => Policy::fail(),
            (OnBadData::DeadLetter, dead_letter) => Policy { on_bad, dead_letter },
            (on_bad, _) => Policy { on_bad, dead_letter: None },
        }
    }

    /// The policy for rows that a sink refuses: the dataset's own, if it says one, else that of the sources that feed it.
    pub(super) fn of_sink(&self, dataset: &str, sources: &BTreeSet<String>) -> Policy {
        self.own.get(dataset).cloned().unwrap_or_else(|| self.of_fed_by(sources))
    }
}

fn check_target(name: &str, target: &str, input: &PlanInput<'_>, structure: &Structure<'_>, problems: &mut Problems) {
    let message = match input.datasets.get(target) {
        None if input.unresolved.contains(target) => return,
        None => {
            let hint = nearest::hint(target, input.datasets.keys().map(String::as_str).filter(|known| *known != name));
            format!("no dataset is called `{target}`{hint}")
        }
        Some(_) if structure.producer.contains_key(target) => {
            format!("`{target}` is a stage's output and cannot take dead letters too; they have columns of their own")
        }
        Some(dataset) if dataset.sink.is_none() => format!("dataset `{target}` has no `sink` to write dead letters to"),
        Some(_) => return,
    };
    problems.dataset(name, &["deadLetter"], message);
}

//! What becomes of bad rows: the policy of each source, and the one its stages and sinks inherit.
//!
//! A step that runs behind a source follows that source. Operators, what stands behind them, and sinks follow the sources that feed
//! them where those agree, and the settings where they do not.

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
    fallback: Policy,
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
                (OnBadData::DeadLetter, Some(target)) => {
                    if let Some(message) = mistake_in(name, target, input, structure) {
                        problems.dataset(name, &["deadLetter"], message);
                    }
                }
                (OnBadData::Fail | OnBadData::Drop | OnBadData::Rescue, _) if options.dead_letter.is_some() => {
                    let message = "nothing goes to the dead-letter dataset; say `onBadData = \"deadLetter\"` or leave `deadLetter` out";
                    problems.dataset(name, &["deadLetter"], message);
                }
                (OnBadData::Rescue, _) if !is_source => {
                    let message =
                        "`rescue` keeps what a source could not decode, and this dataset is written; say `fail`, `drop` or `deadLetter`";
                    problems.dataset(name, &["onBadData"], message);
                }
                (OnBadData::Fail | OnBadData::Drop | OnBadData::Rescue, _) => {}
            }
            let dead_letter = dead_letter.filter(|_| on_bad == OnBadData::DeadLetter).cloned();
            own.insert(name.clone(), Policy { on_bad, dead_letter });
        }
        let dead_letter = input.settings.dead_letter.clone().filter(|_| input.settings.on_bad == OnBadData::DeadLetter);
        if let Some(message) = dead_letter.as_ref().and_then(|target| mistake_in("", target, input, structure)) {
            problems.setting("deadLetter", message);
        }
        Policies { own, fallback: Policy { on_bad: input.settings.on_bad, dead_letter } }
    }

    /// What to say of a source that cannot rescue and should.
    pub(super) fn cannot_rescue(&self, input: &PlanInput<'_>, dataset: &str) -> String {
        let said = input.datasets.get(dataset).is_some_and(|dataset| dataset.options.on_bad.is_some());
        let by = if said { "" } else { " (the `onBadData` of `[settings]`)" };
        format!("`rescue`{by} needs a source that can keep the text of what does not fit, and that of `{dataset}` cannot; use `deadLetter`")
    }

    /// The policy of a source's own rows.
    pub(super) fn of_source(&self, dataset: &str) -> Policy {
        self.own.get(dataset).cloned().unwrap_or_else(Policy::fail)
    }

    /// The policy of the steps that run behind a source.
    pub(super) fn of_steps_of(&self, dataset: &str) -> Policy {
        self.of_fed_by(&BTreeSet::from([dataset.to_string()]))
    }

    /// The policy of what these sources feed. A rescued row keeps its text at the source; what a step cannot use is not rescued again.
    pub(super) fn of_fed_by(&self, sources: &BTreeSet<String>) -> Policy {
        let policies: Vec<&Policy> = sources.iter().filter_map(|source| self.own.get(source)).collect();
        let agreed = policies.first().filter(|first| policies.iter().all(|policy| policy.on_bad == first.on_bad));
        let on_bad = match agreed.map_or(self.fallback.on_bad, |policy| policy.on_bad) {
            OnBadData::Rescue if self.fallback.on_bad != OnBadData::Rescue => self.fallback.on_bad,
            OnBadData::Rescue => OnBadData::Fail,
            settled @ (OnBadData::Fail | OnBadData::Drop | OnBadData::DeadLetter) => settled,
        };
        if on_bad != OnBadData::DeadLetter {
            return Policy { on_bad, dead_letter: None };
        }
        let dead_letter = policies.iter().find_map(|policy| policy.dead_letter.clone()).or_else(|| self.fallback.dead_letter.clone());
        // Without anywhere to go a dead letter would be lost.
        if dead_letter.is_none() { Policy::fail() } else { Policy { on_bad, dead_letter } }
    }

    /// The policy for rows that a sink refuses: the dataset's own, if it says one, else that of the sources that feed it.
    pub(super) fn of_sink(&self, dataset: &str, sources: &BTreeSet<String>) -> Policy {
        self.own.get(dataset).cloned().unwrap_or_else(|| self.of_fed_by(sources))
    }
}

/// The mistake in naming `target` as the one that takes dead letters of `name`.
fn mistake_in(name: &str, target: &str, input: &PlanInput<'_>, structure: &Structure<'_>) -> Option<String> {
    match input.datasets.get(target) {
        None => {
            let hint = nearest::hint(target, input.datasets.keys().map(String::as_str).filter(|known| *known != name));
            Some(format!("no dataset is called `{target}`{hint}"))
        }
        Some(dataset) if dataset.is_unresolved() => None,
        Some(_) if structure.producer.contains_key(target) => {
            Some(format!("`{target}` is a stage's output and cannot take dead letters too; they have columns of their own"))
        }
        Some(dataset) if dataset.sink.is_none() => Some(format!("dataset `{target}` has no `sink` to write dead letters to")),
        Some(_) => None,
    }
}

//! What is written: outputs, late rows and dead letters, each with what its sink answered.

use super::input::PlanInput;
use super::policy::{Policies, Policy};
use super::problems::Problems;
use super::structure::{Stage, Structure};
use super::typing::Typing;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_api::{ChangeMode, OnBadData, OutputSink, SinkInput, SinkPlan, bad, hidden, nearest};
use tidegate_operators::BoundNode;
use tidegate_runtime::graph::late_schema;

/// The visible column that `changelog = true` adds.
pub(super) const CHANGE_COLUMN: &str = "op";

/// A dataset that is written.
pub(super) struct SinkUse {
    /// The writing half.
    pub(super) sink: Arc<dyn OutputSink>,
    /// What reaches it: the visible columns, and whether they update.
    pub(super) input: SinkInput,
    /// How the rows are exchanged before the sink: the upsert keys, of a changelog too.
    pub(super) keys: Vec<String>,
    /// What it answered.
    pub(super) plan: SinkPlan,
    /// What is written.
    pub(super) what: Written,
    /// What happens to rows it refuses.
    pub(super) policy: Policy,
    /// The sources whose rows it gets.
    pub(super) sources: BTreeSet<String>,
}

/// What a sink is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// A stage's output, as changes if it updates and the dataset asks for that.
    Output {
        /// Updates become rows with a visible `op`.
        changelog: bool,
    },
    /// Rows that came too late for an operator.
    Late,
    /// Rows that could not be used.
    DeadLetters,
}

/// Whether everything that the plan writes has a sink that answered.
pub(super) fn complete(
    input: &PlanInput<'_>,
    structure: &Structure<'_>,
    typing: &Typing,
    policies: &Policies,
    sinks: &BTreeMap<String, SinkUse>,
) -> bool {
    let dead_letters = |policy: Policy| policy.dead_letter.is_none_or(|target| sinks.contains_key(&target));
    let stage = |stage: &Stage<'_>| {
        let output = stage.def.output.as_str();
        (!structure.is_written(input, output) || sinks.contains_key(output))
            && stage.steps.iter().filter_map(|step| step.late_output()).all(|target| sinks.contains_key(target))
            && dead_letters(policies.of_fed_by(&typing.fed_by(stage)))
    };
    structure.stages.iter().all(stage)
        && typing.sources.keys().all(|source| dead_letters(policies.of_source(source)) && dead_letters(policies.of_steps_of(source)))
        && sinks.values().all(|sink| dead_letters(sink.policy.clone()))
}

/// Asks every sink of the plan.
pub(super) fn ask(
    input: &PlanInput<'_>,
    structure: &Structure<'_>,
    typing: &Typing,
    policies: &Policies,
    problems: &mut Problems,
) -> BTreeMap<String, SinkUse> {
    let mut pass = Pass { input, policies, uses: BTreeMap::new(), problems };
    for stage in &structure.stages {
        let output = stage.def.output.as_str();
        let (true, Some(stream)) = (structure.is_written(input, output), typing.streams.get(output)) else { continue };
        let changelog = input.datasets.get(output).is_some_and(|dataset| dataset.options.changelog);
        let schema = hidden::visible_schema(&stream.schema);
        let (asked, keys, changelog) = match &stream.mode {
            ChangeMode::Append => (SinkInput::new(schema, ChangeMode::Append), Vec::new(), false),
            ChangeMode::Upsert { keys } if changelog => match with_change_column(&schema) {
                Some(schema) => (SinkInput::new(schema, ChangeMode::Append), keys.clone(), true),
                None => {
                    let message = format!("a changelog adds a column `{CHANGE_COLUMN}`, which the output has already; rename it");
                    pass.problems.dataset(output, &["changelog"], message);
                    continue;
                }
            },
            ChangeMode::Upsert { keys } => (SinkInput::new(schema, stream.mode.clone()), keys.clone(), false),
        };
        let sources = typing.feeding.get(output).cloned().unwrap_or_default();
        pass.add(output, asked, keys, Written::Output { changelog }, sources);
    }
    pass.late_outputs(structure, typing);
    pass.dead_letters(structure, typing);
    pass.uses
}

fn with_change_column(schema: &SchemaRef) -> Option<SchemaRef> {
    if schema.field_with_name(CHANGE_COLUMN).is_ok() {
        return None;
    }
    let fields = schema.fields().iter().cloned().chain([Arc::new(Field::new(CHANGE_COLUMN, DataType::Utf8View, false))]);
    Some(Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone())))
}

struct Pass<'p, 'a> {
    input: &'p PlanInput<'a>,
    policies: &'p Policies,
    uses: BTreeMap<String, SinkUse>,
    problems: &'p mut Problems,
}

impl Pass<'_, '_> {
    fn add(&mut self, dataset: &str, asked: SinkInput, keys: Vec<String>, what: Written, sources: BTreeSet<String>) {
        // A missing dataset or sink has been reported where it is named.
        let Some(sink) = self.input.datasets.get(dataset).and_then(|found| found.sink.clone()) else { return };
        let policy = match what {
            Written::Output { .. } | Written::Late => self.policies.of_sink(dataset, &sources),
            Written::DeadLetters => Policy::fail(),
        };
        match sink.plan(&asked) {
            Ok(plan) if plan.wants_keys && what == Written::DeadLetters => {
                self.problems.dataset(dataset, &[], "this sink tells rows apart by their keys, which dead letters do not have");
            }
            Ok(plan) => {
                self.uses.insert(dataset.to_string(), SinkUse { sink, input: asked, keys, plan, what, policy, sources });
            }
            Err(error) => self.problems.of_dataset(dataset, &error),
        }
    }

    fn late_outputs(&mut self, structure: &Structure<'_>, typing: &Typing) {
        for (index, stage) in structure.stages.iter().enumerate() {
            let Some(typed) = &typing.stages[index] else { continue };
            let sources = typing.fed_by(stage);
            for (at, step) in stage.steps.iter().enumerate() {
                let Some(target) = step.late_output() else { continue };
                let own = match &typed.steps[at].node {
                    BoundNode::Operator { factory, .. } => factory.late_schema(),
                    BoundNode::Step(_) => None,
                };
                let late = own.unwrap_or_else(|| Arc::clone(&typed.input_of(at)[0].schema));
                let schema = hidden::visible_schema(&late_schema(&late));
                let mistake = match (self.input.datasets.get(target), self.uses.get_mut(target)) {
                    (Some(dataset), _) if dataset.is_unresolved() => continue,
                    (None, _) => {
                        let hint = nearest::hint(target, self.input.datasets.keys().map(String::as_str));
                        Some(format!("no dataset is called `{target}`{hint}"))
                    }
                    (Some(_), _) if structure.producer.contains_key(target) => {
                        Some(format!("`{target}` is a stage's output and cannot take late rows too"))
                    }
                    (Some(dataset), _) if dataset.sink.is_none() => Some(format!("dataset `{target}` has no `sink` to write late rows to")),
                    (Some(_), Some(shared)) if shared.input.schema.fields() != schema.fields() => {
                        Some(format!("`{target}` takes the late rows of another stage, whose columns differ; name a dataset of its own"))
                    }
                    (Some(_), Some(shared)) => {
                        shared.sources.extend(sources.iter().cloned());
                        continue;
                    }
                    (Some(_), None) => None,
                };
                match mistake {
                    Some(message) => self.problems.step(index, at, "lateOutput", message),
                    None => self.add(target, SinkInput::new(schema, ChangeMode::Append), Vec::new(), Written::Late, sources.clone()),
                }
            }
        }
    }

    fn dead_letters(&mut self, structure: &Structure<'_>, typing: &Typing) {
        let mut targets: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for source in typing.sources.keys() {
            for policy in [self.policies.of_source(source), self.policies.of_steps_of(source)] {
                if let Some(target) = policy.dead_letter {
                    targets.entry(target).or_default().insert(source.clone());
                }
            }
        }
        for stage in &structure.stages {
            let sources = typing.fed_by(stage);
            if let Some(target) = self.policies.of_fed_by(&sources).dead_letter {
                targets.entry(target).or_default().extend(sources);
            }
        }
        for used in self.uses.values() {
            if let Some(target) = &used.policy.dead_letter {
                targets.entry(target.clone()).or_default().extend(used.sources.iter().cloned());
            }
        }
        for (target, sources) in targets {
            match self.uses.get(&target).map(|used| used.what) {
                None => {}
                // Reported where the target is named.
                Some(Written::Output { .. } | Written::DeadLetters) => continue,
                Some(Written::Late) => {
                    let message = format!("`{target}` takes late rows and cannot take dead letters too; they have columns of their own");
                    self.problems.dataset(&target, &[], message);
                    continue;
                }
            }
            if self.input.datasets.get(&target).is_some_and(|dataset| dataset.options.on_bad.is_some_and(|own| own != OnBadData::Fail)) {
                let message = format!("`{target}` takes dead letters; what its own sink refuses ends the run, so leave `onBadData` out");
                self.problems.dataset(&target, &["onBadData"], message);
            }
            let asked = SinkInput::new(bad::dead_letter_schema(), ChangeMode::Append);
            self.add(&target, asked, Vec::new(), Written::DeadLetters, sources);
        }
    }
}

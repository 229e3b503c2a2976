//! The sixth pass: what each output promises from end to end, and what lowers it.

use super::input::PlanInput;
use super::lineage::{Origin, origin};
use super::problems::Problems;
use super::sinks::{SinkUse, Written};
use super::structure::Structure;
use super::typing::Typing;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::{ChangeMode, Guarantee};
use tidegate_operators::BoundNode;

/// What a plan says about one dataset that it writes.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputSummary {
    /// The dataset.
    pub dataset: String,
    /// What it takes.
    pub role: OutputRole,
    /// Append or upsert, as the sink gets it.
    pub mode: ChangeMode,
    /// The columns by which rows replace each other, in a changelog too; empty for final rows.
    pub keys: Vec<String>,
    /// What it promises from end to end.
    pub guarantee: Guarantee,
    /// Each part that promises less than exactly-once, and why.
    pub lowered_by: Vec<String>,
    /// Each expression with `now()` that its rows depend on: reading the same input again may give other values.
    pub clocks: Vec<String>,
}

/// What an output takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputRole {
    /// The rows of a stage.
    Rows,
    /// Rows that came too late.
    LateRows,
    /// Rows that could not be used.
    DeadLetters,
}

/// The name of a guarantee, as `require` spells it.
pub(super) fn name(guarantee: Guarantee) -> &'static str {
    match guarantee {
        Guarantee::AtMostOnce => "at-most-once",
        Guarantee::AtLeastOnce => "at-least-once",
        Guarantee::Idempotent => "idempotent",
        Guarantee::ExactlyOnce => "exactly-once",
    }
}

/// Judges every output.
pub(super) fn judge(
    input: &PlanInput<'_>,
    structure: &Structure<'_>,
    typing: &Typing,
    sinks: &BTreeMap<String, SinkUse>,
    problems: &mut Problems,
) -> Vec<OutputSummary> {
    let pass = Pass { structure, typing };
    let mut outputs = Vec::with_capacity(sinks.len());
    for (dataset, sink) in sinks {
        let summary = pass.summary(dataset, sink, problems);
        let required = input.datasets.get(dataset).and_then(|dataset| dataset.options.require);
        if let Some(required) = required.filter(|required| summary.guarantee < *required) {
            let message = format!(
                "`{}` is required, but `{dataset}` is {}: {}",
                name(required),
                name(summary.guarantee),
                summary.lowered_by.join("; ")
            );
            problems.dataset(dataset, &["require"], message);
        }
        outputs.push(summary);
    }
    outputs
}

struct Pass<'p, 'a> {
    structure: &'p Structure<'a>,
    typing: &'p Typing,
}

impl Pass<'_, '_> {
    fn summary(&self, dataset: &str, sink: &SinkUse, problems: &mut Problems) -> OutputSummary {
        let mut guarantee = sink.plan.guarantee;
        let mut lowered_by = Vec::new();
        match guarantee {
            Guarantee::ExactlyOnce => {}
            Guarantee::Idempotent => lowered_by.push(format!("sink `{dataset}` writes rows again under the same key")),
            Guarantee::AtLeastOnce => lowered_by.push(format!("sink `{dataset}` is at-least-once")),
            Guarantee::AtMostOnce => lowered_by.push(format!("sink `{dataset}` is at-most-once")),
        }
        for source in &sink.sources {
            if self.typing.sources.get(source).is_some_and(|plan| !plan.replayable) {
                lowered_by.push(format!("source `{source}` cannot be read again"));
                guarantee = Guarantee::AtMostOnce;
            }
        }
        let role = match sink.what {
            Written::Output { .. } => OutputRole::Rows,
            Written::Late => OutputRole::LateRows,
            Written::DeadLetters => OutputRole::DeadLetters,
        };
        let mut clocks = Vec::new();
        if role == OutputRole::Rows {
            self.clocks(dataset, &mut BTreeSet::new(), &mut clocks);
            if guarantee == Guarantee::Idempotent && !clocks.is_empty() {
                self.refuse_clocks_in_keys(dataset, sink, problems);
                lowered_by.extend(clocks.iter().map(|clock| format!("{clock}, so a row written again may differ")));
                guarantee = Guarantee::AtLeastOnce;
            }
        }
        OutputSummary {
            dataset: dataset.to_string(),
            role,
            mode: sink.input.mode.clone(),
            keys: sink.keys.clone(),
            guarantee,
            lowered_by,
            clocks,
        }
    }

    /// The steps with `now()` above a dataset.
    fn clocks(&self, dataset: &str, seen: &mut BTreeSet<usize>, clocks: &mut Vec<String>) {
        let Some(&index) = self.structure.producer.get(dataset) else { return };
        let Some(typed) = self.typing.stages[index].as_ref().filter(|_| seen.insert(index)) else { return };
        let def = self.structure.stages[index].def;
        for input in &def.inputs {
            self.clocks(input, seen, clocks);
        }
        for at in &typed.uses_now {
            let op = self.structure.stages[index].steps[*at].op();
            clocks.push(format!("step {at} (`{op}`) of stage `{}` uses `now()`", def.id));
        }
    }

    /// A key that changes from one reading to the next overwrites nothing.
    fn refuse_clocks_in_keys(&self, dataset: &str, sink: &SinkUse, problems: &mut Problems) {
        let Some(&index) = self.structure.producer.get(dataset) else { return };
        for key in &sink.keys {
            if let Some(clock) = self.clock_behind(index, key) {
                let message =
                    format!("the key column `{key}` depends on `now()` ({clock}), so rows written again would not replace themselves");
                problems.dataset(dataset, &[], message);
            }
        }
    }

    /// The step with `now()` that makes a column of a stage's output.
    fn clock_behind(&self, index: usize, column: &str) -> Option<String> {
        let (stage, typed) = (&self.structure.stages[index], self.typing.stages[index].as_ref()?);
        let mut column = column.to_string();
        for (at, bound) in typed.steps.iter().enumerate().rev() {
            match &bound.node {
                BoundNode::Operator { keys, .. } => {
                    if !keys.iter().flatten().any(|key| *key == column) {
                        return None;
                    }
                }
                BoundNode::Step(_) => match origin(&stage.def.steps[at], &typed.input_of(at)[0].schema, &bound.output.schema, &column) {
                    Origin::Column(earlier) => column = earlier,
                    Origin::Computed if typed.uses_now.contains(&at) => {
                        return Some(format!("step {at} of stage `{}`", stage.def.id));
                    }
                    Origin::Computed => return None,
                },
            }
        }
        stage.def.inputs.iter().find_map(|input| self.clock_behind(*self.structure.producer.get(input.as_str())?, &column))
    }
}

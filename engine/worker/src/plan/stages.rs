//! Stages bound for good: against the columns that are left, with their steps in place for a pipe.

use super::lineage;
use super::narrow::Narrow;
use super::policy::Policy;
use super::problems::Problems;
use super::sources::Sources;
use super::structure::Structure;
use super::typing::{Typing, either_null};
use arrow::datatypes::SchemaRef;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::{ChangeMode, OnBadData, OperatorFactory, Result};
use tidegate_dialect::Functions;
use tidegate_operators::{BindCtx, BoundNode, StreamType};
use tidegate_runtime::graph::PipeStep;

/// A stage as it runs.
pub(super) struct StagePlan {
    /// What enters it, per port.
    pub(super) inputs: Vec<SchemaRef>,
    /// Chained behind what feeds the stage; each with the number of the step it is, or stands behind.
    pub(super) prefix: Vec<(usize, PipeStep)>,
    /// A task of its own; a stage without one is all prefix.
    pub(super) operator: Option<OperatorPlan>,
    /// Chained behind the operator.
    pub(super) suffix: Vec<PipeStep>,
    /// What leaves it.
    pub(super) output: SchemaRef,
}

/// The heavy step of a stage.
pub(super) struct OperatorPlan {
    /// Opens one per task.
    pub(super) factory: Arc<dyn OperatorFactory>,
    /// The columns that decide a row's task, per port; none at all for an operator of one task.
    pub(super) keys: Vec<Vec<String>>,
    /// What reaches it, per port.
    pub(super) inputs: Vec<SchemaRef>,
    /// How metrics and bad rows name it.
    pub(super) label: String,
    /// The dataset that takes its late rows.
    pub(super) late: Option<String>,
}

/// One line per step, by stage and label.
pub(super) type Details = BTreeMap<(String, String), String>;

/// Binds stages in the order of the data.
pub(super) struct Binder<'p, 'a> {
    pub(super) structure: &'p Structure<'a>,
    pub(super) typing: &'p Typing,
    pub(super) sources: &'p Sources,
    pub(super) functions: &'p Functions,
    /// The rows of each dataset as they are made.
    pub(super) schemas: BTreeMap<String, SchemaRef>,
    pub(super) details: Details,
}

impl Binder<'_, '_> {
    /// Binds a stage. Its mistakes are in `problems` when it gives none.
    pub(super) fn bind(&mut self, index: usize, policy: &Policy, problems: &mut Problems) -> Option<StagePlan> {
        let inputs = self.inputs(index)?;
        let typed = self.typing.stages[index].as_ref()?;
        let need = &self.sources.needs.stages[index];
        let mut current: Vec<StreamType> = inputs
            .iter()
            .zip(&typed.inputs)
            .map(|(schema, full)| StreamType { schema: Arc::clone(schema), mode: full.mode.clone() })
            .collect();
        let mut plan = StagePlan { output: Arc::clone(&inputs[0]), inputs, prefix: Vec::new(), operator: None, suffix: Vec::new() };
        for (at, step) in self.structure.stages[index].steps.iter().enumerate() {
            let after = &need.after[at];
            let idle = self.sources.rebound.get(&(index, at));
            let applied = idle.map(|idle| idle.equals.clone()).unwrap_or_default();
            let cx = BindCtx::new()
                .with_functions(self.functions.clone())
                .with_keys(after.keys)
                .with_reloads(self.typing.reloads(&self.structure.stages[index]))
                .with_needed(after.columns.clone())
                .with_applied(applied);
            if let (ChangeMode::Upsert { keys }, true) =
                (&current[0].mode, leaves_out(policy.on_bad) && can_fail(&self.structure.stages[index].def.steps[at]))
            {
                let message = format!(
                    "rows that come in replace each other by `{}`, and a row that this step cannot use would be left out: the one that it replaces \
                     or deletes would stay. Set `onBadData = \"fail\"` for what feeds this stage, or compute before rows replace each other",
                    keys.join("`, `")
                );
                problems.step(index, at, "op", message);
                return None;
            }
            let bound = match step.bind(&current, &cx) {
                Ok(bound) => bound,
                Err(found) => {
                    problems.of_step(index, at, found);
                    return None;
                }
            };
            let label = format!("{at}:{}", step.op());
            let wanted = after.of(&bound.output.schema, &typed.steps[at].output.schema);
            let output = StreamType { schema: Arc::clone(&wanted), mode: bound.output.mode.clone() };
            match bound.node {
                // The source did its work: what is left of it would only pass rows on.
                BoundNode::Step(_) if idle.is_some() && bound.output.schema.fields() == current[0].schema.fields() => {}
                BoundNode::Step(factory) => {
                    self.note(index, &label, bound.details);
                    self.push(&mut plan, (index, at), label, factory, policy.on_bad);
                }
                BoundNode::Operator { factory, keys } => {
                    let inputs = current.iter().map(|input| Arc::clone(&input.schema)).collect();
                    self.note(index, &label, bound.details);
                    plan.operator = Some(OperatorPlan { factory, keys, inputs, label, late: step.late_output().map(str::to_string) });
                }
            }
            match Narrow::between(&bound.output.schema, &wanted) {
                Ok(None) => {}
                Ok(Some(narrow)) => self.push(&mut plan, (index, at), format!("{at}:narrow"), Arc::new(narrow), OnBadData::Fail),
                Err(error) => {
                    problems.step(index, at, "", error.to_string());
                    return None;
                }
            }
            plan.output = wanted;
            current = vec![output];
        }
        Some(plan)
    }

    /// The agreed schema per port: what the stage reads of its inputs. A column may be null where it may be in any input.
    fn inputs(&self, index: usize) -> Option<Vec<SchemaRef>> {
        let stage = &self.structure.stages[index];
        let typed = self.typing.stages[index].as_ref()?;
        let need = &self.sources.needs.stages[index];
        let mut ports: Vec<Option<SchemaRef>> = vec![None; stage.ports()];
        for (input, name) in stage.def.inputs.iter().enumerate() {
            let port = stage.port(input);
            let part = need.inputs[port].of(self.schemas.get(name)?, &typed.inputs[port].schema);
            ports[port] = Some(ports[port].as_ref().map_or_else(|| Arc::clone(&part), |agreed| either_null(agreed, &part)));
        }
        ports.into_iter().collect()
    }

    fn push(
        &self,
        plan: &mut StagePlan,
        (index, at): (usize, usize),
        label: String,
        factory: Arc<dyn tidegate_api::StepFactory>,
        on_bad: OnBadData,
    ) {
        let step = PipeStep::new(&self.structure.stages[index].def.id, label, factory, on_bad);
        if plan.operator.is_some() { plan.suffix.push(step) } else { plan.prefix.push((at, step)) }
    }

    fn note(&mut self, index: usize, label: &str, details: String) {
        self.details.insert((self.structure.stages[index].def.id.clone(), label.to_string()), details);
    }
}

/// The step that brings rows of `made` into the agreed order before a stage, if one is needed. No row can fail in it.
pub(super) fn entry(stage: &str, made: &SchemaRef, wanted: &SchemaRef) -> Result<Option<PipeStep>> {
    let narrow = Narrow::between(made, wanted)?;
    Ok(narrow.map(|narrow| PipeStep::new(stage, "narrow", Arc::new(narrow), OnBadData::Fail)))
}

/// Filters that test nothing because their source does, for `plan`: the stage and the label of each, and what it says.
pub(super) fn idle_filters(structure: &Structure<'_>, sources: &Sources, source: &str) -> Vec<(String, String)> {
    let stages = structure.readers.get(source).into_iter().flatten().map(|(stage, _)| *stage);
    let idle = stages.flat_map(|stage| sources.rebound.range((stage, 0)..(stage + 1, 0)));
    idle.map(|((stage, at), _)| (structure.stages[*stage].def.id.clone(), format!("{at}:{}", lineage::FILTER))).collect()
}

/// Whether rows that a step cannot use are left out, and the run goes on.
fn leaves_out(on_bad: OnBadData) -> bool {
    match on_bad {
        OnBadData::Fail => false,
        OnBadData::Drop | OnBadData::DeadLetter | OnBadData::Rescue => true,
    }
}

/// Whether a step may find a row that it cannot use. A filter may as well, but of rows that replace each other it looks at the key alone, so it leaves out all of
/// one key or none.
fn can_fail(step: &Value) -> bool {
    match step.get("op").and_then(Value::as_str) {
        Some("applyExpression" | "cast" | "wasm" | "container") => true,
        Some("select") => {
            let columns = step.get("columns").and_then(Value::as_array);
            columns.is_some_and(|columns| columns.iter().any(|column| column.get("expression").is_some()))
        }
        _ => false,
    }
}

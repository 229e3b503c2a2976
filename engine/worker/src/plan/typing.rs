//! The second pass: types flow forward, from what each source has in full through every step to every sink.

use super::input::PlanInput;
use super::lineage;
use super::policy::Policies;
use super::problems::Problems;
use super::structure::{Stage, Structure};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_api::{OnBadData, SourcePlan, SourceRequest, bad};
use tidegate_dialect::Functions;
use tidegate_operators::{BindCtx, Bound, BoundNode, StreamType};

/// The types of everything that could be typed.
#[derive(Default)]
pub(super) struct Typing {
    /// What each source that is read has in full.
    pub(super) sources: BTreeMap<String, SourcePlan>,
    /// The rows of each dataset.
    pub(super) streams: BTreeMap<String, StreamType>,
    /// By stage, in the order of the file.
    pub(super) stages: Vec<Option<TypedStage>>,
    /// The sources that feed each dataset.
    pub(super) feeding: BTreeMap<String, BTreeSet<String>>,
}

/// A stage whose steps are all typed.
pub(super) struct TypedStage {
    /// Per port.
    pub(super) inputs: Vec<StreamType>,
    /// One per step.
    pub(super) steps: Vec<Bound>,
    /// The index of the operator, if there is one.
    pub(super) heavy: Option<usize>,
    /// The steps that depend on `now()`.
    pub(super) uses_now: Vec<usize>,
    /// The parts of expressions that are evaluated row by row, with their step.
    pub(super) row_by_row: Vec<(usize, String)>,
}

impl TypedStage {
    /// What enters a step, per port.
    pub(super) fn input_of(&self, step: usize) -> &[StreamType] {
        match step.checked_sub(1) {
            None => &self.inputs,
            Some(before) => std::slice::from_ref(&self.steps[before].output),
        }
    }

    /// What the stage makes.
    pub(super) fn output(&self) -> &StreamType {
        self.steps.last().map_or(&self.inputs[0], |step| &step.output)
    }
}

impl Typing {
    /// Types everything that can be typed. A stage whose input failed is left out silently: its mistake is the input's.
    pub(super) fn new(input: &PlanInput<'_>, structure: &Structure<'_>, policies: &Policies, problems: &mut Problems) -> Self {
        let mut typing = Typing { stages: structure.stages.iter().map(|_| None).collect(), ..Typing::default() };
        for name in structure.readers.keys().filter(|name| !structure.producer.contains_key(**name)) {
            let Some(dataset) = input.datasets.get(*name) else { continue };
            let Some(source) = &dataset.source else { continue };
            let rescue = policies.of_source(name).on_bad == OnBadData::Rescue;
            match source.plan(&SourceRequest::all().with_rescue(rescue).with_pinned(dataset.pinned.clone())) {
                Ok(plan) => {
                    if rescue && plan.schema.index_of(bad::RESCUED).is_err() {
                        problems.dataset(name, &["onBadData"], policies.cannot_rescue(input, name));
                    }
                    typing.streams.insert((*name).to_string(), StreamType::append(Arc::clone(&plan.schema)));
                    typing.feeding.insert((*name).to_string(), BTreeSet::from([(*name).to_string()]));
                    typing.sources.insert((*name).to_string(), plan);
                }
                Err(error) => problems.of_dataset(name, &error),
            }
        }
        for &index in &structure.order {
            let stage = &structure.stages[index];
            let feeding = typing.fed_by(stage);
            // The first producer of a dataset is the one its readers are judged by.
            let first = structure.producer.get(stage.def.output.as_str()) == Some(&index);
            typing.check_table(index, stage, problems);
            let Some(inputs) = typing.inputs(index, stage, problems) else { continue };
            if let Some(typed) = type_stage(index, stage, inputs, &input.functions, problems) {
                if first {
                    typing.streams.insert(stage.def.output.clone(), typed.output().clone());
                    typing.feeding.insert(stage.def.output.clone(), feeding);
                }
                typing.stages[index] = Some(typed);
            }
        }
        typing
    }

    /// Refuses a look-up whose table comes from the source of its stream: the stream is held until the table is there, and a source
    /// whose rows are held for one reader makes none for another.
    fn check_table(&self, index: usize, stage: &Stage<'_>, problems: &mut Problems) {
        let Some(step) = stage.steps.first().filter(|step| step.op() == "lookupJoin") else { return };
        let [stream, table] = stage.def.inputs.as_slice() else { return };
        let (Some(fed), Some(also)) = (self.feeding.get(stream), self.feeding.get(table)) else { return };
        if let Some(both) = fed.intersection(also).next()
            && step.time_columns().iter().all(Option::is_none)
        {
            let message = format!(
                "`{stream}` and `{table}` both come from `{both}`: the table is there only when the source has been read to its end, and the                  stream waits for it; look up the version with `asOf`, or join the streams with `streamJoin`"
            );
            problems.step(index, 0, "op", message);
        }
    }

    /// The sources that feed a stage.
    pub(super) fn fed_by(&self, stage: &Stage<'_>) -> BTreeSet<String> {
        stage.def.inputs.iter().filter_map(|name| self.feeding.get(name)).flatten().cloned().collect()
    }

    /// What enters a stage, per port; `None` if it is unknown or does not fit together.
    fn inputs(&self, index: usize, stage: &Stage<'_>, problems: &mut Problems) -> Option<Vec<StreamType>> {
        let names = &stage.def.inputs;
        let types: Vec<Option<&StreamType>> = names.iter().map(|name| self.streams.get(name)).collect();
        let known: Vec<(usize, &StreamType)> = types.iter().enumerate().filter_map(|(at, found)| found.map(|found| (at, found))).collect();
        if stage.ports() > 1 {
            return (known.len() == stage.ports()).then(|| known.iter().map(|(_, found)| (*found).clone()).collect());
        }
        let ((first, merged), rest) = known.split_first().map(|((at, found), rest)| ((*at, (*found).clone()), rest))?;
        let mut merged = merged;
        let mut fits = known.len() == names.len();
        for (at, other) in rest {
            match difference(&merged, other) {
                None => merged.schema = either_null(&merged.schema, &other.schema),
                Some(difference) => {
                    let message = format!("`{}` and `{}` do not have the same rows: {difference}", names[first], names[*at]);
                    problems.stage(index, &["inputs", &at.to_string()], message);
                    fits = false;
                }
            }
        }
        fits.then(|| vec![merged])
    }
}

fn type_stage(
    index: usize,
    stage: &Stage<'_>,
    inputs: Vec<StreamType>,
    functions: &Functions,
    problems: &mut Problems,
) -> Option<TypedStage> {
    let mut typed =
        TypedStage { inputs, steps: Vec::with_capacity(stage.steps.len()), heavy: None, uses_now: Vec::new(), row_by_row: Vec::new() };
    let mut sound = stage.sound;
    // A filter that failed to bind does not change the columns, so the steps behind it can still be judged.
    let mut current = typed.inputs.clone();
    for (at, step) in stage.steps.iter().enumerate() {
        let bound = match step.bind(&current, &BindCtx::new().with_functions(functions.clone())) {
            Ok(bound) => bound,
            Err(found) => {
                problems.of_step(index, at, found);
                sound = false;
                if step.op() == lineage::FILTER {
                    continue;
                }
                return None;
            }
        };
        if let BoundNode::Operator { .. } = bound.node {
            if let Some(first) = typed.heavy {
                let (op, earlier) = (step.op(), stage.steps[first].op());
                let message = format!("`{op}` needs a stage of its own: a stage has one heavy step, and `{earlier}` is it");
                problems.step(index, at, "op", message);
                sound = false;
            } else {
                typed.heavy = Some(at);
            }
        }
        let expressions = lineage::expressions(&stage.def.steps[at], &current[0].schema, functions);
        if expressions.uses_now {
            typed.uses_now.push(at);
        }
        typed.row_by_row.extend(expressions.row_by_row.into_iter().map(|part| (at, part)));
        current = vec![bound.output.clone()];
        typed.steps.push(bound);
    }
    sound.then_some(typed)
}

/// What keeps two streams from being one; nullability does not.
fn difference(left: &StreamType, right: &StreamType) -> Option<String> {
    if left.mode != right.mode {
        return Some("one appends and the other updates, or their keys differ".to_string());
    }
    let describe = |field: Option<&Arc<Field>>| {
        field.map_or("nothing".to_string(), |field| format!("`{}` {}", field.name(), tidegate_api::types::name(field.data_type())))
    };
    let same = |a: &Arc<Field>, b: &Arc<Field>| a.name() == b.name() && a.data_type() == b.data_type();
    let (left, right) = (left.schema.fields(), right.schema.fields());
    (0..left.len().max(right.len())).find_map(|at| match (left.get(at), right.get(at)) {
        (Some(a), Some(b)) if same(a, b) => None,
        (a, b) => Some(format!("column {} is {} in one and {} in the other", at + 1, describe(a), describe(b))),
    })
}

/// The schema whose columns may be null where either's may.
pub(super) fn either_null(left: &SchemaRef, right: &SchemaRef) -> SchemaRef {
    if left.fields() == right.fields() {
        return Arc::clone(left);
    }
    let nullable = |name: &str| right.field_with_name(name).is_ok_and(Field::is_nullable);
    let fields = left.fields().iter().map(|field| {
        if !field.is_nullable() && nullable(field.name()) {
            Arc::new(field.as_ref().clone().with_nullable(true))
        } else {
            Arc::clone(field)
        }
    });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), left.metadata().clone()))
}

/// Whether values of the type have a fixed and small size: the cheapest column to read when only rows are counted.
pub(super) fn is_slim(data_type: &DataType) -> bool {
    data_type.is_primitive() || *data_type == DataType::Boolean
}

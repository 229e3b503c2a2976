//! The second pass: types flow forward, from what each source has in full through every step to every sink.

use super::guess::{self, Guess};
use super::input::PlanInput;
use super::lineage;
use super::policy::Policies;
use super::problems::Problems;
use super::structure::{Stage, Structure};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_api::{ChangeMode, OnBadData, SourcePlan, SourceRequest, bad, hidden};
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
    /// What is thought of the datasets that have no entry in `streams`, because something before them is mistaken.
    guesses: BTreeMap<String, Guess>,
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
    /// Types everything that can be typed, and judges the steps behind a mistake by what can be guessed of their input.
    pub(super) fn new(input: &PlanInput<'_>, structure: &Structure<'_>, policies: &Policies, problems: &mut Problems) -> Self {
        let mut typing = Typing { stages: structure.stages.iter().map(|_| None).collect(), ..Typing::default() };
        for name in structure.readers.keys().filter(|name| !structure.producer.contains_key(**name)) {
            let Some(dataset) = input.datasets.get(*name) else { continue };
            let sketch = || {
                let guess = dataset.sketch.as_ref().map_or_else(Guess::nothing, Guess::of_schema);
                // The column is there or not, with what onBadData would have said.
                if dataset.sketch.is_some() { guess.with_doubtful(bad::RESCUED) } else { guess }
            };
            let Some(source) = &dataset.source else {
                typing.guesses.insert((*name).to_string(), sketch());
                continue;
            };
            let rescue = policies.of_source(name).on_bad == OnBadData::Rescue;
            match source.plan(&SourceRequest::all().with_rescue(rescue).with_pinned(dataset.pinned.clone())) {
                Ok(plan) => {
                    if rescue && plan.schema.index_of(bad::RESCUED).is_err() {
                        problems.dataset(name, &["onBadData"], policies.cannot_rescue(input, name));
                    }
                    if let Some(message) = unusable(&plan) {
                        problems.dataset(name, &[], message);
                        typing.guesses.insert((*name).to_string(), sketch());
                        continue;
                    }
                    let stream = StreamType { schema: Arc::clone(&plan.schema), mode: plan.mode.clone() };
                    typing.streams.insert((*name).to_string(), stream);
                    typing.feeding.insert((*name).to_string(), BTreeSet::from([(*name).to_string()]));
                    typing.sources.insert((*name).to_string(), plan);
                }
                Err(error) => {
                    problems.of_dataset(name, &error);
                    typing.guesses.insert((*name).to_string(), sketch());
                }
            }
        }
        typing.check_reloaded(input, structure, problems);
        for &index in &structure.order {
            let stage = &structure.stages[index];
            let feeding = typing.fed_by(stage);
            // The first producer of a dataset is the one its readers are judged by.
            let first = structure.producer.get(stage.def.output.as_str()) == Some(&index);
            typing.check_table(index, stage, problems);
            typing.check_origin(index, stage, structure, problems);
            let reloads = typing.reloads(stage);
            let mut pass = Pass { index, stage, functions: &input.functions, problems, heavy: None, reloads };
            let outcome = match typing.inputs(index, stage, structure, pass.problems) {
                Some(inputs) => pass.type_stage(inputs),
                None => Err(pass.judge(typing.guessed(stage), 0)),
            };
            match outcome {
                Ok(typed) => {
                    if first {
                        typing.streams.insert(stage.def.output.clone(), typed.output().clone());
                        typing.feeding.insert(stage.def.output.clone(), feeding);
                    }
                    typing.stages[index] = Some(typed);
                }
                Err(guess) if first => {
                    typing.guesses.insert(stage.def.output.clone(), guess);
                }
                Err(_) => {}
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
                "`{stream}` and `{table}` both come from `{both}`: the table is there only when the source has been read to its end, and the \
                 stream waits for it; look up the version with `asOf`, or join the streams with `streamJoin`"
            );
            problems.step(index, 0, "op", message);
        }
    }

    /// Whether every start reads the last input of a stage anew.
    pub(super) fn reloads(&self, stage: &Stage<'_>) -> bool {
        stage.def.inputs.last().and_then(|name| self.sources.get(name)).is_some_and(|plan| plan.reloads)
    }

    /// Refuses every use of a table that each start reads anew but the one that forgets what the start before had read.
    fn check_reloaded(&self, input: &PlanInput<'_>, structure: &Structure<'_>, problems: &mut Problems) {
        for name in self.sources.iter().filter(|(_, plan)| plan.reloads).map(|(name, _)| name) {
            for (index, at) in structure.readers.get(name.as_str()).into_iter().flatten() {
                let is_table = structure.stages[*index].steps.first().is_some_and(|step| step.op() == "lookupJoin") && *at == 1;
                if !is_table {
                    let message = format!(
                        "`{name}` is a table that every start reads anew, so it can be nothing but the second input of a `lookupJoin` that begins \
                         its stage; choose and compute its columns with `query`"
                    );
                    problems.stage(*index, &["inputs", &at.to_string()], message);
                }
            }
            if input.datasets.get(name).is_some_and(|dataset| dataset.options.time.is_some()) {
                problems.dataset(name, &["time"], "a table that is looked up as it stands has no event time; leave `time` out".to_string());
            }
        }
    }

    /// Refuses state per origin split behind another stateful step: what that makes comes from no split.
    fn check_origin(&self, index: usize, stage: &Stage<'_>, structure: &Structure<'_>, problems: &mut Problems) {
        let Some(at) = stage.steps.iter().position(|step| step.keeps_splits_apart()) else { return };
        for input in &stage.def.inputs {
            let Some(other) = self.made_of_many(input, structure) else { continue };
            let message = format!(
                "the rows of `{input}` are made by stage `{other}` out of many, and come from no split; leave `keyBy = false` out here, or \
                 let this step read the source itself"
            );
            problems.step(index, at, "keyBy", message);
        }
    }

    /// The stage with an operator through which a dataset's rows went last, if any.
    fn made_of_many<'s>(&self, dataset: &str, structure: &'s Structure<'_>) -> Option<&'s str> {
        let stage = *structure.producer.get(dataset)?;
        let (made_by, typed) = (&structure.stages[stage], self.stages[stage].as_ref()?);
        if typed.heavy.is_some() {
            return Some(&made_by.def.id);
        }
        made_by.def.inputs.iter().find_map(|input| self.made_of_many(input, structure))
    }

    /// The sources that feed a stage.
    pub(super) fn fed_by(&self, stage: &Stage<'_>) -> BTreeSet<String> {
        stage.def.inputs.iter().filter_map(|name| self.feeding.get(name)).flatten().cloned().collect()
    }

    /// What enters a stage, per port; `None` if it is unknown or does not fit together.
    fn inputs(&self, index: usize, stage: &Stage<'_>, structure: &Structure<'_>, problems: &mut Problems) -> Option<Vec<StreamType>> {
        let names = &stage.def.inputs;
        if stage.begins_unread() && names.len() > 1 {
            return None;
        }
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
        if let (true, ChangeMode::Upsert { keys }) = (fits, &merged.mode)
            && let Some(other) = self.other_origin(names, structure)
        {
            let (first, by) = (&names[first], keys.join("`, `"));
            let message = format!(
                "rows of `{first}` and of `{other}` replace each other by `{by}`, and which of two comes last would be chance; put a column that \
                 tells the inputs apart into the key of each, or write them to outputs of their own"
            );
            problems.stage(index, &["inputs"], message);
            return None;
        }
        fits.then(|| vec![merged])
    }

    /// The first dataset whose rows are not in one order with those of the first: only the rows that one source hands over, through nothing
    /// but steps without state, are.
    fn other_origin<'n>(&self, names: &'n [String], structure: &Structure<'_>) -> Option<&'n String> {
        let (first, rest) = names.split_first()?;
        let beside = |other: &&String| {
            *other != first
                && (self.made_of_many(first, structure).is_some()
                    || self.made_of_many(other, structure).is_some()
                    || self.feeding.get(first) != self.feeding.get(*other))
        };
        rest.iter().find(beside)
    }

    /// What may enter a stage, per port.
    fn guessed(&self, stage: &Stage<'_>) -> Vec<Guess> {
        let of = |name: &String| match (self.streams.get(name), self.guesses.get(name)) {
            (Some(stream), _) => Guess::certain(stream),
            (None, Some(guess)) => guess.clone(),
            (None, None) => Guess::nothing(),
        };
        let inputs: Vec<Guess> = stage.def.inputs.iter().map(of).collect();
        if stage.ports() > 1 {
            return if inputs.len() == stage.ports() { inputs } else { vec![Guess::nothing(); stage.ports()] };
        }
        // Inputs that meet have the same rows; of two that differ nobody knows which is right.
        let mut certain = inputs.iter().filter(|input| input.is_certain());
        match (stage.begins_unread(), certain.next(), certain.next(), inputs.first()) {
            (false, Some(known), None, _) => vec![known.clone()],
            (false, None, None, Some(only)) if inputs.len() == 1 => vec![only.clone()],
            _ => vec![Guess::nothing()],
        }
    }
}

/// One stage on its way.
struct Pass<'p, 'a> {
    index: usize,
    stage: &'p Stage<'a>,
    functions: &'p Functions,
    problems: &'p mut Problems,
    /// The number of the operator, if there is one so far.
    heavy: Option<usize>,
    /// Whether every start reads the last input anew.
    reloads: bool,
}

impl Pass<'_, '_> {
    /// Types every step; behind the first that cannot be typed it judges the rest, and answers what is thought to leave the stage.
    fn type_stage(&mut self, inputs: Vec<StreamType>) -> Result<TypedStage, Guess> {
        let (index, stage) = (self.index, self.stage);
        let mut typed =
            TypedStage { inputs, steps: Vec::with_capacity(stage.steps.len()), heavy: None, uses_now: Vec::new(), row_by_row: Vec::new() };
        let mut sound = stage.sound;
        // A filter that failed to bind does not change the columns, so the steps behind it can still be judged.
        let mut current = typed.inputs.clone();
        let guessed = |current: &[StreamType]| current.iter().map(Guess::certain).collect::<Vec<_>>();
        for (at, step) in stage.steps.iter().enumerate() {
            let bound = match step.bind(&current, &BindCtx::new().with_functions(self.functions.clone()).with_reloads(self.reloads)) {
                Ok(bound) => bound,
                Err(found) => {
                    self.problems.of_step(index, at, found);
                    sound = false;
                    if step.op() == lineage::FILTER {
                        continue;
                    }
                    let after = guessed(&current).first().map_or_else(Guess::nothing, |guess| guess.after_mistake(&stage.def.steps[at]));
                    return Err(self.judge(vec![after], at + 1));
                }
            };
            if let BoundNode::Operator { .. } = bound.node {
                sound &= self.is_only_operator(at, step.op());
                typed.heavy = self.heavy;
            }
            sound &= self.are_names(at, &current, &bound.output);
            let expressions = lineage::expressions(&stage.def.steps[at], &current[0].schema, self.functions);
            if expressions.uses_now {
                typed.uses_now.push(at);
            }
            typed.row_by_row.extend(expressions.row_by_row.into_iter().map(|part| (at, part)));
            current = vec![bound.output.clone()];
            typed.steps.push(bound);
        }
        if sound { Ok(typed) } else { Err(self.judge(guessed(&current), stage.steps.len())) }
    }

    /// A column that a step makes has a name that can be written in a file and read on a screen.
    fn are_names(&mut self, at: usize, inputs: &[StreamType], output: &StreamType) -> bool {
        let is_new = |name: &str| inputs.iter().all(|input| input.schema.index_of(name).is_err());
        let fields = output.schema.fields().iter().map(|field| field.name().as_str());
        let found = fields.filter(|name| is_new(name)).find(|name| name.is_empty() || name.chars().any(char::is_control));
        if let Some(name) = found {
            let what = if name.is_empty() { "has no name" } else { "has control characters in its name" };
            self.problems.step(self.index, at, "", format!("a column that this step makes {what}: {name:?}; give it another"));
        }
        found.is_none()
    }

    /// A stage has one operator.
    fn is_only_operator(&mut self, at: usize, op: &str) -> bool {
        let Some(first) = self.heavy else {
            self.heavy = Some(at);
            return true;
        };
        let earlier = self.stage.def.steps[first].get("op").and_then(Value::as_str).unwrap_or_default();
        let message = format!("`{op}` needs a stage of its own: a stage has one heavy step, and `{earlier}` is it");
        self.problems.step(self.index, at, "op", message);
        false
    }

    /// Judges the steps from `first` on by what is thought to reach them; answers what is thought to leave the stage.
    fn judge(&mut self, mut inputs: Vec<Guess>, first: usize) -> Guess {
        let stage = self.stage;
        let read = stage.steps.iter().enumerate().skip(first).map(|(at, step)| (at, Some(step)));
        let behind = stage.behind.iter().map(|(at, step)| (*at, step.as_ref()));
        for (at, step) in read.chain(behind) {
            let written = &stage.def.steps[at];
            let output = match step {
                Some(step) => {
                    let judged = guess::judge(step.as_ref(), written, &inputs, self.functions);
                    self.problems.of_step(self.index, at, judged.problems);
                    if judged.is_operator {
                        self.is_only_operator(at, step.op());
                    }
                    judged.output
                }
                None => inputs.first().map_or_else(Guess::nothing, |input| input.after_mistake(written)),
            };
            inputs = vec![output];
        }
        inputs.into_iter().next().unwrap_or_else(Guess::nothing)
    }
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

/// Why rows of a source cannot be told apart from what the plan adds to them; `None` if they can.
fn unusable(plan: &SourcePlan) -> Option<String> {
    let fields = plan.schema.fields();
    let visible = match &plan.mode {
        ChangeMode::Append => fields.as_ref(),
        ChangeMode::Upsert { keys } => {
            let (last, visible) = fields.split_last()?;
            if **last != hidden::op_field() {
                return Some("its rows replace each other, and no column behind the others says what each does".to_string());
            }
            if let Some(key) = keys.iter().find(|key| !visible.iter().any(|field| field.name() == *key)) {
                return Some(format!("its rows replace each other by `{key}`, which is no column of theirs"));
            }
            visible
        }
    };
    let taken = visible.iter().find(|field| hidden::is_hidden(field.name()))?;
    Some(format!(
        "it has a column `{}`, a name that is reserved for the engine's own; call it otherwise where the rows come from",
        taken.name()
    ))
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

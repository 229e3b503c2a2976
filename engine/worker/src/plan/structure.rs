//! The first pass: who produces and reads what, in which order, and which steps there are.
//!
//! Types play no part yet. What is wrong here is reported and left out, so that the later passes can still judge the rest.

use super::guess;
use super::input::PlanInput;
use super::problems::Problems;
use crate::control::StageDef;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_api::nearest;
use tidegate_operators::StepDef;

/// A stage whose steps were read.
pub(super) struct Stage<'a> {
    /// As written.
    pub(super) def: &'a StageDef,
    /// One per step, in order. Ends before the first that could not be read.
    pub(super) steps: Vec<Box<dyn StepDef>>,
    /// The steps from the first that could not be read, each with its number, so that they can be judged all the same. One with a key
    /// too many stands here without it.
    pub(super) behind: Vec<(usize, Option<Box<dyn StepDef>>)>,
    /// Whether all steps were read and the inputs suit them.
    pub(super) sound: bool,
}

impl Stage<'_> {
    /// How many inputs the first step tells apart; several inputs of a stage whose first step takes one are merged.
    pub(super) fn ports(&self) -> usize {
        self.first().map_or(1, |step| step.time_columns().len().max(1))
    }

    /// The first step, if anything is known of it.
    fn first(&self) -> Option<&dyn StepDef> {
        let first = self.steps.first().or_else(|| self.behind.first().and_then(|(_, step)| step.as_ref()));
        first.map(Box::as_ref)
    }

    /// Whether nobody can say what becomes of the inputs, because the first step cannot be read.
    pub(super) fn begins_unread(&self) -> bool {
        self.steps.is_empty() && self.behind.first().is_some_and(|(_, step)| step.is_none())
    }

    /// The port at which an input arrives.
    pub(super) fn port(&self, input: usize) -> usize {
        if self.ports() > 1 { input } else { 0 }
    }
}

/// How the datasets hang together.
pub(super) struct Structure<'a> {
    /// In the order of the file.
    pub(super) stages: Vec<Stage<'a>>,
    /// Indices of the stages that are on no cycle, producers first.
    pub(super) order: Vec<usize>,
    /// The stage that makes a dataset.
    pub(super) producer: BTreeMap<&'a str, usize>,
    /// The stages that read a dataset, each with the number of its input.
    pub(super) readers: BTreeMap<&'a str, Vec<(usize, usize)>>,
}

/// Chained steps run nested on one stack, and a plan is for people to read.
const MAX_STEPS: usize = 1000;
const MAX_STAGES: usize = 1000;

impl<'a> Structure<'a> {
    /// Reads steps and checks names.
    pub(super) fn new(input: &PlanInput<'a>, problems: &mut Problems) -> Self {
        let stages = &input.topology.stages;
        if stages.is_empty() {
            problems.whole("there is no stage; a pipeline needs at least one");
        }
        let steps: usize = stages.iter().map(|stage| stage.steps.len()).sum();
        if steps > MAX_STEPS || stages.len() > MAX_STAGES {
            problems.whole(format!(
                "{} stages with {steps} steps; a pipeline has at most {MAX_STAGES} stages and {MAX_STEPS} steps",
                stages.len()
            ));
            // What nobody would run is not judged further.
            return Structure { stages: Vec::new(), order: Vec::new(), producer: BTreeMap::new(), readers: BTreeMap::new() };
        }
        let mut producer = BTreeMap::new();
        let mut readers: BTreeMap<&str, Vec<(usize, usize)>> = BTreeMap::new();
        let mut ids: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, stage) in stages.iter().enumerate() {
            if let Some(first) = ids.get(stage.id.as_str()) {
                let message = format!("stage {first} is called `{}` too; an id names the state of one stage", stage.id);
                problems.stage(index, &["id"], message);
            } else {
                ids.insert(&stage.id, index);
            }
            if let Some(first) = producer.get(stage.output.as_str()) {
                let first: &StageDef = &stages[*first];
                let message =
                    format!("`{}` is already produced by stage `{}`; read both outputs in a stage of their own", stage.output, first.id);
                problems.stage(index, &["output"], message);
            } else {
                producer.insert(stage.output.as_str(), index);
            }
            for (at, name) in stage.inputs.iter().enumerate() {
                readers.entry(name).or_default().push((index, at));
            }
        }
        let parsed = stages.iter().enumerate().map(|(index, def)| read_stage(index, def, input, problems)).collect();
        let order = order(stages, &producer, problems);
        let structure = Structure { stages: parsed, order, producer, readers };
        structure.check_names(input, problems);
        structure
    }

    /// Whether a sink of the dataset's own is part of the plan.
    pub(super) fn is_written(&self, input: &PlanInput<'_>, dataset: &str) -> bool {
        let published = input.datasets.get(dataset).is_some_and(|dataset| dataset.publishes);
        self.producer.contains_key(dataset) && (published || !self.readers.contains_key(dataset))
    }

    fn check_names(&self, input: &PlanInput<'_>, problems: &mut Problems) {
        let known: BTreeSet<&str> = input.datasets.keys().map(String::as_str).chain(self.producer.keys().copied()).collect();
        for (index, stage) in self.stages.iter().enumerate() {
            for (at, name) in stage.def.inputs.iter().enumerate() {
                if self.producer.contains_key(name.as_str()) {
                    continue;
                }
                let at = at.to_string();
                match input.datasets.get(name) {
                    None => {
                        let message =
                            format!("no stage produces `{name}` and no dataset is called so{}", nearest::hint(name, known.iter().copied()));
                        problems.stage(index, &["inputs", &at], message);
                    }
                    Some(dataset) if dataset.source.is_none() && !dataset.is_unresolved() => {
                        problems.dataset(name, &[], format!("stage `{}` reads it, but it has no `connector`", stage.def.id));
                    }
                    Some(_) => {}
                }
            }
            let output = stage.def.output.as_str();
            if self.is_written(input, output) {
                match input.datasets.get(output) {
                    None => {
                        let hint = nearest::hint(
                            output,
                            input.datasets.keys().map(String::as_str).filter(|name| !self.producer.contains_key(name)),
                        );
                        problems.stage(index, &["output"], format!("no stage reads `{output}` and no dataset is called so{hint}"));
                    }
                    Some(dataset) if dataset.sink.is_none() && !dataset.is_unresolved() => {
                        problems.dataset(output, &[], format!("stage `{}` produces it, but it has no `sink`", stage.def.id));
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

fn read_stage<'a>(index: usize, def: &'a StageDef, input: &PlanInput<'a>, problems: &mut Problems) -> Stage<'a> {
    let before = problems.len();
    let mut steps: Vec<Box<dyn StepDef>> = Vec::with_capacity(def.steps.len());
    let mut behind: Vec<(usize, Option<Box<dyn StepDef>>)> = Vec::new();
    for (at, step) in def.steps.iter().enumerate() {
        match input.steps.parse(step) {
            Ok(step) => {
                let ports = step.time_columns().len();
                if ports > 1 && at > 0 {
                    problems.step(
                        index,
                        at,
                        "op",
                        format!("`{}` must be the first step of its stage: it tells its inputs apart", step.op()),
                    );
                } else if ports > 1 && ports != def.inputs.len() {
                    problems.stage(index, &["inputs"], format!("`{}` needs {ports} inputs, the stage has {}", step.op(), def.inputs.len()));
                }
                if step.op() == "union" {
                    if at > 0 {
                        problems.step(
                            index,
                            at,
                            "op",
                            "`union` must be the first step of its stage: the inputs meet where the stage begins",
                        );
                    } else if def.inputs.len() < 2 {
                        problems.stage(index, &["inputs"], "`union` needs two inputs or more");
                    }
                }
                if behind.is_empty() { steps.push(step) } else { behind.push((at, Some(step))) }
            }
            Err(found) => {
                let rest = guess::without_unknown_keys(step, &found).and_then(|rest| input.steps.parse(&rest).ok());
                problems.of_step(index, at, found);
                behind.push((at, rest));
            }
        }
    }
    if def.inputs.is_empty() {
        problems.stage(index, &["inputs"], "a stage needs an input");
    }
    let sound = behind.is_empty() && problems.len() == before;
    Stage { def, steps, behind, sound }
}

/// The stages, producers first; a cycle is reported and left out, and so is what hangs on it.
fn order(stages: &[StageDef], producer: &BTreeMap<&str, usize>, problems: &mut Problems) -> Vec<usize> {
    let feeding = |index: usize| stages[index].inputs.iter().filter_map(|name| producer.get(name.as_str()).copied());
    let mut done = vec![false; stages.len()];
    let mut order = Vec::with_capacity(stages.len());
    // Each stage waits for its inputs; of those that wait for nothing the first in the file is next.
    let mut fed: Vec<Vec<usize>> = vec![Vec::new(); stages.len()];
    let mut waits: Vec<usize> = vec![0; stages.len()];
    for (index, waits) in waits.iter_mut().enumerate() {
        for feeder in feeding(index) {
            fed[feeder].push(index);
            *waits += 1;
        }
    }
    let mut ready: BTreeSet<usize> = (0..stages.len()).filter(|index| waits[*index] == 0).collect();
    while let Some(index) = ready.pop_first() {
        done[index] = true;
        order.push(index);
        for &reader in &fed[index] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.insert(reader);
            }
        }
    }
    if let Some(first) = (0..stages.len()).find(|index| !done[*index]) {
        // Walking upwards among the stages that wait must come back to one already seen.
        let mut walked = vec![first];
        let cycle = loop {
            let at = walked[walked.len() - 1];
            let Some(feeder) = feeding(at).find(|feeder| !done[*feeder]) else { break Vec::new() };
            if let Some(start) = walked.iter().position(|seen| *seen == feeder) {
                break walked.split_off(start);
            }
            walked.push(feeder);
        };
        if let Some(&lowest) = cycle.iter().min() {
            let mut names: Vec<&str> = cycle.iter().rev().map(|index| stages[*index].id.as_str()).collect();
            names.extend(names.first().copied());
            problems.stage(lowest, &["inputs"], format!("the stages feed each other in a circle: {}", names.join(" -> ")));
        }
    }
    order
}

//! The fourth pass: which columns of every stream anybody reads, from the sinks backwards.

use super::sinks::{SinkUse, Written};
use super::structure::Structure;
use super::typing::{Typing, is_slim};
use arrow::datatypes::{Schema, SchemaRef};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_api::{ChangeMode, hidden};
use tidegate_operators::{Bound, BoundNode, StreamType};

/// What somebody reads of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Need {
    /// The columns: visible ones, and `_op` where rows have it.
    pub(super) columns: BTreeSet<String>,
    /// Whether rows need their deterministic key.
    pub(super) keys: bool,
    /// Whether rows must say which split they come from.
    pub(super) splits: bool,
}

impl Need {
    /// Every column of a schema.
    pub(super) fn all(schema: &Schema, keys: bool) -> Self {
        let columns = schema.fields().iter().map(|field| field.name().clone()).filter(|name| name != hidden::KEY).collect();
        Need { columns, keys, splits: false }
    }

    fn join(&mut self, other: &Need) {
        self.columns.extend(other.columns.iter().cloned());
        self.keys |= other.keys;
        self.splits |= other.splits;
    }

    /// What `made` has of it, in the order of `full`; hidden columns stay behind.
    pub(super) fn of(&self, made: &SchemaRef, full: &SchemaRef) -> SchemaRef {
        let visible =
            full.fields().iter().map(|field| field.name()).filter(|name| !hidden::is_hidden(name) && self.columns.contains(*name));
        let visible = visible.filter_map(|name| made.fields().find(name).map(|(_, field)| Arc::clone(field)));
        let carried = |name: &str| match name {
            hidden::KEY => self.keys,
            hidden::SPLIT | hidden::PROMISED | hidden::PROMISES => self.splits,
            name => hidden::is_hidden(name),
        };
        let carried = made.fields().iter().filter(|field| carried(field.name())).cloned();
        Arc::new(Schema::new_with_metadata(visible.chain(carried).collect::<Vec<_>>(), full.metadata().clone()))
    }
}

/// What somebody reads within a stage.
#[derive(Debug, Clone, Default)]
pub(super) struct StageNeed {
    /// Of what enters it, per port.
    pub(super) inputs: Vec<Need>,
    /// Of what each step makes.
    pub(super) after: Vec<Need>,
}

/// What somebody reads of everything.
#[derive(Debug, Clone, Default)]
pub(super) struct Needs {
    /// Of each dataset, by all who read or write it.
    pub(super) datasets: BTreeMap<String, Need>,
    /// By stage, in the order of the file.
    pub(super) stages: Vec<StageNeed>,
}

/// Steps bound otherwise than the typing pass did: filters whose conditions a source applies.
pub(super) type Rebound = BTreeMap<(usize, usize), Bound>;

impl Needs {
    /// Walks from the sinks to the sources. Everything is typed by now.
    pub(super) fn new(structure: &Structure<'_>, typing: &Typing, sinks: &BTreeMap<String, SinkUse>, rebound: &Rebound) -> Self {
        let mut needs = Needs { datasets: BTreeMap::new(), stages: vec![StageNeed::default(); structure.stages.len()] };
        for (name, sink) in sinks {
            if let (Written::Output { .. }, Some(stream)) = (sink.what, typing.streams.get(name)) {
                needs.datasets.insert(name.clone(), Need::all(&stream.schema, sink.plan.wants_keys));
            }
        }
        for &index in structure.order.iter().rev() {
            let (stage, Some(typed)) = (&structure.stages[index], &typing.stages[index]) else { continue };
            let mut need = needs.datasets.get(&stage.def.output).cloned().unwrap_or_default();
            need.complete(typed.output());
            let mut inputs = vec![need];
            let mut after = Vec::with_capacity(typed.steps.len());
            for (at, bound) in typed.steps.iter().enumerate().rev() {
                // A step has one output, whatever its number of inputs; only the first tells inputs apart.
                let made = inputs.swap_remove(0);
                let bound = rebound.get(&(index, at)).unwrap_or(bound);
                let late = stage.steps[at].late_output().map(|name| sinks.get(name).is_some_and(|sink| sink.plan.wants_keys));
                inputs = before_step(bound, &made, typed.input_of(at), late);
                after.push(made);
            }
            after.reverse();
            for (input, name) in stage.def.inputs.iter().enumerate() {
                needs.datasets.entry(name.clone()).or_default().join(&inputs[stage.port(input)]);
            }
            needs.stages[index] = StageNeed { inputs, after };
        }
        needs
    }
}

/// What a step needs of its inputs to make what is needed of its output. A step with late rows needs them whole.
fn before_step(bound: &Bound, made: &Need, inputs: &[StreamType], late: Option<bool>) -> Vec<Need> {
    let mut asked = made.columns.clone();
    if made.keys {
        asked.insert(hidden::KEY.to_string());
    }
    let answers = (bound.required)(&asked);
    let carries = matches!(bound.node, BoundNode::Step(_));
    let needs = inputs.iter().zip(answers).map(|(input, mut columns)| {
        let keys = columns.remove(hidden::KEY) || (carries && made.keys);
        let splits = columns.remove(hidden::SPLIT) || (carries && made.splits);
        columns.retain(|name| input.schema.field_with_name(name).is_ok());
        let mut need = Need { columns, keys, splits };
        if let Some(late_keys) = late {
            need.join(&Need::all(&input.schema, late_keys));
        }
        need.complete(input);
        need
    });
    needs.collect()
}

impl Need {
    /// Adds what a stream is never without: its upsert keys and `_op`. Rows without any column cannot be counted everywhere, so
    /// at least the cheapest one is kept.
    fn complete(&mut self, stream: &StreamType) {
        if let ChangeMode::Upsert { keys } = &stream.mode {
            self.columns.extend(keys.iter().cloned());
            self.columns.insert(hidden::OP.to_string());
        }
        let visible = || stream.schema.fields().iter().filter(|field| !hidden::is_hidden(field.name()));
        if visible().any(|field| self.columns.contains(field.name())) {
            return;
        }
        if let Some(field) = visible().find(|field| is_slim(field.data_type())).or_else(|| visible().next()) {
            self.columns.insert(field.name().clone());
        }
    }
}

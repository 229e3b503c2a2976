//! The third pass: which column of each source tells time.
//!
//! An event-time step names a column where it stands; the column is followed back through renames to every source whose rows
//! reach the step. Behind an operator the trail ends: the operator forwards a watermark of its own.

use super::input::PlanInput;
use super::lineage::{Origin, origin};
use super::problems::Problems;
use super::structure::Structure;
use super::typing::Typing;
use std::collections::BTreeMap;
use tidegate_api::{TimeScale, TimeSpec, nearest, types};

/// The time column of each source that needs one.
pub(super) fn resolve(
    input: &PlanInput<'_>,
    structure: &Structure<'_>,
    typing: &Typing,
    problems: &mut Problems,
) -> BTreeMap<String, TimeSpec> {
    let mut pass = Pass { structure, typing, chosen: BTreeMap::new(), problems };
    for name in typing.sources.keys() {
        let time = input.datasets.get(name).and_then(|dataset| dataset.options.time.as_ref());
        if let Some(column) = time.and_then(|time| time.column.as_ref()) {
            pass.declared(name, column);
        }
    }
    for &index in &structure.order {
        if typing.stages[index].is_some() {
            pass.stage(index);
        }
    }
    let chosen = pass.chosen.into_iter();
    chosen
        .map(|(name, choice)| {
            let options = input.datasets.get(&name).and_then(|dataset| dataset.options.time.as_ref());
            let spec = input.settings.time_spec(&choice.column, options);
            (name, spec)
        })
        .collect()
}

struct Choice {
    column: String,
    /// Who chose it, for messages.
    by: String,
}

struct Pass<'p, 'a> {
    structure: &'p Structure<'a>,
    typing: &'p Typing,
    chosen: BTreeMap<String, Choice>,
    problems: &'p mut Problems,
}

/// The step that asks for a time column.
#[derive(Clone, Copy)]
struct Asker {
    stage: usize,
    step: usize,
}

impl Pass<'_, '_> {
    fn declared(&mut self, name: &str, column: &str) {
        let schema = &self.typing.sources[name].schema;
        match schema.field_with_name(column) {
            Err(_) => {
                let hint = nearest::hint(column, schema.fields().iter().map(|field| field.name().as_str()));
                self.problems.dataset(name, &["time", "column"], format!("`{name}` has no column `{column}`{hint}"));
            }
            Ok(field) if TimeScale::of(field.data_type()).is_none() => {
                let message = format!(
                    "`{column}` is {} and cannot tell time; a time column is a timestamp or int64 milliseconds",
                    types::name(field.data_type())
                );
                self.problems.dataset(name, &["time", "column"], message);
            }
            Ok(_) => {}
        }
        self.chosen.insert(name.to_string(), Choice { column: column.to_string(), by: "its `time.column`".to_string() });
    }

    fn stage(&mut self, index: usize) {
        let stage = &self.structure.stages[index];
        for (at, step) in stage.steps.iter().enumerate() {
            for (port, column) in step.time_columns().into_iter().enumerate() {
                let Some(column) = column else { continue };
                let asker = Asker { stage: index, step: at };
                for (input, dataset) in stage.def.inputs.iter().enumerate() {
                    if at > 0 || stage.port(input) == port {
                        self.follow(asker, index, at, dataset, column.clone());
                    }
                }
            }
        }
    }

    /// Follows `column` from before step `until` of a stage up to `dataset`, and on to its sources.
    fn follow(&mut self, asker: Asker, index: usize, until: usize, dataset: &str, column: String) {
        let Some(column) = self.through(asker, index, until, column) else { return };
        match self.structure.producer.get(dataset) {
            None => self.choose(asker, dataset, column),
            Some(&producer) => {
                let Some(typed) = &self.typing.stages[producer] else { return };
                for input in &self.structure.stages[producer].def.inputs {
                    self.follow(asker, producer, typed.steps.len(), input, column.clone());
                }
            }
        }
    }

    /// The name of `column` at the stage's input; `None` when an operator made the rows, or the trail ends in a mistake.
    fn through(&mut self, asker: Asker, index: usize, until: usize, mut column: String) -> Option<String> {
        let (stage, typed) = (&self.structure.stages[index], self.typing.stages[index].as_ref()?);
        // Whatever is computed behind an operator is computed from rows that already have a watermark.
        if typed.heavy.is_some_and(|heavy| heavy < until) {
            return None;
        }
        for at in (0..until).rev() {
            let (step, before) = (&stage.def.steps[at], &typed.input_of(at)[0].schema);
            match origin(step, before, &typed.steps[at].output.schema, &column) {
                Origin::Column(earlier) => column = earlier,
                Origin::Computed => {
                    let message = format!(
                        "`{column}` is computed by step {at} (`{}`) of stage `{}`; event time is a column of the source, so that watermarks \
                         can be made where rows are read: give the source's column a timestamp type and use that",
                        stage.steps[at].op(),
                        stage.def.id
                    );
                    self.problems.step(asker.stage, asker.step, "timeColumn", message);
                    return None;
                }
            }
        }
        Some(column)
    }

    fn choose(&mut self, asker: Asker, dataset: &str, column: String) {
        let Some(plan) = self.typing.sources.get(dataset) else { return };
        if let Some(choice) = self.chosen.get(dataset) {
            if choice.column != column {
                let message = format!(
                    "dataset `{dataset}` tells time by `{}` ({}) and cannot tell it by `{column}` too; a dataset has one event-time column",
                    choice.column, choice.by
                );
                self.problems.step(asker.stage, asker.step, "timeColumn", message);
            }
            return;
        }
        let usable = plan.schema.field_with_name(&column).is_ok_and(|field| TimeScale::of(field.data_type()).is_some());
        if !usable {
            let message = format!("`{column}` of dataset `{dataset}` cannot tell time; a time column is a timestamp or int64 milliseconds");
            self.problems.step(asker.stage, asker.step, "timeColumn", message);
            return;
        }
        let by = format!("the `timeColumn` of stage `{}`", self.structure.stages[asker.stage].def.id);
        self.chosen.insert(dataset.to_string(), Choice { column, by });
    }
}

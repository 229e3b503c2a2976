//! What is asked of each source: the columns that are read, and the conditions that every reader filters by.

use super::input::PlanInput;
use super::lineage;
use super::needs::{Needs, Rebound};
use super::policy::Policies;
use super::problems::Problems;
use super::sinks::SinkUse;
use super::structure::Structure;
use super::typing::Typing;
use serde_json::Value;
use std::collections::BTreeMap;
use tidegate_api::{EqualTo, OnBadData, Result, SourcePlan, SourceRequest, TimeSpec, bad, hidden};
use tidegate_operators::BindCtx;

/// What a source is asked, and what it answered.
pub(super) struct Asked {
    /// The question.
    pub(super) request: SourceRequest,
    /// The answer.
    pub(super) plan: SourcePlan,
    /// Whether its rows must say which split they come from.
    pub(super) splits: bool,
}

impl Asked {
    /// The conditions that the source applies itself.
    pub(super) fn applied(&self) -> impl Iterator<Item = &EqualTo> {
        self.plan.applied.iter().filter_map(|index| self.request.equals.get(*index))
    }
}

/// The settled questions, and what follows from the answers.
pub(super) struct Sources {
    /// By dataset.
    pub(super) asked: BTreeMap<String, Asked>,
    /// Filters that test nothing any more, because their source does.
    pub(super) rebound: Rebound,
    /// Who reads what.
    pub(super) needs: Needs,
}

/// Asks every source for what is read of it. A source is asked with conditions first; what it applies, filters need not read.
pub(super) fn ask(
    input: &PlanInput<'_>,
    structure: &Structure<'_>,
    typing: &Typing,
    policies: &Policies,
    sinks: &BTreeMap<String, SinkUse>,
    times: &BTreeMap<String, TimeSpec>,
    problems: &mut Problems,
) -> Sources {
    let mut offers: BTreeMap<&str, Vec<EqualTo>> = BTreeMap::new();
    for name in typing.sources.keys() {
        offers.insert(name, offer(structure, typing, name));
    }
    let pass = Pass { input, structure, typing, policies, times };
    let mut needs = Needs::new(structure, typing, sinks, &Rebound::new());
    let mut rebound = Rebound::new();
    for (name, equals) in offers.iter_mut().filter(|(_, equals)| !equals.is_empty()) {
        match pass.ask(name, &needs, equals) {
            Ok(asked) => rebound.extend(pass.without_tests(name, &asked)),
            // Reported below, if it fails without conditions too.
            Err(_) => equals.clear(),
        }
    }
    if !rebound.is_empty() {
        needs = Needs::new(structure, typing, sinks, &rebound);
    }
    let mut asked = BTreeMap::new();
    for (name, equals) in &offers {
        match pass.ask(name, &needs, equals) {
            Ok(answer) => {
                asked.insert((*name).to_string(), answer);
            }
            Err(error) => problems.of_dataset(name, &error),
        }
    }
    // A source that applies less when it is asked for fewer columns is asked again without conditions, and its filters test again.
    let fickle: Vec<&str> = offers
        .keys()
        .copied()
        .filter(|name| asked.get(*name).is_some_and(|answer| pass.without_tests(name, answer).len() < count_of(structure, name, &rebound)))
        .collect();
    if !fickle.is_empty() {
        rebound.retain(|(stage, _), _| !structure.stages[*stage].def.inputs.iter().any(|input| fickle.contains(&input.as_str())));
        needs = Needs::new(structure, typing, sinks, &rebound);
        for name in fickle {
            match pass.ask(name, &needs, &[]) {
                Ok(answer) => {
                    asked.insert(name.to_string(), answer);
                }
                Err(error) => problems.of_dataset(name, &error),
            }
        }
    }
    Sources { asked, rebound, needs }
}

fn count_of(structure: &Structure<'_>, source: &str, rebound: &Rebound) -> usize {
    rebound.keys().filter(|(stage, _)| structure.stages[*stage].def.inputs.iter().any(|input| input == source)).count()
}

/// The conditions that every reader of a source filters by before anything else: per column, the values that any of them lets pass.
fn offer(structure: &Structure<'_>, typing: &Typing, source: &str) -> Vec<EqualTo> {
    let mut readers = structure.readers.get(source).into_iter().flatten().map(|(stage, _)| first_conditions(structure, typing, *stage));
    let mut common = readers.next().unwrap_or_default();
    for other in readers {
        common.retain_mut(|condition| match other.iter().find(|found| found.column == condition.column) {
            Some(found) => {
                let more: Vec<Value> = found.values.iter().filter(|value| !condition.values.contains(value)).cloned().collect();
                condition.values.extend(more);
                true
            }
            None => false,
        });
    }
    common
}

/// A column of which every reader keeps the rows of one value, if they are not all of the same.
fn apart(structure: &Structure<'_>, typing: &Typing, source: &str) -> Option<String> {
    let readers: Vec<_> =
        structure.readers.get(source).into_iter().flatten().map(|(stage, _)| first_conditions(structure, typing, *stage)).collect();
    let value_of = |reader: &Vec<EqualTo>, column: &str| match reader.iter().find(|found| found.column == column)?.values.as_slice() {
        [value] => Some(value.clone()),
        _ => None,
    };
    let columns = readers.first()?.iter().map(|condition| condition.column.clone());
    columns.into_iter().find(|column| {
        let values: Option<Vec<Value>> = readers.iter().map(|reader| value_of(reader, column)).collect();
        values.is_some_and(|values| values.iter().any(|value| *value != values[0]))
    })
}

/// The conditions of the filters at the head of a stage; of several on one column the first.
fn first_conditions(structure: &Structure<'_>, typing: &Typing, stage: usize) -> Vec<EqualTo> {
    let mut conditions: Vec<EqualTo> = Vec::new();
    let Some(typed) = &typing.stages[stage] else { return conditions };
    for at in head_filters(structure, stage) {
        for condition in &typed.steps[at].equals {
            if !conditions.iter().any(|known| known.column == condition.column) {
                conditions.push(condition.clone());
            }
        }
    }
    conditions
}

fn head_filters(structure: &Structure<'_>, stage: usize) -> impl Iterator<Item = usize> {
    structure.stages[stage].steps.iter().take_while(|step| step.op() == lineage::FILTER).enumerate().map(|(at, _)| at)
}

struct Pass<'p, 'a> {
    input: &'p PlanInput<'a>,
    structure: &'p Structure<'a>,
    typing: &'p Typing,
    policies: &'p Policies,
    times: &'p BTreeMap<String, TimeSpec>,
}

impl Pass<'_, '_> {
    fn ask(&self, name: &str, needs: &Needs, equals: &[EqualTo]) -> Result<Asked> {
        let full = &self.typing.sources[name];
        let need = needs.datasets.get(name).cloned().unwrap_or_default();
        let time = self.times.get(name).map(|time| time.column.as_ref());
        let names = || full.schema.fields().iter().map(|field| field.name()).filter(|column| !hidden::is_hidden(column));
        let rescue = self.policies.of_source(name).on_bad == OnBadData::Rescue;
        // What is rescued is rescued somewhere, whether or not anybody reads it.
        let always = |column: &str| time == Some(column) || (rescue && column == bad::RESCUED);
        let columns: Vec<String> = names().filter(|column| need.columns.contains(*column) || always(column)).cloned().collect();
        let all = columns.len() == names().count();
        let request = SourceRequest::all().with_columns((!all).then_some(columns)).with_equals(equals.to_vec());
        let request = request.with_ordinals(need.keys).with_rescue(rescue).with_pinned(full.pinned.clone());
        let request = request.with_apart(apart(self.structure, self.typing, name));
        let source = self.input.datasets.get(name).and_then(|dataset| dataset.source.as_ref());
        let source = source.ok_or_else(|| tidegate_api::Error::internal(format!("dataset `{name}` was typed without a source")))?;
        let plan = source.plan(&request)?;
        Ok(Asked { request, plan, splits: need.splits })
    }

    /// The filters that `asked` makes idle, bound so that they test and read nothing.
    fn without_tests(&self, name: &str, asked: &Asked) -> Rebound {
        let mut rebound = Rebound::new();
        for (stage, _) in self.structure.readers.get(name).into_iter().flatten() {
            let (def, Some(typed)) = (&self.structure.stages[*stage], &self.typing.stages[*stage]) else { continue };
            // The steps of a stage are the same for all its inputs, so one that has others keeps its tests.
            if def.def.inputs.len() != 1 {
                continue;
            }
            for at in head_filters(self.structure, *stage) {
                let before = typed.input_of(at);
                let conditions = &typed.steps[at].equals;
                let idle = !conditions.is_empty()
                    && conditions.iter().all(|condition| asked.applied().any(|applied| same(applied, condition)))
                    && lineage::only_equalities(&def.def.steps[at], &before[0].schema, &self.input.functions);
                if !idle {
                    continue;
                }
                if let Ok(bound) = def.steps[at]
                    .bind(before, &BindCtx::new().with_functions(self.input.functions.clone()).with_applied(conditions.clone()))
                {
                    rebound.insert((*stage, at), bound);
                }
            }
        }
        rebound
    }
}

fn same(left: &EqualTo, right: &EqualTo) -> bool {
    left.column == right.column && left.values.len() == right.values.len() && left.values.iter().all(|value| right.values.contains(value))
}

//! `rename`: columns under other names, in their places.

use crate::expression::at;
use crate::projection::{Item, bind, find, names, visible};
use crate::step::{BindCtx, Bound, KeyInfo, StepDef, StepInfo, StreamType};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use tidegate_api::config::{Options, Problem};
use tidegate_api::nearest::hint;
use tidegate_api::{ChangeMode, hidden};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "rename",
    summary: "Gives columns other names. All renames happen at once, so two columns may swap their names.",
    keys: &[KeyInfo { name: "mapping", takes: "table `old = \"new\"`", text: "which column gets which name" }],
    output: "the same columns in the same places",
    example: "{ op = \"rename\", mapping = { dep_delay = \"delay\" } }",
    parse,
};

#[derive(Debug)]
struct RenameDef {
    mapping: Vec<(String, String)>,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    if !options.has("mapping") {
        options.problem("mapping", "`mapping` is missing");
    }
    let mut mapping = Vec::new();
    if let Some(table) = options.table("mapping") {
        for (old, new) in table {
            match new {
                Value::String(new) if hidden::is_hidden(new) => {
                    options.problems([at(&["mapping", old], format!("the name `{new}` is reserved"))]);
                }
                Value::String(new) => mapping.push((old.clone(), new.clone())),
                other => options.problems([at(&["mapping", old], format!("expected the new name, found `{other}`"))]),
            }
        }
    }
    let problems = options.finish();
    if problems.is_empty() { Ok(Box::new(RenameDef { mapping })) } else { Err(problems) }
}

impl RenameDef {
    fn new_name<'a>(&'a self, old: &'a str) -> &'a str {
        self.mapping.iter().find(|(from, _)| from == old).map_or(old, |(_, to)| to)
    }
}

impl StepDef for RenameDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = crate::step::one_input(inputs)?;
        let schema = &input.schema;
        let mut problems = Vec::new();
        for (old, new) in &self.mapping {
            let pruned = cx.needed.as_ref().is_some_and(|needed| !needed.contains(new));
            if find(schema, old).is_none() && !pruned {
                problems.push(at(&["mapping", old], format!("there is no column `{old}`{}", hint(old, names(schema)))));
            }
        }
        let mut taken = BTreeSet::new();
        for old in names(schema) {
            let new = self.new_name(old);
            if !taken.insert(new) {
                let culprit = self.mapping.iter().find(|(_, to)| to == new).map_or(old, |(from, _)| from);
                problems.push(at(&["mapping", culprit], format!("there is a column `{new}` already")));
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let mode = match &input.mode {
            ChangeMode::Append => ChangeMode::Append,
            ChangeMode::Upsert { keys } => ChangeMode::Upsert { keys: keys.iter().map(|key| self.new_name(key).to_string()).collect() },
        };
        let items = visible(schema).map(|index| Item::column(schema, index).named(self.new_name(schema.field(index).name()))).collect();
        let details: Vec<String> = self.mapping.iter().map(|(old, new)| format!("{old} -> {new}")).collect();
        Ok(bind(INFO.op, input, mode, items, details.join(", "), cx))
    }
}

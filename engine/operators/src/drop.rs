//! `drop`: leaves columns out.

use crate::expression::at;
use crate::projection::{Item, bind, find, names, visible};
use crate::step::{BindCtx, Bound, KeyInfo, StepDef, StepInfo, StreamType, not_a_key};
use serde_json::{Map, Value};
use tidegate_api::config::{Options, Problem};
use tidegate_api::nearest::hint;

pub(crate) const INFO: StepInfo = StepInfo {
    op: "drop",
    summary: "Leaves columns out.",
    keys: &[KeyInfo { name: "columns", takes: "column or list of columns", text: "the columns to leave out" }],
    output: "the other columns",
    example: "{ op = \"drop\", columns = [\"extra\"] }",
    parse,
};

#[derive(Debug)]
struct DropDef {
    columns: Vec<String>,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    if !options.has("columns") {
        options.problem("columns", "`columns` is missing");
    }
    let columns = options.strings("columns").unwrap_or_default();
    let problems = options.finish();
    if problems.is_empty() { Ok(Box::new(DropDef { columns })) } else { Err(problems) }
}

impl StepDef for DropDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = crate::step::one_input(inputs)?;
        let schema = &input.schema;
        let mut problems = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            let index = index.to_string();
            // A pruned plan does not bring what is dropped here.
            if find(schema, column).is_none() && cx.needed.is_none() {
                problems.push(at(&["columns", &index], format!("there is no column `{column}`{}", hint(column, names(schema)))));
            } else if let Err(found) = not_a_key(input, column, &["columns", &index]) {
                problems.extend(found);
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let kept = visible(schema).filter(|index| !self.columns.contains(schema.field(*index).name()));
        let items = kept.map(|index| Item::column(schema, index)).collect();
        Ok(bind(INFO.op, input, input.mode.clone(), items, self.columns.join(", "), cx))
    }
}

//! `union`: the rows of several inputs as one stream.

use crate::projection::{Item, bind, visible};
use crate::step::{BindCtx, Bound, StepDef, StepInfo, StreamType};
use serde_json::{Map, Value};
use tidegate_api::config::{Options, Problem};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "union",
    summary: "The rows of two or more inputs of one schema, as they come. Every stage reads its inputs so; the step says that it is meant.",
    keys: &[],
    output: "the columns that come in; append, or upsert if all inputs are and come from one source",
    example: "{ op = \"union\" }",
    parse,
};

#[derive(Debug)]
struct UnionDef;

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let problems = options.finish();
    if problems.is_empty() { Ok(Box::new(UnionDef)) } else { Err(problems) }
}

impl StepDef for UnionDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = crate::step::one_input(inputs)?;
        let items = visible(&input.schema).map(|index| Item::column(&input.schema, index)).collect();
        Ok(bind(INFO.op, input, input.mode.clone(), items, String::new(), cx))
    }
}

//! `applyExpression`: a column computed from the others.

use crate::cast::{Cast, OnError, type_at};
use crate::expression::{at, typed};
use crate::projection::{Item, bind, find, stays, visible};
use crate::step::{BindCtx, Bound, KeyInfo, StepDef, StepInfo, StreamType, not_a_key};
use arrow::datatypes::DataType;
use serde_json::{Map, Value};
use tidegate_api::config::{Options, Problem};
use tidegate_api::{hidden, types};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "applyExpression",
    summary: "Adds a column, or replaces one in its place, with the value of an expression. A row on which the expression fails is a bad row; a column that nobody reads is not computed.",
    keys: &[
        KeyInfo { name: "column", takes: "column", text: "the column to add or to replace" },
        KeyInfo { name: "expression", takes: "expression", text: "its value" },
        KeyInfo { name: "type", takes: "type?", text: "its type, when it shall not be the expression's; casts as `cast` does" },
    ],
    output: "the columns that came in, and the new one behind them",
    example: "{ op = \"applyExpression\", column = \"euros\", expression = \"price * 0.908\" }",
    parse,
};

#[derive(Debug)]
struct ApplyDef {
    column: String,
    expression: String,
    to: Option<DataType>,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let column = options.require_string("column");
    let expression = options.require_string("expression");
    let to = type_at(&mut options, "type");
    if column.as_deref().is_some_and(hidden::is_hidden) {
        options.problem("column", "this name is reserved");
    }
    let problems = options.finish();
    match (column, expression) {
        (Some(column), Some(expression)) if problems.is_empty() => Ok(Box::new(ApplyDef { column, expression, to })),
        _ => Err(problems),
    }
}

impl ApplyDef {
    fn item(&self, input: &StreamType, cx: &BindCtx) -> Result<Item, Vec<Problem>> {
        let typed = typed(&cx.functions, &["expression"], &self.expression, &input.schema).map_err(|problem| vec![problem])?;
        let cast = match &self.to {
            Some(to) if to != typed.data_type() => {
                let cast = Cast::new(&self.column, typed.data_type(), to, OnError::Bad).ok_or_else(|| {
                    let message =
                        format!("the expression is of type `{}` and cannot become `{}`", types::name(typed.data_type()), types::name(to));
                    vec![at(&["type"], message)]
                })?;
                Some(cast)
            }
            _ => None,
        };
        if cast.is_none() && *typed.data_type() == DataType::Null {
            return Err(vec![at(&["expression"], "the expression is always null; say of which `type`")]);
        }
        Ok(Item::expression(&self.column, &typed, cast))
    }
}

impl StepDef for ApplyDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = crate::step::one_input(inputs)?;
        let schema = &input.schema;
        not_a_key(input, &self.column, &["column"])?;
        let replaced = find(schema, &self.column);
        let mut items: Vec<Item> = visible(schema).map(|index| Item::column(schema, index)).collect();
        // A column that nobody reads is not computed, and what it would read may be gone.
        if stays(&self.column, &input.mode, cx) {
            let item = self.item(input, cx)?;
            match items.iter().position(|item| replaced.is_some() && item.name() == self.column) {
                Some(place) => items[place] = item,
                None => items.push(item),
            }
        }
        Ok(bind(INFO.op, input, input.mode.clone(), items, format!("{} = {}", self.column, self.expression), cx))
    }
}

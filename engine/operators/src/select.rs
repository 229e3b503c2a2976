//! `select`: the columns named, in that order; a column may be computed.

use crate::expression::{at, typed};
use crate::projection::{Item, bind, find, names};
use crate::step::{BindCtx, Bound, KeyInfo, StepDef, StepInfo, StreamType};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use tidegate_api::config::{Options, Problem};
use tidegate_api::nearest::hint;
use tidegate_api::{ChangeMode, hidden};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "select",
    summary: "Keeps the columns named, in that order. A column may be computed.",
    keys: &[KeyInfo { name: "columns", takes: "list of columns or `{ name, expression }`", text: "the output's columns, in order" }],
    output: "those columns, in order",
    example: "{ op = \"select\", columns = [\"auction\", { name = \"euros\", expression = \"price * 0.908\" }] }",
    parse,
};

#[derive(Debug)]
struct Entry {
    name: String,
    expression: Option<String>,
}

#[derive(Debug)]
struct SelectDef {
    columns: Vec<Entry>,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    if !options.has("columns") {
        options.problem("columns", "`columns` is missing");
    }
    let mut columns = Vec::new();
    if let Some(Value::String(name)) = options.value("columns") {
        columns.push(Entry { name: name.clone(), expression: None });
    } else if let Some(list) = options.list("columns") {
        for (index, entry) in list.iter().enumerate() {
            match read_entry(entry) {
                Ok(entry) => columns.push(entry),
                Err(problems) => {
                    options.problems(problems.into_iter().map(|problem| problem.under(["columns".to_string(), index.to_string()])))
                }
            }
        }
        if list.is_empty() {
            options.problem("columns", "name at least one column");
        }
    }
    let problems = options.finish();
    if problems.is_empty() { Ok(Box::new(SelectDef { columns })) } else { Err(problems) }
}

fn read_entry(entry: &Value) -> Result<Entry, Vec<Problem>> {
    match entry {
        Value::String(name) => Ok(Entry { name: name.clone(), expression: None }),
        Value::Object(map) => {
            let mut options = Options::new(map);
            let name = options.require_string("name");
            let expression = options.require_string("expression");
            let problems = options.finish();
            match name {
                Some(name) if problems.is_empty() => Ok(Entry { name, expression }),
                _ => Err(problems),
            }
        }
        other => Err(vec![Problem::whole(format!("expected a column or `{{ name, expression }}`, found `{other}`"))]),
    }
}

impl StepDef for SelectDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = crate::step::one_input(inputs)?;
        let schema = &input.schema;
        let mut problems = Vec::new();
        let mut seen = BTreeSet::new();
        let mut items = Vec::new();
        for (index, entry) in self.columns.iter().enumerate() {
            let index = index.to_string();
            if hidden::is_hidden(&entry.name) {
                problems.push(at(&["columns", &index], format!("the name `{}` is reserved", entry.name)));
                continue;
            }
            if !seen.insert(entry.name.as_str()) {
                problems.push(at(&["columns", &index], format!("the column `{}` is selected twice", entry.name)));
                continue;
            }
            // What nobody reads need not be there any more.
            if !crate::projection::stays(&entry.name, &input.mode, cx) {
                continue;
            }
            match &entry.expression {
                None => match find(schema, &entry.name) {
                    Some(found) => items.push(Item::column(schema, found)),
                    None => {
                        let message = format!("there is no column `{}`{}", entry.name, hint(&entry.name, names(schema)));
                        problems.push(at(&["columns", &index], message));
                    }
                },
                Some(text) => match typed(&cx.functions, &["columns", &index, "expression"], text, schema) {
                    Ok(typed) => items.push(Item::expression(&entry.name, &typed, None)),
                    Err(problem) => problems.push(problem),
                },
            }
        }
        if let ChangeMode::Upsert { keys } = &input.mode {
            for key in keys.iter().filter(|key| !self.columns.iter().any(|entry| entry.name == **key && entry.expression.is_none())) {
                problems.push(at(&["columns"], format!("`{key}` is a key of the upsert rows that come in; keep it")));
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let names: Vec<&str> = self.columns.iter().map(|entry| entry.name.as_str()).collect();
        Ok(bind(INFO.op, input, input.mode.clone(), items, names.join(", "), cx))
    }
}

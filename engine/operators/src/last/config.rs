//! The keys of `lastN`, and what they mean over a schema.

use super::operator::LastFactory;
use super::plan::{Plan, Updates};
use crate::aggregates::{self, AGGS, AggregateDef, Scope};
use crate::binding::{key_columns, unknown};
use crate::expression::at;
use crate::lean::can_order;
use crate::projection::find;
use crate::step::{BindCtx, Bound, BoundNode, KeyInfo, StepDef, StepInfo, StreamType, one_input};
use crate::top::count;
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};
use tidegate_api::{ChangeMode, Signature, hash, hidden, types};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "lastN",
    summary: "Aggregates over the last `n` rows of every group. Where rows update each other, a row takes the place of the one of equal keys and is the newest; a row that goes makes room for the one before the last `n`.",
    keys: &[
        KeyInfo { name: "n", takes: "integer", text: "how many rows of a group count, at most 10,000" },
        KeyInfo { name: "aggs", takes: "list of `{ op, column, alias, filter }`", text: AGGS },
        KeyInfo { name: "groupBy", takes: "column or list of columns?", text: "what makes a group; without it all rows are one" },
        KeyInfo {
            name: "orderBy",
            takes: "column?",
            text: "the last rows are those with the greatest values here, so that the outcome does not depend on the order of arrival; rows without a value are left out. Without it the last rows are those that came last",
        },
    ],
    output: "the group columns, the aliases; upsert on the groups",
    example: "{ op = \"lastN\", n = 10, groupBy = [\"seller\"], aggs = [{ op = \"avg\", column = \"price\", alias = \"avgPrice\" }] }",
    parse,
};

/// Rows of a group at most: one row has all of them computed anew.
const MOST: u64 = 10_000;

/// The version of the state format; part of the signature.
const VERSION: u32 = 1;

#[derive(Debug)]
struct LastDef {
    n: usize,
    aggregates: Vec<AggregateDef>,
    group_by: Vec<String>,
    order_by: Option<String>,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let n = count(&mut options, MOST);
    let aggregates = aggregates::read(&mut options);
    let group_by = options.strings("groupBy").unwrap_or_default();
    let order_by = options.string("orderBy");
    let problems = options.finish();
    match n {
        Some(n) if problems.is_empty() => Ok(Box::new(LastDef { n, aggregates, group_by, order_by })),
        _ => Err(problems),
    }
}

impl StepDef for LastDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = one_input(inputs)?;
        let schema = &input.schema;
        let mut problems = Vec::new();
        let order_by = self.order_by.as_ref().and_then(|column| {
            let found = find(schema, column);
            match found {
                None => problems.push(at(&["orderBy"], unknown(column, schema))),
                Some(index) if !can_order(schema.field(index).data_type()) => {
                    let message = format!("`{column}` is of type `{}`, which has no order", types::name(schema.field(index).data_type()));
                    problems.push(at(&["orderBy"], message));
                }
                Some(_) => {}
            }
            found
        });
        let groups = key_columns(schema, &self.group_by, "groupBy", &[], &mut problems);
        let scope = Scope { schema, functions: &cx.functions, time: None };
        let bound = aggregates::bind(&self.aggregates, scope, self.group_by.iter().map(String::as_str), &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        let updates = Updates::of(input);
        let signature = Signature::new(INFO.op, VERSION).with("n", self.n).with("orderBy", self.order_by.clone());
        let mut always: BTreeSet<String> = self.group_by.iter().chain(&self.order_by).cloned().collect();
        always.extend(aggregates::reads(&bound));
        let mut details = format!(
            "last {}{}{}: {}",
            self.n,
            self.order_by.as_ref().map(|column| format!(" by {column}")).unwrap_or_else(|| " in order of arrival".to_string()),
            per(&self.group_by),
            aggregates::describe(&self.aggregates)
        );
        details.push_str(match &updates {
            Some(_) => "; every row that comes in is kept, since any may count again",
            None => "; groups are kept for ever, so state grows with every new one",
        });
        let stage = Stage { op: INFO.op, n: self.n, order_by, groups, group_by: &self.group_by, updates, always, details };
        Ok(stage.bound(input, bound, signed(signature, &self.aggregates, schema), cx))
    }
}

/// ` per a, b`, or nothing.
pub(crate) fn per(group_by: &[String]) -> String {
    if group_by.is_empty() { String::new() } else { format!(" per {}", group_by.join(", ")) }
}

fn signed(signature: Signature, definitions: &[AggregateDef], schema: &SchemaRef) -> Signature {
    signature.with("aggs", aggregates::signature(definitions, schema))
}

/// What a stage over the last rows is made of.
pub(crate) struct Stage<'a> {
    pub(crate) op: &'static str,
    pub(crate) n: usize,
    pub(crate) order_by: Option<usize>,
    pub(crate) groups: Vec<usize>,
    pub(crate) group_by: &'a [String],
    pub(crate) updates: Option<Updates>,
    /// The input columns that it reads.
    pub(crate) always: BTreeSet<String>,
    pub(crate) details: String,
}

impl Stage<'_> {
    /// The stage as it runs. `signature` says what is its own; the columns are added.
    pub(crate) fn bound(
        self,
        input: &StreamType,
        aggregates: Vec<aggregates::BoundAggregate>,
        signature: Signature,
        cx: &BindCtx,
    ) -> Bound {
        let schema = &input.schema;
        let column = |index: &usize| {
            let field = schema.field(*index);
            json!({ "column": field.name(), "type": types::name(field.data_type()) })
        };
        let columns = |indices: &[usize]| Value::from(indices.iter().map(column).collect::<Vec<Value>>());
        let signature = signature
            .with("groupBy", columns(&self.groups))
            .with("keys", self.updates.as_ref().map_or(Value::Null, |updates| columns(&updates.keys)))
            .with("hash", hash::HASH_VERSION);
        let mut always = self.always;
        let mut details = self.details;
        let spread = match &input.mode {
            ChangeMode::Append => true,
            ChangeMode::Upsert { keys } => {
                always.extend(keys.iter().cloned());
                always.insert(hidden::OP.to_string());
                let within = self.group_by.iter().all(|group| keys.contains(group));
                if !within {
                    details.push_str(&format!("; in one task, since an update by {} may move a row to another group", keys.join(", ")));
                }
                within
            }
        };
        let output = output_schema(schema, &self.groups, &aggregates, true, cx);
        let plan = Plan {
            op: self.op,
            input: Arc::clone(schema),
            n: self.n,
            order_by: self.order_by,
            exchanged: spread,
            groups: self.groups,
            updates: self.updates,
            aggregates,
            schema: Arc::clone(&output),
            keyed: cx.keys,
            signature,
        };
        let exchange = if spread { self.group_by.to_vec() } else { Vec::new() };
        Bound {
            output: StreamType { schema: output, mode: ChangeMode::Upsert { keys: self.group_by.to_vec() } },
            node: BoundNode::Operator { factory: Arc::new(LastFactory::new(plan)), keys: vec![exchange] },
            required: Box::new(move |_| vec![always.clone()]),
            equals: Vec::new(),
            details,
        }
    }
}

/// Groups, results, and the hidden columns.
pub(crate) fn output_schema(
    input: &SchemaRef,
    groups: &[usize],
    aggregates: &[aggregates::BoundAggregate],
    changes: bool,
    cx: &BindCtx,
) -> SchemaRef {
    let mut fields: Vec<FieldRef> = groups.iter().map(|index| Arc::clone(&input.fields()[*index])).collect();
    fields.extend(aggregates.iter().map(|bound| Arc::new(bound.field.clone())));
    let mut add = |there: bool, field: fn() -> Field| fields.extend(there.then(|| Arc::new(field())));
    add(changes, hidden::op_field);
    add(cx.keys, hidden::key_field);
    Arc::new(Schema::new(fields))
}

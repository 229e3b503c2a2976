//! The keys of `aggregate`, and what they mean over a schema.

use super::operator::{AggregateFactory, Plan, Time};
use crate::aggregates::{self, AGGS, AggregateDef, Scope};
use crate::binding::{key_columns, length, show, time_column};
use crate::expression::at;
use crate::last::{Stage, Updates, output_schema, per};
use crate::step::{BindCtx, Bound, BoundNode, KeyInfo, StepDef, StepInfo, StreamType, one_input};
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::config::{Options, Problem};
use tidegate_api::{ChangeMode, Signature, TimeScale, hash, types};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "aggregate",
    summary: "Aggregates per group over all rows, without windows. Where rows that come in update each other, every one is kept, and a group that changes is computed anew.",
    keys: &[
        KeyInfo { name: "groupBy", takes: "column or list of columns?", text: "a row per distinct value; without it there is one row" },
        KeyInfo { name: "aggs", takes: "list of `{ op, column, alias, filter }`", text: AGGS },
        KeyInfo {
            name: "emit",
            takes: "`{ everyRows }` or `{ everyMs }`?",
            text: "tells the groups that changed after so many rows of a task, or so much time on the clock; without it after every batch",
        },
        KeyInfo { name: "final", takes: "true or false?", text: "tells every group once, when the input ends" },
        KeyInfo {
            name: "timeColumn",
            takes: "column?",
            text: "with `ttlMs`: the event time. Aggregates that look at the order of rows go by it",
        },
        KeyInfo {
            name: "ttlMs",
            takes: "milliseconds, or `ttl` as text?",
            text: "how long a group lasts after its latest row, in event time: a row that comes that much later begins it anew, and its state goes. Without it groups last for ever, so that state grows with every new one. A row that is further behind the watermark is late",
        },
        KeyInfo { name: "lateOutput", takes: "dataset?", text: "where late rows go" },
    ],
    output: "the group columns, the aliases; upsert on the groups, append when `final`",
    example: "{ op = \"aggregate\", groupBy = [\"auction\"], aggs = [{ op = \"count\", alias = \"bids\" }, { op = \"max\", column = \"price\", alias = \"highest\" }] }",
    parse,
};

/// The version of the state format; part of the signature.
const VERSION: u32 = 1;

#[derive(Debug)]
struct TotalDef {
    group_by: Vec<String>,
    aggregates: Vec<AggregateDef>,
    emit: Emit,
    time_column: Option<String>,
    ttl: Option<i64>,
    late_output: Option<String>,
}

/// When groups that changed are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emit {
    /// After every batch.
    Batches,
    /// After so many rows.
    Rows(u64),
    /// After so much time.
    Every(Duration),
    /// When the input ends.
    Final,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let group_by = options.strings("groupBy").unwrap_or_default();
    let aggregates = aggregates::read(&mut options);
    let emit = read_emit(&mut options);
    let last = options.boolean("final").unwrap_or(false);
    let time_column = options.string("timeColumn");
    let ttl = length(&mut options, "ttl");
    let late_output = options.string("lateOutput");
    let ttl_key = if options.has("ttl") { "ttl" } else { "ttlMs" };
    if last && emit.is_some() {
        options.problem("emit", "`final` tells groups once, when the input ends; leave one of the two out");
    }
    if last && ttl.is_some() {
        options.problem(ttl_key, "`final` tells every group when the input ends, and a group that was forgotten before cannot be told");
    }
    if ttl.is_some() && time_column.is_none() {
        options.problem(ttl_key, "groups last by event time: name its column as `timeColumn`");
    }
    if late_output.is_some() && ttl.is_none() {
        options.problem("lateOutput", "rows are late only for a step that forgets: give `ttlMs`, or leave `lateOutput` out");
    }
    let problems = options.finish();
    let emit = if last { Emit::Final } else { emit.unwrap_or(Emit::Batches) };
    if problems.is_empty() { Ok(Box::new(TotalDef { group_by, aggregates, emit, time_column, ttl, late_output })) } else { Err(problems) }
}

fn read_emit(options: &mut Options<'_>) -> Option<Emit> {
    let map = options.table("emit")?;
    let mut inner = Options::new(map);
    let rows = inner.unsigned("everyRows");
    let every = inner.duration("every");
    let timed = inner.has("every") || inner.has("everyMs");
    if inner.has("everyRows") == timed {
        inner.problem("everyRows", "say one of `everyRows` and `everyMs`");
    }
    if rows == Some(0) {
        inner.problem("everyRows", "expected at least 1 row");
    }
    if every.is_some_and(|every| every.is_zero()) {
        inner.problem(if inner.has("every") { "every" } else { "everyMs" }, "expected at least 1 millisecond");
    }
    let problems = inner.finish();
    let sound = problems.is_empty();
    options.problems(problems.into_iter().map(|problem| problem.under(["emit"])));
    let emit = rows.map(Emit::Rows).or(every.map(Emit::Every));
    emit.filter(|_| sound)
}

impl StepDef for TotalDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    /// Only a time to live waits for watermarks; without one the column is no more than an order.
    fn time_columns(&self) -> Vec<Option<String>> {
        vec![self.time_column.clone().filter(|_| self.ttl.is_some())]
    }

    fn late_output(&self) -> Option<&str> {
        self.late_output.as_deref()
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = one_input(inputs)?;
        let schema = &input.schema;
        let mut problems = Vec::new();
        let updates = Updates::of(input);
        if let ChangeMode::Upsert { keys } = &input.mode {
            let refused = [
                (self.emit == Emit::Final, "final", "rank or write what comes in instead, or read it from where it was written"),
                (!matches!(self.emit, Emit::Batches | Emit::Final), "emit", "leave it out: groups that changed are told after every batch"),
                (self.ttl.is_some(), "ttlMs", "leave it out: a row that could still be replaced cannot be forgotten"),
                (self.time_column.is_some() && self.ttl.is_none(), "timeColumn", "leave it out: rows are in order of arrival"),
            ];
            for (_, key, fix) in refused.iter().filter(|(wrong, _, _)| *wrong) {
                let message = format!(
                    "the rows that come in replace earlier ones of equal `{}`, which `{key}` has no meaning for; {fix}",
                    keys.join("`, `")
                );
                problems.push(at(&[*key], message));
            }
        }
        let time = self.time_column.as_ref().and_then(|column| Some((column, time_column(schema, column, "timeColumn", &mut problems)?)));
        let groups = key_columns(schema, &self.group_by, "groupBy", &[], &mut problems);
        let time_index = time.as_ref().map(|(_, (index, _))| *index);
        let scope = Scope { schema, functions: &cx.functions, time: time_index };
        let bound = aggregates::bind(&self.aggregates, scope, self.group_by.iter().map(String::as_str), &mut problems);
        if !problems.is_empty() {
            return Err(problems);
        }
        let signature = self.signature(schema, &groups);
        let mut always: BTreeSet<String> = self.group_by.iter().chain(&self.time_column).cloned().collect();
        always.extend(aggregates::reads(&bound));
        if updates.is_some() {
            let details = format!(
                "{}{}; every row that comes in is kept, and a group that changes is computed anew",
                aggregates::describe(&self.aggregates),
                per(&self.group_by)
            );
            let group_by = &self.group_by;
            let stage = Stage { op: INFO.op, n: usize::MAX, order_by: None, groups, group_by, updates, always, details };
            return Ok(stage.bound(input, bound, signature, cx));
        }
        let output = output_schema(schema, &groups, &bound, self.emit != Emit::Final, cx);
        let factory = AggregateFactory::new(Plan {
            group_types: groups.iter().map(|index| schema.field(*index).data_type().clone()).collect(),
            groups,
            aggregates: bound,
            emit: self.emit,
            // A time that only orders is read by the aggregates themselves.
            time: time.and_then(|(name, (index, _))| {
                let scale = TimeScale::of(schema.field(index).data_type())?;
                Some(Time { index, name: name.clone(), scale })
            }),
            ttl: self.ttl,
            schema: Arc::clone(&output),
            keyed: cx.keys,
            signature,
        });
        let mode = match self.emit {
            Emit::Final => ChangeMode::Append,
            Emit::Batches | Emit::Rows(_) | Emit::Every(_) => ChangeMode::Upsert { keys: self.group_by.clone() },
        };
        Ok(Bound {
            output: StreamType { schema: output, mode },
            node: BoundNode::Operator { factory: Arc::new(factory), keys: vec![self.group_by.clone()] },
            required: Box::new(move |_| vec![always.clone()]),
            equals: Vec::new(),
            details: self.details(),
        })
    }
}

impl TotalDef {
    fn signature(&self, schema: &SchemaRef, groups: &[usize]) -> Signature {
        let groups: Vec<Value> = groups
            .iter()
            .map(|index| json!({ "column": schema.field(*index).name(), "type": types::name(schema.field(*index).data_type()) }))
            .collect();
        Signature::new(INFO.op, VERSION)
            .with("groupBy", groups)
            .with("aggs", aggregates::signature(&self.aggregates, schema))
            .with("timeColumn", self.time_column.clone())
            .with("ttlMs", self.ttl)
            .with("hash", hash::HASH_VERSION)
    }

    fn details(&self) -> String {
        let told = match self.emit {
            Emit::Batches => String::new(),
            Emit::Rows(rows) => format!(", told every {rows} rows"),
            Emit::Every(every) => format!(", told every {}", show(every.as_millis() as i64)),
            Emit::Final => ", told when the input ends".to_string(),
        };
        let memory = match (self.ttl, &self.time_column) {
            (Some(ttl), Some(column)) => format!("a group lasts for {} of {column}", show(ttl)),
            _ => "groups last for ever, so state grows with every new one; `ttlMs` bounds it".to_string(),
        };
        format!("{}{}{told}; {memory}", aggregates::describe(&self.aggregates), per(&self.group_by))
    }
}

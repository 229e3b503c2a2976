//! The keys of `deduplicate`, and what they mean over a schema.

use super::memory;
use super::operator::{DeduplicateFactory, Keep, Plan, Time};
use crate::binding::{key_columns, length, show, time_column};
use crate::expression::at;
use crate::lean::needed_of;
use crate::step::{BindCtx, Bound, BoundNode, KeyInfo, StepDef, StepInfo, StreamType, one_input};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};
use tidegate_api::{ChangeMode, Signature, hash, hidden, types};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "deduplicate",
    summary: "Keeps one row per key: the first to come, or the last. Null is a key, -0.0 and 0.0 are one, and so are all NaN.",
    keys: &[
        KeyInfo { name: "keys", takes: "column or list of columns", text: "what makes rows the same" },
        KeyInfo {
            name: "keep",
            takes: "`first` or `last`?",
            text: "`first` (the default) passes the first row of a key on and leaves the others out; `last` passes every newer row on as an update of the one before, of one batch only the newest",
        },
        KeyInfo {
            name: "timeColumn",
            takes: "column?",
            text: "the time by which rows of `last` are newer, equal times in order of arrival (without it: in order of arrival), and by which `ttlMs` counts",
        },
        KeyInfo {
            name: "ttlMs",
            takes: "milliseconds, or `ttl` as text?",
            text: "how long a key is remembered after its row, in event time; without it for ever, so that state grows with every new key. A row that is further behind the watermark is late",
        },
        KeyInfo { name: "lateOutput", takes: "dataset?", text: "where late rows go" },
    ],
    output: "the columns that came in; append for `first`, upsert on `keys` for `last`",
    example: "{ op = \"deduplicate\", keys = [\"id\"], keep = \"first\", timeColumn = \"dateTime\", ttlMs = 3600000 }",
    parse,
};

#[derive(Debug)]
struct DeduplicateDef {
    keys: Vec<String>,
    keep: Keep,
    time_column: Option<String>,
    ttl: Option<i64>,
    late_output: Option<String>,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let keys = options.strings("keys").unwrap_or_default();
    if !options.has("keys") {
        options.problem("keys", "`keys` is missing; it names the columns that make rows the same");
    } else if keys.is_empty() {
        options.problem("keys", "name at least one column");
    }
    let keep = options.choice("keep", &[("first", Keep::First), ("last", Keep::Last)]).unwrap_or(Keep::First);
    let time_column = options.string("timeColumn");
    let ttl = length(&mut options, "ttl");
    let late_output = options.string("lateOutput");
    if ttl.is_some() && time_column.is_none() {
        options.problem(
            if options.has("ttl") { "ttl" } else { "ttlMs" },
            "keys are remembered by event time: name its column as `timeColumn`",
        );
    }
    if late_output.is_some() && ttl.is_none() {
        options.problem("lateOutput", "rows are late only for a step that forgets: give `ttlMs`, or leave `lateOutput` out");
    }
    let problems = options.finish();
    if problems.is_empty() { Ok(Box::new(DeduplicateDef { keys, keep, time_column, ttl, late_output })) } else { Err(problems) }
}

impl StepDef for DeduplicateDef {
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
        let mut problems = Vec::new();
        if let ChangeMode::Upsert { keys } = &input.mode {
            let message = format!(
                "the rows that come in replace earlier ones of equal `{0}`, so there is one row per `{0}` already: leave the step out, or let \
                 `topN` with `n = 1` and these keys as `groupBy` choose among them",
                keys.join("`, `")
            );
            problems.push(at(&["op"], message));
        }
        let keys = key_columns(&input.schema, &self.keys, "keys", &[], &mut problems);
        // A time that neither orders nor forgets is not read.
        let wanted = self.time_column.as_ref().filter(|_| self.ttl.is_some() || self.keep == Keep::Last);
        let time = wanted.and_then(|column| Some((column, time_column(&input.schema, column, "timeColumn", &mut problems)?)));
        if !problems.is_empty() {
            return Err(problems);
        }

        let visible = hidden::visible_schema(&input.schema);
        let mut fields: Vec<FieldRef> = visible.fields().iter().cloned().collect();
        let mode = match self.keep {
            Keep::First => ChangeMode::Append,
            Keep::Last => {
                fields.push(Arc::new(hidden::op_field()));
                ChangeMode::Upsert { keys: self.keys.clone() }
            }
        };
        if cx.keys {
            fields.push(Arc::new(hidden::key_field()));
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let always: BTreeSet<String> = self.keys.iter().chain(wanted).cloned().collect();
        let signature = self.signature(&input.schema, &keys, time.as_ref().map(|(_, (index, _))| *index));
        let factory = DeduplicateFactory::new(Plan {
            key_types: keys.iter().map(|index| input.schema.field(*index).data_type().clone()).collect(),
            keys,
            keep: self.keep,
            time: time.map(|(name, (index, _))| Time { index, name: name.clone() }),
            ttl: self.ttl,
            schema: Arc::clone(&schema),
            keyed: cx.keys,
            signature,
        });
        let reads = Arc::clone(&input.schema);
        Ok(Bound {
            output: StreamType { schema, mode },
            node: BoundNode::Operator { factory: Arc::new(factory), keys: vec![self.keys.clone()] },
            required: Box::new(move |needed| vec![needed_of(&reads, needed, &always)]),
            equals: Vec::new(),
            details: self.details(),
        })
    }
}

impl DeduplicateDef {
    fn signature(&self, schema: &SchemaRef, keys: &[usize], time: Option<usize>) -> Signature {
        let column = |field: &Field| json!({ "column": field.name(), "type": types::name(field.data_type()) });
        let keys: Vec<Value> = keys.iter().map(|index| column(schema.field(*index))).collect();
        Signature::new(INFO.op, memory::VERSION)
            .with("keys", keys)
            .with("keep", self.keep.name())
            .with("timeColumn", time.map_or(Value::Null, |index| column(schema.field(index))))
            .with("ttlMs", self.ttl)
            .with("hash", hash::HASH_VERSION)
    }

    fn details(&self) -> String {
        let order = match (self.keep, &self.time_column) {
            (Keep::First, _) => String::new(),
            (Keep::Last, Some(column)) => format!(" by {column}"),
            (Keep::Last, None) => " in order of arrival".to_string(),
        };
        let memory = match (self.ttl, &self.time_column) {
            (Some(ttl), Some(column)) => format!("a key is remembered for {} of {column}", show(ttl)),
            _ => "keys are remembered for ever, so state grows with every new one; `ttlMs` bounds it".to_string(),
        };
        format!("{} row per {}{order}; {memory}", self.keep.name(), self.keys.join(", "))
    }
}

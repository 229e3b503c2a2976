//! The keys of `sessionAggregate`, and what they mean over a schema.

use super::operator::{Plan, SessionFactory};
use super::sessions::Limits;
use super::state::VERSION;
use crate::aggregates::{self, AGGS, AggregateDef, Scope};
use crate::binding::{key_columns, length, show};
use crate::expression::at;
use crate::step::{BindCtx, Bound, BoundNode, KeyInfo, StepDef, StepInfo, StreamType};
use crate::when::{ALLOWED_LATENESS, EMIT, FIRING_DELAY, IDLE_TIMEOUT, INGEST_TIME, TIME_COLUMN, Time, When, read_time};
use crate::window::{END, KEY_BY, KeyBy, START, key_by};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};
use tidegate_api::{ChangeMode, Signature, hash, hidden, types};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "sessionAggregate",
    summary: "Aggregates per group over sessions of event time: rows of a group that come at most a gap apart, exactly one gap included. A session fires once the watermark has passed its end.",
    keys: &[
        TIME_COLUMN,
        INGEST_TIME,
        KeyInfo { name: "gapMs", takes: "milliseconds, or `gap` as text", text: "how far apart two rows of one session may be" },
        KeyInfo {
            name: "maxMs",
            takes: "milliseconds, or `max` as text?",
            text: "how far apart the first and the last row of a session may be; the row that would make it longer begins the next",
        },
        KeyInfo {
            name: "groupBy",
            takes: "column or list of columns?",
            text: "sessions of each distinct value; without it those of all rows together",
        },
        KeyInfo { name: "aggs", takes: "list of tables", text: AGGS },
        ALLOWED_LATENESS,
        FIRING_DELAY,
        KeyInfo { name: "lateOutput", takes: "dataset?", text: "where rows go that could only be part of a session that is done with" },
        EMIT,
        IDLE_TIMEOUT,
        KEY_BY,
    ],
    output: "`windowStart` (the first row's time), `windowEnd` (the last row's time plus the gap), the group columns, the aliases; append, or upsert on window and groups with `emit` or `allowedLatenessMs`",
    example: "{ op = \"sessionAggregate\", timeColumn = \"dateTime\", gapMs = 10000, groupBy = [\"bidder\"], aggs = [{ op = \"count\", alias = \"bids\" }] }",
    parse,
};

#[derive(Debug)]
struct SessionDef {
    /// None for sessions of the clock.
    time_column: Option<String>,
    limits: Limits,
    when: When,
    group_by: Vec<String>,
    key_by: KeyBy,
    aggregates: Vec<AggregateDef>,
    late_output: Option<String>,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let time_column = read_time(&mut options);
    let gap = length(&mut options, "gap");
    if gap.is_none() && !options.has("gap") && !options.has("gapMs") {
        options.problem("gapMs", "`gapMs` is missing");
    }
    let longest = length(&mut options, "max");
    let when = When::read(&mut options);
    let group_by = options.strings("groupBy").unwrap_or_default();
    let key_by = key_by(&mut options, &group_by, &when);
    let aggregates = aggregates::read(&mut options);
    let late_output = options.string("lateOutput");
    let problems = options.finish();
    match gap {
        Some(gap) if problems.is_empty() => {
            let limits = Limits { gap, longest };
            Ok(Box::new(SessionDef { time_column, limits, when, group_by, key_by, aggregates, late_output }))
        }
        _ => Err(problems),
    }
}

impl StepDef for SessionDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn time_columns(&self) -> Vec<Option<String>> {
        vec![self.time_column.clone()]
    }

    fn late_output(&self) -> Option<&str> {
        self.late_output.as_deref()
    }

    fn keeps_splits_apart(&self) -> bool {
        self.key_by.keeps_splits_apart()
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = crate::step::one_input(inputs)?;
        let mut problems = Vec::new();
        if let ChangeMode::Upsert { keys } = &input.mode {
            let message =
                format!("the rows that come in replace earlier ones of equal `{}`, which this step would count again", keys.join("`, `"));
            problems.push(at(&["op"], message));
        }
        let time = Time::bind(self.time_column.as_deref(), &input.schema, &mut problems);
        let groups = key_columns(&input.schema, &self.group_by, "groupBy", &[START, END], &mut problems);
        let scope = Scope { schema: &input.schema, functions: &cx.functions, time: time.as_ref().and_then(Time::index) };
        let taken = self.group_by.iter().map(String::as_str).chain([START, END]);
        let aggregates = aggregates::bind(&self.aggregates, scope, taken, &mut problems);
        let Some(time) = time.filter(|_| problems.is_empty()) else {
            return Err(problems);
        };

        let bound = DataType::Timestamp(TimeUnit::Millisecond, time.zone());
        let mut fields = vec![Field::new(START, bound.clone(), false), Field::new(END, bound, false)];
        fields.extend(groups.iter().map(|index| input.schema.field(*index).clone()));
        fields.extend(aggregates.iter().map(|bound| bound.field.clone()));
        if cx.keys {
            fields.push(hidden::key_field());
        }
        let mode = if self.when.updates() {
            fields.push(hidden::op_field());
            ChangeMode::Upsert { keys: [START, END].iter().map(ToString::to_string).chain(self.group_by.iter().cloned()).collect() }
        } else {
            ChangeMode::Append
        };
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let mut always: BTreeSet<String> = self.group_by.iter().chain(&self.time_column).cloned().collect();
        always.extend(aggregates::reads(&aggregates));
        always.extend(self.key_by.keeps_splits_apart().then(|| hidden::SPLIT.to_string()));
        if self.late_output.is_some() {
            always.extend(input.schema.fields().iter().map(|field| field.name().clone()));
        }
        let signature = self.signature(&input.schema, &groups);
        let factory = SessionFactory::new(Plan {
            limits: self.limits,
            time,
            when: self.when,
            group_types: groups.iter().map(|index| input.schema.field(*index).data_type().clone()).collect(),
            groups,
            dealt_by: self.key_by.among(&self.group_by),
            aggregates,
            schema: Arc::clone(&schema),
            keyed: cx.keys,
            signature,
        });
        Ok(Bound {
            output: StreamType { schema, mode },
            node: BoundNode::Operator { factory: self.key_by.factory(Arc::new(factory)), keys: vec![self.key_by.dealt()] },
            required: Box::new(move |_| vec![always.clone()]),
            equals: Vec::new(),
            details: self.details(),
        })
    }
}

impl SessionDef {
    fn signature(&self, schema: &SchemaRef, groups: &[usize]) -> Signature {
        let groups: Vec<Value> = groups
            .iter()
            .map(|index| json!({ "column": schema.field(*index).name(), "type": types::name(schema.field(*index).data_type()) }))
            .collect();
        let mut signature = Signature::new(INFO.op, VERSION)
            .with("timeColumn", self.time_column.as_deref().map_or(Value::Null, Value::from))
            .with("gapMs", self.limits.gap)
            .with("maxMs", self.limits.longest.map_or(Value::Null, Value::from))
            .with("groupBy", groups)
            .with("aggs", aggregates::signature(&self.aggregates, schema))
            .with("hash", hash::HASH_VERSION);
        // What is left out is as it was before there was such a key.
        if self.when.updates() {
            // What was told must be known to be taken back, and a session that was given up can no longer be put right.
            signature = signature.with("updates", true).with("allowedLatenessMs", self.when.lateness);
        }
        if let KeyBy::Columns(columns) = &self.key_by
            && *columns != self.group_by
        {
            signature = signature.with("keyBy", columns.clone());
        }
        signature
    }

    fn details(&self) -> String {
        let longest = self.limits.longest.map(|longest| format!(" and at most {}", show(longest))).unwrap_or_default();
        let by = if self.group_by.is_empty() { String::new() } else { format!(" by {}", self.group_by.join(", ")) };
        let aggregates = aggregates::describe(&self.aggregates);
        let over = self.time_column.as_deref().unwrap_or("the clock");
        format!(
            "sessions with gaps of {}{longest} over {over}{by}: {aggregates}{}",
            show(self.limits.gap),
            self.when.describe() + self.key_by.describe()
        )
    }
}

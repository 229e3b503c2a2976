//! The keys of `windowedAggregate`, and what they mean over a schema.

use super::operator::{Plan, WindowFactory};
use super::state;
use super::written::{KEY_BY, KeyBy, Shape, parse};
use crate::aggregates::{self, AGGS, AggregateDef, BoundAggregate, Scope};
use crate::binding::key_columns;
use crate::expression::at;
use crate::step::{BindCtx, Bound, BoundNode, KeyInfo, StepDef, StepInfo, StreamType};
use crate::when::{ALLOWED_LATENESS, EMIT, FIRING_DELAY, IDLE_TIMEOUT, INGEST_TIME, TIME_COLUMN, Time, When};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::{ChangeMode, Signature, hash, hidden, types};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "windowedAggregate",
    summary: "Aggregates per group over windows: tumbling, hopping when `slideMs` is given, cumulating when `stepMs` is. A window is half-open, aligned to 1970 plus `offsetMs`, and fires once the watermark reaches its end.",
    keys: &[
        TIME_COLUMN,
        INGEST_TIME,
        KeyInfo { name: "windowMs", takes: "milliseconds, or `window` as text", text: "how long a window is" },
        KeyInfo {
            name: "slideMs",
            takes: "milliseconds, or `slide` as text?",
            text: "how far apart windows start; not more than a window, and so that at most 50,000 windows overlap",
        },
        KeyInfo {
            name: "stepMs",
            takes: "milliseconds, or `step` as text?",
            text: "by how much windows grow: those that start together end one step after the other, up to `windowMs`, which it divides",
        },
        KeyInfo {
            name: "offsetMs",
            takes: "milliseconds, or `offset` as text?",
            text: "moves every window; may be negative in milliseconds",
        },
        KeyInfo {
            name: "timeZone",
            takes: "zone?",
            text: "for windows of whole days: the zone whose days they are, of 23 or 25 hours where its clocks change",
        },
        KeyInfo { name: "groupBy", takes: "column or list of columns?", text: "a row per distinct value; without it one row per window" },
        KeyInfo { name: "aggs", takes: "list of tables", text: AGGS },
        ALLOWED_LATENESS,
        FIRING_DELAY,
        KeyInfo { name: "lateOutput", takes: "dataset?", text: "where rows go that are late for every window" },
        EMIT,
        IDLE_TIMEOUT,
        KEY_BY,
    ],
    output: "`windowStart`, `windowEnd` (timestamp ms), the group columns, the aliases; append, or upsert on window and groups with `emit` or `allowedLatenessMs`",
    example: "{ op = \"windowedAggregate\", timeColumn = \"dateTime\", windowMs = 10000, groupBy = [\"auction\"], aggs = [{ op = \"count\", alias = \"bids\" }] }",
    parse,
};

/// The output column of a window's start.
pub(crate) const START: &str = "windowStart";
/// The output column of its end.
pub(crate) const END: &str = "windowEnd";

#[derive(Debug)]
pub(super) struct WindowDef {
    /// None for windows of the clock.
    pub(super) time_column: Option<String>,
    pub(super) shape: Shape,
    pub(super) when: When,
    pub(super) group_by: Vec<String>,
    pub(super) key_by: KeyBy,
    pub(super) aggregates: Vec<AggregateDef>,
    pub(super) late_output: Option<String>,
}

impl StepDef for WindowDef {
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
        let order = time.as_ref().and_then(Time::index);
        let scope = Scope { schema: &input.schema, functions: &cx.functions, time: order };
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
        let always = self.reads(&input.schema, &aggregates);
        let signature = self.signature(&input.schema, &groups);
        let mut plan = Plan {
            grid: self.shape.grid(),
            time,
            when: self.when,
            group_types: groups.iter().map(|index| input.schema.field(*index).data_type().clone()).collect(),
            groups,
            dealt_by: self.key_by.among(&self.group_by),
            aggregates,
            schema: Arc::new(Schema::empty()),
            keyed: cx.keys,
            signature,
        };
        let mode = if plan.when.updates() {
            fields.push(hidden::op_field());
            ChangeMode::Upsert { keys: [START, END].iter().map(ToString::to_string).chain(self.group_by.iter().cloned()).collect() }
        } else {
            ChangeMode::Append
        };
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        plan.schema = Arc::clone(&schema);
        Ok(Bound {
            output: StreamType { schema, mode },
            node: BoundNode::Operator { factory: self.key_by.factory(Arc::new(WindowFactory::new(plan))), keys: vec![self.key_by.dealt()] },
            required: Box::new(move |_| vec![always.clone()]),
            equals: Vec::new(),
            details: self.details(),
        })
    }
}

impl WindowDef {
    /// The input columns that any output needs; all of them when late rows are wanted whole.
    fn reads(&self, schema: &SchemaRef, aggregates: &[BoundAggregate]) -> BTreeSet<String> {
        if self.late_output.is_some() {
            let origin = self.key_by.keeps_splits_apart().then(|| hidden::SPLIT.to_string());
            return schema.fields().iter().map(|field| field.name().clone()).chain(origin).collect();
        }
        let mut reads: BTreeSet<String> = self.group_by.iter().chain(&self.time_column).cloned().collect();
        reads.extend(aggregates::reads(aggregates));
        reads.extend(self.key_by.keeps_splits_apart().then(|| hidden::SPLIT.to_string()));
        reads
    }

    fn signature(&self, schema: &SchemaRef, groups: &[usize]) -> Signature {
        let Shape { size, slide, step, offset, zone } = &self.shape;
        let groups: Vec<Value> = groups
            .iter()
            .map(|index| json!({ "column": schema.field(*index).name(), "type": types::name(schema.field(*index).data_type()) }))
            .collect();
        let mut signature = Signature::new(INFO.op, state::VERSION)
            .with("timeColumn", self.time_column.as_deref().map_or(Value::Null, Value::from))
            .with("windowMs", *size)
            .with("slideMs", *slide)
            .with("offsetMs", offset.rem_euclid(*slide))
            .with("groupBy", groups)
            .with("aggs", aggregates::signature(&self.aggregates, schema))
            .with("hash", hash::HASH_VERSION);
        // What is left out is as it was before there was such a key.
        if let Some(step) = step {
            signature = signature.with("stepMs", *step);
        }
        if let Some(zone) = zone {
            signature = signature.with("timeZone", zone.name());
        }
        if self.when.lateness > 0 {
            // A window that was given up can no longer be put right.
            signature = signature.with("allowedLatenessMs", self.when.lateness);
        }
        if let KeyBy::Columns(columns) = &self.key_by
            && *columns != self.group_by
        {
            signature = signature.with("keyBy", columns.clone());
        }
        signature
    }

    fn details(&self) -> String {
        let by = if self.group_by.is_empty() { String::new() } else { format!(" by {}", self.group_by.join(", ")) };
        let over = self.time_column.as_deref().unwrap_or("the clock");
        format!(
            "{} over {over}{by}: {}{}",
            self.shape.describe(),
            aggregates::describe(&self.aggregates),
            self.when.describe() + self.key_by.describe()
        )
    }
}

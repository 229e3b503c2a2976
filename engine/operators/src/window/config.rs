//! The keys of `windowedAggregate`, and what they mean over a schema.

use super::arithmetic::{LONGEST_MS, Windows};
use super::operator::{BoundAggregate, Plan, WindowFactory};
use super::panes::Aggregate;
use super::state;
use crate::aggregates::Function;
use crate::binding::{key_columns, length, show, time_column, unknown};
use crate::expression::{at, condition};
use crate::projection::find;
use crate::step::{BindCtx, Bound, BoundNode, KeyInfo, StepDef, StepInfo, StreamType};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};
use tidegate_api::nearest::hint;
use tidegate_api::{ChangeMode, Signature, hash, hidden, types};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "windowedAggregate",
    summary: "Aggregates per group over windows of event time: tumbling, or hopping when `slideMs` is given. A window is half-open, aligned to 1970 plus `offsetMs`, and fires once the watermark reaches its end.",
    keys: &[
        KeyInfo { name: "timeColumn", takes: "column", text: "the event time: a timestamp, or int64 milliseconds" },
        KeyInfo { name: "windowMs", takes: "milliseconds, or `window` as text", text: "how long a window is" },
        KeyInfo {
            name: "slideMs",
            takes: "milliseconds, or `slide` as text?",
            text: "how far apart windows start; not more than a window, and so that at most 50,000 windows overlap",
        },
        KeyInfo {
            name: "offsetMs",
            takes: "milliseconds, or `offset` as text?",
            text: "moves every window; may be negative in milliseconds",
        },
        KeyInfo { name: "groupBy", takes: "column or list of columns?", text: "a row per distinct value; without it one row per window" },
        KeyInfo {
            name: "aggs",
            takes: "list of `{ op, column, alias, filter }`",
            text: "`count` (rows, or a column's non-null values), `sum`, `avg`, `min`, `max`; `filter` is a condition on the rows taken; `alias` names the output column",
        },
        KeyInfo { name: "lateOutput", takes: "dataset?", text: "where rows go that are late for every window" },
    ],
    output: "`windowStart`, `windowEnd` (timestamp ms), the group columns, the aliases; append",
    example: "{ op = \"windowedAggregate\", timeColumn = \"dateTime\", windowMs = 10000, groupBy = [\"auction\"], aggs = [{ op = \"count\", alias = \"bids\" }] }",
    parse,
};

const START: &str = "windowStart";
const END: &str = "windowEnd";

/// Keys of later versions: refused, never ignored.
const LATER: &[&str] =
    &["ingestTime", "stepMs", "step", "timeZone", "allowedLatenessMs", "allowedLateness", "emit", "idleTimeoutMs", "idleTimeout", "keyBy"];

/// Aggregations of later versions.
const LATER_FUNCTIONS: &[&str] = &[
    "countDistinct",
    "approxCountDistinct",
    "varPop",
    "varSamp",
    "stddevPop",
    "stddevSamp",
    "boolAnd",
    "boolOr",
    "bitAnd",
    "bitOr",
    "bitXor",
    "first",
    "last",
    "argMin",
    "argMax",
    "median",
    "percentile",
    "arrayAgg",
    "stringAgg",
];

#[derive(Debug)]
struct WindowDef {
    time_column: String,
    windows: Windows,
    described: String,
    group_by: Vec<String>,
    aggregates: Vec<AggregateDef>,
    late_output: Option<String>,
    /// Window, slide and offset in milliseconds, as they enter the signature.
    millis: (i64, i64, i64),
}

#[derive(Debug)]
struct AggregateDef {
    function: Function,
    column: Option<String>,
    filter: Option<String>,
    alias: String,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    for key in LATER {
        // Zero lateness is what there is.
        if options.value(key).is_some_and(|value| !(key.starts_with("allowedLateness") && value.as_i64() == Some(0))) {
            options.problem(key, format!("`{key}` is not available yet"));
        }
    }
    let time_column = match options.has("ingestTime") {
        true => options.string("timeColumn"),
        false => options.require_string("timeColumn"),
    };
    let size = length(&mut options, "window");
    if size.is_none() && !options.has("window") && !options.has("windowMs") {
        options.problem("windowMs", "`windowMs` is missing");
    }
    let slide = length(&mut options, "slide");
    if let (Some(size), Some(slide)) = (size, slide)
        && slide > size
    {
        options.problem(
            if options.has("slide") { "slide" } else { "slideMs" },
            format!("windows of {} that start every {} would leave out rows between them", show(size), show(slide)),
        );
    }
    if let (Some(size), Some(slide)) = (size, slide)
        && size / slide > MAX_OVERLAP
    {
        options.problem(
            if options.has("slide") { "slide" } else { "slideMs" },
            format!(
                "windows of {} that start every {} put every row into {} of them, and {MAX_OVERLAP} is the most: windows fire one after \
                 the other, and no epoch ends in between; let them start further apart",
                show(size),
                show(slide),
                size / slide
            ),
        );
    }
    let offset = offset(&mut options);
    let group_by = options.strings("groupBy").unwrap_or_default();
    let aggregates = read_aggregates(&mut options);
    let late_output = options.string("lateOutput");
    let problems = options.finish();
    match (time_column, size) {
        (Some(time_column), Some(size)) if problems.is_empty() => {
            let slide = slide.unwrap_or(size);
            let kind =
                if slide == size { format!("tumbling {}", show(size)) } else { format!("hopping {} every {}", show(size), show(slide)) };
            let windows = Windows::new(size, slide, offset);
            let millis = (size, slide, offset.rem_euclid(slide));
            Ok(Box::new(WindowDef { time_column, windows, described: kind, group_by, aggregates, late_output, millis }))
        }
        _ => Err(problems),
    }
}

/// How many windows may hold one row: enough for a month by the minute. One watermark fires at least as many, and a barrier waits
/// for them.
const MAX_OVERLAP: i64 = 50_000;

fn offset(options: &mut Options<'_>) -> i64 {
    let offset = if options.has("offset") {
        options.duration("offset").map_or(0, |offset| i64::try_from(offset.as_millis()).unwrap_or(i64::MAX))
    } else {
        options.value("offset");
        options.integer("offsetMs").unwrap_or(0)
    };
    if !(-LONGEST_MS..=LONGEST_MS).contains(&offset) {
        options.problem("offsetMs", "an offset is at most 100 years");
        return 0;
    }
    offset
}

fn read_aggregates(options: &mut Options<'_>) -> Vec<AggregateDef> {
    if !options.has("aggs") {
        options.problem("aggs", "`aggs` is missing; it says what to compute, such as `[{ op = \"count\", alias = \"rows\" }]`");
    }
    let Some(list) = options.list("aggs") else {
        return Vec::new();
    };
    if list.is_empty() {
        options.problem("aggs", "name at least one aggregation");
    }
    let mut aggregates = Vec::new();
    for (index, entry) in list.iter().enumerate() {
        let place = ["aggs".to_string(), index.to_string()];
        match read_aggregate(entry) {
            Ok(aggregate) => aggregates.push(aggregate),
            Err(problems) => options.problems(problems.into_iter().map(|problem| problem.under(place.clone()))),
        }
    }
    aggregates
}

fn read_aggregate(entry: &Value) -> Result<AggregateDef, Vec<Problem>> {
    let Value::Object(map) = entry else {
        return Err(vec![Problem::whole(format!("expected `{{ op, column, alias }}`, found `{entry}`"))]);
    };
    let mut options = Options::new(map);
    let name = options.require_string("op");
    let column = options.string("column");
    let filter = options.string("filter");
    let alias = options.string("alias");
    let function = name.as_ref().and_then(|name| {
        let found = Function::ALL.iter().find(|(known, _)| known == name).map(|(_, function)| *function);
        if found.is_none() {
            options.problem(
                "op",
                if LATER_FUNCTIONS.contains(&name.as_str()) {
                    format!("the aggregation `{name}` is not available yet")
                } else {
                    let known = Function::ALL.iter().map(|(known, _)| *known).chain(LATER_FUNCTIONS.iter().copied());
                    format!("unknown aggregation `{name}`{}", hint(name, known))
                },
            );
        }
        found
    });
    if let (Some(function), None) = (function, &column)
        && function != Function::Count
    {
        options.problem("column", format!("`{}` needs a `column`", function.name()));
    }
    let problems = options.finish();
    match function {
        Some(function) if problems.is_empty() => {
            let alias = alias.unwrap_or_else(|| match &column {
                Some(column) => format!("{}_{column}", function.name()),
                None => function.name().to_string(),
            });
            Ok(AggregateDef { function, column, filter, alias })
        }
        _ => Err(problems),
    }
}

impl StepDef for WindowDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn time_columns(&self) -> Vec<Option<String>> {
        vec![Some(self.time_column.clone())]
    }

    fn late_output(&self) -> Option<&str> {
        self.late_output.as_deref()
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = crate::step::one_input(inputs)?;
        let mut problems = Vec::new();
        if let ChangeMode::Upsert { keys } = &input.mode {
            let message =
                format!("the rows that come in replace earlier ones of equal `{}`, which this step would count again", keys.join("`, `"));
            problems.push(at(&["op"], message));
        }
        let time = time_column(&input.schema, &self.time_column, "timeColumn", &mut problems);
        let groups = key_columns(&input.schema, &self.group_by, "groupBy", &[START, END], &mut problems);
        let aggregates = self.bind_aggregates(&input.schema, cx, &mut problems);
        let Some((time, zone)) = time.filter(|_| problems.is_empty()) else {
            return Err(problems);
        };

        let bound = DataType::Timestamp(TimeUnit::Millisecond, zone.clone());
        let mut fields = vec![Field::new(START, bound.clone(), false), Field::new(END, bound, false)];
        fields.extend(groups.iter().map(|index| input.schema.field(*index).clone()));
        fields.extend(aggregates.iter().map(|bound| bound.field.clone()));
        if cx.keys {
            fields.push(hidden::key_field());
        }
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let always = self.reads(&input.schema, &aggregates);
        let signature = self.signature(&input.schema, &groups);
        let factory = WindowFactory::new(Plan {
            windows: self.windows,
            time,
            zone,
            group_types: groups.iter().map(|index| input.schema.field(*index).data_type().clone()).collect(),
            groups,
            aggregates,
            schema: Arc::clone(&schema),
            keyed: cx.keys,
            signature,
        });
        Ok(Bound {
            output: StreamType::append(schema),
            node: BoundNode::Operator { factory: Arc::new(factory), keys: vec![self.group_by.clone()] },
            required: Box::new(move |_| vec![always.clone()]),
            equals: Vec::new(),
            details: self.details(),
        })
    }
}

impl WindowDef {
    fn bind_aggregates(&self, schema: &SchemaRef, cx: &BindCtx, problems: &mut Vec<Problem>) -> Vec<BoundAggregate> {
        let mut bound = Vec::new();
        let mut taken: BTreeSet<&str> = self.group_by.iter().map(String::as_str).chain([START, END]).collect();
        for (place, aggregate) in self.aggregates.iter().enumerate() {
            let place = place.to_string();
            let path = |key: &'static str| ["aggs", place.as_str(), key].map(str::to_string);
            let mut problem = |key: &'static str, message: String| problems.push(Problem::whole(message).under(path(key)));
            if hidden::is_hidden(&aggregate.alias) {
                problem("alias", format!("the name `{}` is reserved", aggregate.alias));
            } else if !taken.insert(&aggregate.alias) {
                problem("alias", format!("the output has a column `{}` already; give another `alias`", aggregate.alias));
            }
            let column = match &aggregate.column {
                None => None,
                Some(name) => match find(schema, name) {
                    Some(index) => Some(index),
                    None => {
                        problem("column", unknown(name, schema));
                        continue;
                    }
                },
            };
            let values = column.map(|index| schema.field(index).data_type().clone());
            let Some(result) = aggregate.function.result(values.as_ref().unwrap_or(&DataType::Int64)) else {
                let of = values.as_ref().map(types::name).unwrap_or_default();
                problem("column", format!("`{}` has no meaning over values of type `{of}`", aggregate.function.name()));
                continue;
            };
            let filter = match &aggregate.filter {
                None => None,
                Some(text) => match condition(&cx.functions, &["aggs", &place, "filter"], text, schema) {
                    Ok(typed) if typed.uses_now() => {
                        problem(
                            "filter",
                            "a filter of an aggregate cannot use `now()`: its state would depend on when it is restored".into(),
                        );
                        continue;
                    }
                    Ok(typed) => Some(typed),
                    Err(found) => {
                        problems.push(found);
                        continue;
                    }
                },
            };
            bound.push(BoundAggregate {
                aggregate: Aggregate { function: aggregate.function, values, filtered: filter.is_some() },
                column,
                reads: filter.as_ref().map(|typed| typed.columns().clone()).unwrap_or_default(),
                filter: filter.map(|typed| typed.compile()),
                field: Field::new(&aggregate.alias, result, aggregate.function != Function::Count),
            });
        }
        bound
    }

    /// The input columns that any output needs; all of them when late rows are wanted whole.
    fn reads(&self, schema: &SchemaRef, aggregates: &[BoundAggregate]) -> BTreeSet<String> {
        if self.late_output.is_some() {
            return schema.fields().iter().map(|field| field.name().clone()).collect();
        }
        let mut reads: BTreeSet<String> = self.group_by.iter().cloned().collect();
        reads.insert(self.time_column.clone());
        reads.extend(self.aggregates.iter().filter_map(|aggregate| aggregate.column.clone()));
        reads.extend(aggregates.iter().flat_map(|bound| bound.reads.iter().cloned()));
        reads
    }

    fn signature(&self, schema: &SchemaRef, groups: &[usize]) -> Signature {
        let (window, slide, offset) = self.millis;
        let groups: Vec<Value> = groups
            .iter()
            .map(|index| json!({ "column": schema.field(*index).name(), "type": types::name(schema.field(*index).data_type()) }))
            .collect();
        let aggregates: Vec<Value> = self
            .aggregates
            .iter()
            .map(|aggregate| {
                let of = aggregate.column.as_ref().and_then(|name| find(schema, name));
                json!({
                    "op": aggregate.function.name(),
                    "column": aggregate.column,
                    "type": of.map(|index| types::name(schema.field(index).data_type())),
                    "filter": aggregate.filter,
                })
            })
            .collect();
        Signature::new(INFO.op, state::VERSION)
            .with("timeColumn", self.time_column.as_str())
            .with("windowMs", window)
            .with("slideMs", slide)
            .with("offsetMs", offset)
            .with("groupBy", groups)
            .with("aggs", aggregates)
            .with("hash", hash::HASH_VERSION)
    }

    fn details(&self) -> String {
        let aggregates: Vec<String> = self
            .aggregates
            .iter()
            .map(|aggregate| {
                let of = aggregate.column.as_deref().unwrap_or("*");
                let filter = aggregate.filter.as_ref().map(|filter| format!(" where {filter}")).unwrap_or_default();
                format!("{} = {}({of}){filter}", aggregate.alias, aggregate.function.name())
            })
            .collect();
        let by = if self.group_by.is_empty() { String::new() } else { format!(" by {}", self.group_by.join(", ")) };
        format!("{} over {}{by}: {}", self.described, self.time_column, aggregates.join(", "))
    }
}

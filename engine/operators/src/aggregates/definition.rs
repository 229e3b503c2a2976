//! `aggs` as it is written: which functions over which columns, with which parameters, under which names.

use super::Function;
use crate::projection::find;
use arrow::datatypes::SchemaRef;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};
use tidegate_api::nearest::hint;
use tidegate_api::types;

/// What `aggs` takes, for the documentation of the steps that have it.
pub(crate) const AGGS: &str = "what to compute, each `{ op, column, alias, filter }`: `alias` names the output column, `filter` is a condition on the rows taken. `op` is `count` (rows, or a column's non-null values), `countDistinct`, `approxCountDistinct`, `sum`, `avg`, `min`, `max`, `varPop`, `varSamp`, `stddevPop`, `stddevSamp`, `boolAnd`, `boolOr`, `bitAnd`, `bitOr`, `bitXor`, `first`, `last`, `argMin` or `argMax` (with `by`, a column), `median`, `percentile` (with `p`, 0 to 1), `arrayAgg` or `stringAgg` (with `separator`, a comma without it)";

/// An aggregate as written.
#[derive(Debug)]
pub(crate) struct AggregateDef {
    /// What is computed.
    pub(crate) function: Function,
    /// Over which column; `None` counts rows.
    pub(crate) column: Option<String>,
    /// The column that decides which row's value is taken.
    pub(crate) by: Option<String>,
    /// The condition on the rows taken.
    pub(crate) filter: Option<String>,
    /// The name of the output column.
    pub(crate) alias: String,
    /// What else it is told.
    pub(crate) parameters: Parameters,
}

/// What some functions are told beside their columns.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Parameters {
    /// Of `percentile`: which part of all values lies below.
    pub(crate) p: Option<f64>,
    /// Of `stringAgg`: what stands between texts.
    pub(crate) separator: Option<Arc<str>>,
}

/// Reads `aggs`.
pub(crate) fn read(options: &mut Options<'_>) -> Vec<AggregateDef> {
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
        match read_one(entry) {
            Ok(aggregate) => aggregates.push(aggregate),
            Err(problems) => options.problems(problems.into_iter().map(|problem| problem.under(place.clone()))),
        }
    }
    aggregates
}

fn read_one(entry: &Value) -> Result<AggregateDef, Vec<Problem>> {
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
            let known = Function::ALL.iter().map(|(known, _)| *known);
            options.problem("op", format!("unknown aggregation `{name}`{}", hint(name, known)));
        }
        found
    });
    if let (Some(function), None) = (function, &column)
        && function != Function::Count
    {
        options.problem("column", format!("`{}` needs a `column`", function.name()));
    }
    let by = function.filter(|function| function.compares()).and_then(|function| {
        if !options.has("by") {
            options.problem("by", format!("`{}` needs a `by`: the column that decides which row's value is taken", function.name()));
        }
        options.string("by")
    });
    let parameters = parameters(function, map, &mut options);
    let problems = options.finish();
    match function {
        Some(function) if problems.is_empty() => {
            let alias = alias.unwrap_or_else(|| match &column {
                Some(column) => format!("{}_{column}", function.name()),
                None => function.name().to_string(),
            });
            Ok(AggregateDef { function, column, by, filter, alias, parameters })
        }
        _ => Err(problems),
    }
}

fn parameters(function: Option<Function>, map: &Map<String, Value>, options: &mut Options<'_>) -> Parameters {
    let mut parameters = Parameters::default();
    match function {
        Some(Function::Median) => parameters.p = Some(0.5),
        Some(Function::Percentile) => {
            if !map.contains_key("p") {
                options.problem("p", "`percentile` needs a `p` from 0 to 1, such as 0.95");
            }
            parameters.p = options.number("p");
            if parameters.p.is_some_and(|p| !(0.0..=1.0).contains(&p)) {
                options.problem("p", "`p` lies from 0 to 1, such as 0.95");
            }
        }
        Some(Function::StringAgg) => {
            let separator = options.string("separator").unwrap_or_else(|| ",".to_string());
            parameters.separator = Some(separator.into());
        }
        _ => {}
    }
    parameters
}

/// The aggregates as they enter a state's signature.
pub(crate) fn signature(definitions: &[AggregateDef], schema: &SchemaRef) -> Vec<Value> {
    let typed = |name: &Option<String>| {
        let index = name.as_ref().and_then(|name| find(schema, name));
        index.map(|index| types::name(schema.field(index).data_type()))
    };
    let signed = |definition: &AggregateDef| {
        let mut signed = json!({
            "op": definition.function.name(),
            "column": definition.column,
            "type": typed(&definition.column),
            "filter": definition.filter,
        });
        // Only what changes the state: the state of a percentile is the same for every `p`.
        if let (Some(by), Some(map)) = (&definition.by, signed.as_object_mut()) {
            map.insert("by".into(), json!(by));
            map.insert("byType".into(), json!(typed(&definition.by)));
        }
        signed
    };
    definitions.iter().map(signed).collect()
}

/// The aggregates in one line, for `plan`.
pub(crate) fn describe(definitions: &[AggregateDef]) -> String {
    let described = |definition: &AggregateDef| {
        let of = definition.column.as_deref().unwrap_or("*");
        let by = definition.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let p = definition.parameters.p.filter(|_| definition.function == Function::Percentile);
        let p = p.map(|p| format!(", {p}")).unwrap_or_default();
        let filter = definition.filter.as_ref().map(|filter| format!(" where {filter}")).unwrap_or_default();
        format!("{} = {}({of}{p}{by}){filter}", definition.alias, definition.function.name())
    };
    definitions.iter().map(described).collect::<Vec<_>>().join(", ")
}

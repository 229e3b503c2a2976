//! An aggregate over a schema: its types, and its values in a batch.

use super::definition::{AggregateDef, Parameters};
use super::{Accumulator, Function, average_input, bits, count, distinct, extreme, lists, masked, percentile, pick, sketch, variance};
use super::{average, sum};
use crate::binding::unknown;
use crate::expression::{BadRows, condition, truths};
use crate::projection::find;
use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, StructArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Fields, SchemaRef};
use std::collections::BTreeSet;
use std::sync::Arc;
use tidegate_api::config::Problem;
use tidegate_api::time::raw_times;
use tidegate_api::{BadReason, Error, EventTime, Result, hidden, types};
use tidegate_dialect::{Compiled, Functions};

/// An aggregate's function over values of given types.
#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    /// What is computed.
    pub(crate) function: Function,
    /// Over values of which type; `None` counts rows.
    pub(crate) values: Option<DataType>,
    /// The type of the column that decides which row's value is taken.
    pub(crate) by: Option<DataType>,
    /// Whether only some rows are taken.
    pub(crate) filtered: bool,
    /// What else it is told.
    pub(crate) parameters: Parameters,
}

impl Aggregate {
    /// Whether it counts every row.
    pub(crate) fn counts_rows(&self) -> bool {
        self.function == Function::Count && self.values.is_none() && !self.filtered
    }

    /// A new accumulator.
    ///
    /// # Errors
    /// `Internal` for types that binding refuses.
    pub(crate) fn accumulator(&self) -> Result<Box<dyn Accumulator>> {
        let refused = || Error::internal(format!("`{}` cannot take values of type `{:?}`", self.function.name(), self.values));
        let typed = || self.values.as_ref().ok_or_else(refused);
        let spread = |sample, root| typed().map(|values| variance::accumulator(values, variance::Spread { sample, root }));
        let picked = |rule| typed().map(|values| Box::new(pick::Pick::new(rule, values.clone(), self.by.as_ref())));
        let joined = |join| typed().map(|values| Box::new(bits::Bits::new(join, values.clone())));
        Ok(match self.function {
            Function::Count => Box::new(count::Count::default()),
            Function::CountDistinct => Box::new(distinct::Distinct::new(typed()?.clone())?),
            Function::ApproxCountDistinct => Box::new(sketch::ApproxDistinct::default()),
            Function::Sum => match typed()? {
                float if float.is_floating() => Box::new(sum::FloatSum::default()),
                exact => Box::new(sum::ExactSum::new(self.function.result(exact).ok_or_else(refused)?)),
            },
            Function::Avg => match typed()? {
                float if float.is_floating() => Box::new(average::FloatAverage::default()),
                exact => Box::new(average::ExactAverage::new(exact.clone())),
            },
            Function::Min | Function::BoolAnd => extreme::accumulator(typed()?, extreme::Which::Least).ok_or_else(refused)?,
            Function::Max | Function::BoolOr => extreme::accumulator(typed()?, extreme::Which::Greatest).ok_or_else(refused)?,
            Function::VarPop => spread(false, false)?,
            Function::VarSamp => spread(true, false)?,
            Function::StddevPop => spread(false, true)?,
            Function::StddevSamp => spread(true, true)?,
            Function::BitAnd => joined(bits::Join::And)?,
            Function::BitOr => joined(bits::Join::Or)?,
            Function::BitXor => joined(bits::Join::Xor)?,
            Function::First => picked(pick::Rule::First)?,
            Function::Last => picked(pick::Rule::Last)?,
            Function::ArgMin => picked(pick::Rule::Least)?,
            Function::ArgMax => picked(pick::Rule::Greatest)?,
            Function::Median | Function::Percentile => percentile::accumulator(typed()?, self.parameters.p.unwrap_or(0.5)),
            Function::ArrayAgg => Box::new(lists::Lists::new(typed()?.clone(), None)),
            Function::StringAgg => {
                Box::new(lists::Lists::new(typed()?.clone(), Some(self.parameters.separator.clone().unwrap_or_default())))
            }
        })
    }

    /// A column as the accumulator takes it, prepared once per batch. Where rows are told apart by more than their value,
    /// `by` and `times` go in beside it.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn prepared(&self, column: &ArrayRef, by: Option<&ArrayRef>, times: Option<&ArrayRef>) -> Result<ArrayRef> {
        match self.function {
            Function::Count => Ok(Arc::clone(column)),
            Function::CountDistinct => distinct::prepared(column),
            Function::ApproxCountDistinct => sketch::prepared(column),
            Function::Sum | Function::Avg => average_input(column),
            Function::VarPop | Function::VarSamp | Function::StddevPop | Function::StddevSamp => match column.data_type() {
                DataType::Decimal128(_, _) => Ok(cast(column, &DataType::Float64)?),
                _ => average_input(column),
            },
            Function::BitAnd | Function::BitOr | Function::BitXor => Ok(Arc::new(crate::keys::to_ints(column)?)),
            Function::Min | Function::Max | Function::BoolAnd | Function::BoolOr | Function::Median | Function::Percentile => {
                extreme::prepared(column)
            }
            Function::First | Function::Last | Function::ArgMin | Function::ArgMax | Function::ArrayAgg | Function::StringAgg => {
                let mut parts = vec![Arc::clone(column)];
                parts.extend(by.map(extreme::prepared).transpose()?);
                // Without a time, rows are in the order of their arrival.
                parts.push(match times {
                    Some(times) => Arc::new(raw_times(times)?.0),
                    None => Arc::new(Int64Array::from(vec![0; column.len()])),
                });
                together(parts)
            }
        }
    }
}

/// Columns as one, null where any of them is.
fn together(parts: Vec<ArrayRef>) -> Result<ArrayRef> {
    let nulls = parts.iter().fold(None, |nulls, part| NullBuffer::union(nulls.as_ref(), part.logical_nulls().as_ref()));
    let fields: Fields = parts.iter().enumerate().map(|(at, part)| Field::new(at.to_string(), part.data_type().clone(), true)).collect();
    Ok(Arc::new(StructArray::try_new(fields, parts, nulls)?))
}

/// An aggregate of a stage.
#[derive(Debug)]
pub(crate) struct BoundAggregate {
    /// Its function and types.
    pub(crate) aggregate: Aggregate,
    /// The indices of its column, of what decides, and of the time.
    column: Option<usize>,
    by: Option<usize>,
    time: Option<usize>,
    /// The condition on the rows it takes.
    filter: Option<Compiled>,
    /// The columns that it reads beside the time.
    reads: BTreeSet<String>,
    /// Its output column.
    pub(crate) field: Field,
}

/// What aggregates are bound in.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    /// The rows that come in.
    pub(crate) schema: &'a SchemaRef,
    /// What conditions may call.
    pub(crate) functions: &'a Functions,
    /// The time column, by which rows are in order; without one, by their arrival.
    pub(crate) time: Option<usize>,
}

impl BoundAggregate {
    /// The rows that it takes, if not all. Rows on which the condition fails are bad.
    pub(crate) fn mask(&self, batch: &RecordBatch, bad: &mut BadRows) -> Option<BooleanBuffer> {
        let evaluated = self.filter.as_ref()?.evaluate(batch, EventTime(0));
        bad.add_failed(evaluated.bad, Some(self.field.name()));
        Some(truths(&evaluated.values))
    }

    /// The values of a batch as the accumulator takes them, null in the rows that are not taken; `None` counts rows.
    ///
    /// # Errors
    /// `Internal` when a kernel fails.
    pub(crate) fn values(&self, batch: &RecordBatch, mask: Option<BooleanBuffer>) -> Result<Option<ArrayRef>> {
        let column = |index: usize| batch.column(index);
        let prepared = self.column.map(|index| self.aggregate.prepared(column(index), self.by.map(column), self.time.map(column)));
        let prepared = prepared.transpose()?;
        match mask {
            None => Ok(prepared),
            Some(passing) => Ok(Some(masked(prepared, passing)?)),
        }
    }
}

/// The input columns that aggregates read beside the time.
pub(crate) fn reads(aggregates: &[BoundAggregate]) -> impl Iterator<Item = String> + '_ {
    aggregates.iter().flat_map(|bound| bound.reads.iter().cloned())
}

/// Types `aggs`. `taken` are the names of the output's other columns. What is mistaken is left out and added to `problems`.
pub(crate) fn bind<'a>(
    definitions: &'a [AggregateDef],
    scope: Scope<'_>,
    taken: impl IntoIterator<Item = &'a str>,
    problems: &mut Vec<Problem>,
) -> Vec<BoundAggregate> {
    let mut bound = Vec::new();
    let mut taken: BTreeSet<&str> = taken.into_iter().collect();
    for (place, definition) in definitions.iter().enumerate() {
        let place = place.to_string();
        let path = |key: &'static str| ["aggs", place.as_str(), key].map(str::to_string);
        let mut problem = |key: &'static str, message: String| problems.push(Problem::whole(message).under(path(key)));
        if hidden::is_hidden(&definition.alias) {
            problem("alias", format!("the name `{}` is reserved", definition.alias));
        } else if !taken.insert(&definition.alias) {
            problem("alias", format!("the output has a column `{}` already; give another `alias`", definition.alias));
        }
        match bind_one(definition, scope, &place, &mut problem) {
            Ok(aggregate) => bound.extend(aggregate),
            Err(found) => problems.push(found),
        }
    }
    bound
}

fn bind_one(
    definition: &AggregateDef,
    scope: Scope<'_>,
    place: &str,
    problem: &mut impl FnMut(&'static str, String),
) -> Result<Option<BoundAggregate>, Problem> {
    let schema = scope.schema;
    let named = |key: &'static str, name: &Option<String>, problem: &mut dyn FnMut(&'static str, String)| match name {
        None => Some(None),
        Some(name) => {
            let index = find(schema, name);
            if index.is_none() {
                problem(key, unknown(name, schema));
            }
            index.map(Some)
        }
    };
    let (Some(column), Some(by)) = (named("column", &definition.column, problem), named("by", &definition.by, problem)) else {
        return Ok(None);
    };
    let data_type = |index: usize| schema.field(index).data_type().clone();
    let (values, by_type) = (column.map(data_type), by.map(data_type));
    let function = definition.function;
    let Some(result) = function.result(values.as_ref().unwrap_or(&DataType::Int64)) else {
        let of = values.as_ref().map(types::name).unwrap_or_default();
        problem("column", format!("`{}` has no meaning over values of type `{of}`", function.name()));
        return Ok(None);
    };
    if let Some(by) = by_type.as_ref().filter(|by| Function::Min.result(by).is_none()) {
        problem("by", format!("values of type `{}` have no order", types::name(by)));
        return Ok(None);
    }
    let filter = match &definition.filter {
        None => None,
        Some(text) => {
            let typed = condition(scope.functions, &["aggs", place, "filter"], text, schema)?;
            if typed.uses_now() {
                problem("filter", "a filter of an aggregate cannot use `now()`: its state would depend on when it is restored".into());
                return Ok(None);
            }
            Some(typed)
        }
    };
    let mut reads: BTreeSet<String> = filter.as_ref().map(|typed| typed.columns().clone()).unwrap_or_default();
    reads.extend(definition.column.iter().chain(&definition.by).cloned());
    Ok(Some(BoundAggregate {
        aggregate: Aggregate { function, values, by: by_type, filtered: filter.is_some(), parameters: definition.parameters.clone() },
        column,
        by,
        time: scope.time.filter(|_| function.in_order()),
        filter: filter.map(|typed| typed.compile()),
        reads,
        field: Field::new(&definition.alias, result, !function.counts()),
    }))
}

/// Rows without a time are bad.
pub(crate) fn null_times(times: &Int64Array, name: &str, bad: &mut BadRows) {
    if let Some(nulls) = times.nulls().filter(|nulls| nulls.null_count() > 0) {
        for row in (0..times.len()).filter(|row| nulls.is_null(*row)) {
            bad.add(row, BadReason::MissingValue, Some(name), || format!("the time column `{name}` is null"));
        }
    }
}

/// Rows whose time has no window are bad.
pub(crate) fn far_times(rows: &[usize], times: &Int64Array, name: &str, bad: &mut BadRows) {
    for row in rows {
        bad.add(*row, BadReason::TypeMismatch, Some(name), || {
            format!("the time `{}` in column `{name}` is too far from 1970 for a window", times.value(*row))
        });
    }
}

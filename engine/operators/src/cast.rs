//! `cast`: a column in another type.
//!
//! A value that the new type cannot hold makes a bad row, or null where the step says so. An integer stands for epoch
//! milliseconds when it becomes a timestamp of any unit, and the other way round, as in expressions. A fraction is cut off
//! when a float becomes an integer.

use crate::expression::{BadRows, at};
use crate::projection::{Item, bind, find, names, visible};
use crate::step::{BindCtx, Bound, KeyInfo, StepDef, StepInfo, StreamType};
use arrow::array::{Array, ArrayRef};
use arrow::compute::{CastOptions, can_cast_types, cast_with_options};
use arrow::datatypes::{DataType, TimeUnit};
use serde_json::{Map, Value};
use std::sync::Arc;
use tidegate_api::config::{Options, Problem};
use tidegate_api::nearest::hint;
use tidegate_api::{BadReason, Result, raw, types};

pub(crate) const INFO: StepInfo = StepInfo {
    op: "cast",
    summary: "Gives a column another type. An integer stands for epoch milliseconds when it becomes a timestamp, and the other way round; a fraction is cut off when a float becomes an integer.",
    keys: &[
        KeyInfo { name: "column", takes: "column", text: "the column" },
        KeyInfo { name: "type", takes: "type", text: "its new type, such as `int64` or `timestamp_ms(UTC)`" },
        KeyInfo {
            name: "onError",
            takes: "`bad` or `null`?",
            text: "what becomes of a value that does not fit: its row is bad (the default), or it is null",
        },
    ],
    output: "the same columns, one in its new type",
    example: "{ op = \"cast\", column = \"delay\", type = \"int64\", onError = \"null\" }",
    parse,
};

/// What becomes of a value that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnError {
    Bad,
    Null,
}

/// A change of type, checked when the plan is built.
#[derive(Debug, Clone)]
pub(crate) struct Cast {
    /// A stop on the way, where the direct way means something else.
    via: Option<DataType>,
    to: DataType,
    on_error: OnError,
    column: String,
}

impl Cast {
    /// A cast of values of type `from` in this column; `None` when there is no such cast.
    pub(crate) fn new(column: &str, from: &DataType, to: &DataType, on_error: OnError) -> Option<Self> {
        let millis = |zone: &Option<Arc<str>>| DataType::Timestamp(TimeUnit::Millisecond, zone.clone());
        let via = match (from, to) {
            (integer, DataType::Timestamp(unit, zone)) if integer.is_integer() && *unit != TimeUnit::Millisecond => Some(millis(zone)),
            (DataType::Timestamp(unit, zone), integer) if integer.is_integer() && *unit != TimeUnit::Millisecond => Some(millis(zone)),
            _ => None,
        };
        let possible = match &via {
            Some(via) => can_cast_types(from, via) && can_cast_types(via, to),
            None => can_cast_types(from, to),
        };
        possible.then(|| Cast { via, to: to.clone(), on_error, column: column.to_string() })
    }

    /// The new type.
    pub(crate) fn to(&self) -> &DataType {
        &self.to
    }

    /// Whether a value may become null.
    pub(crate) fn may_null(&self) -> bool {
        self.on_error == OnError::Null
    }

    /// The values in the new type; rows whose value does not fit are added to `bad`.
    ///
    /// # Errors
    /// `Internal` when a kernel fails as a whole.
    pub(crate) fn apply(&self, values: &ArrayRef, bad: &mut BadRows) -> Result<ArrayRef> {
        let lenient = CastOptions { safe: true, ..CastOptions::default() };
        let mut made = Arc::clone(values);
        for to in self.via.iter().chain([&self.to]) {
            made = cast_with_options(&made, to, &lenient)?;
        }
        if self.on_error == OnError::Bad && made.logical_null_count() > values.logical_null_count() {
            let (before, after) = (values.logical_nulls(), made.logical_nulls());
            for row in 0..values.len() {
                let was_null = before.as_ref().is_some_and(|nulls| nulls.is_null(row));
                if !was_null && after.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    bad.add(row, BadReason::Cast, Some(&self.column), || {
                        let shown = raw::value(values, row);
                        format!("column `{}`: `{shown}` is not a value of type `{}`", self.column, types::name(&self.to))
                    });
                }
            }
        }
        Ok(made)
    }
}

/// Reads a type name at `key`.
pub(crate) fn type_at(options: &mut Options<'_>, key: &str) -> Option<DataType> {
    let text = options.string(key)?;
    match types::parse(&text) {
        Ok(data_type) => Some(data_type),
        Err(error) => {
            options.problem(key, error.message());
            None
        }
    }
}

#[derive(Debug)]
struct CastDef {
    column: String,
    to: DataType,
    on_error: OnError,
}

fn parse(map: &Map<String, Value>) -> Result<Box<dyn StepDef>, Vec<Problem>> {
    let mut options = Options::new(map);
    let _ = options.string("op");
    let column = options.require_string("column");
    if !options.has("type") {
        options.problem("type", "`type` is missing");
    }
    let to = type_at(&mut options, "type");
    let on_error = options.choice("onError", &[("bad", OnError::Bad), ("null", OnError::Null)]).unwrap_or(OnError::Bad);
    let problems = options.finish();
    match (column, to) {
        (Some(column), Some(to)) if problems.is_empty() => Ok(Box::new(CastDef { column, to, on_error })),
        _ => Err(problems),
    }
}

impl StepDef for CastDef {
    fn op(&self) -> &'static str {
        INFO.op
    }

    fn bind(&self, inputs: &[StreamType], cx: &BindCtx) -> Result<Bound, Vec<Problem>> {
        let input = crate::step::one_input(inputs)?;
        let schema = &input.schema;
        let Some(index) = find(schema, &self.column) else {
            // After pruning the column may be gone because nobody reads it.
            if cx.needed.as_ref().is_some_and(|needed| !needed.contains(&self.column)) {
                let items = visible(schema).map(|index| Item::column(schema, index)).collect();
                return Ok(bind(INFO.op, input, input.mode.clone(), items, self.details(), cx));
            }
            return Err(vec![at(&["column"], format!("there is no column `{}`{}", self.column, hint(&self.column, names(schema))))]);
        };
        crate::step::not_a_key(input, &self.column, &["column"])?;
        let from = schema.field(index).data_type();
        let Some(cast) = Cast::new(&self.column, from, &self.to, self.on_error) else {
            let message = format!("a column of type `{}` cannot become one of type `{}`", types::name(from), types::name(&self.to));
            return Err(vec![at(&["type"], message)]);
        };
        let items = visible(schema)
            .map(|other| if other == index { Item::cast(schema, index, cast.clone()) } else { Item::column(schema, other) })
            .collect();
        Ok(bind(INFO.op, input, input.mode.clone(), items, self.details(), cx))
    }
}

impl CastDef {
    fn details(&self) -> String {
        format!("{} as {}", self.column, types::name(&self.to))
    }
}

//! Where a column's values come from, and what an expression depends on: read from the step as it stands in the file.
//!
//! Time columns and keys are followed backwards through the steps that carry them. A step that is not listed here carries
//! what it has under the same name and type.

use arrow::datatypes::{Schema, SchemaRef};
use serde_json::Value;
use tidegate_api::hidden;
use tidegate_dialect::Functions;

/// The step that a source may do the work of.
pub(super) const FILTER: &str = "filter";

/// Where the values of an output column of a step come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// They are those of an input column, untouched.
    Column(String),
    /// The step makes them.
    Computed,
}

/// The origin of `column`, an output column of `step`.
pub(super) fn origin(step: &Value, input: &Schema, output: &Schema, column: &str) -> Origin {
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(str::to_string);
    match step.get("op").and_then(Value::as_str).unwrap_or_default() {
        "rename" => {
            let mapping = step.get("mapping").and_then(Value::as_object);
            let old = mapping.into_iter().flatten().find(|(_, new)| new.as_str() == Some(column)).map(|(old, _)| old.clone());
            Origin::Column(old.unwrap_or_else(|| column.to_string()))
        }
        "select" => {
            let entries = step.get("columns").and_then(Value::as_array);
            let made = entries.into_iter().flatten().find(|entry| text(entry, "name").as_deref() == Some(column));
            match made.and_then(|entry| text(entry, "expression")) {
                Some(expression) => of_expression(&expression, input),
                None => Origin::Column(column.to_string()),
            }
        }
        "applyExpression" if text(step, "column").as_deref() == Some(column) => {
            of_expression(&text(step, "expression").unwrap_or_default(), input)
        }
        _ => match (input.field_with_name(column), output.field_with_name(column)) {
            (Ok(before), Ok(after)) if before.data_type() == after.data_type() => Origin::Column(column.to_string()),
            _ => Origin::Computed,
        },
    }
}

/// The name under which `step` hands on `column` of its input untouched, if it does.
pub(super) fn carried(step: &Value, input: &Schema, output: &Schema, column: &str) -> Option<String> {
    let same = Origin::Column(column.to_string());
    let names = || output.fields().iter().map(|field| field.name()).filter(|name| !hidden::is_hidden(name));
    // Mostly under its own name, so that is looked at first.
    let own = names().find(|name| *name == column).filter(|name| origin(step, input, output, name) == same);
    own.or_else(|| names().find(|name| origin(step, input, output, name) == same)).cloned()
}

fn of_expression(expression: &str, input: &Schema) -> Origin {
    let name = expression.trim();
    let name = name.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')).unwrap_or(name);
    if input.field_with_name(name).is_ok() { Origin::Column(name.to_string()) } else { Origin::Computed }
}

/// What the expressions of a step depend on.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Expressions {
    /// One of them depends on `now()`.
    pub(super) uses_now: bool,
    /// The parts that no kernel reproduces, so that they are evaluated row by row.
    pub(super) row_by_row: Vec<String>,
}

/// Looks into the expressions of a step whose input has this schema.
pub(super) fn expressions(step: &Value, input: &SchemaRef, functions: &Functions) -> Expressions {
    let below = |list: &str, key: &str| -> Vec<&str> {
        let entries = step.get(list).and_then(Value::as_array);
        entries.into_iter().flatten().filter_map(|entry| entry.get(key).and_then(Value::as_str)).collect()
    };
    let own = step.get("expression").and_then(Value::as_str);
    let expressions = own.into_iter().chain(below("columns", "expression")).chain(below("aggs", "filter"));
    let visible = hidden::visible_schema(input);
    let mut found = Expressions::default();
    for typed in expressions.filter_map(|text| functions.bind(text, &visible).ok()) {
        found.uses_now |= typed.uses_now();
        found.row_by_row.extend(typed.per_row_parts());
    }
    found
}

/// Whether a filter says nothing beyond the equalities it offers, so that it may be left out where they are applied.
pub(super) fn only_equalities(filter: &Value, input: &SchemaRef, functions: &Functions) -> bool {
    let expression = filter.get("expression").and_then(Value::as_str);
    expression.is_some_and(|text| functions.bind(text, &hidden::visible_schema(input)).is_ok_and(|typed| typed.equals().whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field};
    use serde_json::json;

    fn schema(columns: &[&str]) -> Schema {
        Schema::new(columns.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect::<Vec<_>>())
    }

    #[test]
    fn a_column_is_followed_through_renames_and_bare_expressions() {
        let (input, output) = (schema(&["at", "x"]), schema(&["time", "x"]));
        let same = Origin::Column("at".to_string());
        assert_eq!(origin(&json!({ "op": "rename", "mapping": { "at": "time" } }), &input, &output, "time"), same);
        let select = json!({ "op": "select", "columns": [{ "name": "time", "expression": " `at` " }, "x"] });
        assert_eq!(origin(&select, &input, &output, "time"), same);
        assert_eq!(origin(&select, &input, &output, "x"), Origin::Column("x".to_string()));
        let apply = json!({ "op": "applyExpression", "column": "time", "expression": "at + 1" });
        assert_eq!(origin(&apply, &input, &output, "time"), Origin::Computed);
        assert_eq!(carried(&select, &input, &output, "at"), Some("time".to_string()));
        assert_eq!(carried(&select, &input, &output, "x"), Some("x".to_string()));
        assert_eq!(carried(&apply, &input, &output, "at"), None);
    }

    #[test]
    fn a_column_that_changes_its_type_is_computed() {
        let output = Schema::new(vec![Field::new("at", DataType::Float64, true)]);
        assert_eq!(origin(&json!({ "op": "cast", "column": "at", "type": "float64" }), &schema(&["at"]), &output, "at"), Origin::Computed);
    }
}

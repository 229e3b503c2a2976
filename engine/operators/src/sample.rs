//! A look into stored state from outside: the first keys of a piece, for a person who asks what a stage remembers.

use arrow::array::ArrayRef;
use arrow::ipc::reader::StreamReader;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use serde_json::Value;
use tidegate_api::{Result, Signature};

/// The first `limit` keys in a piece of state, each as `column=value, …`; fewer if it holds fewer, none if the piece holds no rows by key or
/// the step keeps none (a total without groups). `signature` is that of the stage that wrote it.
///
/// # Errors
/// `External` or `Internal` if the piece looks like rows and cannot be read.
pub fn sample_keys(signature: &Signature, data: &[u8], limit: usize) -> Result<Vec<String>> {
    // Some pieces are not rows, such as the times up to which windows have fired.
    let Ok(reader) = StreamReader::try_new(data, None) else { return Ok(Vec::new()) };
    let schema = reader.schema();
    let fields: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    let keys = key_columns(signature, &fields);
    let mut found = Vec::new();
    for batch in reader {
        let batch = batch?;
        let columns: Vec<(&str, &ArrayRef)> =
            keys.iter().filter_map(|(name, index)| Some((name.as_str(), batch.columns().get(*index)?))).collect();
        if columns.is_empty() {
            return Ok(found);
        }
        let options = FormatOptions::default().with_null("null");
        let shown = columns.iter().map(|(name, column)| Ok((*name, ArrayFormatter::try_new(column.as_ref(), &options)?)));
        let shown = shown.collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            if found.len() == limit {
                return Ok(found);
            }
            let parts: Vec<String> = shown.iter().map(|(name, values)| format!("{name}={}", values.value(row))).collect();
            found.push(parts.join(", "));
        }
    }
    Ok(found)
}

/// Which columns of a piece are the key, and what the pipeline calls them.
fn key_columns(signature: &Signature, fields: &[&str]) -> Vec<(String, usize)> {
    let named = |parameter: &str| signature.parameters.get(parameter).map(names).unwrap_or_default();
    let place = |name: &str| fields.iter().position(|field| *field == name);
    let groups = named("groupBy");
    // Groups and their aggregates (`crate::aggregates`).
    if fields.first() == Some(&"vnode") {
        let found = groups.into_iter().enumerate().filter_map(|(index, name)| Some((name, place(&format!("group{index}"))?)));
        return found.collect();
    }
    // Whole rows under their names: those of a join.
    for side in ["leftKeys", "rightKeys"] {
        let found: Vec<(String, usize)> = named(side).into_iter().filter_map(|name| Some((name.clone(), place(&name)?))).collect();
        if !found.is_empty() {
            return found;
        }
    }
    // Columns by number (`crate::lean`): keys first.
    if fields.iter().any(|field| field.parse::<usize>().is_err()) {
        return Vec::new();
    }
    let keys = if signature.operator == "deduplicate" { named("keys") } else { groups };
    let all = named("columns");
    let found = keys.into_iter().enumerate().map(|(index, name)| {
        let whole_row = fields.len() >= all.len() && !all.is_empty();
        let index = if whole_row { all.iter().position(|column| *column == name).unwrap_or(index) } else { index };
        (name, index)
    });
    found.collect()
}

/// The names in a parameter: a list of names, or of columns with their types.
fn names(parameter: &Value) -> Vec<String> {
    let name = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(map) => map.get("column")?.as_str().map(str::to_string),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    };
    parameter.as_array().map(|list| list.iter().filter_map(name).collect()).unwrap_or_default()
}

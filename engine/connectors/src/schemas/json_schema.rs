//! JSON Schema: the columns that one describes, and the one of columns as the `json` format writes them.

use crate::encode::TextOptions;
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::sync::Arc;

/// How deep types may stand inside each other.
const MAX_DEPTH: usize = 32;
const MOST_TYPES: usize = 10_000;

/// The columns of an object, or what of it no column can hold.
pub(super) fn columns(text: &str) -> Result<SchemaRef, String> {
    let root: Value = serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))?;
    let reading = Reading { root: &root, left: Cell::new(MOST_TYPES) };
    match reading.type_of(&root, "", 0)? {
        DataType::Struct(fields) => Ok(Arc::new(Schema::new(fields))),
        _ => Err("it is not that of an object".into()),
    }
}

fn misfit(path: &str, what: &str) -> String {
    let place = if path.is_empty() { String::new() } else { format!("column `{path}`: ") };
    format!("{place}{what}; declare a `schema`")
}

/// A schema being read.
struct Reading<'r> {
    root: &'r Value,
    /// How many types may still come: references can stand for far more than the text is long.
    left: Cell<usize>,
}

impl Reading<'_> {
    fn type_of(&self, value: &Value, path: &str, depth: usize) -> Result<DataType, String> {
        let left = self.left.get();
        if depth > MAX_DEPTH || left == 0 {
            return Err(misfit(path, "its types are too many, or nested too deep"));
        }
        self.left.set(left - 1);
        if let Some(reference) = value.get("$ref").and_then(Value::as_str) {
            let inner = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
            let inner = inner.ok_or_else(|| misfit(path, &format!("`{reference}` is not in the schema itself")))?;
            return self.type_of(inner, path, depth + 1);
        }
        let is_null = |choice: &&Value| choice.get("type").and_then(Value::as_str) == Some("null");
        for key in ["oneOf", "anyOf"] {
            if let Some(choices) = value.get(key).and_then(Value::as_array) {
                let mut some = choices.iter().filter(|choice| !is_null(choice));
                return match (some.next(), some.next()) {
                    (Some(only), None) => self.type_of(only, path, depth + 1),
                    _ => Err(misfit(path, "a choice of several types is no column")),
                };
            }
        }
        let name = match value.get("type") {
            Some(Value::String(name)) => name.as_str(),
            Some(Value::Array(names)) => {
                let mut some = names.iter().filter_map(Value::as_str).filter(|name| *name != "null");
                match (some.next(), some.next()) {
                    (Some(only), None) => only,
                    _ => return Err(misfit(path, "a choice of several types is no column")),
                }
            }
            _ => return Err(misfit(path, "it does not say its type")),
        };
        Ok(match name {
            "string" if value.get("connect.type").and_then(Value::as_str) == Some("bytes") => DataType::Binary,
            "string" => DataType::Utf8View,
            "integer" => DataType::Int64,
            "number" => DataType::Float64,
            "boolean" => DataType::Boolean,
            "array" => {
                let items = value.get("items").ok_or_else(|| misfit(path, "an array that does not say its items"))?;
                DataType::List(Arc::new(Field::new_list_field(self.type_of(items, &format!("{path}[]"), depth + 1)?, true)))
            }
            "object" => {
                let properties = value.get("properties").and_then(Value::as_object);
                let properties = properties.filter(|properties| !properties.is_empty());
                let properties = properties.ok_or_else(|| misfit(path, "an object that does not say its properties"))?;
                let field = |(name, of): (&String, &Value)| {
                    let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    // What `required` names is between those who write; a row without it still is a row.
                    Ok(Field::new(name, self.type_of(of, &inner, depth + 1)?, true))
                };
                DataType::Struct(properties.iter().map(field).collect::<Result<Fields, String>>()?)
            }
            other => return Err(misfit(path, &format!("the type `{other}` is no column"))),
        })
    }
}

/// The schema of objects that the `json` format writes of such rows.
pub(crate) fn schema_of(schema: &Schema, options: TextOptions) -> String {
    let mut object = object_of(schema.fields(), options);
    object["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    object.to_string()
}

fn object_of(fields: &Fields, options: TextOptions) -> Value {
    let properties: Map<String, Value> = fields.iter().map(|field| (field.name().clone(), property(field, options))).collect();
    json!({ "type": "object", "properties": properties })
}

fn property(field: &Field, options: TextOptions) -> Value {
    let of = match field.data_type() {
        DataType::Boolean => json!({ "type": "boolean" }),
        DataType::Int64 | DataType::UInt64 if options.int64_as_text => json!({ "type": "string" }),
        DataType::Timestamp(..) if options.epoch_ms => json!({ "type": "integer" }),
        other if other.is_integer() => json!({ "type": "integer" }),
        other if other.is_floating() => json!({ "type": "number" }),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            json!({ "type": "array", "items": property(item, options) })
        }
        DataType::Struct(fields) => object_of(fields, options),
        _ => json!({ "type": "string" }),
    };
    if field.is_nullable() { json!({ "oneOf": [{ "type": "null" }, of] }) } else { of }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::TimeUnit;
    use tidegate_api::types;

    fn shown(schema: &Schema) -> Vec<String> {
        schema.fields().iter().map(|field| format!("{} {}", field.name(), types::name(field.data_type()))).collect()
    }

    #[test]
    fn properties_are_columns() {
        let schema = columns(
            r##"{"type":"object","properties":{"a":{"type":"integer"},"b":{"oneOf":[{"type":"null"},{"type":"number"}]},
            "c":{"type":["string","null"]},"d":{"type":"array","items":{"$ref":"#/definitions/P"}},"e":{"type":"boolean"}},
            "definitions":{"P":{"type":"object","properties":{"x":{"type":"integer"}}}}}"##,
        )
        .unwrap();
        assert_eq!(shown(&schema), ["a int64", "b float64", "c string", "d list<struct<x: int64>>", "e bool"]);
        for (text, part) in [
            ("no", "no JSON"),
            (r#"{"type":"string"}"#, "not that of an object"),
            (r#"{"type":"object"}"#, "does not say its properties"),
            (r#"{"type":"object","properties":{"a":{}}}"#, "column `a`: it does not say its type"),
            (r#"{"type":"object","properties":{"a":{"type":["string","integer"]}}}"#, "column `a`: a choice of several types"),
            (r##"{"type":"object","properties":{"a":{"$ref":"#"}}}"##, "nested too deep"),
            (r#"{"type":"object","properties":{"a":{"$ref":"other.json"}}}"#, "is not in the schema itself"),
        ] {
            let why = columns(text).unwrap_err();
            assert!(why.contains(part), "{part} in {why}");
        }
    }

    #[test]
    fn the_schema_of_columns_describes_them() {
        let field = |name: &str, data_type, nullable| Field::new(name, data_type, nullable);
        let item = Arc::new(field("item", DataType::Float64, true));
        let rows = Schema::new(vec![
            field("a", DataType::Int64, false),
            field("l", DataType::List(item), true),
            field("t", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        ]);
        let read = columns(&schema_of(&rows, TextOptions::default())).unwrap();
        assert_eq!(shown(&read), ["a int64", "l list<float64>", "t string"]);
        let text = schema_of(&rows, TextOptions { epoch_ms: true, int64_as_text: true });
        assert_eq!(shown(&columns(&text).unwrap()), ["a string", "l list<float64>", "t int64"]);
        assert!(text.contains(r#""l":{"oneOf":[{"type":"null"},{"type":"array","#), "{text}");
    }
}

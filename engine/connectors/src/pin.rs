//! An inferred schema as a text that a manifest keeps: a `schema = […]` of pipeline files in JSON where that says all of it, else
//! the schema message of Arrow IPC in Base64.

use crate::base64;
use arrow::datatypes::{Schema, SchemaRef};
use arrow::ipc::convert::{IpcSchemaEncoder, fb_to_schema};
use arrow::ipc::root_as_schema;
use serde_json::{Value, json};
use std::sync::Arc;
use tidegate_api::{Error, Result, types};

const IPC: &str = "ipc:";

/// The text of a schema; [`read`] gives it back exactly.
pub(crate) fn text(schema: &Schema) -> String {
    let columns = schema.fields().iter().map(|field| {
        let name = types::name(field.data_type());
        if field.is_nullable() {
            json!({ "name": field.name(), "type": name })
        } else {
            json!({ "name": field.name(), "type": name, "nullable": false })
        }
    });
    let columns = Value::Array(columns.collect());
    // Names of types leave out what pipeline files cannot say, such as lists without null.
    if types::schema_of(&columns).is_ok_and(|read| read.as_ref() == schema) {
        return columns.to_string();
    }
    let mut message = IpcSchemaEncoder::new();
    let mut text = IPC.as_bytes().to_vec();
    base64::encode(message.schema_to_fb(schema).finished_data(), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// The schema of a text.
///
/// # Errors
/// `Internal` if [`text`] did not make it.
pub(crate) fn read(text: &str) -> Result<SchemaRef> {
    let wrong = || Error::internal(format!("the pinned schema `{text}` cannot be read; start over with `--fresh`"));
    match text.strip_prefix(IPC) {
        Some(digits) => {
            let mut message = Vec::new();
            if !base64::decode(digits.as_bytes(), &mut message) {
                return Err(wrong());
            }
            let schema = root_as_schema(&message).map_err(|error| wrong().caused_by(error.to_string()))?;
            Ok(Arc::new(fb_to_schema(schema)))
        }
        None => {
            let columns: Value = serde_json::from_str(text).map_err(|error| wrong().caused_by(error))?;
            types::schema_of(&columns).map_err(|_| wrong())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{DataType, Field, TimeUnit};

    #[test]
    fn every_schema_comes_back_as_it_was() {
        let sayable = ["int64", "decimal(60,10)", "timestamp_ns(Europe/Copenhagen)", "list<struct<a: string>>", "binary"];
        let fields: Vec<Field> =
            sayable.iter().enumerate().map(|(at, name)| Field::new(*name, types::parse(name).unwrap(), at % 2 == 0)).collect();
        let schema = Schema::new(fields);
        assert!(text(&schema).starts_with("[{\"name\":\"int64\",\"type\":\"int64\"},"), "{}", text(&schema));
        assert_eq!(*read(&text(&schema)).unwrap(), schema);

        let element = Arc::new(Field::new("element", DataType::Int32, false));
        for other in [
            DataType::List(Arc::clone(&element)),
            DataType::LargeList(Arc::clone(&element)),
            DataType::FixedSizeList(element, 3),
            DataType::FixedSizeBinary(16),
            DataType::Time32(TimeUnit::Millisecond),
            DataType::Struct(vec![Field::new("a: b>", DataType::Utf8View, true)].into()),
        ] {
            let schema = Schema::new(vec![Field::new("c", other, true)]);
            assert!(text(&schema).starts_with(IPC), "{schema}");
            assert_eq!(*read(&text(&schema)).unwrap(), schema);
        }
        for wrong in ["", "{}", "ipc:", "ipc:?", "ipc:AAAA", "[{\"name\":\"a\"}]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

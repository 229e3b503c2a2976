//! Which columns become what of a record, and what cannot be right; decided before anything is asked of a cluster.

use super::config::{Format, KafkaSinkConfig};
use crate::base64;
use crate::encode::{ArrowMessages, AvroHeader, AvroMessages, CsvMessages, JsonMessages, MessageEncoder, ProtobufMessages, RawMessages};
use crate::schemas::{Schema as Registrable, json_schema_of};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use prost_reflect::MessageDescriptor;
use std::sync::Arc;
use tidegate_api::nearest::hint;
use tidegate_api::{ChangeMode, Error, Result, types};

/// What a record's key is made of; the numbers are those of columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    /// There is none.
    None,
    /// One column of text or bytes, as it is.
    Bytes(usize),
    /// An object of these columns.
    Json(Vec<usize>),
}

/// Where each column of the rows goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) key: Key,
    pub(super) value: Vec<usize>,
    pub(super) headers: Vec<usize>,
    pub(super) topic: Option<usize>,
    pub(super) partition: Option<usize>,
    /// The column that says upsert or delete; it is behind all others.
    pub(super) op: Option<usize>,
}

impl Columns {
    /// Places the columns of rows with this schema.
    ///
    /// # Errors
    /// `Config` for a column that is missing, has the wrong type, or by which a deletion would miss its row.
    pub(super) fn of(config: &KafkaSinkConfig, schema: &Schema, mode: &ChangeMode) -> Result<Columns> {
        let headers = all(schema, "headerColumns", &config.header_columns)?;
        let topic = config.topic_column.as_deref().map(|name| find(schema, "topicColumn", name)).transpose()?;
        let partition = config.partition_column.as_deref().map(|name| find(schema, "partitionColumn", name)).transpose()?;
        let keys = match mode {
            ChangeMode::Append => all(schema, "keyColumns", &config.key_columns)?,
            ChangeMode::Upsert { keys } => upsert_keys(config, schema, keys, topic, partition)?,
        };
        let named = |index: usize| (schema.field(index).name(), schema.field(index).data_type());
        for index in &headers {
            let (name, data_type) = named(*index);
            if !is_text(data_type) && !is_binary(data_type) && data_type.is_nested() {
                return Err(Error::config(format!(
                    "`headerColumns`: `{name}` is `{}`, a header is text, bytes or a simple value",
                    types::name(data_type)
                )));
            }
        }
        if let Some((name, data_type)) = topic.map(named)
            && !is_text(data_type)
        {
            return Err(Error::config(format!("`topicColumn`: `{name}` is `{}` and not `string`", types::name(data_type))));
        }
        if let Some((name, data_type)) = partition.map(named)
            && !data_type.is_integer()
        {
            return Err(Error::config(format!("`partitionColumn`: `{name}` is `{}` and not an integer", types::name(data_type))));
        }
        let raw = matches!(config.format, Format::Raw);
        let elsewhere = |index: usize| headers.contains(&index) || topic == Some(index) || partition == Some(index);
        let is_value = |index: usize| if keys.contains(&index) { !raw } else { !elsewhere(index) };
        let value: Vec<usize> = (0..schema.fields().len()).filter(|index| is_value(*index)).collect();
        if value.is_empty() {
            return Err(Error::config("no column is left for the value: all are headers, topic, partition or, for `raw`, keys"));
        }
        let key = match keys[..] {
            [] => Key::None,
            [only] if is_text(named(only).1) || is_binary(named(only).1) => Key::Bytes(only),
            [..] => Key::Json(keys),
        };
        let op = match mode {
            ChangeMode::Append => None,
            ChangeMode::Upsert { .. } => Some(schema.fields().len()),
        };
        let columns = Columns { key, value, headers, topic, partition, op };
        if matches!(config.format, Format::Arrow) && columns.is_by_row() {
            return Err(Error::config(
                "`arrow` writes many rows as one record, which has no key, header, topic or partition of its own; leave those out or take another format",
            ));
        }
        Ok(columns)
    }

    /// Whether anything beside the value differs from row to row.
    fn is_by_row(&self) -> bool {
        self.key != Key::None || !self.headers.is_empty() || self.topic.is_some() || self.partition.is_some() || self.op.is_some()
    }

    /// What makes values of such rows. `id`: that of their schema in a registry, if they are to begin with it.
    ///
    /// # Errors
    /// `Config` for a column that the format cannot hold.
    pub(super) fn encoder(&self, config: &KafkaSinkConfig, schema: &Schema, id: Option<u32>) -> Result<Box<dyn MessageEncoder>> {
        let schema: SchemaRef = Arc::new(schema.project(&self.value)?);
        Ok(match &config.format {
            Format::Json => {
                check_json(&schema)?;
                let messages = JsonMessages::new(config.text);
                Box::new(match id {
                    Some(id) => messages.with_id(id),
                    None => messages,
                })
            }
            Format::Csv => Box::new(CsvMessages::new(schema, config.text)?),
            Format::Raw => Box::new(RawMessages::new(&schema)?),
            Format::Arrow => Box::new(ArrowMessages),
            Format::Avro => Box::new(AvroMessages::new(&schema, id.map_or(AvroHeader::Bare, AvroHeader::Registry))?),
            Format::Protobuf(format) => Box::new(ProtobufMessages::new(&schema, format, id.unwrap_or(0))?),
        })
    }

    /// The schema of values of such rows, as it is registered; `None` for a format that registries do not know.
    ///
    /// # Errors
    /// As [`Columns::encoder`]; `Config` for a file of Protobuf that imports others, which would have to be registered before it.
    pub(super) fn registered_schema(&self, config: &KafkaSinkConfig, schema: &Schema) -> Result<Option<Registrable>> {
        let schema: SchemaRef = Arc::new(schema.project(&self.value)?);
        Ok(match &config.format {
            Format::Json => Some(Registrable { kind: "JSON", text: json_schema_of(&schema, config.text) }),
            Format::Avro => {
                let messages = AvroMessages::new(&schema, AvroHeader::Bare)?;
                Some(Registrable { kind: "AVRO", text: messages.schema_json().to_string() })
            }
            Format::Protobuf(format) => Some(Registrable { kind: "PROTOBUF", text: file_of(format.message())? }),
            Format::Csv | Format::Raw | Format::Arrow => None,
        })
    }
}

/// The file of a message in Base64, which a registry takes like its source text.
fn file_of(message: &MessageDescriptor) -> Result<String> {
    let file = message.parent_file();
    if let Some(import) = file.dependencies().find(|import| !import.name().starts_with("google/protobuf/")) {
        return Err(Error::config(format!(
            "`descriptor`: the file of `{}` imports `{}`; a registry wants every import registered before, put all into one file",
            message.full_name(),
            import.name()
        )));
    }
    let mut text = Vec::new();
    base64::encode(&file.encode_to_vec(), &mut text);
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// JSON takes every type that rows can have; one that it cannot hold is found here and not at the first row.
fn check_json(schema: &SchemaRef) -> Result<()> {
    let empty = RecordBatch::new_empty(Arc::clone(schema));
    JsonMessages::new(crate::encode::TextOptions::default()).encode(&empty).map(|_| ())
}

/// The key of rows that replace each other: every key column and no other, or a deletion would miss what it deletes.
fn upsert_keys(
    config: &KafkaSinkConfig,
    schema: &Schema,
    keys: &[String],
    topic: Option<usize>,
    partition: Option<usize>,
) -> Result<Vec<usize>> {
    let shown = keys.join("`, `");
    let asked = &config.key_columns;
    if !asked.is_empty() && (asked.len() != keys.len() || asked.iter().any(|column| !keys.contains(column))) {
        return Err(Error::config(format!(
            "`keyColumns`: rows here replace earlier ones of equal `{shown}`, so the key is these columns and no others; leave `keyColumns` out, or set `changelog = true` for a record of every change"
        )));
    }
    let keys = all(schema, "keyColumns", if asked.is_empty() { keys } else { asked })?;
    for (option, column) in [("topicColumn", topic), ("partitionColumn", partition)] {
        if let Some(column) = column
            && !keys.contains(&column)
        {
            return Err(Error::config(format!(
                "`{option}`: rows here replace earlier ones of equal `{shown}`; by `{}` a deletion could go elsewhere than the row it deletes, so only a key column can say where rows go",
                schema.field(column).name()
            )));
        }
    }
    if config.cluster.property("partitioner") == Some("random") {
        return Err(Error::config(
            "`properties`: rows here replace earlier ones of equal keys, which a `random` partitioner would scatter; leave it out",
        ));
    }
    Ok(keys)
}

fn all(schema: &Schema, option: &str, names: &[String]) -> Result<Vec<usize>> {
    names.iter().map(|name| find(schema, option, name)).collect()
}

fn find(schema: &Schema, option: &str, name: &str) -> Result<usize> {
    schema.index_of(name).map_err(|_| {
        let known = schema.fields().iter().map(|field| field.name().as_str());
        Error::config(format!("`{option}`: there is no column `{name}`{}", hint(name, known)))
    })
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub(super) fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;
    use serde_json::{Value, json};
    use std::path::Path;

    fn columns(mut options: Value, keys: Option<&[&str]>) -> Result<Columns, String> {
        options["brokers"] = json!("b:1");
        if options.get("topic").is_none() {
            options["topic"] = json!("t");
        }
        let config = KafkaSinkConfig::parse(options.as_object().unwrap(), Path::new(".")).unwrap();
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let list = DataType::List(Arc::new(field("item", DataType::Int64)));
        let schema = Schema::new(vec![
            field("k", DataType::Utf8View),
            field("n", DataType::Int64),
            field("b", DataType::Binary),
            field("where", DataType::Utf8View),
            field("l", list),
        ]);
        let mode = keys.map_or(ChangeMode::Append, |keys| ChangeMode::Upsert { keys: keys.iter().map(ToString::to_string).collect() });
        let columns = Columns::of(&config, &schema, &mode).map_err(|error| error.to_string())?;
        columns.encoder(&config, &schema, None).map_err(|error| error.to_string())?;
        Ok(columns)
    }

    #[test]
    fn keys_stay_in_the_value_and_what_says_where_a_row_goes_does_not() {
        let found =
            columns(json!({ "keyColumns": "k", "headerColumns": ["b"], "partitionColumn": "n", "topicColumn": "where" }), None).unwrap();
        assert_eq!(found.key, Key::Bytes(0));
        assert_eq!((found.value, found.headers, found.topic, found.partition, found.op), (vec![0, 4], vec![2], Some(3), Some(1), None));
        let found = columns(json!({ "keyColumns": ["k", "n"], "partitionColumn": "n" }), None).unwrap();
        assert_eq!((found.key, found.value), (Key::Json(vec![0, 1]), vec![0, 1, 2, 3, 4]));
        let found = columns(json!({ "keyColumns": "n", "headerColumns": ["b", "where"], "partitionColumn": "n" }), None).unwrap();
        assert_eq!(found.key, Key::Json(vec![1]));
        // One column is the value of `raw`.
        let raw = json!({ "format": "raw", "keyColumns": "k", "headerColumns": ["where", "n"] });
        assert!(columns(raw, None).unwrap_err().contains("the rows have 2"));
    }

    #[test]
    fn rows_that_replace_each_other_have_their_keys_as_the_key() {
        let found = columns(json!({}), Some(&["k", "n"])).unwrap();
        assert_eq!((found.key, found.op), (Key::Json(vec![0, 1]), Some(5)));
        assert_eq!(columns(json!({ "keyColumns": ["n", "k"] }), Some(&["k", "n"])).unwrap().key, Key::Json(vec![1, 0]));
        for (options, part) in [
            (json!({ "keyColumns": "k" }), "the key is these columns and no others"),
            (json!({ "keyColumns": ["k", "b"] }), "the key is these columns and no others"),
            (json!({ "topicColumn": "where" }), "a deletion could go elsewhere"),
            (json!({ "format": "arrow" }), "many rows as one record"),
            (json!({ "properties": { "partitioner": "random" } }), "would scatter"),
        ] {
            assert!(columns(options, Some(&["k", "n"])).unwrap_err().contains(part), "{part}");
        }
        columns(json!({ "partitionColumn": "n" }), Some(&["k", "n"])).unwrap();
    }

    #[test]
    fn what_a_column_cannot_be_is_said() {
        for (options, part) in [
            (json!({ "keyColumns": "q" }), "`keyColumns`: there is no column `q`"),
            (json!({ "topicColumn": "n" }), "`n` is `int64` and not `string`"),
            (json!({ "partitionColumn": "k" }), "`k` is `string` and not an integer"),
            (json!({ "headerColumns": "l" }), "a header is text, bytes or a simple value"),
            (json!({ "headerColumns": ["k", "n", "b", "where"], "format": "csv" }), "`l`"),
        ] {
            let told = columns(options, None).unwrap_err();
            assert!(told.contains(part), "{part} in {told}");
        }
    }
}

//! The newest schema of a subject as what rows are read as, and the text by which a manifest keeps it: a run reads by the schema that it
//! began with, whatever is registered later.

use super::http::step;
use super::json_schema;
use super::registry::{Refused, Registry, id_in};
use crate::decode::avro::AvroReader;
use crate::decode::protobuf::{ProtobufFormat, ProtobufFraming};
use crate::decode::registered::Reads;
use crate::decode::{Schemas as _, Written};
use crate::{base64, pin};
use arrow::datatypes::SchemaRef;
use prost_reflect::FileDescriptor;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::FileDescriptorSet;
use serde_json::{Value, json};
use tidegate_api::{Error, Result};

const MARK: &str = "registry:";

/// What rows are read as.
#[derive(Debug, Clone)]
pub(crate) struct Latest {
    pub(crate) schema: SchemaRef,
    pub(crate) reads: Reads,
    /// [`pinned`] reads it.
    pub(crate) text: String,
}

/// The newest version of a subject. `message`: which one of a Protobuf file, if it is not the first.
///
/// # Errors
/// `Config` if there is none that rows can be read as, `External` if the registry does not answer within its budget.
pub(crate) fn latest(registry: &Registry, subject: &str, format: &Reads, message: Option<&str>) -> Result<Latest> {
    let place = || format!("subject `{subject}` of `{}`", registry.base());
    let path = format!("/subjects/{}/versions/latest", step(subject));
    let answer = registry.patiently(|registry| registry.line().get(&path, || format!("subject `{subject}`")))?;
    let answer = match answer {
        Ok(answer) => answer,
        Err(Refused { code, message }) => {
            return Err(Error::config(format!(
                "`registry`: {} has no schema ({code}): {message}; declare a `schema`, or name another `subject`",
                place()
            )));
        }
    };
    let version = answer.get("version").and_then(Value::as_u64).unwrap_or(0);
    let id = id_in(&answer).ok_or_else(|| Error::external(format!("`registry`: {} answers without an `id`", place())))?;
    let written = registry.patiently(|registry| registry.find(id))?;
    let wrong = |why: String| {
        Error::config(format!("`registry`: version {version} of {} (schema {id}) cannot be what rows are read as: {why}", place()))
    };
    let mut kept = json!({ "subject": subject, "version": version, "id": id });
    match (written.as_deref(), format) {
        (None, _) => return Err(wrong("the registry does not know its id".into())),
        (Some(Written::Unusable(why)), _) => return Err(wrong(why.clone())),
        (Some(Written::Avro(texts)), Reads::Avro(_)) => kept["avro"] = json!(texts),
        (Some(Written::Protobuf(file)), Reads::Protobuf(_)) => {
            let first = || file.messages().next().map(|message| message.full_name().to_string());
            let name = message.map(str::to_string).or_else(first).ok_or_else(|| wrong("its file has no message".into()))?;
            (kept["protobuf"], kept["message"]) = (json!(set_of(file)), json!(name));
        }
        (Some(Written::Json), Reads::Json) => {
            let text = answer.get("schema").and_then(Value::as_str).unwrap_or_default();
            kept["columns"] = json!(pin::text(json_schema::columns(text).map_err(wrong)?.as_ref()));
        }
        (Some(Written::Avro(_) | Written::Protobuf(_) | Written::Json), _) => return Err(wrong("it is of another `format`".into())),
    }
    read(&kept).map_err(|error| wrong(error.message().to_string()))
}

/// What a manifest kept.
///
/// # Errors
/// `Internal` if [`latest`] did not make it.
pub(crate) fn pinned(text: &str) -> Result<Latest> {
    let kept = text.strip_prefix(MARK).and_then(|kept| serde_json::from_str::<Value>(kept).ok());
    kept.and_then(|kept| read(&kept).ok())
        .ok_or_else(|| Error::internal(format!("the pinned schema `{text}` cannot be read; start over with `--fresh`")))
}

fn read(kept: &Value) -> Result<Latest> {
    let text = format!("{MARK}{kept}");
    let field = |key: &str| kept.get(key).and_then(Value::as_str);
    if let Some(texts) = kept.get("avro").and_then(Value::as_array) {
        let reader = AvroReader::parse(&texts.iter().filter_map(Value::as_str).collect::<Vec<_>>())?;
        return Ok(Latest { schema: reader.columns()?, reads: Reads::Avro(Some(reader)), text });
    }
    if let Some((set, message)) = field("protobuf").zip(field("message")) {
        let mut bytes = Vec::new();
        if !base64::decode(set.as_bytes(), &mut bytes) {
            return Err(Error::config("its descriptors are no Base64"));
        }
        let format = ProtobufFormat::new(&bytes, message, ProtobufFraming::Bare)?;
        return Ok(Latest { schema: format.schema()?, reads: Reads::Protobuf(Some(format.message().clone())), text });
    }
    let columns = field("columns").ok_or_else(|| Error::config("it says nothing of columns"))?;
    Ok(Latest { schema: pin::read(columns)?, reads: Reads::Json, text })
}

/// A file with all that it may import, in Base64.
fn set_of(file: &FileDescriptor) -> String {
    let set = FileDescriptorSet { file: file.parent_pool().file_descriptor_protos().cloned().collect() };
    let mut text = Vec::new();
    base64::encode(&set.encode_to_vec(), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

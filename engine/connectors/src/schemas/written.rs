//! From what a registry answers to a schema that messages can be read with: all that it refers to is asked for too.

use super::http::step;
use super::registry::{Line, Refused, id_in};
use crate::base64;
use crate::decode::Written;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::FileDescriptorProto;
use prost_reflect::{DescriptorPool, FileDescriptor};
use serde_json::Value;
use std::collections::BTreeSet;
use tidegate_api::{Error, Result};

/// How deep references may go, and how many there may be in all.
const MAX_DEPTH: usize = 16;
const MAX_REFERENCES: usize = 500;

/// What keeps a schema from being used.
enum Trouble {
    /// The registry could not be asked.
    Asking(Error),
    /// The schema itself, for ever.
    Schema(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Trouble::Asking(error)
    }
}

/// The schema of an id and about how many bytes it is; `None` if there is none.
///
/// # Errors
/// What asking fails by. A schema that is there and cannot be used is no error.
pub(super) fn load(line: &mut Line<'_>, id: u32) -> Result<Option<(Written, usize)>> {
    let answer = match line.get(&format!("/schemas/ids/{id}"), || format!("schema {id}"))? {
        Ok(answer) => answer,
        // Registries do not agree on what is missing where an id is.
        Err(Refused { code: 404 | 40400..=40499, .. }) => return Ok(None),
        Err(Refused { code, message }) => {
            let base = line.base();
            return Err(Error::config(format!("`registry`: `{base}` does not show schema {id} ({code}): {message}")));
        }
    };
    let mut bytes = 0;
    match read(line, id, &answer, &mut bytes) {
        Ok(written) => Ok(Some((written, bytes))),
        Err(Trouble::Schema(why)) => Ok(Some((Written::Unusable(why), bytes))),
        Err(Trouble::Asking(error)) => Err(error),
    }
}

fn read(line: &mut Line<'_>, id: u32, answer: &Value, bytes: &mut usize) -> Result<Written, Trouble> {
    let kind = answer.get("schemaType").and_then(Value::as_str).unwrap_or("AVRO");
    let is_protobuf = match kind {
        "AVRO" => false,
        "PROTOBUF" => true,
        "JSON" => return Ok(Written::Json),
        other => return Err(Trouble::Schema(format!("its type `{other}` is not known here"))),
    };
    let mut gathered = Gathered { is_protobuf, ..Gathered::default() };
    gathered.references(line, answer, 0)?;
    let text = if is_protobuf { serialized(line, id)? } else { text_of(answer)?.to_string() };
    gathered.parts.push((String::new(), text));
    *bytes = gathered.parts.iter().map(|(name, text)| name.len() + text.len()).sum();
    if is_protobuf {
        return file(&gathered.parts).map(Written::Protobuf).map_err(Trouble::Schema);
    }
    Ok(Written::Avro(gathered.parts.into_iter().map(|(_, text)| text).collect()))
}

fn text_of(answer: &Value) -> Result<&str, Trouble> {
    answer.get("schema").and_then(Value::as_str).ok_or_else(|| Trouble::Schema("the registry answers without a `schema`".into()))
}

/// The descriptor of a file, in Base64: the registry has compiled it, and nothing here could.
fn serialized(line: &mut Line<'_>, id: u32) -> Result<String, Trouble> {
    let path = format!("/schemas/ids/{id}?format=serialized");
    match line.get(&path, || format!("the descriptor of schema {id}"))? {
        Ok(answer) => Ok(text_of(&answer)?.to_string()),
        Err(Refused { code, message }) => {
            Err(Trouble::Schema(format!("the registry does not serve its descriptor (`format=serialized`, {code}): {message}")))
        }
    }
}

/// What a schema refers to, each before those that refer to it.
#[derive(Default)]
struct Gathered {
    is_protobuf: bool,
    seen: BTreeSet<(String, u64)>,
    /// Names and texts.
    parts: Vec<(String, String)>,
}

impl Gathered {
    fn references(&mut self, line: &mut Line<'_>, answer: &Value, depth: usize) -> Result<(), Trouble> {
        let references = answer.get("references").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for reference in references {
            let text = |key: &str| reference.get(key).and_then(Value::as_str);
            let version = reference.get("version").and_then(Value::as_u64);
            let (Some(name), Some(subject), Some(version)) = (text("name"), text("subject"), version) else {
                return Err(Trouble::Schema("it has a reference without name, subject or version".into()));
            };
            if !self.seen.insert((subject.to_string(), version)) {
                continue;
            }
            if depth >= MAX_DEPTH || self.seen.len() > MAX_REFERENCES {
                return Err(Trouble::Schema(format!(
                    "its references are more than {MAX_REFERENCES}, or deeper than {MAX_DEPTH} (at `{subject}` version {version})"
                )));
            }
            let path = format!("/subjects/{}/versions/{version}", step(subject));
            let inner = match line.get(&path, || format!("`{subject}` version {version}"))? {
                Ok(inner) => inner,
                Err(Refused { code, message }) => {
                    return Err(Trouble::Schema(format!(
                        "it refers to `{name}`, version {version} of subject `{subject}`, which is not there ({code}): {message}"
                    )));
                }
            };
            self.references(line, &inner, depth + 1)?;
            let text = match (self.is_protobuf, id_in(&inner)) {
                (false, _) => text_of(&inner)?.to_string(),
                (true, Some(id)) => serialized(line, id)?,
                (true, None) => return Err(Trouble::Schema(format!("`{subject}` version {version} has no `id`"))),
            };
            self.parts.push((name.to_string(), text));
        }
        Ok(())
    }
}

/// The last of several files in Base64, with those before it to be imported by their names.
fn file(parts: &[(String, String)]) -> Result<FileDescriptor, String> {
    const ROOT: &str = "the schema of the registry";
    let mut pool = DescriptorPool::global();
    for (name, text) in parts {
        let name = if name.is_empty() { ROOT } else { name };
        if pool.get_file_by_name(name).is_some() {
            continue;
        }
        let mut bytes = Vec::new();
        if !base64::decode(text.as_bytes(), &mut bytes) {
            return Err(format!("`{name}` is no descriptor in Base64; the registry may be too old for `format=serialized`"));
        }
        let mut proto = FileDescriptorProto::decode(bytes.as_slice()).map_err(|error| format!("`{name}` is no descriptor: {error}"))?;
        // The registry calls every file the same; who imports it does so by the name of the reference.
        proto.name = Some(name.to_string());
        // Files that only define options are not served; a type that were really missing is told when the file is added.
        if proto.dependency.iter().any(|import| pool.get_file_by_name(import).is_none()) {
            proto.dependency.retain(|import| pool.get_file_by_name(import).is_some());
            (proto.public_dependency, proto.weak_dependency) = (Vec::new(), Vec::new());
        }
        pool.add_file_descriptor_proto(proto).map_err(|error| format!("`{name}`: {error}"))?;
    }
    pool.get_file_by_name(ROOT).ok_or_else(|| "there is no file".to_string())
}

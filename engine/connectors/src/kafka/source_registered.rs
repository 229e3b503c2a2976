//! What the options say where a registry has the schemas.

use super::source_config::{Kind, Topics, Undeclared, avro};
use crate::decode::avro::AvroReader;
use crate::decode::protobuf::ProtobufFraming;
use crate::decode::registered::Reads;
use crate::decode::{MessageFormat, RegisteredFormat, Schemas};
use crate::registry::ConnectorCtx;
use crate::schemas::RegistryConfig;
use crate::shape;
use std::sync::Arc;
use tidegate_api::config::Options;

/// The format where a registry has the schemas, and what the schema is without a declared one.
pub(super) fn registered(
    options: &mut Options<'_>,
    cx: &ConnectorCtx,
    registry: Option<RegistryConfig>,
    topics: Option<&Topics>,
) -> (Option<MessageFormat>, Undeclared) {
    let kinds = [("json", Kind::Json), ("avro", Kind::Avro), ("protobuf", Kind::Protobuf)];
    let kind = options.choice("format", &kinds).unwrap_or(Kind::Json);
    options.choice("framing", &[("registry", ())]);
    shape::infer_sample(options);
    for key in ["delimiter", "nullValues"] {
        if options.value(key).is_some() {
            options.problem(key, format!("`{key}` is for the format `csv`"));
        }
    }
    let mut undeclared = Undeclared::Sample(0);
    // A reader's schema of one's own is not asked for, but may be given.
    let wants_file = |options: &Options<'_>, key: &str, of: Kind| kind != of || options.has(key);
    let avro = if wants_file(options, "avroSchema", Kind::Avro) { avro(options, kind == Kind::Avro, cx) } else { None };
    let (mut protobuf, mut message) = (None, None);
    if wants_file(options, "descriptor", Kind::Protobuf) {
        protobuf = shape::protobuf(options, kind == Kind::Protobuf, ProtobufFraming::Registry, &cx.base_dir);
    } else {
        message = options.string("message");
    }
    let reads = match (kind, avro, protobuf) {
        (Kind::Avro, Some((text, schema)), _) => match AvroReader::parse(&[text]) {
            Ok(reader) => {
                undeclared = Undeclared::Known(schema);
                Reads::Avro(Some(reader))
            }
            Err(error) => {
                options.problem("avroSchema", error.message());
                Reads::Avro(None)
            }
        },
        (Kind::Protobuf, _, Some(format)) => {
            match format.schema() {
                Ok(schema) => undeclared = Undeclared::Known(schema),
                Err(_) if options.has("schema") => {}
                Err(error) => options.problem("message", error.message()),
            }
            Reads::Protobuf(Some(format.message().clone()))
        }
        (Kind::Avro, None, _) => Reads::Avro(None),
        (Kind::Protobuf, _, None) => Reads::Protobuf(None),
        (Kind::Json | Kind::Csv | Kind::Arrow | Kind::Raw, ..) => Reads::Json,
    };
    let Some(RegistryConfig { registry, subject, .. }) = registry else { return (None, undeclared) };
    if matches!(undeclared, Undeclared::Sample(_)) && !options.has("schema") {
        let of_topic = match topics {
            Some(Topics::Named(names)) if names.len() == 1 => names.first().map(|topic| format!("{topic}-value")),
            Some(Topics::Named(_) | Topics::Matching { .. }) | None => None,
        };
        match subject.or(of_topic) {
            Some(subject) => undeclared = Undeclared::Subject { registry: Arc::clone(&registry), subject, message },
            None if topics.is_none() => {}
            None => options.problem("registry", "several topics have several subjects: name one as `subject`, or declare a `schema`"),
        }
    } else if subject.is_some() {
        options.problem("registry", "`subject` says where the columns come from, which are declared here; remove one");
    } else if message.is_some() {
        options.problem("message", "`message` says which message the columns come from, which are declared here; remove one");
    }
    let schemas: Arc<dyn Schemas> = registry;
    (Some(MessageFormat::Registered(RegisteredFormat { reads, schemas })), undeclared)
}

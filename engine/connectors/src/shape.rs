//! What a dataset says about its rows, the same in every source that decodes: its columns, how CSV and Protobuf are written, and which
//! of the columns are made.

use crate::decode::Wanted;
use crate::decode::csv::CsvFormat;
use crate::decode::protobuf::{ProtobufFormat, ProtobufFraming};
use arrow::datatypes::SchemaRef;
use std::path::Path;
use tidegate_api::bad::RESCUED;
use tidegate_api::config::Options;
use tidegate_api::{Error, Result, SourceRequest, types};

/// `schema`: the declared columns.
pub(crate) fn schema(options: &mut Options<'_>) -> Option<SchemaRef> {
    match types::schema_of(options.value("schema")?) {
        Ok(schema) if schema.fields().is_empty() => {
            options.problem("schema", "expected at least one column");
            None
        }
        Ok(schema) => Some(schema),
        Err(problems) => {
            options.problems(problems.into_iter().map(|problem| problem.under(["schema".to_string()])));
            None
        }
    }
}

/// `inferSample`: how many records a schema is inferred from.
pub(crate) fn infer_sample(options: &mut Options<'_>) -> usize {
    options.unsigned("inferSample").map_or(1000, |sample| usize::try_from(sample).unwrap_or(usize::MAX))
}

/// `delimiter` and `nullValues`; whether there is a header is the connector's business.
pub(crate) fn csv(options: &mut Options<'_>) -> CsvFormat {
    let delimiter = options.string("delimiter");
    if delimiter.as_ref().is_some_and(|text| !matches!(text.as_bytes(), [byte] if !b"\"\r\n".contains(byte))) {
        options.problem("delimiter", "expected one ASCII character that is no quote and no line end");
    }
    let default = CsvFormat::default();
    CsvFormat {
        delimiter: delimiter.as_deref().and_then(|text| text.bytes().next()).unwrap_or(default.delimiter),
        header: default.header,
        null_values: options.strings("nullValues").unwrap_or(default.null_values),
    }
}

/// `descriptor` and `message`: what Protobuf messages are read with, where that is the format.
pub(crate) fn protobuf(options: &mut Options<'_>, is_protobuf: bool, framing: ProtobufFraming, base: &Path) -> Option<ProtobufFormat> {
    if !is_protobuf {
        for key in ["descriptor", "message"] {
            if options.value(key).is_some() {
                options.problem(key, format!("`{key}` is for the format `protobuf`"));
            }
        }
        return None;
    }
    let (path, message) = (options.require_string("descriptor"), options.require_string("message"));
    let path = base.join(path?);
    let message = message?;
    match std::fs::read(&path) {
        Err(error) => {
            options.problem("descriptor", format!("`{}` cannot be read: {error}", path.display()));
            None
        }
        Ok(bytes) => match ProtobufFormat::new(&bytes, &message, framing) {
            Ok(format) => Some(format),
            Err(error) => {
                let key = if error.message().contains("no message") { "message" } else { "descriptor" };
                options.problem(key, error.message());
                None
            }
        },
    }
}

/// Which columns of a schema a request makes.
///
/// # Errors
/// `Config` if the schema has the column that `rescue` makes itself.
pub(crate) fn wanted(request: &SourceRequest, schema: SchemaRef) -> Result<Wanted> {
    if !request.rescue {
        return Ok(Wanted::some(schema, |column| request.wants(column)));
    }
    if schema.index_of(RESCUED).is_ok() {
        return Err(Error::config(format!("the schema has a column `{RESCUED}`, which `onBadData = \"rescue\"` makes itself")));
    }
    Ok(Wanted::some(schema, |column| request.wants(column)).rescuing(request.wants(RESCUED)))
}

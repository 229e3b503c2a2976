//! Record batches and schemas as they cross the border: bare Arrow IPC messages, the schema once and then batch after batch.

mod trusted;

pub(crate) use trusted::decode_from_host;

use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::MessageHeader;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions, StreamEncoder, write_message};
use arrow_schema::{DataType, Schema, SchemaRef};
use std::collections::HashMap;

fn options() -> Result<IpcWriteOptions> {
    Ok(IpcWriteOptions::try_new(8, false, arrow_ipc::MetadataVersion::V5)?)
}

/// A schema as one message.
///
/// # Errors
/// `Fatal` when a column has a layout that does not cross (a dictionary, a view, a run-end encoding), naming it.
pub fn encode_schema(schema: &Schema) -> Result<Vec<u8>> {
    for field in schema.fields() {
        if let Some(kind) = foreign(field.data_type()) {
            return Err(Error::fatal(format!("column `{}` has the type {}: {kind}", field.name(), field.data_type())));
        }
    }
    let options = options()?;
    let encoded = IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(schema, &mut DictionaryTracker::new(true), &options);
    let mut message = Vec::with_capacity(encoded.ipc_message.len() + 16);
    write_message(&mut message, encoded, &options)?;
    Ok(message)
}

/// Why a type does not cross the border; `None` when it does.
fn foreign(data_type: &DataType) -> Option<&'static str> {
    match data_type {
        DataType::Utf8View => Some("text crosses as `Utf8`"),
        DataType::BinaryView => Some("bytes cross as `Binary`"),
        DataType::Dictionary(_, _) => Some("dictionaries do not cross, only their values"),
        DataType::RunEndEncoded(_, _) => Some("run-end encodings do not cross, only their values"),
        DataType::ListView(_) | DataType::LargeListView(_) => Some("lists cross as `List`"),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) | DataType::Map(field, _) => {
            foreign(field.data_type())
        }
        DataType::Struct(fields) => fields.iter().find_map(|field| foreign(field.data_type())),
        _ => None,
    }
}

/// Reads a schema message.
///
/// # Errors
/// `Fatal` when it is none.
pub fn decode_schema(message: &[u8]) -> Result<Schema> {
    arrow_ipc::convert::try_schema_from_ipc_buffer(message).map_err(|error| Error::fatal(format!("not a schema message: {error}")))
}

/// Writes the batches of one schema.
pub struct Encoder {
    schema: SchemaRef,
    stream: StreamEncoder,
}

impl Encoder {
    /// An encoder of batches of this schema.
    ///
    /// # Errors
    /// `Fatal` when IPC has no form for it.
    pub fn new(schema: SchemaRef) -> Result<Self> {
        let mut stream = StreamEncoder::try_new_with_options(&schema, options()?)?;
        // The first encoding of a stream writes the schema as well, which crossed on its own.
        stream.encode(&RecordBatch::new_empty(schema.clone()))?;
        Ok(Encoder { schema, stream })
    }

    /// The schema.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// One batch as one message; its buffers are copied once.
    ///
    /// # Errors
    /// `Fatal` when the batch has other columns than the schema, naming the first.
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<u8>> {
        check(batch, &self.schema)?;
        let parts = self.stream.encode(batch)?;
        let mut message = Vec::with_capacity(parts.iter().map(Buffer::len).sum());
        for part in &parts {
            message.extend_from_slice(part);
        }
        Ok(message)
    }
}

/// Whether the batch has the columns of the schema: number and types. Names are the schema's.
fn check(batch: &RecordBatch, schema: &Schema) -> Result<()> {
    if batch.num_columns() != schema.fields().len() {
        return Err(Error::fatal(format!(
            "a batch of {} columns was made where {} are declared",
            batch.num_columns(),
            schema.fields().len()
        )));
    }
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        if field.data_type() != column.data_type() {
            let (declared, made) = (field.data_type(), column.data_type());
            return Err(Error::fatal(format!("column `{}` is declared as {declared} and was made as {made}", field.name())));
        }
        if !field.is_nullable() && column.null_count() > 0 {
            return Err(Error::fatal(format!("column `{}` is declared without nulls and has {}", field.name(), column.null_count())));
        }
    }
    Ok(())
}

/// Reads one batch message and validates all of it.
///
/// # Errors
/// `Fatal` when it is no batch of this schema.
pub fn decode(message: Vec<u8>, schema: &SchemaRef) -> Result<RecordBatch> {
    read(message, schema, |decoder| decoder)
}

fn read(
    message: Vec<u8>,
    schema: &SchemaRef,
    adjust: impl for<'a> FnOnce(RecordBatchDecoder<'a>) -> RecordBatchDecoder<'a>,
) -> Result<RecordBatch> {
    let wrong = |what: &str| Error::fatal(format!("not a record-batch message: {what}"));
    let prefix = message.get(..8).ok_or_else(|| wrong("it ends within its prefix"))?;
    if prefix[..4] != [0xff; 4] {
        return Err(wrong("it has no continuation marker"));
    }
    let length = u32::from_le_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]) as usize;
    let body = 8usize.checked_add(length).filter(|body| *body <= message.len()).ok_or_else(|| wrong("it ends within its metadata"))?;
    let whole = Buffer::from_vec(message);
    let header = arrow_ipc::root_as_message(&whole[8..body]).map_err(|error| wrong(&error.to_string()))?;
    if header.header_type() != MessageHeader::RecordBatch {
        return Err(wrong("its header says otherwise"));
    }
    let batch = header.header_as_record_batch().ok_or_else(|| wrong("it has no header"))?;
    let data = whole.slice(body);
    let dictionaries = HashMap::new();
    let version = header.version();
    let decoder = RecordBatchDecoder::try_new(&data, batch, schema.clone(), &dictionaries, &version)?.with_require_alignment(false);
    Ok(adjust(decoder).read_record_batch()?)
}

#[cfg(test)]
mod tests;

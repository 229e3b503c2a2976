//! Rows on their way from a guest: everything is checked before it is used.
//!
//! The library's reader trusts the positions in a message's metadata and panics where they lie. So the metadata is walked first,
//! along the declared schema, and every node and buffer must lie within the body; then the library reads and validates the values.

use super::native_schema;
use super::schema::{Aligned, split_message};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::buffer::Buffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_ipc::{FieldNode, MessageHeader, MetadataVersion};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows in one message, at most; a message without columns costs no bytes per row.
const MAX_ROWS: i64 = 16 * 1024 * 1024;

/// Decodes a guest's record-batch messages of one declared schema.
#[derive(Debug, Clone)]
pub(crate) struct Decoder {
    declared: SchemaRef,
    native: SchemaRef,
}

impl Decoder {
    /// A decoder of a schema that [`super::decode_schema`] gave.
    pub(crate) fn new(declared: Schema) -> Self {
        let native = native_schema(&declared);
        Decoder { declared: Arc::new(declared), native }
    }

    /// The schema of what [`Decoder::decode`] returns.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.native
    }

    /// The schema of what a guest sends.
    pub(crate) fn declared(&self) -> &SchemaRef {
        &self.declared
    }

    /// Reads one message. The error says what is wrong with it.
    pub(crate) fn decode(&self, bytes: Vec<u8>) -> Result<RecordBatch, String> {
        let buffer = Buffer::from_vec(bytes);
        let (metadata, body_start) = split_message(&buffer)?;
        let aligned = Aligned::of(metadata);
        let message = arrow_ipc::root_as_message(aligned.bytes()).map_err(|error| format!("its metadata is damaged: {error}"))?;
        if message.version() != MetadataVersion::V5 {
            return Err("it is of an old metadata version; the border speaks version 5".into());
        }
        if message.header_type() == MessageHeader::DictionaryBatch {
            return Err("it is a dictionary; send plain values".into());
        }
        let Some(batch) = message.header_as_record_batch() else {
            return Err("it is another kind of Arrow IPC message than a record batch".into());
        };
        if batch.compression().is_some() {
            return Err("its body is compressed; send it uncompressed".into());
        }
        if batch.variadicBufferCounts().is_some_and(|counts| !counts.is_empty()) {
            return Err("it holds views; send plain arrays".into());
        }
        let available = buffer.len() - body_start;
        let body_length = usize::try_from(message.bodyLength()).ok().filter(|length| *length <= available);
        let body_length =
            body_length.ok_or_else(|| format!("its body is cut off: {} bytes announced, {available} there", message.bodyLength()))?;
        let rows = batch.length();
        if !(0..=MAX_ROWS).contains(&rows) {
            return Err(format!("it announces {rows} rows"));
        }
        let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
            return Err("it lists no columns".into());
        };
        let mut walk = Walk {
            nodes: nodes.iter(),
            buffers: buffers.iter().map(|buffer| (buffer.offset(), buffer.length())),
            body: body_length as i64,
            longest: MAX_ROWS.max((body_length as i64).saturating_mul(8)),
        };
        for field in self.declared.fields() {
            let at = |error: String| format!("column `{}`: {error}", field.name());
            let length = walk.column(field).map_err(at)?;
            if length != rows {
                return Err(at(format!("{length} values in a batch of {rows} rows")));
            }
        }
        let (nodes, buffers) = (walk.nodes.count(), walk.buffers.count());
        if nodes > 0 || buffers > 0 {
            return Err(format!("it has {nodes} columns and {buffers} buffers more than the declared schema"));
        }
        let body = buffer.slice_with_length(body_start, body_length);
        let read =
            arrow_ipc::reader::read_record_batch(&body, batch, Arc::clone(&self.declared), &HashMap::new(), None, &message.version());
        self.to_native(read.map_err(|error| error.to_string())?)
    }

    /// A batch of the declared schema as it is seen inside the engine.
    pub(crate) fn to_native(&self, read: RecordBatch) -> Result<RecordBatch, String> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(read.num_columns());
        for (column, field) in read.columns().iter().zip(self.native.fields()) {
            let same = column.data_type() == field.data_type();
            columns.push(if same { Arc::clone(column) } else { cast(column, field.data_type()).map_err(|error| error.to_string())? });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(read.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&self.native), columns, &options).map_err(|error| error.to_string())
    }
}

/// Walks a message's nodes and buffers in the order of the declared schema.
struct Walk<N, B> {
    nodes: N,
    buffers: B,
    body: i64,
    longest: i64,
}

impl<'a, N, B> Walk<N, B>
where
    N: Iterator<Item = &'a FieldNode>,
    B: Iterator<Item = (i64, i64)>,
{
    /// Checks one column and what is nested in it; its length.
    fn column(&mut self, field: &Field) -> Result<i64, String> {
        let node = self.nodes.next().ok_or("it is missing; the message has fewer columns than the declared schema")?;
        let (length, nulls) = (node.length(), node.null_count());
        if !(0..=self.longest).contains(&length) || !(0..=length).contains(&nulls) {
            return Err(format!("{nulls} nulls among {length} values"));
        }
        if field.data_type() == &DataType::Null {
            return Ok(length);
        }
        let validity = self.buffer()?;
        if nulls > 0 && validity.saturating_mul(8) < length {
            return Err("its validity bitmap is too short".into());
        }
        match field.data_type() {
            DataType::Struct(fields) => {
                for inner in fields {
                    let inner_length = self.column(inner)?;
                    if inner_length != length {
                        return Err(format!("its field `{}` has {inner_length} values for {length}", inner.name()));
                    }
                }
            }
            DataType::List(inner) => {
                self.buffer_of(4)?;
                self.column(inner)?;
            }
            DataType::LargeList(inner) => {
                self.buffer_of(8)?;
                self.column(inner)?;
            }
            DataType::Utf8 | DataType::Binary => {
                self.buffer_of(4)?;
                self.buffer()?;
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.buffer_of(8)?;
                self.buffer()?;
            }
            fixed => {
                self.buffer_of(fixed.primitive_width().unwrap_or(1))?;
            }
        }
        Ok(length)
    }

    /// As [`Walk::buffer`], of elements of this width: arrow asserts that none is cut.
    fn buffer_of(&mut self, width: usize) -> Result<(), String> {
        let length = self.buffer()?;
        if length % width as i64 == 0 { Ok(()) } else { Err(format!("a buffer of {length} bytes cuts an element of {width}")) }
    }

    /// Checks that the next buffer lies in the body; its length in bytes.
    fn buffer(&mut self) -> Result<i64, String> {
        let (offset, length) = self.buffers.next().ok_or("a buffer is missing; its type is not the declared one")?;
        let end = offset.checked_add(length).filter(|end| offset >= 0 && length >= 0 && *end <= self.body);
        end.map(|_| length).ok_or_else(|| format!("a buffer lies outside the body (at {offset}, {length} bytes)"))
    }
}

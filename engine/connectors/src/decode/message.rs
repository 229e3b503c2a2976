//! Messages, as brokers and requests carry them: each a payload that stands alone, with what is known about it beside.
//!
//! A [`MessageDecoder`] makes one batch of the messages of a poll. A message that cannot be used costs itself and is part of the
//! answer; only what is wrong with the decoder's own configuration is an error.

use super::avro::{AvroFormat, AvroRows};
use super::cells::CellError;
use super::conform::{places, settle};
use super::csv::{CsvFormat, CsvRows};
use super::json::{JsonRows, Paths};
use super::protobuf::{ProtobufFormat, ProtobufRows};
use super::raw::RawRows;
use super::registered::{RegisteredFormat, RegisteredRows};
use super::rows::{Rows, RowsDecoder};
use super::{BadRecord, Wanted, arrow as ipc};
use arrow::array::{
    ArrayRef, BinaryBuilder, Int32Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions, StringViewBuilder, StructArray,
    TimestampMillisecondArray, UInt32Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;
use tidegate_api::{BadReason, Error, Result};

/// A header of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its name; several headers may have the same.
    pub key: &'a str,
    /// Its value; `None` is a header without one, which is not an empty one.
    pub value: Option<&'a [u8]>,
}

/// A message as it came.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message<'a> {
    /// What it says; `None` is a tombstone.
    pub payload: Option<&'a [u8]>,
    /// Its key.
    pub key: Option<&'a [u8]>,
    /// The partition it came from.
    pub partition: i32,
    /// Its place there.
    pub offset: i64,
    /// When it was written, in milliseconds since 1970.
    pub timestamp: Option<i64>,
    /// Its headers, in order.
    pub headers: &'a [Header<'a>],
}

impl<'a> Message<'a> {
    /// A message of which only the payload is known.
    pub fn new(payload: Option<&'a [u8]>) -> Self {
        Message { payload, ..Message::default() }
    }

    /// With this key.
    #[must_use]
    pub fn with_key(mut self, key: Option<&'a [u8]>) -> Self {
        self.key = key;
        self
    }

    /// At this offset of a partition.
    #[must_use]
    pub fn at(mut self, partition: i32, offset: i64) -> Self {
        (self.partition, self.offset) = (partition, offset);
        self
    }

    /// Written at this time, in milliseconds since 1970.
    #[must_use]
    pub fn with_timestamp(mut self, timestamp: Option<i64>) -> Self {
        self.timestamp = timestamp;
        self
    }

    /// With these headers.
    #[must_use]
    pub fn with_headers(mut self, headers: &'a [Header<'a>]) -> Self {
        self.headers = headers;
        self
    }
}

/// What is known about a message beside its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meta {
    /// `key`, binary.
    Key,
    /// `partition`, int32.
    Partition,
    /// `offset`, int64.
    Offset,
    /// `timestamp`, timestamp_ms(UTC).
    Timestamp,
    /// `headers`, a list of structs of `key`, string, and `value`, binary: every header in order, without a value null.
    Headers,
}

impl Meta {
    /// Every kind, by the name in pipeline files, which is the column's too.
    pub const ALL: [(&'static str, Meta); 5] = [
        ("key", Meta::Key),
        ("partition", Meta::Partition),
        ("offset", Meta::Offset),
        ("timestamp", Meta::Timestamp),
        ("headers", Meta::Headers),
    ];

    /// The column that holds it.
    pub fn field(self) -> Field {
        let named = |name: &str, data_type: DataType, nullable: bool| Field::new(name, data_type, nullable);
        match self {
            Meta::Key => named("key", DataType::Binary, true),
            Meta::Partition => named("partition", DataType::Int32, false),
            Meta::Offset => named("offset", DataType::Int64, false),
            Meta::Timestamp => named("timestamp", DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())), true),
            Meta::Headers => named("headers", DataType::List(Arc::new(Field::new_list_field(header_type(), false))), false),
        }
    }

    fn column(self, messages: &[Message<'_>], rows: &[u32]) -> Result<ArrayRef> {
        let of = || rows.iter().map(|row| &messages[*row as usize]);
        Ok(match self {
            Meta::Key => {
                let mut keys = BinaryBuilder::with_capacity(rows.len(), rows.len() * 16);
                of().for_each(|message| keys.append_option(message.key));
                Arc::new(keys.finish())
            }
            Meta::Partition => Arc::new(of().map(|message| message.partition).collect::<Int32Array>()),
            Meta::Offset => Arc::new(of().map(|message| message.offset).collect::<Int64Array>()),
            Meta::Timestamp => Arc::new(of().map(|message| message.timestamp).collect::<TimestampMillisecondArray>().with_timezone("UTC")),
            Meta::Headers => {
                let (mut keys, mut values) = (StringViewBuilder::new(), BinaryBuilder::new());
                let (mut offsets, mut count) = (vec![0i32], 0usize);
                for message in of() {
                    for header in message.headers {
                        keys.append_value(header.key);
                        values.append_option(header.value);
                    }
                    count += message.headers.len();
                    offsets.push(i32::try_from(count).map_err(|_| Error::limit("more headers than a batch can hold"))?);
                }
                let DataType::Struct(fields) = header_type() else { return Err(Error::internal("headers are structs")) };
                let items = StructArray::try_new(fields, vec![Arc::new(keys.finish()), Arc::new(values.finish())], None)?;
                let item = Arc::new(Field::new_list_field(header_type(), false));
                Arc::new(ListArray::try_new(item, OffsetBuffer::new(offsets.into()), Arc::new(items), None)?)
            }
        })
    }
}

fn header_type() -> DataType {
    DataType::Struct(Fields::from(vec![Field::new("key", DataType::Utf8View, false), Field::new("value", DataType::Binary, true)]))
}

/// How payloads are written.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum MessageFormat {
    /// An object each.
    Json,
    /// A record each, its columns in the order of the schema; a header is not read.
    Csv(CsvFormat),
    /// The payload as it is, in the one column of the schema, which is binary or string.
    Raw,
    /// An IPC stream each, of any number of rows.
    Arrow,
    /// A value each.
    Avro(AvroFormat),
    /// A message each.
    Protobuf(ProtobufFormat),
    /// A value each, behind the id of its schema in a registry.
    Registered(RegisteredFormat),
}

/// What becomes of messages without a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tombstones {
    /// They are left out, and counted.
    #[default]
    Drop,
    /// They are rows of nulls beside their metadata; bad where the schema forbids null.
    Nulls,
}

/// What messages became.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DecodedMessages {
    /// The rows, in order: the wanted columns, then those of the metadata.
    pub rows: RecordBatch,
    /// For every row its message.
    pub message_of: Vec<u32>,
    /// The messages that could not be used, in order; `offset` is the message's own.
    pub bad: Vec<BadRecord>,
    /// How many rows have null for something that did not fit; see [`Wanted::rescuing`].
    pub rescued: usize,
    /// How many tombstones were left out.
    pub tombstones: usize,
}

enum Reader {
    Rows(Box<dyn RowsDecoder>),
    Arrow,
}

/// Decodes messages. Not shared between threads; one for each split learns that split's layout.
pub struct MessageDecoder {
    reader: Reader,
    wanted: Wanted,
    meta: Vec<Meta>,
    schema: SchemaRef,
    tombstones: Tombstones,
    /// Whether a byte order mark may stand before a message.
    has_mark: bool,
}

const MARK: &[u8] = &[0xEF, 0xBB, 0xBF];

impl MessageDecoder {
    /// A decoder of these columns.
    ///
    /// # Errors
    /// `Config` for a column that the format cannot hold, a schema that does not match the format's own, and a column of the
    /// metadata that the schema has too.
    pub fn new(format: MessageFormat, wanted: Wanted, meta: &[Meta], tombstones: Tombstones) -> Result<Self> {
        let mut fields: Vec<FieldRef> = wanted.schema.fields().iter().cloned().collect();
        for one in meta {
            let field = one.field();
            if wanted.declared.index_of(field.name()).is_ok() || fields.iter().any(|other| other.name() == field.name()) {
                return Err(Error::config(format!("`{}` is both a column of the schema and one of `meta`", field.name())));
            }
            fields.push(Arc::new(field));
        }
        let has_mark = matches!(format, MessageFormat::Json | MessageFormat::Csv(_));
        let reader = match format {
            MessageFormat::Json => Reader::Rows(Box::new(JsonRows::new(wanted.clone(), Paths::Fast)?)),
            MessageFormat::Csv(format) => Reader::Rows(Box::new(CsvRows::new(format, wanted.clone())?)),
            MessageFormat::Raw => Reader::Rows(Box::new(RawRows::new(wanted.clone())?)),
            MessageFormat::Arrow => Reader::Arrow,
            MessageFormat::Avro(format) => Reader::Rows(Box::new(AvroRows::new(&format, wanted.clone())?)),
            MessageFormat::Registered(format) => Reader::Rows(Box::new(RegisteredRows::new(format, wanted.clone())?)),
            MessageFormat::Protobuf(format) => Reader::Rows(Box::new(ProtobufRows::new(&format, wanted.clone())?)),
        };
        Ok(MessageDecoder { reader, wanted, meta: meta.to_vec(), schema: Arc::new(Schema::new(fields)), tombstones, has_mark })
    }

    /// The schema of the rows.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Decodes the messages of one poll.
    ///
    /// # Errors
    /// `Internal` if they are more than a gibibyte together; what a registry answers that is asked for schemas, before any message is
    /// decoded, so that the same messages can be handed over again.
    pub fn decode(&mut self, messages: &[Message<'_>]) -> Result<DecodedMessages> {
        let mut tombstones = 0;
        let (mut payloads, mut numbers) = (Vec::with_capacity(messages.len()), Vec::with_capacity(messages.len()));
        let mut empty = Vec::new();
        for (number, message) in messages.iter().enumerate() {
            match message.payload {
                Some(payload) => {
                    let text = if self.has_mark { payload.strip_prefix(MARK).unwrap_or(payload) } else { payload };
                    payloads.push(text);
                    numbers.push(number as u32);
                }
                None if self.tombstones == Tombstones::Drop => tombstones += 1,
                None => empty.push(number as u32),
            }
        }
        let (rows, mut message_of, mut bad, rescued) = match &mut self.reader {
            Reader::Rows(decoder) => {
                let rows = Rows::decode(decoder.as_mut(), &payloads)?;
                let bad: Vec<_> = rows.bad.into_iter().map(|(record, error, raw)| (numbers[record], error, raw)).collect();
                let good = without(&numbers, &bad);
                (rows.batch, good, bad, rows.rescued)
            }
            Reader::Arrow => decode_arrow(&self.wanted, &payloads, &numbers)?,
        };
        let rows = match empty.is_empty() {
            true => rows,
            false => self.with_tombstones(rows, &mut message_of, &mut bad, &empty)?,
        };
        let mut columns = rows.columns().to_vec();
        for meta in &self.meta {
            columns.push(meta.column(messages, &message_of)?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        let bad = bad.into_iter().map(|(number, error, raw)| {
            let message = &messages[number as usize];
            let row = error.into_row(raw).at(format!("partition {}, offset {}", message.partition, message.offset));
            BadRecord { record: number as usize, offset: usize::try_from(message.offset).unwrap_or(0), row }
        });
        Ok(DecodedMessages { rows, message_of, bad: bad.collect(), rescued, tombstones })
    }

    /// Puts rows of nulls where the tombstones stood.
    fn with_tombstones(&self, rows: RecordBatch, message_of: &mut Vec<u32>, bad: &mut Vec<Bad>, empty: &[u32]) -> Result<RecordBatch> {
        if let Some(required) = self.wanted.decoded().iter().find(|field| !field.is_nullable()) {
            let error = CellError {
                reason: BadReason::MissingValue,
                column: Some(required.name().clone()),
                message: format!("column `{}`: a value is missing", required.name()),
            };
            bad.extend(empty.iter().map(|number| (*number, error.clone(), Vec::new())));
            bad.sort_by_key(|(number, _, _)| *number);
            return Ok(rows);
        }
        // Rows and tombstones are both in order; an index of null makes a row of nulls.
        let mut merged: Vec<(u32, Option<u32>)> = message_of.iter().enumerate().map(|(row, number)| (*number, Some(row as u32))).collect();
        merged.extend(empty.iter().map(|number| (*number, None)));
        merged.sort_by_key(|(number, _)| *number);
        let indices: UInt32Array = merged.iter().map(|(_, row)| *row).collect();
        let columns = rows.columns().iter().map(|column| take(column, &indices, None)).collect::<Result<Vec<_>, _>>()?;
        *message_of = merged.iter().map(|(number, _)| *number).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(merged.len()));
        Ok(RecordBatch::try_new_with_options(rows.schema(), columns, &options)?)
    }
}

type Bad = (u32, CellError, Vec<u8>);

/// The numbers of the messages that are not bad.
fn without(numbers: &[u32], bad: &[Bad]) -> Vec<u32> {
    let mut bad = bad.iter().map(|(number, _, _)| *number).peekable();
    numbers.iter().copied().filter(|number| bad.next_if_eq(number).is_none()).collect()
}

/// Reads payloads that are IPC streams. What is wrong with one of them, its rows included, costs the message.
fn decode_arrow(wanted: &Wanted, payloads: &[&[u8]], numbers: &[u32]) -> Result<(RecordBatch, Vec<u32>, Vec<Bad>, usize)> {
    let (mut batches, mut message_of, mut bad, mut rescued) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for (payload, number) in payloads.iter().zip(numbers) {
        match read_arrow(wanted, payload) {
            Err(error) => {
                let error = CellError { reason: BadReason::Malformed, column: None, message: error.message().to_string() };
                bad.push((*number, error, payload.to_vec()));
            }
            Ok(rows) => match rows.bad.into_iter().next() {
                Some((_, error, _)) => bad.push((*number, error, payload.to_vec())),
                None => {
                    rescued += rows.rescued;
                    message_of.extend(std::iter::repeat_n(*number, rows.batch.num_rows()));
                    batches.push(rows.batch);
                }
            },
        }
    }
    Ok((concat_batches(&wanted.schema, &batches)?, message_of, bad, rescued))
}

fn read_arrow(wanted: &Wanted, payload: &[u8]) -> Result<Rows> {
    let (schema, batches) = ipc::whole(payload)?;
    let places = places(wanted.decoded(), &schema)?;
    let all = concat_batches(&schema, &batches)?;
    let columns: Vec<ArrayRef> = places.iter().map(|place| Arc::clone(all.column(*place))).collect();
    settle(wanted, &columns, all.num_rows())
}

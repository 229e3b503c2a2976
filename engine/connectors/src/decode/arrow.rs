//! Arrow IPC, as a file or as a stream, batch by batch.

use super::Wanted;
use super::cells::CellError;
use super::conform::{engine_schema, places, settle};
use ::arrow::array::{ArrayRef, RecordBatch};
use ::arrow::buffer::Buffer;
use ::arrow::datatypes::{FieldRef, Schema, SchemaRef};
use ::arrow::error::ArrowError;
use ::arrow::ipc::reader::{FileReader, StreamDecoder, StreamReader};
use ::arrow::ipc::{
    Buffer as Place, Endianness, Field as WireField, Message, RecordBatch as Body, TimeUnit as WireUnit, Type as WireType, root_as_message,
};
use std::io::{BufReader, Read, Seek};
use tidegate_api::{Error, Result};

/// What an Arrow file, as opposed to a stream, begins with.
pub const FILE_MAGIC: &[u8] = b"ARROW1";

/// Input that can be sought.
pub trait Input: Read + Seek + Send {}

impl<T: Read + Seek + Send> Input for T {}

/// Rows that stand together in one record batch of the input.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Those that fit the schema.
    pub rows: RecordBatch,
    /// Those that do not, by index among the rows read, each with what is wrong and itself as JSON.
    pub bad: Vec<(usize, CellError, Vec<u8>)>,
    /// How many have null for something that did not fit.
    pub rescued: usize,
    /// How many rows were read.
    pub records: usize,
    /// The record batch to go on with.
    pub next_batch: u64,
    /// The row in it.
    pub next_row: u64,
}

enum Batches {
    File(FileReader<BufReader<Box<dyn Input>>>),
    Stream(StreamReader<BufReader<Box<dyn Read + Send>>>),
}

/// Reads one file or stream.
pub struct ArrowInput {
    batches: Batches,
    wanted: Wanted,
    /// The wanted columns among those read.
    order: Vec<usize>,
    batch: u64,
    row: u64,
    current: Option<RecordBatch>,
}

fn fault(error: &ArrowError) -> Error {
    Error::external(format!("cannot be read as Arrow IPC: {error}"))
}

/// Which columns are read, and where the wanted ones are among them.
fn projection(wanted: &[FieldRef], schema: &Schema) -> Result<(Vec<usize>, Vec<usize>)> {
    let places = places(wanted, schema)?;
    let mut sorted = places.clone();
    sorted.sort_unstable();
    let order = places.iter().map(|place| sorted.binary_search(place).unwrap_or_default()).collect();
    Ok((sorted, order))
}

/// The schema of a file, as the engine sees it.
///
/// # Errors
/// `External` if it is no Arrow file.
pub fn file_schema(input: Box<dyn Input>) -> Result<SchemaRef> {
    Ok(engine_schema(&FileReader::try_new_buffered(input, None).map_err(|error| fault(&error))?.schema()))
}

/// The schema of a stream, as the engine sees it.
///
/// # Errors
/// `External` if it is no Arrow stream.
pub fn stream_schema(input: Box<dyn Read + Send>) -> Result<SchemaRef> {
    Ok(engine_schema(&StreamReader::try_new_buffered(input, None).map_err(|error| fault(&error))?.schema()))
}

impl ArrowInput {
    /// Opens a file for the wanted columns, at a row of a record batch. `schema_input` is the same file once more, to learn
    /// its columns from.
    ///
    /// # Errors
    /// `External` if it is no Arrow file, `Config` if it lacks a column.
    pub fn file(schema_input: Box<dyn Input>, input: Box<dyn Input>, wanted: Wanted, batch: u64, row: u64) -> Result<Self> {
        let own = FileReader::try_new_buffered(schema_input, None).map_err(|error| fault(&error))?.schema();
        let (columns, order) = projection(wanted.decoded(), &own)?;
        let mut reader = FileReader::try_new_buffered(input, Some(columns)).map_err(|error| fault(&error))?;
        let index = usize::try_from(batch).unwrap_or(usize::MAX);
        if index < reader.num_batches() {
            reader.set_index(index).map_err(|error| fault(&error))?;
        } else {
            // At the end: read up the rest, which is nothing.
            reader.by_ref().for_each(drop);
        }
        Ok(ArrowInput { batches: Batches::File(reader), wanted, order, batch, row, current: None })
    }

    /// Opens a stream for the wanted columns, at a row of a record batch; what stands before is read and thrown away.
    ///
    /// # Errors
    /// `External` if it is no Arrow stream, `Config` if it lacks a column.
    pub fn stream(input: Box<dyn Read + Send>, wanted: Wanted, batch: u64, row: u64) -> Result<Self> {
        // A stream cannot be asked for its columns beforehand, so all are read.
        let mut reader = StreamReader::try_new_buffered(input, None).map_err(|error| fault(&error))?;
        let order = places(wanted.decoded(), &reader.schema())?;
        for _ in 0..batch {
            if let Some(Err(error)) = reader.next() {
                return Err(fault(&error));
            }
        }
        Ok(ArrowInput { batches: Batches::Stream(reader), wanted, order, batch, row, current: None })
    }

    /// The next rows, at most `max_rows`; `None` at the end.
    ///
    /// # Errors
    /// `External` if the input is damaged.
    pub fn read(&mut self, max_rows: usize) -> Result<Option<Batch>> {
        let batch = loop {
            if let Some(batch) = self.current.take() {
                if (self.row as usize) < batch.num_rows() {
                    break batch;
                }
                (self.batch, self.row) = (self.batch + 1, 0);
            }
            let next = match &mut self.batches {
                Batches::File(reader) => reader.next(),
                Batches::Stream(reader) => reader.next(),
            };
            match next {
                None => return Ok(None),
                Some(batch) => self.current = Some(batch.map_err(|error| fault(&error))?),
            }
        };
        let from = self.row as usize;
        let taken = (batch.num_rows() - from).min(max_rows.max(1));
        let columns: Vec<ArrayRef> = self.order.iter().map(|index| batch.column(*index).slice(from, taken)).collect();
        let rows = settle(&self.wanted, &columns, taken)?;
        self.current = Some(batch);
        self.row += taken as u64;
        Ok(Some(Batch {
            rows: rows.batch,
            bad: rows.bad,
            rescued: rows.rescued,
            records: taken,
            next_batch: self.batch,
            next_row: self.row,
        }))
    }
}

/// Whether something that begins like this is a file rather than a stream.
pub fn is_file(beginning: &[u8]) -> bool {
    beginning.starts_with(FILE_MAGIC)
}

/// The most that a message may become when it is decompressed.
const MOST_BYTES: i64 = 1 << 30;

/// Reads an IPC stream that is a message: its schema and its batches.
///
/// # Errors
/// `Data` if it is no stream, claims more than it holds, or becomes too large.
pub(super) fn whole(payload: &[u8]) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    if is_file(payload) {
        return Err(Error::data("an Arrow file, where a stream is expected"));
    }
    check(payload)?;
    // What is checked above are the places where the library is known to give up by panicking; should there be another, it
    // costs the message and not the run.
    let read = std::panic::catch_unwind(|| -> Result<_> {
        let mut decoder = StreamDecoder::new();
        let mut rest = Buffer::from(payload);
        let mut batches = Vec::new();
        while !rest.is_empty() {
            if let Some(batch) = decoder.decode(&mut rest).map_err(|error| broken(&error))? {
                batches.push(batch);
            }
        }
        decoder.finish().map_err(|error| broken(&error))?;
        let schema = decoder.schema().ok_or_else(|| Error::data("an Arrow stream without a schema"))?;
        Ok((schema, batches))
    });
    read.unwrap_or_else(|_| Err(Error::data("no Arrow stream: the library cannot read it")))
}

fn broken(error: &ArrowError) -> Error {
    Error::data(format!("no Arrow stream: {error}"))
}

/// Looks at the lengths that a stream claims, before a reader believes them and makes room.
fn check(payload: &[u8]) -> Result<()> {
    let wrong = |what: &str| Err(Error::data(format!("no Arrow stream: {what}")));
    let number = |bytes: &[u8]| bytes.first_chunk::<4>().map(|bytes| i32::from_le_bytes(*bytes));
    let (mut rest, mut total) = (payload, 0i64);
    while let Some(first) = number(rest) {
        let (length, head) = if first == -1 { (number(&rest[4..]), 8) } else { (Some(first), 4) };
        let Some(length) = length.and_then(|length| usize::try_from(length).ok()) else {
            return wrong("a message has an impossible length");
        };
        if length == 0 {
            return Ok(());
        }
        let Some(meta) = rest.get(head..).and_then(|rest| rest.get(..length)) else { return wrong("it ends within a message") };
        let message = root_as_message(meta).map_err(|error| Error::data(format!("no Arrow stream: {error}")))?;
        let behind = &rest[head + length..];
        let Some(body) = usize::try_from(message.bodyLength()).ok().and_then(|length| behind.get(..length)) else {
            return wrong("it ends within a message");
        };
        if let Some(schema) = message.header_as_schema() {
            if schema.endianness() != Endianness::Little {
                return wrong("it is big-endian");
            }
            let Some(fields) = schema.fields() else { return wrong("its schema has no fields") };
            if !fields.iter().all(|field| is_known(&field, 0)) {
                return wrong("its schema has a type that does not exist, or that is not read");
            }
        }
        total = total.saturating_add(claimed(&message, body)?);
        if total > MOST_BYTES {
            return wrong("it becomes too large");
        }
        rest = &behind[body.len()..];
    }
    if rest.is_empty() { Ok(()) } else { wrong("it ends within a message") }
}

/// Whether a field is of a type that the library knows, in all its parts.
fn is_known(field: &WireField<'_>, depth: usize) -> bool {
    const MAX_DEPTH: usize = 32;
    let children = || field.children().into_iter().flatten().collect::<Vec<_>>();
    let inner = |count: Option<usize>| {
        let children = children();
        depth < MAX_DEPTH && count.is_none_or(|count| children.len() == count) && children.iter().all(|child| is_known(child, depth + 1))
    };
    let whole = |bits: i32| matches!(bits, 8 | 16 | 32 | 64);
    let unit = |unit: WireUnit| (WireUnit::SECOND.0..=WireUnit::NANOSECOND.0).contains(&unit.0);
    if field.dictionary().is_some_and(|dictionary| !dictionary.indexType().is_some_and(|index| whole(index.bitWidth()))) {
        return false;
    }
    match field.type_type() {
        WireType::Null
        | WireType::Bool
        | WireType::Binary
        | WireType::BinaryView
        | WireType::LargeBinary
        | WireType::Utf8
        | WireType::Utf8View
        | WireType::LargeUtf8 => true,
        WireType::Int => field.type_as_int().is_some_and(|int| whole(int.bitWidth())),
        WireType::FloatingPoint => field.type_as_floating_point().is_some_and(|float| (0..=2).contains(&float.precision().0)),
        WireType::FixedSizeBinary => field.type_as_fixed_size_binary().is_some_and(|fixed| fixed.byteWidth() >= 0),
        WireType::Date => field.type_as_date().is_some_and(|date| (0..=1).contains(&date.unit().0)),
        WireType::Time => field.type_as_time().is_some_and(|time| {
            let short = matches!(time.unit(), WireUnit::SECOND | WireUnit::MILLISECOND);
            unit(time.unit()) && time.bitWidth() == if short { 32 } else { 64 }
        }),
        WireType::Timestamp => field.type_as_timestamp().is_some_and(|timestamp| unit(timestamp.unit())),
        WireType::Decimal => field.type_as_decimal().is_some_and(|decimal| {
            let most = match decimal.bitWidth() {
                32 => 9,
                64 => 18,
                128 => 38,
                256 => 76,
                _ => 0,
            };
            (1..=most).contains(&decimal.precision()) && (0..=decimal.precision()).contains(&decimal.scale())
        }),
        WireType::List | WireType::LargeList => inner(Some(1)),
        WireType::Struct_ => inner(None),
        WireType::Map => {
            let entries = children();
            let pair = entries.first().is_some_and(|entry| entry.children().is_some_and(|fields| fields.len() == 2));
            field.type_as_map().is_some() && pair && inner(Some(1))
        }
        _ => false,
    }
}

/// How many bytes the body of a message becomes, and whether it can have so many rows.
fn claimed(message: &Message<'_>, body: &[u8]) -> Result<i64> {
    let batch: Option<Body<'_>> =
        message.header_as_record_batch().or_else(|| message.header_as_dictionary_batch().and_then(|batch| batch.data()));
    let Some(batch) = batch else { return Ok(0) };
    let mut bytes = body.len() as i64;
    if batch.compression().is_some() {
        for place in batch.buffers().into_iter().flatten() {
            bytes = bytes.saturating_add(decompressed(place, body));
        }
    }
    // Rows of no bytes at all are possible, but nobody sends many.
    if batch.length() > bytes.saturating_mul(8).max(1 << 16) {
        return Err(Error::data("no Arrow stream: it claims more rows than its bytes can hold"));
    }
    Ok(bytes)
}

fn decompressed(place: &Place, body: &[u8]) -> i64 {
    let start = usize::try_from(place.offset()).ok();
    let claimed = start.and_then(|start| body.get(start..)).and_then(<[u8]>::first_chunk::<8>).map(|bytes| i64::from_le_bytes(*bytes));
    match claimed {
        // Not compressed after all.
        Some(-1) | None => 0,
        Some(claimed) if place.length() >= 8 => {
            if claimed < 0 {
                i64::MAX
            } else {
                claimed
            }
        }
        Some(_) => 0,
    }
}

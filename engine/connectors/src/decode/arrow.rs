//! Arrow IPC, as a file or as a stream, batch by batch.

use super::cells::CellError;
use super::conform::{conform, engine_schema, places};
use ::arrow::array::{ArrayRef, RecordBatch};
use ::arrow::datatypes::{Schema, SchemaRef};
use ::arrow::error::ArrowError;
use ::arrow::ipc::reader::{FileReader, StreamReader};
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
    /// Those that do not, by index among the rows read.
    pub bad: Vec<(usize, CellError)>,
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
    schema: SchemaRef,
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
fn projection(wanted: &Schema, schema: &Schema) -> Result<(Vec<usize>, Vec<usize>)> {
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
    /// Opens a file for the columns of `schema`, at a row of a record batch. `schema_input` is the same file once more, to learn
    /// its columns from.
    ///
    /// # Errors
    /// `External` if it is no Arrow file, `Config` if it lacks a column.
    pub fn file(schema_input: Box<dyn Input>, input: Box<dyn Input>, schema: SchemaRef, batch: u64, row: u64) -> Result<Self> {
        let own = FileReader::try_new_buffered(schema_input, None).map_err(|error| fault(&error))?.schema();
        let (columns, order) = projection(&schema, &own)?;
        let mut reader = FileReader::try_new_buffered(input, Some(columns)).map_err(|error| fault(&error))?;
        let index = usize::try_from(batch).unwrap_or(usize::MAX);
        if index < reader.num_batches() {
            reader.set_index(index).map_err(|error| fault(&error))?;
        } else {
            // At the end: read up the rest, which is nothing.
            reader.by_ref().for_each(drop);
        }
        Ok(ArrowInput { batches: Batches::File(reader), schema, order, batch, row, current: None })
    }

    /// Opens a stream for the columns of `schema`, at a row of a record batch; what stands before is read and thrown away.
    ///
    /// # Errors
    /// `External` if it is no Arrow stream, `Config` if it lacks a column.
    pub fn stream(input: Box<dyn Read + Send>, schema: SchemaRef, batch: u64, row: u64) -> Result<Self> {
        // A stream cannot be asked for its columns beforehand, so all are read.
        let mut reader = StreamReader::try_new_buffered(input, None).map_err(|error| fault(&error))?;
        let order = places(&schema, &reader.schema())?;
        for _ in 0..batch {
            if let Some(Err(error)) = reader.next() {
                return Err(fault(&error));
            }
        }
        Ok(ArrowInput { batches: Batches::Stream(reader), schema, order, batch, row, current: None })
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
        let (rows, bad) = conform(&self.schema, &columns, taken)?;
        self.current = Some(batch);
        self.row += taken as u64;
        Ok(Some(Batch { rows, bad, records: taken, next_batch: self.batch, next_row: self.row }))
    }
}

/// Whether something that begins like this is a file rather than a stream.
pub fn is_file(beginning: &[u8]) -> bool {
    beginning.starts_with(FILE_MAGIC)
}

//! Arrow IPC, as a file or as a stream, batch by batch.
//!
//! What a file says about itself is looked at before the library sees it: see `check.rs` for what and why.

mod check;
mod frames;

use super::Wanted;
use super::cells::CellError;
use super::conform::{engine_schema, places, settle};
use ::arrow::array::{ArrayRef, RecordBatch};
use ::arrow::datatypes::SchemaRef;
use ::arrow::ipc::root_as_footer;
use frames::{Broken, Frame, Frames, Ipc, Kind};
use std::io::{BufReader, Read, Seek, SeekFrom};
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
    /// Where each record batch stands, and which comes next.
    File(Box<dyn Input>, Vec<u64>, usize),
    Stream(Frames<BufReader<Box<dyn Read + Send>>>),
}

/// Reads one file or stream.
pub struct ArrowInput {
    batches: Batches,
    ipc: Ipc,
    wanted: Wanted,
    /// The wanted columns, by their place in the input.
    columns: Vec<usize>,
    batch: u64,
    row: u64,
    current: Option<RecordBatch>,
}

fn damaged(broken: Broken) -> Error {
    let at = broken.at;
    Error::external(format!("cannot be read as Arrow IPC: {}, in the message at byte {at}", broken.what))
}

/// The schema of a file, as the engine sees it.
///
/// # Errors
/// `External` if it is no Arrow file.
pub fn file_schema(mut input: Box<dyn Input>) -> Result<SchemaRef> {
    Ok(engine_schema(Footer::read(input.as_mut())?.ipc.schema()))
}

/// The schema of a stream, as the engine sees it.
///
/// # Errors
/// `External` if it is no Arrow stream.
pub fn stream_schema(input: Box<dyn Read + Send>) -> Result<SchemaRef> {
    Ok(engine_schema(begun(&mut Frames::new(BufReader::new(input)))?.schema()))
}

/// The end of a file, which says what is where.
struct Footer {
    ipc: Ipc,
    dictionaries: Vec<u64>,
    batches: Vec<u64>,
}

impl Footer {
    fn read(input: &mut dyn Input) -> Result<Self> {
        const TRAILER: u64 = 10;
        let unreadable = |error: std::io::Error| Error::external("cannot be read").caused_by(error);
        let wrong = |what: &str| Error::external(format!("cannot be read as an Arrow file: {what}"));
        let length = input.seek(SeekFrom::End(0)).map_err(unreadable)?;
        let Some(at) = length.checked_sub(TRAILER) else { return Err(wrong("it is too short")) };
        let mut trailer = [0; TRAILER as usize];
        input.seek(SeekFrom::Start(at)).map_err(unreadable)?;
        input.read_exact(&mut trailer).map_err(unreadable)?;
        let [a, b, c, d, magic @ ..] = trailer;
        if magic != FILE_MAGIC {
            return Err(wrong("it does not end as one, so it may be truncated"));
        }
        let begin = u64::try_from(i32::from_le_bytes([a, b, c, d])).ok().and_then(|size| at.checked_sub(size));
        let Some(begin) = begin else { return Err(wrong("its footer has an impossible length")) };
        let mut bytes = Vec::new();
        input.seek(SeekFrom::Start(begin)).map_err(unreadable)?;
        input.take(at - begin).read_to_end(&mut bytes).map_err(unreadable)?;
        let footer = root_as_footer(&bytes).map_err(|error| wrong(&format!("its footer is broken ({error})")))?;
        let schema = footer.schema().ok_or_else(|| wrong("its footer has no schema"))?;
        let ipc = Ipc::new(schema).map_err(wrong)?;
        let place = |offset: i64| u64::try_from(offset).ok().filter(|offset| *offset < begin);
        let dictionaries = footer.dictionaries().into_iter().flatten().map(|block| place(block.offset())).collect::<Option<Vec<_>>>();
        let batches = footer.recordBatches().into_iter().flatten().map(|block| place(block.offset())).collect::<Option<Vec<_>>>();
        let (Some(dictionaries), Some(batches)) = (dictionaries, batches) else {
            return Err(wrong("its footer has a place outside of it"));
        };
        Ok(Footer { ipc, dictionaries, batches })
    }
}

/// The message that stands at a place of a file.
fn message_at(input: &mut dyn Input, at: u64) -> Result<Frame> {
    input.seek(SeekFrom::Start(at)).map_err(|error| Error::external("cannot be read").caused_by(error))?;
    let mut frames = Frames::at(input, at);
    frames.next().and_then(|frame| frame.ok_or_else(|| Broken::at(at, "there is none"))).map_err(damaged)
}

/// The schema that a stream begins with.
fn begun<R: Read>(frames: &mut Frames<R>) -> Result<Ipc> {
    frames.schema().map_err(damaged)
}

impl ArrowInput {
    /// Opens a file for the wanted columns, at a row of a record batch.
    ///
    /// # Errors
    /// `External` if it is no Arrow file, `Config` if it lacks a column.
    pub fn file(mut input: Box<dyn Input>, wanted: Wanted, batch: u64, row: u64) -> Result<Self> {
        let Footer { mut ipc, dictionaries, batches } = Footer::read(input.as_mut())?;
        let columns = places(wanted.decoded(), ipc.schema())?;
        for at in dictionaries {
            let frame = message_at(input.as_mut(), at)?;
            ipc.dictionary(&frame).map_err(damaged)?;
        }
        let next = usize::try_from(batch).unwrap_or(usize::MAX);
        Ok(ArrowInput { batches: Batches::File(input, batches, next), ipc, wanted, columns, batch, row, current: None })
    }

    /// Opens a stream for the wanted columns, at a row of a record batch; what stands before is passed over.
    ///
    /// # Errors
    /// `External` if it is no Arrow stream, `Config` if it lacks a column.
    pub fn stream(input: Box<dyn Read + Send>, wanted: Wanted, batch: u64, row: u64) -> Result<Self> {
        let mut frames = Frames::new(BufReader::new(input));
        let mut ipc = begun(&mut frames)?;
        let columns = places(wanted.decoded(), ipc.schema())?;
        let mut passed = 0;
        while passed < batch {
            let Some(frame) = frames.next().map_err(damaged)? else { break };
            match frame.kind() {
                Kind::Batch => passed += 1,
                Kind::Dictionary => ipc.dictionary(&frame).map_err(damaged)?,
                Kind::Schema | Kind::Other => {}
            }
        }
        Ok(ArrowInput { batches: Batches::Stream(frames), ipc, wanted, columns, batch, row, current: None })
    }

    /// The next record batch, the wanted columns of it.
    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let frame = match &mut self.batches {
            Batches::File(input, places, next) => {
                let Some(at) = places.get(*next) else { return Ok(None) };
                *next += 1;
                message_at(input.as_mut(), *at)?
            }
            Batches::Stream(frames) => loop {
                let Some(frame) = frames.next().map_err(damaged)? else { return Ok(None) };
                match frame.kind() {
                    Kind::Batch => break frame,
                    Kind::Dictionary => self.ipc.dictionary(&frame).map_err(damaged)?,
                    Kind::Schema => return Err(damaged(Broken::at(frame.at(), "a second schema"))),
                    Kind::Other => {}
                }
            },
        };
        self.ipc.batch(&frame, Some(&self.columns)).map(Some).map_err(damaged)
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
            match self.next_batch()? {
                None => return Ok(None),
                Some(batch) => self.current = Some(batch),
            }
        };
        let from = self.row as usize;
        let taken = (batch.num_rows() - from).min(max_rows.max(1));
        let columns: Vec<ArrayRef> = batch.columns().iter().map(|column| column.slice(from, taken)).collect();
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

/// Reads an IPC stream that is a message: its schema and its batches.
///
/// # Errors
/// `Data` if it is no stream, claims more than it holds, or becomes too large.
pub(super) fn whole(payload: &[u8]) -> Result<(SchemaRef, Vec<RecordBatch>)> {
    if is_file(payload) {
        return Err(Error::data("an Arrow file, where a stream is expected"));
    }
    let read = || -> Result<_, Broken> {
        let mut frames = Frames::new(payload);
        let mut ipc = frames.schema()?;
        let mut batches = Vec::new();
        while let Some(frame) = frames.next()? {
            match frame.kind() {
                Kind::Batch => batches.push(ipc.batch(&frame, None)?),
                Kind::Dictionary => ipc.dictionary(&frame)?,
                Kind::Schema => return Err(Broken::at(frame.at(), "a second schema")),
                Kind::Other => {}
            }
            if ipc.made() > check::MOST_BYTES {
                return Err(Broken::at(frame.at(), "it becomes too large"));
            }
        }
        if frames.read() < payload.len() as u64 {
            return Err(Broken::at(frames.read(), "something follows its end"));
        }
        Ok((SchemaRef::clone(ipc.schema()), batches))
    };
    read().map_err(|broken| Error::data(format!("no Arrow stream: {}, in the message at byte {}", broken.what, broken.at)))
}

#[cfg(test)]
mod tests;

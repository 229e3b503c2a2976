//! From bytes to batches: decoders that other connectors share.
//!
//! A [`Decoder`] is told the declared schema and the columns somebody reads, and is handed the bytes of a stream as they come. It
//! answers whole records only, so a caller can stop and go on at any record. A record that cannot be used costs itself and
//! nothing else; no number is ever wrapped, rounded or truncated to make it fit its column.
//!
//! Parquet and Arrow files have an order of their own to be read in; [`parquet`] and [`arrow`] read them in place.

mod arrays;
pub mod arrow;
pub mod avro;
mod cells;
mod column;
mod conform;
pub mod csv;
pub mod infer;
pub mod json;
mod message;
pub mod parquet;
pub mod protobuf;
pub mod raw;
pub(crate) mod registered;
mod rows;
mod texts;
mod times;
mod typed;
mod values;

#[cfg(test)]
mod tests;

pub use cells::CellError;
pub(crate) use typed::Value;
pub(crate) use values::{ValueRows, is_value};

pub use message::{DecodedMessages, Header, Message, MessageDecoder, MessageFormat, Meta, Tombstones};
pub use registered::{RegisteredFormat, Schemas, Written};

use ::arrow::array::RecordBatch;
use ::arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;
use tidegate_api::bad::RESCUED;
use tidegate_api::{BadRow, Error, Result};

/// The largest record that is read.
pub const MAX_RECORD: usize = 64 << 20;

/// The declared columns, and which of them to decode.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// Every declared column.
    pub declared: SchemaRef,
    /// Those to make, by index, ascending.
    pub columns: Vec<usize>,
    /// The schema of what is made: those columns, and [`RESCUED`] if it is kept.
    pub schema: SchemaRef,
    rescue: Rescue,
}

/// What becomes of records in which something does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rescue {
    /// They are bad.
    No,
    /// They are kept.
    Silent,
    /// They are kept, and their text too.
    WithText,
}

impl Wanted {
    /// All columns of a schema.
    pub fn all(declared: SchemaRef) -> Self {
        Wanted { columns: (0..declared.fields().len()).collect(), schema: Arc::clone(&declared), declared, rescue: Rescue::No }
    }

    /// The columns that `keep` accepts, in the schema's order.
    pub fn some(declared: SchemaRef, keep: impl Fn(&str) -> bool) -> Self {
        let columns: Vec<usize> = (0..declared.fields().len()).filter(|index| keep(declared.field(*index).name())).collect();
        let fields: Vec<_> = columns.iter().map(|index| Arc::clone(&declared.fields()[*index])).collect();
        Wanted { columns, schema: Arc::new(Schema::new(fields)), declared, rescue: Rescue::No }
    }

    /// Keeps a record in which something does not fit, with null for that; `read` says whether its text is wanted, which makes
    /// [`RESCUED`] the last column, in which bytes that are no text are `base64:` and themselves. Every declared column is then read, so that the text does not depend on who reads what else.
    /// A record that lacks what the schema requires stays bad.
    #[must_use]
    pub fn rescuing(mut self, read: bool) -> Self {
        self.rescue = if read { Rescue::WithText } else { Rescue::Silent };
        if read {
            let rescued = Arc::new(Field::new(RESCUED, DataType::Utf8View, true));
            let made = self.columns.iter().map(|index| Arc::clone(&self.declared.fields()[*index]));
            self.schema = Arc::new(Schema::new(made.chain([rescued]).collect::<Vec<_>>()));
        }
        self
    }

    /// The fields that are decoded.
    pub(crate) fn decoded(&self) -> &[FieldRef] {
        match self.rescue {
            Rescue::WithText => self.declared.fields(),
            Rescue::No | Rescue::Silent => self.schema.fields(),
        }
    }
}

/// A record that could not be used.
#[derive(Debug, Clone, PartialEq)]
pub struct BadRecord {
    /// Its number among the records of this call, good ones counted.
    pub record: usize,
    /// Where it begins in the input.
    pub offset: usize,
    /// What is wrong with it.
    pub row: BadRow,
}

/// What a call decoded.
#[derive(Debug, Clone)]
pub struct Decoded {
    /// The good records, in order, under [`Wanted::schema`].
    pub rows: RecordBatch,
    /// The bad ones, in order.
    pub bad: Vec<BadRecord>,
    /// How many of the good ones have null for something that did not fit; see [`Wanted::rescuing`].
    pub rescued: usize,
    /// How many records were taken, good and bad.
    pub records: usize,
    /// How many bytes of the input they cover.
    pub consumed: usize,
}

/// Decodes a stream of records that are framed by the format itself.
pub trait Decoder: Send {
    /// Reads what stands before the first record: a byte order mark, a header. Called first on every stream, with its beginning;
    /// again with more of it as long as the answer is `None`. `last`: there is no more.
    ///
    /// # Errors
    /// `Config` if the stream does not fit the declared schema.
    fn begin(&mut self, input: &[u8], last: bool) -> Result<Option<usize>>;

    /// Takes whole records, at most `max_rows`, from the beginning of `input`. Consuming and answering nothing means that it holds
    /// no whole record. A block is consumed with its last record; until then, every call begins with it.
    ///
    /// # Errors
    /// Only what is wrong with the stream as a whole; bad records are part of the answer.
    fn decode(&mut self, input: &[u8], last: bool, max_rows: usize) -> Result<Decoded>;

    /// Whether a line break ends a record, so that reading can go on behind a record that is too long to be looked at.
    fn ends_in_lines(&self) -> bool {
        false
    }

    /// How many records of the block at the beginning of what was not consumed have been handed over. In formats that have no
    /// blocks, none ever.
    fn within(&self) -> u64 {
        0
    }

    /// Goes on behind so many records of the block at the beginning of what comes next. Called after [`Decoder::begin`].
    ///
    /// # Errors
    /// `Internal` if the format has no blocks.
    fn go_on(&mut self, within: u64) -> Result<()> {
        match within {
            0 => Ok(()),
            _ => Err(Error::internal("a position within a block, in a format that has none")),
        }
    }
}

/// The length of a UTF-8 byte order mark at the beginning; `None` if more input is needed to tell.
fn byte_order_mark(input: &[u8], last: bool) -> Option<usize> {
    const MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];
    if input.len() < MARK.len() && !last && MARK.starts_with(input) {
        return None;
    }
    Some(if input.starts_with(&MARK) { MARK.len() } else { 0 })
}

/// The moment that a text says, in milliseconds since 1970; without a zone it is UTC. `None` if it is none, or has a finer part.
pub(crate) fn moment_millis(text: &str) -> Option<i64> {
    let (seconds, nanos) = times::moment(text.as_bytes(), times::Zone::Utc)?;
    times::in_unit(seconds, nanos, TimeUnit::Millisecond)
}

/// A column that this format cannot hold.
fn unsupported(format: &str, column: &str, data_type: &DataType) -> Error {
    Error::config(format!("column `{column}`: {format} cannot hold the type `{}`", tidegate_api::types::name(data_type)))
}

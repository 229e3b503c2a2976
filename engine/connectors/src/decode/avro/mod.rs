//! Avro: object container files, and values alone in a message, bare or behind the header of single-object encoding or of a
//! schema registry.
//!
//! Read here rather than by a library: a message that is broken must cost itself alone, columns nobody reads are walked over
//! without making them, and a count or length that a message claims is believed only as far as its bytes go.

mod block;
mod body;
mod container;
mod defaults;
mod plan;
mod schema;

pub use container::{AvroContainer, infer};

use super::cells::Faults;
use super::column::{BytesAs, Column, Kind};
use super::registered::header::{self, Framed};
use super::rows::{RowsDecoder, one_by_one};
use super::{Rescue, Wanted};
use arrow::datatypes::SchemaRef;
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm};
use body::Cursor;
use plan::Plan;
use schema::Schema;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_api::{Error, Result};

pub(super) const KIND: Kind = Kind { format: "Avro", bytes_as: BytesAs::Base64 };

/// What stands before a value in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AvroFraming {
    /// Nothing.
    #[default]
    Bare,
    /// Two bytes and the fingerprint of the schema: single-object encoding.
    SingleObject,
    /// A zero byte and the four bytes of a schema registry's id.
    Registry,
}

/// How Avro messages are written.
#[derive(Debug, Clone)]
pub struct AvroFormat {
    framing: AvroFraming,
    /// Schemas by their id in a registry; without one there is one, of id 0.
    schemas: BTreeMap<u32, String>,
}

impl AvroFormat {
    /// Messages of one schema, given as JSON.
    pub fn new(schema: impl Into<String>, framing: AvroFraming) -> Self {
        AvroFormat { framing, schemas: BTreeMap::from([(0, schema.into())]) }
    }

    /// Messages of several schemas, each named by its id in a registry.
    pub fn registry(schemas: impl IntoIterator<Item = (u32, String)>) -> Self {
        AvroFormat { framing: AvroFraming::Registry, schemas: schemas.into_iter().collect() }
    }
}

/// The columns that an Avro schema would have.
///
/// # Errors
/// `Config` if it is no schema of a record, or has types that no column can hold.
pub fn schema_of(json: &str) -> Result<SchemaRef> {
    Schema::parse(json)?.to_arrow()
}

/// The schema that rows are read as, where schemas evolve: what it says of fields that were not written.
#[derive(Debug, Clone)]
pub(crate) struct AvroReader(Arc<Schema>);

impl AvroReader {
    /// Reads schemas of which each may use the types of those before it; the last is meant.
    ///
    /// # Errors
    /// As [`schema_of`], but for types that no column can hold.
    pub(crate) fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self> {
        Ok(AvroReader(Arc::new(Schema::parse_all(texts)?)))
    }

    /// The columns that hold every field.
    ///
    /// # Errors
    /// `Config` for a type that no column can hold.
    pub(crate) fn columns(&self) -> Result<SchemaRef> {
        self.0.to_arrow()
    }
}

/// Reads values that were written with one schema.
pub(super) struct Body {
    schema: Schema,
    plan: Plan,
    rescues: bool,
}

impl Body {
    fn new(schema: Schema, wanted: &Wanted) -> Result<Self> {
        let plan = Plan::of(&schema, wanted)?;
        Ok(Body { schema, plan, rescues: wanted.rescue != Rescue::No })
    }

    /// For a schema that need not be the reader's.
    ///
    /// # Errors
    /// `Config` for a schema that cannot be used, or not be read as these columns.
    pub(super) fn evolving(texts: &[String], reader: Option<&AvroReader>, wanted: &Wanted) -> Result<Self> {
        let schema = Schema::parse_all(texts)?;
        let plan = Plan::evolving(&schema, reader.map(|reader| &reader.0), wanted)?;
        Ok(Body { schema, plan, rescues: wanted.rescue != Rescue::No })
    }

    /// Appends a value to every column, or answers what is wrong with these bytes.
    pub(super) fn read(&self, body: &[u8], columns: &mut [Column], record: usize, faults: &mut Faults) -> Result<(), String> {
        let whole = |cursor: &Cursor<'_>| if cursor.is_empty() { Ok(()) } else { Err("something follows the value".to_string()) };
        if self.rescues {
            // Nothing of a broken message may be kept, so all of it is read before any of it is.
            let mut cursor = Cursor::new(body);
            self.plan.skip_record(&self.schema, &mut cursor).map_err(|broken| broken.to_string())?;
            whole(&cursor)?;
        }
        let mut cursor = Cursor::new(body);
        self.plan.read_record(&self.schema, &mut cursor, columns, record, faults).map_err(|broken| broken.to_string())?;
        whole(&cursor)
    }
}

struct Writer {
    body: Body,
    fingerprint: [u8; 8],
}

/// Reads messages.
pub(super) struct AvroRows {
    wanted: Wanted,
    framing: AvroFraming,
    writers: BTreeMap<u32, Writer>,
}

impl AvroRows {
    pub(super) fn new(format: &AvroFormat, wanted: Wanted) -> Result<Self> {
        KIND.columns(&wanted, 0)?;
        let mut writers = BTreeMap::new();
        for (id, json) in &format.schemas {
            let schema = Schema::parse(json)?;
            let body = Body::new(schema, &wanted)?;
            let fingerprint = match format.framing {
                AvroFraming::SingleObject => fingerprint(json)?,
                AvroFraming::Bare | AvroFraming::Registry => [0; 8],
            };
            writers.insert(*id, Writer { body, fingerprint });
        }
        if writers.is_empty() {
            return Err(Error::config("an Avro format without a schema"));
        }
        Ok(AvroRows { wanted, framing: format.framing, writers })
    }

    /// The schema of a message, and its value.
    fn open<'m>(&self, message: &'m [u8]) -> Result<(&Writer, &'m [u8]), String> {
        let only = || self.writers.values().next().ok_or_else(|| "there is no schema".to_string());
        match self.framing {
            AvroFraming::Bare => Ok((only()?, message)),
            AvroFraming::SingleObject => {
                let writer = only()?;
                let Some((header, body)) = message.split_first_chunk::<10>() else {
                    return Err("the message ends within its header".into());
                };
                if header[..2] != [0xC3, 0x01] {
                    return Err("the message does not begin as single-object encoding does".into());
                }
                if header[2..] != writer.fingerprint {
                    return Err("the message was written with another schema".into());
                }
                Ok((writer, body))
            }
            AvroFraming::Registry => {
                let Framed { id, body } = header::plain(message)?;
                match self.writers.get(&id) {
                    Some(writer) => Ok((writer, body)),
                    None => Err(format!("the message was written with schema {id}, which is not known")),
                }
            }
        }
    }

    fn read(&self, message: &[u8], columns: &mut [Column], record: usize, faults: &mut Faults) -> Result<(), String> {
        let (writer, body) = self.open(message)?;
        writer.body.read(body, columns, record, faults)
    }
}

impl RowsDecoder for AvroRows {
    fn decode(&mut self, rows: &[&[u8]], columns: &mut [Column], faults: &mut Faults) -> Result<()> {
        one_by_one(rows, &self.wanted, columns, faults, |row, columns, record, faults| self.read(row, columns, record, faults));
        Ok(())
    }

    fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    fn kind(&self) -> Kind {
        KIND
    }
}

/// The bytes of a schema's fingerprint as single-object encoding has them.
pub(crate) fn fingerprint(json: &str) -> Result<[u8; 8]> {
    match AvroSchema::new(json.to_string()).fingerprint(FingerprintAlgorithm::Rabin) {
        Ok(Fingerprint::Rabin(number)) => Ok(number.to_le_bytes()),
        Ok(_) => Err(Error::internal("a Rabin fingerprint was asked for")),
        Err(error) => Err(Error::config(format!("the Avro schema has no fingerprint: {error}"))),
    }
}

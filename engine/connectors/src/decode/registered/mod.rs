//! Messages of Avro, Protobuf and JSON behind the id of their schema in a registry, the ids mixed in any order.
//!
//! Every schema that a batch needs is found before a row of it is decoded, so that a registry out of reach costs no row: the same
//! messages are handed over again. A header that is none, an id that the registry does not know and a schema that cannot be read as
//! the columns cost the messages that have them, and no other.

pub(crate) mod header;

use super::Wanted;
use super::avro::{self, AvroReader};
use super::cells::Faults;
use super::column::{Column, Kind};
use super::json::{self, JsonRows, Paths};
use super::protobuf;
use super::rows::{RowsDecoder, give_up};
use prost_reflect::{FileDescriptor, MessageDescriptor};
use std::fmt;
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// Writers that are kept between two batches; past it all are made anew. Topics have few schemas, and those that somebody sends many
/// of are not worth the memory.
const MOST_WRITERS: usize = 256;

/// Where schemas are found.
pub trait Schemas: fmt::Debug + Send + Sync {
    /// The schema of an id, which is the same for ever; `None` if there is none.
    ///
    /// # Errors
    /// `External` if nobody answers, with `Retry::After` as long as it may be asked again.
    fn find(&self, id: u32) -> Result<Option<Arc<Written>>>;

    /// An id with where it is registered, for messages.
    fn describe(&self, id: u32) -> String;
}

/// A schema that messages were written with, and all that it refers to.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Written {
    /// In JSON; those that it refers to come first.
    Avro(Vec<String>),
    /// The file of the messages.
    Protobuf(FileDescriptor),
    /// JSON says by itself what it is.
    Json,
    /// One that is there and cannot be used, and why.
    Unusable(String),
}

impl Written {
    fn kind(&self) -> &'static str {
        match self {
            Written::Avro(_) => "Avro",
            Written::Protobuf(_) => "Protobuf",
            Written::Json => "JSON",
            Written::Unusable(_) => "unusable",
        }
    }
}

/// What messages of a registry are, and what their rows are read as.
#[derive(Debug, Clone)]
pub(crate) enum Reads {
    Avro(Option<AvroReader>),
    /// With a reader, fields are found by its numbers; without one by the names that the writer has for them.
    Protobuf(Option<MessageDescriptor>),
    Json,
}

/// How messages of a registry are written.
#[derive(Debug, Clone)]
pub struct RegisteredFormat {
    pub(crate) reads: Reads,
    pub(crate) schemas: Arc<dyn Schemas>,
}

/// How the messages of one writer are read.
enum Body {
    Avro(Box<avro::Body>),
    Protobuf(Box<protobuf::Body>),
    Json,
    /// None of them can be, and why.
    None(String),
}

struct Writer {
    id: u32,
    /// The path of the message in its file, as it is written.
    path: Vec<u8>,
    body: Body,
}

/// Where a message goes.
#[derive(Clone, Copy)]
enum Place {
    /// A writer, and where the value begins.
    At(usize, usize),
    Broken(&'static str),
    Unknown(u32),
}

/// Reads messages.
pub(super) struct RegisteredRows {
    wanted: Wanted,
    format: RegisteredFormat,
    writers: Vec<Writer>,
    /// The writer of the last message, which most often is that of the next.
    last: usize,
    places: Vec<Place>,
    json: Option<JsonRows>,
}

impl RegisteredRows {
    pub(super) fn new(format: RegisteredFormat, wanted: Wanted) -> Result<Self> {
        let json = match format.reads {
            Reads::Json => Some(JsonRows::new(wanted.clone(), Paths::Fast)?),
            Reads::Avro(_) | Reads::Protobuf(_) => None,
        };
        let rows = RegisteredRows { format, writers: Vec::new(), last: 0, places: Vec::new(), json, wanted };
        rows.kind().columns(&rows.wanted, 0)?;
        Ok(rows)
    }

    /// Finds the writer of a message.
    fn place(&mut self, message: &[u8]) -> Result<Place> {
        let framed = match self.format.reads {
            Reads::Protobuf(_) => header::protobuf(message).map(|framed| (framed.id, framed.path, framed.body)),
            Reads::Avro(_) | Reads::Json => header::plain(message).map(|framed| (framed.id, &[][..], framed.body)),
        };
        let (id, path, body) = match framed {
            Ok(framed) => framed,
            Err(what) => return Ok(Place::Broken(what)),
        };
        let begin = message.len() - body.len();
        let is_it = |writer: &Writer| writer.id == id && writer.path == path;
        if self.writers.get(self.last).is_some_and(is_it) {
            return Ok(Place::At(self.last, begin));
        }
        let known = self.writers.iter().position(is_it);
        self.last = match known {
            Some(known) => known,
            None => {
                let Some(written) = self.format.schemas.find(id)? else { return Ok(Place::Unknown(id)) };
                let body = self.body(&written, path).unwrap_or_else(|why| {
                    let named = self.format.schemas.describe(id);
                    Body::None(format!("the message was written with {named}, which cannot be read here: {why}"))
                });
                self.writers.push(Writer { id, path: path.to_vec(), body });
                self.writers.len() - 1
            }
        };
        Ok(Place::At(self.last, begin))
    }

    /// How messages of a schema are read, or why they cannot be.
    fn body(&self, written: &Written, path: &[u8]) -> Result<Body, String> {
        let said = |error: Error| error.message().to_string();
        match (&self.format.reads, written) {
            (_, Written::Unusable(why)) => Err(why.clone()),
            (Reads::Json, Written::Json) => Ok(Body::Json),
            (Reads::Avro(reader), Written::Avro(texts)) => {
                Ok(Body::Avro(Box::new(avro::Body::evolving(texts, reader.as_ref(), &self.wanted).map_err(said)?)))
            }
            (Reads::Protobuf(reader), Written::Protobuf(file)) => {
                let message = message_at(file, &header::steps(path))?;
                let message = match reader {
                    None => &message,
                    Some(reader) if reader.full_name() == message.full_name() => reader,
                    Some(reader) => return Err(format!("it is a `{}` and not a `{}`", message.full_name(), reader.full_name())),
                };
                Ok(Body::Protobuf(Box::new(protobuf::Body::evolving(message, &self.wanted).map_err(said)?)))
            }
            (Reads::Avro(_) | Reads::Protobuf(_) | Reads::Json, other) => {
                Err(format!("it is a schema of {}, and the format here is {}", other.kind(), self.kind().format))
            }
        }
    }
}

/// The message at a path of numbers.
fn message_at(file: &FileDescriptor, steps: &[usize]) -> Result<MessageDescriptor, String> {
    let none = || format!("its file has no message at {steps:?}");
    let (first, inner) = steps.split_first().ok_or_else(none)?;
    let mut message = file.messages().nth(*first).ok_or_else(none)?;
    for step in inner {
        let found = message.child_messages().nth(*step);
        message = found.ok_or_else(none)?;
    }
    Ok(message)
}

impl RowsDecoder for RegisteredRows {
    fn decode(&mut self, rows: &[&[u8]], columns: &mut [Column], faults: &mut Faults) -> Result<()> {
        if self.writers.len() > MOST_WRITERS {
            self.writers.clear();
        }
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        for message in rows {
            places.push(self.place(message)?);
        }
        if let Some(json) = &mut self.json {
            // All at a time, as that format likes it; what is no value is replaced below.
            let values: Vec<&[u8]> = rows
                .iter()
                .zip(&places)
                .map(|(message, place)| match place {
                    Place::At(_, begin) => &message[*begin..],
                    Place::Broken(_) | Place::Unknown(_) => &[],
                })
                .collect();
            json.decode(&values, columns, faults)?;
        }
        for (record, (message, place)) in rows.iter().zip(&places).enumerate() {
            let read = match *place {
                Place::At(writer, begin) => match &mut self.writers[writer].body {
                    Body::Avro(body) => body.read(&message[begin..], columns, record, faults),
                    Body::Protobuf(body) => body.read(&message[begin..], columns, record, faults),
                    Body::Json => Ok(()),
                    Body::None(why) => Err(why.clone()),
                },
                Place::Broken(what) => Err(what.to_string()),
                Place::Unknown(id) => Err(format!("the message was written with schema {id}, which the registry does not know")),
            };
            if let Err(what) = read {
                give_up(record, what, &self.wanted, columns, faults);
            }
        }
        self.places = places;
        Ok(())
    }

    fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    fn kind(&self) -> Kind {
        match self.format.reads {
            Reads::Avro(_) => avro::KIND,
            Reads::Protobuf(_) => protobuf::KIND,
            Reads::Json => json::KIND,
        }
    }
}

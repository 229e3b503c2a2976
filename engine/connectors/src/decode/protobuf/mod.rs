//! Protobuf messages, described by a file descriptor set: what `protoc --include_imports --descriptor_set_out` writes.
//!
//! The wire is read here, the descriptors by a library: only the fields that a column wants are looked into, and a length that a
//! message claims is believed only as far as its bytes go. An absent field is null if the schema tells absence from the
//! default (messages, `optional`, `oneof`, proto2), else the default, as in every Protobuf reader. Lists are never null.
//! Fields of numbers that the descriptor lacks are left out.

pub(crate) mod plan;
mod wire;

use super::Wanted;
use super::cells::Faults;
use super::column::{BytesAs, Column, Kind};
use super::registered::header;
use super::rows::{Framed, Rows, RowsDecoder, one_by_one};
use super::{Decoded, Decoder, MAX_RECORD};
use arrow::datatypes::SchemaRef;
use plan::MessagePlan;
use prost_reflect::{DescriptorPool, MessageDescriptor};
use std::ops::Range;
use tidegate_api::nearest::hint;
use tidegate_api::{Error, Result};
use wire::{Reader, Scratch};

pub(super) const KIND: Kind = Kind { format: "Protobuf", bytes_as: BytesAs::Base64 };

/// What stands before a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProtobufFraming {
    /// Nothing.
    #[default]
    Bare,
    /// A zero byte, the four bytes of a schema registry's id and the path of the message in its file. The id is not looked up:
    /// Protobuf can be read with any version of its schema.
    Registry,
}

/// How Protobuf messages are written.
#[derive(Debug, Clone)]
pub struct ProtobufFormat {
    message: MessageDescriptor,
    framing: ProtobufFraming,
}

impl ProtobufFormat {
    /// Messages named `message` in the bytes of a descriptor set.
    ///
    /// # Errors
    /// `Config` if it is no descriptor set, or has no such message.
    pub fn new(descriptor_set: &[u8], message: &str, framing: ProtobufFraming) -> Result<Self> {
        let pool = DescriptorPool::decode(descriptor_set).map_err(|error| {
            Error::config(format!("is no Protobuf descriptor set ({error}), make one with `protoc --include_imports --descriptor_set_out`"))
        })?;
        let Some(found) = pool.get_message_by_name(message) else {
            let known: Vec<String> = pool.all_messages().map(|message| message.full_name().to_string()).collect();
            let hint = hint(message, known.iter().map(String::as_str));
            return Err(Error::config(format!("the descriptor set has no message `{message}`{hint}")));
        };
        Ok(ProtobufFormat { message: found, framing })
    }

    /// The columns that hold every field.
    ///
    /// # Errors
    /// `Config` for a message that holds itself, which no column can.
    pub fn schema(&self) -> Result<SchemaRef> {
        plan::schema(&self.message)
    }

    pub(crate) fn message(&self) -> &MessageDescriptor {
        &self.message
    }

    pub(crate) fn framing(&self) -> ProtobufFraming {
        self.framing
    }
}

/// Reads messages of one descriptor.
pub(super) struct Body {
    plan: MessagePlan,
    scratch: Scratch,
}

impl Body {
    fn new(message: &MessageDescriptor, wanted: &Wanted) -> Result<Self> {
        Ok(Body { plan: MessagePlan::of(message, wanted.decoded())?, scratch: Scratch::default() })
    }

    /// For a message that may lack fields.
    ///
    /// # Errors
    /// `Config` for a message that cannot be read as these columns.
    pub(super) fn evolving(message: &MessageDescriptor, wanted: &Wanted) -> Result<Self> {
        Ok(Body { plan: MessagePlan::evolving(message, wanted.decoded())?, scratch: Scratch::default() })
    }

    /// Appends a value to every column, or answers what is wrong with these bytes.
    pub(super) fn read(&mut self, body: &[u8], columns: &mut [Column], record: usize, faults: &mut Faults) -> Result<(), String> {
        let Self { plan, scratch } = self;
        scratch.clear();
        // Nothing is appended before the whole message has been walked over, its wanted parts included.
        wire::check(plan, body, scratch).map_err(|broken| broken.to_string())?;
        wire::append(plan, body, columns, record, faults, scratch).map_err(|broken| broken.to_string())
    }
}

/// Reads messages.
pub(super) struct ProtobufRows {
    wanted: Wanted,
    framing: ProtobufFraming,
    body: Body,
}

impl ProtobufRows {
    pub(super) fn new(format: &ProtobufFormat, wanted: Wanted) -> Result<Self> {
        KIND.columns(&wanted, 0)?;
        let body = Body::new(&format.message, &wanted)?;
        Ok(ProtobufRows { wanted, framing: format.framing, body })
    }
}

impl RowsDecoder for ProtobufRows {
    fn decode(&mut self, rows: &[&[u8]], columns: &mut [Column], faults: &mut Faults) -> Result<()> {
        let Self { wanted, framing, body } = self;
        one_by_one(rows, wanted, columns, faults, |message, columns, record, faults| match framing {
            ProtobufFraming::Bare => body.read(message, columns, record, faults),
            ProtobufFraming::Registry => body.read(header::protobuf(message)?.body, columns, record, faults),
        });
        Ok(())
    }

    fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    fn kind(&self) -> Kind {
        KIND
    }
}

/// Reads a file of messages, each with its length before it.
pub struct ProtobufDecoder {
    rows: ProtobufRows,
    spans: Vec<Range<usize>>,
}

impl ProtobufDecoder {
    /// A decoder of these columns.
    ///
    /// # Errors
    /// `Config` for a column that the message lacks or that cannot hold what it has.
    pub fn new(format: &ProtobufFormat, wanted: Wanted) -> Result<Self> {
        Ok(ProtobufDecoder { rows: ProtobufRows::new(format, wanted)?, spans: Vec::new() })
    }
}

impl Decoder for ProtobufDecoder {
    fn begin(&mut self, _: &[u8], _: bool) -> Result<Option<usize>> {
        Ok(Some(0))
    }

    fn decode(&mut self, input: &[u8], last: bool, max_rows: usize) -> Result<Decoded> {
        self.spans.clear();
        let mut at = 0;
        while at < input.len() && self.spans.len() < max_rows {
            let mut reader = Reader::new(&input[at..]);
            let length = match reader.varint() {
                Ok(length) => usize::try_from(length).unwrap_or(usize::MAX),
                Err(_) if !last && input.len() - at < 10 => break,
                Err(broken) => return Err(Error::external(format!("the length of a message is broken: {broken}"))),
            };
            if length > MAX_RECORD {
                return Err(Error::data(format!("a message of {length} bytes is longer than {MAX_RECORD}")));
            }
            let start = at + reader.at();
            if input.len() - start < length {
                if last {
                    return Err(Error::external("ends within a message, it is truncated"));
                }
                break;
            }
            self.spans.push(start..start + length);
            at = start + length;
        }
        let rows: Vec<&[u8]> = self.spans.iter().map(|span| &input[span.clone()]).collect();
        Ok(Rows::decode(&mut self.rows, &rows)?.into_decoded(at, Framed::At(&self.spans)))
    }
}

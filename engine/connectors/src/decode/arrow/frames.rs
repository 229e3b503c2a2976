//! The messages of Arrow IPC one by one, and what the library makes of each.

use super::check::{self, Claims};
use ::arrow::array::{Array, ArrayRef, RecordBatch};
use ::arrow::buffer::Buffer;
use ::arrow::datatypes::{DataType, SchemaRef};
use ::arrow::error::ArrowError;
use ::arrow::ipc::convert::fb_to_schema;
use ::arrow::ipc::reader::{RecordBatchDecoder, read_dictionary};
use ::arrow::ipc::{Message, MessageHeader, RecordBatch as Body, Schema as WireSchema, root_as_message};
use std::collections::HashMap;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What is wrong with a message, and where it begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) what: String,
    pub(super) at: u64,
}

impl Broken {
    pub(super) fn at(at: u64, what: impl Into<String>) -> Self {
        Broken { what: what.into(), at }
    }
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Schema,
    Dictionary,
    Batch,
    Other,
}

/// A message and the bytes behind it.
pub(super) struct Frame {
    meta: Vec<u8>,
    body: Buffer,
    at: u64,
    kind: Kind,
}

impl Frame {
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn at(&self) -> u64 {
        self.at
    }

    fn message(&self) -> Result<Message<'_>, Broken> {
        root_as_message(&self.meta).map_err(|error| Broken::at(self.at, error.to_string()))
    }
}

/// Reads messages one behind the other.
pub(super) struct Frames<R> {
    reader: R,
    /// How many bytes were read.
    read: u64,
}

impl<R: Read> Frames<R> {
    pub(super) fn new(reader: R) -> Self {
        Frames { reader, read: 0 }
    }

    /// The same for a reader that has been moved.
    pub(super) fn at(reader: R, at: u64) -> Self {
        Frames { reader, read: at }
    }

    pub(super) fn read(&self) -> u64 {
        self.read
    }

    /// So many bytes, or fewer at the end. A length is believed only as far as bytes come.
    fn bytes(&mut self, length: usize) -> Result<Vec<u8>, Broken> {
        let mut bytes = Vec::with_capacity(length.min(1 << 16));
        let taken = self.reader.by_ref().take(length as u64).read_to_end(&mut bytes);
        let taken = taken.map_err(|error| Broken::at(self.read, error.to_string()))?;
        self.read += taken as u64;
        Ok(bytes)
    }

    fn number(&mut self) -> Result<Option<i32>, Broken> {
        let at = self.read;
        let bytes = self.bytes(4)?;
        match <[u8; 4]>::try_from(bytes.as_slice()) {
            Ok(bytes) => Ok(Some(i32::from_le_bytes(bytes))),
            Err(_) if bytes.is_empty() => Ok(None),
            Err(_) => Err(Broken::at(at, ENDS)),
        }
    }

    /// The next message; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Frame>, Broken> {
        let at = self.read;
        let wrong = |what: &str| Err(Broken::at(at, what));
        let Some(first) = self.number()? else { return Ok(None) };
        // Older writers leave the marker out.
        let length = if first == -1 { self.number()?.ok_or_else(|| Broken::at(at, ENDS))? } else { first };
        let Ok(length) = usize::try_from(length) else { return wrong("it has an impossible length") };
        if length == 0 {
            return Ok(None);
        }
        if length > check::MOST_META {
            return wrong("it is longer than any is");
        }
        let meta = self.bytes(length)?;
        if meta.len() < length {
            return wrong(ENDS);
        }
        let message = root_as_message(&meta).map_err(|error| Broken::at(at, error.to_string()))?;
        let Some(length) = usize::try_from(message.bodyLength()).ok().filter(|length| *length as u64 <= check::MOST_BYTES) else {
            return wrong("its data have an impossible length");
        };
        let kind = match message.header_type() {
            MessageHeader::Schema => Kind::Schema,
            MessageHeader::DictionaryBatch => Kind::Dictionary,
            MessageHeader::RecordBatch => Kind::Batch,
            MessageHeader::NONE => Kind::Other,
            _ => return wrong("it is of a kind that is not read"),
        };
        let body = self.bytes(length)?;
        if body.len() < length {
            return wrong(ENDS);
        }
        Ok(Some(Frame { meta, body: Buffer::from_vec(body), at, kind }))
    }

    /// The schema that a stream begins with.
    pub(super) fn schema(&mut self) -> Result<Ipc, Broken> {
        let Some(frame) = self.next()? else { return Err(Broken::at(0, "there is no schema")) };
        let message = frame.message()?;
        let Some(schema) = message.header_as_schema() else { return Err(Broken::at(0, "it does not begin with a schema")) };
        Ipc::new(schema).map_err(|what| Broken::at(0, what))
    }
}

const ENDS: &str = "it ends too early";

/// What is known beside a message: the schema and the dictionaries.
pub(super) struct Ipc {
    schema: SchemaRef,
    dictionaries: HashMap<i64, ArrayRef>,
    /// Bytes that messages have become.
    made: u64,
}

impl Ipc {
    pub(super) fn new(schema: WireSchema<'_>) -> Result<Self, &'static str> {
        check::schema(&schema)?;
        Ok(Ipc { schema: Arc::new(fb_to_schema(schema)), dictionaries: HashMap::new(), made: 0 })
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// How many bytes all messages together have become.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    fn admit<'t>(&mut self, frame: &Frame, body: &Body<'_>, types: impl Iterator<Item = &'t DataType>) -> Result<(), Broken> {
        let claims = Claims::of(body, &frame.body, types).map_err(|what| Broken::at(frame.at, what))?;
        self.made = self.made.saturating_add(claims.bytes);
        Ok(())
    }

    /// The rows of a batch, in these columns or all.
    pub(super) fn batch(&mut self, frame: &Frame, columns: Option<&[usize]>) -> Result<RecordBatch, Broken> {
        let message = frame.message()?;
        let body = message.header_as_record_batch().ok_or_else(|| Broken::at(frame.at, "it has no rows"))?;
        let schema = Arc::clone(&self.schema);
        self.admit(frame, &body, schema.fields().iter().map(|field| field.data_type()))?;
        contained(frame.at, || {
            RecordBatchDecoder::try_new(&frame.body, body, schema, &self.dictionaries, &message.version())?
                .with_projection(columns)
                .read_record_batch()
        })
    }

    /// Takes a dictionary, or what is added to one.
    pub(super) fn dictionary(&mut self, frame: &Frame) -> Result<(), Broken> {
        let wrong = |what: &str| Broken::at(frame.at, what);
        let message = frame.message()?;
        let dictionary = message.header_as_dictionary_batch().ok_or_else(|| wrong("it is no dictionary"))?;
        let body = dictionary.data().ok_or_else(|| wrong("it is a dictionary without data"))?;
        let schema = Arc::clone(&self.schema);
        #[allow(deprecated, reason = "the library tells dictionaries apart by the same call")]
        let field = schema.fields_with_dict_id(dictionary.id()).into_iter().next();
        let Some(DataType::Dictionary(_, values)) = field.map(|field| field.data_type()) else {
            return Err(wrong("it is a dictionary of no column"));
        };
        self.admit(frame, &body, std::iter::once(values.as_ref()))?;
        contained(frame.at, || read_dictionary(&frame.body, dictionary, &schema, &mut self.dictionaries, &message.version()))?;
        let kept: usize = self.dictionaries.values().map(|values| values.get_buffer_memory_size()).sum();
        if kept as u64 > check::MOST_BYTES { Err(wrong("its dictionaries become too large")) } else { Ok(()) }
    }
}

/// Lets the library read a message. Its arrays are made by constructors that assert what they were promised; all the promises that
/// are known were looked at before, but whether these are all of them, only the library could tell. One that was missed costs
/// the message and not the process. Nothing half made is kept: the caller gives the input up.
fn contained<T>(at: u64, read: impl FnOnce() -> Result<T, ArrowError>) -> Result<T, Broken> {
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(read) => read.map_err(|error| Broken::at(at, error.to_string())),
        Err(_) => Err(Broken::at(at, "the library cannot read it")),
    }
}

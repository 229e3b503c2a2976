//! Object container files: a header with the schema, then blocks of values between marks.
//!
//! A block is read as a whole: it may hold more rows than were asked for, since nobody can go on in the middle of it. Values in a
//! block do not tell where the next begins, so a broken one damages the file, not a row.

use super::super::cells::Faults;
use super::super::column::{BytesAs, Column, columns};
use super::super::rows::{Framed, Rows};
use super::super::{Decoded, Decoder, MAX_RECORD, Wanted};
use super::body::{Broken, Cursor, Read};
use super::plan::Plan;
use super::schema::Schema;
use arrow::datatypes::SchemaRef;
use flate2::read::DeflateDecoder;
use std::borrow::Cow;
use std::io::{self, Read as _};
use tidegate_api::{Error, Result};

const MAGIC: [u8; 4] = *b"Obj\x01";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Codec {
    Null,
    Deflate,
    Zstd,
}

struct Header {
    schema: Schema,
    codec: Codec,
    mark: [u8; 16],
}

/// Reads a container file.
pub struct AvroContainer {
    wanted: Wanted,
    file: Option<(Header, Plan)>,
}

impl AvroContainer {
    /// A reader of these columns.
    ///
    /// # Errors
    /// `Config` for a column that Avro cannot hold.
    pub fn new(wanted: Wanted) -> Result<Self> {
        columns(wanted.decoded(), 0, BytesAs::Base64, "Avro")?;
        Ok(AvroContainer { wanted, file: None })
    }
}

fn damaged(what: impl std::fmt::Display) -> Error {
    Error::external(format!("cannot be read as an Avro file: {what}"))
}

/// The header at the beginning of a file and its length; `None` if it is not whole.
fn header(input: &[u8], last: bool) -> Result<Option<(Header, usize)>> {
    let Some(magic) = input.first_chunk::<4>() else {
        return if last { Err(damaged("it is too short")) } else { Ok(None) };
    };
    if *magic != MAGIC {
        return Err(damaged("it does not begin as one"));
    }
    let mut cursor = Cursor::new(input);
    let (mut json, mut codec) = (None, Codec::Null);
    let mut unknown = None;
    let read = (|| -> Read<[u8; 16]> {
        cursor.take(4)?;
        cursor.items(|cursor| {
            let (key, value) = (cursor.bytes()?, cursor.bytes()?);
            match key {
                b"avro.schema" => json = Some(value),
                b"avro.codec" => match value {
                    b"null" | b"" => codec = Codec::Null,
                    b"deflate" => codec = Codec::Deflate,
                    b"zstandard" => codec = Codec::Zstd,
                    other => unknown = Some(String::from_utf8_lossy(other).into_owned()),
                },
                _ => {}
            }
            Ok(())
        })?;
        cursor.array()
    })();
    let mark = match read {
        Ok(mark) => mark,
        Err(_) if !last && input.len() < MAX_RECORD => return Ok(None),
        Err(broken) => return Err(damaged(format!("its header is broken: {broken}"))),
    };
    if let Some(codec) = unknown {
        return Err(Error::config(format!("the codec `{codec}` is not available, use `deflate` or `zstandard`")));
    }
    let json = json.and_then(|json| std::str::from_utf8(json).ok()).ok_or_else(|| damaged("its header has no schema"))?;
    Ok(Some((Header { schema: Schema::parse(json)?, codec, mark }, cursor.at())))
}

/// The columns of a file, from its beginning.
///
/// # Errors
/// `External` if it is no Avro file, `Config` if its schema has no columns for it.
pub fn infer(input: &[u8], last: bool) -> Result<SchemaRef> {
    match header(input, last)? {
        Some((header, _)) => header.schema.to_arrow(),
        None => Err(damaged("its header is too long")),
    }
}

/// A block of the file.
struct Block<'a> {
    count: usize,
    body: &'a [u8],
    length: usize,
}

/// The block at the beginning; `None` if it is not whole.
fn block<'a>(input: &'a [u8], mark: &[u8; 16], last: bool) -> Result<Option<Block<'a>>> {
    let mut cursor = Cursor::new(input);
    let read = (|| -> Read<(i64, i64, usize)> { Ok((cursor.long()?, cursor.long()?, cursor.at())) })();
    let (count, size, at) = match read {
        Ok(read) => read,
        Err(_) if !last && input.len() < 20 => return Ok(None),
        Err(broken) => return Err(damaged(broken)),
    };
    let (Ok(count), Ok(size)) = (usize::try_from(count), usize::try_from(size)) else {
        return Err(damaged("a block has a negative length"));
    };
    if size > MAX_RECORD {
        return Err(damaged(format!("a block is longer than {MAX_RECORD} bytes")));
    }
    let Some(found) = input.get(at + size..at + size + 16) else {
        return if last { Err(damaged("it ends within a block")) } else { Ok(None) };
    };
    if found != mark {
        return Err(damaged("the mark behind a block is another"));
    }
    Ok(Some(Block { count, body: &input[at..at + size], length: at + size + 16 }))
}

fn inflated(body: &[u8], codec: Codec) -> Result<Cow<'_, [u8]>> {
    let whole = |reader: &mut dyn io::Read| {
        let mut bytes = Vec::new();
        reader
            .take(MAX_RECORD as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| damaged("a block cannot be decompressed").caused_by(error))?;
        if bytes.len() > MAX_RECORD {
            return Err(damaged(format!("a block is longer than {MAX_RECORD} bytes")));
        }
        Ok(Cow::Owned(bytes))
    };
    match codec {
        Codec::Null => Ok(Cow::Borrowed(body)),
        Codec::Deflate => whole(&mut DeflateDecoder::new(body)),
        Codec::Zstd => {
            let mut reader =
                zstd::stream::read::Decoder::new(body).map_err(|error| damaged("a block cannot be decompressed").caused_by(error))?;
            whole(&mut reader)
        }
    }
}

impl Decoder for AvroContainer {
    fn begin(&mut self, input: &[u8], last: bool) -> Result<Option<usize>> {
        let Some((header, length)) = header(input, last)? else { return Ok(None) };
        let plan = Plan::of(&header.schema, &self.wanted)?;
        self.file = Some((header, plan));
        Ok(Some(length))
    }

    fn decode(&mut self, input: &[u8], last: bool, max_rows: usize) -> Result<Decoded> {
        let mut columns = columns(self.wanted.decoded(), max_rows.min(1 << 13), BytesAs::Base64, "Avro")?;
        let mut faults = Faults::default();
        let (mut at, mut spans, mut bytes) = (0, Vec::new(), 0);
        if let Some((header, plan)) = &self.file {
            // Few bytes may be many when they are decompressed.
            while at < input.len() && spans.len() < max_rows && bytes < MAX_RECORD {
                let Some(block) = block(&input[at..], &header.mark, last)? else { break };
                let body = inflated(block.body, header.codec)?;
                // A value of no bytes at all is possible, but not as many as a count can claim.
                if block.count > body.len().max(1 << 16) {
                    return Err(damaged(format!("a block of {} bytes claims {} values", body.len(), block.count)));
                }
                bytes += body.len();
                let mut cursor = Cursor::new(&body);
                let broken = |broken: Broken| damaged(format!("a value in the block is broken: {broken}"));
                for _ in 0..block.count {
                    plan.read_record(&header.schema, &mut cursor, &mut columns, spans.len(), &mut faults).map_err(broken)?;
                    spans.push(at..at);
                }
                if !cursor.is_empty() {
                    return Err(damaged("a block is longer than its values"));
                }
                at += block.length;
            }
        }
        let arrays = columns.into_iter().map(Column::finish).collect::<Result<Vec<_>>>()?;
        let rows = Rows::settle(&self.wanted, arrays, faults, spans.len(), |_| &[])?;
        Ok(rows.into_decoded(at, Framed::At(&spans)))
    }
}

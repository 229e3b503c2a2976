//! Object container files: a header with the schema, then blocks of values between marks.
//!
//! A place in a file is that of a block and a number of records in it. To go on there, the block is decompressed once more and
//! what comes before is read and thrown away; so what is wrong with it is found again, and the same.

use super::super::column::Column;
use super::super::rows::{Framed, Rows};
use super::super::{Decoded, Decoder, MAX_RECORD, Wanted};
use super::KIND;
use super::block::{Block, Codec, Made};
use super::body::{Cursor, Read};
use super::plan::Plan;
use super::schema::Schema;
use arrow::datatypes::SchemaRef;
use tidegate_api::{Error, Result};

const MAGIC: [u8; 4] = *b"Obj\x01";

pub(super) struct Header {
    pub(super) schema: Schema,
    pub(super) codec: Codec,
    pub(super) mark: [u8; 16],
}

/// Reads a container file.
pub struct AvroContainer {
    wanted: Wanted,
    file: Option<(Header, Plan)>,
    /// The block at the beginning of the input, if it is begun.
    block: Option<Block>,
    /// Records to be passed over in the next block.
    skip: u64,
}

impl AvroContainer {
    /// A reader of these columns.
    ///
    /// # Errors
    /// `Config` for a column that Avro cannot hold.
    pub fn new(wanted: Wanted) -> Result<Self> {
        KIND.columns(&wanted, 0)?;
        Ok(AvroContainer { wanted, file: None, block: None, skip: 0 })
    }
}

pub(super) fn damaged(what: impl std::fmt::Display) -> Error {
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
                    b"snappy" => codec = Codec::Snappy,
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
        return Err(Error::config(format!("the codec `{codec}` is not available, use `deflate`, `snappy` or `zstandard`")));
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

impl Decoder for AvroContainer {
    fn begin(&mut self, input: &[u8], last: bool) -> Result<Option<usize>> {
        let Some((header, length)) = header(input, last)? else { return Ok(None) };
        let plan = Plan::of(&header.schema, &self.wanted)?;
        self.file = Some((header, plan));
        Ok(Some(length))
    }

    fn decode(&mut self, input: &[u8], last: bool, max_rows: usize) -> Result<Decoded> {
        let Some((header, plan)) = &self.file else { return Err(Error::internal("an Avro file is read before its header")) };
        let mut made = Made::new(&self.wanted, max_rows)?;
        let (mut at, mut bytes) = (0, 0);
        // Few bytes may be many when they are decompressed.
        while at < input.len() && made.records() < max_rows && bytes < MAX_RECORD {
            let rest = &input[at..];
            let mut block = match self.block.take() {
                Some(block) => block,
                None => match Block::open(rest, header, last) {
                    Ok(Some(mut block)) => {
                        block.pass_over(std::mem::take(&mut self.skip), rest, header, plan, &self.wanted)?;
                        block
                    }
                    Ok(None) => break,
                    // What stands before the damage is answered first.
                    Err(_) if at > 0 => break,
                    Err(error) => return Err(error),
                },
            };
            bytes += block.read(rest, header, plan, &self.wanted, max_rows - made.records(), at, &mut made);
            if block.is_done(rest) {
                at += block.length();
            } else {
                self.block = Some(block);
                break;
            }
        }
        let Made { columns, faults, spans, raws, .. } = made;
        let arrays = columns.into_iter().map(Column::finish).collect::<Result<Vec<_>>>()?;
        let raw = |record: usize| raws.binary_search_by_key(&record, |(of, _)| *of).map_or(&[][..], |found| &raws[found].1);
        let rows = Rows::settle(&self.wanted, arrays, faults, spans.len(), raw)?;
        Ok(rows.into_decoded(at, Framed::At(&spans)))
    }

    fn within(&self) -> u64 {
        self.block.as_ref().map_or(self.skip, Block::taken)
    }

    fn go_on(&mut self, within: u64) -> Result<()> {
        self.skip = within;
        Ok(())
    }
}

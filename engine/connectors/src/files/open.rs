//! One open file of any format, read from a position on.

use super::compression::Compression;
use super::config::{FilesSourceConfig, Format};
use super::input::Input;
use super::place::{Chunks, Place};
use crate::decode::avro::AvroContainer;
use crate::decode::csv::CsvDecoder;
use crate::decode::json::JsonDecoder;
use crate::decode::parquet::{self, ParquetFile};
use crate::decode::protobuf::{ProtobufDecoder, ProtobufFormat};
use crate::decode::raw::RawDecoder;
use crate::decode::{Decoder, MAX_RECORD, Wanted, arrow, avro, infer, raw};
use ::arrow::array::{RecordBatch, UInt64Array};
use ::arrow::datatypes::SchemaRef;
use std::io::Read;
use tidegate_api::{BadReason, BadRow, Error, Ordinals, Position, Result, ResultExt};

/// How much of a record that is too long goes to the bad rows.
const SHOWN: usize = 4 << 10;

/// Where reading goes on: bytes of a text, and records of a block that begins there; row group and row of Parquet; record batch and
/// row of Arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct At {
    pub(super) major: u64,
    pub(super) minor: u64,
    /// The number of the next row in the file.
    pub(super) row: u64,
}

impl At {
    pub(super) fn position(self) -> Position {
        Position(format!("{}:{}:{}", self.major, self.minor, self.row).into_bytes())
    }

    pub(super) fn parse(position: &Position) -> Option<Self> {
        let mut numbers = std::str::from_utf8(&position.0).ok()?.split(':').map(str::parse);
        let at = At { major: numbers.next()?.ok()?, minor: numbers.next()?.ok()?, row: numbers.next()?.ok()? };
        numbers.next().is_none().then_some(at)
    }
}

/// Rows of a file that stand together.
pub(super) struct Rows {
    pub(super) rows: RecordBatch,
    pub(super) bad: Vec<BadRow>,
    pub(super) ordinals: Ordinals,
    pub(super) at: At,
}

/// An open file.
pub(super) enum OpenFile {
    Text { input: Input, decoder: Box<dyn Decoder>, row: u64 },
    Parquet(Box<ParquetFile<Chunks>>),
    Arrow { input: Box<arrow::ArrowInput>, row: u64 },
}

/// Format and compression of a file.
pub(super) fn form(config: &FilesSourceConfig, path: &Place) -> Result<(Format, Compression)> {
    let format = config.format.or_else(|| Format::of(path.path())).ok_or_else(|| {
        Error::config(format!(
            "`{}`: the name does not say what is in it, set `format` to `json`, `csv`, `parquet`, `arrow`, `avro`, `protobuf` or `raw`",
            path
        ))
    })?;
    let compression = match format {
        // They compress their own pages and blocks.
        Format::Parquet | Format::Avro => Compression::None,
        Format::Json | Format::Csv | Format::Arrow | Format::Protobuf | Format::Raw => {
            config.compression.unwrap_or_else(|| Compression::of(path.path()))
        }
    };
    Ok((format, compression))
}

fn unreadable(error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::external("ends too early, it is truncated").caused_by(error),
        // Said by the reader in the words of this crate.
        std::io::ErrorKind::InvalidInput => Error::external(error.to_string()),
        _ => Error::external("cannot be read").caused_by(error),
    }
}

fn place(path: &Place) -> String {
    format!("file `{}`", path)
}

/// The first bytes of a file, and whether they are all of it.
fn beginning(path: &Place, compression: Compression, most: usize) -> Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    let reader = compression.reader(path.open()?).map_err(unreadable)?;
    reader.take(most as u64).read_to_end(&mut bytes).map_err(unreadable)?;
    let all = bytes.len() < most;
    Ok((bytes, all))
}

/// A schema that nobody declared.
pub(super) struct Inferred {
    pub(super) schema: SchemaRef,
    /// Whether it is what the file looks like, so that another file might give another.
    pub(super) sampled: bool,
}

/// The schema of a file that nobody declared.
pub(super) fn infer_schema(config: &FilesSourceConfig, path: &Place) -> Result<Inferred> {
    const SAMPLE_BYTES: usize = 4 << 20;
    let sampled = |schema| Inferred { schema, sampled: true };
    let infer = || {
        let (format, compression) = form(config, path)?;
        let sample = || beginning(path, compression, SAMPLE_BYTES);
        match format {
            Format::Csv => sample().and_then(|(bytes, all)| infer::csv(&config.csv, &bytes, all, config.infer_sample)).map(sampled),
            Format::Json => sample().and_then(|(bytes, all)| infer::json(&bytes, all, config.infer_sample)).map(sampled),
            Format::Avro => sample().and_then(|(bytes, all)| avro::infer(&bytes, all)).map(sampled),
            Format::Protobuf => Ok(Inferred { schema: protobuf_of(config)?.schema()?, sampled: false }),
            Format::Raw => Ok(Inferred { schema: raw::schema(), sampled: false }),
            Format::Parquet => path.open().map(Chunks::from).and_then(|file| parquet::schema_of(&file)).map(sampled),
            Format::Arrow => {
                let schema = if is_arrow_file(path, compression)? {
                    arrow::file_schema(Box::new(path.open()?))?
                } else {
                    arrow::stream_schema(compression.reader(path.open()?).map_err(unreadable)?)?
                };
                Ok(sampled(schema))
            }
        }
    };
    infer().context(|| place(path))
}

fn protobuf_of(config: &FilesSourceConfig) -> Result<&ProtobufFormat> {
    config.protobuf.as_ref().ok_or_else(|| Error::config("the format `protobuf` needs `descriptor` and `message`"))
}

fn is_arrow_file(path: &Place, compression: Compression) -> Result<bool> {
    let (bytes, _) = beginning(path, compression, arrow::FILE_MAGIC.len())?;
    let is_file = arrow::is_file(&bytes);
    if is_file && compression != Compression::None {
        return Err(Error::config("an Arrow file must be read out of order, so it cannot be compressed as a whole; use an Arrow stream"));
    }
    Ok(is_file)
}

impl OpenFile {
    /// Opens a file at a position.
    pub(super) fn open(config: &FilesSourceConfig, path: &Place, wanted: &Wanted, at: At) -> Result<Self> {
        OpenFile::open_inside(config, path, wanted, at).context(|| place(path))
    }

    fn open_inside(config: &FilesSourceConfig, path: &Place, wanted: &Wanted, at: At) -> Result<Self> {
        let (format, compression) = form(config, path)?;
        let decoder: Box<dyn Decoder> = match format {
            Format::Csv => Box::new(CsvDecoder::new(config.csv.clone(), wanted.clone())?),
            Format::Json => Box::new(JsonDecoder::new(wanted.clone())?),
            Format::Avro => Box::new(AvroContainer::new(wanted.clone())?),
            Format::Protobuf => Box::new(ProtobufDecoder::new(protobuf_of(config)?, wanted.clone())?),
            Format::Raw => Box::new(RawDecoder::new(wanted.clone())?),
            Format::Parquet => {
                let file = ParquetFile::open(path.open()?.into(), wanted.clone(), parquet::Place { group: at.major, row: at.minor })?;
                return Ok(OpenFile::Parquet(Box::new(file)));
            }
            Format::Arrow => {
                let wanted = wanted.clone();
                let input = if is_arrow_file(path, compression)? {
                    arrow::ArrowInput::file(Box::new(path.open()?), wanted, at.major, at.minor)?
                } else {
                    arrow::ArrowInput::stream(compression.reader(path.open()?).map_err(unreadable)?, wanted, at.major, at.minor)?
                };
                return Ok(OpenFile::Arrow { input: Box::new(input), row: at.row });
            }
        };
        let (input, mut decoder) = begun(path, compression, decoder)?;
        decoder.go_on(at.minor)?;
        if at.major <= input.offset() {
            return Ok(OpenFile::Text { input, decoder, row: at.row });
        }
        let input = Input::open(path.open()?, compression, at.major).map_err(unreadable)?;
        Ok(OpenFile::Text { input, decoder, row: at.row })
    }

    /// The next rows; `None` at the end.
    pub(super) fn read(&mut self, path: &Place, max_rows: usize, max_bytes: usize, ordinals: bool) -> Result<Option<Rows>> {
        let read = match self {
            OpenFile::Text { input, decoder, row } => read_text(input, decoder.as_mut(), row, max_rows, max_bytes, ordinals),
            OpenFile::Parquet(file) => file.read(max_rows).map(|read| {
                read.map(|read| {
                    let at = At { major: read.next.group, minor: read.next.row, row: read.first + read.records as u64 };
                    rows(read.rows, read.bad, read.first, read.records, at, ordinals)
                })
            }),
            OpenFile::Arrow { input, row } => input.read(max_rows).map(|batch| {
                batch.map(|batch| {
                    let first = *row;
                    *row += batch.records as u64;
                    let at = At { major: batch.next_batch, minor: batch.next_row, row: *row };
                    rows(batch.rows, batch.bad, first, batch.records, at, ordinals)
                })
            }),
        };
        read.context(|| place(path))
    }
}

/// A text file whose header has been read.
fn begun(path: &Place, compression: Compression, mut decoder: Box<dyn Decoder>) -> Result<(Input, Box<dyn Decoder>)> {
    let mut input = Input::open(path.open()?, compression, 0).map_err(unreadable)?;
    let mut window = 1 << 14;
    loop {
        input.fill(window).map_err(unreadable)?;
        match decoder.begin(input.bytes(), input.ended())? {
            Some(header) => {
                input.consume(header);
                return Ok((input, decoder));
            }
            None if input.ended() => return Err(Error::external("ends within its header")),
            None => window *= 2,
        }
    }
}

fn read_text(
    input: &mut Input,
    decoder: &mut dyn Decoder,
    row: &mut u64,
    max_rows: usize,
    max_bytes: usize,
    ordinals: bool,
) -> Result<Option<Rows>> {
    let mut window = max_bytes.clamp(1 << 12, 4 << 20);
    loop {
        input.fill(window).map_err(unreadable)?;
        if input.bytes().is_empty() {
            return Ok(None);
        }
        let limit = input.bytes().len().min(window);
        let last = input.ended() && limit == input.bytes().len();
        let decoded = decoder.decode(&input.bytes()[..limit], last, max_rows.max(1))?;
        if decoded.consumed == 0 && decoded.records == 0 {
            if window >= MAX_RECORD && decoder.ends_in_lines() {
                let first = std::mem::replace(row, *row + 1);
                let bad = too_long(input, window, first)?;
                let at = At { major: input.offset(), minor: 0, row: *row };
                return Ok(Some(Rows { rows: decoded.rows, bad: vec![bad], ordinals: numbered(first, 1, &[0], ordinals), at }));
            }
            if window >= MAX_RECORD {
                return Err(Error::data(format!("the record at byte {} is longer than {MAX_RECORD} bytes", input.offset())));
            }
            window *= 2;
            continue;
        }
        let (first, start) = (*row, input.offset());
        input.consume(decoded.consumed);
        *row += decoded.records as u64;
        let at = At { major: input.offset(), minor: decoder.within(), row: *row };
        let numbers: Vec<usize> = decoded.bad.iter().map(|bad| bad.record).collect();
        let bad = decoded.bad.into_iter().map(|bad| {
            let (byte, number) = (start + bad.offset as u64, first + bad.record as u64);
            bad.row.at(format!("row {number}, byte {byte}"))
        });
        let bad = bad.collect();
        return Ok(Some(Rows { rows: decoded.rows, bad, ordinals: numbered(first, decoded.records, &numbers, ordinals), at }));
    }
}

/// Passes over a record that is longer than the `seen` bytes at hand, up to the end of a line; what is known of it is its beginning.
fn too_long(input: &mut Input, seen: usize, row: u64) -> Result<BadRow> {
    let start = input.offset();
    let raw = input.bytes()[..SHOWN.min(input.bytes().len())].to_vec();
    input.consume(seen.min(input.bytes().len()));
    loop {
        input.fill(1 << 20).map_err(unreadable)?;
        let rest = input.bytes();
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (length, done) = (end.map_or(rest.len(), |end| end + 1), end.is_some() || input.ended());
        input.consume(length);
        if done {
            let message = format!("a record of {} bytes is longer than {MAX_RECORD}", input.offset() - start);
            return Ok(BadRow::new(BadReason::TooLarge, message, raw).at(format!("row {row}, byte {start}")));
        }
    }
}

/// Rows that came typed.
fn rows(
    batch: RecordBatch,
    bad: Vec<(usize, crate::decode::CellError, Vec<u8>)>,
    first: u64,
    records: usize,
    at: At,
    ordinals: bool,
) -> Rows {
    let numbers: Vec<usize> = bad.iter().map(|(record, _, _)| *record).collect();
    let bad = bad.into_iter().map(|(record, fault, raw)| fault.into_row(raw).at(format!("row {}", first + record as u64)));
    let bad = bad.collect();
    Rows { rows: batch, bad, ordinals: numbered(first, records, &numbers, ordinals), at }
}

/// A row's ordinal is its number in the file, bad rows counted.
fn numbered(first: u64, records: usize, bad: &[usize], wanted: bool) -> Ordinals {
    if !wanted {
        return Ordinals::None;
    }
    if bad.is_empty() {
        return Ordinals::From(first);
    }
    let good = (0..records).filter(|record| bad.binary_search(record).is_err());
    Ordinals::Each(UInt64Array::from_iter_values(good.map(|record| first + record as u64)))
}

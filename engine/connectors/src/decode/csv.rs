//! CSV as RFC 4180 has it: a quoted field may hold delimiters, line ends and doubled quotes; lines end with LF or CRLF; blank
//! lines are skipped. Columns are matched by the names of the header, and only the wanted ones are looked at.
//!
//! An unquoted field that is one of the null values is null. A quoted field of a column of text or bytes never is, so that an empty
//! one survives; for other types quoting makes no difference.

use super::cells::{Cell, Faults};
use super::column::{BytesAs, Column, Kind, is_scalar};
use super::rows::{Framed, Rows, RowsDecoder};
use super::{Decoded, Decoder, MAX_RECORD, Wanted, byte_order_mark, unsupported};
use arrow::datatypes::DataType;
use std::ops::Range;
use std::sync::Arc;
use tidegate_api::nearest::hint;
use tidegate_api::{Error, Result};

const KIND: Kind = Kind { format: "CSV", bytes_as: BytesAs::Hex };

/// How the text is laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvFormat {
    /// Between fields.
    pub delimiter: u8,
    /// Whether the first line names the columns; if not, they are those of the schema, in its order.
    pub header: bool,
    /// What stands for null.
    pub null_values: Vec<String>,
}

impl Default for CsvFormat {
    fn default() -> Self {
        CsvFormat { delimiter: b',', header: true, null_values: vec![String::new()] }
    }
}

/// Where a field's text is.
#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the input, as it stands.
    Plain,
    /// In the input, between quotes.
    Quoted,
    /// In the scratch buffer, without its doubled quotes.
    Scratch,
    /// The record cannot be read.
    Broken,
}

const EMPTY: Span = Span { start: 0, end: 0, place: Place::Plain };

/// How a record ended.
enum Scan {
    /// At this byte, with so many fields.
    Record { next: usize, fields: usize, closed: bool },
    /// The input ends within it.
    Incomplete,
}

/// Decodes CSV.
pub struct CsvDecoder {
    format: CsvFormat,
    wanted: Wanted,
    /// For each column of the text, the wanted column it is.
    slots: Vec<Option<usize>>,
    spans: Vec<Span>,
    records: Vec<Range<usize>>,
    scratch: Vec<u8>,
}

impl CsvDecoder {
    /// A decoder of text laid out like this.
    ///
    /// # Errors
    /// `Config` for a column that CSV cannot hold.
    pub fn new(format: CsvFormat, wanted: Wanted) -> Result<Self> {
        if let Some(field) = wanted.decoded().iter().find(|field| !is_scalar(field.data_type())) {
            return Err(unsupported("CSV", field.name(), field.data_type()));
        }
        Ok(CsvDecoder { format, wanted, slots: Vec::new(), spans: Vec::new(), records: Vec::new(), scratch: Vec::new() })
    }

    /// Matches the wanted columns with the text's.
    fn bind(&mut self, names: &[&str]) -> Result<()> {
        self.slots = vec![None; names.len()];
        for (slot, field) in self.wanted.decoded().iter().enumerate() {
            let mut found = names.iter().enumerate().filter(|(_, name)| *name == field.name());
            let Some((index, _)) = found.next() else {
                return Err(Error::config(format!(
                    "the header has no column `{}`{}",
                    field.name(),
                    hint(field.name(), names.iter().copied())
                )));
            };
            if found.next().is_some() {
                return Err(Error::config(format!("the header names the column `{}` twice", field.name())));
            }
            self.slots[index] = Some(slot);
        }
        Ok(())
    }

    /// Finds the end of the record at `start` and notes the spans of its wanted fields, beginning at `base`.
    fn scan(&mut self, input: &[u8], start: usize, last: bool, base: usize) -> Scan {
        let rest = &input[start..];
        let stop = memchr::memchr2(b'\n', b'"', rest);
        let (line, next) = match stop {
            Some(at) if rest[at] == b'"' => return self.scan_quoted(input, start, last, base),
            Some(at) => (&rest[..at], start + at + 1),
            None if last => (rest, input.len()),
            None => return Scan::Incomplete,
        };
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let (mut from, mut fields) = (0, 0);
        for to in memchr::memchr_iter(self.format.delimiter, line).chain([line.len()]) {
            if let Some(Some(slot)) = self.slots.get(fields) {
                self.spans[base + slot] = Span { start: start + from, end: start + to, place: Place::Plain };
            }
            fields += 1;
            from = to + 1;
        }
        Scan::Record { next, fields, closed: true }
    }

    /// The same for a record that may have quotes, byte by byte.
    fn scan_quoted(&mut self, input: &[u8], start: usize, last: bool, base: usize) -> Scan {
        let delimiter = self.format.delimiter;
        let (mut at, mut fields) = (start, 0);
        loop {
            let span;
            if input.get(at) == Some(&b'"') {
                let (content, mut copied) = (at + 1, None);
                let mut from = content;
                at = content;
                loop {
                    let Some(quote) = memchr::memchr(b'"', &input[at..]) else {
                        return if last { Scan::Record { next: input.len(), fields: fields + 1, closed: false } } else { Scan::Incomplete };
                    };
                    at += quote + 1;
                    match input.get(at) {
                        Some(b'"') => {
                            copied.get_or_insert(self.scratch.len());
                            self.scratch.extend_from_slice(&input[from..at]);
                            at += 1;
                            from = at;
                        }
                        None if !last => return Scan::Incomplete,
                        _ => break,
                    }
                }
                let end = at - 1;
                // What follows the closing quote up to the delimiter belongs to the field, as lenient readers have it.
                let tail = memchr::memchr2(delimiter, b'\n', &input[at..]).map_or(input.len(), |tail| at + tail);
                if tail == input.len() && !last {
                    return Scan::Incomplete;
                }
                let trailing =
                    input[at..tail].strip_suffix(b"\r").filter(|_| input.get(tail) != Some(&delimiter)).unwrap_or(&input[at..tail]);
                if copied.is_some() || !trailing.is_empty() {
                    let begin = copied.unwrap_or(self.scratch.len());
                    self.scratch.extend_from_slice(&input[from..end]);
                    self.scratch.extend_from_slice(trailing);
                    span = Span { start: begin, end: self.scratch.len(), place: Place::Scratch };
                } else {
                    span = Span { start: content, end, place: Place::Quoted };
                }
                at = tail;
            } else {
                let to = memchr::memchr2(delimiter, b'\n', &input[at..]).map_or(input.len(), |to| at + to);
                if to == input.len() && !last {
                    return Scan::Incomplete;
                }
                let ends_line = input.get(to) != Some(&delimiter);
                let end = if ends_line && to > at && input[to - 1] == b'\r' { to - 1 } else { to };
                span = Span { start: at, end, place: Place::Plain };
                at = to;
            }
            if let Some(Some(slot)) = self.slots.get(fields) {
                self.spans[base + slot] = span;
            }
            fields += 1;
            match input.get(at) {
                Some(byte) if *byte == delimiter => at += 1,
                Some(_) => return Scan::Record { next: at + 1, fields, closed: true },
                None => return Scan::Record { next: at, fields, closed: true },
            }
        }
    }

    /// Appends a column of every record; `text_of` is what the spans of a record refer to.
    fn append<'a>(&'a self, text_of: impl Fn(usize) -> &'a [u8], slot: usize, column: &mut Column, faults: &mut Faults) {
        let width = self.wanted.decoded().len();
        let is_text = matches!(self.wanted.decoded()[slot].data_type(), DataType::Utf8View | DataType::Binary);
        let nulls: Vec<&[u8]> = self.format.null_values.iter().map(|value| value.as_bytes()).collect();
        let cell = |record: usize| {
            let span = self.spans[record * width + slot];
            let bytes =
                if span.place == Place::Scratch { &self.scratch[span.start..span.end] } else { &text_of(record)[span.start..span.end] };
            if span.place == Place::Broken {
                Cell::Masked
            } else if (span.place == Place::Plain || !is_text) && nulls.contains(&bytes) {
                Cell::Null
            } else {
                Cell::Text(bytes)
            }
        };
        column.append_cells(self.records.len(), cell, |record| record, faults);
    }
}

/// Reads messages that are one record each.
pub(super) struct CsvRows(CsvDecoder);

impl CsvRows {
    pub(super) fn new(format: CsvFormat, wanted: Wanted) -> Result<Self> {
        let mut decoder = CsvDecoder::new(CsvFormat { header: false, ..format }, wanted)?;
        decoder.begin(&[], true)?;
        Ok(CsvRows(decoder))
    }
}

impl RowsDecoder for CsvRows {
    fn decode(&mut self, rows: &[&[u8]], columns: &mut [Column], faults: &mut Faults) -> Result<()> {
        let decoder = &mut self.0;
        let width = decoder.wanted.decoded().len();
        decoder.records.clear();
        decoder.scratch.clear();
        decoder.spans.clear();
        decoder.spans.resize(rows.len() * width, EMPTY);
        let expected = decoder.slots.len();
        for (record, row) in rows.iter().enumerate() {
            decoder.records.push(0..row.len());
            let wrong = match decoder.scan(row, 0, true, record * width) {
                Scan::Record { closed: false, .. } => Some("a quoted field is never closed".to_string()),
                Scan::Record { next, .. } if next < row.len() => Some("something follows the record".to_string()),
                Scan::Record { fields, .. } if fields != expected => Some(format!("expected {expected} fields, found {fields}")),
                Scan::Record { .. } => None,
                Scan::Incomplete => Some("the record ends too early".to_string()),
            };
            if let Some(message) = wrong {
                faults.add_broken(record, &decoder.wanted, || message);
                decoder.spans[record * width..][..width].fill(Span { place: Place::Broken, ..EMPTY });
            }
        }
        for (slot, column) in columns.iter_mut().enumerate() {
            decoder.append(|record| rows[record], slot, column, faults);
        }
        Ok(())
    }

    fn wanted(&self) -> &Wanted {
        &self.0.wanted
    }

    fn kind(&self) -> Kind {
        KIND
    }
}

/// The names in a header line at the beginning of `input`, and where the next line begins; `None` if the line is not whole.
pub(super) fn header(format: &CsvFormat, input: &[u8], last: bool) -> Result<Option<(Vec<String>, usize)>> {
    let fields = split_record(format, input, last);
    let Some((fields, next)) = fields else {
        if last || input.len() < MAX_RECORD {
            return Ok(None);
        }
        return Err(Error::data(format!("the header is longer than {MAX_RECORD} bytes")));
    };
    let names = fields.into_iter().map(String::from_utf8).collect::<Result<Vec<_>, _>>();
    Ok(Some((names.map_err(|_| Error::data("the header is not UTF-8"))?, next)))
}

/// All fields of the first record, and where the next begins.
pub(super) fn split_record(format: &CsvFormat, input: &[u8], last: bool) -> Option<(Vec<Vec<u8>>, usize)> {
    const MOST_COLUMNS: usize = 65_536;
    let declared = Wanted::all(Arc::new(arrow::datatypes::Schema::empty()));
    let mut scanner = CsvDecoder {
        format: format.clone(),
        wanted: declared,
        slots: (0..MOST_COLUMNS).map(Some).collect(),
        spans: vec![EMPTY; MOST_COLUMNS],
        records: Vec::new(),
        scratch: Vec::new(),
    };
    match scanner.scan(input, 0, last, 0) {
        Scan::Incomplete => None,
        Scan::Record { next, fields, .. } => {
            let text = |span: &Span| match span.place {
                Place::Scratch => scanner.scratch[span.start..span.end].to_vec(),
                Place::Plain | Place::Quoted | Place::Broken => input[span.start..span.end].to_vec(),
            };
            Some((scanner.spans.iter().take(fields.min(MOST_COLUMNS)).map(text).collect(), next))
        }
    }
}

impl Decoder for CsvDecoder {
    fn begin(&mut self, input: &[u8], last: bool) -> Result<Option<usize>> {
        let Some(mark) = byte_order_mark(input, last) else { return Ok(None) };
        if !self.format.header {
            let declared = Arc::clone(&self.wanted.declared);
            let names: Vec<&str> = declared.fields().iter().map(|field| field.name().as_str()).collect();
            self.bind(&names)?;
            return Ok(Some(mark));
        }
        if last && input.len() == mark {
            // Nothing at all: no header, and no records to need one.
            return Ok(Some(mark));
        }
        let Some((names, next)) = header(&self.format, &input[mark..], last)? else { return Ok(None) };
        self.bind(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
        Ok(Some(mark + next))
    }

    fn ends_in_lines(&self) -> bool {
        true
    }

    fn decode(&mut self, input: &[u8], last: bool, max_rows: usize) -> Result<Decoded> {
        let width = self.wanted.decoded().len();
        self.records.clear();
        self.spans.clear();
        self.scratch.clear();
        let mut faults = Faults::default();
        let mut at = 0;
        while at < input.len() && self.records.len() < max_rows {
            if input[at] == b'\n' || input[at..].starts_with(b"\r\n") {
                at += if input[at] == b'\n' { 1 } else { 2 };
                continue;
            }
            let base = self.spans.len();
            self.spans.resize(base + width, EMPTY);
            match self.scan(input, at, last, base) {
                Scan::Incomplete => {
                    self.spans.truncate(base);
                    break;
                }
                Scan::Record { next, fields, closed } => {
                    let (record, expected) = (self.records.len(), self.slots.len());
                    if !closed || fields != expected {
                        faults.add_broken(record, &self.wanted, || {
                            if closed {
                                format!("expected {expected} fields, found {fields}")
                            } else {
                                "a quoted field is never closed".into()
                            }
                        });
                        self.spans[base..].fill(Span { place: Place::Broken, ..EMPTY });
                    }
                    self.records.push(at..next);
                    at = next;
                }
            }
        }
        let records = self.records.len();
        let mut columns = KIND.columns(&self.wanted, records)?;
        for (slot, column) in columns.iter_mut().enumerate() {
            self.append(|_| input, slot, column, &mut faults);
        }
        let arrays = columns.into_iter().map(Column::finish).collect::<Result<Vec<_>>>()?;
        let raw = |record: usize| trimmed(&input[self.records[record].clone()]);
        let rows = Rows::settle(&self.wanted, arrays, faults, records, raw)?;
        Ok(rows.into_decoded(at, Framed::At(&self.records)))
    }
}

/// Without its line end.
fn trimmed(record: &[u8]) -> &[u8] {
    let record = record.strip_suffix(b"\n").unwrap_or(record);
    record.strip_suffix(b"\r").unwrap_or(record)
}

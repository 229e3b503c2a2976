//! JSON lines: one object per line, unknown keys ignored, missing keys null.
//!
//! Scalars are taken as the text they are written in and parsed as CSV cells are, so a 64-bit integer stays exact and `1.5` is
//! no integer; a text column takes numbers and truth values as their text. Lists and objects inside a row are read as the
//! declared list and struct types.

use super::cells::{Cell, Faults, can_parse, parse};
use super::{BadRecord, Decoded, Decoder, Wanted, byte_order_mark};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::json::ReaderBuilder;
use std::ops::Range;
use std::sync::Arc;
use tidegate_api::{BadReason, BadRow, Result};

/// Decodes JSON lines.
pub struct JsonDecoder {
    wanted: Wanted,
    /// The wanted columns, scalars as text.
    raw: SchemaRef,
    parser: Option<arrow::json::reader::Decoder>,
    lines: Vec<Range<usize>>,
}

/// A part of the lines that went through, or the one that did not.
enum Part {
    Rows(RecordBatch),
    Bad(BadReason, String),
}

/// More rows than any call asks for, so that the parser never stops by itself.
const MANY: usize = 1 << 20;

/// How deep the values of a line may stand inside each other. The parser calls itself for every level, so without a limit one
/// hostile line could use up the stack.
const MAX_NESTING: usize = 128;

impl JsonDecoder {
    /// A decoder of these columns.
    pub fn new(wanted: Wanted) -> Self {
        // Without any wanted column the lines must still be checked; one column is enough for that.
        let checked: Vec<usize> =
            if wanted.columns.is_empty() { (0..wanted.declared.fields().len().min(1)).collect() } else { wanted.columns.clone() };
        let field = |index: &usize| {
            let field = wanted.declared.field(*index);
            let data_type = if can_parse(field.data_type()) { DataType::Utf8View } else { field.data_type().clone() };
            Field::new(field.name(), data_type, true)
        };
        let raw = Arc::new(Schema::new(checked.iter().map(field).collect::<Vec<_>>()));
        JsonDecoder { wanted, raw, parser: None, lines: Vec::new() }
    }

    /// Notes the lines at the beginning of `input`, blank ones left out; answers where the next begins.
    fn find_lines(&mut self, input: &[u8], last: bool, max_rows: usize) -> usize {
        self.lines.clear();
        let mut at = 0;
        while at < input.len() && self.lines.len() < max_rows {
            let end = match memchr::memchr(b'\n', &input[at..]) {
                Some(length) => at + length,
                None if last => input.len(),
                None => break,
            };
            if !input[at..end].iter().all(u8::is_ascii_whitespace) {
                self.lines.push(at..end);
            }
            at = (end + 1).min(input.len());
        }
        at
    }

    /// Parses lines `lines`, splitting them until what is bad stands alone. Every line is in exactly one part.
    fn parse(&mut self, input: &[u8], lines: Range<usize>, parts: &mut Vec<(Range<usize>, Part)>) -> Result<()> {
        let mut next = lines.start;
        // A loop, not a call for the rest: a batch may hold nothing but bad lines.
        while next < lines.end {
            next = self.parse_run(input, next..lines.end, parts)?;
        }
        Ok(())
    }

    /// Parses lines up to the first that the parser refuses, that one included; answers the line after them.
    fn parse_run(&mut self, input: &[u8], lines: Range<usize>, parts: &mut Vec<(Range<usize>, Part)>) -> Result<usize> {
        let end = lines.end;
        let mut parser = match self.parser.take() {
            Some(parser) => parser,
            None => ReaderBuilder::new(Arc::clone(&self.raw)).with_batch_size(MANY).with_coerce_primitive(true).build_decoder()?,
        };
        for (count, line) in lines.clone().enumerate() {
            let text = &input[self.lines[line].clone()];
            if let Err(message) = one_object(&mut parser, text, count + 1) {
                // The parser is in the middle of something and is given up; what it had taken is parsed again.
                self.parse(input, lines.start..line, parts)?;
                parts.push((line..line + 1, Part::Bad(BadReason::Malformed, message)));
                return Ok(line + 1);
            }
        }
        match parser.flush() {
            Ok(Some(rows)) if rows.num_rows() == lines.len() => {
                self.parser = Some(parser);
                parts.push((lines, Part::Rows(rows)));
            }
            _ if lines.len() > 1 => {
                let middle = lines.start + lines.len() / 2;
                self.parse(input, lines.start..middle, parts)?;
                self.parse(input, middle..lines.end, parts)?;
            }
            Ok(_) => parts.push((lines, Part::Bad(BadReason::Malformed, "expected one object".into()))),
            Err(error) => parts.push((lines, Part::Bad(BadReason::TypeMismatch, error.to_string()))),
        }
        Ok(end)
    }
}

/// Whether values stand deeper inside each other than [`MAX_NESTING`].
fn too_deep(line: &[u8]) -> bool {
    // Nearly every line has fewer brackets than levels are allowed, which is quick to see.
    if line.len() <= MAX_NESTING || memchr::memchr2_iter(b'[', b'{', line).nth(MAX_NESTING).is_none() {
        return false;
    }
    let (mut depth, mut in_text, mut escaped) = (0usize, false, false);
    for byte in line {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                if depth > MAX_NESTING {
                    return true;
                }
            }
            b']' | b'}' if !in_text => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    false
}

/// Feeds one line, which must be exactly one object.
fn one_object(parser: &mut arrow::json::reader::Decoder, line: &[u8], rows: usize) -> Result<(), String> {
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err("expected an object".into());
    }
    if too_deep(line) {
        return Err(format!("values are nested deeper than {MAX_NESTING} levels"));
    }
    let taken = parser.decode(line).map_err(|error| error.to_string())?;
    if taken != line.len() || parser.has_partial_record() {
        return Err("the object does not end with the line".into());
    }
    if parser.len() != rows {
        return Err("expected one object on the line".into());
    }
    Ok(())
}

impl Decoder for JsonDecoder {
    fn begin(&mut self, input: &[u8], last: bool) -> Result<Option<usize>> {
        Ok(byte_order_mark(input, last))
    }

    fn decode(&mut self, input: &[u8], last: bool, max_rows: usize) -> Result<Decoded> {
        let consumed = self.find_lines(input, last, max_rows.min(MANY));
        let records = self.lines.len();
        let mut parts = Vec::new();
        self.parse(input, 0..records, &mut parts)?;
        let mut good = Vec::with_capacity(records);
        let mut batches = Vec::new();
        let mut bad = Vec::new();
        for (lines, part) in parts {
            match part {
                Part::Rows(rows) => {
                    good.extend(lines);
                    batches.push(rows);
                }
                Part::Bad(reason, message) => bad.push((lines.start, reason, message)),
            }
        }
        let raw = match <[RecordBatch; 1]>::try_from(batches) {
            Ok([only]) => only,
            Err(batches) => concat_batches(&self.raw, &batches)?,
        };
        let mut faults = Faults::default();
        let columns = self.wanted.schema.fields().iter().zip(raw.columns()).map(|(field, column)| typed(field, column, &mut faults));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let columns = faults.strip(columns, good.len())?;
        let options = RecordBatchOptions::new().with_row_count(Some(faults.good(good.len())));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.wanted.schema), columns, &options)?;
        bad.extend(faults.into_iter().map(|(row, fault)| (good[row], fault.reason, fault.message)));
        bad.sort_by_key(|(line, _, _)| *line);
        let bad = bad.into_iter().map(|(line, reason, message)| {
            let span = self.lines[line].clone();
            let text = input[span.clone()].trim_ascii_end();
            BadRecord { record: line, offset: span.start, row: BadRow::new(reason, message, text) }
        });
        Ok(Decoded { rows, bad: bad.collect(), records, consumed })
    }
}

/// A column as its declared type.
fn typed(field: &Field, column: &ArrayRef, faults: &mut Faults) -> Result<ArrayRef> {
    if can_parse(field.data_type()) {
        if matches!(field.data_type(), DataType::Utf8View) && (field.is_nullable() || column.null_count() == 0) {
            return Ok(Arc::clone(column));
        }
        let texts = column.as_string_view();
        let cell = |row: usize| if texts.is_null(row) { Cell::Null } else { Cell::Text(texts.value(row)) };
        return parse(field, texts.len(), cell, faults);
    }
    if !field.is_nullable() {
        for row in (0..column.len()).filter(|row| column.is_null(*row)) {
            faults.add(row, BadReason::MissingValue, || format!("column `{}`: a value is missing", field.name()));
        }
    }
    Ok(Arc::clone(column))
}

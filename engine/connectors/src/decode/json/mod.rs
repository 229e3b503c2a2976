//! JSON: an object per line or per message, unknown keys ignored, missing keys null, the last of equal keys counts.
//!
//! Scalars are taken as the text they are written in and read as CSV cells are, so a 64-bit integer stays exact and `1.5` is
//! no integer; a text column takes numbers and truth values as their text. Lists and objects are read as the declared list and
//! struct types, bytes as Base64.
//!
//! Messages are read in blocks: first the places of their values, by a layout that was learned (`layout`) or by the full
//! parser (`scan`), then column by column (`values`).

mod keys;
mod layout;
mod scan;
mod values;

#[cfg(test)]
mod tests;

use super::cells::Faults;
use super::column::{BytesAs, Column, Kind};
use super::rows::{Framed, Rows, RowsDecoder};
use super::{Decoded, Decoder, Wanted, byte_order_mark};
use keys::Keys;
use layout::{Layouts, Outcome, Trace};
use scan::{ABSENT, Token};
use std::ops::Range;
use tidegate_api::Result;
use values::Source;

/// Messages read at a time: few enough that their bytes are still in the cache when their values are.
const BLOCK: usize = 256;

pub(super) const KIND: Kind = Kind { format: "JSON", bytes_as: BytesAs::Base64 };

/// Reads messages that are one object each.
pub(super) struct JsonRows {
    wanted: Wanted,
    keys: Keys,
    layouts: Option<Layouts>,
    trace: Trace,
    /// For every wanted column the values of a block.
    slots: Vec<Vec<Token>>,
    arena: Vec<u8>,
}

/// How values are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paths {
    /// By layouts that were learned, by the full parser where they do not fit.
    Fast,
    /// By the full parser alone.
    Full,
}

impl JsonRows {
    /// Reads these columns.
    ///
    /// # Errors
    /// `Config` for a column that JSON cannot hold.
    pub(super) fn new(wanted: Wanted, paths: Paths) -> Result<Self> {
        KIND.columns(&wanted, 0)?;
        let keys = Keys::new(wanted.decoded().iter().map(|field| field.name().as_str()));
        let slots = vec![vec![ABSENT; BLOCK]; wanted.decoded().len()];
        let layouts = (paths == Paths::Fast).then(Layouts::default);
        Ok(JsonRows { wanted, keys, layouts, trace: Trace::default(), slots, arena: Vec::new() })
    }

    /// Finds the values of a message.
    #[inline]
    fn find(&mut self, row: &[u8], index: usize, record: usize, faults: &mut Faults) {
        let Self { layouts, slots, arena, .. } = self;
        let outcome = match layouts {
            Some(layouts) => layouts.read(row, index, slots, |token| values::settle(row, token, arena)),
            None => Outcome::Parse,
        };
        match outcome {
            Outcome::Read => {}
            Outcome::Learn => {
                self.trace.clear();
                if self.parse::<true>(row, index, record, faults)
                    && let Some(layouts) = &mut self.layouts
                {
                    layouts.learn(row, &self.trace);
                }
            }
            Outcome::Parse => {
                self.parse::<false>(row, index, record, faults);
            }
        }
    }

    /// Finds the values of a message with the full parser; answers whether it is one.
    fn parse<const TRACED: bool>(&mut self, row: &[u8], index: usize, record: usize, faults: &mut Faults) -> bool {
        let Self { wanted, keys, trace, slots, arena, .. } = self;
        // A layout may have begun to fill them.
        slots.iter_mut().for_each(|slot| slot[index] = ABSENT);
        keys.begin();
        let read = scan::message(row, |key, mut value| {
            let slot = keys.find(row, key);
            if TRACED {
                trace.note(value, slot);
            }
            if let Some(slot) = slot {
                values::settle(row, &mut value, arena);
                slots[slot][index] = value;
            }
        });
        if let Err(broken) = read {
            slots.iter_mut().for_each(|slot| slot[index] = scan::MASKED);
            faults.add_broken(record, wanted, || broken.to_string());
        }
        read.is_ok()
    }
}

impl RowsDecoder for JsonRows {
    fn decode(&mut self, rows: &[&[u8]], columns: &mut [Column], faults: &mut Faults) -> Result<()> {
        for (number, block) in rows.chunks(BLOCK).enumerate() {
            let first = number * BLOCK;
            self.arena.clear();
            for slot in &mut self.slots {
                slot[..block.len()].fill(ABSENT);
            }
            for (index, row) in block.iter().enumerate() {
                self.find(row, index, first + index, faults);
            }
            let source = Source { rows: block, arena: &self.arena, first };
            for (column, slot) in columns.iter_mut().zip(&self.slots) {
                values::append(column, source, &slot[..block.len()], faults);
            }
        }
        Ok(())
    }

    fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    fn kind(&self) -> Kind {
        KIND
    }
}

/// Decodes JSON lines.
pub struct JsonDecoder {
    rows: JsonRows,
    lines: Vec<Range<usize>>,
}

impl JsonDecoder {
    /// A decoder of these columns.
    ///
    /// # Errors
    /// `Config` for a column that JSON cannot hold.
    pub fn new(wanted: Wanted) -> Result<Self> {
        JsonDecoder::with_paths(wanted, Paths::Fast)
    }

    /// The same, with or without layouts.
    ///
    /// # Errors
    /// As for [`JsonDecoder::new`].
    pub fn with_paths(wanted: Wanted, paths: Paths) -> Result<Self> {
        Ok(JsonDecoder { rows: JsonRows::new(wanted, paths)?, lines: Vec::new() })
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
}

impl Decoder for JsonDecoder {
    fn begin(&mut self, input: &[u8], last: bool) -> Result<Option<usize>> {
        Ok(byte_order_mark(input, last))
    }

    fn ends_in_lines(&self) -> bool {
        true
    }

    fn decode(&mut self, input: &[u8], last: bool, max_rows: usize) -> Result<Decoded> {
        let consumed = self.find_lines(input, last, max_rows);
        let rows: Vec<&[u8]> = self.lines.iter().map(|line| input[line.clone()].trim_ascii_end()).collect();
        let rows = Rows::decode(&mut self.rows, &rows)?;
        Ok(rows.into_decoded(consumed, Framed::At(&self.lines)))
    }
}

//! One file being read, and the place in it.

use crate::directory::{Details, digest};
use crate::table::{Layout, Rows, Table};
use crate::window::Window;
use std::path::{Path, PathBuf};
use text_values::csv::{Record, Step};
use tidegate_sdk::{BadRecord, Chunk, Error, Result, Split, log};

/// The longest record that is read. One that is longer costs its first line.
pub(crate) const MAX_RECORD: usize = 1 << 20;
/// How much of a bad record is shown.
const MAX_RAW: usize = 4096;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Where to read next. Written as `<offset>:<records>`, with `:<time>` behind it once there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Position {
    /// The byte.
    offset: u64,
    /// How many records stand before it, good and bad; the header is none.
    records: u64,
    /// The latest time among them, without which the next row could not be known to be in order.
    time: Option<i64>,
}

impl Position {
    fn encode(self) -> Vec<u8> {
        let Position { offset, records, time } = self;
        match time {
            None => format!("{offset}:{records}"),
            Some(time) => format!("{offset}:{records}:{time}"),
        }
        .into_bytes()
    }

    fn decode(position: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(position).ok()?.split(':');
        let (offset, records) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        let time = parts.next().map(str::parse).transpose().ok()?;
        parts.next().is_none().then_some(Position { offset, records, time })
    }
}

/// A file being read.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) id: String,
    path: PathBuf,
    details: Details,
    /// None before the header was read by a reader that began at the beginning.
    position: Option<Position>,
    layout: Option<Layout>,
    window: Option<Window>,
}

impl Reading {
    /// Opens nothing yet.
    pub(crate) fn new(split: Split, dir: &Path) -> Result<Self> {
        if split.id.is_empty() || Path::new(&split.id).file_name().is_none_or(|name| name != split.id.as_str()) {
            return Err(crate::foreign("the split", split.id.as_bytes()));
        }
        let details = Details::decode(&split.details)?;
        let position = match &split.position {
            None => None,
            Some(position) => {
                let decoded = Position::decode(position).filter(|decoded| decoded.offset <= details.bytes);
                Some(decoded.ok_or_else(|| crate::foreign("the position", position))?)
            }
        };
        Ok(Reading { path: dir.join(&split.id), id: split.id, details, position, layout: None, window: None })
    }

    /// Closes the file until it is read on.
    pub(crate) fn close(&mut self) {
        self.window = None;
    }

    /// Whether all of it was read.
    pub(crate) fn is_done(&self) -> bool {
        self.details.bytes == 0 || self.position.is_some_and(|position| position.offset >= self.details.bytes)
    }

    /// Reads on: at most so many records, and about so many bytes of them. `None` when it stands where it stood.
    pub(crate) fn read(&mut self, table: &Table, record: &mut Record, max_records: usize, max_bytes: usize) -> Result<Option<Chunk>> {
        if self.is_done() {
            return Ok(None);
        }
        let (mut window, layout, begin) = self.open(table, record)?;
        let mut position = begin;
        let mut rows = Rows::new(table, max_records.min(1024));
        let mut bad: Vec<BadRecord> = Vec::new();
        while position.offset < self.details.bytes
            && rows.count + bad.len() < max_records
            && position.offset - begin.offset < max_bytes as u64
        {
            let here = position;
            let (length, fault) = match record.read(window.one(MAX_RECORD), table.delimiter, window.is_last(MAX_RECORD)) {
                Step::Incomplete if window.rest().len() < MAX_RECORD => {
                    window.more()?;
                    continue;
                }
                Step::Blank(length) => {
                    window.consume(length);
                    position.offset += length as u64;
                    continue;
                }
                Step::Record(length) => (length as u64, rows.add(record, &layout, &mut position.time).err()),
                Step::Malformed(length, why) => (length as u64, Some(why.to_owned())),
                Step::Incomplete => (0, Some(format!("it is longer than {MAX_RECORD} bytes, or a quote is never closed"))),
            };
            if let Some(why) = fault {
                let raw = window.rest();
                let shown = if length == 0 { raw.len() } else { length as usize };
                bad.push(BadRecord {
                    row: Some(rows.count as u64),
                    position: here.encode(),
                    raw: raw[..shown.min(MAX_RAW)].trim_ascii_end().to_vec(),
                    message: format!("file `{}`, record {}: {why}", self.id, here.records + 1),
                });
            }
            position.records += 1;
            position.offset += if length == 0 {
                window.skip_line()?
            } else {
                window.consume(length as usize);
                length
            };
        }
        let count = rows.count as u64;
        bad.iter_mut().filter(|bad| bad.row == Some(count)).for_each(|bad| bad.row = None);
        let mut chunk = Chunk::new(self.id.as_str(), rows.finish()?, position.encode());
        chunk.watermark_us = position.time.map(|time| time.saturating_mul(1000));
        chunk.bad = bad;
        if position.offset >= self.details.bytes && window.length_now()? > self.details.bytes {
            let (file, read) = (&self.id, self.details.bytes);
            log::warn(&format!("file `{file}` grew after it was found; it is read to the {read} bytes that it had then"));
        }
        self.position = Some(position);
        self.layout = Some(layout);
        self.window = Some(window);
        Ok(Some(chunk))
    }

    /// The window at the position, and the layout; both are taken out and put back when the reading went well.
    fn open(&mut self, table: &Table, record: &mut Record) -> Result<(Window, Layout, Position)> {
        if let (Some(window), Some(position)) = (self.window.take(), self.position)
            && let Some(layout) = self.layout.take()
        {
            return Ok((window, layout, position));
        }
        let mut window = Window::open(&self.path, self.details.bytes)?;
        let (layout, behind_header) = match (self.layout.take(), self.position) {
            (Some(layout), Some(_)) => (layout, 0),
            _ => self.header(&mut window, table, record)?,
        };
        let position = match self.position {
            None => Position { offset: behind_header, records: 0, time: None },
            Some(position) => {
                window.seek(position.offset)?;
                position
            }
        };
        Ok((window, layout, position))
    }

    /// Reads the header, and sees that the file is the one that was found.
    fn header(&self, window: &mut Window, table: &Table, record: &mut Record) -> Result<(Layout, u64)> {
        let wrong = |why: &str| Error::config(format!("file `{}`: its header cannot be read: {why}", self.id));
        window.more()?;
        let head = window.rest().get(..self.details.head_bytes() as usize).unwrap_or_default();
        if digest(head) != self.details.head {
            let file = &self.id;
            return Err(Error::fatal(format!(
                "file `{file}` is not the one that was found: its beginning has changed; put it back, and give the new one another name"
            )));
        }
        let mut offset = 0;
        if window.rest().starts_with(BYTE_ORDER_MARK) {
            offset = BYTE_ORDER_MARK.len();
            window.consume(offset);
        }
        loop {
            match record.read(window.one(MAX_RECORD), table.delimiter, window.is_last(MAX_RECORD)) {
                Step::Incomplete if window.rest().len() < MAX_RECORD => window.more()?,
                Step::Incomplete => return Err(wrong(&format!("it is longer than {MAX_RECORD} bytes"))),
                Step::Malformed(_, why) => return Err(wrong(why)),
                Step::Blank(0) => return Err(wrong("there is none")),
                Step::Blank(length) => {
                    window.consume(length);
                    offset += length;
                }
                Step::Record(length) => {
                    window.consume(length);
                    return Ok((table.layout(record, &self.id)?, (offset + length) as u64));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_read_back_and_others_are_not() {
        for position in [Position::default(), Position { offset: 7, records: 2, time: Some(-5) }] {
            assert_eq!(Position::decode(&position.encode()), Some(position));
        }
        for foreign in [&b""[..], b"1", b"1:2:3:4", b"-1:0", b"1:x", b"1:2:", b"\xff:0"] {
            assert_eq!(Position::decode(foreign), None, "{}", foreign.escape_ascii());
        }
    }
}

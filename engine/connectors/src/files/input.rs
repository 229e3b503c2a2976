//! A file of records as a growing window of bytes, read through its compression, from any offset.

use super::compression::Compression;
use super::place::Blob;
use std::io::{self, Read, Seek, SeekFrom};

/// Offsets are those of the decompressed bytes.
pub(super) struct Input {
    reader: Box<dyn Read + Send>,
    buffer: Vec<u8>,
    /// Where the unread bytes begin in the buffer.
    from: usize,
    offset: u64,
    ended: bool,
}

impl Input {
    /// Opens a file at an offset: sought, or read up to if it is compressed.
    pub(super) fn open(mut file: Blob, compression: Compression, offset: u64) -> io::Result<Self> {
        if matches!(compression, Compression::None) {
            if let Some(length) = file.length()?.filter(|length| *length < offset) {
                return Err(too_short(length, offset));
            }
            file.seek(SeekFrom::Start(offset))?;
        }
        let mut reader = compression.reader(file)?;
        if !matches!(compression, Compression::None) {
            let skipped = io::copy(&mut reader.by_ref().take(offset), &mut io::sink())?;
            if skipped < offset {
                return Err(too_short(skipped, offset));
            }
        }
        Ok(Input { reader, buffer: Vec::new(), from: 0, offset, ended: false })
    }

    /// The unread bytes at hand.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer[self.from..]
    }

    /// Whether nothing comes after [`Input::bytes`].
    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    /// Where the unread bytes begin.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Marks bytes as read.
    pub(super) fn consume(&mut self, count: usize) {
        self.from += count;
        self.offset += count as u64;
    }

    /// Reads until at least `wanted` bytes are at hand, or the end.
    pub(super) fn fill(&mut self, wanted: usize) -> io::Result<()> {
        if self.bytes().len() >= wanted || self.ended {
            return Ok(());
        }
        self.buffer.drain(..self.from);
        self.from = 0;
        let missing = wanted - self.buffer.len();
        self.buffer.reserve(missing);
        let read = self.reader.by_ref().take(missing as u64).read_to_end(&mut self.buffer)?;
        self.ended = read < missing;
        Ok(())
    }
}

/// The file was changed since the position was taken.
fn too_short(length: u64, offset: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, format!("ends at {length}, before the position {offset}"))
}

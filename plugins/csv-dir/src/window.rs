//! A window on a file: the bytes from the next record on, as many as were needed so far.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tidegate_sdk::{Error, Result};

/// How much is read at once at least.
const AT_ONCE: usize = 64 << 10;

/// The window.
#[derive(Debug)]
pub(crate) struct Window {
    path: PathBuf,
    file: File,
    bytes: Vec<u8>,
    /// Where in `bytes` the window begins.
    start: usize,
    /// Where in the file `bytes` end.
    read: u64,
    /// Where the file ends, as far as anybody here cares.
    end: u64,
}

impl Window {
    /// Opens a file that was `end` bytes long when it was found.
    pub(crate) fn open(path: &Path, end: u64) -> Result<Self> {
        let failed = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                Error::fatal(format!("file `{}` is gone before it was read to its end; put it back", path.display()))
            }
            _ => Error::fatal(format!("file `{}` cannot be read: {error}", path.display())),
        };
        let file = File::open(path).map_err(failed)?;
        let now = file.metadata().map_err(failed)?.len();
        if now < end {
            return Err(shrank(path, end, now));
        }
        Ok(Window { path: path.to_owned(), file, bytes: Vec::new(), start: 0, read: 0, end })
    }

    /// Moves the window.
    pub(crate) fn seek(&mut self, offset: u64) -> Result<()> {
        self.bytes.clear();
        (self.start, self.read) = (0, offset);
        self.file.seek(SeekFrom::Start(offset)).map_err(|error| self.failed(&error))?;
        Ok(())
    }

    /// The bytes at hand.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Those of them that one record may take, so that what is too long for one never depends on how much happens to be at hand.
    pub(crate) fn one(&self, most: usize) -> &[u8] {
        &self.rest()[..self.rest().len().min(most)]
    }

    /// Whether the file has no bytes behind [`Window::one`].
    pub(crate) fn is_last(&self, most: usize) -> bool {
        self.read >= self.end && self.rest().len() <= most
    }

    /// Leaves bytes at hand behind.
    pub(crate) fn consume(&mut self, count: usize) {
        self.start += count;
    }

    /// Reads on, at least as much as is at hand, so that a long record is not looked at again and again.
    pub(crate) fn more(&mut self) -> Result<()> {
        self.bytes.drain(..self.start);
        self.start = 0;
        let wanted = AT_ONCE.max(self.bytes.len()) as u64;
        let wanted = wanted.min(self.end.saturating_sub(self.read));
        let read = (&mut self.file).take(wanted).read_to_end(&mut self.bytes);
        let read = read.map_err(|error| self.failed(&error))? as u64;
        self.read += read;
        if read < wanted {
            return Err(shrank(&self.path, self.end, self.read));
        }
        Ok(())
    }

    /// Leaves everything up to the end of the line behind, keeping none of it, and returns how much that was.
    pub(crate) fn skip_line(&mut self) -> Result<u64> {
        let mut skipped = 0;
        loop {
            let line = self.rest().iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            let count = line.unwrap_or(self.rest().len());
            self.consume(count);
            skipped += count as u64;
            if line.is_some() || self.read >= self.end {
                return Ok(skipped);
            }
            self.more()?;
        }
    }

    /// How long the file is by now.
    pub(crate) fn length_now(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|error| self.failed(&error))?.len())
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::fatal(format!("file `{}` cannot be read: {error}", self.path.display()))
    }
}

fn shrank(path: &Path, then: u64, now: u64) -> Error {
    let path = path.display();
    Error::fatal(format!("file `{path}` shrank: it had {then} bytes when it was found, and has {now}; put it back as it was"))
}

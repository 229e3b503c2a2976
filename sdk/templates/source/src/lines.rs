//! One file being read, from any byte at which a line begins.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tidegate_sdk::{Error, Result, Split};

/// A longer line is a bad record, so that memory stays bounded whatever a file holds.
const MAX_LINE: u64 = 1 << 20;
/// How much of a bad line is shown.
const MAX_RAW: usize = 1 << 10;

/// What stands on a line.
pub(crate) enum Line {
    Text(String),
    Bad { raw: Vec<u8>, message: String },
}

/// A file and the place in it.
pub(crate) struct Reading {
    id: String,
    path: PathBuf,
    /// Read to here: its length when it was found.
    end: u64,
    /// The byte to read next.
    at: u64,
    file: Option<BufReader<File>>,
}

impl Reading {
    /// Opens nothing yet.
    pub(crate) fn new(dir: &Path, split: Split) -> Result<Self> {
        // Details and position were written by this plugin, maybe by an older version of it.
        let number = |bytes: &[u8]| {
            let number = std::str::from_utf8(bytes)
                .ok()
                .and_then(|text| text.parse::<u64>().ok());
            number.ok_or_else(|| {
                Error::fatal(format!(
                    "`{}` is no position of this source",
                    bytes.escape_ascii()
                ))
            })
        };
        let end = number(&split.details)?;
        let at = split.position.as_deref().map_or(Ok(0), number)?;
        Ok(Reading {
            path: dir.join(&split.id),
            id: split.id,
            end,
            at,
            file: None,
        })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Where to read next, as the manifest keeps it.
    pub(crate) fn position(&self) -> Vec<u8> {
        self.at.to_string().into_bytes()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// The next line; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Line>> {
        if self.is_done() {
            return Ok(None);
        }
        let mut line = self.part()?;
        let ended = line.last() == Some(&b'\n');
        if !ended && !self.is_done() {
            // The rest of a long line is read and dropped, piece by piece.
            while !self.is_done() && self.part()?.last() != Some(&b'\n') {}
            line.truncate(MAX_RAW);
            let message = format!("a line is longer than {MAX_LINE} bytes");
            return Ok(Some(Line::Bad { raw: line, message }));
        }
        if ended {
            line.pop();
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        Ok(Some(match String::from_utf8(line) {
            Ok(text) => Line::Text(text),
            Err(error) => {
                let message = error.utf8_error().to_string();
                let mut raw = error.into_bytes();
                raw.truncate(MAX_RAW);
                Line::Bad { raw, message }
            }
        }))
    }

    /// Bytes to the end of the line, or as many as a line may have.
    fn part(&mut self) -> Result<Vec<u8>> {
        let mut part = Vec::new();
        let most = (self.end - self.at).min(MAX_LINE);
        let read = match self
            .open()
            .and_then(|file| file.take(most).read_until(b'\n', &mut part))
        {
            Ok(0) => Err(std::io::Error::other(
                "it is shorter than it was when it was found",
            )),
            read => read,
        };
        let read = read.map_err(|error| Error::fatal(format!("file `{}`: {error}", self.id)))?;
        self.at += read as u64;
        Ok(part)
    }

    fn open(&mut self) -> std::io::Result<&mut BufReader<File>> {
        if self.file.is_none() {
            let mut file = File::open(&self.path)?;
            file.seek(SeekFrom::Start(self.at))?;
            self.file = Some(BufReader::new(file));
        }
        self.file
            .as_mut()
            .ok_or_else(|| std::io::Error::other("it is closed"))
    }
}

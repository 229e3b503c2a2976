//! Compressed streams, both ways.

use super::part::Target;
use flate2::bufread::GzDecoder;
use flate2::write::GzEncoder;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;

/// How a file is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip; all members are read.
    Gz,
    /// Zstandard; all frames are read.
    Zst,
    /// Snappy, inside Parquet only.
    Snappy,
}

impl Compression {
    /// What the ending of a name says.
    pub(super) fn of(path: &Path) -> Compression {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("gz" | "gzip") => Compression::Gz,
            Some("zst" | "zstd") => Compression::Zst,
            _ => Compression::None,
        }
    }

    /// A name without the ending that says the compression.
    pub(super) fn strip(name: &str) -> &str {
        [".gz", ".gzip", ".zst", ".zstd"].iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
    }

    /// What the ending of a text file's name adds.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Compression::Gz => ".gz",
            Compression::Zst => ".zst",
            Compression::None | Compression::Snappy => "",
        }
    }

    /// Reads through the compression.
    pub(super) fn reader(self, file: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
        Ok(match self {
            Compression::None | Compression::Snappy => Box::new(file),
            Compression::Gz => Box::new(Members::new(Box::new(file))),
            Compression::Zst => Box::new(zstd::stream::read::Decoder::new(file)?),
        })
    }
}

/// The members of a gzip file, one after the other. Where a member must begin, something else is told from one that is cut.
struct Members {
    state: Member,
    first: bool,
}

enum Member {
    Between(io::BufReader<Box<dyn Read + Send>>),
    Within(Box<GzDecoder<io::BufReader<Box<dyn Read + Send>>>>),
    Broken,
}

impl Members {
    fn new(file: Box<dyn Read + Send>) -> Self {
        Members { state: Member::Between(io::BufReader::with_capacity(1 << 16, file)), first: true }
    }

    /// Whether a member begins here; `false` at the end of the file.
    fn begins(&mut self, reader: &mut io::BufReader<Box<dyn Read + Send>>) -> io::Result<bool> {
        const MAGIC: u8 = 0x1f;
        let first = std::mem::take(&mut self.first);
        match reader.fill_buf()?.first() {
            Some(&MAGIC) => Ok(true),
            None if first => Err(io::ErrorKind::UnexpectedEof.into()),
            None => Ok(false),
            Some(_) if first => Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a gzip file, rename it or set `compression`")),
            Some(_) => Err(io::Error::new(io::ErrorKind::InvalidInput, "has garbage after the end of its gzip data")),
        }
    }
}

impl Read for Members {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            match std::mem::replace(&mut self.state, Member::Broken) {
                Member::Between(mut reader) => {
                    if !self.begins(&mut reader)? {
                        self.state = Member::Between(reader);
                        return Ok(0);
                    }
                    self.state = Member::Within(Box::new(GzDecoder::new(reader)));
                }
                Member::Within(mut decoder) => match decoder.read(buffer) {
                    Ok(0) => self.state = Member::Between(decoder.into_inner()),
                    read => {
                        self.state = Member::Within(decoder);
                        return read;
                    }
                },
                Member::Broken => return Err(io::Error::other("was read on after a failure")),
            }
        }
    }
}

/// A part being written through a compression.
pub(super) enum Output {
    Plain(Target),
    Gz(GzEncoder<Target>),
    Zst(zstd::stream::write::Encoder<'static, Target>),
}

impl Output {
    pub(super) fn new(compression: Compression, target: Target) -> io::Result<Self> {
        Ok(match compression {
            Compression::None | Compression::Snappy => Output::Plain(target),
            Compression::Gz => Output::Gz(GzEncoder::new(target, flate2::Compression::default())),
            Compression::Zst => Output::Zst(zstd::stream::write::Encoder::new(target, 3)?),
        })
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Output::Plain(target) => target.write_all(bytes),
            Output::Gz(encoder) => encoder.write_all(bytes),
            Output::Zst(encoder) => encoder.write_all(bytes),
        }
    }

    /// Where the bytes go.
    pub(super) fn target(&self) -> &Target {
        match self {
            Output::Plain(target) => target,
            Output::Gz(encoder) => encoder.get_ref(),
            Output::Zst(encoder) => encoder.get_ref(),
        }
    }

    /// Ends the stream.
    pub(super) fn finish(self) -> io::Result<Target> {
        match self {
            Output::Plain(target) => Ok(target),
            Output::Gz(encoder) => encoder.finish(),
            Output::Zst(encoder) => encoder.finish(),
        }
    }
}

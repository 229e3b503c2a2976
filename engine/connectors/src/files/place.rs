//! Where a file is, local or in a bucket, and its bytes.

use super::memory::Memory;
use bytes::Bytes;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{ChunkReader, Length};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tidegate_api::{Error, Result};
use tidegate_objects::{BlockReader, Bucket, ObjectBlocks, ObjectInfo, ObjectReader};
use xxhash_rust::xxh3::xxh3_64;

/// A file that was found.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Local(PathBuf),
    /// This version of an object and no other.
    Object(Arc<Bucket>, Arc<ObjectInfo>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Local(path) => write!(f, "{}", path.display()),
            Place::Object(bucket, object) => write!(f, "{}/{}", bucket.url(), object.key),
        }
    }
}

impl Place {
    /// What its ending is looked for in.
    pub(super) fn path(&self) -> &Path {
        match self {
            Place::Local(path) => path,
            Place::Object(_, object) => Path::new(&object.key),
        }
    }

    /// Opens it at its beginning.
    pub(super) fn open(&self) -> Result<Blob> {
        match self {
            Place::Local(path) => File::open(path).map(Blob::File).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Error::external("does not exist"),
                _ => Error::external("cannot be opened").caused_by(error),
            }),
            Place::Object(bucket, object) => Ok(Blob::Object(ObjectReader::new(Arc::clone(bucket), Arc::clone(object)))),
        }
    }
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Of its length and the time of its last writing; of an object, of its ETag.
    pub(super) version: u64,
    /// When it was last written, in microseconds.
    pub(super) modified: i64,
    /// When it appeared here as it is: a file that is moved keeps the time of its writing, so this is later. Microseconds.
    pub(super) time: i64,
}

impl Stamp {
    /// Of a local file; `None` if it is gone.
    ///
    /// # Errors
    /// `External` if the file system does not say.
    pub(super) fn of(path: &Path) -> Result<Option<Stamp>> {
        let cannot = |error| Error::external(format!("`{}` cannot be read", path.display())).caused_by(error);
        let about = match fs::metadata(path) {
            Ok(about) => about,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(cannot(error)),
        };
        let written = match about.modified().map_err(cannot)?.duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => i128::try_from(since.as_nanos()).unwrap_or(i128::MAX),
            Err(before) => -i128::try_from(before.duration().as_nanos()).unwrap_or(i128::MAX),
        };
        let modified = i64::try_from(written / 1000).unwrap_or(i64::MAX);
        Ok(Some(Stamp { version: version(about.len(), written), modified, time: appeared(&about, modified) }))
    }

    /// Of an object.
    pub(super) fn of_object(object: &ObjectInfo) -> Stamp {
        let version = match &object.etag {
            Some(etag) => Memory::version(xxh3_64(etag.as_bytes())),
            None => version(object.size, object.modified.into()),
        };
        Stamp { version, modified: object.modified, time: object.modified }
    }
}

fn version(length: u64, written: i128) -> u64 {
    let mut bytes = [0; 24];
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    bytes[8..].copy_from_slice(&written.to_le_bytes());
    Memory::version(xxh3_64(&bytes))
}

#[cfg(unix)]
fn appeared(about: &fs::Metadata, _: i64) -> i64 {
    use std::os::unix::fs::MetadataExt;
    about.ctime().saturating_mul(1_000_000).saturating_add(about.ctime_nsec() / 1000)
}

#[cfg(not(unix))]
fn appeared(_: &fs::Metadata, modified: i64) -> i64 {
    modified
}

/// The bytes of an open file.
pub(super) enum Blob {
    File(File),
    Object(ObjectReader),
}

impl Blob {
    /// How long it is; `None` of what has no length.
    pub(super) fn length(&self) -> io::Result<Option<u64>> {
        match self {
            Blob::File(file) => file.metadata().map(|about| about.is_file().then_some(about.len())),
            Blob::Object(reader) => Ok(Some(reader.object().size)),
        }
    }
}

impl Read for Blob {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Blob::File(file) => file.read(buffer),
            Blob::Object(reader) => reader.read(buffer),
        }
    }
}

impl Seek for Blob {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match self {
            Blob::File(file) => file.seek(to),
            Blob::Object(reader) => reader.seek(to),
        }
    }
}

/// The bytes of a columnar file, which is read here and there.
pub(crate) enum Chunks {
    File(File),
    Object(Arc<ObjectBlocks>),
}

impl From<Blob> for Chunks {
    fn from(blob: Blob) -> Self {
        match blob {
            Blob::File(file) => Chunks::File(file),
            Blob::Object(reader) => Chunks::Object(Arc::new(ObjectBlocks::new(reader))),
        }
    }
}

/// Reads on within a columnar file.
pub(crate) enum ChunkRead {
    File(BufReader<File>),
    Object(BlockReader),
}

impl Read for ChunkRead {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            ChunkRead::File(file) => file.read(buffer),
            ChunkRead::Object(blocks) => blocks.read(buffer),
        }
    }
}

impl Length for Chunks {
    fn len(&self) -> u64 {
        match self {
            Chunks::File(file) => file.len(),
            Chunks::Object(blocks) => blocks.object().size,
        }
    }
}

impl ChunkReader for Chunks {
    type T = ChunkRead;

    fn get_read(&self, start: u64) -> ParquetResult<ChunkRead> {
        match self {
            Chunks::File(file) => file.get_read(start).map(ChunkRead::File),
            Chunks::Object(blocks) => Ok(ChunkRead::Object(blocks.read_from(start))),
        }
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        match self {
            Chunks::File(file) => file.get_bytes(start, length),
            Chunks::Object(blocks) => {
                let bytes = blocks.get(start, length as u64).map_err(|error| ParquetError::External(Box::new(error)))?;
                if bytes.len() < length {
                    return Err(ParquetError::EOF(format!("{} of {length} bytes at {start}", bytes.len())));
                }
                Ok(bytes)
            }
        }
    }
}

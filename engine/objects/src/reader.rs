//! One version of an object, read as if it were a file.

use crate::bucket::{Bucket, Failure, ObjectInfo, Pending};
use bytes::Bytes;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex, PoisonError};

/// So much is asked for at once where reading goes on from byte to byte.
const AHEAD: u64 = 4 << 20;
/// The first request of a reader is smaller: a header or a footer is often all that is wanted.
const FIRST: u64 = 256 << 10;
/// How often a part whose body breaks off is asked for again.
const TRIES: u32 = 4;

/// One version of an object, where it is.
#[derive(Clone)]
struct Version {
    bucket: Arc<Bucket>,
    object: Arc<ObjectInfo>,
}

impl Version {
    /// A part of it, in one request. Where there is less, what there is.
    ///
    /// # Errors
    /// As for all of its reading.
    fn part(&self, start: u64, length: u64) -> io::Result<Bytes> {
        let end = start.saturating_add(length).min(self.object.size);
        if start >= end {
            return Ok(Bytes::new());
        }
        let first = self.bucket.range(&self.object, start..end).map_err(io::Error::other)?;
        self.whole(start, end, first)
    }

    /// Waits for a part, and asks again while it fails in a way that may pass.
    fn whole(&self, start: u64, end: u64, first: Pending<Bytes>) -> io::Result<Bytes> {
        let mut answer = first.wait();
        for _ in 1..TRIES {
            match &answer {
                Ok(bytes) if bytes.len() as u64 == end - start => break,
                // What is missing comes by another request; an object of this version has it.
                Ok(_) => {}
                Err(Failure::Store(error)) if is_final(error) => break,
                Err(Failure::Store(_)) => {}
                Err(Failure::TooLong(_) | Failure::Ended) => break,
            }
            tracing::debug!(key = self.object.key, start, end, "a part did not come whole and is asked for again");
            answer = self.bucket.range(&self.object, start..end).map_err(io::Error::other)?.wait();
        }
        match answer {
            Ok(bytes) if bytes.len() as u64 == end - start => Ok(bytes),
            Ok(bytes) => {
                let (got, asked) = (bytes.len(), end - start);
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, format!("{got} bytes came of {asked} from {start} on")))
            }
            Err(Failure::Store(object_store::Error::Precondition { .. })) => {
                Err(io::Error::new(io::ErrorKind::InvalidInput, Replaced(self.object.key.clone())))
            }
            Err(failure) if failure.is_missing() => {
                Err(io::Error::new(io::ErrorKind::NotFound, "the object was deleted while it was read"))
            }
            Err(failure) => Err(io::Error::other(self.bucket.failed("read", &self.object.key, failure))),
        }
    }
}

/// Reads an object by ranges, one ahead of where reading is. Every range is asked for on the condition that the object still is the version
/// that was found; a body that breaks off is asked for again. In memory are two ranges at most.
///
/// Errors of the server are `io::Error`s that hold what a person is to read; [`is_replaced`] tells that the object is another.
pub struct ObjectReader {
    version: Version,
    position: u64,
    /// Bytes at hand, and where they begin.
    part: (u64, Bytes),
    /// What was asked for, and where it begins and ends.
    ahead: Option<(u64, u64, Pending<Bytes>)>,
    /// How much the next request asks for.
    size: u64,
}

impl ObjectReader {
    /// A reader at the beginning of an object. Asks nothing yet.
    pub fn new(bucket: Arc<Bucket>, object: Arc<ObjectInfo>) -> Self {
        ObjectReader { version: Version { bucket, object }, position: 0, part: (0, Bytes::new()), ahead: None, size: FIRST }
    }

    /// What is read.
    pub fn object(&self) -> &ObjectInfo {
        &self.version.object
    }

    /// Makes bytes at the position be at hand; false at the end.
    fn fill(&mut self) -> io::Result<bool> {
        let (start, bytes) = &self.part;
        if (*start..start + bytes.len() as u64).contains(&self.position) {
            return Ok(true);
        }
        if self.position >= self.version.object.size {
            return Ok(false);
        }
        let (start, end, pending) = match self.ahead.take() {
            Some(ahead) if (ahead.0..ahead.1).contains(&self.position) => ahead,
            _ => self.ask(self.position)?,
        };
        let bytes = self.version.whole(start, end, pending)?;
        self.part = (start, bytes);
        if end < self.version.object.size {
            self.ahead = Some(self.ask(end)?);
        }
        Ok(true)
    }

    fn ask(&mut self, start: u64) -> io::Result<(u64, u64, Pending<Bytes>)> {
        let end = (start + self.size).min(self.version.object.size);
        self.size = (self.size * 4).min(AHEAD);
        Ok((start, end, self.version.bucket.range(&self.version.object, start..end).map_err(io::Error::other)?))
    }
}

/// Whether asking again cannot help.
fn is_final(error: &object_store::Error) -> bool {
    use object_store::Error::{NotFound, PermissionDenied, Precondition, Unauthenticated};
    matches!(error, NotFound { .. } | PermissionDenied { .. } | Precondition { .. } | Unauthenticated { .. })
}

/// The object is not the version that was found.
#[derive(Debug)]
struct Replaced(String);

impl std::fmt::Display for Replaced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "object `{}` was replaced while it was read", self.0)
    }
}

impl std::error::Error for Replaced {}

/// Whether an error says that the object is not the version that was found.
pub fn is_replaced(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Replaced>())
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() || !self.fill()? {
            return Ok(0);
        }
        let (start, bytes) = &self.part;
        let from = usize::try_from(self.position - start).unwrap_or(usize::MAX);
        let rest = &bytes[from..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.position += count as u64;
        Ok(count)
    }
}

impl Seek for ObjectReader {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.version.object.size.checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = to.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a place before the beginning"))?;
        Ok(self.position)
    }
}

/// So long is a block of [`ObjectBlocks`].
const BLOCK: u64 = 1 << 20;
/// So many blocks are kept.
const BLOCKS: usize = 64;

/// Reads an object here and there, as a columnar file is: through blocks that are kept for a while, at most 64 MiB of them.
pub struct ObjectBlocks {
    version: Version,
    /// The blocks at hand, by number; the one used last stands last.
    kept: Mutex<Vec<(u64, Bytes)>>,
}

impl ObjectBlocks {
    /// Blocks of what a reader reads.
    pub fn new(reader: ObjectReader) -> Self {
        ObjectBlocks { version: reader.version, kept: Mutex::default() }
    }

    /// What is read.
    pub fn object(&self) -> &ObjectInfo {
        &self.version.object
    }

    fn block(&self, number: u64) -> io::Result<Bytes> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.iter().position(|(known, _)| *known == number) {
            let found = kept.remove(at);
            kept.push(found.clone());
            return Ok(found.1);
        }
        let bytes = self.version.part(number * BLOCK, BLOCK)?;
        if kept.len() == BLOCKS {
            kept.remove(0);
        }
        kept.push((number, bytes.clone()));
        Ok(bytes)
    }

    /// A part of the object. Where there is less, what there is. What is longer than a block is asked for by itself and not kept.
    ///
    /// # Errors
    /// As for all of its reading.
    pub fn get(&self, start: u64, length: u64) -> io::Result<Bytes> {
        let end = start.saturating_add(length).min(self.object().size);
        if start >= end {
            return Ok(Bytes::new());
        }
        if end - start > BLOCK {
            return self.version.part(start, end - start);
        }
        let (first, last) = (start / BLOCK, (end - 1) / BLOCK);
        let place = |at: u64, number: u64| usize::try_from(at - number * BLOCK).unwrap_or(usize::MAX);
        let block = self.block(first)?;
        if first == last {
            return Ok(block.slice(place(start, first)..place(end, first)));
        }
        let mut both = Vec::from(&block[place(start, first)..]);
        both.extend_from_slice(&self.block(last)?[..place(end, last)]);
        Ok(both.into())
    }

    /// Reads on from a place.
    pub fn read_from(self: &Arc<Self>, position: u64) -> BlockReader {
        BlockReader { blocks: Arc::clone(self), position }
    }
}

/// Reads blocks one after the other.
pub struct BlockReader {
    blocks: Arc<ObjectBlocks>,
    position: u64,
}

impl Read for BlockReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = BLOCK - self.position % BLOCK;
        let bytes = self.blocks.get(self.position, rest.min(buffer.len() as u64))?;
        buffer[..bytes.len()].copy_from_slice(&bytes);
        self.position += bytes.len() as u64;
        Ok(bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BucketUrl, Depth, Names};
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt};

    fn world(bytes: &[u8]) -> (Arc<Bucket>, Arc<InMemory>) {
        let store = Arc::new(InMemory::new());
        let url = BucketUrl::parse("s3://bucket").unwrap();
        let bucket = Bucket::over(Arc::clone(&store) as Arc<dyn ObjectStore>, url, Names::STATE).unwrap();
        put(&bucket, &store, bytes);
        (Arc::new(bucket), store)
    }

    fn put(bucket: &Bucket, store: &Arc<InMemory>, bytes: &[u8]) {
        let (store, bytes) = (Arc::clone(store), Bytes::copy_from_slice(bytes));
        bucket.call(0, async move { store.put(&Path::from("a/b"), bytes.into()).await }).unwrap();
    }

    fn reader(bucket: &Arc<Bucket>) -> ObjectReader {
        ObjectReader::new(Arc::clone(bucket), Arc::new(bucket.head("a/b").unwrap().unwrap()))
    }

    #[test]
    fn an_object_is_read_as_a_file_is() {
        let content: Vec<u8> = (0..9_000_001u32).map(|at| (at % 251) as u8).collect();
        let (bucket, _) = world(&content);
        assert_eq!(bucket.list("a/", Depth::Direct).unwrap()[0].size, content.len() as u64);
        assert!(bucket.list("", Depth::Direct).unwrap().is_empty() && bucket.list("", Depth::All).unwrap().len() == 1);
        assert!(bucket.head("a/c").unwrap().is_none());
        let mut read = Vec::new();
        reader(&bucket).read_to_end(&mut read).unwrap();
        assert!(read == content);
        let mut one = reader(&bucket);
        for at in [8_999_990u64, 5, 4_194_300, 262_140, 9_000_001, 9_000_050] {
            one.seek(SeekFrom::Start(at)).unwrap();
            let mut some = Vec::new();
            one.by_ref().take(20).read_to_end(&mut some).unwrap();
            let from = (at as usize).min(content.len());
            assert_eq!(some, content[from..(from + 20).min(content.len())], "{at}");
            assert_eq!(one.version.part(at, 20).unwrap(), some);
        }
        let blocks = Arc::new(ObjectBlocks::new(reader(&bucket)));
        for (start, length) in [(0, 10), (BLOCK - 5, 10), (8_999_990, 50), (3, 2 * BLOCK), (9_000_001, 1)] {
            let from = start as usize;
            let expected = &content[from..(from + length as usize).min(content.len())];
            assert!(blocks.get(start, length).unwrap() == expected, "{start}");
        }
        let mut read = Vec::new();
        blocks.read_from(BLOCK - 3).read_to_end(&mut read).unwrap();
        assert!(read == content[BLOCK as usize - 3..]);
    }

    #[test]
    fn an_object_that_is_replaced_or_deleted_while_it_is_read_is_told() {
        let content = vec![7; 3_000_000];
        let (bucket, store) = world(&content);
        let mut one = reader(&bucket);
        let mut some = [0; 100];
        one.read_exact(&mut some).unwrap();
        put(&bucket, &store, &content[1..]);
        let error = one.read_to_end(&mut Vec::new()).unwrap_err();
        assert!(is_replaced(&error) && error.to_string() == "object `a/b` was replaced while it was read", "{error}");
        let mut other = reader(&bucket);
        other.read_exact(&mut some).unwrap();
        let (also, path) = (Arc::clone(&store), Path::from("a/b"));
        bucket.call(0, async move { also.delete(&path).await }).unwrap();
        other.seek(SeekFrom::Start(2_900_000)).unwrap();
        assert_eq!(other.read(&mut some).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}

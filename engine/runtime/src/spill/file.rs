//! Files of state: bytes are appended and read back, with a checksum.
//!
//! A file has no name, so that nothing is left of it when the process ends, however it ends. It shrinks only as a whole: its space
//! is free when the last piece in it is dropped.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tidegate_api::{Error, MakeBytes, Result};
use xxhash_rust::xxh3::xxh3_64;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct SpillFile {
    folder: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    end: u64,
}

impl SpillFile {
    /// A new file in the folder, which is made if need be.
    ///
    /// # Errors
    /// `External` if it cannot be made.
    pub(super) fn create(folder: &Path) -> Result<Arc<Self>> {
        let file = std::fs::create_dir_all(folder).and_then(|()| tempfile::tempfile_in(folder));
        let file = file.map_err(|error| {
            Error::external(format!("state cannot be put aside in `{}`: {error}; set `spill` to a directory with room", folder.display()))
        })?;
        Ok(Arc::new(SpillFile { folder: folder.to_path_buf(), inner: Mutex::new(Inner { file, end: 0 }) }))
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// `External` if the disk does not take them.
    pub(super) fn append(self: &Arc<Self>, bytes: &[u8]) -> Result<Filed> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = inner.end;
        let written = inner.file.seek(SeekFrom::Start(offset)).and_then(|_| inner.file.write_all(bytes));
        written.map_err(|error| {
            let folder = self.folder.display();
            Error::external(format!(
                "writing {} bytes of state into `{folder}`: {error}; make room there, set `spill` to another directory, or raise `maxMemory`",
                bytes.len()
            ))
        })?;
        inner.end += bytes.len() as u64;
        Ok(Filed { file: Arc::clone(self), offset, length: bytes.len() as u64, checksum: xxh3_64(bytes) })
    }

    /// How long it is.
    pub(super) fn length(&self) -> u64 {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).end
    }
}

/// A stretch of a [`SpillFile`].
#[derive(Debug, Clone)]
pub(super) struct Filed {
    file: Arc<SpillFile>,
    offset: u64,
    length: u64,
    checksum: u64,
}

impl Filed {
    /// How many bytes there are.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// All of them.
    ///
    /// # Errors
    /// `External` if they cannot be read or are not what was written.
    pub(super) fn read(&self) -> Result<Vec<u8>> {
        let folder = self.file.folder.display();
        let length = usize::try_from(self.length).map_err(|_| Error::limit(format!("{} bytes of state at once", self.length)))?;
        let mut bytes = vec![0; length];
        let mut inner = self.file.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let read = inner.file.seek(SeekFrom::Start(self.offset)).and_then(|_| inner.file.read_exact(&mut bytes));
        read.map_err(|error| Error::external(format!("reading {length} bytes of state back from `{folder}`: {error}")))?;
        drop(inner);
        if xxh3_64(&bytes) != self.checksum {
            return Err(Error::external(format!(
                "{length} bytes of state read back from `{folder}` are not what was written there: the disk is damaged"
            )));
        }
        Ok(bytes)
    }
}

impl MakeBytes for Filed {
    fn estimate(&self) -> u64 {
        self.length
    }

    fn make(&self) -> Result<Vec<u8>> {
        self.read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read_back_and_nothing_is_left_in_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let file = SpillFile::create(&folder.path().join("a/b")).unwrap();
        let pieces: Vec<Filed> = [&b"one"[..], b"", b"three"].iter().map(|bytes| file.append(bytes).unwrap()).collect();
        let read: Vec<Vec<u8>> = pieces.iter().rev().map(|piece| piece.read().unwrap()).collect();
        assert_eq!(read, [b"three".to_vec(), Vec::new(), b"one".to_vec()]);
        assert_eq!(file.length(), 8);
        assert_eq!(std::fs::read_dir(folder.path().join("a/b")).unwrap().count(), 0);
    }

    #[test]
    fn damage_and_a_folder_that_cannot_be_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = SpillFile::create(folder.path()).unwrap();
        let mut piece = file.append(b"state").unwrap();
        piece.checksum ^= 1;
        assert!(piece.read().unwrap_err().to_string().contains("not what was written"));
        piece.length = 50;
        assert!(piece.read().unwrap_err().to_string().contains("reading 50 bytes"));
        std::fs::write(folder.path().join("file"), "").unwrap();
        let error = SpillFile::create(&folder.path().join("file")).unwrap_err().to_string();
        assert!(error.contains("put aside") && error.contains("`spill`"), "{error}");
    }
}

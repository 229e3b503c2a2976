//! A store in a directory of a local (or properly mounted) file system.
//!
//! Bytes go to a temporary file that is synced before it gets its name: by a hard link for a create, which fails if the name is
//! taken and so has one winner among all processes; by a rename for a put. Then the directory is synced, and so is every
//! directory above it that this process has not synced before: what was created by somebody who crashed before syncing is
//! durable before anybody is told of it. A deletion is not synced; a crash may bring a deleted object back.
//!
//! Temporary files live in `.tmp` and are locked while in use. Opening the store removes those that nobody holds.

use super::{Created, EpochStore, check_key, check_prefix};
use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tidegate_api::{Error, Result};

const TEMPORARY: &str = ".tmp";

/// See the module's documentation.
#[derive(Debug)]
pub struct DirectoryStore {
    root: PathBuf,
    /// Directories whose names are known to be durable.
    durable: Mutex<BTreeSet<PathBuf>>,
    next_temporary: AtomicU64,
}

impl DirectoryStore {
    /// Opens the store, making the directory if there is none.
    ///
    /// # Errors
    /// `Config` if the directory cannot be made or written to.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let unusable = |error: io::Error| {
            Error::config(format!("the state directory `{}` cannot be used: {error}", root.as_ref().display())).caused_by(error)
        };
        let root = std::path::absolute(root.as_ref()).map_err(unusable)?;
        let store = DirectoryStore { root, durable: Mutex::default(), next_temporary: AtomicU64::new(0) };
        let temporaries = store.root.join(TEMPORARY);
        let missing: Vec<&Path> = store.root.ancestors().take_while(|above| !above.is_dir()).collect();
        fs::create_dir_all(&temporaries).map_err(unusable)?;
        store.make_durable(&temporaries).map_err(unusable)?;
        // What lies above the root and was there before is not ours, and perhaps not readable.
        for parent in missing.iter().filter_map(|made| made.parent()) {
            sync_directory(parent).map_err(unusable)?;
        }
        sweep(&temporaries).map_err(unusable)?;
        Ok(store)
    }

    /// Opens the store if it was made before, and makes nothing if not.
    ///
    /// # Errors
    /// As for [`DirectoryStore::open`].
    pub fn open_existing(root: impl AsRef<Path>) -> Result<Option<Self>> {
        // A copy made by a tool that passes over empty folders has no folder for temporary files.
        let is_one = |folder: &str| root.as_ref().join(folder).is_dir();
        if is_one(TEMPORARY) || is_one(crate::keys::MANIFESTS) { DirectoryStore::open(root).map(Some) } else { Ok(None) }
    }

    /// The directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Syncs a directory, and the names of it and of all above it that were not synced before.
    fn make_durable(&self, directory: &Path) -> io::Result<()> {
        sync_directory(directory)?;
        for inner in directory.ancestors().take_while(|inner| *inner != self.root) {
            if self.durable.lock().unwrap_or_else(PoisonError::into_inner).contains(inner) {
                break;
            }
            if let Some(parent) = inner.parent() {
                sync_directory(parent)?;
            }
        }
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        durable.extend(directory.ancestors().take_while(|inner| *inner != self.root).map(Path::to_path_buf));
        Ok(())
    }

    /// Forgets that a directory and those above it are there, as somebody has removed one of them.
    fn forget(&self, directory: &Path) {
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        for above in directory.ancestors().take_while(|above| *above != self.root) {
            durable.remove(above);
        }
    }

    /// A synced temporary file, held for as long as the result lives.
    fn write_temporary(&self, bytes: &[u8]) -> io::Result<(PathBuf, File)> {
        loop {
            let number = self.next_temporary.fetch_add(1, Ordering::Relaxed);
            let path = self.root.join(TEMPORARY).join(format!("{}-{number}", std::process::id()));
            let mut file = match File::create_new(&path) {
                Ok(file) => file,
                // Another store of this process, a process of the same number on another machine, or a leftover of one.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
                Err(error) => return Err(error),
            };
            match file.try_lock() {
                // A sweep may have come between creating and locking, and have removed the file; perhaps another has its name now.
                Ok(()) if !is_still_at(&file, &path)? => continue,
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => continue,
                // No locks here: then nothing can be swept either.
                Err(TryLockError::Error(error)) if error.kind() == ErrorKind::Unsupported => {}
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let written = file.write_all(bytes).and_then(|()| file.sync_all());
            if let Err(error) = written {
                let _ = fs::remove_file(&path);
                return Err(error);
            }
            return Ok((path, file));
        }
    }

    /// Gives bytes a name, by `name(temporary, target)`; answers whether that succeeded or the name was taken.
    fn place(&self, key: &str, bytes: &[u8], name: fn(&Path, &Path) -> io::Result<()>) -> io::Result<Placed> {
        let target = self.root.join(key);
        let parent = target.parent().unwrap_or(&self.root);
        let (temporary, held) = self.write_temporary(bytes)?;
        // Directories are made just before they are needed and synced after: once the object is in them nobody removes them. In between
        // a deletion elsewhere may, while they are empty; then they are made again.
        let mut tries = 0;
        let placed = loop {
            match name(&temporary, &target) {
                Ok(()) => break Ok(Placed::Now),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => break Ok(Placed::Before),
                Err(error) if error.kind() == ErrorKind::NotFound && tries < 1_000 => {
                    tries += 1;
                    self.forget(parent);
                    match fs::create_dir_all(parent) {
                        Ok(()) => {}
                        // Removed again, or made by another in this very moment.
                        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::AlreadyExists) => {}
                        Err(error) => break Err(error),
                    }
                }
                Err(error) => break Err(error),
            }
        };
        let placed = placed.and_then(|placed| self.make_durable(parent).map(|()| placed));
        // Held, so it is still ours; after a rename nothing is there, and the name may already be another's.
        if is_still_at(&held, &temporary).unwrap_or(false)
            && let Err(error) = fs::remove_file(&temporary)
        {
            tracing::debug!(%error, "a temporary file was left behind");
        }
        placed
    }
}

enum Placed {
    Now,
    Before,
}

impl EpochStore for DirectoryStore {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        check_key(key)?;
        self.place(key, bytes, |from, to| fs::rename(from, to)).map_err(|error| failed("write", key, error))?;
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        check_key(key)?;
        match fs::read(self.root.join(key)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(failed("read", key, error)),
        }
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Created> {
        check_key(key)?;
        match self.place(key, bytes, |from, to| fs::hard_link(from, to)).map_err(|error| failed("create", key, error))? {
            Placed::Now => Ok(Created::New),
            Placed::Before => match self.get(key)? {
                Some(found) => Ok(Created::Exists(found)),
                None => Err(Error::external(format!("`{key}` was there and is gone; try again"))),
            },
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        check_prefix(prefix)?;
        let mut keys = Vec::new();
        walk(&self.root.join(prefix), prefix, &mut keys).map_err(|error| failed("list", prefix, error))?;
        keys.sort_unstable();
        Ok(keys)
    }

    fn delete(&self, key: &str) -> Result<()> {
        check_key(key)?;
        let target = self.root.join(key);
        match fs::remove_file(&target) {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
            Err(error) => return Err(failed("delete", key, error)),
        }
        // Every epoch has directories of its own: empty ones go, up to the first that is not.
        for directory in target.ancestors().skip(1).take_while(|directory| *directory != self.root) {
            if fs::remove_dir(directory).is_err() {
                break;
            }
            self.forget(directory);
        }
        Ok(())
    }
}

fn failed(what: &str, key: &str, error: io::Error) -> Error {
    Error::external(format!("cannot {what} `{key}`: {error}")).caused_by(error)
}

/// Whether a path still names this open file.
fn is_still_at(file: &File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::metadata(path) {
        Ok(found) => Ok((held.dev(), held.ino()) == (found.dev(), found.ino())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

/// Collects keys. What is no key (temporary files, a person's notes) is left out; what vanishes meanwhile is not there.
fn walk(directory: &Path, prefix: &str, keys: &mut Vec<String>) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        let key = format!("{prefix}{name}");
        if check_key(&key).is_err() {
            continue;
        }
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => walk(&entry.path(), &format!("{key}/"), keys)?,
            Ok(kind) if kind.is_file() => keys.push(key),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes temporary files that no process holds.
fn sweep(temporaries: &Path) -> io::Result<()> {
    for entry in fs::read_dir(temporaries)? {
        let path = entry?.path();
        let Ok(file) = File::open(&path) else {
            continue;
        };
        // Locked and still at its path: its owner is gone, or will find that it lost the file before writing to it.
        if file.try_lock().is_ok() && is_still_at(&file, &path)? {
            let _ = fs::remove_file(&path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! Compiled code on disk, so that a plugin is compiled once per machine and version.
//!
//! An entry is named by the engine (wasmtime's version, target and flags) and the component's digest. Whatever is not exactly what
//! this host would have written (torn, truncated, foreign, of another owner) counts as absent and is written anew. A cache that cannot
//! be used costs time, never a run: every failure here is a log line.

use sha2::{Digest, Sha256};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use wasmtime::Engine;

const MAGIC: &[u8; 8] = b"TGCODE1\n";
const HEADER: usize = 8 + 8 + 32 + 8 + 32;
/// Larger than any code we would cache; a bound for what is read.
const MAX_ENTRY: u64 = 1 << 30;

/// Code that passed every check of [`Cache::read`].
pub(crate) struct Checked(Vec<u8>);

impl Checked {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[HEADER..]
    }
}

/// The directory of compiled code.
#[derive(Debug)]
pub(crate) struct Cache {
    dir: PathBuf,
    engine: u64,
    written: AtomicU64,
}

impl Cache {
    /// Opens the directory, making it if need be. `None` if it cannot be trusted or made; the log says why.
    pub(crate) fn open(dir: &Path, engine: &Engine) -> Option<Cache> {
        match Cache::prepare(dir) {
            Ok(()) => {
                let mut hasher = DefaultHasher::new();
                engine.precompile_compatibility_hash().hash(&mut hasher);
                Some(Cache { dir: dir.to_path_buf(), engine: hasher.finish(), written: AtomicU64::new(0) })
            }
            Err(error) => {
                tracing::warn!(dir = %dir.display(), %error, "compiled plugins are not cached");
                None
            }
        }
    }

    fn prepare(dir: &Path) -> io::Result<()> {
        if !dir.exists() {
            DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        }
        owned_by_us_alone(&fs::metadata(dir)?)
    }

    fn path(&self, digest: &[u8; 32]) -> PathBuf {
        self.dir.join(format!("{:016x}-{}.code", self.engine, hex(digest)))
    }

    /// The code of a component, if a trustworthy entry is there.
    pub(crate) fn read(&self, digest: &[u8; 32]) -> Option<Checked> {
        let path = self.path(digest);
        match self.read_checked(&path, digest) {
            Ok(code) => Some(code),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::debug!(path = %path.display(), %error, "a cached plugin is ignored");
                None
            }
        }
    }

    fn read_checked(&self, path: &Path, digest: &[u8; 32]) -> io::Result<Checked> {
        let refuse = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_string());
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        owned_by_us_alone(&metadata)?;
        if metadata.len() > MAX_ENTRY {
            return Err(refuse("it is too large"));
        }
        let mut bytes = Vec::with_capacity(metadata.len() as usize);
        file.read_to_end(&mut bytes)?;
        let code = bytes.get(HEADER..).ok_or_else(|| refuse("it is torn"))?;
        if bytes[..HEADER] == self.header(digest, code) { Ok(Checked(bytes)) } else { Err(refuse("it is torn or foreign")) }
    }

    /// Everything an entry must match, and a checksum over code and header alike.
    fn header(&self, digest: &[u8; 32], code: &[u8]) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&self.engine.to_le_bytes());
        header[16..48].copy_from_slice(digest);
        header[48..56].copy_from_slice(&(code.len() as u64).to_le_bytes());
        let checksum = Sha256::new().chain_update(&header[..56]).chain_update(code).finalize();
        header[56..].copy_from_slice(&checksum);
        header
    }

    /// Stores code. Several processes may do so at once; each writes its own file and renames it.
    pub(crate) fn write(&self, digest: &[u8; 32], code: &[u8]) {
        let path = self.path(digest);
        if let Err(error) = self.write_whole(&path, digest, code) {
            tracing::warn!(path = %path.display(), %error, "a compiled plugin is not cached");
        }
    }

    fn write_whole(&self, path: &Path, digest: &[u8; 32], code: &[u8]) -> io::Result<()> {
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let temporary = path.with_extension(format!("{}-{number}.tmp", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let written =
            file.write_all(&self.header(digest, code)).and_then(|()| file.write_all(code)).and_then(|()| fs::rename(&temporary, path));
        if written.is_err() {
            // The entry is absent either way; what is left of it is only in the way.
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// Nobody but this process's user may have had a hand in it.
fn owned_by_us_alone(metadata: &fs::Metadata) -> io::Result<()> {
    let us = fs::metadata("/proc/self").map(|us| us.uid());
    let us = us.map_err(|error| io::Error::new(error.kind(), format!("cannot tell which user this is: {error}")))?;
    if metadata.uid() != us {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it belongs to another user"));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may enter it; make it 0700"));
    }
    Ok(())
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn cache(dir: &Path) -> Cache {
        Cache::open(dir, &Engine::default()).unwrap()
    }

    fn entry(dir: &Path) -> PathBuf {
        fs::read_dir(dir).unwrap().next().unwrap().unwrap().path()
    }

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let world = tempfile::tempdir().unwrap();
        let dir = world.path().join("cache");
        let cache = cache(&dir);
        assert!(cache.read(&[1; 32]).is_none());
        cache.write(&[1; 32], b"code");
        assert_eq!(cache.read(&[1; 32]).unwrap().bytes(), b"code");
        assert!(cache.read(&[2; 32]).is_none());
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn an_entry_cut_anywhere_or_with_any_bit_flipped_is_ignored() {
        let world = tempfile::tempdir().unwrap();
        let dir = world.path().join("cache");
        let cache = cache(&dir);
        cache.write(&[1; 32], b"some code");
        let path = entry(&dir);
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert!(cache.read(&[1; 32]).is_none(), "cut to {length}");
        }
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            fs::write(&path, &flipped).unwrap();
            assert!(cache.read(&[1; 32]).is_none(), "flipped at {at}");
        }
        cache.write(&[1; 32], b"some code");
        assert!(cache.read(&[1; 32]).is_some(), "it is written anew");
    }

    /// P165.
    #[test]
    fn an_entry_of_another_engine_is_ignored() {
        let world = tempfile::tempdir().unwrap();
        let dir = world.path().join("cache");
        let old = cache(&dir);
        old.write(&[1; 32], b"code");
        let new = Cache { engine: old.engine.wrapping_add(1), dir: dir.clone(), written: AtomicU64::new(0) };
        assert!(new.read(&[1; 32]).is_none(), "it has another name");
        fs::copy(old.path(&[1; 32]), new.path(&[1; 32])).unwrap();
        assert!(new.read(&[1; 32]).is_none(), "and says inside what it is of");
    }

    #[test]
    fn an_entry_of_another_component_under_this_name_is_ignored() {
        let world = tempfile::tempdir().unwrap();
        let dir = world.path().join("cache");
        let cache = cache(&dir);
        cache.write(&[1; 32], b"code");
        fs::copy(cache.path(&[1; 32]), cache.path(&[2; 32])).unwrap();
        assert!(cache.read(&[2; 32]).is_none());
    }

    #[test]
    fn a_directory_or_file_that_others_may_write_is_not_trusted() {
        let world = tempfile::tempdir().unwrap();
        let dir = world.path().join("cache");
        let cache = cache(&dir);
        cache.write(&[1; 32], b"code");
        fs::set_permissions(entry(&dir), fs::Permissions::from_mode(0o666)).unwrap();
        assert!(cache.read(&[1; 32]).is_none());
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Cache::open(&dir, &Engine::default()).is_none());
    }
}

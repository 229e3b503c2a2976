//! Which files there are: each is a split, named when it is found first and read as it was then.

use crate::config::Config;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;
use tidegate_sdk::{Discovered, Error, Result, Split, log};

/// What a manifest keeps of a discovery at most; a host refuses more.
const MAX_CURSOR: usize = 1 << 20;
/// How many bytes at the beginning of a file tell it from another of the same name.
pub(crate) const HEAD: u64 = 4096;

/// The names that were given out and are still there. A name that is gone is forgotten, so that what is kept is as large as the directory, not as its history.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Cursor {
    version: u32,
    files: BTreeSet<String>,
}

/// What was seen of a file when it was found: what comes behind that length is not read, and other bytes in it are another file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Details {
    version: u32,
    /// Its length.
    pub(crate) bytes: u64,
    /// The digest of its first [`HEAD`] bytes.
    pub(crate) head: String,
}

impl Details {
    /// Reads a split's details.
    pub(crate) fn decode(details: &[u8]) -> Result<Self> {
        let decoded: Option<Details> = serde_json::from_slice(details).ok();
        decoded.filter(|details| details.version == 1).ok_or_else(|| crate::foreign("the details of a split", details))
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("numbers and text have a JSON form")
    }

    /// How many bytes the digest is of.
    pub(crate) fn head_bytes(&self) -> u64 {
        self.bytes.min(HEAD)
    }
}

/// Whether the directory can be read.
pub(crate) fn check(dir: &Path) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let dir = dir.display();
    Err(Error::config(format!(
        "`dir` is `{dir}`, and no such directory is granted; add `allow = {{ dirs = [\"HOST={dir}\"] }}` to the plugin"
    )))
}

/// Names the files that no earlier discovery has named. Without `watch` only the first one finds any: a bounded input is what was there at its beginning.
pub(crate) fn discover(config: &Config, cursor: Option<&[u8]>) -> Result<Discovered> {
    let known = match cursor {
        None => BTreeSet::new(),
        Some(_) if !config.watch => return Ok(Discovered::default()),
        Some(cursor) => {
            let decoded: Option<Cursor> = serde_json::from_slice(cursor).ok();
            decoded.filter(|cursor| cursor.version == 1).ok_or_else(|| crate::foreign("the cursor", cursor))?.files
        }
    };
    let mut added = Vec::new();
    let mut files = list(&config.dir)?;
    if files.is_empty() && cursor.is_none() {
        log::warn(&format!("directory `{}` has no file `*.csv`", config.dir.display()));
    }
    for name in files.clone().iter().filter(|name| !known.contains(*name)) {
        match look_at(&config.dir.join(name))? {
            Some(details) => added.push(Split { id: name.clone(), details: details.encode(), position: None }),
            None => drop(files.remove(name)),
        }
    }
    let cursor = serde_json::to_vec(&Cursor { version: 1, files }).expect("text has a JSON form");
    if cursor.len() > MAX_CURSOR {
        let dir = config.dir.display();
        return Err(Error::config(format!(
            "directory `{dir}` has more files than can be remembered (1 MiB of names); move those that were read away"
        )));
    }
    Ok(Discovered { added, gone: Vec::new(), cursor: Some(cursor) })
}

/// The names of the files, hidden ones aside.
fn list(dir: &Path) -> Result<BTreeSet<String>> {
    let failed = |error: std::io::Error| Error::fatal(format!("directory `{}` cannot be listed: {error}", dir.display()));
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let is_csv = Path::new(&name).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
        if !is_csv || name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        match name.into_string() {
            Ok(name) => drop(names.insert(name)),
            Err(name) => {
                return Err(Error::config(format!("file `{}` has a name that is no UTF-8; give it another", name.to_string_lossy())));
            }
        }
    }
    Ok(names)
}

/// `None` for what is no file, and for one that was gone meanwhile.
fn look_at(path: &Path) -> Result<Option<Details>> {
    let failed = |error: std::io::Error| Error::fatal(format!("file `{}` cannot be read: {error}", path.display()));
    let bytes = match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => metadata.len(),
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut head = Vec::new();
    File::open(path).map_err(failed)?.take(bytes.min(HEAD)).read_to_end(&mut head).map_err(failed)?;
    Ok(Some(Details { version: 1, bytes, head: digest(&head) }))
}

/// 64-bit FNV-1a, which is the same in every version. Files are told apart by it, not secured.
pub(crate) fn digest(bytes: &[u8]) -> String {
    let digest = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{digest:016x}")
}

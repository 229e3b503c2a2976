//! Files that come while running: which of a listing are new, and whether a file still is what was found.
//!
//! Discovery remembers what it has given out ([`super::memory`]) and never names a split twice: the name of a split says which version of
//! the file it is. So the engine forgets a split that was read to its end. `docs/design/0007-watched-files.md` has the whole.

use super::config::{Changed, FilesSourceConfig, Missing, Watch};
use super::listing::{Found, stamped};
use super::memory::{Memory, Verdict, fingerprint};
use super::open::At;
use super::place::{Place, Stamp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tidegate_api::{Discovered, Error, EventTime, Result, Split, SplitId};
use xxhash_rust::xxh3::xxh3_64;

/// So many files wait to be read at most; the next wait in the folder until the readers come after.
const WAITING: usize = 10_000;

/// What a reader must know of a watched file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Details {
    pub(super) file: String,
    pub(super) version: u64,
}

impl Details {
    fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(|error| Error::internal(error.to_string()))
    }

    /// Of a split; a file that was found without being watched has none, and its split is named as it is.
    pub(super) fn of(split: &Split) -> Result<Details> {
        if split.details.is_empty() {
            return Ok(Details { file: split.id.to_string(), version: 0 });
        }
        serde_json::from_slice(&split.details)
            .map_err(|error| Error::internal(format!("split `{}` cannot be read", split.id)).caused_by(error))
    }
}

/// How many files were given out and not read, for all readers of a source. A hint that bounds the manifest; nothing relies on it.
#[derive(Debug, Default)]
pub(super) struct Backlog(AtomicUsize);

impl Backlog {
    pub(super) fn add(&self, files: usize) {
        self.0.fetch_add(files, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, files: usize) {
        self.0.fetch_sub(files, Ordering::Relaxed);
    }

    fn room(&self) -> usize {
        WAITING.saturating_sub(self.0.load(Ordering::Relaxed))
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

/// What is new since `memory`. Files that were written to so lately that somebody may still write wait for the next time.
///
/// # Errors
/// `External` if the folder cannot be listed, or a file has changed that must not; `Limit` if too much must be remembered.
pub(super) fn discover(
    config: &FilesSourceConfig,
    watch: &Watch,
    mut memory: Memory,
    now: EventTime,
    backlog: &Backlog,
    skipped: &mut dyn FnMut(&Path, &str),
) -> Result<Discovered> {
    let mut added = Vec::new();
    let mut present = BTreeSet::new();
    let mut waiting: Option<i64> = None;
    let mut room = backlog.room();
    let settled = now.0.saturating_sub(micros(watch.settle));
    for (file, stamp) in stamped(config, skipped)? {
        let name = fingerprint(&file.name);
        present.insert(name);
        memory.adopt(name, stamp.version, stamp.time);
        match memory.judge(name, stamp.version, stamp.time) {
            Verdict::Known => continue,
            Verdict::Changed => match watch.changed {
                Changed::Error => return Err(changed(&file.name, "was changed after it was found")),
                Changed::Skip => {
                    skipped(file.place.path(), "it was changed after it was found, and `changed` is `skip`");
                    memory.take(name, stamp.version, stamp.time);
                    continue;
                }
                Changed::Read => {}
            },
            Verdict::New => {}
        }
        // Where nothing has to settle, clocks need not agree.
        if room == 0 || (!watch.settle.is_zero() && stamp.time > settled) {
            waiting = Some(waiting.map_or(stamp.time, |earliest| earliest.min(stamp.time)));
            continue;
        }
        room -= 1;
        memory.take(name, stamp.version, stamp.time);
        added.push(split(&file, stamp)?);
    }
    memory.settle(&present, waiting, micros(watch.late)).map_err(|error| error.context(format!("watching `{}`", config.path)))?;
    Ok(Discovered { added, gone: Vec::new(), cursor: Some(memory.encode()), complete: false })
}

/// The split of a file of a run that is not watched. Objects may change under way, so their version is part of it.
pub(super) fn unwatched(file: &Found) -> Result<Split> {
    let details = match &file.place {
        Place::Local(_) => Vec::new(),
        Place::Object(_, object) => Details { file: file.name.clone(), version: Stamp::of_object(object).version }.encode()?,
    };
    Ok(Split { id: SplitId::new(&file.name), details, position: Some(At::default().position()) })
}

/// The name of a split says which version of the file it is, and since when: one that comes back is another.
fn split(file: &Found, stamp: Stamp) -> Result<Split> {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&stamp.version.to_le_bytes());
    bytes[8..].copy_from_slice(&stamp.time.to_le_bytes());
    let id = SplitId::new(format!("{}@{:016x}", file.name, xxh3_64(&bytes)));
    let details = Details { file: file.name.clone(), version: stamp.version };
    Ok(Split { id, details: details.encode()?, position: Some(At::default().position()) })
}

/// Where reading stands when a file is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Before it is opened at this place.
    Before(At),
    /// Behind its last row.
    Behind,
}

/// What a reader is to do with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Still {
    /// It is what was found.
    Same,
    /// Nothing of it is to be read, and that is all.
    Over,
}

/// Whether a file still is what was found.
///
/// # Errors
/// `External` if it is not, naming it and what to do.
pub(super) fn still(watch: &Watch, details: &Details, now: Option<&Stamp>, stage: Stage) -> Result<Still> {
    let Some(stamp) = now else {
        return match (stage, watch.missing) {
            // An open file is read to its end though its name is gone.
            (Stage::Behind, _) => Ok(Still::Same),
            (Stage::Before(at), Missing::Skip) => {
                tracing::warn!(file = details.file, row = at.row, "a file is gone before it was read to its end, and `missing` is `skip`");
                Ok(Still::Over)
            }
            (Stage::Before(_), Missing::Error) => Err(Error::external(format!(
                "file `{}` is gone before it was read to its end; put it back, or set `missing` to `skip`, and move files away only after they were read",
                details.file
            ))),
        };
    };
    if details.version == 0 || stamp.version == details.version || watch.changed == Changed::Skip {
        return Ok(Still::Same);
    }
    match stage {
        // The next listing gives it out as it is now.
        Stage::Before(at) if watch.changed == Changed::Read && at == At::default() => Ok(Still::Over),
        Stage::Before(_) | Stage::Behind => Err(changed(&details.file, "was changed before it was read to its end")),
    }
}

fn changed(file: &str, what: &str) -> Error {
    Error::external(format!(
        "file `{file}` {what}; write files elsewhere and rename them when they are whole, or raise `settle`; `changed` says what else to do"
    ))
}

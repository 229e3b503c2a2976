//! Making parts visible, or undoing them; without any writer, any number of times, from any process.

use super::staging::{PartName, Place, failed, make_folder, sync_folder};
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use tidegate_api::{CommitOutcome, CommitToken, Committer, Epoch, Error, Result};

/// Commits by hard link, which fails if the name exists: a part appears whole or not at all, and once.
pub(super) struct FilesCommitter {
    place: Place,
}

impl FilesCommitter {
    pub(super) fn new(place: Place) -> Self {
        FilesCommitter { place }
    }

    /// Links one part to its final name; answers what happened.
    fn link(&self, part: &PartName) -> Result<CommitOutcome> {
        let folder = self.place.folder(part);
        let (from, to) = (self.place.staging.join(&part.staged), folder.join(&part.name));
        let linked = match fs::hard_link(&from, &to) {
            // The first part of a partition: its folder comes with it.
            Err(error) if error.kind() == io::ErrorKind::NotFound && from.exists() => {
                make_folder(&folder).map_err(|error| failed("created", &folder, error))?;
                fs::hard_link(&from, &to)
            }
            linked => linked,
        };
        match linked {
            Ok(()) => Ok(CommitOutcome::Done),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match are_equal(&from, &to) {
                Ok(true) => Ok(CommitOutcome::AlreadyDone),
                Ok(false) => Err(taken(&to)),
                // Cleared away meanwhile by a commit at the same time.
                Err(error) if error.kind() == io::ErrorKind::NotFound => Self::found(part, &from, &to),
                Err(error) => Err(failed("compared", &to, error)),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::found(part, &from, &to),
            Err(error) => Err(failed("made visible", &to, error)),
        }
    }

    /// What became of a part that is not staged any more.
    fn found(part: &PartName, from: &Path, to: &Path) -> Result<CommitOutcome> {
        match fs::metadata(to) {
            // Committed and cleared away before, by us or by somebody at the same time.
            Ok(found) if part.size.is_none_or(|size| size == found.len()) => Ok(CommitOutcome::AlreadyDone),
            Ok(_) => Err(taken(to)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(CommitOutcome::Lost(format!("neither `{}` nor `{}` exists", from.display(), to.display())))
            }
            Err(error) => Err(failed("looked at", to, error)),
        }
    }

    /// Makes the final names of parts durable, and the folders they are in.
    fn sync<'p>(&self, parts: impl Iterator<Item = &'p PartName>) -> Result<()> {
        let mut folders = BTreeSet::from([self.place.target.clone()]);
        for part in parts {
            let folder = self.place.folder(part);
            // Another process may have made a folder and died before its name was durable.
            let above = folder.ancestors().take_while(|above| *above != self.place.target).map(Path::to_path_buf);
            folders.extend(above);
        }
        for folder in folders {
            match sync_folder(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("made durable", &folder, error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn remove(&self, staged: &str) -> Result<()> {
        let path = self.place.staging.join(staged);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("removed", &path, error)),
            _ => Ok(()),
        }
    }
}

/// Names say run, epoch, task and number, so whatever else is there was put there by somebody else.
fn taken(to: &Path) -> Error {
    Error::data(format!(
        "`{}` is there already and is not the part that is to be made visible under this name; nothing is overwritten: move it out of the folder \
         and start again",
        to.display()
    ))
}

/// Whether two files hold the same, which two names of one file do.
fn are_equal(one: &Path, other: &Path) -> io::Result<bool> {
    let (of_one, of_other) = (fs::metadata(one)?, fs::metadata(other)?);
    if (of_one.dev(), of_one.ino()) == (of_other.dev(), of_other.ino()) {
        return Ok(true);
    }
    if of_one.len() != of_other.len() {
        return Ok(false);
    }
    let (mut one, mut other) = (BufReader::new(fs::File::open(one)?), BufReader::new(fs::File::open(other)?));
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let count = left.len().min(right.len());
        if count == 0 {
            return Ok(left.is_empty() && right.is_empty());
        }
        if left[..count] != right[..count] {
            return Ok(false);
        }
        one.consume(count);
        other.consume(count);
    }
}

/// What a token's parts add up to.
fn combined(outcomes: Vec<CommitOutcome>) -> CommitOutcome {
    let mut all = CommitOutcome::AlreadyDone;
    for outcome in outcomes {
        match outcome {
            CommitOutcome::Lost(reason) => return CommitOutcome::Lost(reason),
            CommitOutcome::Done => all = CommitOutcome::Done,
            CommitOutcome::AlreadyDone => {}
        }
    }
    all
}

impl Committer for FilesCommitter {
    fn commit(&mut self, _: Epoch, tokens: &[CommitToken]) -> Result<Vec<CommitOutcome>> {
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        let tokens = tokens.iter().map(|token| self.place.read(token)).collect::<Result<Vec<_>>>()?;
        let mut outcomes = Vec::with_capacity(tokens.len());
        for token in &tokens {
            outcomes.push(combined(token.parts.iter().map(|part| self.link(part)).collect::<Result<Vec<_>>>()?));
        }
        // The final names are durable before the staged ones go; else a crash could lose both.
        self.sync(tokens.iter().flat_map(|token| &token.parts))?;
        for part in tokens.iter().flat_map(|token| &token.parts) {
            self.remove(&part.staged)?;
        }
        self.place.tidy();
        Ok(outcomes)
    }

    fn abort(&mut self, _: Epoch, tokens: &[CommitToken]) -> Result<()> {
        for token in tokens {
            for part in self.place.read(token)?.parts {
                self.remove(&part.staged)?;
            }
        }
        self.place.tidy();
        Ok(())
    }

    fn recover(&mut self, keep: &[CommitToken]) -> Result<()> {
        let mut kept = BTreeSet::new();
        for token in keep {
            kept.extend(self.place.read(token)?.parts.into_iter().map(|part| part.staged));
        }
        let entries = match fs::read_dir(&self.place.staging) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(failed("listed", &self.place.staging, error)),
        };
        for entry in entries {
            let entry = entry.map_err(|error| failed("listed", &self.place.staging, error))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_older = Place::generation_of(&name).is_some_and(|generation| generation < self.place.generation);
            if is_older && !kept.contains(&name) {
                self.remove(&name)?;
            }
        }
        self.place.tidy();
        Ok(())
    }
}

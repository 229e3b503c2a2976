//! The second phase, and what undoes the first. Nothing here needs a writer: after a crash there is none, and a token says it all.
//!
//! Every state that a commit can meet:
//!
//! | staged file | part | "begun" mark | meaning | outcome |
//! |---|---|---|---|---|
//! | there, whole | – | any | prepared | renamed: done |
//! | there, cut short | – | any | the disk lost its end | lost |
//! | gone | there | any | committed | already done |
//! | gone | gone | there | committed, and a reader has taken the part away since | already done |
//! | gone | gone | gone | somebody removed it, or the disk lost it | lost |
//!
//! The mark is made durable before the rename, and removed by a commit of a later epoch, when no manifest asks any more. Two commits at once: one renames, the other
//! finds the file gone and the part there.

use crate::disk::{self, failed};
use crate::names::{self, BEGUN, Entry};
use crate::token::Prepared;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tidegate_sdk::{Outcome, Result, Scope, log};

/// Makes the parts of one epoch appear.
pub(crate) fn commit(dir: &Path, epoch: u64, prepared: &[Prepared]) -> Result<Vec<Outcome>> {
    let mut folders = BTreeSet::new();
    for file in prepared {
        let staged = dir.join(&file.staged);
        if disk::length(&staged)?.is_some() {
            let mark = mark_of(&staged);
            File::create(&mark).and_then(|mark| mark.sync_all()).map_err(failed("create", &mark))?;
        }
        folders.extend(staged.parent().map(Path::to_owned));
    }
    // A folder may be gone altogether; then its files are, and each is judged below.
    folders.retain(|folder| folder.is_dir());
    for folder in &folders {
        disk::sync_folder(folder)?;
    }
    let outcomes = prepared.iter().map(|file| publish(dir, file)).collect::<Result<Vec<_>>>()?;
    disk::sync_folder(dir)?;
    for folder in &folders {
        disk::sync_folder(folder)?;
        forget_before(folder, epoch)?;
    }
    Ok(outcomes)
}

fn mark_of(staged: &Path) -> PathBuf {
    let mut name = staged.as_os_str().to_owned();
    name.push(BEGUN);
    name.into()
}

fn publish(dir: &Path, file: &Prepared) -> Result<Outcome> {
    let (staged, part) = (dir.join(&file.staged), dir.join(&file.part));
    match disk::length(&staged)? {
        Some(bytes) if bytes != file.bytes => {
            log::error(&format!("`{}` has {bytes} bytes where {} were made durable", file.staged, file.bytes));
            return Ok(Outcome::Lost);
        }
        Some(_) => match fs::rename(&staged, &part) {
            Ok(()) => return Ok(Outcome::Done),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(failed("rename to", &part)(error)),
        },
        None => {}
    }
    if disk::length(&part)?.is_some() || disk::length(&mark_of(&staged))?.is_some() {
        return Ok(Outcome::AlreadyDone);
    }
    log::error(&format!("`{}` with {} rows is neither staged nor committed", file.part, file.rows));
    Ok(Outcome::Lost)
}

/// Removes the marks of earlier epochs: one epoch is committed after the other, so nobody asks for them again.
fn forget_before(folder: &Path, epoch: u64) -> Result<()> {
    for (name, path) in entries(folder)? {
        if matches!(Entry::parse(&name), Some(Entry::Begun { epoch: earlier }) if earlier < epoch) {
            disk::remove(&path)?;
        }
    }
    Ok(())
}

/// Removes what was prepared. A part that was committed stays.
pub(crate) fn abort(dir: &Path, prepared: &[Prepared]) -> Result<()> {
    for file in prepared {
        let staged = dir.join(&file.staged);
        disk::remove(&staged)?;
        disk::remove(&mark_of(&staged))?;
    }
    Ok(())
}

/// Removes what this run's operator staged under earlier generations and nobody wants kept.
pub(crate) fn recover(dir: &Path, scope: &Scope, keep: &[Prepared]) -> Result<()> {
    let relative = names::folder(scope);
    let kept: BTreeSet<PathBuf> = keep.iter().map(|file| dir.join(&file.staged)).collect();
    for (name, path) in entries(&dir.join(relative))? {
        let older = matches!(Entry::parse(&name), Some(Entry::Rows { generation }) if generation < scope.generation);
        if older && !kept.contains(&path) {
            disk::remove(&path)?;
        }
    }
    Ok(())
}

/// How often a folder is listed again whose files another start removes meanwhile.
const LISTINGS: usize = 100;

/// Names and paths in a folder; none if there is no such folder.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    // A host may look at each entry of a listing, and then one that goes meanwhile fails the whole of it.
    for _ in 1..LISTINGS {
        match list(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            listed => return listed.map_err(failed("list", folder)),
        }
    }
    list(folder).map_err(failed("list", folder))
}

fn list(folder: &Path) -> std::io::Result<Vec<(String, PathBuf)>> {
    let listed = match fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut entries = Vec::new();
    for entry in listed {
        let entry = entry?;
        if let Some(name) = entry.file_name().to_str() {
            entries.push((name.to_owned(), entry.path()));
        }
    }
    Ok(entries)
}

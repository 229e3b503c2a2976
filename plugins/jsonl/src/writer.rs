//! The first phase: rows of one task, epoch after epoch, into staged files.

use crate::disk::{self, failed};
use crate::names;
use crate::token::Prepared;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use tidegate_sdk::{Result, Scope};

/// Writes the staged files of one task.
pub(crate) struct Writer {
    dir: PathBuf,
    scope: Scope,
    open: Option<File>,
    rows: u64,
    bytes: u64,
}

impl Writer {
    /// Touches nothing; the first rows do.
    pub(crate) fn new(dir: PathBuf, scope: &Scope) -> Self {
        Writer { dir, scope: scope.clone(), open: None, rows: 0, bytes: 0 }
    }

    fn path(&self, file: &str) -> PathBuf {
        self.dir.join(names::folder(&self.scope)).join(file)
    }

    /// Appends whole lines.
    pub(crate) fn append(&mut self, lines: &[u8]) -> Result<()> {
        let path = self.path(&names::open_file(&self.scope));
        let mut file = match self.open.take() {
            Some(file) => file,
            None => {
                disk::make_folders(&self.dir, &names::folder(&self.scope))?;
                // A leftover of this generation is this task's own, from before a trap; its rows come again.
                File::create(&path).map_err(failed("create", &path))?
            }
        };
        file.write_all(lines).map_err(failed("write to", &path))?;
        self.bytes += lines.len() as u64;
        self.open = Some(file);
        Ok(())
    }

    /// Counts rows that were appended.
    pub(crate) fn count(&mut self, rows: u64) {
        self.rows += rows;
    }

    /// Makes what was appended since the last call durable under the epoch's name.
    pub(crate) fn prepare(&mut self, epoch: u64) -> Result<Option<Prepared>> {
        let Some(file) = self.open.take() else {
            return Ok(None);
        };
        let open = self.path(&names::open_file(&self.scope));
        let staged_file = names::staged_file(&self.scope, epoch);
        let staged = self.path(&staged_file);
        file.sync_all().map_err(failed("sync", &open))?;
        drop(file);
        fs::rename(&open, &staged).map_err(failed("rename to", &staged))?;
        let folder = names::folder(&self.scope);
        disk::sync_folder(&self.dir.join(&folder))?;
        let (rows, bytes) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.bytes));
        Ok(Some(Prepared::new(format!("{folder}/{staged_file}"), names::part(&self.scope, epoch), rows, bytes)))
    }
}

//! The parts that one task has open: one for each folder it writes into, and no more than can be afforded.
//!
//! Two bounds hold whatever the rows say. Past [`MAX_OPEN`] parts the one that was written to least recently is ended; when its
//! folder gets rows again, another part of it begins. Past [`MAX_HELD`] bytes that formats keep in memory (Parquet does,
//! until a row group is full), the part that keeps the most writes its own down.

use super::config::FilesSinkConfig;
use super::part::{Ended, Part, wrapping};
use super::staging::{PartName, Place};
use super::upload::Upload;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tidegate_api::sink::RowError;
use tidegate_api::{Epoch, Result};
use tidegate_objects::Bucket;

/// Parts open at the same time, for one task.
pub(super) const MAX_OPEN: usize = 64;
/// Bytes that open parts keep in memory, for one task.
const MAX_HELD: usize = 128 << 20;
/// Parts of a bucket that are open at the same time, for one task: each keeps up to two pieces in memory.
const MAX_UPLOADS: usize = 8;

struct Open {
    part: Part,
    number: u64,
    begun: Duration,
    touched: u64,
    held: usize,
}

/// A part that is whole and waits for its commit.
struct Finished {
    part: Ended,
    number: u64,
    folder: String,
}

/// Parts of one epoch.
pub(super) struct Parts {
    config: FilesSinkConfig,
    place: Place,
    bucket: Option<Arc<Bucket>>,
    task: usize,
    schema: SchemaRef,
    open: HashMap<String, Open, FixedState>,
    finished: Vec<Finished>,
    /// Parts begun so far, which makes their staged names unique.
    begun: u64,
    writes: u64,
    held: usize,
}

impl Parts {
    /// No parts yet; files will have this schema.
    pub(super) fn new(config: FilesSinkConfig, place: Place, task: usize, schema: SchemaRef) -> Self {
        Parts { config, place, bucket: None, task, schema, open: HashMap::default(), finished: Vec::new(), begun: 0, writes: 0, held: 0 }
    }

    /// Sends parts to a bucket.
    pub(super) fn to(mut self, bucket: Arc<Bucket>) -> Self {
        self.bucket = Some(bucket);
        self
    }

    /// Writes rows into a folder at a time; answers those that the format cannot hold.
    pub(super) fn write(&mut self, folder: &str, rows: &RecordBatch, now: Duration) -> Result<Vec<RowError>> {
        self.writes += 1;
        if !self.open.contains_key(folder) {
            self.begin(folder, now)?;
        }
        let Some(open) = self.open.get_mut(folder) else { return Ok(Vec::new()) };
        let refused = open.part.write(rows)?;
        open.touched = self.writes;
        self.held -= open.held;
        open.held = open.part.held();
        self.held += open.held;
        let full = open.part.is_full() || self.config.roll_bytes.is_some_and(|limit| open.part.written() >= limit);
        if full || self.config.roll_every.is_some_and(|limit| now.saturating_sub(open.begun) >= limit) {
            self.end(folder)?;
        }
        self.relieve()?;
        Ok(refused)
    }

    fn begin(&mut self, folder: &str, now: Duration) -> Result<()> {
        if self.open.len() >= if self.bucket.is_some() { MAX_UPLOADS } else { MAX_OPEN } {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.touched).map(|(folder, _)| folder.clone());
            if let Some(oldest) = oldest {
                self.end(&oldest)?;
            }
        }
        let (_, ending) = wrapping(&self.config);
        let mut number = self.begun;
        let part = match &self.bucket {
            None => Part::begin(&self.config, &self.place, &self.schema, self.place.staged_name(self.task, number, &ending))?,
            Some(bucket) => {
                let target = if folder.is_empty() { self.place.target.clone() } else { self.place.target.join(folder) };
                loop {
                    let staged = self.place.staged_name(self.task, number, &ending);
                    let path = target.join(self.place.uploaded_name(self.task, number, &ending));
                    // Another writer of this task and generation may have been here; its parts are not ours.
                    if Upload::is_free(bucket, &path, &self.place.staging.join(&staged))? {
                        break Part::upload(&self.config, (bucket, &self.place), &self.schema, staged, path)?;
                    }
                    number += 1;
                }
            }
        };
        self.begun = number + 1;
        self.open.insert(folder.to_string(), Open { part, number, begun: now, touched: self.writes, held: 0 });
        Ok(())
    }

    fn end(&mut self, folder: &str) -> Result<()> {
        let Some((folder, open)) = self.open.remove_entry(folder) else { return Ok(()) };
        self.held -= open.held;
        self.finished.push(Finished { part: open.part.finish()?, number: open.number, folder });
        Ok(())
    }

    /// Keeps what is held in memory within its bound.
    fn relieve(&mut self) -> Result<()> {
        while self.held > MAX_HELD {
            let Some(open) = self.open.values_mut().max_by_key(|open| open.held) else { return Ok(()) };
            open.part.relieve()?;
            let left = open.part.held();
            if left >= open.held {
                return Ok(());
            }
            self.held -= open.held - left;
            open.held = left;
        }
        Ok(())
    }

    /// Ends all parts: each with its staged and its final name, in the order in which they were ended.
    pub(super) fn end_all(&mut self, epoch: Epoch) -> Result<Vec<PartName>> {
        let mut open: Vec<(u64, String)> = self.open.iter().map(|(folder, open)| (open.number, folder.clone())).collect();
        open.sort();
        for (_, folder) in open {
            self.end(&folder)?;
        }
        let (_, ending) = wrapping(&self.config);
        let name = |(number, part): (usize, Finished)| PartName {
            name: match part.part.upload {
                None => self.place.final_name(epoch, self.task, number, &ending),
                Some(_) => self.place.uploaded_name(self.task, part.number, &ending),
            },
            staged: part.part.staged,
            folder: part.folder,
            size: Some(part.part.size),
            upload: part.part.upload,
        };
        Ok(std::mem::take(&mut self.finished).into_iter().enumerate().map(name).collect())
    }

    /// How many are open.
    #[cfg(test)]
    pub(super) fn open(&self) -> usize {
        self.open.len()
    }
}

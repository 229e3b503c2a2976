//! The first phase: rows of one task, epoch after epoch, into uploads that nobody sees before they are completed.

use crate::bucket::{Begun, Bucket};
use crate::names;
use crate::token::Prepared;
use tidegate_sdk::{Error, Result, Scope};

/// What a server takes at the most.
const MOST_PARTS: usize = 10_000;

/// An epoch's upload.
struct Upload {
    begun: Begun,
    mark: String,
    parts: Vec<String>,
}

/// Writes the uploads of one task.
pub(crate) struct Writer {
    bucket: Bucket,
    scope: Scope,
    number: u64,
    uploads: u64,
    upload: Option<Upload>,
    /// Lines that are in no part yet, or only in the last one.
    lines: Vec<u8>,
    /// The last part, if it has been uploaded and has all that stands in `lines`.
    last: Option<String>,
    rows: u64,
}

impl Writer {
    /// Touches nothing; the first rows do.
    pub(crate) fn new(bucket: Bucket, scope: &Scope) -> Self {
        let number = names::writer();
        Writer { bucket, scope: scope.clone(), number, uploads: 0, upload: None, lines: Vec::new(), last: None, rows: 0 }
    }

    /// Uploads whole parts, as long as there are lines enough.
    pub(crate) fn make_room(&mut self) -> Result<()> {
        let size = self.bucket.config().part_bytes;
        while self.lines.len() >= size {
            let etag = self.put(size)?;
            self.lines.drain(..size);
            // What was the last part is not any more: this one took its place.
            self.last = None;
            if let Some(upload) = &mut self.upload {
                upload.parts.push(etag);
            }
        }
        Ok(())
    }

    /// Takes whole lines; into memory, so nothing can go wrong.
    pub(crate) fn append(&mut self, lines: &[u8]) {
        self.lines.extend_from_slice(lines);
        self.last = None;
    }

    /// Counts rows that were appended.
    pub(crate) fn count(&mut self, rows: u64) {
        self.rows += rows;
    }

    /// Uploads the rest. It stays in memory until its epoch is prepared: rows that come before that make the last part anew, since one that others follow may not be small.
    pub(crate) fn settle(&mut self) -> Result<()> {
        self.make_room()?;
        if !self.lines.is_empty() && self.last.is_none() {
            self.last = Some(self.put(self.lines.len())?);
        }
        Ok(())
    }

    /// What commits the rows since the last call.
    pub(crate) fn prepare(&mut self) -> Result<Option<Prepared>> {
        self.settle()?;
        let Some(mut upload) = self.upload.take() else { return Ok(None) };
        upload.parts.extend(self.last.take());
        self.lines.clear();
        let rows = std::mem::take(&mut self.rows);
        Ok(Some(Prepared::new(upload.begun.key, upload.begun.id, upload.mark, upload.parts, rows)))
    }

    /// Uploads the first bytes as the next part.
    fn put(&mut self, bytes: usize) -> Result<String> {
        if self.upload.is_none() {
            let mark = names::mark(self.number, self.uploads);
            let key = names::key(self.bucket.config(), &self.scope, &mark);
            let id = self.bucket.begin(&key, &mark)?;
            self.uploads += 1;
            self.upload = Some(Upload { begun: Begun { key, id }, mark, parts: Vec::new() });
        }
        let upload = self.upload.as_ref().ok_or_else(|| Error::fatal("an upload that was begun is there"))?;
        let number = upload.parts.len() + 1;
        if number > MOST_PARTS {
            return Err(Error::config(format!(
                "an epoch has more than {MOST_PARTS} parts of {} bytes; raise `partBytes`, or make epochs shorter",
                self.bucket.config().part_bytes
            )));
        }
        self.bucket.part(&upload.begun, number, &self.lines[..bytes])
    }
}

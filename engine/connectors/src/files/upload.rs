//! Parts of a bucket: uploads that are completed by the commit.
//!
//! A part is a multipart upload under its final name; its bytes travel while rows are written, and nothing of it is seen. The token holds the
//! upload's name and those of its pieces, so any process with the token can complete it. So that an upload without a token can be given
//! up, a note of it lies in the hidden folder from before its first byte until it is completed or given up.

use super::staging::{PartName, Place};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use tidegate_api::{CommitOutcome, CommitToken, Committer, Epoch, Error, Result};
use tidegate_objects::{Bucket, Completed, Depth, Sent};

/// Bytes that travel at once.
pub(super) const PIECE: usize = 8 << 20;
/// No server takes more than 10,000 pieces of one object.
pub(super) const PIECES: usize = 9_000;

/// What a token says of an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Uploaded {
    id: String,
    pieces: Vec<String>,
}

/// What a note says: what to give up.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    key: String,
    id: String,
}

/// The key of a path below the target.
fn key_of(path: &Path) -> Result<String> {
    path.to_str().map(str::to_string).ok_or_else(|| Error::internal("a key of an object is text"))
}

/// A part that is being sent.
pub(super) struct Upload {
    bucket: Arc<Bucket>,
    key: String,
    id: String,
    buffer: Vec<u8>,
    sent: Sent,
    size: u64,
}

impl Upload {
    /// Whether neither an object nor the note of an upload has these names.
    pub(super) fn is_free(bucket: &Bucket, path: &Path, note: &Path) -> Result<bool> {
        Ok(bucket.head(&key_of(path)?)?.is_none() && bucket.head(&key_of(note)?)?.is_none())
    }

    /// Begins the upload of `path`, with its note at `note`.
    pub(super) fn begin(bucket: &Arc<Bucket>, path: &Path, note: &Path) -> Result<Upload> {
        let key = key_of(path)?;
        let id = bucket.begin_upload(&key)?;
        let text = serde_json::to_vec(&Note { key: key.clone(), id: id.clone() }).map_err(|error| Error::internal(error.to_string()))?;
        bucket.put(&key_of(note)?, text)?;
        Ok(Upload { bucket: Arc::clone(bucket), key, id, buffer: Vec::new(), sent: Sent::default(), size: 0 })
    }

    /// Bytes that wait to be sent.
    pub(super) fn held(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the object can grow no more.
    pub(super) fn is_full(&self) -> bool {
        self.sent.count() >= PIECES
    }

    fn send(&mut self) -> Result<()> {
        let piece = std::mem::take(&mut self.buffer);
        self.bucket.send(&self.key, &self.id, &mut self.sent, piece)
    }

    /// Sends the rest; answers what completes it, and its length.
    pub(super) fn finish(mut self) -> Result<(Uploaded, u64)> {
        if !self.buffer.is_empty() || self.sent.count() == 0 {
            self.send()?;
        }
        Ok((Uploaded { id: self.id, pieces: self.bucket.sent(&self.key, self.sent)? }, self.size))
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        self.size += bytes.len() as u64;
        if self.buffer.len() >= PIECE {
            self.send().map_err(io::Error::other)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Commits by completing uploads.
pub(super) struct UploadCommitter {
    bucket: Arc<Bucket>,
    place: Place,
}

impl UploadCommitter {
    pub(super) fn new(bucket: Arc<Bucket>, place: Place) -> Self {
        UploadCommitter { bucket, place }
    }

    fn uploaded(part: &PartName) -> Result<(&Uploaded, u64)> {
        let both = part.upload.as_ref().zip(part.size);
        both.ok_or_else(|| Error::internal(format!("the part `{}` of a token is no upload; it was written to a folder", part.name)))
    }

    fn key(&self, part: &PartName) -> Result<String> {
        key_of(&self.place.folder(part).join(&part.name))
    }

    fn forget(&self, staged: &str) -> Result<()> {
        self.bucket.delete(&key_of(&self.place.staging.join(staged))?)
    }
}

impl Committer for UploadCommitter {
    fn commit(&mut self, _: Epoch, tokens: &[CommitToken]) -> Result<Vec<CommitOutcome>> {
        let tokens = tokens.iter().map(|token| self.place.read(token)).collect::<Result<Vec<_>>>()?;
        let mut outcomes = Vec::with_capacity(tokens.len());
        for token in &tokens {
            let mut outcome = CommitOutcome::AlreadyDone;
            for part in &token.parts {
                let (upload, size) = UploadCommitter::uploaded(part)?;
                let key = self.key(part)?;
                match self.bucket.complete_upload(&key, &upload.id, upload.pieces.clone(), size)? {
                    Completed::Now if !matches!(outcome, CommitOutcome::Lost(_)) => outcome = CommitOutcome::Done,
                    Completed::Now | Completed::Before => {}
                    Completed::Lost => outcome = CommitOutcome::Lost(format!("neither the upload of `{key}` nor the object exists")),
                }
            }
            outcomes.push(outcome);
        }
        for part in tokens.iter().flat_map(|token| &token.parts) {
            self.forget(&part.staged)?;
        }
        Ok(outcomes)
    }

    fn abort(&mut self, _: Epoch, tokens: &[CommitToken]) -> Result<()> {
        for token in tokens {
            for part in &self.place.read(token)?.parts {
                self.bucket.abort_upload(&self.key(part)?, &UploadCommitter::uploaded(part)?.0.id)?;
                self.forget(&part.staged)?;
            }
        }
        Ok(())
    }

    fn recover(&mut self, keep: &[CommitToken]) -> Result<()> {
        let mut kept = BTreeSet::new();
        for token in keep {
            kept.extend(self.place.read(token)?.parts.into_iter().map(|part| part.staged));
        }
        for note in self.bucket.list(&format!("{}/", key_of(&self.place.staging)?), Depth::Direct)? {
            let name = note.key.rsplit('/').next().unwrap_or_default();
            let is_older = Place::generation_of(name).is_some_and(|generation| generation < self.place.generation);
            if !is_older || kept.contains(name) {
                continue;
            }
            // One that is gone was given up at the same time by somebody else.
            let Some(text) = self.bucket.get(&note.key)? else { continue };
            let found: Note = serde_json::from_slice(&text).map_err(|error| {
                Error::external(format!("`{}` in `{}` is no note of an upload; remove it", note.key, self.bucket.url())).caused_by(error)
            })?;
            self.bucket.abort_upload(&found.key, &found.id)?;
            self.bucket.delete(&note.key)?;
        }
        Ok(())
    }
}

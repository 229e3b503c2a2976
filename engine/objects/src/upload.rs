//! Objects that are written in parts and appear as a whole when somebody says so, who need not be the one that wrote them.

use crate::bucket::{Bucket, Failure, Pending};
use bytes::Bytes;
use object_store::multipart::{MultipartStore, PartId};
use object_store::{ObjectStoreExt, PutPayload};
use std::sync::Arc;
use tidegate_api::{Error, Result};

/// What completing an upload came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completed {
    /// The object appeared.
    Now,
    /// It had appeared before.
    Before,
    /// There is neither the upload nor the object.
    Lost,
}

/// Parts that the server has, in order.
#[derive(Debug, Default)]
pub struct Sent {
    parts: Vec<String>,
    pending: Option<Pending<PartId>>,
}

impl Sent {
    /// How many parts were handed over.
    pub fn count(&self) -> usize {
        self.parts.len() + usize::from(self.pending.is_some())
    }
}

impl Failure {
    /// Whether an upload is not there: completed, aborted, or never begun.
    fn is_no_upload(&self) -> bool {
        let Failure::Store(error) = self else { return false };
        let text = error.to_string();
        self.is_missing() || ["NoSuchUpload", "MultipartUpload not found", "InvalidBlockList"].iter().any(|sign| text.contains(sign))
    }
}

impl Bucket {
    fn multipart(&self) -> Result<Arc<dyn MultipartStore>> {
        self.multipart.clone().ok_or_else(|| Error::internal(format!("the client of `{}` cannot write in parts", self.url())))
    }

    /// Begins an upload of an object; answers its name. Nothing of it is seen before it is completed.
    ///
    /// # Errors
    /// `External` if the server does not answer.
    pub fn begin_upload(&self, key: &str) -> Result<String> {
        let (store, path) = (self.multipart()?, self.path(key)?);
        self.call(0, async move { store.create_multipart(&path).await }).map_err(|failure| self.failed("write", key, failure))
    }

    /// Sends the next part, and waits for the one before it. All parts but the last are to be of at least 5 MiB.
    ///
    /// # Errors
    /// `External` if the server did not take the one before it.
    pub fn send(&self, key: &str, upload: &str, sent: &mut Sent, bytes: Vec<u8>) -> Result<()> {
        self.settle(key, sent)?;
        let (store, path, upload, number) = (self.multipart()?, self.path(key)?, upload.to_string(), sent.parts.len());
        let length = bytes.len();
        let request = async move { store.put_part(&path, &upload, number, PutPayload::from_bytes(Bytes::from(bytes))).await };
        sent.pending = Some(self.begin(length, request));
        Ok(())
    }

    fn settle(&self, key: &str, sent: &mut Sent) -> Result<()> {
        if let Some(pending) = sent.pending.take() {
            sent.parts.push(pending.wait().map_err(|failure| self.failed("write", key, failure))?.content_id);
        }
        Ok(())
    }

    /// Waits for the last part; answers what the server calls them all.
    ///
    /// # Errors
    /// `External` if the server did not take it.
    pub fn sent(&self, key: &str, mut sent: Sent) -> Result<Vec<String>> {
        self.settle(key, &mut sent)?;
        Ok(sent.parts)
    }

    /// Makes an object of `size` bytes appear. May be said again, by anybody.
    ///
    /// # Errors
    /// `Data` if another object has its name; nothing is replaced. `External` if the server does not answer.
    pub fn complete_upload(&self, key: &str, upload: &str, parts: Vec<String>, size: u64) -> Result<Completed> {
        if self.is_there(key, size)? {
            return Ok(Completed::Before);
        }
        let (store, path, id) = (self.multipart()?, self.path(key)?, upload.to_string());
        let parts = parts.into_iter().map(|content_id| PartId { content_id }).collect();
        match self.call(0, async move { store.complete_multipart(&path, &id, parts).await }) {
            Ok(_) => Ok(Completed::Now),
            // By somebody at the same time, or by this call itself, whose answer was lost.
            Err(_) if self.is_there(key, size)? => Ok(Completed::Before),
            Err(failure) if failure.is_no_upload() => Ok(Completed::Lost),
            Err(failure) => Err(self.failed("make visible", key, failure)),
        }
    }

    fn is_there(&self, key: &str, size: u64) -> Result<bool> {
        match self.head(key)? {
            None => Ok(false),
            Some(found) if found.size == size => Ok(true),
            Some(_) => Err(Error::data(format!(
                "`{key}` in `{}` is there already and is not the part that is to be made visible under this name; nothing is overwritten: move it away \
                 and start again",
                self.url()
            ))),
        }
    }

    /// Gives an upload up, with all that was sent of it. One that is not there is given up already.
    ///
    /// # Errors
    /// `External` if the server does not answer.
    pub fn abort_upload(&self, key: &str, upload: &str) -> Result<()> {
        let (store, path, id) = (self.multipart()?, self.path(key)?, upload.to_string());
        match self.call(0, async move { store.abort_multipart(&path, &id).await }) {
            Err(failure) if !failure.is_no_upload() => Err(self.failed("give up", key, failure)),
            _ => Ok(()),
        }
    }

    /// Writes a small object.
    ///
    /// # Errors
    /// `External` if the server does not answer.
    pub fn put(&self, key: &str, bytes: Vec<u8>) -> Result<()> {
        let (store, path) = (self.store(), self.path(key)?);
        let written = self.call(bytes.len(), async move { store.put(&path, PutPayload::from(bytes)).await });
        written.map(drop).map_err(|failure| self.failed("write", key, failure))
    }

    /// Reads a small object; `None` if it is not there.
    ///
    /// # Errors
    /// `External` if the server does not answer.
    pub fn get(&self, key: &str) -> Result<Option<Bytes>> {
        let (store, path) = (self.store(), self.path(key)?);
        match self.call(0, async move { store.get(&path).await?.bytes().await }) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(failure) if failure.is_missing() => Ok(None),
            Err(failure) => Err(self.failed("read", key, failure)),
        }
    }

    /// Removes an object, which need not be there.
    ///
    /// # Errors
    /// `External` if the server does not answer.
    pub fn delete(&self, key: &str) -> Result<()> {
        let (store, path) = (self.store(), self.path(key)?);
        match self.call(0, async move { store.delete(&path).await }) {
            Err(failure) if !failure.is_missing() => Err(self.failed("delete", key, failure)),
            _ => Ok(()),
        }
    }
}

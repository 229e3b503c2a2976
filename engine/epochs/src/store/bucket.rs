//! A store in a bucket of S3 (or a server that speaks its language), Google Cloud Storage or Azure.
//!
//! [`BucketStore::create`](EpochStore::create) is the provider's conditional write: the request says "only if there is none", and
//! the provider has one winner. A server that ignores the condition breaks the protocol silently, so [`BucketStore::prove`] asks it once.
//!
//! Every call is bounded: a request by [`REQUEST`], its repetitions by [`RETRIES`], the whole call by [`CALL`] and what its bytes take at
//! [`SLOWEST`]. Large objects travel in parts of [`PART`] bytes, so that these bounds hold for them too. Requests run on a
//! thread of the store's own, so a call may come from any thread, one that drives an executor included.

#[cfg(test)]
mod tests;

use super::{Created, EpochStore, check_key, check_prefix};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tidegate_api::{Error, Result};
use tidegate_objects::{Bucket, BucketUrl, Failure, Names};

pub use tidegate_objects::{CALL, CONNECT, REQUEST, RETRIES, SLOWEST, config};

/// Objects larger than this travel in parts of this size, in bytes.
pub const PART: usize = 16 << 20;

/// How many parts of one object travel at once.
const PARTS_AT_ONCE: usize = 4;

/// See the module's documentation.
pub struct BucketStore {
    bucket: Bucket,
}

impl fmt::Debug for BucketStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketStore").field("url", &self.url().to_string()).finish_non_exhaustive()
    }
}

impl BucketStore {
    /// A store at `url` (`s3://BUCKET/PREFIX`, `gs://…`, `az://…`) with `options` by name, see [`config::OPTIONS`]. Asks nobody anything.
    ///
    /// # Errors
    /// `Config` if the address or an option cannot be used.
    pub fn open(url: &str, options: &BTreeMap<String, String>) -> Result<Self> {
        let url = BucketUrl::parse(url).map_err(Error::config)?;
        Ok(BucketStore { bucket: Bucket::open(url, options, Names::STATE)? })
    }

    #[cfg(test)]
    fn over(store: Arc<dyn object_store::ObjectStore>, url: BucketUrl) -> Result<Self> {
        Ok(BucketStore { bucket: Bucket::over(store, url, Names::STATE)? })
    }

    /// Where it is.
    pub fn url(&self) -> &BucketUrl {
        self.bucket.url()
    }

    /// Asks the server to create one object twice, and removes it again: a server that lets both succeed cannot hold epochs.
    ///
    /// # Errors
    /// `Config` if it does, `External` if it does not answer.
    pub fn prove(&self, nonce: &str) -> Result<()> {
        let key = format!("probe/{}", crate::keys::segment(nonce));
        let (first, second) = (self.create(&key, b"1")?, self.create(&key, b"2")?);
        self.delete(&key)?;
        // The first may have been made by a call whose answer was lost.
        let sound = matches!(&second, Created::Exists(found) if found == b"1") && first != Created::Exists(b"2".to_vec());
        if sound {
            return Ok(());
        }
        Err(Error::config(format!(
            "the server of `{}` ignores conditional writes (`If-None-Match: *`), so two runs could overwrite each other's epochs; use a server that honours them, or a state directory",
            self.url()
        )))
    }

    fn path(&self, key: &str) -> Result<Path> {
        let full = match self.url().prefix() {
            "" => key.to_string(),
            prefix => format!("{prefix}/{key}"),
        };
        Path::parse(&full).map_err(|error| Error::internal(format!("`{full}` cannot be the key of a stored object: {error}")))
    }
}

impl EpochStore for BucketStore {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        check_key(key)?;
        let (store, path, body) = (self.bucket.store(), self.path(key)?, Bytes::copy_from_slice(bytes));
        let request = async move {
            if body.len() <= PART {
                return store.put(&path, PutPayload::from_bytes(body)).await.map(|_| ());
            }
            let mut upload = store.put_multipart(&path).await?;
            let parts: Vec<_> = (0..body.len())
                .step_by(PART)
                .map(|start| upload.put_part(PutPayload::from_bytes(body.slice(start..body.len().min(start + PART)))))
                .collect();
            let sent = futures::stream::iter(parts).buffer_unordered(PARTS_AT_ONCE).try_collect::<Vec<()>>().await;
            match sent {
                Ok(_) => upload.complete().await.map(|_| ()),
                Err(error) => {
                    // Parts of an upload that never completes are invisible; the provider's lifecycle rule would remove them too.
                    let _ = upload.abort().await;
                    Err(error)
                }
            }
        };
        self.bucket.call(bytes.len(), request).map_err(|failure| self.bucket.failed("write", key, failure))
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        check_key(key)?;
        let (store, path) = (self.bucket.store(), self.path(key)?);
        // How large the object is turns out on the way: the first answer is bounded by the time of a call, the parts by their own.
        let head = async move {
            let found = store.get(&path).await?;
            let (size, version) = (found.meta.size, found.meta.e_tag.clone());
            if size <= PART as u64 {
                return Ok((size, version, Some(found.bytes().await?)));
            }
            Ok((size, version, None))
        };
        let (size, version) = match self.bucket.call(PART, head) {
            Ok((_, _, Some(bytes))) => return Ok(Some(bytes.into())),
            Ok((size, version, None)) => (size, version),
            Err(failure) if failure.is_missing() => return Ok(None),
            Err(failure) => return Err(self.bucket.failed("read", key, failure)),
        };
        let (store, path) = (self.bucket.store(), self.path(key)?);
        let parts = async move {
            let ranges = (0..size).step_by(PART).map(|start| start..size.min(start + PART as u64));
            let mut parts = futures::stream::iter(ranges.map(|range| {
                let (store, path) = (Arc::clone(&store), path.clone());
                // Parts of one version: a replacement in between is an error, and the caller reads again.
                let options = GetOptions { if_match: version.clone(), range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
                async move { store.get_opts(&path, options).await?.bytes().await }
            }))
            .buffered(PARTS_AT_ONCE);
            let mut whole = Vec::new();
            while let Some(part) = parts.try_next().await? {
                whole.extend_from_slice(&part);
            }
            Ok(whole)
        };
        let length = usize::try_from(size).unwrap_or(usize::MAX);
        self.bucket.call(length, parts).map(Some).map_err(|failure| self.bucket.failed("read", key, failure))
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Created> {
        check_key(key)?;
        let (store, path, body) = (self.bucket.store(), self.path(key)?, Bytes::copy_from_slice(bytes));
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let request = async move { store.put_opts(&path, PutPayload::from_bytes(body), options).await };
        match self.bucket.call(bytes.len(), request) {
            Ok(_) => Ok(Created::New),
            Err(Failure::Store(object_store::Error::AlreadyExists { .. })) => match self.get(key)? {
                Some(found) => Ok(Created::Exists(found)),
                // Removed meanwhile; or the provider refused one of two that came together, before either was there.
                None => Err(Error::external(format!("`{key}` in bucket `{}` was there and is gone; try again", self.url().bucket()))),
            },
            Err(failure) => Err(self.bucket.failed("create", key, failure)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        check_prefix(prefix)?;
        let folder = self.path(prefix.trim_end_matches('/'))?;
        let own = match self.url().prefix() {
            "" => String::new(),
            own => format!("{own}/"),
        };
        let store = self.bucket.store();
        let request = async move {
            let folder = (!folder.as_ref().is_empty()).then_some(folder);
            let found = store.list(folder.as_ref()).map_ok(|object| object.location.as_ref().to_string());
            found.try_collect::<Vec<String>>().await
        };
        let found = self.bucket.call(0, request).map_err(|failure| self.bucket.failed("list", prefix, failure))?;
        let keys = found.iter().filter_map(|location| location.strip_prefix(own.as_str()));
        // What is no key is somebody else's, as in a directory.
        let mut keys: Vec<String> = keys.filter(|key| check_key(key).is_ok() && key.starts_with(prefix)).map(str::to_string).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    fn delete(&self, key: &str) -> Result<()> {
        check_key(key)?;
        let (store, path) = (self.bucket.store(), self.path(key)?);
        match self.bucket.call(0, async move { store.delete(&path).await }) {
            Ok(()) => Ok(()),
            Err(failure) if failure.is_missing() => Ok(()),
            Err(failure) => Err(self.bucket.failed("delete", key, failure)),
        }
    }
}

//! A store in a bucket of S3 (or a server that speaks its language), Google Cloud Storage or Azure.
//!
//! [`BucketStore::create`](EpochStore::create) is the provider's conditional write: the request says "only if there is none", and
//! the provider has one winner. A server that ignores the condition breaks the protocol silently, so [`BucketStore::prove`] asks it once.
//!
//! Every call is bounded: a request by [`REQUEST`], its repetitions by [`RETRIES`], the whole call by [`CALL`] and what its bytes take at
//! [`SLOWEST`]. Large objects travel in parts of [`PART`] bytes, so that these bounds hold for them too. Requests run on a
//! thread of the store's own, so a call may come from any thread, one that drives an executor included.

pub mod config;
#[cfg(test)]
mod tests;

use super::{Created, EpochStore, check_key, check_prefix};
use bytes::Bytes;
use config::BucketUrl;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;
use tidegate_api::{Error, Result};
use tokio::runtime::Runtime;

/// How long one request may take.
pub const REQUEST: Duration = Duration::from_secs(60);

/// How long finding the server may take.
pub const CONNECT: Duration = Duration::from_secs(5);

/// How often a request is repeated within a call.
pub const RETRIES: usize = 4;

/// How long a call may take that moves no bytes to speak of.
pub const CALL: Duration = Duration::from_secs(120);

/// Bytes a second below which a large transfer counts as stuck.
pub const SLOWEST: u64 = 1 << 20;

/// Objects larger than this travel in parts of this size, in bytes.
pub const PART: usize = 16 << 20;

/// How many parts of one object travel at once.
const PARTS_AT_ONCE: usize = 4;

/// See the module's documentation.
pub struct BucketStore {
    store: Arc<dyn ObjectStore>,
    url: BucketUrl,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl fmt::Debug for BucketStore {
    // Without the provider's client, which holds credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BucketStore").field("url", &self.url.to_string()).finish_non_exhaustive()
    }
}

impl Drop for BucketStore {
    fn drop(&mut self) {
        // Waiting for the thread is forbidden on an executor's thread, and nothing is under way any more.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl BucketStore {
    /// A store at `url` (`s3://BUCKET/PREFIX`, `gs://…`, `az://…`) with `options` by name, see [`config::OPTIONS`]. Asks nobody anything.
    ///
    /// # Errors
    /// `Config` if the address or an option cannot be used.
    pub fn open(url: &str, options: &BTreeMap<String, String>) -> Result<Self> {
        let url = BucketUrl::parse(url).map_err(Error::config)?;
        let store = config::build(&url, options)?;
        BucketStore::over(store, url)
    }

    fn over(store: Arc<dyn ObjectStore>, url: BucketUrl) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tidegate-bucket")
            .enable_all()
            .build()
            .map_err(|error| Error::external(format!("no thread for the store `{url}`: {error}")).caused_by(error))?;
        Ok(BucketStore { store, url, runtime: Some(runtime) })
    }

    /// Where it is.
    pub fn url(&self) -> &BucketUrl {
        &self.url
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
            self.url
        )))
    }

    fn path(&self, key: &str) -> Result<Path> {
        let full = match self.url.prefix() {
            "" => key.to_string(),
            prefix => format!("{prefix}/{key}"),
        };
        Path::parse(&full).map_err(|error| Error::internal(format!("`{full}` cannot be the key of a stored object: {error}")))
    }

    /// Runs a request to its end, or to the end of its time.
    fn call<T: Send + 'static>(
        &self,
        bytes: usize,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> std::result::Result<T, Failure> {
        let Some(runtime) = &self.runtime else { return Err(Failure::Ended) };
        let limit = CALL + Duration::from_secs(bytes as u64 / SLOWEST);
        let (answer, answered) = mpsc::sync_channel(1);
        runtime.spawn(async move {
            let outcome = match tokio::time::timeout(limit, request).await {
                Ok(Ok(found)) => Ok(found),
                Ok(Err(error)) => Err(Failure::Store(error)),
                Err(_) => Err(Failure::TooLong(limit)),
            };
            let _ = answer.send(outcome);
        });
        answered.recv().unwrap_or(Err(Failure::Ended))
    }

    fn failed(&self, what: &str, key: &str, failure: Failure) -> Error {
        let place = format!("cannot {what} `{key}` in bucket `{}` ({})", self.url.bucket(), self.url);
        match failure {
            Failure::Ended => Error::internal(format!("{place}: the store's thread has ended")),
            Failure::TooLong(limit) => Error::external(format!(
                "{place}: no answer within {} s; {}",
                limit.as_secs(),
                config::fix(&self.url, config::Trouble::Unreachable)
            )),
            Failure::Store(error) => {
                let trouble = config::trouble(&error);
                let fix = config::fix(&self.url, trouble);
                // The client's error itself is not kept as the cause: its text may hold a signature.
                Error::external(format!("{place}: {}; {fix}", config::readable(&error)))
            }
        }
    }
}

/// Why a call gave nothing.
enum Failure {
    Store(object_store::Error),
    TooLong(Duration),
    Ended,
}

impl EpochStore for BucketStore {
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        check_key(key)?;
        let (store, path, body) = (Arc::clone(&self.store), self.path(key)?, Bytes::copy_from_slice(bytes));
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
        self.call(bytes.len(), request).map_err(|failure| self.failed("write", key, failure))
    }

    fn get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        check_key(key)?;
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        // How large the object is turns out on the way: the first answer is bounded by the time of a call, the parts by their own.
        let head = async move {
            let found = store.get(&path).await?;
            let (size, version) = (found.meta.size, found.meta.e_tag.clone());
            if size <= PART as u64 {
                return Ok((size, version, Some(found.bytes().await?)));
            }
            Ok((size, version, None))
        };
        let (size, version) = match self.call(PART, head) {
            Ok((_, _, Some(bytes))) => return Ok(Some(bytes.into())),
            Ok((size, version, None)) => (size, version),
            Err(Failure::Store(error)) if config::trouble(&error) == config::Trouble::NoObject => return Ok(None),
            Err(failure) => return Err(self.failed("read", key, failure)),
        };
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
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
        self.call(length, parts).map(Some).map_err(|failure| self.failed("read", key, failure))
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<Created> {
        check_key(key)?;
        let (store, path, body) = (Arc::clone(&self.store), self.path(key)?, Bytes::copy_from_slice(bytes));
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let request = async move { store.put_opts(&path, PutPayload::from_bytes(body), options).await };
        match self.call(bytes.len(), request) {
            Ok(_) => Ok(Created::New),
            Err(Failure::Store(object_store::Error::AlreadyExists { .. })) => match self.get(key)? {
                Some(found) => Ok(Created::Exists(found)),
                // Removed meanwhile; or the provider refused one of two that came together, before either was there.
                None => Err(Error::external(format!("`{key}` in bucket `{}` was there and is gone; try again", self.url.bucket()))),
            },
            Err(failure) => Err(self.failed("create", key, failure)),
        }
    }

    fn list(&self, prefix: &str) -> Result<Vec<String>> {
        check_prefix(prefix)?;
        let folder = self.path(prefix.trim_end_matches('/'))?;
        let own = match self.url.prefix() {
            "" => String::new(),
            own => format!("{own}/"),
        };
        let store = Arc::clone(&self.store);
        let request = async move {
            let folder = (!folder.as_ref().is_empty()).then_some(folder);
            let found = store.list(folder.as_ref()).map_ok(|object| object.location.as_ref().to_string());
            found.try_collect::<Vec<String>>().await
        };
        let found = self.call(0, request).map_err(|failure| self.failed("list", prefix, failure))?;
        let keys = found.iter().filter_map(|location| location.strip_prefix(own.as_str()));
        // What is no key is somebody else's, as in a directory.
        let mut keys: Vec<String> = keys.filter(|key| check_key(key).is_ok() && key.starts_with(prefix)).map(str::to_string).collect();
        keys.sort_unstable();
        Ok(keys)
    }

    fn delete(&self, key: &str) -> Result<()> {
        check_key(key)?;
        let (store, path) = (Arc::clone(&self.store), self.path(key)?);
        match self.call(0, async move { store.delete(&path).await }) {
            Ok(()) => Ok(()),
            Err(Failure::Store(error)) if config::trouble(&error) == config::Trouble::NoObject => Ok(()),
            Err(failure) => Err(self.failed("delete", key, failure)),
        }
    }
}

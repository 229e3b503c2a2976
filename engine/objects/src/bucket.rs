//! A bucket that is asked by blocking calls.

use crate::config::{self, BucketUrl, Names, Trouble};
use crate::{CALL, SLOWEST};
use futures::TryStreamExt;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tidegate_api::{Error, Result};
use tokio::runtime::Runtime;

/// A client of one bucket. Does no I/O before it is asked something.
pub struct Bucket {
    store: Arc<dyn ObjectStore>,
    /// The same client, for uploads; one that is given from outside may have none.
    pub(crate) multipart: Option<Arc<dyn MultipartStore>>,
    url: BucketUrl,
    names: Names,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl fmt::Debug for Bucket {
    // Without the provider's client, which holds credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("url", &self.url.to_string()).finish_non_exhaustive()
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        // Waiting for the thread is forbidden on an executor's thread, and nothing is under way any more.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Why a call gave nothing.
#[derive(Debug)]
pub enum Failure {
    /// The client or the server said so.
    Store(object_store::Error),
    /// There was no answer for so long.
    TooLong(Duration),
    /// The bucket's thread has ended.
    Ended,
}

impl Failure {
    /// Whether the object is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Failure::Store(error) if config::trouble(error) == Trouble::NoObject)
    }
}

/// An answer that is under way.
#[derive(Debug)]
pub struct Pending<T>(mpsc::Receiver<std::result::Result<T, Failure>>);

impl<T> Pending<T> {
    /// Waits for it; its time is bounded since it was asked.
    ///
    /// # Errors
    /// Why there is none.
    pub fn wait(self) -> std::result::Result<T, Failure> {
        self.0.recv().unwrap_or(Err(Failure::Ended))
    }
}

/// How deep a listing goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// What lies directly below the prefix.
    Direct,
    /// Everything below it.
    All,
}

/// One version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its name in the bucket.
    pub key: String,
    /// How long it is.
    pub size: u64,
    /// When it was written, in microseconds since 1970, by the server's clock.
    pub modified: i64,
    /// What the server calls this version, if it does.
    pub etag: Option<String>,
}

impl From<ObjectMeta> for ObjectInfo {
    fn from(about: ObjectMeta) -> Self {
        let modified = about.last_modified.timestamp_micros();
        ObjectInfo { key: about.location.to_string(), size: about.size, modified, etag: about.e_tag }
    }
}

impl Bucket {
    /// The bucket at `url` with `options` by name, see [`config::OPTIONS`].
    ///
    /// # Errors
    /// `Config` if an option cannot be used.
    pub fn open(url: BucketUrl, options: &BTreeMap<String, String>, names: Names) -> Result<Self> {
        let (store, multipart) = config::build(&url, options)?;
        Ok(Bucket::over(store, url, names)?.with_multipart(multipart))
    }

    /// Says that the client made outside can write in parts.
    #[must_use]
    pub fn with_multipart(mut self, multipart: Arc<dyn MultipartStore>) -> Self {
        self.multipart = Some(multipart);
        self
    }

    /// A bucket that somebody else has made, such as one in memory.
    ///
    /// # Errors
    /// `External` if there is no thread for it.
    pub fn over(store: Arc<dyn ObjectStore>, url: BucketUrl, names: Names) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("tidegate-bucket")
            .enable_all()
            .build()
            .map_err(|error| Error::external(format!("no thread for the store `{url}`: {error}")).caused_by(error))?;
        Ok(Bucket { store, multipart: None, url, names, runtime: Some(runtime) })
    }

    /// Where it is.
    pub fn url(&self) -> &BucketUrl {
        &self.url
    }

    /// The provider's client, for requests made in [`Bucket::call`].
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store)
    }

    /// Begins a request that moves about so many bytes.
    pub fn begin<T: Send + 'static>(
        &self,
        bytes: usize,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Pending<T> {
        let (answer, answered) = mpsc::sync_channel(1);
        let limit = CALL + Duration::from_secs(bytes as u64 / SLOWEST);
        match &self.runtime {
            None => drop(answer.send(Err(Failure::Ended))),
            Some(runtime) => drop(runtime.spawn(async move {
                let outcome = match tokio::time::timeout(limit, request).await {
                    Ok(Ok(found)) => Ok(found),
                    Ok(Err(error)) => Err(Failure::Store(error)),
                    Err(_) => Err(Failure::TooLong(limit)),
                };
                let _ = answer.send(outcome);
            })),
        }
        Pending(answered)
    }

    /// Runs a request to its end, or to the end of its time.
    ///
    /// # Errors
    /// Why it gave nothing.
    pub fn call<T: Send + 'static>(
        &self,
        bytes: usize,
        request: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> std::result::Result<T, Failure> {
        self.begin(bytes, request).wait()
    }

    /// What to tell of a failure: what was done to which key, where, why it failed, and what to do.
    pub fn failed(&self, what: &str, key: &str, failure: Failure) -> Error {
        let place = format!("cannot {what} `{key}` in bucket `{}` ({})", self.url.bucket(), self.url);
        match failure {
            Failure::Ended => Error::internal(format!("{place}: the store's thread has ended")),
            Failure::TooLong(limit) => Error::external(format!(
                "{place}: no answer within {} s; {}",
                limit.as_secs(),
                config::fix(&self.url, self.names, Trouble::Unreachable)
            )),
            Failure::Store(error) => {
                let fix = config::fix(&self.url, self.names, config::trouble(&error));
                // The client's error itself is not kept as the cause: its text may hold a signature.
                Error::external(format!("{place}: {}; {fix}", config::readable(&error)))
            }
        }
    }

    pub(crate) fn path(&self, key: &str) -> Result<Path> {
        Path::parse(key).map_err(|error| Error::config(format!("`{key}` cannot be the key of an object in `{}`: {error}", self.url)))
    }

    /// The objects below a prefix that ends at a slash or is empty, by key. A name that ends in a slash is a folder and not listed.
    ///
    /// # Errors
    /// `External` if the server does not answer.
    pub fn list(&self, prefix: &str, depth: Depth) -> Result<Vec<ObjectInfo>> {
        let folder = self.path(prefix.trim_end_matches('/'))?;
        let store = self.store();
        let request = async move {
            let folder = (!folder.as_ref().is_empty()).then_some(folder);
            match depth {
                Depth::All => store.list(folder.as_ref()).try_collect::<Vec<ObjectMeta>>().await,
                Depth::Direct => Ok(store.list_with_delimiter(folder.as_ref()).await?.objects),
            }
        };
        let found = self.call(0, request).map_err(|failure| self.failed("list", prefix, failure))?;
        let mut found: Vec<ObjectInfo> = found.into_iter().map(ObjectInfo::from).collect();
        found.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(found)
    }

    /// What is said of an object; `None` if it is not there.
    ///
    /// # Errors
    /// `External` if the server does not answer.
    pub fn head(&self, key: &str) -> Result<Option<ObjectInfo>> {
        let (store, path) = (self.store(), self.path(key)?);
        match self.call(0, async move { store.head(&path).await }) {
            Ok(about) => Ok(Some(about.into())),
            Err(failure) if failure.is_missing() => Ok(None),
            Err(failure) => Err(self.failed("look at", key, failure)),
        }
    }

    /// Asks for a part of one version of an object.
    pub(crate) fn range(&self, object: &ObjectInfo, range: Range<u64>) -> Result<Pending<bytes::Bytes>> {
        let (store, path) = (self.store(), self.path(&object.key)?);
        let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        let options = GetOptions { if_match: object.etag.clone(), range: Some(GetRange::Bounded(range)), ..GetOptions::default() };
        Ok(self.begin(length, async move { store.get_opts(&path, options).await?.bytes().await }))
    }
}

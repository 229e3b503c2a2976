//! Where a test keeps epochs: a directory, or a prefix of its own on an S3 server: the one that `TIDEGATE_TEST_S3` names, or a mortal one.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use tidegate::epochs::{BucketStore, DirectoryStore, EpochStore};

/// A place that no other test uses.
pub enum Place {
    /// A directory.
    Directory(tempfile::TempDir),
    /// A prefix.
    S3 {
        /// Its address.
        url: String,
        /// The server's.
        endpoint: String,
    },
}

/// The keys of the test server.
const KEYS: [(&str, &str); 2] = [("accessKeyId", "test"), ("secretAccessKey", "testsecret")];

impl Place {
    /// A directory of its own.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn directory() -> Self {
        Place::Directory(tempfile::tempdir().expect("a temporary folder can be made"))
    }

    /// A prefix of its own. The server outlives the test, so the name differs from run to run.
    ///
    /// # Panics
    /// If no server is named.
    pub fn s3() -> Self {
        Place::s3_at(&server())
    }

    /// The same on a given server.
    ///
    /// # Panics
    /// Never: a clock before 1970 counts as 1970.
    #[allow(clippy::disallowed_methods, reason = "a name, not a time")]
    pub fn s3_at(endpoint: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_nanos();
        let url = format!("s3://tidegate/tests/{now}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst));
        Place::S3 { url, endpoint: endpoint.to_string() }
    }

    /// Another place of the same kind.
    #[must_use]
    pub fn another(&self) -> Self {
        match self {
            Place::Directory(_) => Place::directory(),
            Place::S3 { endpoint, .. } => Place::s3_at(endpoint),
        }
    }

    /// The lines of `[settings]` that keep epochs here; keys come from the environment, as [`Place::variables`] has them.
    pub fn settings(&self) -> String {
        match self {
            Place::Directory(folder) => format!("stateDir = {:?}", folder.path()),
            Place::S3 { url, .. } => format!("stateUrl = {url:?}"),
        }
    }

    /// Its name at the shell.
    pub fn name(&self) -> String {
        match self {
            Place::Directory(folder) => folder.path().display().to_string(),
            Place::S3 { url, .. } => url.clone(),
        }
    }

    /// The environment of a command that is to reach it.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        match self {
            Place::Directory(_) => Vec::new(),
            Place::S3 { endpoint, .. } => vec![
                ("AWS_ENDPOINT_URL", endpoint.clone()),
                ("AWS_ACCESS_KEY_ID", KEYS[0].1.to_string()),
                ("AWS_SECRET_ACCESS_KEY", KEYS[1].1.to_string()),
            ],
        }
    }

    /// `stateOptions`, for whoever does not take them from the environment.
    pub fn options(&self) -> BTreeMap<String, String> {
        let Place::S3 { endpoint, .. } = self else { return BTreeMap::new() };
        let mut options: BTreeMap<String, String> = KEYS.map(|(name, value)| (name.to_string(), value.to_string())).into();
        options.insert("endpoint".to_string(), endpoint.clone());
        options
    }

    /// The store itself.
    ///
    /// # Panics
    /// If it cannot be opened.
    pub fn store(&self) -> Box<dyn EpochStore> {
        match self {
            Place::Directory(folder) => Box::new(DirectoryStore::open(folder.path()).expect("a folder can hold a store")),
            Place::S3 { url, .. } => Box::new(BucketStore::open(url, &self.options()).expect("the server's address is sound")),
        }
    }

    /// Copies everything that another place holds.
    ///
    /// # Panics
    /// If a store does not answer.
    pub fn fill_from(&self, other: &Place) {
        let (from, to) = (other.store(), self.store());
        for key in from.list("").expect("a store can be listed") {
            let bytes = from.get(&key).expect("a store can be read").expect("what is listed is there");
            to.put(&key, &bytes).expect("a store can be written");
        }
    }

    /// Everything it holds.
    ///
    /// # Panics
    /// If the store does not answer.
    pub fn contents(&self) -> BTreeMap<String, Vec<u8>> {
        let store = self.store();
        let keys = store.list("").expect("a store can be listed");
        // A start asks a bucket's server whether it is sound, and leaves nothing of that.
        keys.into_iter().map(|key| (key.clone(), store.get(&key).expect("a store can be read").unwrap_or_default())).collect()
    }

    /// The directory, if it is one.
    pub fn path(&self) -> Option<PathBuf> {
        match self {
            Place::Directory(folder) => Some(folder.path().to_path_buf()),
            Place::S3 { .. } => None,
        }
    }
}

fn server() -> String {
    std::env::var("TIDEGATE_TEST_S3").expect("TIDEGATE_TEST_S3 names no server; `cargo xtask services up s3` starts one")
}

//! Named objects that outlive the process: all that epochs ask of a disk or a bucket.
//!
//! The whole protocol rests on one promise, that of [`EpochStore::create`]: of any number of callers on any number of
//! machines exactly one is told [`Created::New`]. `testkit::store_contract` checks it, and every implementation's test calls that.

#[cfg(feature = "buckets")]
pub mod bucket;
pub mod directory;
pub mod memory;
pub mod staging;

use std::fmt;
use tidegate_api::{Error, Result};

/// The answer to a create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// The key was absent; the object is durable and the caller is the one who made it.
    New,
    /// Somebody made it before (perhaps the caller, in a call whose answer was lost); these are its bytes.
    Exists(Vec<u8>),
}

/// A store of small and large objects. Shared and called from any thread; calls block until the store has answered.
///
/// An `External` error says nothing about the effect: the object may or may not have been written. Callers repeat the
/// call, and every method is made so that repeating it is harmless.
///
/// Keys are checked by [`check_key`]; an implementation refuses others.
pub trait EpochStore: Send + Sync + fmt::Debug {
    /// Writes an object, replacing one of the same key as a whole: a reader sees the old or the new bytes. Durable on return.
    ///
    /// # Errors
    /// `External` if the store did not confirm.
    fn put(&self, key: &str, bytes: &[u8]) -> Result<()>;

    /// Reads an object; `None` if there is none.
    ///
    /// # Errors
    /// `External` if the store could not be asked.
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>>;

    /// Writes an object if the key is absent, else answers with what is there. Durable on return, also when it answers
    /// `Exists`: what one caller was shown, no crash takes back.
    ///
    /// # Errors
    /// `External` if the store did not confirm.
    fn create(&self, key: &str, bytes: &[u8]) -> Result<Created>;

    /// All keys that start with `prefix` (empty, or ending in `/`), sorted. Sees every write that returned before the call.
    ///
    /// # Errors
    /// `External` if the store could not be asked.
    fn list(&self, prefix: &str) -> Result<Vec<String>>;

    /// Removes an object; removing none is no error.
    ///
    /// # Errors
    /// `External` if the store did not confirm.
    fn delete(&self, key: &str) -> Result<()>;
}

/// The longest part of a key between two slashes; what common file systems take, with room for a temporary suffix.
pub const MAX_SEGMENT: usize = 200;

/// Refuses a key that is not a relative path of plain segments: letters, digits and `-_.%=+@~`, no segment empty, longer than
/// [`MAX_SEGMENT`] or beginning with a dot. So no key leaves the store's root, and every store can hold every key.
///
/// # Errors
/// `Internal`: keys are made by the engine, which encodes what comes from outside with [`crate::keys::segment`].
pub fn check_key(key: &str) -> Result<()> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.%=+@~".contains(c);
    let sound =
        |segment: &str| !segment.is_empty() && segment.len() <= MAX_SEGMENT && !segment.starts_with('.') && segment.chars().all(plain);
    if key.split('/').all(sound) { Ok(()) } else { Err(Error::internal(format!("`{key}` cannot be the key of a stored object"))) }
}

/// Refuses a prefix that is not empty and not a key followed by a slash.
///
/// # Errors
/// `Internal`, as for [`check_key`].
pub fn check_prefix(prefix: &str) -> Result<()> {
    match prefix.strip_suffix('/') {
        Some(folder) => check_key(folder),
        None if prefix.is_empty() => Ok(()),
        None => Err(Error::internal(format!("`{prefix}` is no prefix to list; it must end in `/`"))),
    }
}
